//! Deletions observed on standby, replayed after the election. Pure.

use std::{collections::VecDeque, time::Duration};

use tokio::time::Instant;

use crate::{cache::objects::event::Event, object::Object};

/// Time for which a deletion is remembered. A new leader usually takes over within seconds; ten minutes also cover a slow
/// handover, such as a deployment that hangs.
const REMEMBERED: Duration = Duration::from_secs(10 * 60);

/// Maximum number of remembered deletions; then the oldest is dropped.
const MOST: usize = 1000;

/// Which deletions controllers receive when they start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeletionReplay {
    /// None: controllers start with the manager.
    Never,
    /// Recent ones: controllers may start later, after an election.
    AfterElection,
}

impl DeletionReplay {
    /// Returns the choice for a manager with or without leader election.
    pub(crate) fn with<E>(election: Option<&E>) -> Self {
        if election.is_some() { Self::AfterElection } else { Self::Never }
    }
}

/// Recent deletions with the last states of the objects.
pub(in crate::cache) struct Tombstones<K: Object> {
    /// In the order of deletion.
    deletes: VecDeque<(Instant, Event<K>)>,
}

impl<K: Object> Tombstones<K> {
    /// Records a delete event and ignores others. Appends dropped entries to `forgotten`, so that the caller drops them
    /// while no lock is held.
    pub(in crate::cache) fn note(&mut self, event: &Event<K>, now: Instant, forgotten: &mut Vec<Event<K>>) {
        if let Event::Delete { .. } = event {
            if self.deletes.len() == MOST {
                forgotten.extend(self.deletes.pop_front().map(|(_, event)| event));
            }
            self.deletes.push_back((now, event.clone()));
        }
    }

    /// Drops expired deletions and appends them to `forgotten`, so that the caller drops them while no lock is held.
    pub(in crate::cache) fn expire(&mut self, now: Instant, forgotten: &mut Vec<Event<K>>) {
        while let Some((deleted_at, _)) = self.deletes.front()
            && now.saturating_duration_since(*deleted_at) > REMEMBERED
        {
            forgotten.extend(self.deletes.pop_front().map(|(_, event)| event));
        }
    }

    /// Returns the remembered deletions in their order.
    pub(in crate::cache) fn deletes(&self) -> impl Iterator<Item = &Event<K>> {
        self.deletes.iter().map(|(_, event)| event)
    }
}

impl<K: Object> Default for Tombstones<K> {
    fn default() -> Self {
        Self { deletes: VecDeque::new() }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::cache::Lazy;

    fn gone(name: &str) -> Event<ConfigMap> {
        let mut map = ConfigMap::default();
        map.metadata.namespace = Some("default".to_owned());
        map.metadata.name = Some(name.to_owned());
        Event::Delete { object: Lazy::of(map).expect("it has a name"), state_unknown: false }
    }

    fn names(tombstones: &Tombstones<ConfigMap>) -> Vec<String> {
        tombstones.deletes().map(|event| event.meta().name().to_owned()).collect()
    }

    #[test]
    fn deletions_are_remembered_for_ten_minutes() {
        let (mut tombstones, start) = (Tombstones::default(), Instant::now());
        let mut forgotten = Vec::new();
        tombstones.note(&gone("a"), start, &mut forgotten);
        tombstones.note(&gone("b"), start + REMEMBERED, &mut forgotten);
        let Event::Delete { object, .. } = gone("c") else { unreachable!() };
        tombstones.note(&Event::Generic { object }, start + REMEMBERED, &mut forgotten);
        tombstones.expire(start + REMEMBERED, &mut forgotten);
        assert_eq!((names(&tombstones), forgotten.len()), (vec!["a".to_owned(), "b".to_owned()], 0));
        tombstones.expire(start + REMEMBERED + Duration::from_secs(1), &mut forgotten);
        assert_eq!((names(&tombstones), forgotten.len()), (vec!["b".to_owned()], 1));
    }

    #[test]
    fn at_most_a_thousand_deletions_are_remembered() {
        let (mut tombstones, now) = (Tombstones::default(), Instant::now());
        for number in 0..=MOST {
            tombstones.note(&gone(&number.to_string()), now, &mut Vec::new());
        }
        assert_eq!((names(&tombstones).len(), names(&tombstones)[0].as_str()), (MOST, "1"));
    }
}
