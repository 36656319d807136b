//! The runnables of a manager and their states, shared by its handles and its run.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use super::{
    DynRunnable, Runnable, State,
    lifecycle::{AlreadyRunning, Effect, Group, Id, Lifecycle, LifecycleInput, ReadyWhen},
};
use crate::{ordered_watch, request_queue::Explain};

/// Rule for the name of a new runnable.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ControllerName<'n> {
    /// Refused if a controller has this name.
    Unique(&'n str),
    /// Accepted with any name.
    Any,
}

/// Reason for which a runnable is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RegistrationRefusal {
    /// A controller has the name, which must be unique.
    DuplicateName,
    /// The manager is stopping or has stopped.
    Stopping,
}

/// A runnable with its name.
#[derive(Clone)]
pub(crate) struct RegisteredRunnable {
    pub(crate) name: Arc<str>,
    pub(crate) runnable: Arc<dyn DynRunnable>,
    /// Whether the runnable reacts to an abort itself, so that its future must not be dropped.
    pub(crate) stops_itself: bool,
    /// Explains its requests, if it is a controller.
    pub(crate) controller: Option<Arc<dyn Explain>>,
}

impl RegisteredRunnable {
    pub(crate) fn new(runnable: impl Runnable) -> Self {
        let name = Arc::from(runnable.name());
        Self { name, runnable: Arc::new(runnable), stops_itself: false, controller: None }
    }

    pub(crate) fn of_controller(controller: impl Runnable, explains: Arc<dyn Explain>) -> Self {
        Self { stops_itself: true, controller: Some(explains), ..Self::new(controller) }
    }
}

/// The runnables of a manager, and their lifecycle.
pub(crate) struct Runnables {
    inner: Mutex<RegisteredRunnables>,
    /// Notifies the run of new effects.
    changed: Notify,
    /// Number of entries. A change wakes callers that wait for the end of a removed runnable.
    entries: ordered_watch::Sender<usize>,
}

struct RegisteredRunnables {
    lifecycle: Lifecycle,
    /// Whether a run exists; it may still have to finish when the lifecycle has stopped.
    runs: bool,
    entries: BTreeMap<Id, RegisteredRunnable>,
    /// Controllers that their users run.
    unmanaged: Vec<NamedController>,
    /// Effects for the run to carry out.
    effects: Vec<Effect>,
}

/// A controller's name, and the explanations of its requests.
type NamedController = (Arc<str>, Arc<dyn Explain>);

/// Name of a controller that the manager does not run. Dropping it frees the name.
pub(crate) struct ReservedName {
    name: Arc<str>,
    registry: Arc<Runnables>,
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

impl Runnables {
    pub(crate) fn new(lifecycle: Lifecycle) -> Self {
        let inner = RegisteredRunnables {
            lifecycle,
            runs: false,
            entries: BTreeMap::new(),
            unmanaged: Vec::new(),
            effects: Vec::new(),
        };
        Self { inner: Mutex::new(inner), changed: Notify::new(), entries: ordered_watch::Sender::new(0) }
    }

    /// Adds the runnable that `make` returns; calls `make` only if it is accepted.
    pub(crate) fn add(
        &self,
        name: ControllerName<'_>,
        group: Group,
        ready: ReadyWhen,
        make: impl FnOnce() -> RegisteredRunnable,
    ) -> Result<Id, RegistrationRefusal> {
        let mut inner = self.inner.lock();
        inner.check(name)?;
        // The lifecycle decides before `make` is called, so that nothing is watched for a refused controller.
        let (id, effects) = inner.lifecycle.add(group, ready).map_err(|_| RegistrationRefusal::Stopping)?;
        inner.entries.insert(id, make());
        inner.effects.extend(effects);
        drop(inner);
        // Notified after unlocking, because the run takes the lock when it wakes.
        self.changed.notify_one();
        Ok(id)
    }

    /// Registers a controller that its user runs; calls `make` only if it is accepted.
    pub(crate) fn reserve(
        self: &Arc<Self>,
        name: &str,
        rule: ControllerName<'_>,
        make: impl FnOnce() -> Arc<dyn Explain>,
    ) -> Result<ReservedName, RegistrationRefusal> {
        let mut inner = self.inner.lock();
        inner.check(rule)?;
        let name: Arc<str> = Arc::from(name);
        inner.unmanaged.push((Arc::clone(&name), make()));
        Ok(ReservedName { name, registry: Arc::clone(self) })
    }

    /// Starts a run, which lasts until [`Runnables::stop`].
    pub(crate) fn run(&self) -> Result<(), AlreadyRunning> {
        let mut inner = self.inner.lock();
        // The lifecycle may be `Stopped` while the run still ends; a second run must wait for that.
        if inner.runs {
            return Err(AlreadyRunning);
        }
        inner.effects = inner.lifecycle.run()?;
        inner.runs = true;
        Ok(())
    }

    pub(crate) fn step(&self, input: LifecycleInput) {
        let mut inner = self.inner.lock();
        // Input and effects under one lock, so that effects of different threads keep the order of their inputs.
        let effects = inner.lifecycle.step(input);
        inner.effects.extend(effects);
        self.forget_removed(inner);
        self.changed.notify_one();
    }

    /// Ends the run. Its tasks have ended or are being dropped.
    pub(crate) fn stop(&self) {
        let mut inner = self.inner.lock();
        inner.lifecycle.stop();
        inner.runs = false;
        inner.effects.clear();
        self.forget_removed(inner);
    }

    /// Drops the runnables that the lifecycle no longer knows, and wakes [`Runnables::forgotten`]. Releases the lock.
    fn forget_removed(&self, mut inner: MutexGuard<'_, RegisteredRunnables>) {
        let RegisteredRunnables { lifecycle, entries, .. } = &mut *inner;
        let removed: Vec<_> = entries.extract_if(.., |id, _| lifecycle.group(*id).is_none()).collect();
        let left = entries.len();
        drop(inner);
        // Dropped outside the lock: a runnable may own values that lock when dropped.
        drop(removed);
        self.entries.send_replace(left);
    }

    pub(crate) fn take_effects(&self) -> Vec<Effect> {
        std::mem::take(&mut self.inner.lock().effects)
    }

    /// Completes when a runnable was added or an input was processed since the last call returned.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    pub(crate) fn entry(&self, id: Id) -> Option<RegisteredRunnable> {
        self.inner.lock().entries.get(&id).cloned()
    }

    /// The controllers by name in order of addition, then those that their users run.
    pub(crate) fn controllers(&self) -> Vec<NamedController> {
        let inner = self.inner.lock();
        let named = |entry: &RegisteredRunnable| {
            Some((Arc::clone(&entry.name), Arc::clone(entry.controller.as_ref()?)))
        };
        inner.entries.values().filter_map(named).chain(inner.unmanaged.iter().cloned()).collect()
    }

    pub(crate) fn group(&self, id: Id) -> Option<Group> {
        self.inner.lock().lifecycle.group(id)
    }

    pub(crate) fn state(&self) -> State {
        self.inner.lock().lifecycle.state()
    }

    pub(crate) fn is_shutting_down(&self) -> bool {
        self.inner.lock().lifecycle.is_shutting_down()
    }

    pub(crate) fn is_losing(&self) -> bool {
        self.inner.lock().lifecycle.is_losing()
    }

    /// Waits until a removed runnable has ended and is forgotten.
    pub(crate) async fn forgotten(&self, id: Id) {
        // Subscribed before the check, so that a removal in between is not missed.
        let mut entries = self.entries.subscribe();
        // Cannot fail, because `self` holds the sender.
        let _ = entries.wait_for(|_| !self.inner.lock().entries.contains_key(&id)).await;
    }
}

impl RegisteredRunnables {
    /// Refuses a unique name that a controller has.
    fn check(&self, name: ControllerName<'_>) -> Result<(), RegistrationRefusal> {
        let ControllerName::Unique(name) = name else { return Ok(()) };
        let managed =
            self.entries.values().filter(|entry| entry.controller.is_some()).map(|entry| &entry.name);
        if managed.chain(self.unmanaged.iter().map(|(name, _)| name)).any(|known| **known == *name) {
            return Err(RegistrationRefusal::DuplicateName);
        }
        Ok(())
    }
}
