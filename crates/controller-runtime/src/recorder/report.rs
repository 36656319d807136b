use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ObjectReference;

use super::limits::{self, cut};
use crate::referent::Referent;

/// What happened, as an event tells it.
///
/// ```
/// use controller_runtime::{Recorder, Report};
/// use k8s_openapi::api::core::v1::{Pod, Secret};
///
/// fn tell(events: &Recorder, pod: &Pod, secret: &Secret) {
///     let report = Report::warning("FailedMount", "Mount", "the secret has no key `token`");
///     events.record(pod, report.related(secret).annotation("example.com/key", "token"));
/// }
/// ```
///
/// What the API server would refuse for its length is cut: reasons and actions to 128 bytes, notes to 1024.
#[derive(Debug, Clone, PartialEq)]
#[must_use = "a report is told by `Recorder::record`"]
pub struct Report {
    pub(super) kind: EventType,
    pub(super) reason: String,
    pub(super) action: String,
    pub(super) note: String,
    pub(super) related: Option<ObjectReference>,
    pub(super) annotations: BTreeMap<String, String>,
}

/// Whether an event is good news.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EventType {
    Normal,
    Warning,
}

impl Report {
    /// Things go as they should. `reason` and `action` are single words in `CamelCase`, e.g. `Scaled` and `Scale`; `note` is a
    /// sentence for a person.
    pub fn normal(reason: impl Into<String>, action: impl Into<String>, note: impl Into<String>) -> Self {
        Self::new(EventType::Normal, reason.into(), action.into(), note.into())
    }

    /// Something needs attention. `reason` and `action` are single words in `CamelCase`, e.g. `FailedCreate` and `Create`;
    /// `note` is a sentence for a person.
    pub fn warning(reason: impl Into<String>, action: impl Into<String>, note: impl Into<String>) -> Self {
        Self::new(EventType::Warning, reason.into(), action.into(), note.into())
    }

    fn new(kind: EventType, reason: String, action: String, note: String) -> Self {
        Self {
            kind,
            reason: cut(reason, limits::REASON),
            action: cut(action, limits::ACTION),
            note: cut(note, limits::NOTE),
            related: None,
            annotations: BTreeMap::new(),
        }
    }

    /// A second object that the event involves: the one that was created, say, if the event is about its owner.
    ///
    /// Events that differ in it are different events.
    pub fn related(mut self, object: &impl Referent) -> Self {
        self.related = Some(object.reference());
        self
    }

    /// An annotation of the event, for programs that read it. Those of a repetition are not written.
    #[doc(alias = "AnnotatedEventf")]
    pub fn annotation(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.annotations.insert(key.into(), value.into());
        self
    }
}
