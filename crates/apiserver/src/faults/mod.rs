//! Faults as values: what goes wrong on purpose, for tests of clients that must bear it.
//!
//! A [`Rule`] says which requests it is for and what happens to them; [`ApiServer::faults`](crate::ApiServer::faults)
//! takes rules while the server runs, in process and over TCP alike. What was injected is in a [`Journal`], in its order.
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
//! # Which rule decides
//!
//! Rules are asked in the order in which they were added. The first that picks a request decides what happens to it, and
//! the rules after it do not see it. So a rule counts the requests that fit it and that no earlier rule picked.
//!
//! Rules see requests to resources. Discovery, OpenAPI, health and version always answer, and so do the server's own
//! controllers, which make no requests.
//!
//! Besides rules there are commands, which act at once: [`compact`](Faults::compact), [`evict_history`](Faults::evict_history),
//! [`bookmark_now`](Faults::bookmark_now), [`hold_watches`](Faults::hold_watches), [`close_watches`](Faults::close_watches),
//! [`stall_watches`](Faults::stall_watches), [`freeze`](Faults::freeze), and those of the clock.
//!
//! # Without Rust
//!
//! A listener [with `faults`](crate::ListenOptions::faults), or the program with `--fault-api`, takes rules and commands as JSON
//! below `/debug/faults/`, from the machine it runs on alone:
//!
//! | request | |
//! |---|---|
//! | `POST rules` | adds a rule: `{"action": "loseResponse", "verbs": ["create"], "resource": {"plural": "configmaps"}, "atMost": 1}` is the one above. Answers `{"id": 1}` |
//! | `GET rules`, `DELETE rules` | all rules |
//! | `DELETE rules/1` | one of them |
//! | `GET journal` | `{"dropped": 0, "entries": [{"at": "2026-…", "what": "rule 1: create …"}]}` |
//! | `POST commands` | `{"compact": {}}`, `{"compact": {"revision": 7}}`, `{"bookmarkNow": {"group": "apps", "plural": "deployments"}}` and likewise `evictHistory`, `closeWatches`, `stallWatches`, `holdWatches`, `releaseWatches`, `freeze`; `"stopClock"`, `"resumeClock"`, `{"advanceClock": "-1h"}` |
//!
//! Names are those of this module in camel case, with durations as Go writes them: an action is `"reset"`,
//! `{"delayBefore": "1.5s"}`, `{"fail": {"tooManyRequests": {"retryAfter": "2s"}}}`, `{"answer": {"code": 502, "body": "…"}}`,
//! `{"truncate": 100}`, `"silence"`, `"withholdResponse"`, `{"stall": 100}`, `{"staleRead": {"behind": 5}}`, `{"watch": {"closeAfterEvents": 3}}`, `{"watch": {"drop": {"every": 2}}}`;
//! `when` is `"always"`, `{"nth": 1}`, `{"every": 2}` or `{"probability": 0.5}`, and `within` `{"from": "0s", "to": "10s"}`.
//! `kubectl get --raw /debug/faults/journal` reads it.
//!
//! # Repeatability
//!
//! Probabilities are drawn from [`Options::seed`](crate::Options), for each rule apart: the same requests in the same
//! order meet the same faults, and another rule does not change the luck of those that were there. Delays follow tokio's
//! time, paused time included.
//!
//! # Bounds
//!
//! The journal keeps the last 10,000 entries and counts what it dropped. A late watch holds at most 64 chunks. Without
//! rules a request costs one atomic load.

mod action;
mod api;
mod cut;
mod disorder;
mod facts;
mod journal;
mod late;
mod orders;
mod plan;
mod rule;
mod text;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use thiserror::Error;
use tokio::time::Instant;

pub use crate::request::verb::Verb;
pub(crate) use action::Refusal;
pub use action::{Action, Answer, Failure, WatchFault};
pub(crate) use api::{PREFIX as API, answer as answer_api};
pub(crate) use cut::{Cut, Then};
pub(crate) use disorder::Disorder;
pub use facts::Facts;
pub use journal::{Entry, Injected, Journal};
pub(crate) use late::late;
pub(crate) use orders::{Heard, Orders};
use plan::Plan;
pub(crate) use plan::{Decision, FaultyWatch, Stale};
pub use rule::{GroupResource, Rule, RuleId, When};

use crate::resource::StorageKey;
use crate::server::Server;

/// The connection was cut by a fault: what an in-process client gets instead of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("connection reset by a fault")]
#[non_exhaustive]
pub struct ConnectionReset;

/// The rules of one server, and what came of them. Clones are handles of the same rules.
///
/// A handle keeps the state of the server, but not the server: when that is gone, its rules have nothing to pick.
#[derive(Clone)]
pub struct Faults {
    server: Arc<Server>,
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faults").field("rules", &self.rules()).finish_non_exhaustive()
    }
}

impl Faults {
    pub(crate) fn new(server: Arc<Server>) -> Self {
        Self { server }
    }

    /// Adds a rule after those that are there. It is for requests that come from now on.
    #[expect(clippy::must_use_candidate, reason = "most rules stay")]
    pub fn add(&self, rule: Rule) -> RuleId {
        self.server.injector.change(|plan| plan.add(rule, Instant::now()))
    }

    /// Takes a rule away; `None` if it is not there. Faults under way, such as a delay or a stalled watch, go on.
    #[expect(clippy::must_use_candidate, reason = "the rule is known to whoever added it")]
    pub fn remove(&self, id: RuleId) -> Option<Rule> {
        self.server.injector.change(|plan| plan.remove(id))
    }

    /// Takes all rules away. The journal stays.
    pub fn clear(&self) {
        self.server.injector.change(Plan::clear);
    }

    /// The rules in the order in which they are asked.
    #[must_use]
    pub fn rules(&self) -> Vec<(RuleId, Rule)> {
        self.server.injector.change(|plan| plan.rules().map(|(id, rule)| (id, rule.clone())).collect())
    }

    /// What was injected until now.
    #[must_use]
    pub fn journal(&self) -> Journal {
        self.server.injector.change(|plan| plan.journal().clone())
    }

    /// Expires everything older than now, as a compaction of etcd does: watches, exact lists and continue tokens that
    /// begin at an older resource version are 410 from now on. Watches that are open go on.
    pub fn compact(&self) {
        self.compact_to(u64::MAX);
    }

    /// The same for what is older than this revision, which the present one bounds. A compaction is not taken back: an
    /// older revision than that of the last one changes nothing.
    pub fn compact_to(&self, revision: u64) {
        let revision = self.server.compact(revision);
        self.record(Injected::Compacted { revision });
    }

    /// Forgets the history of a resource, as a server that starts anew: watches that begin before its last change are 410,
    /// and open ones that have not yet been sent that change end. Other resources keep theirs.
    ///
    /// `group` is empty for the core group. Returns whether there is such a resource.
    #[expect(clippy::must_use_candidate, reason = "called for its effect")]
    pub fn evict_history(&self, group: &str, plural: &str) -> bool {
        self.order(
            group,
            plural,
            |storage| {
                self.server.evict(storage);
            },
            |resource| Injected::HistoryEvicted { resource },
        )
    }

    /// Has the open watches of a resource that take bookmarks send one now, whether it tells anything new or not.
    ///
    /// `group` is empty for the core group. Returns whether there is such a resource.
    #[expect(clippy::must_use_candidate, reason = "called for its effect")]
    pub fn bookmark_now(&self, group: &str, plural: &str) -> bool {
        self.tell(group, plural, |order| order.bookmarks += 1, |resource| Injected::Bookmarked { resource })
    }

    /// Ends the open watches of a resource, as they end at their deadlines; new ones begin as ever. Returns whether there is
    /// such a resource.
    #[expect(clippy::must_use_candidate, reason = "called for its effect")]
    pub fn close_watches(&self, group: &str, plural: &str) -> bool {
        self.tell(group, plural, |order| order.closes += 1, |resource| Injected::Closed { resource })
    }

    /// Silences the open watches of a resource for ever, past their deadlines too, as a path that loses packets does: they
    /// stay open, and neither events nor bookmarks arrive. New watches begin as ever. Returns whether there is such a resource.
    #[expect(clippy::must_use_candidate, reason = "called for its effect")]
    pub fn stall_watches(&self, group: &str, plural: &str) -> bool {
        self.tell(group, plural, |order| order.stalls += 1, |resource| Injected::Stalled { resource })
    }

    /// Keeps the watches of a resource, those that begin meanwhile too, open and silent until they are
    /// [released](Self::release_watches) or end. Returns whether there is such a resource.
    #[expect(clippy::must_use_candidate, reason = "called for its effect")]
    pub fn hold_watches(&self, group: &str, plural: &str) -> bool {
        self.tell(group, plural, |order| order.held = true, |resource| Injected::Held { resource })
    }

    /// Lets held watches go on with what happened meanwhile. Returns whether there is such a resource.
    #[expect(clippy::must_use_candidate, reason = "called for its effect")]
    pub fn release_watches(&self, group: &str, plural: &str) -> bool {
        self.tell(group, plural, |order| order.held = false, |resource| Injected::Released { resource })
    }

    /// Ends the open watches of a resource, and refuses its lists and new watches as
    /// [`Failure::Initializing`], as while its storage is set up anew, until the rule that is returned is removed. The rule
    /// comes after those that are there. `None` if there is no such resource.
    #[expect(clippy::must_use_candidate, reason = "some resources stay frozen")]
    pub fn freeze(&self, group: &str, plural: &str) -> Option<RuleId> {
        let storage = self.table(group, plural)?;
        let refused = Rule::new(Action::Fail(Failure::Initializing)).resource(group, plural);
        let rule = self.add(refused.verb(Verb::List).verb(Verb::Watch));
        self.server.injector.orders.give(&storage, |order| order.closes += 1);
        self.server.wake(&storage);
        self.record(Injected::Frozen { resource: GroupResource::new(group, plural), rule });
        Some(rule)
    }

    /// Stops the clock that objects get their times from, and with it every age. What waits goes on: delays and deadlines
    /// follow tokio's time. Only a deleted namespace is left alone by this clock, see
    /// [`Options::namespace_grace`](crate::Options::namespace_grace).
    pub fn stop_clock(&self) {
        self.server.clock.stop();
        self.record(Injected::ClockStopped);
    }

    /// Lets a stopped clock go on from what it shows.
    pub fn resume_clock(&self) {
        self.server.clock.resume();
        self.record(Injected::ClockResumed);
    }

    /// Sets the clock that objects get their times from forward, or with a negative time back; see
    /// [`stop_clock`](Self::stop_clock).
    pub fn advance_clock(&self, by: SignedDuration) {
        self.server.clock.advance(by);
        self.record(Injected::ClockAdvanced { by });
    }

    /// Tells the watches of a resource to do something.
    fn tell(
        &self,
        group: &str,
        plural: &str,
        change: impl FnOnce(&mut orders::Order),
        what: impl FnOnce(GroupResource) -> Injected,
    ) -> bool {
        let give = |storage: &StorageKey| {
            self.server.injector.orders.give(storage, change);
            self.server.wake(storage);
        };
        self.order(group, plural, give, what)
    }

    fn order(
        &self,
        group: &str,
        plural: &str,
        carry_out: impl FnOnce(&StorageKey),
        what: impl FnOnce(GroupResource) -> Injected,
    ) -> bool {
        let table = self.table(group, plural);
        if let Some(table) = &table {
            carry_out(table);
            self.record(what(GroupResource::new(group, plural)));
        }
        table.is_some()
    }

    /// Where the objects of a resource are, if it is served.
    fn table(&self, group: &str, plural: &str) -> Option<StorageKey> {
        self.server.registry().all().find_map(|served| {
            let resource = &served.resource;
            (resource.group == group && resource.plural == plural).then(|| served.storage().clone())
        })
    }

    fn record(&self, what: Injected) {
        let now = self.server.clock.now();
        self.server.injector.change(|plan| plan.record(what, now));
    }
}

/// The plan where requests meet it.
#[derive(Debug)]
pub(crate) struct Injector {
    /// Whether there are rules: all that a request reads while there are none.
    armed: AtomicBool,
    plan: Mutex<Plan>,
    pub(crate) orders: Orders,
}

impl Injector {
    pub(crate) fn new(seed: u64) -> Self {
        Self { armed: AtomicBool::new(false), plan: Mutex::new(Plan::new(seed)), orders: Orders::default() }
    }

    pub(crate) fn is_armed(&self) -> bool {
        self.armed.load(Ordering::Acquire)
    }

    pub(crate) fn decide(&self, request: &Facts, at: Timestamp) -> Option<Decision> {
        self.plan.lock().decide(request, Instant::now(), at)
    }

    fn change<R>(&self, change: impl FnOnce(&mut Plan) -> R) -> R {
        let mut plan = self.plan.lock();
        let outcome = change(&mut plan);
        // Written under the lock, so that the flag of the last change stays.
        self.armed.store(plan.rules().len() > 0, Ordering::Release);
        outcome
    }
}
