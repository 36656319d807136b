//! Default roles and bindings, for administrators, users, cluster components, and the controllers of kube-controller-manager.
//!
//! The Kubernetes documentation describes them under "Using RBAC Authorization". `admin`, `edit` and `view` aggregate other roles by label,
//! which a [controller](crate::controllers::role_aggregation) does; without it they have no rules, as in envtest. Changed objects are not
//! reset at the next start.

use std::sync::OnceLock;

use kube_apimachinery::data_file;
use kube_apimachinery::metadata;
use kube_apimachinery::rbac::GROUP;
use serde_json::{Value, json};

use crate::state::ClusterState;
use crate::state::writer;
use crate::store::Key;

/// Objects of the data file, complete except for UIDs and times. All servers of a process share them, which saves most of the time of a
/// start.
static OBJECTS: OnceLock<Vec<(&str, Value)>> = OnceLock::new();

/// Creates the missing roles and bindings.
pub(super) fn create(cluster: &ClusterState) {
    let now = json!(cluster.clock.now_seconds());
    let registry = cluster.registry();
    for (plural, object) in OBJECTS.get_or_init(|| objects(cluster)) {
        let Some(served) = registry.get(GROUP, "v1", plural) else { continue };
        let key = Key::new(metadata::text(object, "namespace"), metadata::text(object, "name"));
        if cluster.read(|store| store.get(served.storage(), &key).is_some()) {
            continue;
        }
        let mut object = object.clone();
        if let Some(time) = object.pointer_mut("/metadata/managedFields/0/time") {
            *time = now.clone();
        }
        let fields = metadata::of(&mut object);
        fields.insert("uid".to_owned(), json!(cluster.uid()));
        fields.insert("creationTimestamp".to_owned(), now.clone());
        writer::put_if_absent(cluster, served, &key, &object);
    }
}

/// Reads the data file and completes its objects.
fn objects(cluster: &ClusterState) -> Vec<(&'static str, Value)> {
    let registry = cluster.registry();
    let lines = data_file::entries(include_str!("../../data/roles.txt"));
    lines
        .filter_map(|(plural, text)| {
            let served = registry.get(GROUP, "v1", plural)?;
            let mut object: Value = serde_json::from_str(text).ok()?;
            let fields = metadata::of(&mut object);
            let labels = fields.entry("labels").or_insert_with(|| json!({}));
            labels["kubernetes.io/bootstrapping"] = json!("rbac-defaults");
            let autoupdate = json!({"rbac.authorization.kubernetes.io/autoupdate": "true"});
            fields.insert("annotations".to_owned(), autoupdate);
            served.conform(&mut object);
            writer::track_as(cluster, served, super::MANAGER, "", None, &mut object);
            Some((plural, object))
        })
        .collect()
}
