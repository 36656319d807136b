//! Validation of custom schemas: they must be structural, without unsupported parts of JSON Schema, and with defaults
//! that fit.
//!
//! Errors have field paths below the caller's path, and the messages of `apiextensions-apiserver`. CEL rules are not
//! compiled.

use serde_json::{Map, Value};

use super::node::{Child, Definitions, Type};
use super::parse::Parser;
use super::{Cursor, prune, validate};
use crate::path::Path;
use crate::status::FieldError;
use std::sync::Arc;

/// Returns the errors of `schema`, which is at `path`.
pub(super) fn check(schema: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !schema.is_object() {
        errors.push(FieldError::required(path, "schemas are required"));
        return errors;
    }
    let parser = Parser::new();
    let mut checker = Checker { prefix: path, errors: &mut errors, parser: &parser };
    checker.unsupported(schema, &Path::root());
    checker.structural(schema, Level::Root, &Path::root());
    // Parsed once, not at each default.
    let definitions = Definitions::none();
    let root = Child::inline(Arc::new(parser.node(schema)));
    let cursor = Cursor { definitions: &definitions, child: &root, node: definitions.resolve(&root) };
    checker.defaults(schema, cursor, &Path::root());
    errors
}

/// Returns a pattern in `schema` that is too large to be checked, if there is one.
pub(super) fn unchecked_pattern(schema: &Value) -> Option<String> {
    fn read(schema: &Value, parser: &Parser<'_>) {
        if let Some(pattern) = schema["pattern"].as_str() {
            // Invalid patterns were refused before.
            let _ = parser.pattern(pattern);
        }
        for_each_child(schema, &Path::root(), &mut |child, _| read(child, parser));
    }
    let parser = Parser::new();
    read(schema, &parser);
    parser.unchecked_pattern()
}

/// Position of a schema in the tree.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Field,
    Item,
}

struct Checker<'a> {
    prefix: &'a str,
    errors: &'a mut Vec<FieldError>,
    parser: &'a Parser<'a>,
}

impl Checker<'_> {
    fn place(&self, path: &Path<'_>) -> String {
        match path.to_string() {
            path if path.is_empty() => self.prefix.to_owned(),
            path => format!("{}.{path}", self.prefix),
        }
    }

    fn forbidden(&mut self, path: &Path<'_>, why: &str) {
        let place = self.place(path);
        self.errors.push(FieldError::forbidden(place, why));
    }

    fn invalid(&mut self, path: &Path<'_>, value: &Value, why: &str) {
        let place = self.place(path);
        self.errors.push(FieldError::invalid(place, &value.to_string(), why));
    }

    fn required(&mut self, path: &Path<'_>, why: &str) {
        let place = self.place(path);
        self.errors.push(FieldError::required(place, why));
    }

    /// Checks for keywords that custom schemas may not use anywhere.
    fn unsupported(&mut self, schema: &Value, path: &Path<'_>) {
        if schema["uniqueItems"] == true {
            let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            self.forbidden(&path.field("uniqueItems"), why);
        }
        for keyword in ["$ref", "additionalItems", "definitions", "dependencies", "id", "patternProperties"] {
            let used = match schema.get(keyword) {
                None | Some(Value::Null) => false,
                Some(Value::String(text)) => !text.is_empty(),
                Some(Value::Object(entries)) => !entries.is_empty(),
                Some(_) => true,
            };
            if used {
                self.forbidden(&path.field(keyword), &format!("{keyword} is not supported"));
            }
        }
        if schema["$schema"].as_str().is_some_and(|text| !text.is_empty()) {
            let error = FieldError::invalid(self.prefix, "\"\"", "OpenAPIV3Schema 'schema' is not supported");
            self.errors.push(error);
        }
        if let Some(pattern) = schema["pattern"].as_str()
            && let Err(error) = self.parser.pattern(pattern)
        {
            let why = format!("must be a valid regular expression, but isn't: {error}");
            self.invalid(&path.field("pattern"), &schema["pattern"], &why);
        }
        self.check_type_name(schema, path);
        self.check_list_type(schema, path);
        for_each_child(schema, path, &mut |child, path| self.unsupported(child, path));
    }

    fn check_type_name(&mut self, schema: &Value, path: &Path<'_>) {
        if let Some(name) = schema["type"].as_str().filter(|name| !name.is_empty())
            && Type::parse(name).is_none()
        {
            let names = r#""array", "boolean", "integer", "number", "object", "string""#;
            let place = self.place(&path.field("type"));
            self.errors.push(FieldError {
                reason: "FieldValueNotSupported",
                field: place,
                message: format!("Unsupported value: {}: supported values: {names}", schema["type"]),
            });
        }
    }

    fn check_list_type(&mut self, schema: &Value, path: &Path<'_>) {
        let keys = schema["x-kubernetes-list-map-keys"].as_array();
        let list_type = schema["x-kubernetes-list-type"].as_str();
        let type_path = path.field("x-kubernetes-list-type");
        let keys_path = path.field("x-kubernetes-list-map-keys");
        match list_type {
            Some("map") => {
                let Some(keys) = keys.filter(|keys| !keys.is_empty()) else {
                    self.required(&keys_path, "must not be empty if x-kubernetes-list-type is map");
                    return;
                };
                for (index, key) in keys.iter().enumerate() {
                    let property = key.as_str().and_then(|key| schema["items"]["properties"].get(key));
                    if property.is_none() {
                        let why = "entries must all be names of item properties";
                        self.invalid(&keys_path.index(index), key, why);
                    }
                }
            }
            Some("atomic" | "set") | None => {
                if keys.is_some_and(|keys| !keys.is_empty()) {
                    self.forbidden(&keys_path, "must not be specified if x-kubernetes-list-type is not map");
                }
            }
            Some(_) => {
                let place = self.place(&type_path);
                self.errors.push(FieldError {
                    reason: "FieldValueNotSupported",
                    field: place,
                    message: format!(
                        r#"Unsupported value: {}: supported values: "atomic", "map", "set""#,
                        schema["x-kubernetes-list-type"]
                    ),
                });
            }
        }
        if list_type.is_some() && schema["type"] != "array" {
            let found = schema["type"].as_str().unwrap_or_default().to_owned();
            let why = "must be array if x-kubernetes-list-type is specified";
            self.invalid(&path.field("type"), &Value::String(found), why);
        }
    }

    /// Checks that each value has a type that pruning and defaulting can follow.
    fn structural(&mut self, schema: &Value, level: Level, path: &Path<'_>) {
        let flag = |name: &str| schema[name] == true;
        let kind = schema["type"].as_str().unwrap_or_default();
        let type_path = path.field("type");
        if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
            self.structural(items, Level::Item, &path.field("items"));
        }
        if let Some(additional) = schema.get("additionalProperties") {
            let place = path.field("additionalProperties");
            if level == Level::Root {
                self.forbidden(&place, "must not be used at the root");
            }
            if additional.is_object() {
                self.structural(additional, Level::Field, &place);
            }
            if schema["properties"].as_object().is_some_and(|properties| !properties.is_empty()) {
                self.forbidden(&place, "additionalProperties and properties are mutual exclusive");
            }
        }
        let properties_path = path.field("properties");
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            self.structural(property, Level::Field, &properties_path.key(name));
        }
        if level == Level::Root && flag("nullable") {
            self.forbidden(&path.field("nullable"), "nullable cannot be true at the root");
        }
        let embedded = flag("x-kubernetes-embedded-resource");
        let preserves = flag("x-kubernetes-preserve-unknown-fields");
        if embedded && kind != "object" {
            let why = "must be object if x-kubernetes-embedded-resource is true";
            if kind.is_empty() {
                self.required(&type_path, why);
            } else {
                self.invalid(&type_path, &schema["type"], why);
            }
        } else if kind.is_empty() && !flag("x-kubernetes-int-or-string") && !preserves {
            let place = match level {
                Level::Root => "at the root",
                Level::Item => "for specified array items",
                Level::Field => "for specified object fields",
            };
            self.required(&type_path, &format!("must not be empty {place}"));
        }
        if embedded && schema.get("additionalProperties").is_some() {
            let why = "must not be used if x-kubernetes-embedded-resource is set";
            self.forbidden(&path.field("additionalProperties"), why);
        }
        if level == Level::Root && !kind.is_empty() && kind != "object" {
            self.invalid(&type_path, &schema["type"], "must be object at the root");
        }
        let has_properties =
            schema["properties"].as_object().is_some_and(|properties| !properties.is_empty());
        if embedded && !preserves && !has_properties {
            let why = "must not be empty if x-kubernetes-embedded-resource is true without \
                       x-kubernetes-preserve-unknown-fields";
            self.required(&properties_path, why);
        }
        if kind == "array" && !schema["items"].is_object() {
            self.required(&path.field("items"), "must be specified");
        }
        if level == Level::Root || embedded {
            self.object_fields(&schema["properties"], level, &properties_path);
        }
    }

    /// Checks `apiVersion`, `kind` and `metadata`, which are implied and which a schema may hardly restrict.
    fn object_fields(&mut self, properties: &Value, level: Level, path: &Path<'_>) {
        for name in ["apiVersion", "kind"] {
            if let Some(property) = properties.get(name)
                && property["type"] != "string"
            {
                let found = property["type"].as_str().unwrap_or_default().to_owned();
                self.invalid(&path.key(name).field("type"), &Value::String(found), "must be string");
            }
        }
        let Some(metadata) = properties.get("metadata") else {
            return;
        };
        let path = path.key("metadata");
        if metadata["type"] != "object" {
            let found = metadata["type"].as_str().unwrap_or_default().to_owned();
            self.invalid(&path.field("type"), &Value::String(found), "must be object");
        } else if level == Level::Root && !only_restricts_names(metadata) {
            let why = "must not specify anything other than name and generateName, but metadata is implicitly specified";
            self.forbidden(&path, why);
        } else if level == Level::Root {
            let properties_path = path.field("properties");
            for (name, property) in metadata["properties"].as_object().into_iter().flatten() {
                if property.get("default").is_some() {
                    let why = "must not be set in top-level metadata";
                    self.forbidden(&properties_path.key(name).field("default"), why);
                }
            }
        }
    }

    /// Checks that each default is valid for its schema and has no fields that pruning would remove. `cursor` is the parsed
    /// `schema`.
    fn defaults(&mut self, schema: &Value, cursor: Cursor<'_>, path: &Path<'_>) {
        if let Some(default) = schema.get("default") {
            let place = path.field("default");
            let mut pruned = default.clone();
            prune::prune(cursor, &mut pruned);
            if pruned == *default {
                for mut error in validate::validate(cursor, default, None) {
                    error.field = match (error.field.as_str(), self.place(&place)) {
                        ("<nil>", _) => "<nil>".to_owned(),
                        ("", place) => place,
                        (inner, place) => format!("{place}.{inner}"),
                    };
                    self.errors.push(error);
                }
            } else {
                self.invalid(&place, default, "must not have unknown fields");
            }
        }
        for (keyword, below) in [("items", cursor.items()), ("additionalProperties", cursor.additional())] {
            if let Some(child) = schema.get(keyword).filter(|child| child.is_object())
                && let Some(below) = below
            {
                self.defaults(child, below, &path.field(keyword));
            }
        }
        let properties = path.field("properties");
        for (name, child) in schema["properties"].as_object().into_iter().flatten() {
            if let Some(below) = cursor.own_property(name) {
                self.defaults(child, below, &properties.key(name));
            }
        }
    }
}

fn only_restricts_names(metadata: &Value) -> bool {
    let structural = ["type", "properties"];
    let validations =
        ["description", "title", "required", "maxProperties", "minProperties", "x-kubernetes-validations"];
    let own = metadata.as_object().is_some_and(|fields| {
        fields.keys().all(|key| structural.contains(&&**key) || validations.contains(&&**key))
    });
    let empty = Map::new();
    let properties = metadata["properties"].as_object().unwrap_or(&empty);
    own && properties.keys().all(|name| matches!(name.as_str(), "name" | "generateName"))
}

/// Calls `f` for the schemas that describe parts of the value.
fn for_each_structural_child(schema: &Value, path: &Path<'_>, f: &mut dyn FnMut(&Value, &Path<'_>)) {
    for keyword in ["items", "additionalProperties"] {
        if let Some(child) = schema.get(keyword).filter(|child| child.is_object()) {
            f(child, &path.field(keyword));
        }
    }
    let properties = path.field("properties");
    for (name, child) in schema["properties"].as_object().into_iter().flatten() {
        f(child, &properties.key(name));
    }
}

/// Calls `f` for all schemas inside `schema`.
fn for_each_child(schema: &Value, path: &Path<'_>, f: &mut dyn FnMut(&Value, &Path<'_>)) {
    for_each_structural_child(schema, path, f);
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let path = path.field(keyword);
        for (index, child) in schema[keyword].as_array().into_iter().flatten().enumerate() {
            f(child, &path.index(index));
        }
    }
    if let Some(not) = schema.get("not").filter(|not| not.is_object()) {
        f(not, &path.field("not"));
    }
}
