//! Schemas as kube-apiserver shows them in messages: JSON of its internal Go structs, with the names of Go's fields.

use std::fmt::Write;

use serde_json::Value;

use super::source::{Additional, Items, additional, given, items};

/// Number of bytes after which a message shows no further parts of a schema.
const LENGTH: usize = 64 << 10;

/// Type of a field.
#[derive(Clone, Copy)]
enum Field {
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

const FIELDS: [(&str, &str, Field); 43] = [
    ("ID", "id", Field::Text),
    ("Schema", "$schema", Field::Text),
    ("Ref", "$ref", Field::Optional),
    ("Description", "description", Field::Text),
    ("Type", "type", Field::Text),
    ("Nullable", "nullable", Field::Flag),
    ("Format", "format", Field::Text),
    ("Title", "title", Field::Text),
    ("Default", "default", Field::Optional),
    ("Maximum", "maximum", Field::Optional),
    ("ExclusiveMaximum", "exclusiveMaximum", Field::Flag),
    ("Minimum", "minimum", Field::Optional),
    ("ExclusiveMinimum", "exclusiveMinimum", Field::Flag),
    ("MaxLength", "maxLength", Field::Optional),
    ("MinLength", "minLength", Field::Optional),
    ("Pattern", "pattern", Field::Text),
    ("MaxItems", "maxItems", Field::Optional),
    ("MinItems", "minItems", Field::Optional),
    ("UniqueItems", "uniqueItems", Field::Flag),
    ("MultipleOf", "multipleOf", Field::Optional),
    ("Enum", "enum", Field::Optional),
    ("MaxProperties", "maxProperties", Field::Optional),
    ("MinProperties", "minProperties", Field::Optional),
    ("Required", "required", Field::Optional),
    ("Items", "items", Field::Items),
    ("AllOf", "allOf", Field::Schemas),
    ("OneOf", "oneOf", Field::Schemas),
    ("AnyOf", "anyOf", Field::Schemas),
    ("Not", "not", Field::Schema),
    ("Properties", "properties", Field::SchemaMap),
    ("AdditionalProperties", "additionalProperties", Field::SchemaOrBool),
    ("PatternProperties", "patternProperties", Field::SchemaMap),
    ("Dependencies", "dependencies", Field::Dependencies),
    ("AdditionalItems", "additionalItems", Field::SchemaOrBool),
    ("Definitions", "definitions", Field::SchemaMap),
    ("ExternalDocs", "externalDocs", Field::Documentation),
    ("Example", "example", Field::Optional),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", Field::Optional),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", Field::Flag),
    ("XIntOrString", "x-kubernetes-int-or-string", Field::Flag),
    ("XListMapKeys", "x-kubernetes-list-map-keys", Field::Optional),
    ("XListType", "x-kubernetes-list-type", Field::Optional),
    ("XMapType", "x-kubernetes-map-type", Field::Optional),
];

/// Iterates over the keywords in the order of Go's fields.
pub(super) fn keys() -> impl Iterator<Item = &'static str> {
    FIELDS.iter().map(|(_, key, _)| *key)
}

/// Returns a schema as text. Beyond [`LENGTH`] bytes it is cut off.
pub(in super::super) fn show(schema: &Value) -> String {
    let mut writer = Writer { out: String::new() };
    writer.schema(schema);
    writer.finish()
}

/// Like [`show`], but for `items` of a schema.
pub(super) fn show_items(schema: &Value) -> String {
    let mut writer = Writer { out: String::new() };
    writer.field(schema, "items", Field::Items);
    writer.finish()
}

struct Writer {
    out: String,
}

impl Writer {
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
            if self.is_full() {
                return;
            }
            let opening = if index == 0 { '{' } else { ',' };
            let _ = write!(self.out, "{opening}\"{name}\":");
            self.field(schema, key, *field);
        }
        self.out.push_str(",\"XValidations\":");
        self.list(&schema["x-kubernetes-validations"], Self::rule);
        self.out.push('}');
    }

    fn field(&mut self, schema: &Value, key: &str, field: Field) {
        let value = given(schema, key);
        match field {
            Field::Text => self.text(schema, key),
            Field::Flag => self.out.push_str(if schema[key] == true { "true" } else { "false" }),
            Field::Optional => self.json(value.unwrap_or(&Value::Null)),
            Field::Schema => self.schema(&schema[key]),
            Field::Schemas => self.list(&schema[key], Self::schema),
            Field::SchemaMap => self.map(&schema[key], Self::schema),
            Field::Items => match items(schema) {
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
            Field::SchemaOrBool => match additional_of(schema, key) {
                Additional::Absent => self.out.push_str("null"),
                Additional::Any => self.out.push_str("{\"Allows\":true,\"Schema\":null}"),
                Additional::Nothing => self.out.push_str("{\"Allows\":false,\"Schema\":null}"),
                Additional::Schema(child) => {
                    self.out.push_str("{\"Allows\":true,\"Schema\":");
                    self.schema(child);
                    self.out.push('}');
                }
            },
            Field::Dependencies => self.map(&schema[key], Self::dependency),
            Field::Documentation => match value {
                None => self.out.push_str("null"),
                Some(value) => self.texts(value, &[("Description", "description"), ("URL", "url")]),
            },
        }
    }

    fn dependency(&mut self, value: &Value) {
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
