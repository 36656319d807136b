//! Priorities of keys, and how long a lower one may be passed over.

use std::num::NonZeroU32;
use std::time::Duration;

/// The priority of a key: keys of a higher priority are handed out first, until those of a lower one have waited too long.
///
/// Three named priorities replace Go's arbitrary integers: they bound the number of metric series and state their
/// purpose. Go's `LowPriority` (−100) is [`Low`](Self::Low), its 0 is [`Normal`](Self::Normal).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Priority {
    /// Background work: the initial list, periodic resyncs.
    Low,
    /// Reactions to changes.
    #[default]
    Normal,
    /// Work that must not wait behind the rest, for example because a person waits for it.
    High,
}

impl Priority {
    /// All priorities, the highest first.
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

/// Limits on how long and how often a lower priority is passed over.
///
/// A priority is passed over when a key of a higher one is handed out while it has ready keys. `after` later it is *aged*,
/// until it has no ready key any more. While priorities are aged, at least one in `every` hand-outs is a key of an aged one; if
/// both lower priorities are aged, they take turns. So if `p` keys of a key's priority became ready before it, the key is among
/// the first `(p + 1) × every` hand-outs after its priority has aged, or twice that while both lower priorities are aged,
/// whatever is added with higher priorities. The higher priorities keep all but one in `every` of the hand-outs, whatever waits
/// with lower ones.
/// (With [flows](crate::Options::fair_by) each priority offers the key of the flow that has its turn, and `p` counts turns.)
///
/// Ages are tracked by priority instead of by key, so that the clock is not read while only one priority has ready keys.
///
/// Ageing grants a share of the hand-outs instead of a rising rank, because otherwise a backlog of a hundred thousand old keys
/// of low priority would push every new event behind all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ageing {
    /// Time for which a lower priority may be passed over without limit. Default: 1 s.
    pub after: Duration,
    /// While a priority is aged, one in this many hand-outs is a key of an aged priority. Default: 4.
    pub every: NonZeroU32,
}

impl Default for Ageing {
    fn default() -> Self {
        const FOUR: NonZeroU32 = NonZeroU32::new(4).expect("four is not zero");
        Self { after: Duration::from_secs(1), every: FOUR }
    }
}
