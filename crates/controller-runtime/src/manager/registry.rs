//! The runnables of a manager and their states, shared by its handles and its run.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, watch};

use super::{
    AddError, Runnable, State,
    lifecycle::{Effect, Group, Id, Input, Lifecycle, Running},
    runnable::DynRunnable,
};
use crate::request_queue::Explain;

/// A runnable with its name.
#[derive(Clone)]
pub(super) struct Entry {
    pub(super) name: Arc<str>,
    pub(super) runnable: Arc<dyn DynRunnable>,
    /// Whether it reacts to being aborted itself, and ends on its own.
    pub(super) stops_itself: bool,
    /// Explains its requests, if it is a controller.
    pub(super) controller: Option<Arc<dyn Explain>>,
}

impl Entry {
    pub(super) fn new(runnable: impl Runnable) -> Self {
        let name = Arc::from(runnable.name());
        Self { name, runnable: Arc::new(runnable), stops_itself: false, controller: None }
    }

    pub(super) fn of_controller(controller: impl Runnable, explains: Arc<dyn Explain>) -> Self {
        Self { stops_itself: true, controller: Some(explains), ..Self::new(controller) }
    }
}

pub(super) struct Registry {
    inner: Mutex<Inner>,
    /// Wakes the run.
    changed: Notify,
    /// Number of entries. A change wakes callers that wait for the end of a removed runnable.
    entries: watch::Sender<usize>,
}

struct Inner {
    lifecycle: Lifecycle,
    /// Whether a run exists; it may still have to finish when the lifecycle has stopped.
    runs: bool,
    entries: BTreeMap<Id, Entry>,
    /// Controllers that their users run.
    unmanaged: Vec<Named>,
    /// Effects for the run to carry out.
    effects: Vec<Effect>,
}

/// A controller's name, and the explanations of its requests.
type Named = (Arc<str>, Arc<dyn Explain>);

/// Name of a controller that the manager does not run. Dropping it frees the name.
pub(crate) struct ReservedName {
    name: Arc<str>,
    registry: Arc<Registry>,
}

impl Drop for ReservedName {
    fn drop(&mut self) {
        let mut inner = self.registry.inner.lock();
        // Compared by pointer, because two controllers may have the same name.
        let place = inner.unmanaged.iter().position(|(name, _)| Arc::ptr_eq(name, &self.name));
        let gone = place.map(|place| inner.unmanaged.remove(place));
        drop(inner);
        // Dropped outside the lock: values from users may lock as well.
        drop(gone);
    }
}

impl Registry {
    pub(super) fn new(with_election: bool) -> Self {
        let lifecycle = Lifecycle::new(with_election);
        let inner = Inner {
            lifecycle,
            runs: false,
            entries: BTreeMap::new(),
            unmanaged: Vec::new(),
            effects: Vec::new(),
        };
        Self { inner: Mutex::new(inner), changed: Notify::new(), entries: watch::Sender::new(0) }
    }

    /// Adds the entry that `make` returns; calls `make` only if the entry is accepted. If the name must be unique (`own`), it
    /// is refused when a controller has it.
    pub(super) fn add(
        &self,
        name: &str,
        own: bool,
        group: Group,
        signals: bool,
        make: impl FnOnce() -> Entry,
    ) -> Result<Id, AddError> {
        let mut inner = self.inner.lock();
        if own {
            inner.check_name(name)?;
        }
        // The lifecycle decides before `make` is called, so that nothing is watched for a refused controller.
        let added = inner.lifecycle.add(group, signals);
        let (id, effects) = added.map_err(|_| AddError::Stopping { name: name.to_owned() })?;
        inner.entries.insert(id, make());
        inner.effects.extend(effects);
        drop(inner);
        // After unlocking: the run takes the lock when it wakes.
        self.changed.notify_one();
        Ok(id)
    }

    /// Registers a controller that its user runs; calls `make` only if it is accepted. If the name must be unique (`own`), it
    /// is refused when a controller has it.
    pub(super) fn reserve(
        self: &Arc<Self>,
        name: &str,
        own: bool,
        make: impl FnOnce() -> Arc<dyn Explain>,
    ) -> Result<ReservedName, AddError> {
        let mut inner = self.inner.lock();
        if own {
            inner.check_name(name)?;
        }
        let name: Arc<str> = Arc::from(name);
        inner.unmanaged.push((Arc::clone(&name), make()));
        Ok(ReservedName { name, registry: Arc::clone(self) })
    }

    /// Starts a run, which lasts until [`Registry::stop`].
    pub(super) fn run(&self) -> Result<(), Running> {
        let mut inner = self.inner.lock();
        // The lifecycle may be `Stopped` while the run still ends; a second run must wait for that.
        if inner.runs {
            return Err(Running);
        }
        inner.effects = inner.lifecycle.run()?;
        inner.runs = true;
        Ok(())
    }

    pub(super) fn step(&self, input: Input) {
        let mut inner = self.inner.lock();
        // Input and effects under one lock, so that effects of different threads keep the order of their inputs.
        let effects = inner.lifecycle.step(input);
        inner.effects.extend(effects);
        self.forget_removed(inner);
        self.changed.notify_one();
    }

    /// Ends the run, of which nothing is left.
    pub(super) fn stop(&self) {
        let mut inner = self.inner.lock();
        inner.lifecycle.stop();
        inner.runs = false;
        inner.effects.clear();
        self.forget_removed(inner);
    }

    fn forget_removed(&self, mut inner: MutexGuard<'_, Inner>) {
        let Inner { lifecycle, entries, .. } = &mut *inner;
        let removed: Vec<_> = entries.extract_if(.., |id, _| lifecycle.group(*id).is_none()).collect();
        let left = entries.len();
        drop(inner);
        // Dropped outside the lock: a runnable may own values that lock when dropped.
        drop(removed);
        self.entries.send_replace(left);
    }

    pub(super) fn take_effects(&self) -> Vec<Effect> {
        std::mem::take(&mut self.inner.lock().effects)
    }

    /// Completes when something has changed since the last call returned.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    pub(super) fn entry(&self, id: Id) -> Option<Entry> {
        self.inner.lock().entries.get(&id).cloned()
    }

    /// The controllers by name in order of addition, then those that their users run.
    pub(super) fn controllers(&self) -> Vec<Named> {
        let inner = self.inner.lock();
        let named = |entry: &Entry| Some((Arc::clone(&entry.name), Arc::clone(entry.controller.as_ref()?)));
        inner.entries.values().filter_map(named).chain(inner.unmanaged.iter().cloned()).collect()
    }

    pub(super) fn group(&self, id: Id) -> Option<Group> {
        self.inner.lock().lifecycle.group(id)
    }

    pub(super) fn state(&self) -> State {
        self.inner.lock().lifecycle.state()
    }

    pub(super) fn is_shutting_down(&self) -> bool {
        self.inner.lock().lifecycle.is_shutting_down()
    }

    pub(super) fn is_losing(&self) -> bool {
        self.inner.lock().lifecycle.is_losing()
    }

    /// Waits until a removed runnable has ended and is forgotten.
    pub(super) async fn forgotten(&self, id: Id) {
        // Subscribed before the check, so that a removal in between is not missed.
        let mut entries = self.entries.subscribe();
        // The sender lives in `self`, so the wait ends only by the condition.
        let _ = entries.wait_for(|_| !self.inner.lock().entries.contains_key(&id)).await;
    }
}

impl Inner {
    /// Refuses a name that a controller has.
    fn check_name(&self, name: &str) -> Result<(), AddError> {
        let managed =
            self.entries.values().filter(|entry| entry.controller.is_some()).map(|entry| &entry.name);
        if managed.chain(self.unmanaged.iter().map(|(name, _)| name)).any(|known| **known == *name) {
            return Err(AddError::DuplicateName { name: name.to_owned() });
        }
        Ok(())
    }
}
