//! Changes of a definition outside of its schemas.

use serde_json::Value;

use super::{Report, Rule, schema_changes};

/// Returns the name of a definition.
pub(super) fn name(definition: &Value) -> &str {
    definition["metadata"]["name"].as_str().unwrap_or_default()
}

/// Compares two definitions of one name.
pub(super) fn compare(report: &mut Report, old: &Value, new: &Value) {
    let (old_spec, new_spec) = (&old["spec"], &new["spec"]);
    if scope(old_spec) != scope(new_spec) {
        let fact = format!("is {} instead of {}", scope(new_spec), scope(old_spec));
        report.add(Rule::ScopeChanged, "spec.scope", fact, "the API server refuses it. Define another kind");
    }
    for (path, old, new) in [
        ("spec.group", &old_spec["group"], &new_spec["group"]),
        ("spec.names.kind", &old_spec["names"]["kind"], &new_spec["names"]["kind"]),
        ("spec.names.plural", &old_spec["names"]["plural"], &new_spec["names"]["plural"]),
    ] {
        if old != new {
            let fact = format!("is {} instead of {}", text(new), text(old));
            report.add(
                Rule::KindChanged,
                path,
                fact,
                "clients find no objects of the old name. Define another kind",
            );
        }
    }
    names(
        report,
        Rule::ShortNameRemoved,
        "spec.names.shortNames",
        &old_spec["names"]["shortNames"],
        &new_spec["names"]["shortNames"],
    );
    names(
        report,
        Rule::CategoryRemoved,
        "spec.names.categories",
        &old_spec["names"]["categories"],
        &new_spec["names"]["categories"],
    );
    let stored: Vec<&str> = list(&old["status"]["storedVersions"]).iter().filter_map(Value::as_str).collect();
    for old in versions(old_spec) {
        let name = old["name"].as_str().unwrap_or_default();
        report.version = Some(name.to_owned());
        match versions(new_spec).find(|new| new["name"] == old["name"]) {
            // A definition that is read from a file has no status, so its storage version counts as well.
            None if old["storage"] == true || stored.contains(&name) => report.add(
                Rule::StoredVersionRemoved,
                "the version",
                "is gone",
                "objects stored in it cannot be read. Keep it with served: false until all objects are stored in another version",
            ),
            None => report.add(Rule::VersionRemoved, "the version", "is gone", "clients of it fail. Deprecate it first"),
            Some(new) => version(report, old, new),
        }
        report.version = None;
    }
}

/// Iterates over the versions of a definition.
pub(super) fn versions(spec: &Value) -> impl Iterator<Item = &Value> {
    list(&spec["versions"]).iter()
}

/// Returns the schema of a version.
pub(super) fn schema_of(version: &Value) -> &Value {
    &version["schema"]["openAPIV3Schema"]
}

fn version(report: &mut Report, old: &Value, new: &Value) {
    if old["served"] == true && new["served"] != true {
        report.add(
            Rule::VersionRemoved,
            "the version",
            "is not served",
            "clients of it fail. Deprecate it first",
        );
    }
    subresources(report, &old["subresources"], &new["subresources"]);
    for (key, field, rule, path, advice) in [
        (
            "selectableFields",
            "jsonPath",
            Rule::SelectableFieldRemoved,
            "selectableFields",
            "lists that select by it fail. Keep it",
        ),
        (
            "additionalPrinterColumns",
            "name",
            Rule::PrinterColumnRemoved,
            "additionalPrinterColumns",
            "scripts that read the table may need it",
        ),
    ] {
        for entry in list(&old[key]) {
            if !list(&new[key]).iter().any(|other| other[field] == entry[field]) {
                report.add(rule, path, format!("lacks {}", text(&entry[field])), advice);
            }
        }
    }
    schema_changes::compare(report, schema_of(old), schema_of(new));
}

fn subresources(report: &mut Report, old: &Value, new: &Value) {
    for name in ["status", "scale"] {
        let path = format!("subresources.{name}");
        match (old.get(name), new.get(name)) {
            (Some(_), None) => {
                report.add(Rule::SubresourceRemoved, &path, "is gone", "requests to it fail. Keep it");
            }
            // A new scale subresource changes no other request.
            (None, Some(_)) if name == "status" => report.add(
                Rule::SubresourceAdded,
                &path,
                "is new",
                "updates of the object ignore its status from now on. Clients must write it through the subresource",
            ),
            (Some(old), Some(new)) if name == "scale" => {
                for field in ["specReplicasPath", "statusReplicasPath", "labelSelectorPath"] {
                    let (old, new) = (&old[field], &new[field]);
                    if old != new && !old.is_null() {
                        let fact = format!("is {} instead of {}", text(new), text(old));
                        let advice = "autoscalers read another field. Keep it";
                        report.add(Rule::SubresourceChanged, &format!("{path}.{field}"), fact, advice);
                    }
                }
            }
            _ => {}
        }
    }
}

fn names(report: &mut Report, rule: Rule, path: &str, old: &Value, new: &Value) {
    for name in list(old) {
        if !list(new).contains(name) {
            report.add(rule, path, format!("lacks {}", text(name)), "commands that use it fail");
        }
    }
}

fn scope(spec: &Value) -> &str {
    spec["scope"].as_str().unwrap_or("Namespaced")
}

/// Returns the items of a list; empty if the value is not a list.
pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Formats a value for a message: text without quotes, anything else as JSON.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "nothing".to_owned(),
        other => other.to_string(),
    }
}
