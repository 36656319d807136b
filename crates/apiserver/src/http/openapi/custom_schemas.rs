//! Published schemas of custom kinds: the schemas of their definitions, plus the fields that every object has.
//!
//! Rules and texts follow `pkg/controller/openapi` in k8s.io/apiextensions-apiserver. OpenAPI v2 cannot express everything that a schema
//! may contain. A construct that it cannot express is removed together with its context; otherwise kubectl would refuse objects that the
//! server accepts.

use serde_json::{Map, Value, json};

use super::{Published, meta, reference};

/// Returns the published schema of the objects.
pub(super) fn object(custom: &Published<'_>, schema: &Value, version: OpenApiVersion) -> Value {
    let mut published = schema.clone();
    if version == OpenApiVersion::V2 {
        if preserves_unknown(schema) {
            // The schema has no properties, because kubectl would refuse all other fields.
            published = json!({ "type": "object" });
        } else {
            restrict(&mut published);
        }
    } else {
        each_schema(&mut published, &unfold);
    }
    let is_open = version == OpenApiVersion::V2 && preserves_unknown(schema);
    if let Some(fields) = published.as_object_mut() {
        if !is_open {
            let properties = fields.entry("properties").or_insert_with(|| json!({}));
            if let Some(properties) = properties.as_object_mut() {
                properties.extend(type_fields());
                properties.insert("metadata".to_owned(), object_metadata());
            }
        }
        fields.insert("x-kubernetes-group-version-kind".to_owned(), kinds(custom, &custom.resource.kind));
        fields.extend(selectable(custom));
    }
    let embed = |schema: &mut Map<String, Value>| {
        if version == OpenApiVersion::V3
            || schema.get("x-kubernetes-preserve-unknown-fields") != Some(&json!(true))
        {
            embed(schema);
        }
    };
    each_schema(&mut published, &embed);
    published
}

/// OpenAPI version for which a schema is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OpenApiVersion {
    V3,
    V2,
}

/// Returns the schema of lists; `name` is the name of the objects' schema.
pub(super) fn list(custom: &Published<'_>, name: &str) -> Value {
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
    let mut list = json!({
        "description": format!("{} is a list of {}", resource.list_kind, resource.kind),
        "type": "object", "required": ["items"], "properties": properties,
        "x-kubernetes-group-version-kind": kinds(custom, &resource.list_kind),
    });
    if let Some(fields) = list.as_object_mut() {
        fields.extend(selectable(custom));
    }
    list
}

/// Returns the `x-kubernetes-selectable-fields` extension, if the definition declares selectable fields.
fn selectable(custom: &Published<'_>) -> Option<(String, Value)> {
    let fields = &custom.resource.selectable;
    let path = |label: &str| json!({ "fieldPath": label });
    let fields: Vec<Value> = fields.iter().map(|field| path(&field.label)).collect();
    (!fields.is_empty()).then(|| ("x-kubernetes-selectable-fields".to_owned(), Value::Array(fields)))
}

/// Calls `change` for a schema and for each subschema that describes a value of its own, parents first. Subschemas of `allOf`, `anyOf`,
/// `oneOf` and `not` describe the same value as the schema around them and are skipped.
fn each_schema(schema: &mut Value, change: &impl Fn(&mut Map<String, Value>)) {
    let Some(fields) = schema.as_object_mut() else {
        return;
    };
    change(fields);
    for key in ["items", "additionalProperties"] {
        if let Some(below) = fields.get_mut(key) {
            each_schema(below, change);
        }
    }
    if let Some(properties) = fields.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().for_each(|property| each_schema(property, change));
    }
}

/// Adds `anyOf` integer and string to an int-or-string that lacks it.
fn unfold(schema: &mut Map<String, Value>) {
    let types = json!([{ "type": "integer" }, { "type": "string" }]);
    let first = schema.get("allOf").and_then(|all| all.get(0)).and_then(|first| first.get("anyOf"));
    let is_unfolded = schema.get("anyOf") == Some(&types) || first == Some(&types);
    if schema.get("x-kubernetes-int-or-string") != Some(&json!(true)) || is_unfolded {
        return;
    }
    // An `anyOf` of the definition is kept; `allOf` requires both.
    if schema.contains_key("anyOf") {
        let all = schema.entry("allOf").or_insert_with(|| json!([]));
        if let Some(all) = all.as_array_mut() {
            all.insert(0, json!({ "anyOf": types }));
        }
    } else {
        schema.insert("anyOf".to_owned(), types);
    }
}

/// Adds the fields that every object has to an embedded object.
fn embed(schema: &mut Map<String, Value>) {
    if schema.get("x-kubernetes-embedded-resource") != Some(&json!(true)) {
        return;
    }
    let text = json!({ "type": "string" });
    let version = "apiVersion defines the versioned schema of this representation of an object. More info: \
                   https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
    let kind = "kind is a string value representing the type of this object. In CamelCase. More info: \
                https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    if let Some(properties) = properties.as_object_mut() {
        properties.insert("apiVersion".to_owned(), described(&text, version));
        properties.insert("kind".to_owned(), described(&text, kind));
        properties.insert("metadata".to_owned(), object_metadata());
    }
    let required = schema.entry("required").or_insert_with(|| json!([]));
    if let Some(required) = required.as_array_mut() {
        for name in ["kind", "apiVersion"] {
            if !required.contains(&json!(name)) {
                required.push(json!(name));
            }
        }
    }
}

/// Removes the constructs that v2 cannot express, and those that kubectl would then misread.
fn restrict(schema: &mut Value) {
    each_schema(schema, &|schema| {
        for junction in ["allOf", "anyOf", "oneOf", "not"] {
            schema.remove(junction);
        }
        let is_nullable = is_nullable(schema);
        // Version 2 has no `nullable`. A schema without a type also allows null.
        schema.remove("nullable");
        let is_open = schema.get("x-kubernetes-preserve-unknown-fields") == Some(&json!(true));
        if is_nullable || is_open {
            schema.remove("items");
            schema.remove("properties");
        }
        let is_list_of_anything =
            !schema.contains_key("items") && schema.get("type") == Some(&json!("array"));
        let is_object_of_anything = is_open && schema.get("type") == Some(&json!("object"));
        if is_nullable || is_list_of_anything || is_object_of_anything {
            schema.remove("type");
        }
        require_no_nulls(schema);
    });
}

/// Drops nullable properties from `required`, because kubectl counts a null as absent.
fn require_no_nulls(schema: &mut Map<String, Value>) {
    let values_may_be_null =
        schema.get("additionalProperties").and_then(Value::as_object).is_some_and(is_nullable);
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let nullable: Vec<Value> = properties
        .filter(|(_, property)| property.as_object().is_some_and(is_nullable))
        .map(|(name, _)| json!(name))
        .collect();
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| !values_may_be_null && !nullable.contains(name));
        if required.is_empty() {
            schema.remove("required");
        }
    }
}

fn is_nullable(schema: &Map<String, Value>) -> bool {
    schema.get("nullable") == Some(&json!(true))
}

fn preserves_unknown(schema: &Value) -> bool {
    schema["x-kubernetes-preserve-unknown-fields"] == true
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

fn object_metadata() -> Value {
    described(
        &json!({ "allOf": [reference(&meta("ObjectMeta"))] }),
        "Standard object's metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/\
         api-conventions.md#metadata",
    )
}

fn described(schema: &Value, description: &str) -> Value {
    let mut schema = schema.clone();
    schema["description"] = json!(description);
    schema
}

fn kinds(custom: &Published<'_>, kind: &str) -> Value {
    json!([{ "group": custom.resource.group, "kind": kind, "version": custom.resource.version }])
}
