//! Values of a pod spec behind feature gates that are off by default.

use serde_json::Value;

use crate::kinds::builtin::shared::fields::{list, text};

/// Gated values that a pod spec may have. kube-apiserver permits them in an update if the old spec uses the feature, so that an object
/// stays writable after the feature is turned off. Rules of `GetValidationOptionsFromPodSpecAndMeta` in `pkg/api/pod/util.go`.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::kinds::builtin) struct GatedValues {
    /// Whether `seLinuxChangePolicy` may be `MountOption`. The feature gate is `SELinuxMount`, and any policy in the old spec suffices.
    pub(super) mount_option: bool,
    /// Whether tolerations may have the operators `Lt` and `Gt`. The feature gate is `TaintTolerationComparisonOperators`.
    pub(super) comparisons: bool,
}

impl GatedValues {
    /// Values that the new state of the spec `old` may have; of a new object if there is none.
    pub(in crate::kinds::builtin) fn of(old: Option<&Value>) -> Self {
        let old = old.unwrap_or(&Value::Null);
        let compares = |toleration: &Value| ["Lt", "Gt"].contains(&text(toleration, "operator"));
        Self {
            mount_option: !old["securityContext"]["seLinuxChangePolicy"].is_null(),
            comparisons: list(old, "tolerations").iter().any(compares),
        }
    }
}
