//! Fault injection: failures as values, for tests of clients that must tolerate them.
//!
//! A [`Rule`] selects requests and has an action, which defines the effect on them. [`ApiServer::faults`](crate::ApiServer::faults) accepts
//! rules while the server runs. They apply equally to calls in process and over TCP. The [`Journal`] lists the injected faults in order.
//!
//! ```
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube::api::{Api, PostParams};
//! use kube_apiserver_embedded::faults::{Action, Rule, Verb};
//! use kube_apiserver_embedded::{ApiServer, Options};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = ApiServer::start(Options::default());
//! let faults = server.faults();
//! faults.add(Rule::new(Action::LoseResponse).verb(Verb::Create).resource("", "configmaps").once());
//!
//! let maps: Api<ConfigMap> = Api::default_namespaced(kube::Client::new(server.service(), "default"));
//! let mut map = ConfigMap::default();
//! map.metadata.name = Some("settings".into());
//! assert!(maps.create(&PostParams::default(), &map).await.is_err());
//! assert!(maps.get("settings").await.is_ok(), "it was created all the same");
//! let journal = faults.journal().to_string();
//! assert_eq!(journal, "rule 1: create configmaps default/: carried out, response lost\n");
//! # Ok(())
//! # }
//! ```
//!
//! # Order of rules
//!
//! Rules are evaluated in the order in which they were added. The first rule that picks a request applies to it, and later rules are not
//! evaluated. A rule therefore counts only matching requests that no earlier rule picked.
//!
//! Rules apply to requests for resources. Discovery, OpenAPI, health checks and version are never affected. The server's own controllers
//! are not affected either, because they make no requests.
//!
//! Commands take effect at once: [`compact`](Faults::compact), [`evict_history`](Faults::evict_history),
//! [`bookmark_now`](Faults::bookmark_now), [`hold_watches`](Faults::hold_watches), [`close_watches`](Faults::close_watches),
//! [`stall_watches`](Faults::stall_watches), [`freeze`](Faults::freeze), and the commands of the clock.
//!
//! # Without Rust
//!
//! A listener [with `faults`](crate::ListenOptions::faults), or the program with `--fault-api`, accepts rules and commands as
//! JSON below `/debug/faults/`, on loopback addresses only:
//!
//! | request | effect or response |
//! |---|---|
//! | `POST rules` | adds a rule: `{"action": "loseResponse", "verbs": ["create"], "resource": {"plural": "configmaps"}, "atMost": 1}` is the rule of the example. Answers `{"id": 1}` |
//! | `GET rules`, `DELETE rules` | lists or removes all rules |
//! | `DELETE rules/1` | removes one rule |
//! | `GET journal` | returns `{"dropped": 0, "entries": [{"at": "2026-…", "what": "rule 1: create …"}]}` |
//! | `POST commands` | `{"compact": {}}`, `{"compact": {"revision": 7}}`, `{"bookmarkNow": {"group": "apps", "plural": "deployments"}}`, in the same form `evictHistory`, `closeWatches`, `stallWatches`, `holdWatches`, `releaseWatches`, `freeze`; `"stopClock"`, `"resumeClock"`, `{"advanceClock": "-1h"}` |
//!
//! Names are those of this module in camel case, and durations have Go's format: an action is `"reset"`,
//! `{"delayBefore": "1.5s"}`, `{"fail": {"tooManyRequests": {"retryAfter": "2s"}}}`, `{"answer": {"code": 502, "body": "…"}}`,
//! `{"truncate": 100}`, `"silence"`, `"withholdResponse"`, `{"stall": 100}`, `{"staleRead": {"behind": 5}}`, `{"watch": {"closeAfterEvents": 3}}`, `{"watch": {"drop": {"every": 2}}}`;
//! `when` is `"always"`, `{"nth": 1}`, `{"every": 2}` or `{"probability": 0.5}`, and `within` `{"from": "0s", "to": "10s"}`.
//! `kubectl get --raw /debug/faults/journal` prints the journal.
//!
//! # Repeatability
//!
//! Probabilities are drawn from [`Options::seed`](crate::Options), independently for each rule: the same requests in the same order get
//! the same faults, and a new rule does not change the draws of others. Delays follow tokio's time, which tests can pause.
//!
//! # Bounds
//!
//! The journal keeps the last 10,000 entries and counts the dropped ones. A [late](WatchFault::Late) watch holds at most 64 chunks. Without
//! rules, a request costs one atomic load.

mod action;
mod cut;
mod disorder;
mod fault_api;
mod fault_json;
mod journal;
mod late;
mod plan;
mod rule;
mod watch_commands;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use thiserror::Error;
use tokio::time::Instant;

pub use crate::request::info::RequestInfo;
pub use crate::request::verb::Verb;
pub(crate) use action::FailureResponse;
pub use action::{Action, Answer, Failure, WatchFault};
pub(crate) use cut::{Cut, CutEffect};
pub(crate) use disorder::Disorder;
pub(crate) use fault_api::{PREFIX as API, answer as answer_api};
pub use journal::{Entry, Injected, Journal};
pub(crate) use late::late;
use plan::Plan;
pub(crate) use plan::{FaultyWatch, PlannedAction, Stale};
pub use rule::{GroupResource, Rule, RuleId, When};
pub(crate) use watch_commands::{SeenCommands, WatchCommands};

use crate::kind::resource::StorageKey;
use crate::state::ClusterState;

/// Error of an in-process call after a fault closed its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("connection reset by a fault")]
#[non_exhaustive]
pub struct ConnectionReset;

/// Handle to the fault rules and the journal of one server. Clones share both.
///
/// A handle keeps the state of the server alive, but not the server. Rules have no effect after the server has stopped.
#[derive(Clone)]
pub struct Faults {
    cluster: Arc<ClusterState>,
    injector: Arc<Injector>,
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faults").field("rules", &self.rules()).finish_non_exhaustive()
    }
}

impl Faults {
    pub(crate) fn new(cluster: Arc<ClusterState>, injector: Arc<Injector>) -> Self {
        Self { cluster, injector }
    }

    /// Adds a rule after the existing ones. It applies to requests that arrive from now on.
    #[expect(clippy::must_use_candidate, reason = "the id is only needed to remove the rule")]
    pub fn add(&self, rule: Rule) -> RuleId {
        self.injector.change(|plan| plan.add(rule, Instant::now()))
    }

    /// Removes and returns a rule; `None` if it does not exist. Faults in progress, such as a delay or a stalled watch, continue.
    #[expect(clippy::must_use_candidate, reason = "callers rarely need the removed rule")]
    pub fn remove(&self, id: RuleId) -> Option<Rule> {
        self.injector.change(|plan| plan.remove(id))
    }

    /// Removes all rules. The journal stays.
    pub fn clear(&self) {
        self.injector.change(Plan::clear);
    }

    /// Returns the rules in the order in which they are evaluated.
    #[must_use]
    pub fn rules(&self) -> Vec<(RuleId, Rule)> {
        self.injector.change(|plan| plan.rules().map(|(id, rule)| (id, rule.clone())).collect())
    }

    /// Returns a copy of the journal.
    #[must_use]
    pub fn journal(&self) -> Journal {
        self.injector.change(|plan| plan.journal().clone())
    }

    /// Compacts everything older than the current revision, as etcd does: watches, exact lists and continue tokens that begin at
    /// an older resource version are answered with 410 from now on. Open watches continue.
    pub fn compact(&self) {
        self.compact_to(u64::MAX);
    }

    /// Compacts up to `revision`, at most the current one. Never moves backwards: a revision older than that of the last
    /// compaction changes nothing.
    pub fn compact_to(&self, revision: u64) {
        let revision = self.cluster.compact(revision);
        self.record(Injected::Compacted { revision });
    }

    /// Drops the history of a resource, as a restarted server does. Watches that begin before its last change are answered with
    /// 410, and open watches that have not received that change yet end. Other resources keep their history.
    ///
    /// `group` is empty for the core group. Returns whether the resource is served.
    #[expect(clippy::must_use_candidate, reason = "called for its effect")]
    pub fn evict_history(&self, group: &str, plural: &str) -> bool {
        self.carry_out(
            group,
            plural,
            |storage| {
                self.cluster.evict(storage);
            },
            |resource| Injected::HistoryEvicted { resource },
        )
    }

    /// Makes the open watches of a resource that accept bookmarks send one now, even if the revision has not changed.
    ///
    /// `group` is empty for the core group. Returns whether the resource is served.
    #[expect(clippy::must_use_candidate, reason = "called for its effect")]
    pub fn bookmark_now(&self, group: &str, plural: &str) -> bool {
        self.command_watches(
            group,
            plural,
            |state| state.bookmarks += 1,
            |resource| Injected::Bookmarked { resource },
        )
    }

    /// Ends the open watches of a resource, as at their deadline. New watches are not affected. Returns whether the resource is
    /// served.
    #[expect(clippy::must_use_candidate, reason = "called for its effect")]
    pub fn close_watches(&self, group: &str, plural: &str) -> bool {
        self.command_watches(
            group,
            plural,
            |state| state.closes += 1,
            |resource| Injected::Closed { resource },
        )
    }

    /// Silences the open watches of a resource forever, even beyond their deadlines, like a network path that loses packets: the watches
    /// stay open, but neither events nor bookmarks arrive. New watches are not affected. Returns whether the resource is served.
    #[expect(clippy::must_use_candidate, reason = "called for its effect")]
    pub fn stall_watches(&self, group: &str, plural: &str) -> bool {
        self.command_watches(
            group,
            plural,
            |state| state.stalls += 1,
            |resource| Injected::Stalled { resource },
        )
    }

    /// Keeps the watches of a resource, including those that begin later, open and silent until they are
    /// [released](Self::release_watches) or end. Returns whether the resource is served.
    #[expect(clippy::must_use_candidate, reason = "called for its effect")]
    pub fn hold_watches(&self, group: &str, plural: &str) -> bool {
        self.command_watches(group, plural, |state| state.held = true, |resource| Injected::Held { resource })
    }

    /// Resumes held watches, which then receive the changes made meanwhile. Returns whether the resource is served.
    #[expect(clippy::must_use_candidate, reason = "called for its effect")]
    pub fn release_watches(&self, group: &str, plural: &str) -> bool {
        self.command_watches(
            group,
            plural,
            |state| state.held = false,
            |resource| Injected::Released { resource },
        )
    }

    /// Ends the open watches of a resource, and adds a rule that fails its lists and new watches with [`Failure::Initializing`], as during
    /// the initialization of its storage. Returns the rule, which comes after the existing ones; removing it unfreezes the resource.
    /// Returns `None` if the resource is not served.
    #[expect(clippy::must_use_candidate, reason = "the id is only needed to unfreeze the resource")]
    pub fn freeze(&self, group: &str, plural: &str) -> Option<RuleId> {
        let storage = self.table(group, plural)?;
        let refused = Rule::new(Action::Fail(Failure::Initializing)).resource(group, plural);
        // The rule is added before the watches end, because their clients start new watches at once.
        let rule = self.add(refused.verb(Verb::List).verb(Verb::Watch));
        self.injector.watch_commands.issue(&storage, |state| state.closes += 1);
        self.cluster.wake(&storage);
        self.record(Injected::Frozen { resource: GroupResource::new(group, plural), rule });
        Some(rule)
    }

    /// Stops the clock for timestamps in objects, and for ages that are computed from it. Delays and deadlines follow tokio's time and
    /// continue. The exception is [`Options::namespace_grace`](crate::Options::namespace_grace), which this clock measures.
    pub fn stop_clock(&self) {
        self.cluster.clock.stop();
        self.record(Injected::ClockStopped);
    }

    /// Lets a stopped clock continue from the time that it shows.
    pub fn resume_clock(&self) {
        self.cluster.clock.resume();
        self.record(Injected::ClockResumed);
    }

    /// Sets the clock for timestamps in objects forward, or back if `by` is negative; see [`stop_clock`](Self::stop_clock).
    pub fn advance_clock(&self, by: SignedDuration) {
        self.cluster.clock.advance(by);
        self.record(Injected::ClockAdvanced { by });
    }

    /// Issues a command to the watches of a resource and wakes them.
    fn command_watches(
        &self,
        group: &str,
        plural: &str,
        change: impl FnOnce(&mut watch_commands::CommandState),
        injected: impl FnOnce(GroupResource) -> Injected,
    ) -> bool {
        let issue = |storage: &StorageKey| {
            // Stored before the wake-up, so that the woken watches find the command.
            self.injector.watch_commands.issue(storage, change);
            self.cluster.wake(storage);
        };
        self.carry_out(group, plural, issue, injected)
    }

    /// Runs `command` for the storage of a resource and records the fault. Returns `false` if the resource is not served.
    fn carry_out(
        &self,
        group: &str,
        plural: &str,
        command: impl FnOnce(&StorageKey),
        injected: impl FnOnce(GroupResource) -> Injected,
    ) -> bool {
        let table = self.table(group, plural);
        if let Some(table) = &table {
            command(table);
            self.record(injected(GroupResource::new(group, plural)));
        }
        table.is_some()
    }

    /// Returns the storage key of a resource, if it is served.
    fn table(&self, group: &str, plural: &str) -> Option<StorageKey> {
        self.cluster.registry().all().find_map(|served| {
            let resource = &served.resource;
            (resource.group == group && resource.plural == plural).then(|| served.storage().clone())
        })
    }

    fn record(&self, injected: Injected) {
        let now = self.cluster.clock.now();
        self.injector.change(|plan| plan.record(injected, now));
    }
}

/// Shares the plan between the requests and the handles.
#[derive(Debug)]
pub(crate) struct Injector {
    /// Whether there are rules. Requests to a server without rules read nothing else.
    armed: AtomicBool,
    plan: Mutex<Plan>,
    pub(crate) watch_commands: WatchCommands,
}

impl Injector {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            armed: AtomicBool::new(false),
            plan: Mutex::new(Plan::new(seed)),
            watch_commands: WatchCommands::default(),
        }
    }

    pub(crate) fn is_armed(&self) -> bool {
        self.armed.load(Ordering::Acquire)
    }

    pub(crate) fn decide(&self, request: &RequestInfo, at: Timestamp) -> Option<PlannedAction> {
        self.plan.lock().decide(request, Instant::now(), at)
    }

    fn change<R>(&self, change: impl FnOnce(&mut Plan) -> R) -> R {
        let mut plan = self.plan.lock();
        let outcome = change(&mut plan);
        // Stored under the lock, so that concurrent changes store their flags in order.
        self.armed.store(plan.rules().len() > 0, Ordering::Release);
        outcome
    }
}
