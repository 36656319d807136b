//! The schema tree: nodes, references to nodes, and the definitions that builtin schemas share.

use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::properties::Properties;
use super::schema_parser;
use super::validate::ValueRules;

/// A JSON type as OpenAPI names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonType {
    /// An object: a map with text keys.
    Object,
    /// A list.
    Array,
    /// A text.
    String,
    /// A number without a fraction.
    Integer,
    /// A number.
    Number,
    /// `true` or `false`.
    Boolean,
}

impl JsonType {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "object" => Self::Object,
            "array" => Self::Array,
            "string" => Self::String,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "boolean" => Self::Boolean,
            _ => return None,
        })
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }
}

/// Values that a node admits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ValueKind {
    /// Any value: no type is declared.
    #[default]
    Any,
    /// Values of one JSON type.
    Of(JsonType),
    /// A number or a string: `IntOrString`, `Quantity`, `x-kubernetes-int-or-string`.
    IntOrString,
    /// JSON of unknown shape that is merged and tracked as one value, such as `RawExtension`.
    Opaque,
}

/// Rule by which an array is merged, and its fields are owned.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ListType {
    /// The array is one value.
    #[default]
    Atomic,
    /// A set: each element is its own identity.
    Set,
    /// A list; these properties identify its elements.
    Map(Vec<String>),
}

/// `x-kubernetes-patch-strategy` and `x-kubernetes-patch-merge-key`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PatchStrategy {
    /// Whether lists are merged (by key, or as a set of scalars) instead of replaced.
    pub merge: bool,
    /// Whether the directive `$retainKeys` applies to objects: fields that it does not name are removed.
    pub retain_keys: bool,
    /// Whether objects are replaced instead of merged.
    pub replace: bool,
    /// Property that identifies the elements of a list.
    pub merge_key: Option<String>,
}

impl PatchStrategy {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Schema with which `metadata` is validated.
#[derive(Debug, Default)]
pub(super) enum MetadataSchema {
    /// The schema of the property `metadata`, which is a property like any other.
    #[default]
    OfProperty,
    /// The node's own schema of `metadata`, if it has one. The node describes a Kubernetes object, so the property `metadata` is `ObjectMeta`.
    OfObject(Option<Child>),
}

/// A schema.
#[derive(Debug, Default)]
pub(super) struct SchemaNode {
    pub(super) kind: ValueKind,
    /// `format`, which refines strings and numbers.
    pub(super) format: Option<String>,
    pub(super) nullable: bool,
    pub(super) preserve_unknown: bool,
    pub(super) embedded_resource: bool,
    pub(super) properties: Properties<Child>,
    pub(super) additional: Option<Child>,
    /// `additionalProperties: true`.
    pub(super) additional_any: bool,
    pub(super) items: Option<Child>,
    pub(super) default: Option<Value>,
    pub(super) required: Vec<String>,
    pub(super) list_type: ListType,
    pub(super) atomic_map: bool,
    pub(super) patch: PatchStrategy,
    pub(super) metadata_rules: MetadataSchema,
    /// Boxed because most nodes have none.
    pub(super) rules: Option<Box<ValueRules>>,
}

/// A reference to a schema, and the attributes that the referring place adds.
#[derive(Debug, Clone)]
pub(super) struct Child {
    target: Target,
    pub(super) default: Option<Value>,
    pub(super) atomic_map: Option<bool>,
    pub(super) patch: PatchStrategy,
}

#[derive(Debug, Clone)]
enum Target {
    Inline(Arc<SchemaNode>),
    Definition(usize),
}

impl Child {
    pub(super) fn inline(node: Arc<SchemaNode>) -> Self {
        Self::new(Target::Inline(node))
    }

    pub(super) fn definition(index: usize) -> Self {
        Self::new(Target::Definition(index))
    }

    fn new(target: Target) -> Self {
        Self { target, default: None, atomic_map: None, patch: PatchStrategy::default() }
    }

    pub(super) fn definition_index(&self) -> Option<usize> {
        match self.target {
            Target::Inline(_) => None,
            Target::Definition(index) => Some(index),
        }
    }
}

/// Named schemas that refer to one another. Each is parsed on first use, so that a server starts without parsing
/// hundreds of unused definitions, and recursive definitions are possible.
#[derive(Debug)]
pub struct Definitions {
    /// Sorted by name.
    entries: Vec<Definition>,
}

#[derive(Debug)]
struct Definition {
    name: &'static str,
    source: &'static str,
    node: OnceLock<SchemaNode>,
}

impl Definitions {
    /// Creates the definitions from pairs of name and JSON, sorted by name. They are `components.schemas` of an OpenAPI v3 document in the
    /// program's data.
    #[must_use]
    pub fn new(sources: &[(&'static str, &'static str)]) -> Self {
        let entries = sources.iter().map(|(name, source)| Definition { name, source, node: OnceLock::new() });
        Self { entries: entries.collect() }
    }

    pub(super) fn none() -> Self {
        Self { entries: Vec::new() }
    }

    pub(super) fn index(&self, name: &str) -> Option<usize> {
        self.entries.binary_search_by(|entry| entry.name.cmp(name)).ok()
    }

    /// Parses a definition. A malformed one becomes null; a test ensures that the data has none.
    pub(super) fn source(&self, name: &str) -> Option<Value> {
        let entry = &self.entries[self.index(name)?];
        Some(serde_json::from_str(entry.source).unwrap_or_default())
    }

    pub(super) fn name(&self, index: usize) -> &str {
        self.entries[index].name
    }

    pub(super) fn resolve<'a>(&'a self, child: &'a Child) -> &'a SchemaNode {
        match &child.target {
            Target::Inline(node) => node,
            Target::Definition(index) => {
                let entry = &self.entries[*index];
                entry.node.get_or_init(|| schema_parser::definition(entry.name, self))
            }
        }
    }
}
