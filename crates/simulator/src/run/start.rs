//! Beginning of runs: a server with the kinds of the simulation. Every run with the same seed begins in its state.
//!
//! A server takes longer to start than a short run takes. So it is started once in the process for each seed, and the kinds are
//! installed once for each search.

use std::{collections::BTreeMap, sync::Arc};

use kube_apiserver_embedded::{ApiServer, Checkpoint, Options, Profile};
use kube_clock::{Epoch, ThreadEpoch};
use kube_envtest::install_crds;
use parking_lot::Mutex;
use tokio::{
    runtime::Builder,
    time::{Duration, Instant},
};

use super::{Seed, describe, outcome::End};
use crate::{definition::Definition, idle::Idle};

/// Servers that have just started, by seed.
static SERVERS: Mutex<BTreeMap<u64, Arc<Start>>> = Mutex::new(BTreeMap::new());

/// Largest number of such servers. Searches need two.
const SERVERS_KEPT: usize = 8;

/// State of a server, and the virtual time since it started.
#[derive(Debug)]
pub(crate) struct Start {
    server: Checkpoint,
    at: Duration,
}

impl Seed {
    /// Sets the wall time of this thread. Seeds differ by eleven years and some milliseconds: 2026 and 2037 have the same days of the week, so that
    /// schedules are equal, and no run lasts until a time that the other one has, so that names with a time differ.
    pub(super) fn set_time(self, since_start: Duration) -> ThreadEpoch {
        let eleven_years = 4018 * 86_400_000;
        let milliseconds = 1_767_225_600_000 + (eleven_years + 123) * (self.0 % 100) as i64;
        let start = jiff::Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_millis(milliseconds);
        let since_start = jiff::SignedDuration::try_from(since_start).unwrap_or_default();
        Epoch::starting_now(start.saturating_add(since_start).unwrap_or(start)).for_this_thread()
    }

    fn options(self) -> Options {
        Options::default().profile(Profile::Dev).seed(self.0)
    }
}

impl Start {
    /// Starts a server and installs the kinds.
    ///
    /// # Errors
    ///
    /// The kinds cannot be installed.
    pub(crate) fn new(definition: &Definition, seed: Seed) -> Result<Arc<Self>, End> {
        let server = Self::of_server(seed);
        if definition.crds.is_empty() {
            return Ok(server);
        }
        let (start, installed) = Self::make(seed, Some(&server), async |server| {
            let client = kube::Client::new(server.service(), "default");
            install_crds(&client, &definition.crds).await
        });
        match installed {
            Ok(_) => Ok(Arc::new(start)),
            Err(error) => Err(End::StepFailed {
                step: "install the CustomResourceDefinitions".to_owned(),
                reason: describe(&error),
            }),
        }
    }

    /// Returns a server that has just started.
    fn of_server(seed: Seed) -> Arc<Self> {
        let known = SERVERS.lock().get(&seed.0).cloned();
        known.unwrap_or_else(|| {
            let (start, ()) = Self::make(seed, None, async |_| ());
            let (start, mut servers) = (Arc::new(start), SERVERS.lock());
            if servers.len() < SERVERS_KEPT {
                servers.insert(seed.0, Arc::clone(&start));
            }
            start
        })
    }

    /// Begins a server, prepares it, and copies its state when no task can run.
    fn make<T>(seed: Seed, from: Option<&Self>, prepare: impl AsyncFnOnce(&ApiServer) -> T) -> (Self, T) {
        fastrand::seed(seed.0 ^ 0x5eed);
        let idle = Idle::default();
        let mut builder = Builder::new_current_thread();
        let runtime = builder.enable_time().start_paused(true).on_thread_park(idle.hook()).build();
        let runtime = runtime.expect("a runtime on this thread needs no resources that may lack");
        runtime.block_on(async {
            // The clock continues from that of the copied server, so that none of its objects was created in
            // the future.
            let before = from.map(|start| start.at).unwrap_or_default();
            let (_epoch, began) = (seed.set_time(before), Instant::now());
            let server = match from {
                Some(start) => start.server(seed),
                None => ApiServer::start(seed.options()),
            };
            // The server's controllers create the objects that every namespace has.
            server.release_controllers();
            idle.reached().await;
            let prepared = prepare(&server).await;
            // The server's controllers also act on the prepared objects before the state is copied.
            idle.reached().await;
            (Self { server: server.checkpoint(), at: before + began.elapsed() }, prepared)
        })
    }

    /// Begins a server in this state. Its controllers are held.
    pub(super) fn server(&self, seed: Seed) -> ApiServer {
        ApiServer::start_at(seed.options(), &self.server)
    }

    /// Begins a server in a later state. Its controllers are held.
    pub(super) fn server_at(seed: Seed, state: &Checkpoint) -> ApiServer {
        ApiServer::start_at(seed.options(), state)
    }

    /// Virtual time since the server started.
    pub(super) fn at(&self) -> Duration {
        self.at
    }
}
