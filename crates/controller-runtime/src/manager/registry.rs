//! The runnables of a manager and where each is: what its handles and its run share.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, watch};

use super::{
    AddError, Runnable, State,
    lifecycle::{Effect, Group, Id, Input, Lifecycle, Running},
    runnable::DynRunnable,
};
use crate::controller::Explain;

/// A runnable, by its name.
#[derive(Clone)]
pub(super) struct Entry {
    pub(super) name: Arc<str>,
    pub(super) runnable: Arc<dyn DynRunnable>,
    /// Whether it ends by itself when it is told to stop where it stands.
    pub(super) stops_itself: bool,
    /// What tells of its requests, if it is a controller.
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
    /// Wakes those who wait for the end of what they removed: how many entries there are.
    entries: watch::Sender<usize>,
}

struct Inner {
    lifecycle: Lifecycle,
    /// Whether a run is there, which may have an end to come when the lifecycle has stopped.
    runs: bool,
    entries: BTreeMap<Id, Entry>,
    /// Controllers that somebody else runs.
    unmanaged: Vec<Named>,
    /// What the run has still to do.
    effects: Vec<Effect>,
}

/// A controller by its name, and what tells of its requests.
type Named = (Arc<str>, Arc<dyn Explain>);

/// A controller that the manager does not run is known to it by its name, until this is dropped.
pub(crate) struct ReservedName {
    name: Arc<str>,
    registry: Arc<Registry>,
}

impl Drop for ReservedName {
    fn drop(&mut self) {
        let mut inner = self.registry.inner.lock();
        // Two of one name are two.
        let place = inner.unmanaged.iter().position(|(name, _)| Arc::ptr_eq(name, &self.name));
        let gone = place.map(|place| inner.unmanaged.remove(place));
        drop(inner);
        // Unlocked: what users gave the controller goes with it, and may lock.
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

    /// Takes what `make` makes, unless it is refused: then nothing is made. With a name of its `own` it is refused if a
    /// controller has that.
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
        let added = inner.lifecycle.add(group, signals);
        let (id, effects) = added.map_err(|_| AddError::Stopping { name: name.to_owned() })?;
        inner.entries.insert(id, make());
        inner.effects.extend(effects);
        drop(inner);
        self.changed.notify_one();
        Ok(id)
    }

    /// Takes note of a controller that somebody else runs, and that `make` makes unless it is refused. With a name of its `own`
    /// it is refused if a controller has that.
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

    /// Begins a run, which is there until [`Registry::stop`].
    pub(super) fn run(&self) -> Result<(), Running> {
        let mut inner = self.inner.lock();
        if inner.runs {
            return Err(Running);
        }
        inner.effects = inner.lifecycle.run()?;
        inner.runs = true;
        Ok(())
    }

    pub(super) fn step(&self, input: Input) {
        let mut inner = self.inner.lock();
        let effects = inner.lifecycle.step(input);
        inner.effects.extend(effects);
        self.forget_removed(inner);
        self.changed.notify_one();
    }

    /// The run is over, and nothing of it is left.
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
        // Unlocked: a runnable may own what locks when it goes.
        drop(removed);
        self.entries.send_replace(left);
    }

    pub(super) fn take_effects(&self) -> Vec<Effect> {
        std::mem::take(&mut self.inner.lock().effects)
    }

    /// Something has changed since the last call returned.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    pub(super) fn entry(&self, id: Id) -> Option<Entry> {
        self.inner.lock().entries.get(&id).cloned()
    }

    /// The controllers by name, in the order in which they came, and then those that somebody else runs.
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

    /// Waits until a removed runnable has ended and is not known any more.
    pub(super) async fn forgotten(&self, id: Id) {
        let mut entries = self.entries.subscribe();
        // The sender lives in `self`, so the wait ends by the condition alone.
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
