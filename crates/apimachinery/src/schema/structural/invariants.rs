//! Structural schemas: every value has one type outside of `allOf`, `anyOf`, `oneOf` and `not`, which only restrict values
//! (`k8s.io/apiextensions-apiserver/pkg/apiserver/schema`, `validation.go` and `complete.go`).

use serde_json::{Value, json};

use super::StructuralChecker;
use super::source::{
    Additional, additional, entries, flag, given, has_entries, is_zero, item, list, property, text,
};
use crate::field_path::FieldPath;

/// Position of a schema in the tree.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TreePosition {
    Root,
    Item,
    Field,
}

/// Adds the errors of a schema that is not structural, sorted by their texts.
pub(super) fn check(checker: &mut StructuralChecker<'_>, schema: &Value) {
    let before = checker.errors.len();
    structural(checker, schema, TreePosition::Root, &FieldPath::root());
    complete(checker, schema, Some(schema), &FieldPath::root(), &FieldPath::root());
    // kube-apiserver sorts these errors, because it visits properties in random order.
    checker.errors[before..].sort_by_cached_key(ToString::to_string);
}

fn structural(
    checker: &mut StructuralChecker<'_>,
    schema: &Value,
    level: TreePosition,
    path: &FieldPath<'_>,
) {
    let kind = text(schema, "type");
    match item(schema) {
        Some(item) => structural(checker, item, TreePosition::Item, &path.field("items")),
        None if kind == "array" => checker.required(&path.field("items"), "must be specified"),
        None => {}
    }
    let properties = path.field("properties");
    for (name, property) in entries(schema, "properties") {
        structural(checker, property, TreePosition::Field, &properties.key(name));
    }
    let additional_path = path.field("additionalProperties");
    let additional = additional(schema);
    if level == TreePosition::Root && !matches!(additional, Additional::Absent) {
        checker.forbidden(&additional_path, "must not be used at the root");
    }
    if let Additional::Schema(schema) = additional {
        structural(checker, schema, TreePosition::Field, &additional_path);
    }
    let embedded = flag(schema, "x-kubernetes-embedded-resource");
    let preserves = flag(schema, "x-kubernetes-preserve-unknown-fields");
    let mixed = flag(schema, "x-kubernetes-int-or-string");
    for (name, set) in
        [("x-kubernetes-preserve-unknown-fields", preserves), ("x-kubernetes-embedded-resource", embedded)]
    {
        if mixed && set {
            let why = "must be false if x-kubernetes-int-or-string is true";
            checker.invalid(&path.field(name), &json!(true), why);
        }
    }
    // The two types of an integer or a string may stand in `anyOf`, or in the `anyOf` of the first schema in `allOf`.
    let first_all_of = list(schema, "allOf").first().map_or(AnyOf::Checked, AnyOf::of);
    restrictions(checker, schema, AnyOf::of(schema), first_all_of, path);
    check_type(checker, schema, level, path);
    if embedded && !matches!(additional, Additional::Absent) {
        checker.forbidden(&additional_path, "must not be used if x-kubernetes-embedded-resource is set");
    }
    object_fields(checker, schema, level, &properties);
    if embedded && !preserves && !has_entries(schema, "properties") {
        let why = "must not be empty if x-kubernetes-embedded-resource is true without \
                   x-kubernetes-preserve-unknown-fields";
        checker.required(&properties, why);
    }
}

fn check_type(
    checker: &mut StructuralChecker<'_>,
    schema: &Value,
    level: TreePosition,
    path: &FieldPath<'_>,
) {
    let kind = text(schema, "type");
    let path = path.field("type");
    if flag(schema, "x-kubernetes-embedded-resource") && kind != "object" {
        checker.must_be(&path, kind, "must be object if x-kubernetes-embedded-resource is true");
    } else if kind.is_empty()
        && !flag(schema, "x-kubernetes-int-or-string")
        && !flag(schema, "x-kubernetes-preserve-unknown-fields")
    {
        let place = match level {
            TreePosition::Root => "at the root",
            TreePosition::Item => "for specified array items",
            TreePosition::Field => "for specified object fields",
        };
        checker.required(&path, &format!("must not be empty {place}"));
    }
    if level == TreePosition::Root && !kind.is_empty() && kind != "object" {
        checker.invalid(&path, &json!(kind), "must be object at the root");
    }
}

/// Checks `apiVersion`, `kind` and `metadata`. Every object has them, and a schema may restrict only names.
fn object_fields(
    checker: &mut StructuralChecker<'_>,
    schema: &Value,
    level: TreePosition,
    properties: &FieldPath<'_>,
) {
    let is_object = level == TreePosition::Root || flag(schema, "x-kubernetes-embedded-resource");
    for name in ["kind", "apiVersion"] {
        if let Some(property) = property(schema, name).filter(|_| is_object)
            && text(property, "type") != "string"
        {
            let found = json!(text(property, "type"));
            checker.invalid(&properties.key(name).field("type"), &found, "must be string");
        }
    }
    let Some(metadata) = property(schema, "metadata") else {
        return;
    };
    let path = properties.key("metadata");
    if is_object && text(metadata, "type") != "object" {
        checker.invalid(&path.field("type"), &json!(text(metadata, "type")), "must be object");
    }
    if level == TreePosition::Root && !only_restricts_names(metadata) {
        let why = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        checker.forbidden(&path, why);
    }
}

fn only_restricts_names(metadata: &Value) -> bool {
    entries(metadata, "properties").all(|(name, _)| matches!(name, "name" | "generateName"))
        && metadata.as_object().is_some_and(|fields| {
            fields.iter().all(|(name, value)| {
                matches!(name.as_str(), "type" | "properties" | "default") || is_zero(name, value)
            })
        })
}

/// Treatment of the `anyOf` of a schema.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AnyOf {
    Checked,
    /// It describes an integer or a string, so it may name types.
    Exempt,
}

impl AnyOf {
    fn of(schema: &Value) -> Self {
        if is_int_or_string(list(schema, "anyOf")) { Self::Exempt } else { Self::Checked }
    }
}

/// Whether these are the schemas `type: integer` and `type: string`, in this order.
fn is_int_or_string(any_of: &[Value]) -> bool {
    let only = |schema: &Value, kind: &str| {
        text(schema, "type") == kind
            && schema.as_object().is_some_and(|fields| {
                fields.iter().all(|(name, value)| match name.as_str() {
                    "type" => true,
                    // Go's form of these nested schemas does not keep the value `false`.
                    "additionalProperties" => value == false || value.is_null(),
                    "enum" | "allOf" | "anyOf" | "oneOf" => value.as_array().is_none_or(Vec::is_empty),
                    name => is_zero(name, value),
                })
            })
    };
    matches!(any_of, [first, second] if only(first, "integer") && only(second, "string"))
}

/// Checks the parts of a schema that restrict values. `any_of` is about the schema itself, `first_all_of` about its first schema in `allOf`.
fn restrictions(
    checker: &mut StructuralChecker<'_>,
    schema: &Value,
    any_of: AnyOf,
    first_all_of: AnyOf,
    path: &FieldPath<'_>,
) {
    if any_of == AnyOf::Checked {
        let path = path.field("anyOf");
        for (index, child) in list(schema, "anyOf").iter().enumerate() {
            nested(checker, child, AnyOf::Checked, &path.index(index));
        }
    }
    let all_of = path.field("allOf");
    for (index, child) in list(schema, "allOf").iter().enumerate() {
        let any_of = if index == 0 { first_all_of } else { AnyOf::Checked };
        nested(checker, child, any_of, &all_of.index(index));
    }
    let one_of = path.field("oneOf");
    for (index, child) in list(schema, "oneOf").iter().enumerate() {
        nested(checker, child, AnyOf::Checked, &one_of.index(index));
    }
    if let Some(not) = given(schema, "not") {
        nested(checker, not, AnyOf::Checked, &path.field("not"));
    }
    let pattern = text(schema, "pattern");
    if let Err(error) = checker.parser.pattern(pattern) {
        let why = format!("must be a valid regular expression, but isn't: {error}");
        checker.invalid(&path.field("pattern"), &json!(pattern), &why);
    }
}

/// Checks a schema inside `allOf`, `anyOf`, `oneOf` or `not`.
fn nested(checker: &mut StructuralChecker<'_>, schema: &Value, any_of: AnyOf, path: &FieldPath<'_>) {
    // The exemption for the first schema in `allOf` exists only outside of nested schemas.
    restrictions(checker, schema, any_of, AnyOf::Checked, path);
    if let Some(item) = item(schema) {
        nested(checker, item, AnyOf::Checked, &path.field("items"));
    }
    let properties = path.field("properties");
    for (name, property) in entries(schema, "properties") {
        nested(checker, property, AnyOf::Checked, &properties.key(name));
    }
    let mut forbid = |name: &str, found: bool, why: &str| {
        if found {
            checker.forbidden(&path.field(name), &format!("must be {why} to be structural"));
        }
    };
    forbid("type", !text(schema, "type").is_empty(), "empty");
    let additional = matches!(additional(schema), Additional::Any | Additional::Schema(_));
    forbid("additionalProperties", additional, "undefined");
    forbid("default", given(schema, "default").is_some(), "undefined");
    forbid("title", !text(schema, "title").is_empty(), "empty");
    forbid("description", !text(schema, "description").is_empty(), "empty");
    for name in [
        "nullable",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
    ] {
        forbid(name, flag(schema, name), "false");
    }
    let name = "x-kubernetes-list-map-keys";
    forbid(name, !list(schema, name).is_empty(), "empty");
    for name in ["x-kubernetes-list-type", "x-kubernetes-map-type"] {
        forbid(name, given(schema, name).is_some(), "undefined");
    }
    let name = "x-kubernetes-validations";
    forbid(name, !list(schema, name).is_empty(), "empty");
    if property(schema, "metadata").is_some() {
        checker.forbidden(&properties.key("metadata"), "must not be specified in a nested context");
    }
}

/// Checks that the fields and elements that `allOf`, `anyOf`, `oneOf` and `not` of `restriction` at `path` mention are declared in
/// `schema` at `declared`.
fn complete(
    checker: &mut StructuralChecker<'_>,
    restriction: &Value,
    schema: Option<&Value>,
    declared: &FieldPath<'_>,
    path: &FieldPath<'_>,
) {
    if let Some(not) = given(restriction, "not") {
        complete_nested(checker, not, schema, declared, &path.field("not"));
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        let path = path.field(name);
        for (index, child) in list(restriction, name).iter().enumerate() {
            complete_nested(checker, child, schema, declared, &path.index(index));
        }
    }
}

fn complete_nested(
    checker: &mut StructuralChecker<'_>,
    restriction: &Value,
    schema: Option<&Value>,
    declared: &FieldPath<'_>,
    path: &FieldPath<'_>,
) {
    // A restriction applies to declared fields only: nothing else would give them a type.
    let Some(schema) = schema else {
        let why = format!("because it is defined in {}", checker.place(path));
        checker.required(declared, &why);
        return;
    };
    complete(checker, restriction, Some(schema), declared, path);
    if let Some(child) = item(restriction) {
        complete_nested(checker, child, item(schema), &declared.field("items"), &path.field("items"));
    }
    let (declared, path) = (declared.field("properties"), path.field("properties"));
    for (name, child) in entries(restriction, "properties") {
        complete_nested(checker, child, property(schema, name), &declared.key(name), &path.key(name));
    }
}
