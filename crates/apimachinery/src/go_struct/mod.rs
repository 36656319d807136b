//! Go's API structs as messages: their fields with protobuf numbers and JSON names.

mod declared_order;
mod empty_collections;
mod internal_struct;
mod messages;
mod repeated_fields;
mod round_trip;
mod scalar;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;

pub(crate) use declared_order::declared_place;
pub use declared_order::patched_text;
pub use empty_collections::EmptyCollections;
pub use internal_struct::{internal_diff, internal_text};
pub use messages::{has_kind, message, message_of_kind};
pub use repeated_fields::merge_repeated;
pub use round_trip::{complete, forget_empty, recall_empty};

/// A Go struct. Its fields are parsed on first use.
pub struct Message {
    name: &'static str,
    source: &'static str,
    fields: OnceLock<Vec<Field>>,
    slots: OnceLock<Vec<Slot>>,
}

/// A field of the JSON object, which may come from an embedded struct.
#[derive(Debug, Clone, Copy)]
pub struct Slot {
    /// The field.
    pub field: &'static Field,
    /// Position of the field in the order in which protobuf writes the fields.
    pub place: usize,
}

/// A field of a struct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Protobuf field number.
    pub number: u64,
    /// JSON name; empty for an embedded struct: its fields belong to the surrounding object.
    pub name: &'static str,
    /// Whether the field is a single value, a list or a map.
    pub count: Count,
    /// Type of the value, or of each element.
    pub kind: GoType,
    /// Whether JSON contains the field even if it is empty (Go: no `omitempty`).
    pub always: bool,
    /// Whether Go distinguishes an absent value from a zero; only relevant for single values.
    pub pointer: bool,
}

/// Number of values of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    /// A single value.
    One,
    /// A list.
    List,
    /// A map with string keys.
    Map,
}

/// Type of a field's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GoType {
    /// Text.
    String,
    /// Base64 in JSON.
    Bytes,
    /// `true` or `false`.
    Bool,
    /// Integer of 32 bits.
    Int32,
    /// Integer of 64 bits.
    Int64,
    /// Floating-point number.
    Double,
    /// Seconds and nanoseconds in protobuf; RFC 3339 in whole seconds in JSON.
    Time,
    /// Like [`Time`](Self::Time), with six decimals in JSON.
    MicroTime,
    /// Amount such as `500m`.
    Quantity,
    /// Integer or text, such as a port.
    IntOrString,
    /// JSON text in one bytes field.
    Json,
    /// A message that contains only a list of strings.
    Strings,
    /// A schema or another value in its place, distinguished by the field number.
    OneOf(Alternative, &'static Message),
    /// Another struct.
    Message(&'static Message),
}

/// Values that may stand in the place of a schema, by the name of the Go type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alternative {
    /// `JSONSchemaPropsOrArray`.
    Schemas,
    /// `JSONSchemaPropsOrBool`.
    Bool,
    /// `JSONSchemaPropsOrStringArray`.
    Strings,
}

/// Prints only the name, because structs may contain themselves.
impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Message {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Message {}

impl Message {
    pub(crate) fn new((name, source): (&'static str, &'static str)) -> Self {
        Self { name, source, fields: OnceLock::new(), slots: OnceLock::new() }
    }

    /// Returns the name, such as `apps.v1.Deployment`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the fields in ascending order of number.
    pub fn fields(&self) -> &[Field] {
        self.fields.get_or_init(|| parse(self.source))
    }

    /// Returns the field with this protobuf number.
    pub fn field(&self, number: u64) -> Option<&Field> {
        let fields = self.fields();
        let found = fields.binary_search_by_key(&number, |field| field.number).ok()?;
        Some(&fields[found])
    }

    /// Returns the field with this JSON name.
    pub fn slot(&'static self, name: &str) -> Option<Slot> {
        // The index is built on first use, because most structs are never looked up by JSON name.
        let slots = self.slots.get_or_init(|| {
            let mut fields = Vec::new();
            self.flatten(&mut fields);
            let places = fields.into_iter().enumerate();
            let mut slots: Vec<Slot> = places.map(|(place, field)| Slot { field, place }).collect();
            slots.sort_by_key(|slot| slot.field.name);
            slots
        });
        let found = slots.binary_search_by(|slot| slot.field.name.cmp(name)).ok()?;
        Some(slots[found])
    }

    /// Appends the fields in protobuf order, with those of an embedded struct in its place.
    fn flatten(&'static self, fields: &mut Vec<&'static Field>) {
        for field in self.fields() {
            match field.embedded() {
                Some(message) => message.flatten(fields),
                None => fields.push(field),
            }
        }
    }
}

impl Field {
    /// Returns the embedded struct, if this field is one.
    #[must_use]
    pub fn embedded(&self) -> Option<&'static Message> {
        match self.kind {
            GoType::Message(message) if self.name.is_empty() => Some(message),
            _ => None,
        }
    }
}

/// Parses `{"1":["replicas","int32:varint","*"],…}`. Invalid entries are skipped instead of reported: the files belong to this crate, and a
/// test parses all of them.
fn parse(source: &'static str) -> Vec<Field> {
    let entries: BTreeMap<&str, Vec<&'static str>> = serde_json::from_str(source).unwrap_or_default();
    let mut fields: Vec<Field> = entries
        .into_iter()
        .filter_map(|(number, entry)| {
            let (&name, &text) = (entry.first()?, entry.get(1)?);
            let flags = entry.get(2).copied().unwrap_or_default();
            let (count, element) = match (text.strip_prefix("[]"), text.strip_prefix("map:")) {
                (Some(element), _) => (Count::List, element),
                (_, Some(element)) => (Count::Map, element),
                _ => (Count::One, text),
            };
            Some(Field {
                number: number.parse().ok()?,
                name,
                count,
                kind: kind(element)?,
                always: flags.contains('!'),
                pointer: flags.contains('*'),
            })
        })
        .collect();
    // The map of the data file sorts the numbers as texts, and the search by number needs them in numeric order.
    fields.sort_by_key(|field| field.number);
    fields
}

fn kind(element: &str) -> Option<GoType> {
    let one_of = |other| Some(GoType::OneOf(other, message("apiextensions.v1.JSONSchemaProps")?));
    Some(match element {
        "string" => GoType::String,
        "bytes" => GoType::Bytes,
        "bool" => GoType::Bool,
        "double" => GoType::Double,
        "meta.v1.Time" => GoType::Time,
        "meta.v1.MicroTime" => GoType::MicroTime,
        "resource.Quantity" => GoType::Quantity,
        "util.intstr.IntOrString" => GoType::IntOrString,
        "runtime.RawExtension" | "apiextensions.v1.JSON" | "meta.v1.FieldsV1" => GoType::Json,
        "apiextensions.v1.JSONSchemaPropsOrArray" => one_of(Alternative::Schemas)?,
        "apiextensions.v1.JSONSchemaPropsOrBool" => one_of(Alternative::Bool)?,
        "apiextensions.v1.JSONSchemaPropsOrStringArray" => one_of(Alternative::Strings)?,
        // The type may be followed by its protobuf encoding, as in `int32:varint`.
        _ if element.starts_with("int32") => GoType::Int32,
        _ if element.starts_with("int64") => GoType::Int64,
        _ if element.ends_with(".ExtraValue") || element == "meta.v1.Verbs" => GoType::Strings,
        _ => GoType::Message(message(element)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_with_count_type_and_flags() {
        let message = Message::new((
            "x",
            r#"{"10":["labels","map:string"],"2":["replicas","int32:varint","*"],"3":["ports","[]core.v1.Pod","!"]}"#,
        ));
        let shown: Vec<String> = message
            .fields()
            .iter()
            .map(|f| format!("{} {} {:?} {:?} {} {}", f.number, f.name, f.count, f.kind, f.always, f.pointer))
            .collect();
        assert_eq!(
            shown,
            [
                "2 replicas One Int32 false true",
                "3 ports List Message(core.v1.Pod) true false",
                "10 labels Map String false false",
            ]
        );
    }
}
