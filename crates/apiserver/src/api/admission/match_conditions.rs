//! Match conditions of webhooks and admission policies.

use kube_apimachinery::cel::{AccessQuery, EvaluationError, MATCH_CONDITIONS_BUDGET, Program, Variables};
use kube_apimachinery::go;
use serde_json::Value;

use super::expression_input::ExpressionInput;
use crate::kind::match_condition;

/// Match conditions, which must all hold.
#[derive(Debug)]
pub(super) struct MatchConditions {
    conditions: Vec<MatchCondition>,
    /// Whether a condition that cannot be evaluated counts as false (`failurePolicy: Ignore`), and not as an error.
    ignores_failure: bool,
}

/// A match condition.
#[derive(Debug)]
struct MatchCondition {
    expression: String,
    /// The compiled expression. Validation refuses expressions that do not compile, but a data file may contain one.
    program: Result<Program, String>,
}

impl MatchConditions {
    /// Reads the conditions of a webhook.
    pub(super) fn of_webhook(hook: &Value) -> Self {
        // As in validation, surrounding whitespace is not compiled; messages show the expression unchanged.
        Self::read(hook, |expression| match_condition::compile(expression.trim()))
    }

    /// Reads the `matchConditions` and the `failurePolicy` of a webhook, or of the specification of a policy.
    pub(super) fn read(owner: &Value, compile: impl Fn(&str) -> Result<Program, String>) -> Self {
        let condition = |condition: &Value| {
            let expression = condition["expression"].as_str().unwrap_or_default();
            MatchCondition { expression: expression.to_owned(), program: compile(expression) }
        };
        Self {
            conditions: owner["matchConditions"].as_array().into_iter().flatten().map(condition).collect(),
            ignores_failure: owner["failurePolicy"] == "Ignore",
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.conditions.is_empty()
    }

    /// Whether all conditions hold. One condition that is false decides, even if others fail.
    ///
    /// # Errors
    /// kube-apiserver's text if a condition cannot be evaluated, unless the failure policy is `Ignore`.
    pub(super) fn hold(
        &self,
        input: &ExpressionInput<'_>,
        variables: Option<&Variables>,
    ) -> Result<bool, String> {
        if self.is_empty() {
            return Ok(true);
        }
        let authorizer = |query: &AccessQuery| input.decide(query);
        let activation = input.activation(variables, Some(&authorizer));
        let mut budget = MATCH_CONDITIONS_BUDGET;
        let mut errors: Vec<String> = Vec::new();
        let mut all_true = true;
        // As in kube-apiserver, the conditions after a false one are evaluated too, because they may exceed the
        // budget.
        for condition in &self.conditions {
            let value = match &condition.program {
                Ok(program) => program.holds(&activation, &mut budget),
                Err(why) => {
                    errors.push(format!("compilation error: {why}"));
                    continue;
                }
            };
            match value {
                Ok(value) => all_true &= value,
                Err(EvaluationError::OutOfBudget) => {
                    // This error replaces all other results, even that of a false condition.
                    (errors, all_true) = (vec![EvaluationError::OutOfBudget.to_string()], true);
                    break;
                }
                Err(why) => {
                    errors.push(format!("expression '{}' resulted in error: {why}", condition.expression));
                }
            }
        }
        if !all_true || errors.is_empty() {
            return Ok(all_true);
        }
        if self.ignores_failure { Ok(false) } else { Err(go::join_errors(&errors)) }
    }
}
