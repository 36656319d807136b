//! Parser from OpenAPI JSON to nodes.
//!
//! Malformed parts count as absent: builtin definitions are the program's own data, and custom schemas have been validated
//! ([`super::structural`]).

use std::cell::RefCell;
use std::sync::Arc;

use serde_json::Value;

use super::node::{Child, Definitions, JsonType, ListType, PatchStrategy, SchemaNode, ValueKind};
use super::object_meta;
use super::pattern::{Pattern, Patterns};
use super::validate::ValueRules;

/// Parses a named builtin schema.
pub(super) fn definition(name: &str, definitions: &Definitions) -> SchemaNode {
    let parser = SchemaParser { definitions: Some(definitions), patterns: RefCell::default() };
    match name.rsplit('.').next() {
        // These types declare `type: object` or no type, but hold arbitrary JSON.
        Some("RawExtension" | "FieldsV1" | "JSON" | "JSONSchemaPropsOrStringArray") => {
            SchemaNode { kind: ValueKind::Opaque, preserve_unknown: true, ..SchemaNode::default() }
        }
        // The value is a schema, or something other than an object.
        Some(kind @ ("JSONSchemaPropsOrBool" | "JSONSchemaPropsOrArray")) => {
            let schema = name.split("Or").next().unwrap_or_default();
            let node = definitions.source(schema).map(|schema| parser.node(&schema)).unwrap_or_default();
            let element = definitions.index(schema).filter(|_| kind == "JSONSchemaPropsOrArray");
            SchemaNode { kind: ValueKind::Opaque, items: element.map(Child::definition), ..node }
        }
        _ => definitions.source(name).map(|source| parser.node(&source)).unwrap_or_default(),
    }
}

/// Parses the root of a custom kind's schema, and adds the fields that every object has.
pub(super) fn custom_root(source: &Value) -> SchemaNode {
    let mut node = SchemaParser::new().node(source);
    object_meta::declare(&mut node);
    node
}

/// Parses a self-contained schema.
pub(super) fn standalone(source: &Value) -> SchemaNode {
    SchemaParser::new().node(source)
}

/// Parses one schema with all its subschemas. Their patterns share the bounds.
pub(super) struct SchemaParser<'a> {
    definitions: Option<&'a Definitions>,
    patterns: RefCell<Patterns>,
}

impl SchemaParser<'_> {
    /// Creates a parser of schemas without references to definitions.
    pub(super) fn new() -> Self {
        Self { definitions: None, patterns: RefCell::default() }
    }

    /// Returns the pattern with this source; `None` if it exceeds the bounds.
    ///
    /// # Errors
    /// The message for an invalid pattern.
    pub(super) fn pattern(&self, source: &str) -> Result<Option<Arc<Pattern>>, String> {
        self.patterns.borrow_mut().get(source)
    }

    /// Returns a pattern that exceeds the bounds, if there is one.
    pub(super) fn unchecked_pattern(&self) -> Option<String> {
        self.patterns.borrow().unchecked().map(str::to_owned)
    }

    pub(super) fn child(&self, source: &Value) -> Child {
        let reference = source["$ref"].as_str().or_else(|| match source["allOf"].as_array() {
            Some(all) if all.len() == 1 => all[0]["$ref"].as_str(),
            _ => None,
        });
        let target =
            reference.and_then(|path| path.rsplit('/').next()).and_then(|name| self.definitions?.index(name));
        match target {
            None => Child::inline(Arc::new(self.node(source))),
            Some(index) => {
                let mut child = Child::definition(index);
                child.default = source.get("default").cloned();
                child.atomic_map = source["x-kubernetes-map-type"].as_str().map(|t| t == "atomic");
                child.patch = patch(source);
                child
            }
        }
    }

    pub(super) fn node(&self, source: &Value) -> SchemaNode {
        let flag = |name: &str| source[name].as_bool().unwrap_or(false);
        let mut node = SchemaNode {
            kind: kind(source),
            format: source["format"].as_str().map(str::to_owned),
            nullable: flag("nullable"),
            preserve_unknown: flag("x-kubernetes-preserve-unknown-fields"),
            embedded_resource: flag("x-kubernetes-embedded-resource"),
            items: source.get("items").filter(|items| items.is_object()).map(|items| self.child(items)),
            default: source.get("default").cloned(),
            required: strings(&source["required"]),
            list_type: list_type(source),
            atomic_map: source["x-kubernetes-map-type"] == "atomic",
            patch: patch(source),
            rules: ValueRules::parse(source, self),
            ..SchemaNode::default()
        };
        if let Some(properties) = source["properties"].as_object() {
            for (name, property) in properties {
                node.properties.insert(name, self.child(property));
            }
        }
        match source.get("additionalProperties") {
            Some(schema @ Value::Object(_)) => node.additional = Some(self.child(schema)),
            Some(Value::Bool(true)) => node.additional_any = true,
            _ => {}
        }
        if node.embedded_resource {
            object_meta::declare(&mut node);
        }
        node
    }
}

fn kind(source: &Value) -> ValueKind {
    let declared = match &source["type"] {
        Value::String(name) => JsonType::parse(name),
        // Some published schemas have a list such as `["string", "null"]`.
        Value::Array(names) => names.iter().filter_map(Value::as_str).find_map(JsonType::parse),
        _ => None,
    };
    let mixed = source["x-kubernetes-int-or-string"] == true
        || source["format"] == "int-or-string"
        || declared.is_none() && source["oneOf"].as_array().is_some_and(|types| is_scalar_choice(types));
    match declared {
        _ if mixed => ValueKind::IntOrString,
        Some(declared) => ValueKind::Of(declared),
        // The data omits types that follow from other keywords.
        None if source.get("properties").is_some() => ValueKind::Of(JsonType::Object),
        None => ValueKind::Any,
    }
}

/// Whether this is `oneOf: [{type: string}, {type: number}]`, by which builtin schemas describe a quantity.
fn is_scalar_choice(types: &[Value]) -> bool {
    types.len() == 2
        && types.iter().any(|choice| choice["type"] == "string")
        && types.iter().all(|choice| matches!(choice["type"].as_str(), Some("string" | "integer" | "number")))
        && types.iter().all(|choice| choice.as_object().is_some_and(|choice| choice.len() == 1))
}

fn list_type(source: &Value) -> ListType {
    match source["x-kubernetes-list-type"].as_str() {
        Some("set") => ListType::Set,
        Some("map") => ListType::Map(strings(&source["x-kubernetes-list-map-keys"])),
        _ => ListType::Atomic,
    }
}

fn patch(source: &Value) -> PatchStrategy {
    let mut patch = PatchStrategy {
        merge_key: source["x-kubernetes-patch-merge-key"].as_str().map(str::to_owned),
        ..PatchStrategy::default()
    };
    for strategy in source["x-kubernetes-patch-strategy"].as_str().unwrap_or_default().split(',') {
        match strategy {
            "merge" => patch.merge = true,
            "retainKeys" => patch.retain_keys = true,
            "replace" => patch.replace = true,
            _ => {}
        }
    }
    patch
}

fn strings(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}
