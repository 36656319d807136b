//! Names of the admission plugins.

use std::fmt;
use std::str::FromStr;

/// Profiles in which a plugin runs unless the options of the server say otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PluginDefault {
    On,
    /// On in profile [`Dev`](crate::Profile::Dev).
    OnInDev,
    Off,
}

/// An admission plugin, by its name in kube-apiserver.
///
/// All plugins are on, with two exceptions. [`OwnerReferencesPermissionEnforcement`](Self::OwnerReferencesPermissionEnforcement) is off, as
/// in kube-apiserver. [`ServiceAccount`](Self::ServiceAccount) is on only in profile [`Dev`](crate::Profile::Dev): without a controller
/// that creates service accounts it would refuse every pod. [`Options::disable_admission_plugin`](crate::Options::disable_admission_plugin)
/// and [`Options::enable_admission_plugin`](crate::Options::enable_admission_plugin) override the defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum AdmissionPlugin {
    /// Refuses new objects in namespaces that do not exist or are being deleted, and deletions of the namespaces of the system.
    NamespaceLifecycle,
    /// Sets defaults of LimitRanges and enforces their limits.
    LimitRanger,
    /// Sets the service account of new pods, its token and its image pull secrets.
    ServiceAccount,
    /// Adds the taint `node.kubernetes.io/not-ready` to new nodes.
    TaintNodesByCondition,
    /// Refuses pods that violate the pod security standard of their namespace.
    PodSecurity,
    /// Sets the priority of new pods.
    Priority,
    /// Lets pods tolerate failed nodes for five minutes.
    DefaultTolerationSeconds,
    /// Sets the storage class of claims that name none.
    DefaultStorageClass,
    /// Adds finalizers that protect volumes and claims in use.
    StorageObjectInUseProtection,
    /// Checks permissions for owner references: to delete the object, and to update the finalizers of an owner whose deletion it
    /// blocks. Off by default.
    OwnerReferencesPermissionEnforcement,
    /// Lets claims grow only if their storage class allows it.
    PersistentVolumeClaimResize,
    /// Sets the fields of a pod that its runtime class defines.
    RuntimeClass,
    /// Checks the permission to approve certificates.
    CertificateApproval,
    /// Checks the permission to sign certificates.
    CertificateSigning,
    /// Refuses certificates of the group `system:masters`.
    CertificateSubjectRestriction,
    /// Sets the class of Ingresses that name none.
    DefaultIngressClass,
    /// Copies the zone and the region of a node to its pods.
    PodTopologyLabels,
    /// Evaluates MutatingAdmissionPolicies.
    MutatingAdmissionPolicy,
    /// Calls the webhooks of MutatingWebhookConfigurations.
    MutatingAdmissionWebhook,
    /// Evaluates ValidatingAdmissionPolicies.
    ValidatingAdmissionPolicy,
    /// Calls the webhooks of ValidatingWebhookConfigurations.
    ValidatingAdmissionWebhook,
    /// Enforces ResourceQuotas.
    ResourceQuota,
}

impl AdmissionPlugin {
    /// All plugins, in the order in which they are called.
    pub(crate) const ALL: [Self; 22] = [
        Self::NamespaceLifecycle,
        Self::LimitRanger,
        Self::ServiceAccount,
        Self::TaintNodesByCondition,
        Self::PodSecurity,
        Self::Priority,
        Self::DefaultTolerationSeconds,
        Self::DefaultStorageClass,
        Self::StorageObjectInUseProtection,
        Self::OwnerReferencesPermissionEnforcement,
        Self::PersistentVolumeClaimResize,
        Self::RuntimeClass,
        Self::CertificateApproval,
        Self::CertificateSigning,
        Self::CertificateSubjectRestriction,
        Self::DefaultIngressClass,
        Self::PodTopologyLabels,
        Self::MutatingAdmissionPolicy,
        Self::MutatingAdmissionWebhook,
        Self::ValidatingAdmissionPolicy,
        Self::ValidatingAdmissionWebhook,
        Self::ResourceQuota,
    ];

    /// Returns the profiles in which the plugin runs by default; [`AdmissionPlugin`] has the reasons.
    pub(crate) fn default_state(self) -> PluginDefault {
        match self {
            Self::ServiceAccount => PluginDefault::OnInDev,
            Self::OwnerReferencesPermissionEnforcement => PluginDefault::Off,
            _ => PluginDefault::On,
        }
    }
}

/// Formats the name, such as `LimitRanger`.
impl fmt::Display for AdmissionPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The names of the variants are those of the plugins.
        fmt::Debug::fmt(self, f)
    }
}

/// Error for a name that no admission plugin has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown admission plugin \"{name}\"; the known plugins are {}", known())]
pub struct UnknownAdmissionPlugin {
    name: String,
}

fn known() -> String {
    AdmissionPlugin::ALL.map(|plugin| plugin.to_string()).join(", ")
}

impl FromStr for AdmissionPlugin {
    type Err = UnknownAdmissionPlugin;

    fn from_str(name: &str) -> Result<Self, UnknownAdmissionPlugin> {
        let found = Self::ALL.into_iter().find(|plugin| plugin.to_string() == name);
        found.ok_or_else(|| UnknownAdmissionPlugin { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_are_found_by_the_names_of_kube_apiserver() {
        for plugin in AdmissionPlugin::ALL {
            assert_eq!(plugin.to_string().parse(), Ok(plugin));
        }
        let error = "AlwaysAdmit".parse::<AdmissionPlugin>().unwrap_err();
        assert!(error.to_string().starts_with(
            "unknown admission plugin \"AlwaysAdmit\"; the known plugins are NamespaceLifecycle, "
        ));
    }
}
