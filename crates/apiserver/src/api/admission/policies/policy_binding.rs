//! Bindings of policies.

use serde_json::Value;

use super::policy_params::ParamRef;
use crate::api::admission::matching::MatchCriteria;

/// Consequence of a failed validation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValidationAction {
    Deny,
    Warn,
    Audit,
}

/// A binding: the requests to which a policy applies, and its parameters.
#[derive(Debug)]
pub(super) struct PolicyBinding {
    pub(super) name: String,
    pub(super) policy: String,
    pub(super) params: Option<ParamRef>,
    /// Criteria in addition to those of the policy.
    pub(super) criteria: Option<MatchCriteria>,
    /// Consequences of a failed validation; empty for mutating policies.
    pub(super) actions: Vec<ValidationAction>,
}

impl PolicyBinding {
    /// Reads a valid binding.
    pub(super) fn read(name: &str, binding: &Value) -> Self {
        let spec = &binding["spec"];
        let action = |action: &Value| match action.as_str()? {
            "Deny" => Some(ValidationAction::Deny),
            "Warn" => Some(ValidationAction::Warn),
            "Audit" => Some(ValidationAction::Audit),
            _ => None,
        };
        Self {
            name: name.to_owned(),
            policy: spec["policyName"].as_str().unwrap_or_default().to_owned(),
            params: ParamRef::read(spec),
            criteria: spec["matchResources"]
                .is_object()
                .then(|| MatchCriteria::of_policy(&spec["matchResources"])),
            actions: spec["validationActions"].as_array().into_iter().flatten().filter_map(action).collect(),
        }
    }
}

impl ValidationAction {
    /// Returns the name in the binding.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Deny => "Deny",
            Self::Warn => "Warn",
            Self::Audit => "Audit",
        }
    }
}
