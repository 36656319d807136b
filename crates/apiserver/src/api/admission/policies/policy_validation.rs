//! Evaluation of a validating policy for one parameter.

use kube_apimachinery::cel::{AccessQuery, ExpressionValue, POLICY_BUDGET};

use super::compiled_policy::{CompiledPolicy, OutOfBudget, PolicyExpression, Validation};
use crate::api::admission::expression_input::ExpressionInput;

/// Maximum length of the value of a message expression in bytes.
const MESSAGE_LENGTH: usize = 5 * 1024;

/// Result of the validations of a policy.
#[derive(Debug, Default)]
pub(super) struct ValidationOutcome {
    /// Decisions in the order of the validations.
    pub(super) decisions: Vec<ValidationDecision>,
    /// Keys and values of audit annotations.
    pub(super) annotations: Vec<(String, String)>,
    /// Errors of audit annotations. They refuse the request regardless of the actions of the binding.
    pub(super) annotation_errors: Vec<String>,
}

/// Result of one validation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ValidationDecision {
    Admitted,
    /// The request fails the validation, or the validation has no value.
    Failed {
        message: String,
        reason: String,
    },
}

impl ValidationOutcome {
    /// Returns the outcome of an error that concerns all validations.
    fn of_error(policy: &CompiledPolicy, why: String) -> Self {
        Self { decisions: vec![ValidationDecision::of_error(policy, why)], ..Self::default() }
    }
}

impl ValidationDecision {
    fn of_error(policy: &CompiledPolicy, message: String) -> Self {
        if policy.ignores_failure {
            Self::Admitted
        } else {
            Self::Failed { message, reason: "Invalid".to_owned() }
        }
    }
}

/// Evaluates the match conditions, validations, messages and audit annotations of a policy.
pub(super) fn validate(policy: &CompiledPolicy, input: &ExpressionInput<'_>) -> ValidationOutcome {
    match policy.matches(input) {
        Ok(true) => {}
        Ok(false) => return ValidationOutcome::default(),
        Err(why) => return ValidationOutcome::of_error(policy, why),
    }
    // As in kube-apiserver, messages get what validations leave of this budget. Audit annotations have one of
    // their own.
    let mut budget = POLICY_BUDGET;
    let authorizer = |query: &AccessQuery| input.decide(query);
    let activation = input.activation(Some(&policy.variables), Some(&authorizer));
    let values: Result<Vec<_>, OutOfBudget> = policy
        .validations
        .iter()
        .map(|validation| validation.expression.value(&activation, &mut budget))
        .collect();
    let values = match values {
        Ok(values) => values,
        Err(exhausted) => return ValidationOutcome::of_error(policy, exhausted.message()),
    };
    // Messages and audit annotations cannot use the authorizer.
    let activation = input.activation(Some(&policy.variables), None);
    let messages: Result<Vec<_>, OutOfBudget> = policy
        .validations
        .iter()
        .map(|validation| {
            let expression = validation.message_expression.as_ref();
            expression.map(|expression| expression.value(&activation, &mut budget)).transpose()
        })
        .collect();
    let mut decisions = Vec::new();
    for (place, (validation, value)) in policy.validations.iter().zip(&values).enumerate() {
        decisions.push(match (value, &messages) {
            (Err(why), _) => ValidationDecision::of_error(policy, why.clone()),
            (Ok(_), Err(exhausted)) => ValidationDecision::of_error(
                policy,
                format!("failed messageExpression: {}", exhausted.message()),
            ),
            (Ok(value), Ok(_)) if value.is_true() => ValidationDecision::Admitted,
            (Ok(_), Ok(messages)) => {
                let message = messages.get(place).and_then(|message| message.as_ref()?.as_ref().ok());
                ValidationDecision::Failed {
                    message: failure_message(validation, message),
                    reason: validation.reason.clone(),
                }
            }
        });
    }
    let mut outcome = ValidationOutcome { decisions, ..ValidationOutcome::default() };
    let mut budget = POLICY_BUDGET;
    let activation = input.activation(Some(&policy.variables), None);
    for annotation in &policy.annotations {
        let value = match annotation.value.value(&activation, &mut budget) {
            Ok(value) => value,
            Err(exhausted) => return ValidationOutcome::of_error(policy, exhausted.message()),
        };
        match annotation_value(&annotation.value, value) {
            Ok(Some(value)) => outcome.annotations.push((annotation.key.clone(), value)),
            Ok(None) => {}
            Err(AnnotationError::Evaluation(_)) if policy.ignores_failure => {}
            Err(AnnotationError::Evaluation(why) | AnnotationError::Type(why)) => {
                outcome.annotation_errors.push(why);
            }
        }
    }
    outcome
}

/// Returns the message of a failed validation: that of the message expression, or else that of the author, or else the expression.
fn failure_message(validation: &Validation, message: Option<&ExpressionValue<'_>>) -> String {
    let is_usable = |text: &&str| !text.is_empty() && text.len() <= MESSAGE_LENGTH && !text.contains('\n');
    let evaluated = message.and_then(ExpressionValue::text).map(str::trim).filter(is_usable);
    let own = Some(validation.message.trim()).filter(|text| !text.is_empty());
    match evaluated.or(own) {
        Some(text) => text.to_owned(),
        None => format!("failed expression: {}", validation.expression.text.trim()),
    }
}

/// Reason why an audit annotation has no value.
enum AnnotationError {
    Evaluation(String),
    /// The value is neither a text nor null. The failure policy does not matter.
    Type(String),
}

/// Returns the value of an audit annotation; `None` if it is left out, because it is null or empty.
fn annotation_value(
    expression: &PolicyExpression,
    value: Result<ExpressionValue<'_>, String>,
) -> Result<Option<String>, AnnotationError> {
    let value = value.map_err(AnnotationError::Evaluation)?;
    match value.text() {
        Some(text) => Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty())),
        None if value.is_null() => Ok(None),
        None => Err(AnnotationError::Type(format!(
            "valueExpression '{}' resulted in unsupported return type: {}. Return type must be either string or null.",
            expression.text,
            value.type_name()
        ))),
    }
}
