//! Compilation of the expressions of a policy.

use kube_apimachinery::cel::{Environment, Type, expression_type};
use kube_apimachinery::status::FieldError;
use serde_json::Value;

use super::PolicyKind;
use crate::kind::match_condition::{request_environment, with_authorizer};
use crate::kinds::builtin::shared::fields::list;
use crate::kinds::builtin::webhook_configuration::compilation_error;

/// CEL environments for the expressions of one policy. The variables that the policy defines are added one by one, so an expression of a
/// variable can use only earlier ones.
#[derive(Debug)]
pub(super) struct PolicyExpressions {
    /// For match conditions, which run before the policy's variables exist.
    conditions: Environment,
    /// For variables, validations and audit annotations.
    values: Environment,
    /// For mutations: like `values`, with the types that patches consist of.
    mutations: Environment,
    /// For messages, which cannot use the authorizer.
    messages: Environment,
}

impl PolicyExpressions {
    /// Creates the environments for a policy's spec, without its variables.
    pub(super) fn new(kind: PolicyKind, spec: &Value) -> Self {
        let has_parameters = !spec["paramKind"].is_null();
        // In a validating policy without variables, `variables` itself is not declared.
        let has_variables = kind == PolicyKind::Mutating || !list(spec, "variables").is_empty();
        let with_parameters = |environment: Environment| {
            if has_parameters { environment.with("params", Type::Dyn) } else { environment }
        };
        let with_all = |environment: Environment| {
            let environment = with_parameters(environment);
            if has_variables { environment.with_variables() } else { environment }
        };
        Self {
            conditions: with_parameters(with_authorizer(request_environment())),
            values: with_all(with_authorizer(request_environment())),
            mutations: with_all(with_authorizer(request_environment())).with_patches(),
            messages: with_all(request_environment()),
        }
    }

    /// Compiles a match condition.
    pub(super) fn condition(&self, expression: &str) -> Result<(), String> {
        expression_type(expression, &self.conditions, &["bool"]).map(drop)
    }

    /// Compiles a variable and declares it for later expressions. An invalid variable is declared with a dynamic type, so expressions that
    /// use it cause no further errors.
    pub(super) fn variable(&mut self, name: &str, expression: &str, field: &str) -> Option<FieldError> {
        let of = expression_type(expression, &self.values, &[]);
        let (of, error) = match of {
            Ok(of) => (of, None),
            Err(why) => (None, Some(compilation_error(field, expression, &why))),
        };
        for environment in [&mut self.values, &mut self.mutations, &mut self.messages] {
            environment.add_policy_variable(name, of.clone().unwrap_or(Type::Dyn));
        }
        error
    }

    /// Compiles an expression whose type must be one of `expected`. Errors show it as `shown`.
    pub(super) fn value(
        &self,
        expression: &str,
        shown: &str,
        expected: &[&str],
        field: &str,
    ) -> Option<FieldError> {
        let why = expression_type(expression, &self.values, expected).err()?;
        Some(compilation_error(field, shown, &why))
    }

    /// Compiles the expression of a mutation, whose type must be `expected`.
    pub(super) fn mutation(&self, expression: &str, expected: &str, field: &str) -> Option<FieldError> {
        let why = expression_type(expression, &self.mutations, &[expected]).err()?;
        Some(compilation_error(field, expression, &why))
    }

    /// Compiles the expression of a message, whose type must be `string`.
    pub(super) fn message(&self, expression: &str, field: &str) -> Option<FieldError> {
        let why = expression_type(expression, &self.messages, &["string"]).err()?;
        Some(compilation_error(field, expression, &why))
    }
}
