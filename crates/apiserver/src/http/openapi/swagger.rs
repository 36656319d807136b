//! OpenAPI v2 (`/openapi/v2`): one document for all groups, converted from the documents of version 3.
//!
//! kubectl before 1.28 uses it to validate objects, and every kubectl to compute three-way patches of custom objects. The
//! differences between the versions follow kube-openapi: bodies and types are in other places, parameters that many operations
//! share are named definitions, and builtin schemas have no defaults.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE as BASE64;
use serde_json::{Map, Value, json};

use super::custom_schemas::OpenApiVersion;
use super::{Published, meta, schemas};
use crate::kind::resource::Resource;

/// Media types in the order in which operations list them.
const MEDIA_TYPES: [&str; 9] = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];

/// Builder of the document.
#[derive(Debug, Default)]
pub(crate) struct Swagger {
    paths: Map<String, Value>,
    definitions: Map<String, Value>,
    parameters: Map<String, Value>,
    /// Names of builtin schemas that are still to be added.
    wanted: BTreeSet<String>,
    /// For each schema of [`schemas::KINDS_WITH_GROUPS`], one resource of each group version that refers to it.
    users: BTreeMap<String, Vec<Resource>>,
}

impl Swagger {
    /// Adds the contents of the version 3 document at `path`.
    pub(crate) fn add(&mut self, published: &[Published<'_>], path: &str) {
        let described = super::described_at(published, path);
        let mut wanted = Vec::new();
        for (path, item) in super::paths_at(published, &described, path).into_iter().flatten() {
            schemas::collect(&item, &mut wanted);
            let item = self.path_item(&item);
            self.paths.insert(path, item);
        }
        for (name, schema) in schemas::of_custom(&described, OpenApiVersion::V2) {
            schemas::collect(&schema, &mut wanted);
            self.definitions.insert(name, in_v2(&schema, Defaults::Kept));
        }
        for name in schemas::KINDS_WITH_GROUPS.map(meta).into_iter().filter(|name| wanted.contains(name)) {
            let first = described.first().map(|described| described.resource.clone());
            self.users.entry(name).or_default().extend(first);
        }
        self.wanted.extend(wanted);
    }

    /// Completes the document.
    pub(crate) fn finish(mut self) -> Value {
        let mut builtin = Map::new();
        schemas::add_builtin(self.wanted.into_iter().collect(), &mut builtin);
        for (name, users) in self.users {
            let schema = builtin.get_mut(&name);
            schema
                .into_iter()
                .for_each(|schema| users.iter().for_each(|user| schemas::of_this_group_too(schema, user)));
        }
        for (name, schema) in builtin {
            self.definitions.insert(name, in_v2(&schema, Defaults::Dropped));
        }
        let mut document = json!({
            "swagger": "2.0",
            "info": { "title": "Kubernetes", "version": "v1.36.3" },
            "security": [{ "BearerToken": [] }],
            "securityDefinitions": { "BearerToken": {
                "description": "Bearer Token authentication", "in": "header", "name": "authorization",
                "type": "apiKey",
            } },
        });
        // Assigned separately, because `json!` would copy the values.
        document["paths"] = Value::Object(self.paths);
        document["definitions"] = Value::Object(self.definitions);
        document["parameters"] = Value::Object(self.parameters);
        document
    }

    fn path_item(&mut self, item: &Value) -> Value {
        let mut converted = Map::new();
        for (key, value) in item.as_object().into_iter().flatten() {
            let value = if key == "parameters" {
                let parameters = value.as_array().into_iter().flatten();
                parameters.map(|parameter| self.shared(simple_parameter(parameter))).collect()
            } else {
                self.operation(value)
            };
            converted.insert(key.clone(), value);
        }
        Value::Object(converted)
    }

    fn operation(&mut self, operation: &Value) -> Value {
        let answers = operation["responses"].as_object();
        let produces = answers.and_then(|answers| answers.values().find_map(|answer| answer.get("content")));
        let produces = produces.map(media_types).unwrap_or_default();
        let body = operation.get("requestBody");
        let consumes = match body.and_then(|body| body.get("content")) {
            Some(content) => media_types(content),
            // Operations on resources list body types although they have no body; other operations repeat `produces`.
            None if operation.get("x-kubernetes-action").is_none() => produces.clone(),
            None if operation["x-kubernetes-action"] == "connect" => produces.clone(),
            None if produces.contains(&"application/vnd.kubernetes.protobuf".to_owned()) => {
                vec!["*/*".to_owned()]
            }
            None => vec!["application/json".to_owned(), "application/yaml".to_owned()],
        };
        let mut converted = json!({
            "consumes": consumes, "produces": produces, "schemes": ["https"], "responses": {},
        });
        let mut parameters: Vec<Value> = body.map(body_parameter).into_iter().collect();
        let others = operation["parameters"].as_array().into_iter().flatten();
        parameters.extend(others.map(simple_parameter));
        let parameters: Vec<Value> = parameters.into_iter().map(|parameter| self.shared(parameter)).collect();
        if !parameters.is_empty() {
            converted["parameters"] = Value::Array(parameters);
        }
        for (code, answer) in answers.into_iter().flatten() {
            converted["responses"][code] = response(answer);
        }
        for (key, value) in operation.as_object().into_iter().flatten() {
            if !matches!(key.as_str(), "parameters" | "requestBody" | "responses") {
                converted[key] = value.clone();
            }
        }
        converted
    }

    /// Stores a parameter among the shared ones and returns a reference to it. Parameters of a single kind, and those that older versions
    /// of kubectl look up by name, are returned unchanged.
    fn shared(&mut self, parameter: Value) -> Value {
        let name = parameter["name"].as_str().unwrap_or_default();
        let is_body_of_a_kind = parameter["in"] == "body"
            && !parameter["schema"]["$ref"]
                .as_str()
                .is_some_and(|name| name.starts_with("#/definitions/io.k8s.apimachinery"));
        if matches!(name, "name" | "fieldValidation" | "dryRun") || is_body_of_a_kind {
            return parameter;
        }
        let name = format!("{name}-{}", short_hash(&parameter.to_string()));
        let reference = json!({ "$ref": format!("#/parameters/{name}") });
        self.parameters.entry(name).or_insert(parameter);
        reference
    }
}

/// Returns an eight-character hash: six bytes of FNV-1 in base64.
fn short_hash(text: &str) -> String {
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| hash.wrapping_mul(0x0100_0000_01b3) ^ u64::from(byte));
    BASE64.encode(&hash.to_be_bytes()[..6])
}

fn media_types(content: &Value) -> Vec<String> {
    let mut types: Vec<String> =
        content.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
    types.sort_by_key(|name| MEDIA_TYPES.iter().position(|known| known == name));
    types
}

fn body_parameter(body: &Value) -> Value {
    let schema = any_schema(body).map(|schema| in_v2(schema, Defaults::Dropped)).unwrap_or_default();
    let mut parameter = json!({ "in": "body", "name": "body", "schema": schema });
    if body["required"] == true {
        parameter["required"] = json!(true);
    }
    parameter
}

/// Moves the schema of a version 3 parameter into the parameter itself, as version 2 has it.
fn simple_parameter(parameter: &Value) -> Value {
    let mut converted = parameter.clone();
    if let Some(fields) = converted.as_object_mut()
        && let Some(Value::Object(schema)) = fields.remove("schema")
    {
        fields.extend(schema);
    }
    converted
}

fn response(answer: &Value) -> Value {
    let mut converted = json!({ "description": answer["description"] });
    if let Some(schema) = any_schema(answer) {
        converted["schema"] = in_v2(schema, Defaults::Dropped);
    }
    converted
}

/// Returns the schema of a content, which is equal for all media types.
fn any_schema(content: &Value) -> Option<&Value> {
    content["content"].as_object()?.values().next()?.get("schema")
}

/// Treatment of `default`: builtin schemas lose it, because old kubectl versions do not know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Defaults {
    Kept,
    Dropped,
}

/// Converts a schema to version 2.
fn in_v2(schema: &Value, defaults: Defaults) -> Value {
    let Some(fields) = schema.as_object() else {
        return schema.clone();
    };
    let mut converted = Map::new();
    for (key, value) in fields {
        let value = match key.as_str() {
            "$ref" => reference(value),
            // In version 3, `allOf` is the only way to add fields such as a description to a reference.
            "allOf" => {
                let referred = value.as_array().into_iter().flatten().find_map(|part| part.get("$ref"));
                if let Some(referred) = referred {
                    converted.insert("$ref".to_owned(), reference(referred));
                }
                continue;
            }
            // A value of one of several types is published as a string.
            "oneOf" => {
                converted.insert("type".to_owned(), json!("string"));
                continue;
            }
            "default" if defaults == Defaults::Dropped => continue,
            "properties" => {
                let properties = value.as_object().into_iter().flatten();
                properties.map(|(name, property)| (name.clone(), in_v2(property, defaults))).collect()
            }
            "items" | "additionalProperties" => in_v2(value, defaults),
            _ => value.clone(),
        };
        converted.insert(key.clone(), value);
    }
    Value::Object(converted)
}

fn reference(referred: &Value) -> Value {
    json!(referred.as_str().unwrap_or_default().replace("#/components/schemas/", "#/definitions/"))
}
