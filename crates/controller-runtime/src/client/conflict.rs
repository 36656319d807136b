use kube::core::Status;
use serde_json::Value;

use super::{Call, Verb};

/// What a request expected of its object in vain.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Conflict {
    /// Resource and key, e.g. `configmaps default/settings`.
    pub object: String,
    /// What was expected.
    pub expected: Expected,
}

/// An expectation that did not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expected {
    /// That the object has this version still.
    Version(String),
    /// That it is the object of this uid still, and not another one under its name.
    Uid(String),
    /// That nobody else owns these fields, which server-side apply was to set without force.
    Ownership(Vec<String>),
    /// Something that only the API server's message tells.
    Other,
}

impl Conflict {
    pub(super) fn of(call: &Call, status: &Status) -> Self {
        Self { object: call.subject(), expected: expected(call, status) }
    }

    /// What can be done about it.
    #[must_use]
    pub fn cure(&self) -> &'static str {
        match &self.expected {
            Expected::Version(_) | Expected::Other => {
                "read it again and decide anew, as retry_on_conflict does"
            }
            Expected::Uid(_) => "another object has taken its name: read that one and decide anew",
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
    // What the API server says of a failed precondition is known; which one it was stands in its words alone.
    let sent: Value = serde_json::from_slice(&call.body).unwrap_or_default();
    let expectations = if call.verb == Verb::Delete { &sent["preconditions"] } else { &sent["metadata"] };
    let text = |field: &str| expectations[field].as_str().map(ToOwned::to_owned);
    match (text("uid"), text("resourceVersion")) {
        (Some(uid), _) if status.message.contains("UID in precondition") => Expected::Uid(uid),
        (_, Some(version)) => Expected::Version(version),
        (Some(uid), None) => Expected::Uid(uid),
        (None, None) => Expected::Other,
    }
}
