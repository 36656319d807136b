//! Admission: plugins that can change or refuse a write, between its decoding and its commit.
//!
//! A write passes the stages of kube-apiserver, in this order:
//!
//! 1. [`authentication`](crate::api::authentication): the user of the request;
//! 2. [`authorization`](crate::api::authorization): whether the user may send it;
//! 3. decoding, with the defaults of the kind (`Call::decode`, a patch, or an apply);
//! 4. ownership of the changed fields, in `metadata.managedFields`;
//! 5. mutating admission: [`Admission::mutate`]. Fields that a plugin sets have no owner;
//! 6. fields that the kind itself sets, and validation against its schema and rules (`prepare` in [`verbs`](crate::api::verbs));
//! 7. validating admission: [`Admission::validate`];
//! 8. the commit, with a guard that repeats the checks that concurrent writes may have invalidated.
//!
//! Three more checks of [`authorization`](crate::api::authorization) come later. After stage 5, the writer of a role or binding must hold
//! all permissions that it grants. After stage 6, a PUT or PATCH that creates its object needs the permission to create it. After the
//! review of a stream to a pod, its user needs the permission to create the stream.
//!
//! If the object changed meanwhile, the write starts again at stage 3. Plugins see the object of the request, which is not always the
//! object of the resource: it may be a `Scale`, a `Binding`, an `Eviction`, a `TokenRequest`, the parameters of a connection, or a review
//! that is answered and not stored. The resulting change of a pod by a binding or an eviction is not reviewed again. A deletion is reviewed
//! with the object to be deleted; of a collection, each object is reviewed on its own.
//!
//! Writes of the server itself are not reviewed: garbage collection, the deletion of the contents of a namespace, and the objects of a new
//! cluster. Therefore webhooks do not see deletions of dependents, which in a genuine cluster are requests of the controllers.
//!
//! Plugins may wait; the timeout of the request limits all stages together.

mod attributes;
mod certificate_signing_requests;
mod changed_object;
mod default_classes;
mod default_toleration_seconds;
mod expression_input;
mod limit_ranger;
mod match_conditions;
mod matching;
mod namespace_lifecycle;
mod owner_references;
mod persistent_volume_claim_resize;
mod plugins;
mod pod_security;
mod pod_topology_labels;
mod policies;
mod priority;
mod request_fields;
mod resource_quota;
mod rules;
mod runtime_class;
mod service_account;
mod storage_object_in_use_protection;
mod taint_nodes_by_condition;
mod versions;
mod webhooks;

use std::sync::Arc;

use futures::future::BoxFuture;
use kube_apimachinery::managed_fields;
use kube_apimachinery::metadata;
use kube_apimachinery::status::ApiError;
use serde_json::Value;

pub(crate) use attributes::{Attributes, ObjectKind, Operation, OperationOptions, is_namespace};
use namespace_lifecycle::NamespaceLifecycle;
use owner_references::OwnerReferences;
pub(crate) use plugins::PluginDefault;
pub use plugins::{AdmissionPlugin, UnknownAdmissionPlugin};
pub(crate) use policies::PolicyHooks;
use policies::{MutatingPolicies, PolicyRound, ValidatingPolicies};
use rules::WriteRule;
pub(crate) use webhooks::Configurations;
use webhooks::{MutatingWebhooks, Round, ValidatingWebhooks};

use crate::kind::resource::StorageKey;
use crate::state::SideChange;
use crate::store::Store;

/// Result of a plugin: the request passes, or is refused with an error.
pub(crate) type Verdict<'a> = BoxFuture<'a, Result<(), ApiError>>;

/// A plugin that can change the object of a write.
pub(crate) trait MutatingPlugin: Send + Sync {
    /// Changes or refuses the object; `None` for a deletion. The plugin must add the defaults of structures that it adds, because defaults
    /// are not set again.
    fn mutate<'a>(&'a self, attributes: &'a Attributes<'a>, object: Option<&'a mut Value>) -> Verdict<'a>;
}

/// A plugin that can refuse a write.
pub(crate) trait ValidatingPlugin: Send + Sync {
    /// Checks the object in its final form; `None` for a deletion.
    fn validate<'a>(&'a self, attributes: &'a Attributes<'a>, object: Option<&'a Value>) -> Verdict<'a>;
}

/// Admission plugins in the order in which they are called. The first error ends the request.
pub(crate) struct Admission {
    plugins: Vec<Plugin>,
    /// Whether namespaces are checked again at the commit.
    checks_namespaces: bool,
    /// Whether writes are counted against quotas.
    charges: bool,
}

/// A plugin by the interface that it implements.
enum Plugin {
    /// Decides about creates and updates without waiting.
    Rule(Box<dyn WriteRule>),
    Mutating(Box<dyn MutatingPlugin>),
    Validating(Box<dyn ValidatingPlugin>),
    MutatingPolicies(MutatingPolicies),
    ValidatingPolicies(ValidatingPolicies),
    MutatingWebhooks(MutatingWebhooks),
    ValidatingWebhooks(ValidatingWebhooks),
}

impl Admission {
    /// Returns the plugins for which `runs` is true, in the order of kube-apiserver: plugins that charge quotas come last.
    pub(crate) fn new(runs: impl Fn(AdmissionPlugin) -> bool) -> Self {
        let plugin = |plugin| match plugin {
            plugin if runs(plugin) => Plugin::of(plugin),
            // While this plugin is off, it records for audits which permissions it would require.
            AdmissionPlugin::OwnerReferencesPermissionEnforcement => {
                vec![Plugin::Rule(Box::new(OwnerReferences::Recorded))]
            }
            _ => Vec::new(),
        };
        let plugins = AdmissionPlugin::ALL.into_iter().flat_map(plugin).collect();
        Self {
            plugins,
            checks_namespaces: runs(AdmissionPlugin::NamespaceLifecycle),
            charges: runs(AdmissionPlugin::ResourceQuota),
        }
    }

    /// Returns the plugins of a server in profile `envtest`.
    #[cfg(test)]
    pub(crate) fn standard() -> Self {
        Self::new(|plugin| plugin.default_state() == PluginDefault::On)
    }

    /// Returns the configurations of the webhooks. The caller must register them as observers of commits.
    pub(crate) fn webhook_configurations(&self) -> Vec<Arc<Configurations>> {
        let configurations = |plugin: &Plugin| match plugin {
            Plugin::MutatingWebhooks(webhooks) => Some(webhooks.configurations()),
            Plugin::ValidatingWebhooks(webhooks) => Some(webhooks.configurations()),
            _ => None,
        };
        self.plugins.iter().filter_map(configurations).collect()
    }

    /// Returns the admission policies. The caller must register them as observers of commits.
    pub(crate) fn policy_hooks(&self) -> Vec<Arc<PolicyHooks>> {
        let hooks = |plugin: &Plugin| match plugin {
            Plugin::MutatingPolicies(policies) => Some(policies.hooks()),
            Plugin::ValidatingPolicies(policies) => Some(policies.hooks()),
            _ => None,
        };
        self.plugins.iter().filter_map(hooks).collect()
    }

    /// Adds a plugin at the end of both chains.
    #[cfg(test)]
    pub(crate) fn with(mut self, plugin: impl MutatingPlugin + ValidatingPlugin + Clone + 'static) -> Self {
        self.plugins.push(Plugin::Mutating(Box::new(plugin.clone())));
        self.plugins.push(Plugin::Validating(Box::new(plugin)));
        self
    }

    /// Runs the mutating chain: stage 5. If a policy or a webhook changes the object, the plugins run a second time, and then those policies
    /// and webhooks that ask for it and have not seen the change. Returns whether the object was decoded again after the first round.
    ///
    /// # Errors
    /// The error of the first plugin that refuses.
    pub(crate) async fn mutate(
        &self,
        attributes: &Attributes<'_>,
        mut object: Option<&mut Value>,
    ) -> Result<bool, ApiError> {
        let first = self.run_mutating(attributes, object.as_deref_mut(), None).await?;
        let is_decoded = first.decoded();
        if first.changed() {
            // Boxed, because a second round is rare and its future large.
            Box::pin(self.run_mutating(attributes, object, Some(first))).await?;
        }
        Ok(is_decoded)
    }

    /// Runs the mutating plugins. `first` is the first round if this is the second one. Returns the state after the round.
    async fn run_mutating(
        &self,
        attributes: &Attributes<'_>,
        mut object: Option<&mut Value>,
        first: Option<MutatingRound>,
    ) -> Result<MutatingRound, ApiError> {
        let is_second = first.is_some();
        let mut first = first.unwrap_or_default();
        let mut round = MutatingRound::default();
        for plugin in &self.plugins {
            let verdict = match (plugin, object.as_deref_mut()) {
                (Plugin::Rule(rule), Some(object)) if attributes.is_write() => {
                    // Rules never wait. Called directly, they spare each write one boxed future per plugin.
                    rule.mutate(attributes, object)
                }
                (Plugin::Mutating(plugin), object) => plugin.mutate(attributes, object).await,
                (Plugin::MutatingPolicies(policies), object) if policies.may_review(attributes) => {
                    // Boxed, because most requests have no policy and the future is large.
                    let first = first.policies.take().or_else(|| is_second.then(PolicyRound::default));
                    Box::pin(policies.mutate(attributes, object, first)).await.map(|done| {
                        round.policies = Some(done);
                    })
                }
                (Plugin::MutatingWebhooks(webhooks), object) if webhooks.may_review(attributes) => {
                    // Boxed, because most requests have no webhook and the future is large.
                    match first.webhooks.take() {
                        Some(first) => Box::pin(webhooks.reinvoke(attributes, object, first)).await,
                        // As in kube-apiserver, the second round calls no webhook for the first time.
                        None if is_second => continue,
                        None => {
                            // A change by a policy causes a second round even if no webhook changes the
                            // object, so the webhooks must keep their result for it.
                            Box::pin(webhooks.mutate(attributes, object, round.changed())).await.map(|done| {
                                round.webhooks = Some(done);
                            })
                        }
                    }
                }
                _ => continue,
            };
            verdict.inspect_err(|error| attributes.log_refusal(error))?;
        }
        Ok(round)
    }

    /// Whether there is a mutating webhook or policy that may have to review a request.
    pub(crate) fn asks_mutators(&self, attributes: &Attributes<'_>) -> bool {
        self.plugins.iter().any(|plugin| match plugin {
            Plugin::MutatingWebhooks(webhooks) => webhooks.may_review(attributes),
            Plugin::MutatingPolicies(policies) => policies.may_review(attributes),
            _ => false,
        })
    }

    /// Whether there is a validating webhook or policy that may have to review a request.
    pub(crate) fn asks_validators(&self, attributes: &Attributes<'_>) -> bool {
        self.plugins.iter().any(|plugin| match plugin {
            Plugin::ValidatingWebhooks(webhooks) => webhooks.may_review(attributes),
            Plugin::ValidatingPolicies(policies) => policies.may_review(attributes),
            _ => false,
        })
    }

    /// Runs the validating chain: stage 7.
    ///
    /// # Errors
    /// The error of the first plugin that refuses.
    pub(crate) async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
    ) -> Result<(), ApiError> {
        for plugin in &self.plugins {
            let verdict = match (plugin, object) {
                (Plugin::Rule(rule), Some(object)) if attributes.is_write() => {
                    rule.validate(attributes, object)
                }
                (Plugin::Validating(plugin), object) => plugin.validate(attributes, object).await,
                (Plugin::ValidatingPolicies(policies), object) if policies.may_review(attributes) => {
                    // Boxed, as in the mutating chain.
                    Box::pin(policies.validate(attributes, object)).await
                }
                (Plugin::ValidatingWebhooks(webhooks), object) if webhooks.may_review(attributes) => {
                    Box::pin(webhooks.validate(attributes, object)).await
                }
                _ => continue,
            };
            verdict.inspect_err(|error| attributes.log_refusal(error))?;
        }
        Ok(())
    }

    /// Repeats the checks that other writes may have invalidated since the validation, under the lock of the store: stage 8. Returns
    /// the changes to commit with the write: the new usage of its quotas.
    ///
    /// # Errors
    /// 404 or 403 if the namespace no longer takes objects; 403 if the write exceeds a quota.
    pub(crate) fn recheck(
        &self,
        attributes: &Attributes<'_>,
        object: &Value,
        store: &Store<StorageKey>,
    ) -> Result<Vec<SideChange>, ApiError> {
        // Namespaces come before quotas, as in the chain: in a namespace that is being deleted the client
        // sees that reason.
        if self.checks_namespaces {
            NamespaceLifecycle::recheck(attributes, store)?;
        }
        if self.charges { resource_quota::charges(attributes, object, store) } else { Ok(Vec::new()) }
    }
}

/// State of a request between the two rounds of the mutating chain.
#[derive(Default)]
struct MutatingRound {
    policies: Option<PolicyRound>,
    webhooks: Option<Round>,
}

impl MutatingRound {
    /// Whether the object was changed, so that a second round follows.
    fn changed(&self) -> bool {
        self.policies.as_ref().is_some_and(PolicyRound::changed)
            || self.webhooks.as_ref().is_some_and(Round::changed)
    }

    /// Whether the object was decoded again after a change by a policy or the patch of a webhook.
    fn decoded(&self) -> bool {
        self.changed() || self.webhooks.as_ref().is_some_and(Round::decoded)
    }
}

impl Plugin {
    /// Returns the implementations of a plugin.
    fn of(plugin: AdmissionPlugin) -> Vec<Self> {
        let rule = |rule: Box<dyn WriteRule>| vec![Self::Rule(rule)];
        match plugin {
            AdmissionPlugin::NamespaceLifecycle => vec![Self::Mutating(Box::new(NamespaceLifecycle))],
            AdmissionPlugin::LimitRanger => rule(Box::new(limit_ranger::LimitRanger)),
            AdmissionPlugin::ServiceAccount => vec![
                Self::Mutating(Box::new(service_account::ServiceAccountAdmission)),
                Self::Validating(Box::new(service_account::ServiceAccountAdmission)),
            ],
            AdmissionPlugin::TaintNodesByCondition => {
                rule(Box::new(taint_nodes_by_condition::TaintNodesByCondition))
            }
            AdmissionPlugin::PodSecurity => rule(Box::new(pod_security::PodSecurity)),
            AdmissionPlugin::Priority => rule(Box::new(priority::Priority)),
            AdmissionPlugin::DefaultTolerationSeconds => {
                rule(Box::new(default_toleration_seconds::DefaultTolerationSeconds))
            }
            AdmissionPlugin::DefaultStorageClass => rule(Box::new(default_classes::STORAGE)),
            AdmissionPlugin::StorageObjectInUseProtection => {
                rule(Box::new(storage_object_in_use_protection::StorageObjectInUseProtection))
            }
            AdmissionPlugin::OwnerReferencesPermissionEnforcement => {
                rule(Box::new(OwnerReferences::Enforced))
            }
            AdmissionPlugin::PersistentVolumeClaimResize => {
                rule(Box::new(persistent_volume_claim_resize::PersistentVolumeClaimResize))
            }
            AdmissionPlugin::RuntimeClass => rule(Box::new(runtime_class::RuntimeClassAdmission)),
            AdmissionPlugin::CertificateApproval => rule(Box::new(certificate_signing_requests::APPROVAL)),
            AdmissionPlugin::CertificateSigning => rule(Box::new(certificate_signing_requests::SIGNING)),
            AdmissionPlugin::CertificateSubjectRestriction => {
                rule(Box::new(certificate_signing_requests::CertificateSubjectRestriction))
            }
            AdmissionPlugin::DefaultIngressClass => rule(Box::new(default_classes::INGRESS)),
            AdmissionPlugin::PodTopologyLabels => rule(Box::new(pod_topology_labels::PodTopologyLabels)),
            AdmissionPlugin::MutatingAdmissionPolicy => {
                vec![Self::MutatingPolicies(MutatingPolicies::default())]
            }
            AdmissionPlugin::ValidatingAdmissionPolicy => {
                vec![Self::ValidatingPolicies(ValidatingPolicies::default())]
            }
            AdmissionPlugin::MutatingAdmissionWebhook => {
                vec![Self::MutatingWebhooks(MutatingWebhooks::default())]
            }
            AdmissionPlugin::ValidatingAdmissionWebhook => {
                vec![Self::ValidatingWebhooks(ValidatingWebhooks::default())]
            }
            AdmissionPlugin::ResourceQuota => rule(Box::new(resource_quota::QuotaAdmission)),
        }
    }
}

/// Restores `metadata.managedFields` if a webhook or policy made them undecodable; `before` are the entries before the call. Returns the warning for
/// the client.
pub(crate) fn restore_managed_fields(before: &Value, object: &mut Value) -> Option<String> {
    // As in kube-apiserver, this fails no request, because the client did not write these entries.
    let why = managed_fields::validate(object).err()?;
    let fields = metadata::of(object);
    if before.is_null() {
        fields.remove("managedFields");
    } else {
        fields.insert("managedFields".to_owned(), before.clone());
    }
    Some(format!(
        ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating admission \
         controller; please fix your requests: {why}"
    ))
}

#[cfg(test)]
mod tests;
