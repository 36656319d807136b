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
    /// Names of controllers that are being made.
    pending: Vec<Arc<str>>,
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
            pending: Vec::new(),
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
        // Reserved before `make`, which runs without the lock: no other controller may take the name
        // meanwhile.
        let pending = self.take_name(name)?;
        // Nothing is watched for a refused controller.
        if self.is_shutting_down() {
            return Err(RegistrationRefusal::Stopping);
        }
        // Code of the user, such as a function that makes the queue, may use the manager: no lock is held.
        let entry = make();
        let mut inner = self.inner.lock();
        // Refused only if the manager began to stop while `make` ran.
        let (id, effects) = inner.lifecycle.add(group, ready).map_err(|_| RegistrationRefusal::Stopping)?;
        inner.entries.insert(id, entry);
        inner.effects.extend(effects);
        pending.replace_in(&mut inner);
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
        let pending = self.take_name(rule)?;
        // As in `add`, code of the user runs without the lock.
        let made = make();
        let name: Arc<str> = Arc::from(name);
        let mut inner = self.inner.lock();
        inner.unmanaged.push((Arc::clone(&name), made));
        pending.replace_in(&mut inner);
        drop(inner);
        Ok(ReservedName { name, registry: Arc::clone(self) })
    }

    /// Takes a name, so that a controller that is added meanwhile cannot have it. Dropping the result frees it.
    fn take_name(&self, name: ControllerName<'_>) -> Result<PendingName<'_>, RegistrationRefusal> {
        let mut inner = self.inner.lock();
        inner.check(name)?;
        let ControllerName::Unique(name) = name else {
            return Ok(PendingName { name: None, registry: self });
        };
        let name: Arc<str> = Arc::from(name);
        inner.pending.push(Arc::clone(&name));
        Ok(PendingName { name: Some(name), registry: self })
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
        // If the run does not wait yet, the notification is stored, so that no effect is missed.
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

/// Name of a controller that is being made. Dropping it frees the name.
struct PendingName<'r> {
    /// `None` for a name that need not be unique, and once the controller is registered.
    name: Option<Arc<str>>,
    registry: &'r Runnables,
}

impl PendingName<'_> {
    /// Ends the reservation, under the lock with which the controller is registered.
    fn replace_in(mut self, inner: &mut RegisteredRunnables) {
        if let Some(name) = self.name.take() {
            inner.pending.retain(|pending| !Arc::ptr_eq(pending, &name));
        }
    }
}

impl Drop for PendingName<'_> {
    fn drop(&mut self) {
        if let Some(name) = self.name.take() {
            self.registry.inner.lock().pending.retain(|pending| !Arc::ptr_eq(pending, &name));
        }
    }
}

impl RegisteredRunnables {
    /// Refuses a unique name that a controller has, or one that is being made.
    fn check(&self, name: ControllerName<'_>) -> Result<(), RegistrationRefusal> {
        let ControllerName::Unique(name) = name else { return Ok(()) };
        let managed =
            self.entries.values().filter(|entry| entry.controller.is_some()).map(|entry| &entry.name);
        let unmanaged = self.unmanaged.iter().map(|(name, _)| name);
        if managed.chain(unmanaged).chain(&self.pending).any(|known| **known == *name) {
            return Err(RegistrationRefusal::DuplicateName);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runnable::RunContext;

    struct Idle;

    impl Runnable for Idle {
        async fn start(&self, _: RunContext) -> Result<(), crate::BoxError> {
            Ok(())
        }
    }

    fn idle() -> RegisteredRunnable {
        RegisteredRunnable::new(Idle)
    }

    fn add(
        runnables: &Runnables,
        name: &str,
        make: impl FnOnce() -> RegisteredRunnable,
    ) -> Result<Id, RegistrationRefusal> {
        runnables.add(ControllerName::Unique(name), Group::Others, ReadyWhen::Started, make)
    }

    #[test]
    fn a_controller_that_is_being_made_may_use_the_registry() {
        let runnables = Runnables::new(Lifecycle::new());
        let mut inside = None;
        let outside = add(&runnables, "outside", || {
            assert_eq!(add(&runnables, "outside", idle), Err(RegistrationRefusal::DuplicateName));
            inside = Some(add(&runnables, "inside", idle));
            idle()
        });
        assert!(outside.is_ok() && inside.is_some_and(|inside| inside.is_ok()));
    }

    #[test]
    fn the_name_of_a_controller_that_was_not_made_is_free() {
        let runnables = Runnables::new(Lifecycle::new());
        let panics = || add(&runnables, "a", || panic!("in a function of the user"));
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
        assert!(add(&runnables, "a", idle).is_ok());
    }

    #[test]
    fn nothing_is_made_once_the_manager_stops() {
        let runnables = Runnables::new(Lifecycle::new());
        assert!(runnables.run().is_ok());
        runnables.step(LifecycleInput::Shutdown);
        let refused = add(&runnables, "a", || unreachable!("it is refused"));
        assert_eq!(refused, Err(RegistrationRefusal::Stopping));
        assert_eq!(add(&runnables, "a", idle), Err(RegistrationRefusal::Stopping));
    }
}
