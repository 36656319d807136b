//! Policies with their compiled expressions.

use kube_apimachinery::cel::{Activation, EvaluationError, ExpressionValue, Program, Variables};
use serde_json::Value;

use super::policy_params::ParamKind;
use crate::api::admission::expression_input::ExpressionInput;
use crate::api::admission::match_conditions::MatchConditions;
use crate::api::admission::matching::MatchCriteria;
use crate::kinds::builtin::admission_policy::PolicyKind;

/// A policy.
#[derive(Debug)]
pub(super) struct CompiledPolicy {
    pub(super) name: String,
    pub(super) criteria: MatchCriteria,
    pub(super) param_kind: Option<ParamKind>,
    pub(super) conditions: MatchConditions,
    pub(super) variables: Variables,
    pub(super) ignores_failure: bool,
    /// Rules of a validating policy.
    pub(super) validations: Vec<Validation>,
    pub(super) annotations: Vec<AuditAnnotation>,
    /// Changes of a mutating policy, in order.
    pub(super) mutations: Vec<Mutation>,
    pub(super) reinvoked_if_needed: bool,
}

/// A rule of a validating policy.
#[derive(Debug)]
pub(super) struct Validation {
    pub(super) expression: PolicyExpression,
    /// Message of the author; may be empty.
    pub(super) message: String,
    pub(super) message_expression: Option<PolicyExpression>,
    /// Reason of the response.
    pub(super) reason: String,
}

/// An annotation of audit events.
#[derive(Debug)]
pub(super) struct AuditAnnotation {
    pub(super) key: String,
    pub(super) value: PolicyExpression,
}

/// A change of a mutating policy.
#[derive(Debug)]
pub(super) enum Mutation {
    ApplyConfiguration(PolicyExpression),
    JsonPatch(PolicyExpression),
}

/// An expression of a policy.
#[derive(Debug)]
pub(super) struct PolicyExpression {
    pub(super) text: String,
    program: Result<Program, String>,
}

/// The expressions that share a budget cost more than the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OutOfBudget;

impl CompiledPolicy {
    /// Parses a valid policy. An expression that cannot be parsed fails when it is evaluated. Types are checked when a policy is created.
    pub(super) fn read(kind: PolicyKind, name: &str, policy: &Value) -> Self {
        let spec = &policy["spec"];
        let list = |field: &str| spec[field].as_array().into_iter().flatten();
        let text = |owner: &Value, field: &str| owner[field].as_str().unwrap_or_default().to_owned();
        let validation = |validation: &Value| Validation {
            expression: PolicyExpression::new(&text(validation, "expression")),
            message: text(validation, "message"),
            message_expression: Some(text(validation, "messageExpression"))
                .filter(|expression| !expression.is_empty())
                .map(|expression| PolicyExpression::new(&expression)),
            reason: Some(text(validation, "reason"))
                .filter(|reason| !reason.is_empty())
                .unwrap_or_else(|| "Invalid".to_owned()),
        };
        let annotation = |annotation: &Value| AuditAnnotation {
            key: text(annotation, "key"),
            value: PolicyExpression::new(&text(annotation, "valueExpression")),
        };
        let mutation = |mutation: &Value| {
            let of = |field: &str| PolicyExpression::new(&text(&mutation[field], "expression"));
            match mutation["patchType"].as_str()? {
                "JSONPatch" => Some(Mutation::JsonPatch(of("jsonPatch"))),
                "ApplyConfiguration" => Some(Mutation::ApplyConfiguration(of("applyConfiguration"))),
                _ => None,
            }
        };
        let (validations, annotations, mutations) = match kind {
            PolicyKind::Validating => {
                let annotations = list("auditAnnotations").map(annotation).collect();
                (list("validations").map(validation).collect(), annotations, Vec::new())
            }
            PolicyKind::Mutating => {
                (Vec::new(), Vec::new(), list("mutations").filter_map(mutation).collect())
            }
        };
        let variables = list("variables").filter_map(|variable| {
            Some((variable["name"].as_str()?, variable["expression"].as_str().unwrap_or_default()))
        });
        Self {
            name: name.to_owned(),
            criteria: MatchCriteria::of_policy(&spec["matchConstraints"]),
            param_kind: ParamKind::read(spec),
            conditions: MatchConditions::read(spec, Program::untyped),
            variables: Variables::new(variables),
            ignores_failure: spec["failurePolicy"] == "Ignore",
            validations,
            annotations,
            mutations,
            reinvoked_if_needed: spec["reinvocationPolicy"] == "IfNeeded",
        }
    }

    /// Whether the match conditions hold. They see no namespace, and the resource of the request instead of the matched one.
    ///
    /// # Errors
    /// kube-apiserver's text if a condition cannot be evaluated, unless the failure policy is `Ignore`.
    pub(super) fn matches(&self, input: &ExpressionInput<'_>) -> Result<bool, String> {
        if self.conditions.is_empty() {
            return Ok(true);
        }
        let mut request = input.request.clone();
        request["resource"] = request["requestResource"].clone();
        self.conditions.hold(&ExpressionInput { namespace: None, request, ..*input }, Some(&self.variables))
    }
}

impl PolicyExpression {
    fn new(text: &str) -> Self {
        Self { text: text.to_owned(), program: Program::untyped(text) }
    }

    /// Returns the compilation error, if there is one.
    pub(super) fn compilation_error(&self) -> Option<&str> {
        self.program.as_ref().err().map(String::as_str)
    }

    /// Evaluates the expression. The inner result is kube-apiserver's error text if the expression has no value.
    ///
    /// # Errors
    /// [`OutOfBudget`].
    pub(super) fn value<'a>(
        &'a self,
        activation: &Activation<'a>,
        budget: &mut u64,
    ) -> Result<Result<ExpressionValue<'a>, String>, OutOfBudget> {
        let program = match &self.program {
            Ok(program) => program,
            Err(why) => return Ok(Err(format!("compilation error: {why}"))),
        };
        match program.value(activation, budget) {
            Ok(value) => Ok(Ok(value)),
            Err(EvaluationError::OutOfBudget) => Err(OutOfBudget),
            Err(why) => Ok(Err(format!("expression '{}' resulted in error: {why}", self.text))),
        }
    }
}

impl OutOfBudget {
    /// Returns kube-apiserver's text.
    pub(super) fn message(self) -> String {
        EvaluationError::OutOfBudget.to_string()
    }
}
