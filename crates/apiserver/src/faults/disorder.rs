//! Watch faults that drop, duplicate or reorder events: the pure core.

use super::{WatchFault, When};

/// Drops, duplicates or reorders selected events of one watch.
#[derive(Debug)]
pub(crate) struct Disorder<T> {
    kind: DisorderKind,
    when: When,
    seen: u64,
    random: fastrand::Rng,
    /// Event held back until the next one has been sent.
    held: Option<T>,
}

#[derive(Debug, Clone, Copy)]
enum DisorderKind {
    Drop,
    Duplicate,
    Reorder,
}

impl<T: Clone> Disorder<T> {
    /// Returns `None` for any other fault.
    pub(crate) fn of(fault: WatchFault, seed: u64) -> Option<Self> {
        let (kind, when) = match fault {
            WatchFault::Drop(when) => (DisorderKind::Drop, when),
            WatchFault::Duplicate(when) => (DisorderKind::Duplicate, when),
            WatchFault::Reorder(when) => (DisorderKind::Reorder, when),
            _ => return None,
        };
        Some(Self { kind, when, seen: 0, random: fastrand::Rng::with_seed(seed), held: None })
    }

    /// Returns the events to send when `event` is due.
    pub(crate) fn pass(&mut self, event: T) -> impl Iterator<Item = T> + use<T> {
        self.seen += 1;
        // While one event is held back, the event that overtakes it is not held back itself.
        let picked = self.when.is_due(self.seen, &mut self.random) && self.held.is_none();
        let (first, second) = match self.kind {
            DisorderKind::Drop if picked => (None, None),
            DisorderKind::Duplicate if picked => (Some(event.clone()), Some(event)),
            DisorderKind::Reorder if picked => {
                self.held = Some(event);
                (None, None)
            }
            // An event that was held back follows the next event.
            _ => (Some(event), self.held.take()),
        };
        first.into_iter().chain(second)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sent(fault: WatchFault, seed: u64, events: u32) -> Vec<u32> {
        let mut disorder = Disorder::of(fault, seed).unwrap();
        (1..=events).flat_map(|event| disorder.pass(event)).collect()
    }

    #[test]
    fn picked_events_are_dropped_duplicated_or_delayed_by_one() {
        assert_eq!(sent(WatchFault::Drop(When::Every(3)), 0, 7), [1, 2, 4, 5, 7]);
        assert_eq!(sent(WatchFault::Duplicate(When::Nth(2)), 0, 3), [1, 2, 2, 3]);
        assert_eq!(sent(WatchFault::Reorder(When::Every(2)), 0, 6), [1, 3, 2, 5, 4], "the last still waits");
        assert_eq!(sent(WatchFault::Reorder(When::Always), 0, 5), [2, 1, 4, 3]);
    }

    proptest! {
        #[test]
        fn no_event_is_invented_and_each_moves_at_most_one_place(
            which in 0usize..3,
            probability in 0.0..1.0f64,
            seed in any::<u64>(),
            events in 0u32..40,
        ) {
            let when = When::Probability(probability);
            let fault = [WatchFault::Drop(when), WatchFault::Duplicate(when), WatchFault::Reorder(when)][which];
            let sent = sent(fault, seed, events);
            prop_assert_eq!(&sent, &self::sent(fault, seed, events), "the same seed");
            let mut sorted = sent.clone();
            sorted.sort_unstable();
            sorted.dedup();
            match fault {
                WatchFault::Drop(_) => prop_assert_eq!(&sent, &sorted, "in order, none twice"),
                WatchFault::Duplicate(_) => {
                    prop_assert_eq!(sorted.len() as u32, events, "all");
                    prop_assert!(sent.is_sorted() && sent.chunk_by(|a, b| a == b).all(|run| run.len() <= 2));
                }
                _ => {
                    // Every event arrives except perhaps the last one, each at most one place from its original one.
                    prop_assert!(events - sent.len() as u32 <= 1);
                    prop_assert_eq!(sorted.len(), sent.len(), "none twice");
                    prop_assert!(sent.iter().zip(1..).all(|(event, place)| event.abs_diff(place) <= 1));
                }
            }
        }
    }
}
