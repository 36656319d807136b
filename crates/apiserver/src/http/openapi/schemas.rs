//! Schemas of a document: those to which its paths refer, and those to which these schemas refer in turn.

use kube_apimachinery::go_struct;
use kube_apimachinery::schema;
use serde_json::{Map, Value, json};

use super::custom_schemas::{self, OpenApiVersion};
use super::{Published, meta};
use crate::kind::resource::Resource;
use crate::kinds::builtin::data;

/// Returns the schema name of a builtin kind.
pub(super) fn builtin_name(api_version: &str, kind: &str) -> Option<String> {
    // Rows are searched as text, because parsing all of them takes longer.
    let row = data::resources()
        .filter(|(group_version, _)| *group_version == api_version)
        .find(|(_, row)| row.contains(&format!("\"kind\":\"{kind}\",\"message\"")))?
        .1;
    let row: Value = serde_json::from_str(row).ok()?;
    Some(row["definition"].as_str()?.to_owned())
}

/// Returns the schema name of a kind that need not be a resource, such as `policy/v1` `Eviction`.
pub(super) fn of_kind(group: &str, version: &str, kind: &str) -> Option<String> {
    let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let name = format!("io.k8s.api.{}", go_struct::message_of_kind(&api_version, kind)?.name());
    schema::definition(&name).map(|_| name)
}

/// Returns all schemas that `paths` need, by name.
pub(super) fn referred(described: &[Published<'_>], paths: &Map<String, Value>) -> Map<String, Value> {
    let mut schemas = of_custom(described, OpenApiVersion::V3);
    let mut wanted = Vec::new();
    paths.values().for_each(|path| collect(path, &mut wanted));
    schemas.values().for_each(|schema| collect(schema, &mut wanted));
    add_builtin(wanted, &mut schemas);
    if let Some(first) = described.first() {
        for name in KINDS_WITH_GROUPS.map(meta) {
            schemas.get_mut(&name).into_iter().for_each(|schema| of_this_group_too(schema, first.resource));
        }
    }
    schemas
}

/// Returns the schemas of custom kinds and of their lists, by name.
pub(super) fn of_custom(described: &[Published<'_>], version: OpenApiVersion) -> Map<String, Value> {
    let mut schemas = Map::new();
    for custom in described {
        if let Some(schema) = custom.schema {
            let name = custom.schema_name();
            schemas.insert(format!("{name}List"), custom_schemas::list(custom, &name));
            schemas.insert(name, custom_schemas::object(custom, schema, version));
        }
    }
    schemas
}

/// Adds the recorded schemas with these names, and those to which they refer directly or indirectly.
pub(super) fn add_builtin(mut wanted: Vec<String>, schemas: &mut Map<String, Value>) {
    while let Some(name) = wanted.pop() {
        if schemas.contains_key(&name) {
            continue;
        }
        let text = schema::definition(&name);
        let Some(mut schema) = text.and_then(|text| serde_json::from_str::<Value>(text).ok()) else {
            continue;
        };
        collect(&schema, &mut wanted);
        describe(&name, &mut schema);
        schemas.insert(name, schema);
    }
}

/// Adds the descriptions of a schema and its fields, which `kubectl explain` shows.
fn describe(name: &str, schema: &mut Value) {
    let texts = data::descriptions(name).and_then(|texts| serde_json::from_str::<Map<_, _>>(texts).ok());
    for (field, text) in texts.into_iter().flatten() {
        let described =
            if field.is_empty() { Some(&mut *schema) } else { schema["properties"].get_mut(&field) };
        if let Some(described) = described.and_then(Value::as_object_mut) {
            described.insert("description".to_owned(), text);
        }
    }
}

/// Collects the names in all `$ref`s below a value.
pub(super) fn collect(value: &Value, names: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            if let Some(name) = fields
                .get("$ref")
                .and_then(Value::as_str)
                .and_then(|reference| reference.strip_prefix("#/components/schemas/"))
            {
                names.push(name.to_owned());
            }
            fields.values().for_each(|field| collect(field, names));
        }
        Value::Array(list) => list.iter().for_each(|element| collect(element, names)),
        _ => {}
    }
}

/// Kinds with schemas that list every group that uses them.
pub(super) const KINDS_WITH_GROUPS: [&str; 2] = ["DeleteOptions", "WatchEvent"];

/// Adds the group of `resource` to a schema of [`KINDS_WITH_GROUPS`].
pub(super) fn of_this_group_too(schema: &mut Value, resource: &Resource) {
    let Some(kinds) = schema["x-kubernetes-group-version-kind"].as_array_mut() else {
        return;
    };
    if let Some(kind) = kinds.first().and_then(|first| first.get("kind")).cloned()
        && !resource.group.is_empty()
    {
        kinds.push(json!({ "group": resource.group, "kind": kind, "version": resource.version }));
    }
}
