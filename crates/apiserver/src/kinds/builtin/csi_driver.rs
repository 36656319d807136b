//! CSIDrivers.

use serde_json::{Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::fields::{set, within};

#[derive(Debug)]
pub(super) struct CSIDriver;

impl BuiltinKind for CSIDriver {
    fn default(&self, driver: &mut Value) {
        within(driver, "spec", |spec| {
            set(spec, "attachRequired", json!(true));
            set(spec, "podInfoOnMount", json!(false));
            set(spec, "storageCapacity", json!(false));
            set(spec, "fsGroupPolicy", json!("ReadWriteOnceWithFSType"));
            set(spec, "volumeLifecycleModes", json!(["Persistent"]));
            set(spec, "requiresRepublish", json!(false));
            set(spec, "seLinuxMount", json!(false));
        });
    }
}
