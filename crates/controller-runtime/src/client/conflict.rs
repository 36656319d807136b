use kube::core::Status;

use super::{Call, Verb, preconditions::Preconditions};

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

    /// Whether this is how the API server refuses a patch for an object of another uid: as invalid, since a patch may not change
    /// the uid.
    pub(super) fn is_about_uid(call: &Call, status: &Status) -> bool {
        let mut causes = status.details.iter().flat_map(|details| &details.causes);
        call.verb == Verb::Patch && causes.any(|cause| cause.field == "metadata.uid")
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
    let Preconditions { uid, resource_version } = Preconditions::sent_by(call);
    let is_of_uid = status.code == 422 || status.message.contains("UID in precondition");
    match (uid, resource_version) {
        (Some(uid), _) if is_of_uid => Expected::Uid(uid),
        (_, Some(version)) => Expected::Version(version),
        (Some(uid), None) => Expected::Uid(uid),
        (None, None) => Expected::Other,
    }
}
