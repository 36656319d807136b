//! A definition as an object: its defaults, and what happens to it when it is written.

use serde_json::{Value, json};

use super::CLEANUP;
use crate::server::Server;
use crate::verbs::metadata;

/// Fills in the names that follow from others, and how versions convert.
pub(crate) fn default(definition: &mut Value) {
    let Some(spec) = definition.get_mut("spec").filter(|spec| spec.is_object()) else {
        return;
    };
    if spec["names"].is_object() {
        let kind = spec["names"]["kind"].as_str().unwrap_or_default().to_owned();
        for (field, value) in [("singular", kind.to_lowercase()), ("listKind", format!("{kind}List"))] {
            if !kind.is_empty() && spec["names"][field].as_str().is_none_or(str::is_empty) {
                spec["names"][field] = json!(value);
            }
        }
    }
    if !spec["conversion"].is_object() {
        spec["conversion"] = json!({"strategy": "None"});
    }
    if spec["preserveUnknownFields"] == false
        && let Some(fields) = spec.as_object_mut()
    {
        fields.remove("preserveUnknownFields");
    }
}

/// A new definition has no status but the version in which its objects will be stored.
pub(crate) fn prepare_create(definition: &mut Value) {
    default(definition);
    let stored: Vec<&str> = storage_versions(definition);
    definition["status"] = json!({
        "conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": stored,
    });
}

/// The version of the storage joins those that objects may be stored in.
pub(crate) fn prepare_update(definition: &mut Value) {
    default(definition);
    let storage: Vec<String> = storage_versions(definition).into_iter().map(str::to_owned).collect();
    if !definition["status"].is_object() {
        definition["status"] = json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}});
    }
    let stored = &mut definition["status"]["storedVersions"];
    if !stored.is_array() {
        *stored = json!([]);
    }
    for version in storage {
        if let Some(list) =
            stored.as_array_mut().filter(|list| !list.iter().any(|known| *known == version.as_str()))
        {
            list.push(json!(version));
        }
    }
}

fn storage_versions(definition: &Value) -> Vec<&str> {
    let versions = definition["spec"]["versions"].as_array().into_iter().flatten();
    versions
        .filter(|version| version["storage"] == true)
        .filter_map(|version| version["name"].as_str())
        .collect()
}

/// A deleted definition stays until its objects are gone. A second DELETE only adds what the first left out.
pub(crate) fn mark_deleted(server: &Server, definition: &mut Value, first: bool) {
    if !first {
        metadata::of(definition).insert("deletionGracePeriodSeconds".to_owned(), json!(0));
        return;
    }
    let mut finalizers: Vec<String> =
        metadata::finalizers(definition).into_iter().map(str::to_owned).collect();
    if !finalizers.iter().any(|finalizer| finalizer == CLEANUP) {
        finalizers.push(CLEANUP.to_owned());
    }
    metadata::set_finalizers(definition, &finalizers);
    let fields = metadata::of(definition);
    fields.insert("deletionTimestamp".to_owned(), json!(server.clock.now_seconds()));
    super::names::set_condition(
        server,
        definition,
        "Terminating",
        "True",
        "InstanceDeletionPending",
        "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    );
}
