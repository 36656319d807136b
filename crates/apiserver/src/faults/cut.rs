//! Watch faults that take effect after a number of events.

use tokio::time::Duration;

use super::WatchFault;

/// A watch fault and the number of events until it takes effect; bookmarks do not count.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cut {
    left: u64,
    effect: CutEffect,
}

/// Effect on a watch once the number of events is reached.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CutEffect {
    Close,
    Expire,
    Stall,
    Hold(Duration),
}

impl Cut {
    /// Returns `None` if the fault does not depend on a number of events.
    pub(crate) fn of(fault: WatchFault) -> Option<Self> {
        let (left, effect) = match fault {
            WatchFault::CloseAfterEvents(events) => (events, CutEffect::Close),
            WatchFault::ExpireAfterEvents(events) => (events, CutEffect::Expire),
            WatchFault::StallAfterEvents(events) => (events, CutEffect::Stall),
            WatchFault::HoldAfterEvents { events, time } => (events, CutEffect::Hold(time)),
            WatchFault::CloseAfter(_)
            | WatchFault::StallAfter(_)
            | WatchFault::Late(_)
            | WatchFault::NoBookmarks
            | WatchFault::Drop(_)
            | WatchFault::Duplicate(_)
            | WatchFault::Reorder(_) => return None,
        };
        Some(Self { left, effect })
    }

    /// Counts a sent event.
    pub(crate) fn count(&mut self) {
        self.left = self.left.saturating_sub(1);
    }

    /// Returns the effect, once no event is left.
    pub(crate) fn due(self) -> Option<CutEffect> {
        (self.left == 0).then_some(self.effect)
    }
}
