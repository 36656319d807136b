//! Findings: problems that a manager detects in its own operation, each with its evidence and the next step.
//!
//! [`Manager::findings`](crate::Manager::findings) returns them; `docs/book/src/guides/explain.md` explains each [`FindingId`].
//!
//! The detectors are state machines with bounded memory that take the time as an argument. Their input is answers of the API
//! server ([`client`](client_calls::ClientFindings)), runs of controllers, and states of lists and watches.

pub(crate) mod back_off;
mod calls;
pub(crate) mod client_calls;
mod fights;
pub(crate) mod owned_fields;
mod refused_rights;
mod refused_writes;
pub(crate) mod self_triggers;
pub(crate) mod starvation;
pub(crate) mod stuck_objects;
mod text;
mod throttling;
pub(crate) mod watches;

pub(crate) use calls::CallSummary;

use std::fmt;

use k8s_openapi::jiff::Timestamp;
use serde::{Serialize, Serializer};

/// A problem, with its evidence and the next step.
///
/// `Display` prints it on one line. Texts may change between versions; [`id`](Self::id) does not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// Kind of problem.
    pub id: FindingId,
    /// Its urgency.
    pub severity: Severity,
    /// Object, resource or component that has the problem, e.g. `Deployment shop/web` or `configmaps`.
    pub subject: String,
    /// Time at which the problem began, as far as this process knows.
    pub since: Timestamp,
    /// The problem, in one or two sentences.
    pub text: String,
    /// Facts behind the text, one per line; may be empty.
    pub evidence: Vec<String>,
    /// The next step for the user, as a sentence.
    pub next: String,
}

/// Kind of a [`Finding`]. Its text form is stable: `long-back-off`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum FindingId {
    /// The operator has no permission for a request that it sends.
    MissingRight,
    /// Lists or watches of a cache fail, so that cached objects may be old.
    DeadWatch,
    /// An admission webhook refuses the writes of an object.
    WebhookRefuses,
    /// This operator and another manager alternately overwrite a field.
    Fight,
    /// A request runs repeatedly because of its own writes.
    SelfTrigger,
    /// An object does not fit its Rust type.
    UnreadableObject,
    /// An object that is being deleted waits for a finalizer.
    StuckFinalizer,
    /// The API server answers requests with 429.
    Throttled,
    /// Requests wait for a worker, because requests of another flow occupy the workers.
    Starved,
    /// A request waits for a long back-off, because its runs have failed many times.
    LongBackOff,
}

impl FindingId {
    /// The stable text form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MissingRight => "missing-right",
            Self::DeadWatch => "dead-watch",
            Self::WebhookRefuses => "webhook-refuses",
            Self::Fight => "fight",
            Self::SelfTrigger => "self-trigger",
            Self::UnreadableObject => "unreadable-object",
            Self::StuckFinalizer => "stuck-finalizer",
            Self::Throttled => "throttled",
            Self::Starved => "starved",
            Self::LongBackOff => "long-back-off",
        }
    }
}

impl fmt::Display for FindingId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for FindingId {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.as_str())
    }
}

/// Urgency of a [`Finding`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Severity {
    /// Objects are not reconciled, or not correctly, until a person acts.
    Error,
    /// Objects are reconciled late or at unnecessary cost; the problem may end by itself.
    Warning,
}

/// Formats as `dead-watch The cache of configmaps has received nothing for 11 min: … Check the API server …`.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, text, next, .. } = self;
        write!(f, "{id} {text} {next}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kinds of problems, each with its successor, so that a new one cannot be left out.
    fn next(id: FindingId) -> Option<FindingId> {
        match id {
            FindingId::MissingRight => Some(FindingId::DeadWatch),
            FindingId::DeadWatch => Some(FindingId::WebhookRefuses),
            FindingId::WebhookRefuses => Some(FindingId::Fight),
            FindingId::Fight => Some(FindingId::SelfTrigger),
            FindingId::SelfTrigger => Some(FindingId::UnreadableObject),
            FindingId::UnreadableObject => Some(FindingId::StuckFinalizer),
            FindingId::StuckFinalizer => Some(FindingId::Starved),
            FindingId::Starved => Some(FindingId::Throttled),
            FindingId::Throttled => Some(FindingId::LongBackOff),
            FindingId::LongBackOff => None,
        }
    }

    #[test]
    fn the_book_explains_each_finding() {
        let page = include_str!("../../../../docs/book/src/guides/explain.md");
        let (_, findings) = page.split_once("\n## Findings\n").expect("the section of findings");
        let explained: Vec<&str> = findings.lines().filter_map(|line| line.strip_prefix("### ")).collect();
        let all = std::iter::successors(Some(FindingId::MissingRight), |id| next(*id));
        assert_eq!(explained, all.map(FindingId::as_str).collect::<Vec<_>>());
    }
}
