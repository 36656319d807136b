//! Definitions as objects: their defaults, and the changes made on writes.

use kube_apimachinery::metadata;
use serde_json::{Value, json};

use super::CLEANUP;

/// Sets derived names, the conversion strategy and the stored versions.
pub(crate) fn default(definition: &mut Value) {
    default_stored_versions(definition);
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
    // Go's internal type has no webhook struct: both of its fields stand beside the strategy. A webhook without either field is lost in the
    // conversion.
    drop_webhook(spec, Value::is_null);
    // The field has `omitempty`, and false is its default.
    if spec["preserveUnknownFields"] == false
        && let Some(fields) = spec.as_object_mut()
    {
        fields.remove("preserveUnknownFields");
    }
}

/// Returns the definition with the empty lists of its first version in all versions; `None` if each version has those already. In Go's internal
/// type, equal lists of all versions become one list, and an empty list equals a missing one.
pub(crate) fn with_shared_lists(definition: &Value) -> Option<Value> {
    let versions = definition["spec"]["versions"].as_array()?;
    let (first, others) = versions.split_first()?;
    let is_empty = |list: &Value| list.is_null() || list.as_array().is_some_and(Vec::is_empty);
    let is_shared = |field: &&str| {
        versions.iter().all(|version| version.is_object() && is_empty(&version[*field]))
            && others.iter().any(|version| version[*field] != first[*field])
    };
    let shared: Vec<_> =
        ["additionalPrinterColumns", "selectableFields"].into_iter().filter(is_shared).collect();
    if shared.is_empty() {
        return None;
    }
    let mut converted = definition.clone();
    for version in converted["spec"]["versions"].as_array_mut()?.iter_mut() {
        for field in &shared {
            version[*field] = first[*field].clone();
        }
    }
    Some(converted)
}

/// Resets the status of a new definition to its storage version.
pub(crate) fn prepare_create(definition: &mut Value) {
    default(definition);
    drop_empty_webhook(definition);
    // Validation refuses a definition with several storage versions.
    let stored: Vec<&str> = storage_versions(definition).into_iter().take(1).collect();
    definition["status"] = json!({
        "conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": stored,
    });
}

/// Adds the storage version to `storedVersions`. Versions leave the list only through writes of `/status`.
pub(crate) fn prepare_update(definition: &mut Value, subresource: &str) {
    default(definition);
    drop_empty_webhook(definition);
    if !definition["status"].is_object() {
        definition["status"] = json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}});
    }
    if subresource.is_empty() {
        // Objects may be stored in the new version from now on. Earlier ones stay in the list until a client removes them.
        let storage: Vec<Value> = storage_versions(definition).into_iter().take(1).map(Value::from).collect();
        let stored = &mut definition["status"]["storedVersions"];
        if !stored.is_array() {
            *stored = json!([]);
        }
        if let Some(stored) = stored.as_array_mut() {
            let new: Vec<Value> = storage.into_iter().filter(|version| !stored.contains(version)).collect();
            stored.extend(new);
        }
    }
}

/// Removes a conversion webhook without a client and with an empty list of versions, which storage drops. This happens after decoding, so
/// `managedFields` still records the list's writer.
fn drop_empty_webhook(definition: &mut Value) {
    let is_used = definition["spec"]["conversion"]["strategy"] == "Webhook";
    if let Some(spec) = definition.get_mut("spec").filter(|_| !is_used) {
        drop_webhook(spec, |versions| versions.is_null() || versions.as_array().is_some_and(Vec::is_empty));
    }
}

/// Removes a conversion webhook that has no client and whose versions are empty according to `is_empty`.
fn drop_webhook(spec: &mut Value, is_empty: impl Fn(&Value) -> bool) {
    let Some(conversion) = spec.get_mut("conversion").and_then(Value::as_object_mut) else { return };
    let is_without_parts = conversion.get("webhook").is_some_and(|webhook| {
        webhook["clientConfig"].is_null() && is_empty(&webhook["conversionReviewVersions"])
    });
    if is_without_parts {
        conversion.remove("webhook");
    }
}

/// Sets `storedVersions` to the storage version if it is empty.
fn default_stored_versions(definition: &mut Value) {
    let known = definition["status"]["storedVersions"].as_array().is_some_and(|list| !list.is_empty());
    if definition["status"].is_object() && !known {
        let first: Vec<Value> = storage_versions(definition).into_iter().take(1).map(Value::from).collect();
        definition["status"]["storedVersions"] = Value::Array(first);
    }
}

fn storage_versions(definition: &Value) -> Vec<&str> {
    let versions = definition["spec"]["versions"].as_array().into_iter().flatten();
    versions
        .filter(|version| version["storage"] == true)
        .filter_map(|version| version["name"].as_str())
        .collect()
}

/// Marks a definition as being deleted and adds the cleanup finalizer.
pub(crate) fn mark_deleted(now: &str, definition: &mut Value) {
    let mut finalizers: Vec<String> =
        metadata::finalizers(definition).into_iter().map(str::to_owned).collect();
    if !finalizers.iter().any(|finalizer| finalizer == CLEANUP) {
        finalizers.push(CLEANUP.to_owned());
    }
    metadata::set_finalizers(definition, &finalizers);
    let fields = metadata::of(definition);
    fields.insert("deletionTimestamp".to_owned(), json!(now));
    super::set_condition(
        now,
        definition,
        "Terminating",
        "True",
        "InstanceDeletionPending",
        "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Observed with kube-apiserver v1.36.3.
    #[test]
    fn all_versions_share_the_empty_lists_of_the_first() {
        const COLUMNS: &str = "additionalPrinterColumns";
        let shared = |lists: Value| {
            let versions =
                lists.as_array().unwrap().iter().map(|list| json!({COLUMNS: list})).collect::<Value>();
            let converted = with_shared_lists(&json!({"spec": {"versions": versions}}))?;
            let versions = converted["spec"]["versions"].as_array().unwrap().iter();
            Some(versions.map(|version| version[COLUMNS].clone()).collect::<Value>())
        };
        assert_eq!(shared(json!([null, []])), Some(json!([null, null])));
        assert_eq!(shared(json!([[], null])), Some(json!([[], []])));
        assert_eq!(shared(json!([[]])), None);
        assert_eq!(shared(json!([[{}], []])), None, "they are different lists");
    }

    /// Observed with kube-apiserver v1.36.3.
    #[test]
    fn a_webhook_without_parts_is_none() {
        let webhook = |webhook: Value| {
            let conversion = json!({"strategy": "None", "webhook": webhook});
            let mut definition = json!({"spec": {"conversion": conversion, "versions": []}});
            default(&mut definition);
            let decoded = definition["spec"]["conversion"].get("webhook").is_some();
            prepare_update(&mut definition, "");
            (decoded, definition["spec"]["conversion"].get("webhook").is_some())
        };
        assert_eq!(webhook(json!({})), (false, false));
        assert_eq!(webhook(json!({"clientConfig": null, "conversionReviewVersions": null})), (false, false));
        assert_eq!(webhook(json!({"conversionReviewVersions": []})), (true, false));
        assert_eq!(webhook(json!({"conversionReviewVersions": ["v1"]})), (true, true));
        assert_eq!(webhook(json!({"clientConfig": {}})), (true, true));
    }
}
