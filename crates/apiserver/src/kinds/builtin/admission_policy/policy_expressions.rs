//! Compilation of the expressions of a policy.

use kube_apimachinery::cel::{Environment, Type, expression_type};
use kube_apimachinery::status::FieldError;
use serde_json::Value;

use super::policy_rules::PolicyKind;
use crate::kind::match_condition::{request_environment, with_authorizer};
use crate::kinds::builtin::shared::fields::list;
use crate::kinds::builtin::webhook_configuration::compilation_error;

/// Variables of the expressions of one policy. Variables that the policy defines are added in their order.
#[derive(Debug)]
pub(super) struct PolicyExpressions {
    conditions: Environment,
    checks: Environment,
    /// Those of `checks`, and the types that patches consist of.
    mutations: Environment,
    messages: Environment,
}

impl PolicyExpressions {
    /// Creates the environments of a policy with this spec, before its variables.
    pub(super) fn new(kind: PolicyKind, spec: &Value) -> Self {
        let has_parameters = !spec["paramKind"].is_null();
        // A validating policy without variables has no variable of this name.
        let has_variables = kind == PolicyKind::Mutating || !list(spec, "variables").is_empty();
        let with = |environment: Environment, is_message: bool| {
            // As in kube-apiserver, parameters are known in messages.
            let environment =
                if has_parameters { environment.with("params", Type::Dyn) } else { environment };
            let environment = if is_message { environment } else { with_authorizer(environment) };
            if has_variables { environment.with_variables() } else { environment }
        };
        let conditions = with_authorizer(request_environment());
        Self {
            conditions: if has_parameters { conditions.with("params", Type::Dyn) } else { conditions },
            checks: with(request_environment(), false),
            mutations: with(request_environment(), false).with_patches(),
            messages: with(request_environment(), true),
        }
    }

    /// Compiles a match condition.
    pub(super) fn condition(&self, expression: &str) -> Result<(), String> {
        expression_type(expression, &self.conditions, &["bool"]).map(drop)
    }

    /// Compiles a variable, which later expressions can use. The type of an invalid one is unknown.
    pub(super) fn variable(&mut self, name: &str, expression: &str, field: &str) -> Option<FieldError> {
        let of = expression_type(expression, &self.checks, &[]);
        let (of, error) = match of {
            Ok(of) => (of, None),
            Err(why) => (None, Some(compilation_error(field, expression, &why))),
        };
        for environment in [&mut self.checks, &mut self.mutations, &mut self.messages] {
            environment.compose(name, of.clone().unwrap_or(Type::Dyn));
        }
        error
    }

    /// Compiles an expression with a result of one of these types. A message shows it as `shown`.
    pub(super) fn check(
        &self,
        expression: &str,
        shown: &str,
        expected: &[&str],
        field: &str,
    ) -> Option<FieldError> {
        let why = expression_type(expression, &self.checks, expected).err()?;
        Some(compilation_error(field, shown, &why))
    }

    /// Compiles the expression of a mutation. Its result has the type `expected`.
    pub(super) fn mutation(&self, expression: &str, expected: &str, field: &str) -> Option<FieldError> {
        let why = expression_type(expression, &self.mutations, &[expected]).err()?;
        Some(compilation_error(field, expression, &why))
    }

    /// Compiles the expression of a message.
    pub(super) fn message(&self, expression: &str, field: &str) -> Option<FieldError> {
        let why = expression_type(expression, &self.messages, &["string"]).err()?;
        Some(compilation_error(field, expression, &why))
    }
}
