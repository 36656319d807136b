//! Plugin `ValidatingAdmissionPolicy`.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_apimachinery::go;
use kube_apimachinery::status::{ApiError, Cause};
use serde_json::{Value, json};

use super::compiled_policy::CompiledPolicy;
use super::policy_binding::{PolicyBinding, ValidationAction};
use super::policy_hooks::{PolicyHook, PolicyHooks};
use super::policy_params::params_of;
use super::policy_validation::{ValidationDecision, ValidationOutcome, validate};
use super::{is_excluded, namespace_object};
use crate::api::admission::Attributes;
use crate::api::admission::expression_input::ExpressionInput;
use crate::api::admission::matching::ReceivedAs;
use crate::api::admission::versions::{ConvertedObjects, Equivalents};
use crate::api::conversion::Converter;

/// Maximum length of the value of an audit annotation in bytes.
const ANNOTATION_LENGTH: usize = 10 * 1024;

/// Evaluates validating policies.
pub(in crate::api::admission) struct ValidatingPolicies {
    hooks: Arc<PolicyHooks>,
    equivalents: Equivalents,
    params: Converter,
}

impl Default for ValidatingPolicies {
    fn default() -> Self {
        Self {
            hooks: Arc::new(PolicyHooks::validating()),
            equivalents: Equivalents::default(),
            params: Converter::default(),
        }
    }
}

/// Reason why a request is refused.
struct PolicyDenial {
    message: String,
    reason: String,
}

impl ValidatingPolicies {
    pub(in crate::api::admission) fn hooks(&self) -> Arc<PolicyHooks> {
        Arc::clone(&self.hooks)
    }

    /// Whether policies exist that may have to review a request.
    pub(in crate::api::admission) fn may_review(&self, attributes: &Attributes<'_>) -> bool {
        self.hooks.has_hooks() && !is_excluded(attributes)
    }

    /// Evaluates all policies. Warnings and audit annotations are added even if the request is refused.
    ///
    /// # Errors
    /// The first denial, in the order of the policies and their bindings. 404 if the namespace of the object does not exist.
    pub(in crate::api::admission) async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
    ) -> Result<(), ApiError> {
        let mut denials = Vec::new();
        for hook in self.hooks.hooks().iter() {
            self.evaluate(hook, attributes, object, &mut denials).await?;
        }
        let Some(PolicyDenial { message, reason }) = denials.into_iter().next() else { return Ok(()) };
        let error = attributes.forbidden(object.unwrap_or(&Value::Null), &message);
        let (reason, code) = match &*reason {
            "Forbidden" => ("Forbidden", 403),
            "Unauthorized" => ("Unauthorized", 401),
            "RequestEntityTooLarge" => ("RequestEntityTooLarge", 413),
            _ => ("Invalid", 422),
        };
        let causes = vec![Cause { reason: "", message, field: String::new() }];
        Err(error.with_reason(reason, code).with_causes(causes))
    }

    /// Evaluates a policy for all of its bindings.
    async fn evaluate(
        &self,
        hook: &PolicyHook,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        denials: &mut Vec<PolicyDenial>,
    ) -> Result<(), ApiError> {
        let policy = &*hook.policy;
        let matched = match policy.criteria.matches(attributes, object, &self.equivalents) {
            Ok(matched) => matched,
            Err(error) => {
                denials.extend(misconfigured(policy, None, error.message()));
                return Ok(());
            }
        };
        let Some(form) = matched else { return Ok(()) };
        let param_kind = match policy.param_kind.as_ref().map(|kind| kind.served(attributes)).transpose() {
            Ok(kind) => kind,
            Err(why) => {
                denials.extend(misconfigured(policy, None, &why));
                return Ok(());
            }
        };
        let mut converted: Option<ConvertedObjects> = None;
        let mut annotations = Annotations::default();
        for binding in &hook.bindings {
            if let Some(criteria) = &binding.criteria {
                match criteria.matches(attributes, object, &self.equivalents) {
                    Ok(Some(_)) => {}
                    Ok(None) => continue,
                    Err(error) => {
                        denials.extend(misconfigured(policy, Some(binding), error.message()));
                        continue;
                    }
                }
            }
            let params =
                params_of(param_kind.as_deref(), binding.params.as_ref(), attributes, &self.params).await;
            let params = match params {
                Ok(params) => params,
                Err(why) => {
                    denials.extend(misconfigured(policy, Some(binding), &why));
                    continue;
                }
            };
            if let (ReceivedAs::Equivalent(served), None, false) = (&form, &converted, params.is_empty()) {
                match ConvertedObjects::of(attributes, served, object).await {
                    Ok(objects) => converted = Some(objects),
                    Err(error) => {
                        let why = format!("failed to convert object version: {}", error.message());
                        denials.extend(misconfigured(policy, Some(binding), &why));
                        continue;
                    }
                }
            }
            let namespace = namespace_object(attributes)?;
            let (served, object, old) = match &converted {
                Some(objects) => (&*objects.served, objects.object.as_ref(), objects.old.as_ref()),
                None => (attributes.served, object, attributes.old),
            };
            for param in &params {
                let input = ExpressionInput {
                    params: param.as_ref(),
                    namespace: namespace.as_ref(),
                    ..ExpressionInput::new(attributes, served, served, object, old)
                };
                let outcome = validate(policy, &input);
                act(policy, binding, attributes, outcome, &mut annotations, denials);
            }
        }
        annotations.publish(policy, attributes);
        Ok(())
    }
}

/// Carries out the actions of a binding for the failed validations of its policy.
fn act(
    policy: &CompiledPolicy,
    binding: &PolicyBinding,
    attributes: &Attributes<'_>,
    outcome: ValidationOutcome,
    annotations: &mut Annotations,
    denials: &mut Vec<PolicyDenial>,
) {
    let denied = |message: &str| {
        format!(
            "ValidatingAdmissionPolicy '{}' with binding '{}' denied request: {message}",
            policy.name, binding.name
        )
    };
    for (place, decision) in outcome.decisions.into_iter().enumerate() {
        let ValidationDecision::Failed { message, reason } = decision else { continue };
        for action in &binding.actions {
            match action {
                ValidationAction::Deny => {
                    denials.push(PolicyDenial { message: denied(&message), reason: reason.clone() });
                }
                ValidationAction::Warn => attributes.warn(format!(
                    "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {message}",
                    policy.name, binding.name
                )),
                ValidationAction::Audit => {
                    let failure = failure_annotation(binding, place, &message);
                    attributes.annotate("validation.policy.admission.k8s.io/validation_failure", &failure);
                }
            }
        }
    }
    for (key, value) in outcome.annotations {
        annotations.add(key, value);
    }
    for why in outcome.annotation_errors {
        denials.push(PolicyDenial { message: denied(&why), reason: "Invalid".to_owned() });
    }
}

/// Returns the JSON text that describes a failed validation, with the fields in Go's order.
fn failure_annotation(binding: &PolicyBinding, expression: usize, message: &str) -> String {
    let actions: Vec<&str> = binding.actions.iter().map(|action| action.name()).collect();
    let [message, policy, name, actions] =
        [json!(message), json!(binding.policy), json!(binding.name), json!(actions)]
            .map(|value| go::json(&value));
    let text = format!(
        r#"[{{"message":{message},"policy":{policy},"binding":{name},"expressionIndex":{expression},"validationActions":{actions}}}]"#
    );
    // Like Go's encoder, so that the text can be part of an HTML document.
    text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

/// Returns the denial of a request because a policy or its binding cannot be evaluated, unless the failure policy ignores that.
fn misconfigured(
    policy: &CompiledPolicy,
    binding: Option<&PolicyBinding>,
    why: &str,
) -> Option<PolicyDenial> {
    if policy.ignores_failure {
        return None;
    }
    let message = match binding {
        Some(binding) => format!(
            "ValidatingAdmissionPolicy '{}' with binding '{}' denied request: failed to configure binding: {why}",
            policy.name, binding.name
        ),
        None => format!(
            "ValidatingAdmissionPolicy '{}' denied request: failed to configure policy: {why}",
            policy.name
        ),
    };
    Some(PolicyDenial { message, reason: "Invalid".to_owned() })
}

/// Audit annotations of a policy. Several parameters may give a key several values.
#[derive(Default)]
struct Annotations(BTreeMap<String, Vec<String>>);

impl Annotations {
    fn add(&mut self, key: String, mut value: String) {
        let end = value.floor_char_boundary(ANNOTATION_LENGTH);
        value.truncate(end);
        let values = self.0.entry(key).or_default();
        if !values.contains(&value) {
            values.push(value);
        }
    }

    /// Adds the annotations to the audit event of the request.
    fn publish(self, policy: &CompiledPolicy, attributes: &Attributes<'_>) {
        for (key, values) in self.0 {
            attributes.annotate(&format!("{}/{key}", policy.name), &values.join(", "));
        }
    }
}
