//! Content of a Kubernetes Event.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ObjectReference;

use super::limits::{self, cut};
use crate::object::TypedObject;

/// Content of an event.
///
/// ```
/// use controller_runtime::{EventReport, Recorder};
/// use k8s_openapi::api::core::v1::{Pod, Secret};
///
/// fn report(events: &Recorder, pod: &Pod, secret: &Secret) {
///     let report = EventReport::warning("FailedMount", "Mount", "the secret has no key `token`");
///     events.record(pod, report.related(secret).annotation("example.com/key", "token"));
/// }
/// ```
///
/// Texts longer than the API server accepts are cut: reasons and actions to 128 bytes, notes to 1024.
#[derive(Debug, Clone, PartialEq)]
#[must_use = "a report has no effect until it is passed to `Recorder::record`"]
pub struct EventReport {
    pub(super) kind: EventType,
    pub(super) reason: String,
    pub(super) action: String,
    pub(super) note: String,
    pub(super) related: Option<ObjectReference>,
    pub(super) annotations: BTreeMap<String, String>,
}

/// Type of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EventType {
    Normal,
    Warning,
}

impl EventReport {
    /// A normal event. `reason` and `action` are single words in `CamelCase`, e.g. `Scaled` and `Scale`; `note` is a
    /// sentence for people.
    pub fn normal(reason: impl Into<String>, action: impl Into<String>, note: impl Into<String>) -> Self {
        Self::new(EventType::Normal, reason.into(), action.into(), note.into())
    }

    /// A warning, for something that needs attention. `reason` and `action` are single words in `CamelCase`, e.g.
    /// `FailedCreate` and `Create`; `note` is a sentence for people.
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

    /// Sets a second object that is involved, for example the object that was created if the event is about its owner.
    ///
    /// Events with different related objects are different events.
    pub fn related(mut self, object: &impl TypedObject) -> Self {
        self.related = Some(object.reference());
        self
    }

    /// Adds an annotation to the event, for programs that read it. Annotations of repetitions are not written.
    #[doc(alias = "AnnotatedEventf")]
    pub fn annotation(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.annotations.insert(key.into(), value.into());
        self
    }
}
