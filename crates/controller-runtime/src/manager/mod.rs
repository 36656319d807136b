//! The manager: what controllers share, and the order in which it starts and stops.

mod options;
mod run;
mod state;

use std::{fmt, future::Future, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::watch;

pub use self::{
    options::{Options, Shutdown},
    run::Error,
    state::{NeverReady, State},
};
use crate::{
    cache::{Cache, Cached},
    client::Client,
    controller::AnyController,
    object::StaticObject,
};

/// Runs controllers, with one cache for all of them.
///
/// # Lifecycle
///
/// [`Manager::run`] starts the caches, waits until all of them know the present, then starts the controllers. When its
/// shutdown future is done it drains: no new reconcile begins, and those in work may finish, for as long as
/// [`Options::graceful_shutdown_timeout`] says. Then it stops what is left and names it.
///
/// Nothing is global: two managers, or two runs one after the other, live in one process without knowing each other.
///
/// # Example
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use controller_runtime::{Manager, manager::Options};
///
/// let client = kube::Client::try_default().await?;
/// let manager = Manager::new(client, Options::new("guestbook-operator"));
/// // … build controllers …
/// manager.run(async { tokio::signal::ctrl_c().await.unwrap_or(()) }).await?;
/// # Ok(())
/// # }
/// ```
pub struct Manager {
    client: Client,
    cache: Cache,
    controllers: Mutex<Vec<Box<dyn AnyController>>>,
    options: Options,
    state: watch::Sender<State>,
    was_ready: watch::Sender<bool>,
}

impl Manager {
    /// A manager that reaches the cluster through `client`.
    #[must_use]
    pub fn new(client: kube::Client, options: Options) -> Self {
        Self {
            client: Client::new(client, Arc::clone(&options.name)),
            cache: Cache::default(),
            controllers: Mutex::default(),
            options,
            state: watch::Sender::new(State::Built),
            was_ready: watch::Sender::new(false),
        }
    }

    /// The client for reconcilers: it writes in the name of the manager.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The cached objects of kind `K`, which the manager will watch from its start on.
    ///
    /// All handles of a kind, and all controllers that watch it, share one cache.
    #[must_use]
    pub fn cached<K: StaticObject>(&self) -> Cached<K> {
        self.cache.cached()
    }

    /// Becomes done when the manager has become [`State::Ready`].
    ///
    /// # Errors
    ///
    /// The manager stopped or was dropped before that.
    pub fn ready(&self) -> impl Future<Output = Result<(), NeverReady>> + Send + use<> {
        state::wait_until_ready(self.was_ready.subscribe())
    }

    /// The state, now and as it changes.
    #[must_use]
    pub fn state(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    /// Takes a controller, to be started with the others. Nothing is watched for one that is refused.
    pub(crate) fn add<C: AnyController + 'static>(
        &self,
        name: &str,
        make: impl FnOnce(&Cache) -> C,
    ) -> Result<(), DuplicateName> {
        let mut controllers = self.controllers.lock();
        if controllers.iter().any(|known| known.name() == name) {
            return Err(DuplicateName { name: name.to_owned() });
        }
        controllers.push(Box::new(make(&self.cache)));
        Ok(())
    }
}

/// Two controllers of one manager have the same name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the manager has a controller named {name} already: give this one another name with `named`")]
#[non_exhaustive]
pub struct DuplicateName {
    /// The name.
    pub name: String,
}

impl fmt::Debug for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Manager")
            .field("options", &self.options)
            .field("state", &*self.state.borrow())
            .finish_non_exhaustive()
    }
}
