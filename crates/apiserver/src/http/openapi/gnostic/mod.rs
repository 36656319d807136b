//! OpenAPI documents as protobuf messages of the gnostic library, with which Go clients read them.
//!
//! gnostic's messages mirror the JSON documents member by member, so tables of field numbers describe the whole conversion (see [`v2`] and
//! [`v3`]). The bytes equal Go's: fields are written in the order of their numbers, and zero values are omitted. Members for which the
//! message has no field, such as `nullable` in version 2, are omitted too.

mod v2;
mod v3;

use kube_apimachinery::protobuf::{put_bytes, put_nested, put_number, put_varint};
use kube_apimachinery::yaml;
use serde_json::{Map, Value};

/// Encodes `/openapi/v2`.
pub(crate) fn of_swagger(document: &Value) -> Vec<u8> {
    encode(&v2::DOCUMENT, document)
}

/// Encodes a document of `/openapi/v3`.
pub(crate) fn of_document(document: &Value) -> Vec<u8> {
    encode(&v3::DOCUMENT, document)
}

/// The message for a JSON object.
struct Message {
    /// Sorted by number.
    fields: &'static [Field],
    /// Field for members with names that begin with `x-`, which is the last field; 0 if there is none.
    extensions: u64,
}

struct Field {
    number: u64,
    name: &'static str,
    form: MemberEncoding,
}

const fn field(number: u64, name: &'static str, form: MemberEncoding) -> Field {
    Field { number, name, form }
}

/// Encoding of a member's value.
enum MemberEncoding {
    Text,
    Bool,
    Integer,
    Double,
    /// YAML text.
    Any,
    Message(&'static Message),
    /// One field for each item of a list; any other value counts as the only item. Zero values are written too.
    Each(&'static MemberEncoding),
    /// A message with a single field of this number.
    Wrapped(u64, &'static MemberEncoding),
    /// A message in which each member of an object is a field of this number: a message with name and value.
    Map(u64, &'static MemberEncoding),
    /// Like [`Map`](Self::Map), but the named member comes first, in a field of its own.
    MapBut(u64, &'static str, &'static MemberEncoding, u64, &'static MemberEncoding),
    /// The form depends on the value.
    Choice(fn(&Value) -> &'static MemberEncoding),
}

fn encode(message: &Message, value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    if let Some(members) = value.as_object() {
        message.write(members, &mut out);
    }
    out
}

impl Message {
    fn write(&self, members: &Map<String, Value>, out: &mut Vec<u8>) {
        for field in self.fields {
            if let Some(value) = members.get(field.name) {
                field.form.write(field.number, value, out);
            }
        }
        if self.extensions > 0 {
            for (name, value) in members.iter().filter(|(name, _)| name.starts_with("x-")) {
                named(self.extensions, name, value, &MemberEncoding::Any, out);
            }
        }
    }
}

impl MemberEncoding {
    fn write(&self, number: u64, value: &Value, out: &mut Vec<u8>) {
        let is_zero = match self {
            Self::Text => value == "",
            Self::Bool => value == false,
            Self::Integer => value == 0,
            Self::Double => value.as_f64() == Some(0.0),
            _ => false,
        };
        if !is_zero {
            self.always(number, value, out);
        }
    }

    /// Writes a field even if its value is zero.
    fn always(&self, number: u64, value: &Value, out: &mut Vec<u8>) {
        match self {
            Self::Text => value.as_str().into_iter().for_each(|text| put_bytes(out, number, text.as_bytes())),
            Self::Bool => value.as_bool().into_iter().for_each(|bool| {
                put_number(out, number, i64::from(bool));
            }),
            Self::Integer => value.as_i64().into_iter().for_each(|integer| {
                put_number(out, number, integer);
            }),
            Self::Double => value.as_f64().into_iter().for_each(|double| {
                put_varint(out, number << 3 | 1);
                out.extend_from_slice(&double.to_le_bytes());
            }),
            Self::Any => {
                put_nested(out, number, |out| put_bytes(out, 2, yaml::write_compact(value, 0).as_bytes()));
            }
            Self::Message(message) => put_nested(out, number, |out| {
                if let Some(members) = value.as_object() {
                    message.write(members, out);
                }
            }),
            Self::Each(form) => match value {
                Value::Array(list) => list.iter().for_each(|element| form.always(number, element, out)),
                one => form.always(number, one, out),
            },
            Self::Wrapped(inner, form) => put_nested(out, number, |out| form.write(*inner, value, out)),
            Self::Map(inner, form) => put_nested(out, number, |out| {
                let members = value.as_object().into_iter().flatten();
                members.for_each(|(name, value)| named(*inner, name, value, form, out));
            }),
            Self::MapBut(first, name, own, inner, form) => put_nested(out, number, |out| {
                if let Some(value) = value.get(*name) {
                    own.write(*first, value, out);
                }
                let members = value.as_object().into_iter().flatten().filter(|(other, _)| other != name);
                members.for_each(|(name, value)| named(*inner, name, value, form, out));
            }),
            Self::Choice(choose) => choose(value).write(number, value, out),
        }
    }
}

fn named(number: u64, name: &str, value: &Value, form: &MemberEncoding, out: &mut Vec<u8>) {
    put_nested(out, number, |out| {
        put_bytes(out, 1, name.as_bytes());
        form.write(2, value, out);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A document and its bytes from gnostic-models v0.7.0: `ParseDocument` and `proto.Marshal`.
    macro_rules! recorded {
        ($name:literal) => {
            (
                include_str!(concat!("../../../../tests/data/openapi/", $name, ".json")),
                &include_bytes!(concat!("../../../../tests/data/openapi/", $name, ".pb"))[..],
            )
        };
    }

    fn check(encode: fn(&Value) -> Vec<u8>, (document, expected): (&str, &[u8])) {
        let written = encode(&serde_json::from_str(document).unwrap());
        let same = written.iter().zip(expected).take_while(|(a, b)| a == b).count();
        let after =
            |bytes: &[u8]| String::from_utf8_lossy(bytes.get(same..).unwrap_or_default()).into_owned();
        assert!(written == expected, "{}\ninstead of\n{}", after(&written), after(expected));
    }

    #[test]
    fn bytes_are_those_of_gnostic() {
        check(of_swagger, recorded!("v2"));
        check(of_document, recorded!("v3"));
    }
}
