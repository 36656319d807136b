//! Evaluation of a mutation.

use kube_apimachinery::cel::{AccessQuery, POLICY_BUDGET};
use kube_apimachinery::managed_fields;
use kube_apimachinery::patch::{self, AdmissionPatchError};
use kube_apimachinery::schema;
use kube_apimachinery::status::ApiError;
use serde_json::Value;

use super::compiled_policy::{CompiledPolicy, Mutation, PolicyExpression};
use crate::api::admission::Attributes;
use crate::api::admission::changed_object::{ChangedBy, decoded};
use crate::api::admission::expression_input::ExpressionInput;
use crate::kind::registry::ServedKind;

/// Reason why a mutation fails.
#[derive(Debug)]
pub(super) enum MutationError {
    /// The failure policy decides.
    Policy(String),
    /// The request is refused with this error, regardless of the failure policy.
    Refused(ApiError),
}

impl From<String> for MutationError {
    fn from(why: String) -> Self {
        Self::Policy(why)
    }
}

impl From<ApiError> for MutationError {
    fn from(error: ApiError) -> Self {
        Self::Refused(error)
    }
}

/// Returns the object after a mutation, decoded and with defaults. `served` is the resource as which the policy receives the object.
///
/// # Errors
/// The reason why the object cannot be changed.
pub(super) fn mutated(
    policy: &CompiledPolicy,
    mutation: &Mutation,
    input: &ExpressionInput<'_>,
    served: &ServedKind,
    object: &Value,
) -> Result<Value, MutationError> {
    match mutation {
        Mutation::ApplyConfiguration(expression) => {
            let configuration = evaluated(policy, expression, input, |value| value.configuration())?;
            let merged = merged(input, served, object, configuration)
                .map_err(|why| format!("error applying patch: {why}"))?;
            check_version(input.attributes, served)?;
            Ok(decoded(input.attributes, served, merged, ChangedBy::Policy)?)
        }
        Mutation::JsonPatch(expression) => {
            let operations = evaluated(policy, expression, input, |value| value.patch_operations())?;
            let patched = match patch::admission(object, operations.to_string().as_bytes()) {
                Ok(Some(patched)) => patched,
                Ok(None) => object.clone(),
                // The patch as a whole has no effect if one of its tests fails.
                Err(error) if error.is_failed_test() => return Ok(object.clone()),
                Err(AdmissionPatchError::Undecodable(why) | AdmissionPatchError::Inapplicable(why)) => {
                    return Err(MutationError::Policy(format!("JSON Patch: {why}")));
                }
            };
            let decoded = decoded(input.attributes, served, patched, ChangedBy::Policy)?;
            check_version(input.attributes, served)?;
            Ok(decoded)
        }
    }
}

/// Evaluates the expression of a mutation, and converts its value.
fn evaluated(
    policy: &CompiledPolicy,
    expression: &PolicyExpression,
    input: &ExpressionInput<'_>,
    convert: impl Fn(kube_apimachinery::cel::ExpressionValue<'_>) -> Result<Value, String>,
) -> Result<Value, String> {
    if let Some(why) = expression.compilation_error() {
        return Err(why.to_owned());
    }
    let authorizer = |query: &AccessQuery| input.decide(query);
    let activation = input.activation(Some(&policy.variables), Some(&authorizer));
    // Each mutation has a separate budget.
    match expression.value(&activation, &mut POLICY_BUDGET.clone()) {
        Ok(value) => convert(value?),
        Err(exhausted) => Err(exhausted.message()),
    }
}

/// Merges a configuration into an object, as server-side apply does.
fn merged(
    input: &ExpressionInput<'_>,
    served: &ServedKind,
    object: &Value,
    mut configuration: Value,
) -> Result<Value, String> {
    // The configuration has the type of the object, even if the expression sets another one.
    for field in ["apiVersion", "kind"] {
        configuration[field] = object[field].clone();
    }
    if input.attributes.is_of_resource() {
        return managed_fields::merge_configuration(&served.schema, object, &configuration);
    }
    // kube-apiserver takes types from the OpenAPI document of a group and version. Of the kinds of subresources, only `Binding` is in one.
    let kind = &input.attributes.kind;
    let is_known = (kind.group, kind.version, kind.kind) == ("", "v1", "Binding");
    match schema::schema_of_kind(&kind.api_version(), kind.kind).filter(|_| is_known) {
        Some(schema) => managed_fields::merge_configuration(&schema, object, &configuration),
        None => Err(format!(
            "failed to convert patch object to typed object: no corresponding type for {}/{}, Kind={}",
            kind.group, kind.version, kind.kind
        )),
    }
}

/// Checks that the changed object has the version of the request. kube-apiserver cannot convert a changed object of a builtin kind to it.
fn check_version(attributes: &Attributes<'_>, served: &ServedKind) -> Result<(), String> {
    let (from, to) = (&served.resource, &attributes.served.resource);
    let is_requested = (&from.group, &from.version) == (&to.group, &to.version);
    if is_requested || served.is_custom() || !attributes.is_of_resource() {
        return Ok(());
    }
    Err(format!(
        "converting ({}.{}) to ({}.{}): unknown conversion",
        from.version, from.kind, to.version, to.kind
    ))
}
