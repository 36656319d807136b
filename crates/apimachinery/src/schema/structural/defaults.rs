//! Defaults of custom schemas, which must fit their schemas
//! (`k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting`).

use serde_json::{Value, json};

use super::StructuralChecker;
use super::source::{entries, flag, given, item};
use crate::field_path::FieldPath;
use crate::metadata::validate_embedded;
use crate::schema::{Cursor, embedded, object_meta, prune, validate};
use crate::status::FieldError;

/// Part of the message about a value that is neither an integer nor a string.
const INT_OR_STRING: &str = " must be of type integer,string: ";

/// A step from an object to a part of its metadata.
enum MetadataStep<'a> {
    Field(&'a str),
    Element,
}

/// Position of a schema in the nearest object with metadata.
struct MetadataPosition<'a> {
    /// Whether the schema describes such an object.
    is_object: bool,
    /// Steps from that object to the schema, if they lead through `apiVersion`, `kind` or `metadata`.
    in_metadata: Option<Vec<MetadataStep<'a>>>,
}

/// Checks the defaults of the root and of all schemas inside. `cursor` is the parsed `schema`.
pub(super) fn check(checker: &mut StructuralChecker<'_>, schema: &Value, cursor: Cursor<'_>) {
    let mut root = MetadataPosition { is_object: true, in_metadata: None };
    walk(checker, schema, cursor, &mut root, &FieldPath::root());
}

fn walk<'a>(
    checker: &mut StructuralChecker<'_>,
    schema: &'a Value,
    cursor: Cursor<'_>,
    position: &mut MetadataPosition<'a>,
    path: &FieldPath<'_>,
) {
    if let Some(default) = given(schema, "default") {
        match &position.in_metadata {
            Some(steps) => in_metadata(checker, default, steps, cursor, &path.field("default")),
            None => value(checker, default, cursor, position, &path.field("default")),
        }
    }
    // Defaults below `additionalProperties` are not checked.
    if let (Some(child), Some(below)) = (item(schema), cursor.items()) {
        inside(checker, child, below, position, MetadataStep::Element, &path.field("items"));
    }
    let properties = path.field("properties");
    for (name, child) in entries(schema, "properties") {
        let Some(below) = cursor.own_property(name) else {
            continue;
        };
        let path = properties.key(name);
        if position.is_object && matches!(name, "metadata" | "apiVersion" | "kind") {
            // The steps begin at the object that has the metadata.
            let mut position = MetadataPosition { is_object: false, in_metadata: Some(Vec::new()) };
            inside(checker, child, below, &mut position, MetadataStep::Field(name), &path);
        } else {
            inside(checker, child, below, position, MetadataStep::Field(name), &path);
        }
    }
}

fn inside<'a>(
    checker: &mut StructuralChecker<'_>,
    schema: &'a Value,
    cursor: Cursor<'_>,
    position: &mut MetadataPosition<'a>,
    step: MetadataStep<'a>,
    path: &FieldPath<'_>,
) {
    if flag(schema, "x-kubernetes-embedded-resource") {
        let mut position = MetadataPosition { is_object: true, in_metadata: None };
        walk(checker, schema, cursor, &mut position, path);
        return;
    }
    // Only the object itself has metadata, not its parts. The old value is restored for its other fields.
    let was_object = std::mem::replace(&mut position.is_object, false);
    if let Some(steps) = &mut position.in_metadata {
        steps.push(step);
    }
    walk(checker, schema, cursor, position, path);
    if let Some(steps) = &mut position.in_metadata {
        steps.pop();
    }
    position.is_object = was_object;
}

/// Checks a default outside metadata.
fn value(
    checker: &mut StructuralChecker<'_>,
    default: &Value,
    cursor: Cursor<'_>,
    position: &MetadataPosition<'_>,
    path: &FieldPath<'_>,
) {
    let mut pruned = default.clone();
    if position.is_object {
        prune::prune(cursor, &mut pruned);
    } else {
        prune::prune_part(cursor, &mut pruned);
    }
    if pruned != *default {
        checker.invalid(path, default, "must not have unknown fields");
    }
    let place = checker.place(path);
    let mut objects = Vec::new();
    if position.is_object && !cursor.is_embedded_resource() {
        objects.push((String::new(), default));
    }
    embedded::find(cursor, default, &FieldPath::root(), &mut objects);
    let objects: Vec<(String, &Value)> = objects
        .into_iter()
        .filter(|(_, object)| object.is_object())
        .map(|(inner, object)| (below(&place, &inner), object))
        .collect();
    // Metadata that cannot be decoded cannot be validated, and a default with invalid metadata is not compared with its schema.
    if let Some(error) = objects.iter().find_map(|(place, object)| undecodable(place, object)) {
        checker.push(error);
        return;
    }
    let errors: Vec<FieldError> =
        objects.iter().flat_map(|(place, object)| validate_embedded(place, object, None)).collect();
    if errors.is_empty() {
        fits(checker, default, cursor, &place);
    } else {
        errors.into_iter().for_each(|error| checker.push(error));
    }
}

/// Checks a default inside metadata, in an object that contains nothing else.
fn in_metadata(
    checker: &mut StructuralChecker<'_>,
    default: &Value,
    steps: &[MetadataStep<'_>],
    cursor: Cursor<'_>,
    path: &FieldPath<'_>,
) {
    let mut object = steps.iter().rev().fold(default.clone(), |value, step| match step {
        MetadataStep::Field(name) => json!({ *name: value }),
        MetadataStep::Element => json!([value]),
    });
    // Embedded objects need a type to be valid. A default for the type itself must stay.
    for (name, value) in [("kind", "Validation"), ("apiVersion", "validation/v1")] {
        if object.get(name).is_none() {
            object[name] = json!(value);
        }
    }
    let mut texts: Vec<String> = match undecodable("", &object) {
        Some(error) => vec![error.to_string()],
        None => validate_embedded("", &object, None).iter().map(ToString::to_string).collect(),
    };
    for text in &mut texts {
        *text = text.trim_start_matches('.').to_owned();
    }
    match texts.as_slice() {
        [] => {
            let place = checker.place(path);
            fits(checker, default, cursor, &place);
        }
        [one] => checker.invalid(path, default, &format!("must result in valid metadata: {one}")),
        many => {
            let why = format!("must result in valid metadata: [{}]", many.join(", "));
            checker.invalid(path, default, &why);
        }
    }
}

/// Checks a default against its schema.
fn fits(checker: &mut StructuralChecker<'_>, default: &Value, cursor: Cursor<'_>, place: &str) {
    for mut error in validate::validate_part(cursor, default) {
        // kube-apiserver does not check the type of an integer or string here.
        if error.reason == "FieldValueTypeInvalid" && error.message.contains(INT_OR_STRING) {
            continue;
        }
        error.field = match error.field.as_str() {
            "<nil>" => place.to_owned(),
            inner => below(place, inner.trim_start_matches('.')),
        };
        checker.push(error);
    }
}

/// Returns the error of an object at `place` if its type or metadata have values of the wrong types.
fn undecodable(place: &str, object: &Value) -> Option<FieldError> {
    for name in ["apiVersion", "kind"] {
        if let Some(value) = object.get(name).filter(|value| !value.is_string()) {
            return Some(FieldError::invalid(below(place, name), &value.to_string(), "must be a string"));
        }
    }
    let why = object_meta::metadata_error(object)?;
    Some(FieldError::invalid(below(place, "metadata"), &object["metadata"].to_string(), &why))
}

fn below(place: &str, inner: &str) -> String {
    match (place, inner) {
        (place, "") => place.to_owned(),
        ("", inner) => inner.to_owned(),
        (place, inner) => format!("{place}.{inner}"),
    }
}
