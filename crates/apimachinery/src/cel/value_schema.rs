//! Schemas of the values that rules of custom resources see.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::object_fields::object_fields;
use super::property_name;
use super::times::Moment;
use super::types::Type;
use super::value::{RcCow, Val};
use crate::go;
use crate::schema::JsonType;

/// Schema of a value, as far as expressions depend on it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ValueSchema {
    /// Declared type; `None` if the schema has none.
    pub(super) kind: Option<JsonType>,
    /// Format of strings.
    pub(super) format: String,
    pub(super) nullable: bool,
    pub(super) int_or_string: bool,
    pub(super) preserve_unknown: bool,
    /// Declared properties; `None` if the schema declares none, so that an object is a map.
    pub(super) properties: Option<BTreeMap<String, Arc<ValueSchema>>>,
    /// Schema of the values of a map.
    pub(super) additional: Option<Arc<ValueSchema>>,
    pub(super) items: Option<Arc<ValueSchema>>,
    pub(super) list: SchemaList,
    /// Schema that an expression sees of an embedded object, which has a type and a name.
    visible: Option<Box<ValueSchema>>,
}

/// Meaning of the order of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum SchemaList {
    #[default]
    Atomic,
    Set,
    /// The order does not count; these properties identify an element.
    Keyed(Vec<ListKey>),
}

/// Property that identifies the elements of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ListKey {
    pub(super) name: String,
    /// Escaped name; the name itself, if it cannot be escaped.
    pub(super) identifier: String,
}

impl ValueSchema {
    /// Reads the schema of a custom kind (`openAPIV3Schema`) or a part of it.
    pub(super) fn read(source: &Value) -> Self {
        let is = |name: &str| source[name] == true;
        let child = |source: &Value| Arc::new(Self::read(source));
        let keys = || {
            let keys = source["x-kubernetes-list-map-keys"].as_array().into_iter().flatten();
            let key = |name: &str| ListKey {
                identifier: property_name::escape(name).map_or_else(|| name.to_owned(), Into::into),
                name: name.to_owned(),
            };
            keys.filter_map(Value::as_str).map(key).collect()
        };
        let properties = source["properties"].as_object().filter(|properties| !properties.is_empty());
        let mut schema = Self {
            kind: source["type"].as_str().and_then(JsonType::parse),
            format: source["format"].as_str().unwrap_or_default().to_owned(),
            nullable: is("nullable"),
            int_or_string: is("x-kubernetes-int-or-string"),
            preserve_unknown: is("x-kubernetes-preserve-unknown-fields"),
            properties: properties.map(|properties| {
                properties.iter().map(|(name, property)| (name.clone(), child(property))).collect()
            }),
            additional: source["additionalProperties"]
                .is_object()
                .then(|| child(&source["additionalProperties"])),
            items: source["items"].is_object().then(|| child(&source["items"])),
            list: match source["x-kubernetes-list-type"].as_str() {
                Some("set") => SchemaList::Set,
                Some("map") => SchemaList::Keyed(keys()),
                _ => SchemaList::Atomic,
            },
            visible: None,
        };
        if is("x-kubernetes-embedded-resource") {
            schema.visible = Some(Box::new(schema.clone().with_object_fields(source)));
        }
        schema
    }

    /// Adds the [fields of every object](object_fields) to a schema that was read from `source`.
    #[must_use]
    pub(super) fn with_object_fields(mut self, source: &Value) -> Self {
        let fields = object_fields(&source["properties"]);
        let fields = fields.iter().map(|(name, field)| ((*name).to_owned(), Arc::new(Self::read(field))));
        self.properties.get_or_insert_default().extend(fields);
        self
    }

    /// Whether objects have declared fields; otherwise they are maps.
    pub(super) fn has_fields(&self) -> bool {
        self.properties.is_some()
    }

    /// Whether expressions see the field or entry of this name.
    pub(super) fn declares(&self, name: &str) -> bool {
        self.child(name).is_some()
    }

    pub(super) fn child(&self, name: &str) -> Option<&Self> {
        match &self.properties {
            Some(properties) => properties.get(name).map(|child| &**child),
            None => self.additional.as_deref(),
        }
    }

    /// Whether rules see values of this schema. Values of unknown shape are hidden, and lists and maps of them.
    pub(super) fn is_visible(&self) -> bool {
        if self.int_or_string {
            return true;
        }
        match self.kind {
            Some(JsonType::Array) => self.items.as_ref().is_some_and(|items| items.is_visible()),
            Some(JsonType::Object) => self.additional.as_ref().is_none_or(|values| values.is_visible()),
            kind => kind.is_some(),
        }
    }

    /// Returns the type that expressions see; `None` if they do not see values of this schema. `name` is the name of an object's type.
    pub(super) fn declared_type(&self, name: &str) -> Option<Type> {
        if self.int_or_string {
            return Some(Type::Dyn);
        }
        let schema = self.visible.as_deref().unwrap_or(self);
        Some(match schema.kind? {
            JsonType::Array => {
                Type::List(Box::new(schema.items.as_ref()?.declared_type(&format!("{name}.@idx"))?))
            }
            JsonType::Object => match &schema.additional {
                Some(values) => {
                    let of = values.declared_type(&format!("{name}.@elem"))?;
                    Type::Map(Box::new(Type::String), Box::new(of))
                }
                None => {
                    let fields = schema.properties.iter().flatten().filter_map(|(field, schema)| {
                        let identifier = property_name::escape(field)?;
                        let of = schema.declared_type(&format!("{name}.{identifier}"))?;
                        Some((identifier.into_owned(), of))
                    });
                    Type::Composed(name.into(), Arc::new(fields.collect()))
                }
            },
            JsonType::String => match schema.format.as_str() {
                "byte" => Type::Bytes,
                "duration" => Type::Duration,
                "date" | "date-time" => Type::Timestamp,
                _ => Type::String,
            },
            JsonType::Boolean => Type::Bool,
            JsonType::Number => Type::Double,
            JsonType::Integer => Type::Int,
        })
    }

    /// Returns the value of a field, given its escaped name, or of an entry of a map.
    pub(super) fn find<'a>(&'a self, map: &'a Map<String, Value>, key: &str) -> Option<Val<'a>> {
        if !self.has_fields() {
            let value = map.get(key)?;
            return Some(self.additional.as_ref()?.value(value));
        }
        let name = property_name::unescape(key)?;
        // A field that is null counts as absent.
        let value = map.get(&*name).filter(|value| !value.is_null())?;
        Some(self.child(&name)?.value(value))
    }

    /// Returns the value of an element of a list.
    pub(super) fn element<'a>(&'a self, element: &'a Value) -> Val<'a> {
        match &self.items {
            Some(items) => items.value(element),
            None => unusable("invalid array type, expected Items with a non-empty Schema"),
        }
    }

    /// Returns the value that an expression sees.
    pub(super) fn value<'a>(&'a self, value: &'a Value) -> Val<'a> {
        let invalid = |expected: &str| {
            unusable(format!("invalid data, expected {expected}, got {}", go::type_of(value)))
        };
        if value.is_null() {
            let why = "invalid data, got null for schema with nullable=false";
            return if self.nullable { Val::Null } else { unusable(why) };
        }
        if self.int_or_string {
            return match value {
                Value::String(_) => Val::json(value),
                Value::Number(number) if number.is_i64() => Val::json(value),
                _ => unusable("invalid data, expected XIntOrString value to be either a string or integer"),
            };
        }
        match (self.kind, value) {
            (Some(JsonType::Object), Value::Object(map)) => {
                Val::TypedMap(map, self.visible.as_deref().unwrap_or(self))
            }
            (Some(JsonType::Object), _) => {
                unusable("invalid data, expected a map for the provided schema with type=object")
            }
            (Some(JsonType::Array), Value::Array(list)) => Val::TypedList(list, self),
            (Some(JsonType::Array), _) => {
                unusable("invalid data, expected an array for the provided schema with type=array")
            }
            (Some(JsonType::String), Value::String(text)) => self.text(text),
            (Some(JsonType::String), _) => invalid("string"),
            (Some(JsonType::Number), Value::Number(number)) => {
                Val::Double(number.as_f64().unwrap_or_default())
            }
            (Some(JsonType::Number), _) => invalid("float"),
            (Some(JsonType::Integer), Value::Number(number)) if number.is_i64() => Val::json(value),
            (Some(JsonType::Integer), _) => invalid("int"),
            (Some(JsonType::Boolean), Value::Bool(value)) => Val::Bool(*value),
            (Some(JsonType::Boolean), _) => invalid("bool"),
            (None, _) if self.preserve_unknown => Val::Preserved(value),
            (None, _) => unusable(
                "invalid type, expected object, array, number, integer, boolean or string, or no type with \
                 x-kubernetes-int-or-string or x-kubernetes-preserve-unknown-fields is true, got ",
            ),
        }
    }

    fn text<'a>(&self, text: &'a str) -> Val<'a> {
        match self.format.as_str() {
            "duration" => match go::loose_duration(text) {
                Ok(nanoseconds) => Val::Duration(nanoseconds),
                Err(why) => unusable(format!("Invalid duration {text}: {why}")),
            },
            "date" => match Moment::of_date(text) {
                Ok(moment) => Val::Timestamp(moment),
                Err(why) => unusable(format!("Invalid date formatted string {text}: {why}")),
            },
            "date-time" => match Moment::of_schema(text) {
                Ok(moment) => Val::Timestamp(moment),
                Err(why) => unusable(format!("Invalid date-time formatted string {text}: {why}")),
            },
            "byte" => match STANDARD.decode(text) {
                Ok(bytes) => Val::Bytes(RcCow::Owned(bytes.into())),
                Err(why) => unusable(format!("Invalid byte formatted string {text}: {why}")),
            },
            _ => Val::String(RcCow::Borrowed(text)),
        }
    }
}

fn unusable(why: impl Into<Rc<str>>) -> Val<'static> {
    Val::Unusable(why.into())
}
