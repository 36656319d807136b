//! Schemas, and the operations that only depend on a schema: pruning, defaulting, unknown fields, validation.
//!
//! One tree serves builtin kinds (from kube-apiserver's OpenAPI definitions, which refer to one another) and custom kinds (from
//! `openAPIV3Schema`, which is self-contained). All operations are pure functions of a schema and a JSON value. They recurse at most as
//! deep as the value, whose depth the JSON parser limits.
//!
//! The CEL rules of a schema (`x-kubernetes-validations`) are evaluated by the module `cel`.

mod builtin;
mod default;
mod embedded;
mod go_decoding;
mod go_types;
mod node;
mod object_meta;
pub(crate) mod pattern;
mod properties;
mod prune;
mod restore;
mod schema_parser;
mod structural;
mod validate;

use std::sync::Arc;

use serde_json::{Map, Value};

pub use builtin::{builtin, definition, definitions, schema_of_kind};
use node::{Child, MetadataSchema, SchemaNode};
pub use node::{Definitions, JsonType, ListType, PatchStrategy, ValueKind};
pub use object_meta::{coerce_metadata, coerce_stored_metadata, metadata_error};
pub use prune::MapKeys;
pub use structural::{Brackets, CrdSchemaErrors, RootKeyword, find_field};

use crate::status::FieldError;

/// Schema of one served version of a kind. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Schema {
    definitions: Arc<Definitions>,
    root: Child,
    custom: bool,
}

impl Schema {
    /// Returns the schema of a builtin kind, such as `io.k8s.api.apps.v1.Deployment`; `None` if there is no such definition. Each
    /// definition is parsed on first use.
    #[must_use]
    pub fn builtin(definitions: &Arc<Definitions>, name: &str) -> Option<Arc<Self>> {
        let root = Child::definition(definitions.index(name)?);
        Some(Arc::new(Self { definitions: Arc::clone(definitions), root, custom: false }))
    }

    /// Parses the schema of a custom kind. `apiVersion`, `kind` and `metadata` are added to the root.
    #[must_use]
    pub fn of_crd(open_api_v3_schema: &Value) -> Arc<Self> {
        let definitions = Arc::new(Definitions::none());
        let root = Child::inline(Arc::new(schema_parser::custom_root(open_api_v3_schema)));
        Arc::new(Self { definitions, root, custom: true })
    }

    /// Returns the errors of a custom kind's schema. Their fields begin with `path`, as in
    /// `spec.validation.openAPIV3Schema.properties[spec].type`.
    #[must_use]
    pub fn check_crd(open_api_v3_schema: &Value, path: &str) -> CrdSchemaErrors {
        structural::check(open_api_v3_schema, path)
    }

    /// Returns the formats in a custom kind's schema that are not known. Values are not checked for them.
    #[must_use]
    pub fn unrecognized_formats(open_api_v3_schema: &Value) -> Vec<String> {
        let mut found = Vec::new();
        structural::unrecognized_formats(open_api_v3_schema, &mut found);
        found
    }

    /// Returns a keyword at the root that is forbidden if `status` is a subresource: writes of the status are only validated with the
    /// schema of `status`, so restrictions at the root would not apply to them.
    #[must_use]
    pub fn forbidden_with_status(open_api_v3_schema: &Value) -> Option<RootKeyword> {
        structural::forbidden_with_status(open_api_v3_schema)
    }

    /// Returns a custom kind's schema as kube-apiserver shows it in messages.
    #[must_use]
    pub fn shown(open_api_v3_schema: &Value) -> String {
        structural::go_struct(open_api_v3_schema)
    }

    /// Returns a pattern in a custom kind's schema that is too large to be checked, if there is one.
    #[must_use]
    pub fn unchecked_pattern(open_api_v3_schema: &Value) -> Option<String> {
        structural::unchecked_pattern(open_api_v3_schema)
    }

    /// Whether this is the schema of a custom kind. Custom objects are validated by schema and stay as they were sent; builtin
    /// objects are reduced to the fields of a Go struct.
    #[must_use]
    pub fn is_custom(&self) -> bool {
        self.custom
    }

    /// Returns the root, where walks along an object begin.
    #[must_use]
    pub fn root(&self) -> Cursor<'_> {
        Cursor {
            definitions: &self.definitions,
            child: &self.root,
            node: self.definitions.resolve(&self.root),
        }
    }

    /// Returns the paths of undeclared fields, sorted, such as `spec.containers[0].junk`.
    #[must_use]
    pub fn unknown_fields(&self, object: &Value) -> Vec<String> {
        self.unknown_fields_with(object, MapKeys::Shown)
    }

    /// Like [`unknown_fields`](Self::unknown_fields), but the paths may omit the keys of maps.
    #[must_use]
    pub fn unknown_fields_with(&self, object: &Value, keys: MapKeys) -> Vec<String> {
        let mut found = prune::unknown_fields(self.root(), object, keys);
        if self.custom {
            // The decoder of a custom kind reads the metadata before the rest.
            found.sort_by_key(|path| !path.starts_with("metadata."));
        }
        found
    }

    /// Removes undeclared fields.
    pub fn prune(&self, object: &mut Value) {
        prune::prune(self.root(), object);
    }

    /// Sets defaults of absent fields if their parent exists. A null that is not allowed becomes the default, or is dropped.
    pub fn default(&self, object: &mut Value) {
        if self.custom {
            self.default_custom(object, default::Nulls::Drop);
        } else {
            default::default(self.root(), object, default::Nulls::KeepEntries);
        }
    }

    /// Sets defaults in the result of an apply. Unlike in [`default`](Self::default), a null without a default stays, and validation
    /// refuses it.
    pub fn default_applied(&self, object: &mut Value) {
        self.default_custom(object, default::Nulls::Keep);
    }

    /// Sets defaults outside of `metadata`, which custom kinds do not describe.
    fn default_custom(&self, object: &mut Value, nulls: default::Nulls) {
        let metadata = object.as_object_mut().and_then(|fields| fields.remove("metadata"));
        default::default(self.root(), object, nulls);
        if let (Some(metadata), Some(fields)) = (metadata, object.as_object_mut()) {
            fields.insert("metadata".to_owned(), metadata);
        }
    }

    /// Validates a new object of a custom kind, with the order and the messages of kube-apiserver.
    #[must_use]
    pub fn validate(&self, object: &Value) -> Vec<FieldError> {
        validate::validate(self.root(), object, None)
    }

    /// Validates the new state of an object. Unchanged parts are skipped.
    #[must_use]
    pub fn validate_update(&self, old: &Value, new: &Value) -> Vec<FieldError> {
        validate::validate(self.root(), new, Some(old))
    }

    /// Returns the errors about duplicates in sets and keyed lists of a custom object; `old` is its former state.
    #[must_use]
    pub fn validate_lists(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        validate::validate_lists(self.root(), object, old)
    }

    /// Returns the embedded objects of a custom object with their paths.
    #[must_use]
    pub fn embedded<'a>(&self, object: &'a Value) -> Vec<(String, &'a Value)> {
        let mut found = Vec::new();
        embedded::find(self.root(), object, &crate::field_path::FieldPath::root(), &mut found);
        found
    }

    /// Validates the new `status` of an object.
    #[must_use]
    pub fn validate_status_update(&self, old: &Value, new: &Value) -> Vec<FieldError> {
        let (Some(schema), Some(status)) = (self.root().property("status"), new.get("status")) else {
            return Vec::new();
        };
        let mut errors = validate::validate(schema, status, old.get("status"));
        for error in &mut errors {
            error.field = match error.field.as_str() {
                // Errors about the status itself have no path.
                "<nil>" | "" => "status".to_owned(),
                field => format!("status.{field}"),
            };
        }
        errors
    }

    /// Returns Go's message if `object` cannot be decoded into the Go struct of a builtin kind. Messages quote numbers as written
    /// in the text `sent`, or in their JSON form if `sent` does not contain them.
    #[must_use]
    pub fn decode_error(&self, object: &Value, sent: &[u8]) -> Option<String> {
        go_decoding::decode_error(self.root(), object, sent)
    }

    /// Like [`decode_error`](Self::decode_error), for the JSON text of an object. Of several errors Go reports the first one in the order
    /// of the text, and it decodes repeated fields each time they occur. `None` if `text` is no JSON, too.
    #[must_use]
    pub fn text_decode_error(&self, text: &[u8], sent: &[u8]) -> Option<String> {
        go_decoding::text_decode_error(self.root(), text, sent)
    }

    /// Converts `object` as Go does when it restores a builtin kind's struct after a strategic merge or an apply.
    ///
    /// # Errors
    /// Go's message if it cannot be restored.
    pub fn restore(&self, object: &mut Value) -> Result<(), String> {
        restore::restore(self.root(), object)
    }

    /// Returns an empty object, with which the object of a create is compared. For a builtin kind it is the JSON of Go's empty struct.
    #[must_use]
    pub fn empty_object(&self) -> Value {
        if self.custom { Value::Object(Map::new()) } else { go_decoding::empty(self.root()) }
    }
}

/// Whether a text has a format of strings. Dashes in the format's name are ignored.
#[cfg(feature = "cel")]
pub(crate) fn has_format(format: &str, text: &str) -> bool {
    validate::has_format(format, text)
}

/// Formats a value like Go's `field.Error`.
#[cfg(feature = "cel")]
pub(crate) fn shown(value: &Value) -> String {
    validate::shown(value)
}

/// Position in a schema: a node, the attributes of the reference to it, and the definitions that it refers to.
#[derive(Debug, Clone, Copy)]
pub struct Cursor<'a> {
    definitions: &'a Definitions,
    child: &'a Child,
    node: &'a SchemaNode,
}

impl<'a> Cursor<'a> {
    fn at(self, child: &'a Child) -> Self {
        Self { definitions: self.definitions, child, node: self.definitions.resolve(child) }
    }

    /// Returns the declared property of this name.
    #[must_use]
    pub fn property(self, name: &str) -> Option<Self> {
        Some(self.at(self.node.properties.get(name)?))
    }

    /// Returns the property as the schema itself declares it. For `metadata` of an object this differs from
    /// [`property`](Self::property), which is ObjectMeta.
    fn own_property(self, name: &str) -> Option<Self> {
        match &self.node.metadata_rules {
            MetadataSchema::OfObject(own) if name == "metadata" => own.as_ref().map(|child| self.at(child)),
            _ => self.property(name),
        }
    }

    /// Iterates over all declared properties by name.
    pub fn properties(self) -> impl Iterator<Item = (&'a str, Self)> {
        let node = self.node;
        node.properties.iter().map(move |(name, child)| (name, self.at(child)))
    }

    /// Returns the schema of values with undeclared names.
    #[must_use]
    pub fn additional(self) -> Option<Self> {
        Some(self.at(self.node.additional.as_ref()?))
    }

    /// Returns the schema of an array's elements.
    #[must_use]
    pub fn items(self) -> Option<Self> {
        Some(self.at(self.node.items.as_ref()?))
    }

    /// Returns the default of an absent field.
    #[must_use]
    pub fn default_value(self) -> Option<&'a Value> {
        self.child.default.as_ref().or(self.node.default.as_ref())
    }

    /// Returns how arrays are merged and tracked.
    #[must_use]
    pub fn list_type(self) -> &'a ListType {
        &self.node.list_type
    }

    /// Whether objects are replaced and tracked as one value.
    #[must_use]
    pub fn is_atomic_map(self) -> bool {
        self.child.atomic_map.unwrap_or(self.node.atomic_map)
    }

    /// Returns the strategy of strategic merge patches.
    #[must_use]
    pub fn patch(self) -> &'a PatchStrategy {
        let own = &self.child.patch;
        if own.is_empty() { &self.node.patch } else { own }
    }

    fn nullable(self) -> bool {
        self.node.nullable
    }

    /// Returns the values that the schema admits.
    #[must_use]
    pub fn kind(self) -> ValueKind {
        self.node.kind
    }

    /// Returns the format of strings and numbers, such as `date-time` or `int32`.
    #[must_use]
    pub fn format(self) -> Option<&'a str> {
        self.node.format.as_deref()
    }

    /// Whether strings are base64-encoded bytes.
    #[must_use]
    pub fn is_bytes(self) -> bool {
        self.format() == Some("byte")
    }

    /// Returns the name of the type for messages, such as `PodSpec`; empty if the type has no name.
    pub fn type_name(self) -> &'a str {
        self.definition_name().map_or("", go_decoding::type_name)
    }

    /// Whether undeclared fields are kept.
    #[must_use]
    pub fn preserves_unknown_fields(self) -> bool {
        self.node.preserve_unknown
    }

    /// Whether values are whole Kubernetes objects (`x-kubernetes-embedded-resource`).
    fn is_embedded_resource(self) -> bool {
        self.node.embedded_resource
    }

    /// Whether values are Kubernetes objects, at the root or embedded, so that their `metadata` is `ObjectMeta`.
    fn has_object_meta(self) -> bool {
        matches!(self.node.metadata_rules, MetadataSchema::OfObject(_))
    }

    /// Whether the schema declares properties, or a schema for other names (`additionalProperties`).
    #[must_use]
    pub fn declares_fields(self) -> bool {
        !self.node.properties.is_empty() || self.node.additional.is_some() || self.node.additional_any
    }

    /// Whether undeclared names are allowed with any value (`additionalProperties: true`).
    #[must_use]
    pub fn additional_any(self) -> bool {
        self.node.additional_any
    }

    /// Returns the names of required properties.
    #[must_use]
    pub fn required(self) -> &'a [String] {
        &self.node.required
    }

    /// Returns the name of the builtin definition, such as `io.k8s.api.core.v1.Container`.
    pub(crate) fn definition_name(self) -> Option<&'a str> {
        self.child.definition_index().map(|index| self.definitions.name(index))
    }
}

#[cfg(test)]
mod tests;
