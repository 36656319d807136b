//! Conflicts: expectations of a request about its object that did not hold.

use kube::core::Status;

use super::{
    call::{Call, Verb},
    preconditions::Preconditions,
};

/// A failed expectation of a request about its object.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Conflict {
    /// Resource and key, e.g. `configmaps default/settings`.
    pub object: String,
    /// The expectation that failed.
    pub expected: Expected,
}

/// An expectation that did not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expected {
    /// The object still has this resourceVersion.
    Version(String),
    /// The object still has this UID, and no other object has taken its name.
    Uid(String),
    /// No other manager owns these fields, which server-side apply should have set without force.
    Ownership(Vec<String>),
    /// Another expectation, described only by the API server's message.
    Other,
}

impl Conflict {
    pub(in crate::client) fn of(call: &Call, status: &Status) -> Self {
        Self { object: call.subject(), expected: expected(call, status) }
    }

    /// Returns whether the API server refused a patch because the object has another UID. It reports this as invalid (422),
    /// since a patch may not change the UID.
    pub(in crate::client) fn is_about_uid(call: &Call, status: &Status) -> bool {
        let mut causes = status.details.iter().flat_map(|details| &details.causes);
        call.verb == Verb::Patch && causes.any(|cause| cause.field == "metadata.uid")
    }

    /// Advice for the error message.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match &self.expected {
            Expected::Version(_) | Expected::Other => {
                "read the object again and repeat the change, as retry_on_conflict does"
            }
            Expected::Uid(_) => "another object has taken its name: read that one and start again",
            Expected::Ownership(_) => "leave these fields to their owner, or apply with force",
        }
    }
}

fn expected(call: &Call, status: &Status) -> Expected {
    let causes = status.details.as_ref().map_or(&[][..], |details| &details.causes);
    let fields: Vec<String> = causes
        .iter()
        .filter(|cause| cause.reason == "FieldManagerConflict")
        .map(|cause| cause.field.clone())
        .collect();
    if call.verb == Verb::Apply && !fields.is_empty() {
        return Expected::Ownership(fields);
    }
    // The request's preconditions are known, but only the wording of the API server's message says which of them failed.
    let Preconditions { uid, resource_version } = Preconditions::sent_by(call);
    let is_of_uid = status.code == 422 || status.message.contains("UID in precondition");
    match (uid, resource_version) {
        (Some(uid), _) if is_of_uid => Expected::Uid(uid),
        (_, Some(version)) => Expected::Version(version),
        (Some(uid), None) => Expected::Uid(uid),
        (None, None) => Expected::Other,
    }
}
