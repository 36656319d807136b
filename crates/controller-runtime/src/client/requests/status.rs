//! Kinds that have a status, and the type of it.

use k8s_openapi::{
    api::{
        admissionregistration::v1 as admissionregistration, apps::v1 as apps, autoscaling::v1 as autoscaling,
        autoscaling::v2 as autoscaling_v2, batch::v1 as batch, certificates::v1 as certificates,
        core::v1 as core, flowcontrol::v1 as flowcontrol, networking::v1 as networking, policy::v1 as policy,
        storage::v1 as storage,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions,
    kube_aggregator::pkg::apis::apiregistration::v1 as apiregistration,
};
use kube::core::object::HasStatus;
use serde::Serialize;

/// A kind that has a status, which is written separately: [`Client::apply_status`](crate::Client::apply_status).
///
/// Implemented for types that derive `kube::CustomResource` with `#[kube(status = …)]`, and for the builtin kinds of stable
/// versions; there is nothing to implement by hand. For other kinds, such as those of beta versions, use
/// [`Client::subresource`](crate::Client::subresource).
///
/// `By` distinguishes the two implementations ([`Derived`] or [`Builtin`]) and is inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no status",
    note = "a type that derives `kube::CustomResource` has one with `#[kube(status = …)]`; of builtin kinds, those of stable \
            versions have, and `Client::subresource` writes those of others"
)]
pub trait WithStatus<By> {
    /// Type of the status.
    type Status: Serialize;
}

/// Marks kinds with a status type from the derive of `kube::CustomResource`.
#[derive(Debug)]
pub enum Derived {}

/// Marks builtin kinds. Their status types are listed here because `k8s-openapi` has no trait for them.
#[derive(Debug)]
pub enum Builtin {}

impl<K: HasStatus<Status: Serialize>> WithStatus<Derived> for K {
    type Status = K::Status;
}

macro_rules! builtin {
    ($($kind:ty: $status:ty,)+) => {
        $(
            impl WithStatus<Builtin> for $kind {
                type Status = $status;
            }
        )+

        #[cfg(test)]
        fn builtin() -> std::collections::BTreeSet<String> {
            [$(tests::name_of::<$kind>()),+].into()
        }
    };
}

builtin! {
    admissionregistration::ValidatingAdmissionPolicy: admissionregistration::ValidatingAdmissionPolicyStatus,
    apps::DaemonSet: apps::DaemonSetStatus,
    apps::Deployment: apps::DeploymentStatus,
    apps::ReplicaSet: apps::ReplicaSetStatus,
    apps::StatefulSet: apps::StatefulSetStatus,
    autoscaling::HorizontalPodAutoscaler: autoscaling::HorizontalPodAutoscalerStatus,
    autoscaling_v2::HorizontalPodAutoscaler: autoscaling_v2::HorizontalPodAutoscalerStatus,
    batch::CronJob: batch::CronJobStatus,
    batch::Job: batch::JobStatus,
    certificates::CertificateSigningRequest: certificates::CertificateSigningRequestStatus,
    core::Namespace: core::NamespaceStatus,
    core::Node: core::NodeStatus,
    core::PersistentVolume: core::PersistentVolumeStatus,
    core::PersistentVolumeClaim: core::PersistentVolumeClaimStatus,
    core::Pod: core::PodStatus,
    core::ReplicationController: core::ReplicationControllerStatus,
    core::ResourceQuota: core::ResourceQuotaStatus,
    core::Service: core::ServiceStatus,
    flowcontrol::FlowSchema: flowcontrol::FlowSchemaStatus,
    flowcontrol::PriorityLevelConfiguration: flowcontrol::PriorityLevelConfigurationStatus,
    networking::Ingress: networking::IngressStatus,
    networking::ServiceCIDR: networking::ServiceCIDRStatus,
    policy::PodDisruptionBudget: policy::PodDisruptionBudgetStatus,
    storage::VolumeAttachment: storage::VolumeAttachmentStatus,
    apiextensions::CustomResourceDefinition: apiextensions::CustomResourceDefinitionStatus,
    apiregistration::APIService: apiregistration::APIServiceStatus,
}

// Stable since 1.34.
k8s_openapi::k8s_if_ge_1_34! {
    impl WithStatus<Builtin> for k8s_openapi::api::resource::v1::ResourceClaim {
        type Status = k8s_openapi::api::resource::v1::ResourceClaimStatus;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use kube::discovery::Discovery;
    use kube_envtest::Environment;

    use crate::object::StaticObject;

    pub(in crate::client) fn name_of<K: StaticObject>() -> String {
        format!("{} {}", K::api_version(&()), K::kind(&()))
    }

    #[tokio::test]
    async fn every_builtin_kind_of_a_stable_version_that_has_a_status_is_known() {
        let env = Environment::builder().start().await.expect("an API server");
        let discovery = Discovery::new(env.client()).run().await.expect("discovery works");
        let mut served = BTreeSet::new();
        for group in discovery.groups() {
            for version in group.versions().filter(|version| !version.contains(['a', 'b'])) {
                for (kind, capabilities) in group.versioned_resources(version) {
                    if capabilities.subresources.iter().any(|(below, _)| below.plural == "status") {
                        served.insert(format!("{} {}", kind.api_version, kind.kind));
                    }
                }
            }
        }
        assert!(served.contains("apps/v1 Deployment"), "{served:?}");
        let mut known = super::builtin();
        known.insert(name_of::<k8s_openapi::api::resource::v1::ResourceClaim>());
        assert_eq!(known, served);
    }
}
