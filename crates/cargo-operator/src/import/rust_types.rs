//! Generates Rust types from the structural schema of a kind (pure).

use std::collections::BTreeSet;

use serde_json::Value;

use super::{definition::Definition, rust_names};

/// Nesting depth at and beyond which fields are kept as values.
const MAX_DEPTH: usize = 64;

/// Names that the generated file uses for something else.
const TAKEN: [&str; 17] = [
    "BTreeMap",
    "Clone",
    "Condition",
    "CustomResource",
    "Debug",
    "Default",
    "Deserialize",
    "IntOrString",
    "None",
    "Option",
    "PartialEq",
    "Self",
    "Serialize",
    "Some",
    "String",
    "Value",
    "Vec",
];

/// Types of a kind.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Types {
    /// Structs and enums: the spec first.
    pub(super) all: Vec<RustItem>,
    /// Whether the spec's struct has the top-level fields of the object, because the kind has no `spec`, or has fields other than
    /// `spec` and `status`.
    pub(super) is_root: bool,
    /// Name of the status type.
    pub(super) status: Option<String>,
    /// Notes about parts of the schema that have no Rust type.
    pub(super) notes: Vec<String>,
}

/// A struct or an enum.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RustItem {
    pub(super) name: String,
    pub(super) doc: String,
    pub(super) body: Body,
    /// Whether the type derives `Default`: all of its required fields have a default.
    pub(super) has_default: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Body {
    Struct { fields: Vec<Field> },
    Enum { variants: Vec<Variant> },
}

/// A field of a struct.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Field {
    pub(super) ident: String,
    pub(super) doc: String,
    /// Name in JSON, if it does not follow from `ident`.
    pub(super) rename: Option<String>,
    pub(super) ty: Type,
    pub(super) presence: Presence,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    Required,
    /// May be absent.
    Optional,
    /// Must be present, and may be null.
    Nullable,
    /// All properties that have no field.
    Rest,
}

/// A value of an enum.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Variant {
    pub(super) ident: String,
    pub(super) value: String,
}

/// Type of a field.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Type {
    Bool,
    I32,
    I64,
    F64,
    String,
    IntOrString,
    Condition,
    /// `serde_json::Value`.
    Any,
    List(Box<Type>),
    Map(Box<Type>),
    Named {
        name: String,
        has_default: bool,
    },
}

/// Creates the types of a kind.
pub(super) fn of(definition: &Definition) -> Result<Types, String> {
    let kind = &definition.kind;
    if TAKEN.contains(&kind.as_str()) || !kind.starts_with(|c: char| c.is_ascii_uppercase()) {
        return Err("the generated file uses this name for something else".to_owned());
    }
    let root = &definition.schema;
    let mut writer = Writer { kind, items: Vec::new(), used: BTreeSet::new(), notes: Vec::new() };
    writer.used.extend(TAKEN.map(str::to_owned));
    writer.used.insert(kind.clone());
    let empty = serde_json::Map::new();
    let properties = root["properties"].as_object().unwrap_or(&empty);
    let standard = ["apiVersion", "kind", "metadata", "spec", "status"];
    let is_root =
        !properties.contains_key("spec") || properties.keys().any(|name| !standard.contains(&&**name));

    let spec = writer.name(&format!("{kind}{}", if is_root { "Fields" } else { "Spec" }));
    let status = properties.get("status").map(|_| writer.name(&format!("{kind}Status")));
    let doc = text_of(root).to_owned();
    if is_root {
        let mut root = root.clone();
        if let Some(properties) = root["properties"].as_object_mut() {
            properties.retain(|name, _| !standard.contains(&&**name) || name == "spec");
        }
        writer.fields(&root, "", &spec, kind, doc, 0)?;
    } else {
        if !required(root).contains(&"spec") {
            let note = "objects without .spec cannot be read: the definition does not require .spec, but the Rust type does";
            writer.notes.push(note.to_owned());
        }
        let schema = &properties["spec"];
        writer.fields(schema, ".spec", &spec, kind, text_or(schema, &doc), 0)?;
    }
    if let (Some(name), Some(schema)) = (&status, properties.get("status")) {
        writer.fields(schema, ".status", name, name, text_of(schema).to_owned(), 0)?;
    }
    // The walk adds a type after the types of its fields. Reverse the order, so that the file begins with the spec.
    writer.items.reverse();
    let (specs, others): (Vec<RustItem>, Vec<RustItem>) =
        writer.items.into_iter().partition(|item| item.name == spec);
    Ok(Types { all: specs.into_iter().chain(others).collect(), is_root, status, notes: writer.notes })
}

fn text_of(schema: &Value) -> &str {
    schema["description"].as_str().unwrap_or_default()
}

fn text_or(schema: &Value, other: &str) -> String {
    let text = text_of(schema);
    if text.is_empty() { other.to_owned() } else { text.to_owned() }
}

fn required(schema: &Value) -> Vec<&str> {
    schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn preserves(schema: &Value) -> bool {
    schema["x-kubernetes-preserve-unknown-fields"] == true
}

fn has_properties(schema: &Value) -> bool {
    schema["properties"].as_object().is_some_and(|properties| !properties.is_empty())
}

/// Creates items while it walks a schema.
struct Writer<'k> {
    kind: &'k str,
    items: Vec<RustItem>,
    /// Names of items.
    used: BTreeSet<String>,
    notes: Vec<String>,
}

impl Writer<'_> {
    /// Returns a name for an item that no other item has.
    fn name(&mut self, name: &str) -> String {
        rust_names::unused(name, "", &mut self.used)
    }

    /// Creates the struct `name` for the fields of an object, and returns whether it derives `Default`. Names of nested types begin with
    /// `prefix`.
    fn fields(
        &mut self,
        schema: &Value,
        path: &str,
        name: &str,
        prefix: &str,
        doc: String,
        depth: usize,
    ) -> Result<bool, String> {
        if schema["type"] != "object" && !preserves(schema) {
            let shown = if path.is_empty() { "the object" } else { path };
            let found = schema["type"].as_str().unwrap_or("none");
            return Err(format!(
                "{shown} has type {found} in the schema, but the Rust type needs an object there"
            ));
        }
        let required = required(schema);
        let (mut fields, mut idents) = (Vec::new(), BTreeSet::new());
        for (property, schema) in schema["properties"].as_object().into_iter().flatten() {
            let named = rust_names::field(property, &mut idents);
            let at = format!("{path}.{property}");
            let mut doc = text_of(schema).to_owned();
            let ty = self.type_of(
                schema,
                &at,
                &format!("{prefix}{}", rust_names::pascal(property)),
                &mut doc,
                depth + 1,
            )?;
            if let Some(value) = schema.get("default") {
                append(&mut doc, &format!("Default: `{value}`."));
            }
            let presence = match (required.contains(&&**property), schema["nullable"] == true) {
                (true, true) => Presence::Nullable,
                (true, false) => Presence::Required,
                (false, _) => Presence::Optional,
            };
            let rename = named.is_renamed.then(|| property.clone());
            fields.push(Field { ident: named.ident, doc, rename, ty, presence });
        }
        let rest = match &schema["additionalProperties"] {
            values @ Value::Object(_) => Some(self.type_of(
                values,
                &format!("{path}.*"),
                &format!("{prefix}Value"),
                &mut String::new(),
                depth + 1,
            )?),
            _ if preserves(schema) || schema["additionalProperties"] == true => Some(Type::Any),
            _ => None,
        };
        if let Some(values) = rest {
            let ident = rust_names::field("more", &mut idents).ident;
            let doc = "Further fields.".to_owned();
            fields.push(Field {
                ident,
                doc,
                rename: None,
                ty: Type::Map(Box::new(values)),
                presence: Presence::Rest,
            });
        }
        let has_default =
            fields.iter().all(|field| field.presence != Presence::Required || field.ty.has_default());
        self.items.push(RustItem { name: name.to_owned(), doc, body: Body::Struct { fields }, has_default });
        Ok(has_default)
    }

    /// The type of a value. A value without a type gets a note, and a comment in `doc`.
    fn type_of(
        &mut self,
        schema: &Value,
        path: &str,
        name: &str,
        doc: &mut String,
        depth: usize,
    ) -> Result<Type, String> {
        if depth > MAX_DEPTH {
            return Ok(self.any(path, "it is nested deeply", doc));
        }
        if schema["x-kubernetes-int-or-string"] == true {
            return Ok(Type::IntOrString);
        }
        if schema["x-kubernetes-embedded-resource"] == true {
            return Ok(self.any(path, "x-kubernetes-embedded-resource", doc));
        }
        let nested = |it: &Value| it.is_object();
        Ok(match schema["type"].as_str() {
            Some("boolean") => Type::Bool,
            Some("integer") if schema["format"] == "int32" => Type::I32,
            Some("integer") => Type::I64,
            Some("number") => Type::F64,
            Some("string") => self.string(schema, name, doc),
            Some("array") if nested(&schema["items"]) => {
                let items = &schema["items"];
                let mut about = String::new();
                let ty = self.type_of(items, &format!("{path}[]"), name, &mut about, depth + 1)?;
                append(doc, &about);
                Type::List(Box::new(self.or_null(ty, items, &format!("{path}[]"), doc)))
            }
            Some("array") => {
                self.any(path, "its items have no schema", doc);
                Type::List(Box::new(Type::Any))
            }
            Some("object") if is_condition(schema) => Type::Condition,
            Some("object") if has_properties(schema) => {
                let name = self.name(name);
                let about = text_or(schema, &format!("Part of `{path}` of a {}.", self.kind));
                let has_default = self.fields(schema, path, &name, &name, about, depth)?;
                Type::Named { name, has_default }
            }
            Some("object") if nested(&schema["additionalProperties"]) => {
                let values = &schema["additionalProperties"];
                let mut about = String::new();
                let ty = self.type_of(values, &format!("{path}.*"), name, &mut about, depth + 1)?;
                append(doc, &about);
                Type::Map(Box::new(self.or_null(ty, values, &format!("{path}.*"), doc)))
            }
            Some("object") if schema["additionalProperties"] == true => Type::Map(Box::new(Type::Any)),
            Some("object" | "") | None if preserves(schema) => {
                self.any(path, "x-kubernetes-preserve-unknown-fields", doc)
            }
            Some("object") => self.any(path, "the definition names no fields of it", doc),
            Some(other) => self.any(path, &format!("type {other}"), doc),
            None => self.any(path, "it has no type", doc),
        })
    }

    /// The type of items that may be null.
    fn or_null(&mut self, ty: Type, items: &Value, path: &str, doc: &mut String) -> Type {
        if items["nullable"] != true {
            return ty;
        }
        self.any(path, "null items", doc)
    }

    /// A value without a type, with a note and a comment.
    fn any(&mut self, path: &str, reason: &str, doc: &mut String) -> Type {
        self.notes.push(format!("{path} has type Value ({reason})"));
        append(doc, &format!("Any value: {reason}."));
        Type::Any
    }

    /// A string, or an enum of the strings that the schema allows.
    fn string(&mut self, schema: &Value, name: &str, doc: &mut String) -> Type {
        let values: Vec<&str> =
            schema["enum"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if values.is_empty() {
            if let Some(format) = schema["format"].as_str() {
                append(doc, &format!("Format: {format}."));
            }
            return Type::String;
        }
        let name = self.name(name);
        // `Other` is the variant for all further values.
        let mut used = BTreeSet::from(["Other".to_owned()]);
        let variants = values.iter().map(|value| Variant {
            ident: rust_names::variant(value, &mut used),
            value: (*value).to_owned(),
        });
        let body = Body::Enum { variants: variants.collect() };
        let about = text_or(schema, &format!("Values of a {}.", self.kind));
        self.items.push(RustItem { name: name.clone(), doc: about, body, has_default: false });
        Type::Named { name, has_default: false }
    }
}

/// Whether objects of the schema are `Condition`s of Kubernetes.
fn is_condition(schema: &Value) -> bool {
    let all = ["lastTransitionTime", "message", "observedGeneration", "reason", "status", "type"];
    let mut found: Vec<&str> =
        schema["properties"].as_object().into_iter().flatten().map(|(name, _)| &**name).collect();
    let mut needed = required(schema);
    found.sort_unstable();
    needed.sort_unstable();
    found == all && needed == ["lastTransitionTime", "message", "reason", "status", "type"]
}

fn append(doc: &mut String, text: &str) {
    if !doc.is_empty() && !text.is_empty() {
        doc.push_str("\n\n");
    }
    doc.push_str(text);
}

impl Type {
    fn has_default(&self) -> bool {
        match self {
            Self::Named { has_default, .. } => *has_default,
            Self::Condition => false,
            _ => true,
        }
    }

    /// The type in Rust.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Bool => "bool".to_owned(),
            Self::I32 => "i32".to_owned(),
            Self::I64 => "i64".to_owned(),
            Self::F64 => "f64".to_owned(),
            Self::String => "String".to_owned(),
            Self::IntOrString => "IntOrString".to_owned(),
            Self::Condition => "Condition".to_owned(),
            Self::Any => "Value".to_owned(),
            Self::List(items) => format!("Vec<{}>", items.text()),
            Self::Map(values) => format!("BTreeMap<String, {}>", values.text()),
            Self::Named { name, .. } => name.clone(),
        }
    }
}
