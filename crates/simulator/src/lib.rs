//! Operators under deterministic simulation: `cargo test` finds the crash that loses an object or creates it twice.
//!
//! ```
//! use controller_runtime::{Action, Builder, Cached, Context, Manager, ObjectKey, ReconcileError, Reconciler, manager::AddError};
//! use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
//! use kube_simulator::{Explore, Simulation};
//!
//! /// Creates a ConfigMap in every namespace.
//! struct Welcome {
//!     namespaces: Cached<Namespace>,
//! }
//!
//! impl Reconciler for Welcome {
//!     type Request = ObjectKey<Namespace>;
//!
//!     async fn reconcile(&self, key: &ObjectKey<Namespace>, cx: &Context) -> Result<Action, ReconcileError> {
//!         if self.namespaces.get(key)?.is_none_or(|namespace| namespace.metadata.deletion_timestamp.is_some()) {
//!             return Ok(Action::done());
//!         }
//!         let mut welcome = ConfigMap::default();
//!         welcome.metadata.namespace = Some(key.name().to_owned());
//!         welcome.metadata.name = Some("welcome".to_owned());
//!         cx.client().apply(&welcome).await?;
//!         Ok(Action::done())
//!     }
//! }
//!
//! /// The function that `main` calls.
//! fn add_to(manager: &Manager) -> Result<(), AddError> {
//!     let welcome = Welcome { namespaces: manager.cached() };
//!     Builder::managed_by(manager).for_kind::<Namespace>().complete(welcome)?;
//!     Ok(())
//! }
//!
//! // In a test: `#[test]`, because each run has a runtime of its own.
//! let report = Simulation::new("welcome-operator", add_to)
//!     .step("a team is created", async |user| {
//!         user.apply_yaml("{apiVersion: v1, kind: Namespace, metadata: {name: red}}").await
//!     })
//!     .explore(Explore::crashes());
//! assert!(report.is_complete());
//! ```
//!
//! # Mental model
//!
//! A run consists of the operator, an embedded API server with its controllers, remote systems, other programs and a user, on one
//! thread and in paused time. The simulation holds back every call to the API server or a remote system, every answer, and every
//! event of a watch. When no task can run, it delivers one of them, and the tasks run until all are idle again. A fixed rule
//! determines the order: the oldest answer, then the oldest call, then the watch with the oldest unread event, then an action of
//! the garbage collector; then the next step of the user, if nothing has changed for a while; then time jumps to the next timer. A
//! run that follows this rule is the *run without faults*.
//!
//! A *plan* is a short list of deviations from that run. Each deviation names a call or a watch event: `crash after create
//! configmaps default/page #1`. [`Explore`] selects the plans to try. [`Oracle`] lists the rules that a run can violate. The most
//! important rule is that a run ends with the same objects as the run without faults. Uids, generated names, ids of remote systems
//! and times may differ, but references must lead to corresponding objects. A name that contains a time or a random text counts as
//! generated. The simulation has no other description of the operator's purpose: the operator's own run without faults is the
//! specification.
//!
//! The simulation plays the run without faults three times. The first two runs have the same seed and must be equal, action by
//! action. If they differ, the operator depends on hash order, random numbers, the system's clock, threads or statics, and the
//! simulation reports the first action that differs. The third run has another seed and date. Values that differ only there, such
//! as ids of remote systems, may differ in all runs.
//!
//! # A finding
//!
//! ```text
//! after step 1, configmaps default/welcome-page-*#2 is left over
//!   violates: same objects; plan 2 of 8
//!     1  operator   starts
//!     3  STEP       a page is asked for
//!     4  user       creates pages.corpus.dev default/welcome
//!     5  operator   creates configmaps default/welcome-page-xptsf
//!     6  CRASH      operator dies without the answer to: create configmaps default/welcome-page-*
//!     7  operator′  starts
//!     8  operator′  creates configmaps default/welcome-page-b74x6   ← not in the run without faults
//!     9  operator′  changes pages.corpus.dev default/welcome .status
//!    11  STEP       its text changes
//!   replay: crash after create configmaps default/welcome-page-* #1
//! ```
//!
//! [`Simulation::explore`] also writes a trace file and a picture to `target/simulation`. `SIMULATION=<trace file> cargo test <test>`
//! plays only the plan of the file. A trace file in the folder `tests/simulation` of a package is played first in every run of its
//! test, so that the bug does not return unnoticed. [`Simulation::replay`] plays a plan in a separate test. A plan of several
//! deviations is reduced: first to fewer deviations, then to milder ones.
//!
//! # The world
//!
//! The *world* is the cluster and all remote systems that the operator can change. [`Simulation::replicas`] runs several processes
//! of the operator with leader election. [`Simulation::also`] adds another operator, and [`Simulation::actor`] a controller of the
//! cluster, such as those in [`actors`]. A [`Remote`] is a fake of a system other than the API server. The world is *quiet* when
//! nothing has changed for a while (see [the bounds](#defaults-and-bounds)).
//!
//! # Parts of runs that are skipped
//!
//! To save time, the simulation does not play each run in full:
//!
//! - All runs begin with a copy of one server, in which the kinds are installed.
//! - A run with one crash begins at the crash, in a copy of the world of the run without faults, unless a step is under way at that
//!   point, or the simulation has several processes or remote systems.
//! - A run whose deviations are crashes of the only tested process ends when, after two steps in a row, the world equals that of the
//!   run without faults.
//!
//! A run that violates a rule is always played again from the start.
//!
//! # Requirements of an operator
//!
//! The operator starts no thread, opens no socket, keeps nothing in statics, and takes time from tokio and from the
//! [reconcile's context](controller_runtime::Context). Random numbers come from the crate `fastrand`, whose generator each run
//! seeds. The simulation reports an operator if it uses threads of tokio's pool or sockets, sleeps in real time (on Linux), has
//! tasks that outlive it or are always ready, or if its runs are not reproducible.
//!
//! # Cancellation
//!
//! A crash first cuts the connection of the process, so that no request made while values are dropped reaches the server. Then it
//! drops the future of [`Manager::run`](controller_runtime::Manager::run). Calls that were carried out keep their effect.
//!
//! # Defaults and bounds
//!
//! | | |
//! |---|---|
//! | budget of a search | 10 s of real time |
//! | quiet | 20 virtual minutes without a change, longer than the longest back-off, 1000 s, and until each request that is due within two hours has had its turn; 30 s if no request waits in a controller |
//! | plans of [`Explore::random`] | 1,000 |
//! | runs and real time to shrink a plan | 200, and the budget of the search, but at least 10 s |
//! | time that watch events are held back | 2 virtual minutes; 10 virtual seconds if no more events arrive; 30 virtual seconds for a timer of the operator |
//! | calls about one object without time passing, after which events that are held back arrive | 10 |
//! | the same, after which the run counts as a loop | 150 |
//! | real time without progress, because a task is always ready or blocks the thread | 10 s, then the run is a finding; after 60 s the test process ends |
//! | longest time until quiet, after a step or crash | 1 virtual hour; 12 series of changes after pauses of more than 20 minutes |
//! | outage of a resource or remote system | 60 virtual seconds |
//! | delay of a call | 10 virtual seconds |
//! | time that a slower user waits before each write, in a run that is played before a finding about [counts](Oracle::SameCounts) | 2 virtual minutes |
//! | processes of `SIMULATION_JOBS` | 256 |
//! | attempts of a step | 600, one each virtual second; an attempt may last seven virtual days |
//! | time that an operator waits for the user's next step before it is started again | 60 virtual seconds |
//! | time for which it stays down after that step, if it is down for long | 61 virtual seconds |
//! | actions of a run | 2,000,000 |
//! | crashes of the run without faults at which runs begin | 10,000, with 200,000 objects in all; others are played from the start |
//! | actions without time passing | 20,000 in the run without faults; in others 5,000 and three times those of that run |
//!
//! # Limitations
//!
//! - Watches of caches break only with 410. Reads from the API server are never outdated; reads from caches are.
//! - If a field depends on the order of requests, such as a port that the first request gets, it may differ from the run without
//!   faults. Exclude the field with [`Simulation::mask`].
//! - If a field depends on each intermediate state of an object, such as a count of its changes, it differs when a fault hides a
//!   state from the operator. Exclude the field with [`Simulation::mask`].
//! - The simulation does not check values that are computed from generated values, such as the checksum of a generated password.
//! - Only one process crashes at a time. The clocks of processes do not differ.
//! - Of the API server's controllers, only the garbage collector and the protection of volumes can act late; the others act at
//!   once after each commit. Webhooks of the operator are not called.
//! - [`Explore::order`] draws random orders for the actions of one moment. It does not enumerate all orders.
//! - [`Explore::failovers`] carries out requests to the API server after their process has lost the lease, but no calls of remote systems:
//!   a remote system without protection against late calls is not found.
//! - A pause stops requests, answers and watch events of a process, but its timers run.
//! - A runnable of the operator that acts less often than every 30 s may be overlooked at the end of a run.
//! - The simulation notices statics, and threads that the operator starts, only if runs differ because of them.
//! - The order in which tasks are polled is fixed, not explored: races between tasks within a process are not found.

pub mod actors;
mod definition;
mod explore;
mod gate;
mod hub;
mod idle;
mod judge;
mod names;
mod oracle;
mod picture;
mod plan;
mod reconciles;
mod remote;
mod run;
mod similar;
mod simulation;
mod stepping;
mod trace;
mod trace_file;
mod truth;
mod user;
mod watchdog;

pub use self::{
    definition::Now,
    explore::{Explore, Finding, Report},
    oracle::Oracle,
    plan::{Plan, PlanError},
    remote::{Lost, Remote},
    simulation::Simulation,
    user::User,
};

/// Compiles and runs the examples of `docs/book/src/guides/simulation.md`.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/book/src/guides/simulation.md")]
struct Guide;
