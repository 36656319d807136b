//! Plugin `MutatingAdmissionPolicy`.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube_apimachinery::metadata;
use kube_apimachinery::status::{ApiError, Cause};
use serde_json::Value;

use super::compiled_policy::CompiledPolicy;
use super::policy_binding::PolicyBinding;
use super::policy_hooks::{PolicyHook, PolicyHooks};
use super::policy_mutation::{MutationError, mutated};
use super::policy_params::params_of;
use super::{is_excluded, namespace_object};
use crate::api::admission::changed_object::with_type;
use crate::api::admission::expression_input::ExpressionInput;
use crate::api::admission::matching::ReceivedAs;
use crate::api::admission::versions::{ConvertedObjects, Equivalents, convert};
use crate::api::admission::{Attributes, Operation, restore_managed_fields};
use crate::api::conversion::Converter;
use crate::kind::registry::ServedKind;

/// Evaluates mutating policies, in one or two rounds.
pub(in crate::api::admission) struct MutatingPolicies {
    hooks: Arc<PolicyHooks>,
    equivalents: Equivalents,
    params: Converter,
}

impl Default for MutatingPolicies {
    fn default() -> Self {
        Self {
            hooks: Arc::new(PolicyHooks::mutating()),
            equivalents: Equivalents::default(),
            params: Converter::default(),
        }
    }
}

/// State of a request between the two rounds.
#[derive(Default)]
pub(in crate::api::admission) struct PolicyRound {
    /// Whether a policy was applied, so that a second round follows.
    changed: bool,
    /// Evaluations of policies with `reinvocationPolicy: IfNeeded`. They are repeated if the object changes.
    called: BTreeSet<EvaluationKey>,
    /// Evaluations that are repeated in the second round.
    again: BTreeSet<EvaluationKey>,
    /// The object after the round; null before the first one.
    output: Value,
}

/// Names of policy and binding, and namespace and name of the parameter.
type EvaluationKey = (String, String, Option<(String, String)>);

impl PolicyRound {
    /// Whether a policy was applied, so that the plugins of the server and a second round must follow.
    pub(in crate::api::admission) fn changed(&self) -> bool {
        self.changed
    }

    /// Schedules the policies that were evaluated before a change for the second round.
    fn require_again(&mut self) {
        self.again.append(&mut self.called);
    }
}

/// An evaluation of a policy for a binding and a parameter.
struct Evaluation<'a> {
    policy: &'a CompiledPolicy,
    binding: &'a PolicyBinding,
    param: Option<Value>,
    /// Index of the [`MutatedVersion`] with the objects in the version of the policy.
    version: usize,
}

/// The objects of a request in the version of a policy.
struct MutatedVersion {
    form: ReceivedAs,
    object: Option<Value>,
    /// The former object, if the version is not that of the request.
    old: Option<Value>,
    /// Whether a mutation was applied in this version.
    is_mutated: bool,
}

/// Reason why a policy or its binding has no result.
struct PolicyFailure<'a> {
    policy: &'a CompiledPolicy,
    binding: Option<&'a PolicyBinding>,
    why: String,
    /// Whether an expression failed, and not the configuration.
    is_invalid: bool,
}

impl MutatingPolicies {
    pub(in crate::api::admission) fn hooks(&self) -> Arc<PolicyHooks> {
        Arc::clone(&self.hooks)
    }

    /// Whether policies exist that may have to review a request. A deletion has no object to change.
    pub(in crate::api::admission) fn may_review(&self, attributes: &Attributes<'_>) -> bool {
        self.hooks.has_hooks() && attributes.operation != Operation::Delete && !is_excluded(attributes)
    }

    /// Evaluates the policies: all of them if `first` is `None`, and in the second round those that the first one schedules.
    ///
    /// # Errors
    /// 403 with the errors of policies with `failurePolicy: Fail`, or the error of an object that cannot be decoded after a mutation.
    pub(in crate::api::admission) async fn mutate(
        &self,
        attributes: &Attributes<'_>,
        mut object: Option<&mut Value>,
        first: Option<PolicyRound>,
    ) -> Result<PolicyRound, ApiError> {
        let hooks = self.hooks.hooks();
        let is_again = first.is_some();
        let mut round = first.unwrap_or_default();
        let mut versions = Vec::new();
        let mut failures = Vec::new();
        let evaluations =
            self.evaluations(&hooks, attributes, object.as_deref(), &mut versions, &mut failures).await;
        if !evaluations.is_empty() {
            if is_again && object.as_deref() != Some(&round.output) {
                // Another plugin has changed the object since.
                round.require_again();
            }
            let namespace = namespace_object(attributes)?;
            let mut last = None;
            for evaluation in &evaluations {
                let key = evaluation.key();
                let version = &mut versions[evaluation.version];
                let is_due = !is_again || round.again.contains(&key);
                let evaluated = evaluation.run(attributes, version, namespace.as_ref(), is_due)?;
                failures.extend(evaluated.failures);
                if !evaluated.is_evaluated {
                    continue;
                }
                last = Some(evaluation.version);
                if evaluated.is_changed {
                    round.require_again();
                    round.changed = true;
                }
                if evaluation.policy.reinvoked_if_needed {
                    // After `require_again`: its own change is no reason to evaluate a policy again.
                    round.called.insert(key);
                }
            }
            // As in kube-apiserver, the changes in other versions than the last one are lost.
            if let Some(version) = last.map(|last| versions.swap_remove(last))
                && let MutatedVersion { form, object: Some(mutated), is_mutated: true, .. } = version
            {
                round.require_again();
                round.changed = true;
                if let Some(object) = object.as_deref_mut() {
                    store(attributes, form, mutated, object).await?;
                }
            }
            round.output = object.as_deref().cloned().unwrap_or_default();
        }
        refusal(attributes, object.as_deref(), failures).map_or(Ok(round), Err)
    }

    /// Returns the evaluations for a request, in order. Adds the objects in each version that one of them needs.
    async fn evaluations<'a>(
        &self,
        hooks: &'a [PolicyHook],
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        versions: &mut Vec<MutatedVersion>,
        failures: &mut Vec<PolicyFailure<'a>>,
    ) -> Vec<Evaluation<'a>> {
        let mut evaluations = Vec::new();
        // A failure does not end the loop. With `failurePolicy: Ignore` the remaining policies still apply.
        for PolicyHook { policy, bindings } in hooks {
            let mut failed = |binding: Option<&'a PolicyBinding>, why: &str| {
                let subject = if binding.is_some() { "binding" } else { "policy" };
                let why = format!("failed to configure {subject}: {why}");
                failures.push(PolicyFailure { policy, binding, why, is_invalid: false });
            };
            let form = match policy.criteria.matches(attributes, object, &self.equivalents) {
                Ok(Some(form)) => form,
                Ok(None) => continue,
                Err(error) => {
                    failed(None, error.message());
                    continue;
                }
            };
            let param_kind = match policy.param_kind.as_ref().map(|kind| kind.served(attributes)).transpose()
            {
                Ok(kind) => kind,
                Err(why) => {
                    failed(None, &why);
                    continue;
                }
            };
            for binding in bindings {
                let matched = match &binding.criteria {
                    None => Ok(true),
                    Some(criteria) => criteria
                        .matches(attributes, object, &self.equivalents)
                        .map(|matched| matched.is_some()),
                };
                match matched {
                    Ok(true) => {}
                    Ok(false) => continue,
                    Err(error) => {
                        failed(Some(binding), error.message());
                        continue;
                    }
                }
                let known = versions.iter().position(|version| version.form.is(&form));
                let version = match known {
                    Some(version) => version,
                    None => match MutatedVersion::of(attributes, &form, object).await {
                        Ok(version) => {
                            versions.push(version);
                            versions.len() - 1
                        }
                        Err(error) => {
                            failed(None, error.message());
                            continue;
                        }
                    },
                };
                let params =
                    params_of(param_kind.as_deref(), binding.params.as_ref(), attributes, &self.params).await;
                let params = match params {
                    Ok(params) => params,
                    Err(why) => {
                        failed(Some(binding), &why);
                        continue;
                    }
                };
                evaluations.extend(params.into_iter().map(|param| Evaluation {
                    policy,
                    binding,
                    param,
                    version,
                }));
            }
        }
        evaluations
    }
}

impl MutatedVersion {
    async fn of(
        attributes: &Attributes<'_>,
        form: &ReceivedAs,
        object: Option<&Value>,
    ) -> Result<Self, ApiError> {
        let (object, old) = match form {
            ReceivedAs::Requested => {
                let typed = object.map(|object| with_type(attributes, object)).transpose()?.flatten();
                (typed.or_else(|| object.cloned()), None)
            }
            ReceivedAs::Equivalent(served) => {
                let converted = ConvertedObjects::of(attributes, served, object).await?;
                (converted.object, converted.old)
            }
        };
        Ok(Self { form: form.clone(), object, old, is_mutated: false })
    }
}

/// Result of an evaluation.
#[derive(Default)]
struct Evaluated<'a> {
    /// Whether mutations were evaluated: the match conditions hold, and the evaluation was due.
    is_evaluated: bool,
    is_changed: bool,
    failures: Vec<PolicyFailure<'a>>,
}

impl<'a> Evaluation<'a> {
    fn key(&self) -> EvaluationKey {
        let param = self.param.as_ref().map(|param| {
            (metadata::text(param, "namespace").to_owned(), metadata::text(param, "name").to_owned())
        });
        (self.policy.name.clone(), self.binding.name.clone(), param)
    }

    /// Applies the mutations of the policy to the object, unless the evaluation is not due. Match conditions are evaluated in any case,
    /// because their errors count.
    ///
    /// # Errors
    /// The error of an object that cannot be decoded after a mutation.
    fn run(
        &self,
        attributes: &Attributes<'_>,
        version: &mut MutatedVersion,
        namespace: Option<&Value>,
        is_due: bool,
    ) -> Result<Evaluated<'a>, ApiError> {
        let MutatedVersion { form, object, old, is_mutated } = version;
        let (served, old): (&ServedKind, _) = match form {
            ReceivedAs::Requested => (attributes.served, attributes.old),
            ReceivedAs::Equivalent(served) => (served, old.as_ref()),
        };
        let mut evaluated = Evaluated::default();
        let failure = |why: String| PolicyFailure {
            policy: self.policy,
            binding: Some(self.binding),
            why,
            is_invalid: true,
        };
        match self.policy.matches(&self.input(attributes, served, namespace, object.as_ref(), old)) {
            Ok(true) if is_due => {}
            Ok(_) => return Ok(evaluated),
            Err(why) => {
                evaluated.failures.push(failure(why));
                return Ok(evaluated);
            }
        }
        evaluated.is_evaluated = true;
        for mutation in &self.policy.mutations {
            let Some(before) = &*object else { break };
            let input = self.input(attributes, served, namespace, Some(before), old);
            match mutated(self.policy, mutation, &input, served, before) {
                Ok(new) => {
                    evaluated.is_changed |= new != *before;
                    *object = Some(new);
                    *is_mutated = true;
                }
                Err(MutationError::Policy(why)) => evaluated.failures.push(failure(why)),
                Err(MutationError::Refused(error)) => return Err(error),
            }
        }
        Ok(evaluated)
    }

    /// Returns the variables of the expressions.
    fn input<'b>(
        &'b self,
        attributes: &'b Attributes<'_>,
        served: &ServedKind,
        namespace: Option<&'b Value>,
        object: Option<&'b Value>,
        old: Option<&'b Value>,
    ) -> ExpressionInput<'b> {
        ExpressionInput {
            params: self.param.as_ref(),
            namespace,
            ..ExpressionInput::new(attributes, served, served, object, old)
        }
    }
}

/// Replaces the object of the request by one that policies have changed in the version `form`.
async fn store(
    attributes: &Attributes<'_>,
    form: ReceivedAs,
    mut mutated: Value,
    object: &mut Value,
) -> Result<(), ApiError> {
    if let ReceivedAs::Equivalent(served) = form
        && attributes.is_of_resource()
    {
        let converted =
            convert(attributes, &served, attributes.served, Some(&mutated)).await.map_err(|error| {
                ApiError::internal_error(&format!("failed to convert object: {}", error.message()))
            })?;
        mutated = converted.unwrap_or(mutated);
    }
    if !(attributes.served.is_custom() && attributes.is_of_resource()) {
        attributes.conform(&mut mutated)?;
    }
    let owners = object["metadata"]["managedFields"].clone();
    *object = mutated;
    if let Some(warning) = restore_managed_fields(&owners, object) {
        attributes.warn(warning);
    }
    Ok(())
}

/// Returns the error of a request because policies failed, unless their failure policies ignore that.
fn refusal(
    attributes: &Attributes<'_>,
    object: Option<&Value>,
    mut failures: Vec<PolicyFailure<'_>>,
) -> Option<ApiError> {
    failures.retain(|failure| !failure.policy.ignores_failure);
    let first = failures.first()?;
    let mut error = attributes.forbidden(object.unwrap_or(&Value::Null), "").with_message(first.shown());
    if first.is_invalid {
        let code = error.code();
        error = error.with_reason("Invalid", code);
    }
    let cause =
        |failure: &PolicyFailure<'_>| Cause { reason: "", message: failure.shown(), field: String::new() };
    Some(error.with_causes(failures.iter().map(cause).collect()))
}

impl PolicyFailure<'_> {
    fn shown(&self) -> String {
        let (policy, why) = (&self.policy.name, &self.why);
        match self.binding {
            Some(binding) => {
                format!("policy '{policy}' with binding '{}' denied request: {why}", binding.name)
            }
            None => {
                format!("policy {} denied request: {why}", kube_apimachinery::go::quote(policy))
            }
        }
    }
}
