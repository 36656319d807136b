//! Result of an operation on the store: events, and changes of visible states.

use crate::{
    cache::objects::{event::Event, lazy::Lazy},
    object::{Object, ObjectKey},
};

/// Result of one operation on the store. The informer publishes it after releasing the store's lock.
#[must_use = "subscribers and indexes would miss changes"]
pub(crate) struct Delta<K: Object> {
    /// Differences between watched states.
    pub(crate) events: Vec<Event<K>>,
    /// Events of written states that the watch never delivered. They follow the events of the change that led to them.
    pub(super) missed: Vec<Event<K>>,
    /// Changes of visible states.
    pub(crate) changes: Vec<StateChange<K>>,
    /// Replaced states. Dropping the last handle of a state drops the user's object, which runs user code. So the
    /// caller, which locks the store, drops them after releasing the lock.
    pub(crate) retired: Vec<Lazy<K>>,
}

/// Origin of a watched state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// First list of a scope.
    InitialList,
    Change,
}

/// Change of the visible state of an object.
#[derive(Debug, Clone)]
pub(crate) struct StateChange<K: Object> {
    pub(crate) key: ObjectKey<K>,
    pub(crate) old: Option<Lazy<K>>,
    pub(crate) new: Option<Lazy<K>>,
}

impl<K: Object> Default for Delta<K> {
    fn default() -> Self {
        Self { events: Vec::new(), missed: Vec::new(), changes: Vec::new(), retired: Vec::new() }
    }
}

impl<K: Object> Delta<K> {
    /// Appends the missed events to the others.
    pub(crate) fn joined(mut self) -> Self {
        self.events.append(&mut self.missed);
        self
    }

    /// Adds the events of the change from `old` to `new`.
    pub(super) fn add_entered(&mut self, old: Option<Lazy<K>>, new: &Lazy<K>, origin: Origin) {
        entered(&mut self.events, old, new, origin);
    }

    /// Adds the events of a written state that the watch never delivered and that gives way to the watched state, which
    /// may be older or none.
    pub(super) fn add_missed(&mut self, written: Lazy<K>, watched: Option<Lazy<K>>) {
        entered(&mut self.missed, watched.clone(), &written, Origin::Change);
        match watched {
            Some(watched) => entered(&mut self.missed, Some(written), &watched, Origin::Change),
            None => self.missed.push(Event::Delete { object: written, state_unknown: true }),
        }
    }
}

/// Appends the events of the change from `old` to `new`.
fn entered<K: Object>(events: &mut Vec<Event<K>>, old: Option<Lazy<K>>, new: &Lazy<K>, origin: Origin) {
    match old {
        Some(old) if old.meta().uid() == new.meta().uid() => {
            events.push(Event::Update { old, new: new.clone() });
        }
        replaced => {
            events.extend(replaced.map(|object| Event::Delete { object, state_unknown: true }));
            events
                .push(Event::Create { object: new.clone(), in_initial_list: origin == Origin::InitialList });
        }
    }
}
