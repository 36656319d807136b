//! Waiting events of a subscriber that needs only the latest state: at most one per object.

use std::collections::BTreeMap;

use super::mailbox::InitialList;
use crate::{
    cache::objects::{event::Event, lazy::Lazy},
    object::{Object, ObjectKey},
};

/// Events that the reader has not taken: for each object the state that the reader knows, and the latest one.
///
/// [`pop`](Self::pop) delivers the difference between the two:
///
/// | reader knows | latest | event |
/// |---|---|---|
/// | nothing | exists | create |
/// | a state of the same object | exists | update |
/// | another object of the name, or a deleted one | exists | delete, and with the next call a create |
/// | a state of the same object | deleted | delete |
/// | another object of the name | deleted | delete of the object that the reader knows |
/// | nothing | deleted | none: [`push`](Self::push) drops the entry |
///
/// A delete of an object that another one of its name has followed has the object's last state if its own delete was the first
/// waiting event. Otherwise that state is lost, and the event has the one that the reader knows, with `state_unknown`.
pub(in crate::cache) struct Coalesced<K: Object> {
    /// The initial list, which is delivered first.
    initial: Option<InitialList<K>>,
    /// The initial list after its end. It holds old states until it is dropped.
    delivered: Option<InitialList<K>>,
    objects: BTreeMap<ObjectKey<K>, CoalescedEvent<K>>,
    /// Keys in the order in which their first waiting event arrived.
    order: BTreeMap<u64, ObjectKey<K>>,
    /// Position of the next event.
    next: u64,
}

struct CoalescedEvent<K: Object> {
    /// `None` if the reader knows no object of this name.
    known: Option<ReaderState<K>>,
    latest: Latest<K>,
    /// Key in [`Coalesced::order`].
    position: u64,
}

/// The state of an object that the reader knows.
enum ReaderState<K: Object> {
    /// The reader received this state.
    Received(Lazy<K>),
    /// The reader received this state or an older one; then the object was deleted, as this event says.
    Deleted { last: Lazy<K>, state_unknown: bool },
}

impl<K: Object> ReaderState<K> {
    fn state(&self) -> &Lazy<K> {
        let (Self::Received(state) | Self::Deleted { last: state, .. }) = self;
        state
    }

    /// Returns the delete of the object, after which another one of its name was created.
    fn into_delete(self) -> Event<K> {
        match self {
            Self::Received(object) => Event::Delete { object, state_unknown: true },
            Self::Deleted { last: object, state_unknown } => Event::Delete { object, state_unknown },
        }
    }
}

/// The latest state of an object.
enum Latest<K: Object> {
    Exists { object: Lazy<K>, in_initial_list: bool },
    Deleted { last: Lazy<K>, state_unknown: bool },
}

impl<K: Object> Default for Coalesced<K> {
    fn default() -> Self {
        Self { initial: None, delivered: None, objects: BTreeMap::new(), order: BTreeMap::new(), next: 0 }
    }
}

impl<K: Object> Coalesced<K> {
    /// Creates a queue that starts with the events of an initial list.
    pub(in crate::cache) fn after(initial: InitialList<K>) -> Self {
        Self { initial: Some(initial), ..Self::default() }
    }

    /// Number of waiting events, without those of the initial list.
    pub(in crate::cache) fn len(&self) -> usize {
        self.objects.len()
    }

    /// Takes the finished initial list, so that the caller drops it while no lock is held.
    pub(in crate::cache) fn take_delivered(&mut self) -> Option<InitialList<K>> {
        self.delivered.take()
    }

    /// Adds an event, and merges it with the waiting event of the object, if there is one.
    pub(in crate::cache) fn push(&mut self, event: Event<K>) {
        let key = event.key();
        // An object that still waits in the initial list is changed there: the reader never saw the old
        // state.
        if let Some(initial) = &mut self.initial {
            let superseded = match &event {
                Event::Update { new, .. } => initial.supersede(&key, Some(new.clone())),
                Event::Delete { .. } => initial.supersede(&key, None),
                Event::Create { .. } | Event::Generic { .. } => false,
            };
            if superseded {
                return;
            }
        }
        let (known, latest) = match event {
            Event::Create { object, in_initial_list } => (None, Latest::Exists { object, in_initial_list }),
            Event::Update { old, new } => {
                (Some(ReaderState::Received(old)), Latest::Exists { object: new, in_initial_list: false })
            }
            Event::Delete { object, state_unknown } => (
                Some(ReaderState::Deleted { last: object.clone(), state_unknown }),
                Latest::Deleted { last: object, state_unknown },
            ),
            Event::Generic { .. } => return, // caches never create them
        };
        match self.objects.get_mut(&key) {
            // The reader has not received this object, and knows no other of its name: drop both events.
            Some(CoalescedEvent { known: None, position, .. })
                if matches!(latest, Latest::Deleted { .. }) =>
            {
                self.order.remove(position);
                self.objects.remove(&key);
            }
            Some(entry) => {
                // A create that still waits stays a create of the initial list, whatever updates follow.
                let was_initial = matches!(&entry.latest, Latest::Exists { in_initial_list: true, .. })
                    && entry.known.is_none();
                entry.latest = match latest {
                    Latest::Exists { object, .. } if was_initial => {
                        Latest::Exists { object, in_initial_list: true }
                    }
                    latest => latest,
                };
            }
            None => {
                let position = self.next;
                self.next += 1;
                self.order.insert(position, key.clone());
                self.objects.insert(key, CoalescedEvent { known, latest, position });
            }
        }
    }

    /// Removes and returns the next event.
    pub(in crate::cache) fn pop(&mut self) -> Option<Event<K>> {
        if let Some(initial) = &mut self.initial {
            if let Some(event) = initial.next() {
                return Some(event);
            }
            // Not dropped here: the caller holds a lock, and the list may own the last handles of objects.
            self.delivered = self.initial.take();
        }
        let (_, key) = self.order.first_key_value()?;
        let key = key.clone();
        let CoalescedEvent { known, latest, position } = self.objects.remove(&key)?;
        let event = match (known, latest) {
            (None, Latest::Exists { object, in_initial_list }) => Event::Create { object, in_initial_list },
            (Some(ReaderState::Received(old)), Latest::Exists { object: new, .. })
                if same_uid(&old, &new) =>
            {
                Event::Update { old, new }
            }
            (Some(known), latest @ Latest::Exists { .. }) => {
                // The object that the reader knows was deleted. Deliver the delete now; the entry stays, without a
                // known state, so that the next call delivers the create.
                self.objects.insert(key, CoalescedEvent { known: None, latest, position });
                return Some(known.into_delete());
            }
            // The reader knows an earlier object of this name, not the one that was deleted last: it never received
            // that one.
            (Some(known), Latest::Deleted { last, .. }) if !same_uid(known.state(), &last) => {
                known.into_delete()
            }
            (_, Latest::Deleted { last, state_unknown }) => Event::Delete { object: last, state_unknown },
        };
        self.order.remove(&position);
        Some(event)
    }
}

fn same_uid<K: Object>(one: &Lazy<K>, other: &Lazy<K>) -> bool {
    one.meta().uid() == other.meta().uid()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use proptest::prelude::*;

    use super::*;
    use crate::cache::state::store::Store;

    /// Returns an object with this uid and version. Three uids share a name.
    fn object(uid: u8, version: u64) -> Lazy<ConfigMap> {
        let mut object = ConfigMap::default();
        object.metadata.namespace = Some("ns".to_owned());
        object.metadata.name = Some(format!("n{}", uid % 3));
        object.metadata.uid = Some(uid.to_string());
        object.metadata.resource_version = Some(version.to_string());
        Lazy::of(object).expect("it has a key")
    }

    proptest! {
        /// However slowly a reader takes events, each continues from the state before, the last one leads to the
        /// current state, and at most one event per object waits.
        #[test]
        fn taken_events_fold_to_the_current_state(
            initial in prop::collection::btree_set(0..3u8, 0..3),
            history in prop::collection::vec((0..9u8, any::<bool>(), 0..4u8), 1..60),
        ) {
            let mut store = Store::default();
            let mut folded: BTreeMap<ObjectKey<ConfigMap>, Lazy<ConfigMap>> = BTreeMap::new();
            let _ = store.replace(&None, initial.into_iter().map(|uid| object(uid, 1)), Some(1));
            let mut waiting = Coalesced::after(InitialList::superseded(store.watched_snapshot()));
            for (version, (uid, delete, take)) in (2..).zip(history) {
                let object = object(uid, version);
                let delta = match delete {
                    true => store.remove(&None, object),
                    false => store.upsert(&None, object).expect("versions grow"),
                };
                delta.joined().events.into_iter().for_each(|event| waiting.push(event));
                prop_assert!(waiting.order.len() == waiting.objects.len() && waiting.order.len() <= 3);
                for _ in 0..take {
                    fold(&mut folded, waiting.pop())?;
                }
            }
            while let Some(event) = waiting.pop() {
                fold(&mut folded, Some(event))?;
            }
            let is: Vec<_> = store.watched_objects().map(|object| format!("{object:?}")).collect();
            prop_assert_eq!(is, folded.values().map(|object| format!("{object:?}")).collect::<Vec<_>>());
        }
    }

    /// Only a delete event has the last state of an object for certain.
    #[test]
    fn a_delete_says_whether_it_has_the_last_state() {
        let delete = |uid, version| Event::Delete { object: object(uid, version), state_unknown: false };
        let create = |uid, version| Event::Create { object: object(uid, version), in_initial_list: false };
        let update =
            |uid, version| Event::Update { old: object(uid, version - 1), new: object(uid, version) };
        let noticed_late = Event::Delete { object: object(0, 5), state_unknown: true };
        // The uids 0, 3 and 6 share a name.
        for (events, expected) in [
            (vec![delete(0, 5)], "deleted 0 5"),
            (vec![delete(0, 5), create(3, 6)], "deleted 0 5, created 3 6"),
            (vec![delete(0, 5), create(3, 6), delete(3, 7)], "deleted 0 5"),
            (vec![noticed_late.clone()], "vanished 0 5"),
            (vec![noticed_late, create(3, 6)], "vanished 0 5, created 3 6"),
            (vec![update(0, 5), delete(0, 6)], "deleted 0 6"),
            (vec![update(0, 5), delete(0, 6), create(3, 7)], "vanished 0 4, created 3 7"),
            (vec![update(0, 5), delete(0, 6), create(3, 7), delete(3, 8)], "vanished 0 4"),
        ] {
            let mut waiting = Coalesced::default();
            events.into_iter().for_each(|event| waiting.push(event));
            let popped = std::iter::from_fn(|| waiting.pop()).map(|event| {
                let verb = match event {
                    Event::Create { .. } => "created",
                    Event::Delete { state_unknown: false, .. } => "deleted",
                    Event::Delete { state_unknown: true, .. } => "vanished",
                    _ => "changed",
                };
                let metadata = event.latest().object_meta().expect("metadata");
                format!("{verb} {} {}", metadata.uid.unwrap(), metadata.resource_version.unwrap())
            });
            assert_eq!(popped.collect::<Vec<_>>().join(", "), expected);
        }
    }

    fn fold(
        folded: &mut BTreeMap<ObjectKey<ConfigMap>, Lazy<ConfigMap>>,
        event: Option<Event<ConfigMap>>,
    ) -> Result<(), TestCaseError> {
        let Some(event) = event else { return Ok(()) };
        let key = event.key();
        match event {
            Event::Create { object, .. } => prop_assert!(folded.insert(key, object).is_none()),
            Event::Update { old, new } => {
                let before = folded.insert(key, new).expect("updated objects exist");
                prop_assert!(before.ptr_eq(&old), "{before:?} is not {old:?}");
            }
            Event::Delete { object, .. } => {
                let before = folded.remove(&key).expect("deleted objects exist");
                prop_assert_eq!(before.meta().uid(), object.meta().uid());
            }
            Event::Generic { .. } => unreachable!("a store makes no generic events"),
        }
        Ok(())
    }
}
