//! Rules: the requests that the API server sends to a webhook, and how it treats failures.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::admission::Operation;
use crate::object::{DynamicKind, StaticObject};

/// Treatment of an operation by the API server when the webhook cannot be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FailurePolicy {
    /// The operation fails.
    #[default]
    Fail,
    /// The operation is admitted as if there were no webhook.
    Ignore,
}

impl FailurePolicy {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Fail => "Fail",
            Self::Ignore => "Ignore",
        }
    }
}

/// Requests of other versions of the kind that the API server sends to the webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MatchPolicy {
    /// Requests in any version; the API server converts their objects to the version of the rule.
    #[default]
    Equivalent,
    /// Requests in the version of the rule alone.
    Exact,
}

impl MatchPolicy {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Equivalent => "Equivalent",
            Self::Exact => "Exact",
        }
    }
}

/// Whether a webhook has effects other than its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SideEffects {
    /// The webhook has no side effects.
    #[default]
    None,
    /// The webhook has side effects, but not in a dry run ([`Admission::is_dry_run`](super::Admission::is_dry_run)).
    NoneOnDryRun,
}

impl SideEffects {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::NoneOnDryRun => "NoneOnDryRun",
        }
    }
}

/// Whether a mutating webhook is called again after a later webhook has changed the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReinvocationPolicy {
    /// The webhook is called once.
    #[default]
    Never,
    /// The webhook is called once more, so it must be idempotent.
    IfNeeded,
}

impl ReinvocationPolicy {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Never => "Never",
            Self::IfNeeded => "IfNeeded",
        }
    }
}

/// The requests that a webhook receives, and the path that it is served at.
///
/// ```
/// use std::time::Duration;
/// use controller_runtime::webhook::{FailurePolicy, Operation, Rule};
/// use k8s_openapi::api::core::v1::Pod;
///
/// let rule = Rule::of::<Pod>()
///     .operations(&[Operation::Create])
///     .failure_policy(FailurePolicy::Ignore)
///     .timeout(Duration::from_secs(2));
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Rule {
    pub(super) kind: DynamicKind,
    pub(super) subresource: Option<String>,
    pub(super) operations: Vec<Operation>,
    pub(super) path: Option<String>,
    pub(super) failure_policy: FailurePolicy,
    pub(super) match_policy: MatchPolicy,
    pub(super) side_effects: SideEffects,
    pub(super) reinvocation: ReinvocationPolicy,
    pub(super) timeout: Duration,
    /// Names and CEL expressions.
    pub(super) match_conditions: Vec<(String, String)>,
    pub(super) object_selector: Option<LabelSelector>,
    pub(super) namespace_selector: Option<LabelSelector>,
}

impl Rule {
    /// Creations and updates of objects of kind `K`.
    pub fn of<K: StaticObject>() -> Self {
        Self::of_dynamic(&DynamicKind::of::<K>())
    }

    /// Creations and updates of objects of a kind known at run time.
    pub fn of_dynamic(kind: &DynamicKind) -> Self {
        Self {
            kind: kind.clone(),
            subresource: None,
            operations: vec![Operation::Create, Operation::Update],
            path: None,
            failure_policy: FailurePolicy::Fail,
            match_policy: MatchPolicy::Equivalent,
            side_effects: SideEffects::None,
            reinvocation: ReinvocationPolicy::Never,
            match_conditions: Vec::new(),
            timeout: Duration::from_secs(10),
            object_selector: None,
            namespace_selector: None,
        }
    }

    /// Sets the operations. Default: creations and updates.
    pub fn operations(self, operations: &[Operation]) -> Self {
        Self { operations: operations.to_vec(), ..self }
    }

    /// Selects requests for a subresource, such as `status`, instead of those for the objects themselves.
    pub fn subresource(self, name: impl Into<String>) -> Self {
        Self { subresource: Some(name.into()), ..self }
    }

    /// Sets the path of the webhook, such as `/check-pods`. Default: that of controller-runtime, such as `/mutate--v1-pod` or
    /// `/validate-example-com-v1-guestbook`.
    #[doc(alias = "WithDefaulterCustomPath")]
    #[doc(alias = "WithValidatorCustomPath")]
    pub fn path(self, path: impl Into<String>) -> Self {
        Self { path: Some(path.into()), ..self }
    }

    /// Sets whether an operation fails when the webhook cannot be called. Default: it fails.
    pub fn failure_policy(self, failure_policy: FailurePolicy) -> Self {
        Self { failure_policy, ..self }
    }

    /// Sets whether requests in other versions of the kind are sent as well. Default: they are.
    pub fn match_policy(self, match_policy: MatchPolicy) -> Self {
        Self { match_policy, ..self }
    }

    /// Sets whether the webhook has side effects. Default: none. The API server refuses a dry run that would call a webhook with side
    /// effects.
    pub fn side_effects(self, side_effects: SideEffects) -> Self {
        Self { side_effects, ..self }
    }

    /// Sets whether a mutating webhook is called again when a later one has changed the object. Default: it is not. Has no effect on
    /// validating webhooks.
    pub fn reinvocation_policy(self, reinvocation: ReinvocationPolicy) -> Self {
        Self { reinvocation, ..self }
    }

    /// Adds a condition, a CEL expression; the API server sends only requests that meet all conditions. At most 64.
    ///
    /// ```
    /// use controller_runtime::webhook::Rule;
    /// use k8s_openapi::api::core::v1::Pod;
    ///
    /// let rule = Rule::of::<Pod>().match_condition("not-the-kubelet", "!request.userInfo.groups.exists(g, g == 'system:nodes')");
    /// ```
    pub fn match_condition(mut self, name: impl Into<String>, expression: impl Into<String>) -> Self {
        self.match_conditions.push((name.into(), expression.into()));
        self
    }

    /// Sets how long the API server waits, in whole seconds from 1 to 30; other values are rounded up or limited. Default: 10 s.
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Selects requests by the labels of the object, old or new. Default: all.
    pub fn object_selector(self, selector: LabelSelector) -> Self {
        Self { object_selector: Some(selector), ..self }
    }

    /// Selects requests in namespaces with matching labels. Default: all.
    pub fn namespace_selector(self, selector: LabelSelector) -> Self {
        Self { namespace_selector: Some(selector), ..self }
    }

    /// Returns whether both rules can share a path: they may differ only in their operations.
    pub(super) fn can_share_path_with(&self, other: &Self) -> bool {
        let parts = |rule: &Self| {
            (
                (rule.failure_policy, rule.match_policy, rule.side_effects, rule.reinvocation),
                rule.timeout_seconds(),
                rule.match_conditions.clone(),
                rule.object_selector.clone(),
                rule.namespace_selector.clone(),
            )
        };
        (&self.kind, &self.subresource) == (&other.kind, &other.subresource) && parts(self) == parts(other)
    }

    /// Timeout in whole seconds, within the bounds of the API server.
    pub(super) fn timeout_seconds(&self) -> i32 {
        let whole = self.timeout.as_secs() + u64::from(self.timeout.subsec_nanos() > 0);
        i32::try_from(whole.clamp(1, 30)).expect("at most 30")
    }
}

/// Phase of admission in which a webhook is called. Only mutating webhooks may change objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AdmissionPhase {
    Mutating,
    Validating,
}

impl AdmissionPhase {
    /// First word of the default path.
    pub(super) fn verb(self) -> &'static str {
        match self {
            Self::Mutating => "mutate",
            Self::Validating => "validate",
        }
    }

    /// The path of a rule: its own, or Go's `/mutate-<group>-<version>-<kind>`, with the subresource at the end if there is one.
    pub(super) fn path(self, rule: &Rule) -> String {
        rule.path.clone().unwrap_or_else(|| {
            let resource = rule.kind.resource();
            let (group, kind) = (resource.group.replace('.', "-"), resource.kind.to_lowercase());
            let path = format!("/{}-{group}-{}-{kind}", self.verb(), resource.version);
            rule.subresource
                .iter()
                .fold(path, |path, subresource| format!("{path}-{}", subresource.replace('/', "-")))
        })
    }
}
