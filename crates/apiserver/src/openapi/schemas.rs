//! The schemas of a document: those that its paths refer to, and those that these refer to.

use serde_json::{Map, Value, json};

use super::{Published, meta, reference};
use crate::builtin::{self, data};

/// The schema of a builtin kind.
pub(super) fn builtin_name(api_version: &str, kind: &str) -> Option<String> {
    let row = data::resources()
        .filter(|(group_version, _)| *group_version == api_version)
        .find(|(_, row)| row.contains(&format!("\"kind\":\"{kind}\",\"message\"")))?
        .1;
    let row: Value = serde_json::from_str(row).ok()?;
    Some(row["definition"].as_str()?.to_owned())
}

/// The schema of a kind that need not be that of a resource, such as `policy/v1` `Eviction`.
pub(super) fn of_kind(group: &str, version: &str, kind: &str) -> Option<String> {
    let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let name = format!("io.k8s.api.{}", builtin::message_of_kind(&api_version, kind)?.name());
    data::definition(&name).map(|_| name)
}

/// All schemas that `paths` need, by name.
pub(super) fn referred(described: &[Published<'_>], paths: &Map<String, Value>) -> Map<String, Value> {
    let mut schemas = Map::new();
    for custom in described {
        if let Some(schema) = custom.schema {
            let name = custom.schema_name();
            schemas.insert(format!("{name}List"), list_of(custom, &name));
            schemas.insert(name, object_of(custom, schema));
        }
    }
    let mut wanted = Vec::new();
    paths.values().for_each(|path| collect(path, &mut wanted));
    schemas.values().for_each(|schema| collect(schema, &mut wanted));
    while let Some(name) = wanted.pop() {
        if schemas.contains_key(&name) {
            continue;
        }
        let text = data::definition(&name);
        let Some(mut schema) = text.and_then(|text| serde_json::from_str::<Value>(text).ok()) else {
            continue;
        };
        if let Some(first) = described.first()
            && (name == meta("DeleteOptions") || name == meta("WatchEvent"))
        {
            of_this_group_too(&mut schema, first);
        }
        collect(&schema, &mut wanted);
        schemas.insert(name, schema);
    }
    schemas
}

/// Names in `$ref`s below a value.
fn collect(value: &Value, names: &mut Vec<String>) {
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

/// Options and events of a watch belong to every group that they are used with.
fn of_this_group_too(schema: &mut Value, described: &Published<'_>) {
    let resource = described.resource;
    let Some(kinds) = schema["x-kubernetes-group-version-kind"].as_array_mut() else {
        return;
    };
    if let Some(kind) = kinds.first().and_then(|first| first.get("kind")).cloned()
        && !resource.group.is_empty()
    {
        kinds.push(json!({ "group": resource.group, "kind": kind, "version": resource.version }));
    }
}

/// A custom schema as published: with the fields that every object has.
fn object_of(custom: &Published<'_>, schema: &Value) -> Value {
    let mut published = schema.clone();
    if let Some(fields) = published.as_object_mut() {
        let properties = fields.entry("properties").or_insert_with(|| json!({}));
        if let Some(properties) = properties.as_object_mut() {
            properties.extend(type_fields());
            properties.insert(
                "metadata".to_owned(),
                described(
                    &json!({ "allOf": [reference(&meta("ObjectMeta"))] }),
                    "Standard object's metadata. More info: https://git.k8s.io/community/contributors/devel/\
                     sig-architecture/api-conventions.md#metadata",
                ),
            );
        }
        fields.insert("x-kubernetes-group-version-kind".to_owned(), kinds(custom, &custom.resource.kind));
    }
    published
}

fn list_of(custom: &Published<'_>, name: &str) -> Value {
    let resource = custom.resource;
    let mut properties = type_fields();
    properties.insert(
        "items".to_owned(),
        described(
            &json!({ "type": "array", "items": reference(name) }),
            &format!(
                "List of {}. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/\
                 api-conventions.md",
                resource.plural
            ),
        ),
    );
    properties.insert(
        "metadata".to_owned(),
        described(
            &json!({ "allOf": [reference(&meta("ListMeta"))] }),
            "Standard list metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/\
             api-conventions.md#types-kinds",
        ),
    );
    json!({
        "description": format!("{} is a list of {}", resource.list_kind, resource.kind),
        "type": "object", "required": ["items"], "properties": properties,
        "x-kubernetes-group-version-kind": kinds(custom, &resource.list_kind),
    })
}

fn type_fields() -> Map<String, Value> {
    let text = json!({ "type": "string" });
    let mut fields = Map::new();
    fields.insert(
        "apiVersion".to_owned(),
        described(
            &text,
            "APIVersion defines the versioned schema of this representation of an object. Servers should convert \
             recognized schemas to the latest internal value, and may reject unrecognized values. More info: \
             https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources",
        ),
    );
    fields.insert(
        "kind".to_owned(),
        described(
            &text,
            "Kind is a string value representing the REST resource this object represents. Servers may infer this from \
             the endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: \
             https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds",
        ),
    );
    fields
}

fn described(schema: &Value, description: &str) -> Value {
    let mut schema = schema.clone();
    schema["description"] = json!(description);
    schema
}

fn kinds(custom: &Published<'_>, kind: &str) -> Value {
    json!([{ "group": custom.resource.group, "kind": kind, "version": custom.resource.version }])
}
