//! Validation of custom schemas: they must be structural, without unsupported parts of JSON Schema, and with defaults
//! that fit.
//!
//! Rules, their order and their messages are those of `k8s.io/apiextensions-apiserver`. CEL rules are not compiled here.

mod defaults;
mod go_notation;
mod invariants;
mod open_api;
mod schema_path;
mod source;

use std::sync::Arc;

use serde_json::{Value, json};

use super::Cursor;
use super::node::{Child, Definitions};
use super::schema_parser::SchemaParser;
use super::validate::shown;
use source::is_convertible;

use crate::field_path::FieldPath;
use crate::status::FieldError;

pub(super) use go_notation::show as go_struct;
pub use schema_path::{Brackets, find as find_field};

/// Maximum size of all errors of one schema, in bytes. More errors are omitted. Without a maximum, a single long name could make them
/// huge, because each error contains the path of its schema.
const ERRORS: usize = 1 << 20;

/// Error of a schema with a keyword that Go's structural schema does not have.
const INCONVERTIBLE: &str = "OpenAPIV3Schema 'schema' is not supported";

/// Errors of a custom kind's schema, without those of its CEL rules.
#[derive(Debug, Default)]
pub struct CrdSchemaErrors {
    /// Errors of keywords at the root alone. They hide no rule.
    pub root: Vec<FieldError>,
    /// The schema is not structural, or a default does not fit it. Then no rule is compiled.
    pub structure: Vec<FieldError>,
    /// Keywords of a schema have wrong values. Then the rules of this schema and of those around it are not compiled.
    pub keywords: Vec<FieldError>,
    /// The schema has a keyword that Go's structural schema lacks, such as `$schema`. Then no rule is compiled. kube-apiserver reports
    /// this error only if there is no other.
    pub inconvertible: Option<FieldError>,
}

impl CrdSchemaErrors {
    /// Whether CEL rules may be compiled.
    #[must_use]
    pub fn are_rules_checked(&self) -> bool {
        self.structure.is_empty() && self.inconvertible.is_none()
    }

    /// Returns all errors that kube-apiserver reports.
    #[must_use]
    pub fn reported(self) -> Vec<FieldError> {
        let mut errors = self.root;
        errors.extend(self.structure);
        errors.extend(self.keywords);
        if errors.is_empty() {
            errors.extend(self.inconvertible);
        }
        errors
    }
}

/// Returns the errors of `schema`, which is at `path`.
pub(super) fn check(schema: &Value, path: &str) -> CrdSchemaErrors {
    let parser = SchemaParser::new();
    let mut errors = Vec::new();
    let mut checker = StructuralChecker { prefix: path, errors: &mut errors, parser: &parser, room: ERRORS };
    if source::flag(schema, "nullable") {
        checker.forbidden(&FieldPath::root().field("nullable"), "nullable cannot be true at the root");
    }
    let root = std::mem::take(checker.errors);
    let is_convertible = is_convertible(schema);
    if is_convertible {
        invariants::check(&mut checker, schema);
        if checker.errors.is_empty() {
            // Parsed once instead of at each default.
            let definitions = Definitions::none();
            let root = Child::inline(Arc::new(parser.node(schema)));
            let cursor = Cursor { definitions: &definitions, child: &root, node: definitions.resolve(&root) };
            defaults::check(&mut checker, schema, cursor);
        }
    }
    let structure = std::mem::take(checker.errors);
    open_api::check(&mut checker, schema, open_api::InheritedRules::root(), &FieldPath::root());
    let keywords = std::mem::take(checker.errors);
    let inconvertible = (!is_convertible).then(|| FieldError::invalid(path, "\"\"", INCONVERTIBLE));
    CrdSchemaErrors { root, structure, keywords, inconvertible }
}

/// Keyword at the root of a schema that is forbidden if `status` is a subresource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RootKeyword {
    /// The type, which must be `object`.
    Type,
    /// Another keyword.
    Other,
}

/// Returns the kind of the first keyword at the root that is forbidden if `status` is a subresource.
pub(super) fn forbidden_with_status(schema: &Value) -> Option<RootKeyword> {
    go_notation::keys().find_map(|key| match key {
        "type" => (!matches!(source::text(schema, key), "" | "object")).then_some(RootKeyword::Type),
        _ if AT_ROOT.contains(&key) => None,
        _ => {
            let set = schema.get(key).is_some_and(|value| !source::is_zero(key, value));
            set.then_some(RootKeyword::Other)
        }
    })
}

/// Keywords that the root of a schema may have if `status` is a subresource.
const AT_ROOT: [&str; 22] = [
    "description",
    "type",
    "format",
    "title",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "multipleOf",
    "required",
    "items",
    "properties",
    "externalDocs",
    "example",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
];

/// Returns a pattern in `schema` that is too large to be checked, if there is one.
pub(super) fn unchecked_pattern(schema: &Value) -> Option<String> {
    let parser = SchemaParser::new();
    for_each(schema, &mut |schema| {
        // Invalid patterns were refused before.
        let _ = parser.pattern(source::text(schema, "pattern"));
    });
    parser.unchecked_pattern()
}

/// Collects the formats in `schema` that are not known.
pub(super) fn unrecognized_formats(schema: &Value, found: &mut Vec<String>) {
    for_each(schema, &mut |schema| {
        let format = source::text(schema, "format");
        let known = match source::text(schema, "type") {
            "" | "string" => super::validate::is_format(format),
            "integer" => matches!(format, "int32" | "int64"),
            "number" => matches!(format, "float" | "double"),
            _ => false,
        };
        if !format.is_empty() && !known {
            found.push(format.to_owned());
        }
    });
}

/// Calls `f` for `schema` and for all schemas inside.
fn for_each(schema: &Value, f: &mut dyn FnMut(&Value)) {
    f(schema);
    if let Some(item) = source::item(schema) {
        for_each(item, f);
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        source::list(schema, name).iter().for_each(|child| for_each(child, f));
    }
    if let Some(not) = source::given(schema, "not") {
        for_each(not, f);
    }
    source::entries(schema, "properties").for_each(|(_, child)| for_each(child, f));
    if let Some(child) = source::additional_schema(schema) {
        for_each(child, f);
    }
}

/// Collects the errors of one schema.
struct StructuralChecker<'a> {
    prefix: &'a str,
    errors: &'a mut Vec<FieldError>,
    parser: &'a SchemaParser<'a>,
    /// Bytes that are left for more errors.
    room: usize,
}

impl StructuralChecker<'_> {
    /// Returns a path with the prefix of the schema.
    fn place(&self, path: &FieldPath<'_>) -> String {
        match path.to_string() {
            path if path.is_empty() => self.prefix.to_owned(),
            path => format!("{}.{path}", self.prefix),
        }
    }

    fn push(&mut self, error: FieldError) {
        if self.room > 0 {
            self.room = self.room.saturating_sub(error.field.len() + error.message.len());
            self.errors.push(error);
        }
    }

    fn forbidden(&mut self, path: &FieldPath<'_>, why: &str) {
        if self.room > 0 {
            self.push(FieldError::forbidden(self.place(path), why));
        }
    }

    fn invalid(&mut self, path: &FieldPath<'_>, value: &Value, why: &str) {
        if self.room > 0 {
            self.push(FieldError::invalid(self.place(path), &shown(value), why));
        }
    }

    /// Like [`invalid`](Self::invalid), but `shown` is the value as kube-apiserver prints it.
    fn invalid_shown(&mut self, path: &FieldPath<'_>, shown: &str, why: &str) {
        if self.room > 0 {
            self.push(FieldError::invalid(self.place(path), shown, why));
        }
    }

    fn required(&mut self, path: &FieldPath<'_>, why: &str) {
        if self.room > 0 {
            self.push(FieldError::required(self.place(path), why));
        }
    }

    /// Reports a wrong type; an empty one is reported as missing.
    fn must_be(&mut self, path: &FieldPath<'_>, kind: &str, why: &str) {
        if kind.is_empty() {
            self.required(path, why);
        } else {
            self.invalid(path, &json!(kind), why);
        }
    }

    fn not_supported(&mut self, path: &FieldPath<'_>, value: &str, supported: &[&str]) {
        if self.room > 0 {
            self.push(FieldError::not_supported(self.place(path), value, supported));
        }
    }
}
