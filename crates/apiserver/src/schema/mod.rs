//! Schemas of objects, and what follows from a schema alone: pruning, defaults, unknown fields, validation.
//!
//! One tree serves builtin kinds (from the server's OpenAPI definitions, which refer to one another) and custom kinds
//! (from `openAPIV3Schema`, which is self-contained). Everything here is a pure function of a schema and a JSON value;
//! recursion is bounded by the depth of that value, which the JSON parser limits.
//!
//! CEL rules (`x-kubernetes-validations`) are not evaluated yet: such schemas are accepted and the rules ignored.

mod default;
mod go;
mod metadata;
mod node;
mod parse;
mod prune;
mod restore;
mod structural;
mod validate;

use std::sync::Arc;

use serde_json::{Map, Value};

pub(crate) use go::normalize_numbers;
pub(crate) use metadata::coerce_metadata;
use node::{Child, Node};
pub(crate) use node::{Definitions, Kind, ListType, PatchStrategy, Type};

use crate::status::FieldError;

/// The schema of one served version of a kind. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Schema {
    definitions: Arc<Definitions>,
    root: Child,
    custom: bool,
    /// Whether there are rules in CEL.
    has_rules: bool,
}

impl Schema {
    /// The schema of a builtin kind, e.g. `io.k8s.api.apps.v1.Deployment`; `None` if there is no such definition.
    /// Parsing happens on first use, definition by definition.
    pub(crate) fn builtin(definitions: &Arc<Definitions>, name: &str) -> Option<Arc<Self>> {
        let root = Child::definition(definitions.index(name)?);
        Some(Arc::new(Self { definitions: Arc::clone(definitions), root, custom: false, has_rules: false }))
    }

    /// The schema of a custom kind. The root gains `apiVersion`, `kind` and `metadata`.
    ///
    /// # Errors
    /// Where `open_api_v3_schema` is not structural; fields are relative to it, as in
    /// `spec.validation.openAPIV3Schema.properties[spec].type`. `path` is the prefix they get.
    pub(crate) fn from_crd(open_api_v3_schema: &Value, path: &str) -> Result<Arc<Self>, Vec<FieldError>> {
        let errors = structural::check(open_api_v3_schema, path);
        if !errors.is_empty() {
            return Err(errors);
        }
        let definitions = Arc::new(Definitions::none());
        let root = Child::inline(Arc::new(parse::custom_root(open_api_v3_schema)));
        Ok(Arc::new(Self { definitions, root, custom: true, has_rules: mentions_rules(open_api_v3_schema) }))
    }

    /// Whether this is the schema of a custom kind, whose objects are validated by schema and stay as they were sent;
    /// builtin objects are what a Go struct keeps of them.
    pub(crate) fn is_custom(&self) -> bool {
        self.custom
    }

    /// Where walks along an object begin.
    pub(crate) fn root(&self) -> Cursor<'_> {
        Cursor {
            definitions: &self.definitions,
            child: &self.root,
            node: self.definitions.resolve(&self.root),
        }
    }

    /// Paths of the fields this schema does not declare, sorted, e.g. `spec.containers[0].junk`.
    pub(crate) fn unknown_fields(&self, object: &Value) -> Vec<String> {
        prune::unknown_fields(self.root(), object)
    }

    /// Removes the fields this schema does not declare.
    pub(crate) fn prune(&self, object: &mut Value) {
        prune::prune(self.root(), object);
    }

    /// Fills in defaults where the parent exists. A null that may not be null becomes the default, or goes.
    pub(crate) fn default(&self, object: &mut Value) {
        default::default(self.root(), object, default::Nulls::Drop);
    }

    /// Fills in defaults in what an apply made of an object: a null without a default stays, and is an error.
    pub(crate) fn default_applied(&self, object: &mut Value) {
        default::default(self.root(), object, default::Nulls::Keep);
    }

    /// What is wrong with a new object of a custom kind, in the order and words of kube-apiserver.
    pub(crate) fn validate(&self, object: &Value) -> Vec<FieldError> {
        self.note_unchecked_rules(validate::validate(self.root(), object, None))
    }

    /// What is wrong with the new state of an object; what did not change is not looked at.
    pub(crate) fn validate_update(&self, old: &Value, new: &Value) -> Vec<FieldError> {
        self.note_unchecked_rules(validate::validate(self.root(), new, Some(old)))
    }

    /// What is wrong with the new `status` of an object.
    pub(crate) fn validate_status_update(&self, old: &Value, new: &Value) -> Vec<FieldError> {
        let (Some(schema), Some(status)) = (self.root().property("status"), new.get("status")) else {
            return Vec::new();
        };
        let mut errors = validate::validate(schema, status, old.get("status"));
        for error in &mut errors {
            error.field = match error.field.as_str() {
                "<nil>" | "" => "status".to_owned(),
                field => format!("status.{field}"),
            };
        }
        self.note_unchecked_rules(errors)
    }

    fn note_unchecked_rules(&self, mut errors: Vec<FieldError>) -> Vec<FieldError> {
        if self.has_rules && errors.iter().any(validate::blocks_rules) {
            let why = "some validation rules were not checked because the object was invalid; correct the existing \
                       errors to complete validation";
            errors.push(FieldError::invalid("<nil>", "null", why));
        }
        errors
    }

    /// Why `object` cannot be decoded into the Go struct of a builtin kind, in Go's words. They quote numbers as they are in
    /// the text `sent`; a number that is not in it, as it reads in JSON.
    pub(crate) fn decode_error(&self, object: &Value, sent: &[u8]) -> Option<String> {
        go::decode_error(self.root(), object, sent)
    }

    /// Makes of `object` what the Go struct of a builtin kind holds that is restored from it after a strategic merge or an apply.
    ///
    /// # Errors
    /// It cannot be restored, in Go's words.
    pub(crate) fn restore(&self, object: &mut Value) -> Result<(), String> {
        restore::restore(self.root(), object)
    }

    /// An object without content, the starting point of a create: of a builtin kind as Go serializes the empty struct.
    pub(crate) fn empty_object(&self) -> Value {
        if self.custom { Value::Object(Map::new()) } else { go::empty(self.root()) }
    }
}

fn mentions_rules(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => {
            fields.contains_key("x-kubernetes-validations") || fields.values().any(mentions_rules)
        }
        Value::Array(items) => items.iter().any(mentions_rules),
        _ => false,
    }
}

/// A place in a schema: a node, what its mention adds, and the definitions it refers to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'a> {
    definitions: &'a Definitions,
    child: &'a Child,
    node: &'a Node,
}

impl<'a> Cursor<'a> {
    fn at(self, child: &'a Child) -> Self {
        Self { definitions: self.definitions, child, node: self.definitions.resolve(child) }
    }

    /// The declared property of this name.
    pub(crate) fn property(self, name: &str) -> Option<Self> {
        Some(self.at(self.node.properties.get(name)?))
    }

    /// All declared properties, by name.
    pub(crate) fn properties(self) -> impl Iterator<Item = (&'a str, Self)> {
        let node = self.node;
        node.properties.iter().map(move |(name, child)| (name.as_str(), self.at(child)))
    }

    /// The schema of values under undeclared names.
    pub(crate) fn additional(self) -> Option<Self> {
        Some(self.at(self.node.additional.as_ref()?))
    }

    /// The schema of the elements of an array.
    pub(crate) fn items(self) -> Option<Self> {
        Some(self.at(self.node.items.as_ref()?))
    }

    /// The value an absent field takes.
    pub(crate) fn default_value(self) -> Option<&'a Value> {
        self.child.default.as_ref().or(self.node.default.as_ref())
    }

    /// How arrays here are merged and tracked.
    pub(crate) fn list_type(self) -> &'a ListType {
        &self.node.list_type
    }

    /// Whether an object here is replaced and tracked as one value.
    pub(crate) fn is_atomic_map(self) -> bool {
        self.child.atomic_map.unwrap_or(self.node.atomic_map)
    }

    /// What a strategic merge patch does here.
    pub(crate) fn patch(self) -> &'a PatchStrategy {
        let own = &self.child.patch;
        if own.is_empty() { &self.node.patch } else { own }
    }

    fn nullable(self) -> bool {
        self.node.nullable
    }

    /// What values here may be.
    pub(crate) fn kind(self) -> Kind {
        self.node.kind
    }

    /// The form of strings and numbers here, such as `date-time` and `int32`.
    pub(crate) fn format(self) -> Option<&'a str> {
        self.node.format.as_deref()
    }

    /// Whether strings here are base64 of bytes.
    pub(crate) fn is_bytes(self) -> bool {
        self.format() == Some("byte")
    }

    /// How messages name the type here: `PodSpec`; empty where it has no name.
    pub(crate) fn type_name(self) -> &'a str {
        self.definition_name().map_or("", go::type_name)
    }

    /// Whether undeclared fields are kept.
    pub(crate) fn preserves_unknown_fields(self) -> bool {
        self.node.preserve_unknown
    }

    /// Whether an object here is a whole Kubernetes object.
    fn is_embedded_resource(self) -> bool {
        self.node.embedded_resource
    }

    /// Whether there is anything about an object here: properties, or a schema for other names.
    pub(crate) fn declares_fields(self) -> bool {
        !self.node.properties.is_empty() || self.node.additional.is_some() || self.node.additional_any
    }

    /// Whether undeclared names are allowed with any value (`additionalProperties: true`).
    pub(crate) fn additional_any(self) -> bool {
        self.node.additional_any
    }

    /// Names of properties that must be there.
    pub(crate) fn required(self) -> &'a [String] {
        &self.node.required
    }

    /// The name of the builtin definition, e.g. `io.k8s.api.core.v1.Container`.
    fn definition_name(self) -> Option<&'a str> {
        self.child.definition_index().map(|index| self.definitions.name(index))
    }
}

#[cfg(test)]
mod tests;
