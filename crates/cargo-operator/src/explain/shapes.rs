//! The parts of an operator's answers that are shown as text. Missing members get defaults. The JSON output contains whole answers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The answer of `/overview`.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Overview {
    pub(super) name: String,
    pub(super) library: String,
    pub(super) state: String,
    pub(super) leader: Leader,
    pub(super) findings: Vec<Finding>,
    pub(super) controllers: Vec<Summary>,
}

#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct Leader {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lease: Option<String>,
    pub(super) leads: bool,
}

#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct Finding {
    pub(super) id: String,
    pub(super) severity: String,
    pub(super) subject: String,
    pub(super) since: String,
    pub(super) text: String,
    pub(super) evidence: Vec<String>,
    pub(super) next: String,
}

/// The answer of `/cluster`.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct ClusterAnswer {
    pub(super) calls: Vec<VerbCalls>,
}

/// Requests to the API server with one verb.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct VerbCalls {
    pub(super) verb: String,
    pub(super) calls: u64,
    pub(super) errors: BTreeMap<String, u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) took: Option<Took>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct Took {
    pub(super) p50: f64,
    pub(super) p99: f64,
}

/// Numbers of a controller.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Summary {
    pub(super) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) kind: Option<String>,
    pub(super) queued: usize,
    pub(super) waiting: usize,
    pub(super) running: usize,
    pub(super) workers: usize,
    pub(super) failing: usize,
    pub(super) runs: u64,
    pub(super) failures: u64,
}

/// The answer of `/controllers/NAME`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Controller {
    pub(super) name: String,
    pub(super) kind: Option<String>,
    pub(super) sources: Vec<String>,
}

impl Controller {
    /// Whether the text of a user names the controller or its kind: `guestbook`, `Guestbook.example.com`, `guestbooks`.
    pub(super) fn reconciles(&self, kind: &str) -> bool {
        let is_kind = |known: &String| {
            let short = known.split('.').next().unwrap_or_default();
            known.eq_ignore_ascii_case(kind) || short.eq_ignore_ascii_case(kind)
        };
        let is_plural =
            self.kind.is_some() && self.sources.first().is_some_and(|first| is_resource(first, kind));
        self.kind.iter().any(is_kind) || is_plural || self.name.eq_ignore_ascii_case(kind)
    }
}

/// Whether the text of a user names a resource such as `guestbooks.example.com`.
pub(super) fn is_resource(resource: &str, kind: &str) -> bool {
    let plural = resource.split('.').next().unwrap_or_default();
    let singular = plural.strip_suffix('s').unwrap_or(plural);
    [resource, plural, singular].iter().any(|name| name.eq_ignore_ascii_case(kind))
}

/// A page of `/controllers/NAME/requests`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Page {
    pub(super) items: Vec<Item>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Item {
    request: String,
}

impl Item {
    /// The request without its kind: `shop/web`.
    pub(super) fn name(&self) -> &str {
        without_kind(&self.request)
    }
}

fn without_kind(request: &str) -> &str {
    request.rsplit(' ').next().unwrap_or_default()
}

/// The explanation of a request.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Request {
    pub(super) controller: String,
    pub(super) request: String,
    pub(super) state: RequestState,
    pub(super) attempt: u32,
    pub(super) causes: Causes,
    pub(super) runs: Vec<Run>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) failed_events: Vec<FailedEvent>,
}

impl Request {
    /// Time of the last run, as text that sorts.
    pub(super) fn ended(&self) -> &str {
        self.runs.first().map_or("", |run| &run.ended)
    }
}

/// State of a request in the queue.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum RequestState {
    #[default]
    Idle,
    Queued {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        since: Option<String>,
        #[serde(default)]
        priority: String,
    },
    Waiting {
        until: String,
        left: f64,
        rule: String,
    },
    Running {
        #[serde(default)]
        again: bool,
    },
    #[serde(untagged)]
    Unknown(serde_json::Value),
}

#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Causes {
    pub(super) first: Vec<Cause>,
    pub(super) events: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) without_event: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct Cause {
    pub(super) change: String,
    pub(super) source: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) object: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Run {
    pub(super) ended: String,
    pub(super) took: f64,
    pub(super) attempt: u32,
    pub(super) causes: Causes,
    pub(super) result: Outcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) writes: Option<Vec<Write>>,
    pub(super) more_writes: u32,
}

/// Result of a run.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Outcome {
    #[default]
    Done,
    Requeued,
    RequeuedAfter(f64),
    Failed(String),
    FailedForGood(String),
    Panicked(String),
    TimedOut,
    #[serde(untagged)]
    Unknown(serde_json::Value),
}

#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct Write {
    pub(super) verb: String,
    pub(super) subject: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) code: Option<u16>,
}

/// An event that a predicate or handler failed to handle.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct FailedEvent {
    pub(super) source: String,
    pub(super) object: String,
    pub(super) error: String,
}

/// Metadata of an object.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ObjectAnswer {
    pub(super) kind: String,
    pub(super) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) namespace: Option<String>,
    pub(super) version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) generation: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) created: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) deleted: Option<String>,
    pub(super) finalizers: Vec<Finalizer>,
    pub(super) requests: Vec<LedTo>,
}

#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Finalizer {
    pub(super) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) added_by: Option<String>,
}

/// A request that events of an object lead to.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct LedTo {
    pub(super) controller: String,
    pub(super) request: String,
}

impl LedTo {
    pub(super) fn name(&self) -> &str {
        without_kind(&self.request)
    }
}
