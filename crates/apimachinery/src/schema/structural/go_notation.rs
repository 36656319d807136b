//! Schemas as kube-apiserver shows them in messages: JSON of its internal Go structs, with the names of Go's fields.

use std::fmt::Write;

use serde_json::Value;

use super::source::{Additional, Items, additional, given, items};

/// Number of bytes after which a message leaves out the rest of a schema.
const LENGTH: usize = 64 << 10;

/// Type of a field.
#[derive(Clone, Copy)]
enum FieldFormat {
    Text,
    Flag,
    /// A pointer, list or JSON value, which is `null` if it is absent.
    Optional,
    Schema,
    Schemas,
    SchemaMap,
    Items,
    SchemaOrBool,
    Dependencies,
    Documentation,
}

const FIELDS: [(&str, &str, FieldFormat); 43] = [
    ("ID", "id", FieldFormat::Text),
    ("Schema", "$schema", FieldFormat::Text),
    ("Ref", "$ref", FieldFormat::Optional),
    ("Description", "description", FieldFormat::Text),
    ("Type", "type", FieldFormat::Text),
    ("Nullable", "nullable", FieldFormat::Flag),
    ("Format", "format", FieldFormat::Text),
    ("Title", "title", FieldFormat::Text),
    ("Default", "default", FieldFormat::Optional),
    ("Maximum", "maximum", FieldFormat::Optional),
    ("ExclusiveMaximum", "exclusiveMaximum", FieldFormat::Flag),
    ("Minimum", "minimum", FieldFormat::Optional),
    ("ExclusiveMinimum", "exclusiveMinimum", FieldFormat::Flag),
    ("MaxLength", "maxLength", FieldFormat::Optional),
    ("MinLength", "minLength", FieldFormat::Optional),
    ("Pattern", "pattern", FieldFormat::Text),
    ("MaxItems", "maxItems", FieldFormat::Optional),
    ("MinItems", "minItems", FieldFormat::Optional),
    ("UniqueItems", "uniqueItems", FieldFormat::Flag),
    ("MultipleOf", "multipleOf", FieldFormat::Optional),
    ("Enum", "enum", FieldFormat::Optional),
    ("MaxProperties", "maxProperties", FieldFormat::Optional),
    ("MinProperties", "minProperties", FieldFormat::Optional),
    ("Required", "required", FieldFormat::Optional),
    ("Items", "items", FieldFormat::Items),
    ("AllOf", "allOf", FieldFormat::Schemas),
    ("OneOf", "oneOf", FieldFormat::Schemas),
    ("AnyOf", "anyOf", FieldFormat::Schemas),
    ("Not", "not", FieldFormat::Schema),
    ("Properties", "properties", FieldFormat::SchemaMap),
    ("AdditionalProperties", "additionalProperties", FieldFormat::SchemaOrBool),
    ("PatternProperties", "patternProperties", FieldFormat::SchemaMap),
    ("Dependencies", "dependencies", FieldFormat::Dependencies),
    ("AdditionalItems", "additionalItems", FieldFormat::SchemaOrBool),
    ("Definitions", "definitions", FieldFormat::SchemaMap),
    ("ExternalDocs", "externalDocs", FieldFormat::Documentation),
    ("Example", "example", FieldFormat::Optional),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", FieldFormat::Optional),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", FieldFormat::Flag),
    ("XIntOrString", "x-kubernetes-int-or-string", FieldFormat::Flag),
    ("XListMapKeys", "x-kubernetes-list-map-keys", FieldFormat::Optional),
    ("XListType", "x-kubernetes-list-type", FieldFormat::Optional),
    ("XMapType", "x-kubernetes-map-type", FieldFormat::Optional),
];

/// Iterates over the keywords in the order of Go's fields.
pub(super) fn keys() -> impl Iterator<Item = &'static str> {
    FIELDS.iter().map(|(_, key, _)| *key)
}

/// Returns a schema as text. Beyond [`LENGTH`] bytes it is cut off.
pub(in super::super) fn show(schema: &Value) -> String {
    let mut writer = GoNotation { out: String::new() };
    writer.schema(schema);
    writer.finish()
}

/// Like [`show`], but for `items` of a schema.
pub(super) fn show_items(schema: &Value) -> String {
    let mut writer = GoNotation { out: String::new() };
    writer.field(schema, "items", FieldFormat::Items);
    writer.finish()
}

struct GoNotation {
    out: String,
}

impl GoNotation {
    fn finish(self) -> String {
        let mut out = self.out;
        if out.len() > LENGTH {
            out.truncate(out.floor_char_boundary(LENGTH));
            out.push('…');
        }
        out
    }

    fn is_full(&self) -> bool {
        self.out.len() > LENGTH
    }

    fn schema(&mut self, schema: &Value) {
        if !schema.is_object() {
            self.out.push_str("null");
            return;
        }
        for (index, (name, key, field)) in FIELDS.iter().enumerate() {
            // Writing more would be wasted: `finish` cuts the text off.
            if self.is_full() {
                return;
            }
            let opening = if index == 0 { '{' } else { ',' };
            let _ = write!(self.out, "{opening}\"{name}\":");
            self.field(schema, key, *field);
        }
        // The rules are the last field of the Go struct.
        self.out.push_str(",\"XValidations\":");
        self.list(&schema["x-kubernetes-validations"], Self::rule);
        self.out.push('}');
    }

    fn field(&mut self, schema: &Value, key: &str, field: FieldFormat) {
        let value = given(schema, key);
        match field {
            FieldFormat::Text => self.text(schema, key),
            FieldFormat::Flag => self.out.push_str(if schema[key] == true { "true" } else { "false" }),
            FieldFormat::Optional => self.json(value.unwrap_or(&Value::Null)),
            FieldFormat::Schema => self.schema(&schema[key]),
            FieldFormat::Schemas => self.list(&schema[key], Self::schema),
            FieldFormat::SchemaMap => self.map(&schema[key], Self::schema),
            FieldFormat::Items => match items(schema) {
                Items::Absent => self.out.push_str("null"),
                Items::Schema(item) => {
                    self.out.push_str("{\"Schema\":");
                    self.schema(item);
                    self.out.push_str(",\"JSONSchemas\":null}");
                }
                Items::List(_) => {
                    self.out.push_str("{\"Schema\":null,\"JSONSchemas\":");
                    self.list(&schema[key], Self::schema);
                    self.out.push('}');
                }
            },
            FieldFormat::SchemaOrBool => match additional_of(schema, key) {
                Additional::Absent => self.out.push_str("null"),
                Additional::Any => self.out.push_str("{\"Allows\":true,\"Schema\":null}"),
                Additional::Nothing => self.out.push_str("{\"Allows\":false,\"Schema\":null}"),
                Additional::Schema(child) => {
                    self.out.push_str("{\"Allows\":true,\"Schema\":");
                    self.schema(child);
                    self.out.push('}');
                }
            },
            FieldFormat::Dependencies => self.map(&schema[key], Self::dependency),
            FieldFormat::Documentation => match value {
                None => self.out.push_str("null"),
                Some(value) => self.texts(value, &[("Description", "description"), ("URL", "url")]),
            },
        }
    }

    fn dependency(&mut self, value: &Value) {
        // A dependency is a schema or a list of property names. Go shows both fields.
        self.out.push_str("{\"Schema\":");
        self.schema(value);
        self.out.push_str(",\"Property\":");
        self.json(if value.is_array() { value } else { &Value::Null });
        self.out.push('}');
    }

    fn rule(&mut self, rule: &Value) {
        self.texts(
            rule,
            &[("Rule", "rule"), ("Message", "message"), ("MessageExpression", "messageExpression")],
        );
        // More fields follow, so the closing brace is removed again.
        self.out.pop();
        self.out.push_str(",\"Reason\":");
        self.json(&rule["reason"]);
        self.out.push_str(",\"FieldPath\":");
        self.text(rule, "fieldPath");
        self.out.push_str(",\"OptionalOldSelf\":");
        self.json(&rule["optionalOldSelf"]);
        self.out.push('}');
    }

    fn texts(&mut self, value: &Value, fields: &[(&str, &str)]) {
        for (index, (name, key)) in fields.iter().enumerate() {
            let _ = write!(self.out, "{}\"{name}\":", if index == 0 { '{' } else { ',' });
            self.text(value, key);
        }
        self.out.push('}');
    }

    fn text(&mut self, value: &Value, key: &str) {
        match given(value, key) {
            Some(value) => self.json(value),
            None => self.out.push_str("\"\""),
        }
    }

    fn json(&mut self, value: &Value) {
        let _ = write!(self.out, "{value}");
    }

    fn list(&mut self, list: &Value, element: fn(&mut Self, &Value)) {
        let Some(list) = list.as_array() else {
            self.out.push_str("null");
            return;
        };
        self.out.push('[');
        for (index, value) in list.iter().enumerate() {
            if self.is_full() {
                return;
            }
            if index > 0 {
                self.out.push(',');
            }
            element(self, value);
        }
        self.out.push(']');
    }

    fn map(&mut self, map: &Value, entry: fn(&mut Self, &Value)) {
        let Some(map) = map.as_object() else {
            self.out.push_str("null");
            return;
        };
        self.out.push('{');
        for (index, (name, value)) in map.iter().enumerate() {
            if self.is_full() {
                return;
            }
            if index > 0 {
                self.out.push(',');
            }
            let _ = write!(self.out, "{}:", Value::from(name.as_str()));
            entry(self, value);
        }
        self.out.push('}');
    }
}

fn additional_of<'a>(schema: &'a Value, key: &str) -> Additional<'a> {
    if key == "additionalProperties" {
        return additional(schema);
    }
    match &schema[key] {
        Value::Null => Additional::Absent,
        Value::Bool(true) => Additional::Any,
        Value::Bool(false) => Additional::Nothing,
        schema => Additional::Schema(schema),
    }
}
