//! Keywords and combinations of keywords that custom schemas may not use (`ValidateCustomResourceDefinitionOpenAPISchema` of
//! `k8s.io/apiextensions-apiserver`).

use std::cell::LazyCell;
use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::StructuralChecker;
use super::source::{
    Additional, Items, additional, entries, flag, given, has_entries, is_convertible, item, items, list,
    property, text,
};
use super::{go_notation, schema_path};
use crate::field_path::FieldPath;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
/// Values of `reason` in a CEL rule.
const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// Rules for a schema that follow from the schemas around it.
#[derive(Clone, Copy)]
pub(super) struct InheritedRules<'a> {
    is_root: bool,
    /// Whether the value is `apiVersion`, `kind` or `metadata` of an object, or a part of them.
    in_metadata: bool,
    /// Reason why defaults are forbidden.
    no_defaults: Option<NoDefaults<'a>>,
}

#[derive(Clone, Copy)]
enum NoDefaults<'a> {
    InTopLevel(&'a str),
    InMetadataMap,
}

impl InheritedRules<'_> {
    pub(super) fn root() -> Self {
        Self { is_root: true, in_metadata: false, no_defaults: None }
    }

    fn inside(self) -> Self {
        Self { is_root: false, ..self }
    }
}

/// Adds the errors of a schema and of all schemas inside.
pub(super) fn check(
    checker: &mut StructuralChecker<'_>,
    schema: &Value,
    place: InheritedRules<'_>,
    path: &FieldPath<'_>,
) {
    keywords(checker, schema, place, path);
    if flag(schema, "uniqueItems") {
        let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        checker.forbidden(&path.field("uniqueItems"), why);
    }
    let below = place.inside();
    let additional_path = path.field("additionalProperties");
    let additional = additional(schema);
    // Properties describe structs, which ignore unknown fields; additional properties describe maps.
    if has_entries(schema, "properties") && matches!(additional, Additional::Nothing | Additional::Schema(_))
    {
        checker.forbidden(&additional_path, "additionalProperties and properties are mutual exclusive");
    }
    if let Additional::Schema(child) = additional {
        // A default inside a map of metadata could not be pruned without the object that it belongs to.
        let no_defaults = if place.in_metadata { Some(NoDefaults::InMetadataMap) } else { place.no_defaults };
        check(checker, child, InheritedRules { no_defaults, ..below }, &additional_path);
    }
    let properties = path.field("properties");
    let is_object = place.is_root || flag(schema, "x-kubernetes-embedded-resource");
    for (name, child) in entries(schema, "properties") {
        let mut below = below;
        if is_object && matches!(name, "metadata" | "kind" | "apiVersion") {
            below.in_metadata = true;
            // An embedded object may have defaults for these fields. `defaults` checks that they result in valid metadata.
            if place.is_root {
                below.no_defaults = Some(NoDefaults::InTopLevel(name));
            }
        }
        check(checker, child, below, &properties.key(name));
    }
    if let Some(not) = given(schema, "not") {
        check(checker, not, below, &path.field("not"));
    }
    for name in ["allOf", "oneOf", "anyOf"] {
        let path = path.field(name);
        for (index, child) in list(schema, name).iter().enumerate() {
            check(checker, child, below, &path.index(index));
        }
    }
    // `definitions`, lists of `items` and `dependencies` are not supported, which `keywords` reports. The schemas inside are checked
    // nevertheless.
    let definitions = path.field("definitions");
    for (name, child) in entries(schema, "definitions") {
        check(checker, child, below, &definitions.key(name));
    }
    let items_path = path.field("items");
    match items(schema) {
        Items::Absent => {}
        Items::Schema(item) => check(checker, item, below, &items_path),
        Items::List(schemas) => {
            for (index, child) in schemas.iter().enumerate() {
                check(checker, child, below, &items_path.index(index));
            }
        }
    }
    let dependencies = path.field("dependencies");
    // A dependency that is a list of names has no schema to check.
    for (name, child) in entries(schema, "dependencies").filter(|(_, child)| child.is_object()) {
        check(checker, child, below, &dependencies.key(name));
    }
    if schema["x-kubernetes-preserve-unknown-fields"] == false {
        let path = path.field("x-kubernetes-preserve-unknown-fields");
        checker.invalid(&path, &json!(false), "must be true or undefined");
    }
    merging(checker, schema, path);
    rules(checker, schema, &path.field("x-kubernetes-validations"));
}

/// Checks the keywords of one schema.
fn keywords(
    checker: &mut StructuralChecker<'_>,
    schema: &Value,
    place: InheritedRules<'_>,
    path: &FieldPath<'_>,
) {
    let kind = text(schema, "type");
    if !kind.is_empty() && !TYPES.contains(&kind) {
        checker.not_supported(&path.field("type"), kind, &TYPES);
    }
    if given(schema, "default").is_some()
        && let Some(reason) = place.no_defaults
    {
        let reason = match reason {
            NoDefaults::InTopLevel(name) => format!("in top-level {name}"),
            NoDefaults::InMetadataMap => "inside additionalProperties applying to object metadata".to_owned(),
        };
        checker.forbidden(&path.field("default"), &format!("must not be set {reason}"));
    }
    for (name, used) in [
        ("id", !text(schema, "id").is_empty()),
        ("additionalItems", given(schema, "additionalItems").is_some()),
        ("patternProperties", has_entries(schema, "patternProperties")),
        ("definitions", has_entries(schema, "definitions")),
        ("dependencies", given(schema, "dependencies").is_some()),
        ("$ref", given(schema, "$ref").is_some()),
    ] {
        if used {
            checker.forbidden(&path.field(name), &format!("{name} is not supported"));
        }
    }
    if kind == "null" {
        let why = "type cannot be set to null, use nullable as an alternative";
        checker.forbidden(&path.field("type"), why);
    }
    if schema["items"].as_array().is_some_and(|schemas| !schemas.is_empty()) {
        checker.forbidden(&path.field("items"), "items must be a schema object and not an array");
    }
    if place.in_metadata && flag(schema, "x-kubernetes-embedded-resource") {
        let path = path.field("x-kubernetes-embedded-resource");
        checker.forbidden(&path, "must not be used inside of resource meta");
    }
}

/// Checks `x-kubernetes-map-type`, `x-kubernetes-list-type` and `x-kubernetes-list-map-keys`.
fn merging(checker: &mut StructuralChecker<'_>, schema: &Value, path: &FieldPath<'_>) {
    let kind = text(schema, "type");
    let type_path = path.field("type");
    if let Some(map_type) = schema["x-kubernetes-map-type"].as_str() {
        if kind != "object" {
            checker.must_be(&type_path, kind, "must be object if x-kubernetes-map-type is specified");
        }
        let supported = ["atomic", "granular"];
        if !supported.contains(&map_type) {
            checker.not_supported(&path.field("x-kubernetes-map-type"), map_type, &supported);
        }
    }
    let list_type_path = path.field("x-kubernetes-list-type");
    let list_type = schema["x-kubernetes-list-type"].as_str();
    let items_path = path.field("items");
    if let Some(list_type) = list_type {
        if kind != "array" {
            checker.must_be(&type_path, kind, "must be array if x-kubernetes-list-type is specified");
        } else if list_type == "set"
            && let Some(item) = item(schema)
        {
            atomic_element(checker, item, &items_path);
        }
        let supported = ["atomic", "set", "map"];
        if !supported.contains(&list_type) {
            checker.not_supported(&list_type_path, list_type, &supported);
        }
    }
    if !list(schema, "x-kubernetes-list-map-keys").is_empty() && list_type != Some("map") {
        let why = "must be map if x-kubernetes-list-map-keys is non-empty";
        match list_type {
            None => checker.required(&list_type_path, why),
            Some(list_type) => checker.invalid(&list_type_path, &json!(list_type), why),
        }
    }
    if list_type == Some("map") {
        keyed_list(checker, schema, path);
    }
    if let (Some(list_type @ ("set" | "map")), Some(item)) = (list_type, item(schema)) {
        if flag(item, "nullable") {
            let why = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
            checker.forbidden(&items_path.field("nullable"), &why);
        }
        if list_type == "map" {
            keys_have_values(checker, schema, item, &items_path.field("properties"));
        }
    }
}

/// Checks that each element of a set is one value: a scalar, or atomic.
fn atomic_element(checker: &mut StructuralChecker<'_>, item: &Value, path: &FieldPath<'_>) {
    let list_type = &item["x-kubernetes-list-type"];
    let name = match text(item, "type") {
        "array" if list_type.as_str().is_some_and(|found| found != "atomic") => "x-kubernetes-list-type",
        "object" if item["x-kubernetes-map-type"] != "atomic" => "x-kubernetes-map-type",
        _ => return,
    };
    // kube-apiserver shows the list type in both messages.
    checker.invalid(
        &path.field(name),
        list_type,
        "must be atomic as item of a list with x-kubernetes-list-type=set",
    );
}

fn keyed_list(checker: &mut StructuralChecker<'_>, schema: &Value, path: &FieldPath<'_>) {
    let keys = &schema["x-kubernetes-list-map-keys"];
    let keys_path = path.field("x-kubernetes-list-map-keys");
    if list(schema, "x-kubernetes-list-map-keys").is_empty() {
        checker.required(&keys_path, "must not be empty if x-kubernetes-list-type is map");
    }
    let items_path = path.field("items");
    let item = match items(schema) {
        Items::Absent => {
            checker.required(&items_path, "must have a schema if x-kubernetes-list-type is map");
            return;
        }
        Items::List(_) => {
            let why = "must only have a single schema if x-kubernetes-list-type is map";
            checker.invalid_shown(&items_path, &go_notation::show_items(schema), why);
            return;
        }
        Items::Schema(item) => item,
    };
    let kind = text(item, "type");
    if kind != "object" {
        let why = "must be object if parent array's x-kubernetes-list-type is map";
        checker.invalid(&items_path.field("type"), &json!(kind), why);
        return;
    }
    let properties = items_path.field("properties");
    let mut seen = BTreeSet::new();
    for name in list(schema, "x-kubernetes-list-map-keys").iter().filter_map(Value::as_str) {
        match property(item, name) {
            None => checker.invalid(&keys_path, keys, "entries must all be names of item properties"),
            Some(key) if matches!(text(key, "type"), "array" | "object") => {
                let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                // kube-apiserver shows the type of the element, not of the key.
                checker.invalid(&properties.key(name).field("type"), &json!(kind), why);
            }
            Some(_) => {}
        }
        if !seen.insert(name) {
            checker.invalid(&keys_path, keys, "must not contain duplicate entries");
        }
    }
}

/// Checks that the keys of a keyed list are always set.
fn keys_have_values(
    checker: &mut StructuralChecker<'_>,
    schema: &Value,
    item: &Value,
    properties: &FieldPath<'_>,
) {
    let required: BTreeSet<&str> = list(item, "required").iter().filter_map(Value::as_str).collect();
    for name in list(schema, "x-kubernetes-list-map-keys").iter().filter_map(Value::as_str) {
        let Some(key) = property(item, name) else {
            continue;
        };
        if !required.contains(name) && given(key, "default").is_none() {
            let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            checker.required(&properties.key(name).field("default"), why);
        }
        if flag(key, "nullable") {
            let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            checker.forbidden(&properties.key(name).field("nullable"), why);
        }
    }
}

/// Checks the fields of CEL rules. `cel` compiles the rules themselves.
fn rules(checker: &mut StructuralChecker<'_>, schema: &Value, path: &FieldPath<'_>) {
    // Only a rule with a `fieldPath` needs the answer, which takes a walk through the schema.
    let convertible = LazyCell::new(|| is_convertible(schema));
    let has_line_breaks = |text: &str| text.contains(['\n', '\r']);
    for (index, rule) in list(schema, "x-kubernetes-validations").iter().enumerate() {
        let path = path.index(index);
        let (expression, message) = (text(rule, "rule").trim(), text(rule, "message"));
        let message_path = path.field("message");
        // kube-apiserver reports at most one of these errors for a rule.
        if expression.is_empty() {
            checker.required(&path.field("rule"), "rule is not specified");
        } else if !message.is_empty() && message.trim().is_empty() {
            checker.invalid(&message_path, &json!(message), "must be non-empty if specified");
        } else if has_line_breaks(message.trim()) {
            checker.invalid(&message_path, &json!(message), "must not contain line breaks");
        } else if has_line_breaks(expression) && message.trim().is_empty() {
            checker.required(&message_path, "message must be specified if rule contains line breaks");
        }
        let message_expression = text(rule, "messageExpression");
        if !message_expression.is_empty() && message_expression.trim().is_empty() {
            let why = "messageExpression must be non-empty if specified";
            checker.required(&path.field("messageExpression"), why);
        }
        if let Some(reason) = rule["reason"].as_str().filter(|reason| !REASONS.contains(reason)) {
            checker.not_supported(&path.field("reason"), reason, &REASONS);
        }
        let field = text(rule, "fieldPath");
        let field_path = path.field("fieldPath");
        let mut invalid = |why: &str| checker.invalid(&field_path, &json!(field), why);
        if !field.is_empty() && field.trim().is_empty() {
            invalid("must be non-empty if specified");
        }
        if has_line_breaks(field) {
            invalid("must not contain line breaks");
        }
        if !field.is_empty()
            && *convertible
            && schema_path::find(field, schema, schema_path::Brackets::Allowed).is_err()
        {
            invalid("must be a valid path");
        }
    }
}
