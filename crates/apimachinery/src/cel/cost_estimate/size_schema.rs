//! Sizes that a schema allows.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::super::object_fields::object_fields;
use super::super::property_name;

/// Maximum size of a request in bytes, from which kube-apiserver derives sizes that a schema does not limit.
const REQUEST: u64 = 3 << 20;
/// Bytes of the longest and the shortest duration in JSON.
const DURATION: (u64, u64) = (32, 3);
/// Bytes of the longest and the shortest time in JSON.
const DATE_TIME: (u64, u64) = (32, 21);
/// Bytes of a date in JSON.
const DATE: u64 = 12;

/// Values that a schema describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SchemaValues {
    /// Kubernetes objects. Expressions always see their type and their name.
    KubernetesObjects,
    /// Parts of an object.
    Parts,
}

/// Sizes of a value and of the values inside it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SizeSchema {
    /// Maximum number of characters, elements or entries.
    elements: u64,
    /// Bytes of the shortest value in JSON.
    shortest: u64,
    fields: BTreeMap<String, Arc<SizeSchema>>,
    keys: Option<Arc<SizeSchema>>,
    /// Elements of a list, or values of a map.
    values: Option<Arc<SizeSchema>>,
    /// Whether the values of a map are also found by their keys.
    finds_keys: bool,
}

impl SizeSchema {
    /// Returns the sizes of a value without parts.
    #[must_use]
    pub fn value(elements: u64) -> Self {
        Self { elements, ..Self::default() }
    }

    /// Returns the sizes of an object with these fields.
    #[must_use]
    pub fn object(fields: Vec<(&str, Self)>) -> Self {
        let fields = fields.into_iter().map(|(name, sizes)| (name.to_owned(), Arc::new(sizes)));
        Self { fields: fields.collect(), ..Self::default() }
    }

    /// Returns the sizes of a map with at most so many entries.
    #[must_use]
    pub fn map(keys: Self, values: Self, entries: u64) -> Self {
        Self {
            elements: entries,
            keys: Some(Arc::new(keys)),
            values: Some(Arc::new(values)),
            ..Self::default()
        }
    }

    /// Lets the size of a map's value be found by its key. kube-apiserver only does this for the attributes of devices.
    #[must_use]
    pub fn with_keys(mut self) -> Self {
        self.finds_keys = true;
        self
    }

    /// Reads the schema of a custom kind or a part of it; `None` if expressions do not see its values.
    pub(crate) fn read(schema: &Value, values: SchemaValues) -> Option<Self> {
        let limit = |name: &str| schema[name].as_i64().map(|limit| limit.max(0).unsigned_abs());
        let text = |elements: u64, shortest: u64| Self { elements, shortest, ..Self::default() };
        if schema["x-kubernetes-int-or-string"] == true {
            return Some(text(limit("maxLength").map_or(REQUEST - 2, |length| length.saturating_mul(4)), 1));
        }
        let below = |schema: &Value| Self::read(schema, SchemaValues::of_part(schema)).map(Arc::new);
        match schema["type"].as_str()? {
            "array" => {
                let items = below(&schema["items"])?;
                let elements = limit("maxItems").unwrap_or((REQUEST - 2) / (items.shortest + 1));
                Some(Self { elements, shortest: 2, values: Some(items), ..Self::default() })
            }
            "object" if schema["additionalProperties"].is_object() => {
                let values = below(&schema["additionalProperties"])?;
                // The shortest entry has an empty key, a colon and a comma.
                let entries = limit("maxProperties").unwrap_or((REQUEST - 2) / (values.shortest + 6));
                Some(Self {
                    elements: entries,
                    shortest: 2,
                    keys: Some(Arc::new(text(0, 2))),
                    values: Some(values),
                    ..Self::default()
                })
            }
            "object" => Some(Self::read_object(schema, values)),
            "string" => Some(match schema["format"].as_str() {
                Some("byte") => text(limit("maxLength").unwrap_or(REQUEST - 2), 2),
                Some("duration") => text(DURATION.0, DURATION.1),
                Some("date") => text(DATE, DATE),
                Some("date-time") => text(DATE_TIME.0, DATE_TIME.1),
                _ => text(
                    limit("maxLength").map_or_else(|| longest(schema), |length| length.saturating_mul(4)),
                    2,
                ),
            }),
            "boolean" => Some(text(0, 4)),
            "number" | "integer" => Some(text(0, 1)),
            _ => None,
        }
    }

    fn read_object(schema: &Value, values: SchemaValues) -> Self {
        let replaced = match values {
            SchemaValues::KubernetesObjects => object_fields(&schema["properties"]),
            SchemaValues::Parts => BTreeMap::new(),
        };
        let declared = schema["properties"].as_object().into_iter().flatten();
        let declared = declared.filter(|(name, _)| !replaced.contains_key(name.as_str()));
        let properties = declared.map(|(name, property)| (name.as_str(), property));
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let mut object = Self { shortest: 2, ..Self::default() };
        for (name, property) in properties.chain(replaced.iter().map(|(name, property)| (*name, property))) {
            let Some(sizes) = Self::read(property, SchemaValues::of_part(property)) else { continue };
            // A field with a default need not be written.
            if required.contains(&name) && property["default"].is_null() {
                object.shortest += name.len() as u64 + sizes.shortest + 4;
            }
            if let Some(identifier) = property_name::escape(name) {
                object.fields.insert(identifier.into_owned(), Arc::new(sizes));
            }
        }
        object
    }

    /// Returns how many values fit into a request, each with a comma.
    pub(crate) fn count_in_request(&self) -> u64 {
        REQUEST / (self.shortest + 1)
    }

    /// Returns the sizes of a property.
    pub(crate) fn property(&self, name: &str) -> Option<&Arc<Self>> {
        self.fields.get(&*property_name::escape(name)?)
    }

    /// Returns the sizes of the elements of a list, or of the values of a map.
    pub(crate) fn values(&self) -> Option<&Arc<Self>> {
        self.values.as_ref()
    }

    /// Returns the maximum size of the value at a path below this one; `None` if it is unknown.
    pub(super) fn find(&self, path: &[&str]) -> Option<u64> {
        let mut place = self;
        for name in path {
            place = match *name {
                "@items" | "@values" => place.values.as_deref()?,
                "@keys" => place.keys.as_deref()?,
                name => match place.fields.get(name) {
                    Some(field) => field,
                    None => place.values.as_deref().filter(|_| place.finds_keys)?,
                },
            };
        }
        Some(place.elements)
    }
}

impl SchemaValues {
    /// Returns the values of a schema inside another one.
    pub(crate) fn of_part(schema: &Value) -> Self {
        if schema["x-kubernetes-embedded-resource"] == true { Self::KubernetesObjects } else { Self::Parts }
    }
}

/// Returns the length of the longest text of an enumeration, or of the longest that fits into a request.
fn longest(schema: &Value) -> u64 {
    let texts = schema["enum"].as_array().filter(|texts| !texts.is_empty());
    let length = |text: &Value| text.as_str().map_or(0, str::len) as u64;
    texts.map_or(REQUEST - 2, |texts| texts.iter().map(length).max().unwrap_or(0))
}
