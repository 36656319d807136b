//! Objects that went while nobody was told. Pure.

use std::{collections::VecDeque, time::Duration};

use tokio::time::Instant;

use crate::{event::Event, object::Object};

/// How long an object is remembered after it went. A leader that died is replaced within the lease, and had begun what it
/// was told by then; what takes minutes, like a deployment that hangs, is covered too.
const REMEMBERED: Duration = Duration::from_secs(10 * 60);

/// Of how many objects; then the one that went first is forgotten.
const MOST: usize = 1000;

/// The last objects that went, with their last states.
pub(super) struct Tombstones<K: Object> {
    /// In the order in which they went.
    deletes: VecDeque<(Instant, Event<K>)>,
}

impl<K: Object> Tombstones<K> {
    /// Remembers an event if it is the end of an object.
    pub(super) fn note(&mut self, event: &Event<K>, now: Instant) {
        if let Event::Delete { .. } = event {
            if self.deletes.len() == MOST {
                self.deletes.pop_front();
            }
            self.deletes.push_back((now, event.clone()));
        }
    }

    /// Forgets what went too long ago.
    pub(super) fn expire(&mut self, now: Instant) {
        while self.deletes.front().is_some_and(|(went, _)| now.saturating_duration_since(*went) > REMEMBERED)
        {
            self.deletes.pop_front();
        }
    }

    /// What is remembered, in the order in which it went.
    pub(super) fn deletes(&self) -> impl Iterator<Item = &Event<K>> {
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
    fn what_went_is_remembered_for_ten_minutes() {
        let (mut tombstones, start) = (Tombstones::default(), Instant::now());
        tombstones.note(&gone("a"), start);
        tombstones.note(&gone("b"), start + REMEMBERED);
        let Event::Delete { object, .. } = gone("c") else { unreachable!() };
        tombstones.note(&Event::Generic { object }, start + REMEMBERED);
        tombstones.expire(start + REMEMBERED);
        assert_eq!(names(&tombstones), ["a", "b"]);
        tombstones.expire(start + REMEMBERED + Duration::from_secs(1));
        assert_eq!(names(&tombstones), ["b"]);
    }

    #[test]
    fn no_more_than_a_thousand_are_remembered() {
        let (mut tombstones, now) = (Tombstones::default(), Instant::now());
        for number in 0..=MOST {
            tombstones.note(&gone(&number.to_string()), now);
        }
        assert_eq!((names(&tombstones).len(), names(&tombstones)[0].as_str()), (MOST, "1"));
    }
}
