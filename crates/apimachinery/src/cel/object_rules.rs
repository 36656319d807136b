//! Rules of custom resources (`x-kubernetes-validations`).
//!
//! The rules are parsed once, with their schema. Objects of a schema without rules cost nothing. The types of an expression are checked
//! when its definition is written, and again when it is evaluated.

use std::sync::Arc;

use serde_json::Value;

use super::ratcheting::Correlated;
use super::rule_check::{check_defaults, check_rules};
use super::rule_run::{ComparedValue, RuleOutcome, RuleRun};
use super::rule_tree::{RuleNode, has_rules};
use super::value_schema::ValueSchema;
use crate::field_path::FieldPath;
use crate::status::FieldError;

/// The rules of a custom kind's schema.
#[derive(Debug)]
pub struct ObjectRules {
    root: RuleNode,
    /// The schema as it was written, without the fields that each object has.
    declared: Arc<ValueSchema>,
}

impl ObjectRules {
    /// Parses the rules of a custom kind's schema; `None` if it has none.
    #[must_use]
    pub fn read(open_api_v3_schema: &Value) -> Option<Self> {
        if !has_rules(open_api_v3_schema) {
            return None;
        }
        let declared = Arc::new(ValueSchema::read(open_api_v3_schema));
        let root = Arc::new(ValueSchema::clone(&declared).with_object_fields(open_api_v3_schema));
        RuleNode::read(open_api_v3_schema, root).map(|root| Self { root, declared })
    }

    /// Returns the errors of the rules of a custom kind's schema, which is structural. Their fields begin with `place`, and so do those of
    /// `keywords`, the errors of its other keywords.
    #[must_use]
    pub fn check(open_api_v3_schema: &Value, place: &str, keywords: &[FieldError]) -> Vec<FieldError> {
        let mut errors = Vec::new();
        check_defaults(open_api_v3_schema, place, &mut errors);
        // As in kube-apiserver, rules are only compiled if the defaults are valid.
        if errors.is_empty() {
            errors.extend(check_rules(open_api_v3_schema, place, keywords));
        }
        errors
    }

    /// Returns the error that says that the rules are not evaluated because of these errors of the object; `None` if they are evaluated anyway.
    #[must_use]
    pub fn unchecked(errors: &[FieldError]) -> Option<FieldError> {
        let prevents = |error: &FieldError| {
            matches!(
                error.reason,
                "FieldValueNotSupported"
                    | "FieldValueRequired"
                    | "FieldValueTooLong"
                    | "FieldValueTooMany"
                    | "FieldValueTypeInvalid"
            )
        };
        let why = "some validation rules were not checked because the object was invalid; correct the existing errors to \
                   complete validation";
        errors.iter().any(prevents).then(|| FieldError::invalid("<nil>", "null", why))
    }

    /// Evaluates the rules for a new object, or for the new state of an object.
    #[must_use]
    pub fn validate(&self, object: &Value, old: Option<&Value>) -> RuleOutcome {
        let mut run = RuleRun::new();
        let correlated = old.map(|old| Correlated::new(old, object, &self.declared));
        let compared = ComparedValue { value: object, old, correlated: correlated.as_ref(), parent: None };
        // A run that stops early has put the reason among its errors.
        let _ = run.node(&self.root, compared, &FieldPath::root());
        run.outcome
    }
}
