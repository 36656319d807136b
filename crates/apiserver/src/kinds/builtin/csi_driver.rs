//! CSIDrivers.

use serde_json::{Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::fields::{list, put, set, set_pointer, within};
use crate::kind::WriteContext;
use crate::kind::resource::Resource;

/// Field of a feature that kube-apiserver has switched off by default.
const OF_FEATURE: &str = "preventPodSchedulingIfMissing";

#[derive(Debug)]
pub(super) struct CSIDriver;

impl BuiltinKind for CSIDriver {
    fn default(&self, driver: &mut Value) {
        within(driver, "spec", |spec| {
            set(spec, "attachRequired", json!(true));
            set(spec, "podInfoOnMount", json!(false));
            set(spec, "storageCapacity", json!(false));
            set_pointer(spec, "fsGroupPolicy", json!("ReadWriteOnceWithFSType"));
            set(spec, "volumeLifecycleModes", json!(["Persistent"]));
            set(spec, "requiresRepublish", json!(false));
            set(spec, "seLinuxMount", json!(false));
        });
    }

    fn prepare_create(&self, _context: &WriteContext<'_>, driver: &mut Value) {
        within(driver, "spec", |spec| put(spec, OF_FEATURE, Value::Null));
    }

    fn prepare_update(&self, _context: &WriteContext<'_>, old: &Value, driver: &mut Value) {
        if old["spec"][OF_FEATURE].is_null() {
            within(driver, "spec", |spec| put(spec, OF_FEATURE, Value::Null));
        }
    }

    fn warnings(&self, _resource: &Resource, driver: &Value, old: Option<&Value>) -> Vec<String> {
        let spec = &driver["spec"];
        let asks = !list(spec, "tokenRequests").is_empty() && spec["serviceAccountTokenInSecrets"].is_null();
        let is_new = old.is_none_or(|old| old["spec"]["tokenRequests"] != spec["tokenRequests"]);
        let warning = "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent \
                       possible logging of tokens in volume attributes";
        (asks && is_new).then(|| warning.to_owned()).into_iter().collect()
    }
}
