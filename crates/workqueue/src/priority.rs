//! Classes of keys, and how long a lower one may be passed over.

use std::num::NonZeroU32;
use std::time::Duration;

/// The class of a key: keys of a higher class are handed out first, until those of a lower one have waited too long.
///
/// Three named classes instead of Go's arbitrary integers: they bound the number of metric series and say what they are
/// for. Go's `LowPriority` (−100) is [`Low`](Self::Low), its 0 is [`Normal`](Self::Normal).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Priority {
    /// Work that nobody waits for: the initial list, periodic resyncs.
    Low,
    /// What has really happened.
    #[default]
    Normal,
    /// What must not wait behind the rest, such as a person at a prompt.
    High,
}

impl Priority {
    /// All classes, the highest first.
    pub const ALL: [Self; 3] = [Self::High, Self::Normal, Self::Low];

    /// The name, for labels and logs: `high`, `normal`, `low`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Normal => "normal",
            Self::High => "high",
        }
    }
}

/// How long and how often a lower class may be passed over.
///
/// A class is passed over when a key of a higher one is handed out while it has ready keys; `after` later it is *aged*,
/// until it has no ready key any more. While classes are aged, at least one in `every` keys handed out is of one of them; if
/// both lower classes are, they take turns. So a key before which `p` keys of its class became ready is handed out among
/// the first `(p + 1) × every` after its class has aged, twice that while both lower classes are, whatever is added to the
/// higher classes; and these keep all but one in `every` of the hand-outs, whatever waits below. (With
/// [flows](crate::Options::fair_by) each class offers the key of the flow whose turn it is, and `p` counts turns.)
///
/// Ages are those of classes and not of keys, so nobody looks at a clock while only one class has ready keys.
///
/// A share and not an ever higher rank, because a backlog of a hundred thousand old keys of a low class would else push
/// every new event behind all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ageing {
    /// How long a lower class is passed over without limit. Default: 1 s.
    pub after: Duration,
    /// While a class is aged, one in so many keys handed out is of such a class. Default: 4.
    pub every: NonZeroU32,
}

impl Default for Ageing {
    fn default() -> Self {
        const FOUR: NonZeroU32 = NonZeroU32::new(4).expect("four is not zero");
        Self { after: Duration::from_secs(1), every: FOUR }
    }
}
