//! Style: properties of new fields that are hard to change later.
//!
//! The rules are those of the API conventions that can be checked without knowing the meaning of a field. Fields of the old definition are
//! exempt.

use serde_json::Value;

use super::{
    Report, Rule,
    definition::{list, schema_of, versions},
    schema_changes::{additional, field, properties, type_of},
};

/// Examines the fields of `new` that `old` lacks.
pub(super) fn examine(report: &mut Report, old: Option<&Value>, new: &Value) {
    for version in versions(&new["spec"]) {
        let was = old.and_then(|old| versions(&old["spec"]).find(|was| was["name"] == version["name"]));
        report.version = version["name"].as_str().map(str::to_owned);
        if was.is_none() && version["subresources"].get("status").is_none() {
            let advice = "status and spec then have one writer. Add a status";
            report.add(Rule::MustHaveStatus, "the version", "has no status subresource", advice);
        }
        node(report, was.map(schema_of), schema_of(version), "");
        report.version = None;
    }
}

/// Examines a field at `path`, and the fields in it.
fn node(report: &mut Report, old: Option<&Value>, new: &Value, path: &str) {
    if old.is_none() {
        new_field(report, new, path);
    }
    for (name, child) in properties(new) {
        let is_metadata = path.is_empty() && ["apiVersion", "kind", "metadata"].contains(&&**name);
        if !is_metadata {
            node(report, old.and_then(|old| properties(old).get(name)), child, &field(path, name));
        }
    }
    if let Some(items) = new.get("items") {
        node(report, old.and_then(|old| old.get("items")), items, &format!("{path}[*]"));
    }
    if let Some(values) = additional(new) {
        node(report, old.and_then(additional), values, &format!("{path}.*"));
    }
}

fn new_field(report: &mut Report, schema: &Value, path: &str) {
    let format = schema["format"].as_str().unwrap_or_default();
    match type_of(schema) {
        "a boolean" => {
            report.add(
                Rule::NoBools,
                path,
                "is a boolean",
                "a third choice cannot be added. Consider an enum",
            );
        }
        "a number" => {
            let advice = "clients round it differently. Use an integer, a quantity or a string";
            report.add(Rule::NoFloats, path, "is a number with fractions", advice);
        }
        "an integer" if format.starts_with("uint") => {
            let advice = "API servers do not know the format. Use i32 or i64 with a minimum";
            report.add(Rule::NoUnsigned, path, format!("has format {format}"), advice);
        }
        "a list" => lists(report, schema, path),
        "an object" if additional(schema).is_some_and(|values| type_of(values) == "an object") => {
            let advice = "names in a list of objects can be validated and merged. Use a list with keys";
            report.add(Rule::NoMaps, path, "is a map of objects", advice);
        }
        _ => {}
    }
}

fn lists(report: &mut Report, schema: &Value, path: &str) {
    let keys = list(&schema["x-kubernetes-list-map-keys"]);
    if path.ends_with(".conditions") && keys != ["type"] {
        let advice =
            "appliers overwrite each other's conditions. Set x-kubernetes-list-type map with key type";
        report.add(Rule::ConditionsHaveMapKey, path, "is not merged by type", advice);
    } else if schema.get("x-kubernetes-list-type").is_none() {
        let advice = "it is replaced as a whole. Set x-kubernetes-list-type: atomic, set or map";
        report.add(Rule::ListsHaveType, path, "has no x-kubernetes-list-type", advice);
    }
}
