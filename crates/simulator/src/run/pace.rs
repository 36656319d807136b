//! Speed of the user.

use tokio::time::Duration;

/// Speed of the user within a step, compared with that of the operator.
///
/// A step may write twice to one object, or delete it and create it again. The operator then acts on the state in between or does not, and both are
/// right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// The user's requests take turns with those of the other programs.
    Usual,
    /// The user waits before each write, so that the operator acts on every state.
    Slow,
    /// The user's requests come before everything else, so that the operator acts on the last state only.
    Fast,
}

impl Pace {
    /// Time that the user waits before each write: longer than most operators wait between two looks at the world.
    pub(crate) fn wait_before_writes(self) -> Duration {
        match self {
            Self::Usual | Self::Fast => Duration::ZERO,
            Self::Slow => Duration::from_secs(120),
        }
    }
}
