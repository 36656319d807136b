//! Systems other than the API server that an operator changes, as fakes in the simulation.

use std::{
    any::{Any, type_name},
    cell::RefCell,
    collections::BTreeMap,
    fmt,
    future::pending,
    sync::Arc,
};

use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::oneshot;

use crate::{
    hub::{Answer, CallResult, Hub, Order, Work, Working},
    names::{Actor, CallName},
};

thread_local! {
    /// Process that is being set up, for [`Remote::of_this_run`].
    static SETTING_UP: RefCell<Option<SetUp>> = const { RefCell::new(None) };
}

/// Parts of a run that the set-up of a process can reach.
#[derive(Clone)]
pub(crate) struct SetUp {
    pub(crate) actor: Actor,
    pub(crate) hub: Hub,
    pub(crate) remotes: Remotes,
}

impl SetUp {
    /// Calls `set_up` with this process as the current one.
    pub(crate) fn during<R>(self, set_up: impl FnOnce() -> R) -> R {
        let before = SETTING_UP.replace(Some(self));
        let _restore = Restore(before);
        set_up()
    }
}

/// Restores the process that was being set up before, also after a panic.
struct Restore(Option<SetUp>);

impl Drop for Restore {
    fn drop(&mut self) {
        SETTING_UP.replace(self.0.take());
    }
}

/// The remote systems of one run, by name.
pub(crate) type Remotes = Arc<BTreeMap<Arc<str>, Arc<dyn AnyRemote>>>;

/// State of a remote system of any type.
pub(crate) trait AnyRemote: Any + Send + Sync {
    /// The state as JSON, for comparison.
    fn state(&self) -> Value;
    /// The system as [`Any`], to find it by type.
    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

/// A remote system: its state outlives crashes of the operator.
pub(crate) struct System<T> {
    pub(crate) name: Arc<str>,
    pub(crate) state: Mutex<T>,
}

impl<T: Serialize + Send + 'static> AnyRemote for System<T> {
    fn state(&self) -> Value {
        serde_json::to_value(&*self.state.lock())
            .unwrap_or_else(|error| Value::String(format!("the state cannot be written as JSON: {error}")))
    }

    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

/// Handle of one process to a remote system, which [`Simulation::remote`](crate::Simulation::remote) declares.
///
/// The operator's own trait for the system is implemented for a type that holds this handle. Each [effect](Self::effect) is a point
/// at which a simulation crashes the process or loses the answer. The state is of your making; it outlives crashes, and its value at
/// the end is compared with that of the run without faults, as JSON and up to renaming.
///
/// ```
/// use std::collections::BTreeMap;
/// use kube_simulator::{Lost, Remote};
///
/// #[derive(Default, serde::Serialize)]
/// struct Cloud { buckets: BTreeMap<u64, String> }
///
/// struct FakeCloud(Remote<Cloud>);
///
/// impl FakeCloud {
///     async fn create(&self, owner: &str) -> Result<u64, Lost> {
///         let name = owner.to_owned();
///         self.0.effect("create bucket", owner, move |cloud| {
///             let id = cloud.buckets.len() as u64;
///             cloud.buckets.insert(id, name);
///             id
///         }).await
///     }
/// }
/// ```
pub struct Remote<T> {
    system: Arc<System<T>>,
    hub: Hub,
    actor: Actor,
}

/// The connection to a remote system broke. The effect may have happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost;

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection to the remote system broke")
    }
}

impl std::error::Error for Lost {}

impl<T: Serialize + Send + 'static> Remote<T> {
    /// The remote system with this state, for the process that is being set up.
    ///
    /// # Panics
    ///
    /// Outside of the function that sets a simulated operator up, and if the simulation declares no such system.
    #[must_use]
    pub fn of_this_run() -> Self {
        let set_up = SETTING_UP.with_borrow(Clone::clone);
        let SetUp { actor, hub, remotes } = set_up.expect(
            "`Remote::of_this_run` works only within the function that sets a simulated operator up: call it there",
        );
        let found =
            remotes.values().find_map(|remote| Arc::clone(remote).as_any().downcast::<System<T>>().ok());
        let Some(system) = found else {
            panic!(
                "the simulation has no remote system with a {}: declare it with `.remote(…)`",
                type_name::<T>()
            );
        };
        Self { system, hub, actor }
    }

    /// Changes or reads the state, at a moment that the simulation chooses. `name` and `detail` say in plans and stories what
    /// happens, such as `create bucket` and the claim that it is for; they must be equal in every run.
    ///
    /// # Cancellation
    ///
    /// Dropping the future before the effect is carried out prevents it.
    ///
    /// # Errors
    ///
    /// The connection broke. The effect may have happened.
    pub async fn effect<R: Send + 'static>(
        &self,
        name: &str,
        detail: &str,
        effect: impl FnOnce(&mut T) -> R + Send + 'static,
    ) -> Result<R, Lost> {
        let (caller, (sender, answer)) = (Arc::new(()), oneshot::channel());
        let system = Arc::clone(&self.system);
        let work: Work = Box::new(move |order| -> Working {
            let result = match order {
                Order::CarryOut => Ok(effect(&mut system.state.lock())),
                Order::Refuse => Err(Lost),
            };
            let answer: Answer = Box::new(move |received| {
                // Fails if the caller has given up.
                let _ = sender.send(if received == CallResult::Lost { Err(Lost) } else { result });
            });
            Box::pin(std::future::ready(answer))
        });
        self.hub.add(self.actor, CallName::of_effect(&self.system.name, name, detail), &caller, work);
        match answer.await {
            Ok(result) => result,
            // The process is dead.
            Err(_) => pending().await,
        }
    }
}

impl<T> fmt::Debug for Remote<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("name", &self.system.name).finish_non_exhaustive()
    }
}
