//! The object in a request body.
//!
//! JSON, YAML (beside this) and, for builtin kinds, protobuf are read into a [`Value`]. Duplicate fields are noticed on the way, because
//! afterwards they cannot be told any more; unknown fields are the schema's business.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Bound;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::go_json;
use crate::status::ApiError;

/// Largest body that is read, in bytes.
pub(crate) const LIMIT: usize = 3 << 20;

/// Duplicate and unknown fields that strict decoding reports at most, as Go's decoder does.
pub(crate) const COMPLAINTS: usize = 100;

/// 413 for a body above [`LIMIT`].
pub(crate) fn too_large() -> ApiError {
    let message = format!("Request entity too large: limit is {LIMIT}");
    ApiError::new(413, "RequestEntityTooLarge", message).with_details("", "", "")
}

/// 415 with the media types that would have been read.
pub(crate) fn unsupported(accepted: &[&str]) -> ApiError {
    let message = format!(
        "the body of the request was in an unknown format - accepted media types include: {}",
        accepted.join(", ")
    );
    ApiError::new(415, "UnsupportedMediaType", message)
}

/// A body that was read.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) value: Value,
    /// What strict decoding would refuse: `duplicate field "spec.size"`.
    pub(crate) strict: Vec<String>,
}

/// Media types of whole objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    Yaml,
    Protobuf,
}

impl Format {
    /// The format of a `Content-Type`; JSON if there is none.
    ///
    /// # Errors
    /// 415.
    pub(crate) fn of(content_type: Option<&str>) -> Result<Self, ApiError> {
        match media_type(content_type) {
            "" | "application/json" => Ok(Self::Json),
            "application/yaml" => Ok(Self::Yaml),
            "application/vnd.kubernetes.protobuf" => Ok(Self::Protobuf),
            _ => Err(unsupported(&[
                "application/json",
                "application/yaml",
                "application/vnd.kubernetes.protobuf",
            ])),
        }
    }
}

/// A `Content-Type` without its parameters.
pub(crate) fn media_type(content_type: Option<&str>) -> &str {
    content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim()
}

/// Reads JSON. Numbers stay as they are, `3.0` a float, until it is known what reads them. The error is Go's message.
pub(crate) fn json(bytes: &[u8]) -> Result<Body, String> {
    let text = String::from_utf8_lossy(bytes);
    // What serde_json refuses besides, Go reads.
    read(&text)
        .or_else(|| go_json::without_lone_surrogates(&text).and_then(|mended| read(&mended)))
        .ok_or_else(|| go_json::explain(&text))
}

fn read(text: &str) -> Option<Body> {
    let found = RefCell::new(Vec::new());
    let mut reader = serde_json::Deserializer::from_str(text);
    let seed = Strict { path: Path::Root, found: &found };
    let value = seed.deserialize(&mut reader).and_then(|value| reader.end().map(|()| value)).ok()?;
    Some(Body { value, strict: found.into_inner() })
}

/// Sorts paths of fields as they first occur in a JSON text; what does not occur comes last.
pub(crate) fn in_document_order(bytes: &[u8], mut paths: Vec<String>) -> Vec<String> {
    if paths.len() > 1 {
        let wanted: BTreeSet<&str> = paths.iter().map(String::as_str).collect();
        let found = RefCell::new(BTreeMap::new());
        let text = String::from_utf8_lossy(bytes);
        let mut reader = serde_json::Deserializer::from_str(&text);
        let seed = Order { path: Path::Root, wanted: &wanted, found: &found };
        // A text that is not JSON leaves the order as it is.
        if seed.deserialize(&mut reader).is_ok() {
            let order = found.into_inner();
            paths.sort_by_key(|path| order.get(path).copied().unwrap_or(usize::MAX));
        }
    }
    paths
}

/// How a JSON text writes the first float of this value in it: `3.0`, `3e0`, `30e-1`.
pub(crate) fn float_as_sent(bytes: &[u8], value: f64) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?;
    let mut in_text = false;
    let mut escaped = false;
    let words = text.split(|c: char| {
        let was_in_text = in_text;
        if in_text {
            in_text = escaped || c != '"';
            escaped = !escaped && c == '\\';
        } else {
            in_text = c == '"';
        }
        was_in_text || !(c.is_ascii_alphanumeric() || matches!(c, '.' | '+' | '-'))
    });
    words
        .filter(|word| word.contains(['.', 'e', 'E']))
        .find(|word| word.parse::<f64>().is_ok_and(|float| float.to_bits() == value.to_bits()))
}

/// The start of a body, as messages show it: in hexadecimal unless it looks like JSON.
pub(crate) fn excerpt(bytes: &[u8]) -> String {
    const SHOWN: usize = 30;
    if bytes.is_empty() {
        return "<empty>".to_owned();
    }
    let cut = &bytes[..bytes.len().min(SHOWN)];
    let dots = if bytes.len() > SHOWN { " ..." } else { "" };
    if bytes[0] == b'{' {
        format!("{}{dots}", String::from_utf8_lossy(cut))
    } else {
        let hex: String = cut.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{hex}{dots}")
    }
}

/// Where a value stands in the document.
#[derive(Clone, Copy)]
enum Path<'a> {
    Root,
    Field(&'a Path<'a>, &'a str),
    Item(&'a Path<'a>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Self::Root, name) => f.write_str(name),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
            Self::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// Reads a value and notes the duplicate fields within. The last one of several counts.
#[derive(Clone, Copy)]
struct Strict<'a> {
    path: Path<'a>,
    found: &'a RefCell<Vec<String>>,
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = {
            let path = Path::Item(&self.path, list.len());
            items.next_element_seed(Strict { path, found: self.found })?
        } {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            let path = Path::Field(&self.path, &name);
            if object.contains_key(&name) {
                let text = format!("duplicate field \"{path}\"");
                let mut found = self.found.borrow_mut();
                if found.len() < COMPLAINTS && !found.contains(&text) {
                    found.push(text);
                }
            }
            let value = fields.next_value_seed(Strict { path, found: self.found })?;
            object.insert(name, value);
        }
        Ok(Value::Object(object))
    }
}

/// Numbers the wanted paths in the order in which they first occur.
#[derive(Clone, Copy)]
struct Order<'a> {
    path: Path<'a>,
    wanted: &'a BTreeSet<&'a str>,
    found: &'a RefCell<BTreeMap<String, usize>>,
}

impl Order<'_> {
    /// Whether a wanted path begins with `text`: there is no need to look into values below others.
    fn leads_to_wanted(&self, text: &str) -> bool {
        let rest = (Bound::Included(text), Bound::Unbounded);
        self.wanted.range::<str, _>(rest).next().is_some_and(|path| path.starts_with(text))
    }
}

impl<'de> DeserializeSeed<'de> for Order<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Order<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut index = 0;
        while items.next_element_seed(Order { path: Path::Item(&self.path, index), ..self })?.is_some() {
            index += 1;
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while let Some(name) = fields.next_key::<String>()? {
            let path = Path::Field(&self.path, &name);
            let text = path.to_string();
            if !self.leads_to_wanted(&text) {
                fields.next_value::<IgnoredAny>()?;
                continue;
            }
            if self.wanted.contains(text.as_str()) {
                let mut found = self.found.borrow_mut();
                let next = found.len();
                found.entry(text).or_insert(next);
            }
            fields.next_value_seed(Order { path, ..self })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn duplicates_are_named_by_their_path_and_the_last_one_counts() {
        let body = json(br#"{"spec":{"size":1,"size":2},"l":[{"a":1,"a":1}],"spec":{"x":1}}"#).unwrap();
        assert_eq!(body.value, json!({"spec": {"x": 1}, "l": [{"a": 1}]}));
        assert_eq!(
            body.strict,
            [r#"duplicate field "spec.size""#, r#"duplicate field "l[0].a""#, r#"duplicate field "spec""#]
        );
    }

    #[test]
    fn paths_are_sorted_as_they_occur() {
        let paths = ["a.y", "b", "c[0].d"].map(str::to_owned).to_vec();
        let text = br#"{"c":[{"d":1}],"b":1,"a":{"y":1}}"#;
        assert_eq!(in_document_order(text, paths), ["c[0].d", "b", "a.y"]);
        // The first of several counts, and what does not occur comes last.
        let paths = ["", "a", "b.c", "z"].map(str::to_owned).to_vec();
        let text = br#"{"b":{"c":{"d":1}},"":2,"a":[],"ab":{"c":1},"b":{"c":1}}"#;
        assert_eq!(in_document_order(text, paths), ["b.c", "", "a", "z"]);
    }

    #[test]
    fn thousands_of_paths_are_sorted_in_passing() {
        let paths: Vec<String> = (0..30_000).map(|n| format!("u{n:05}")).collect();
        let fields: Vec<String> = paths.iter().rev().map(|path| format!("\"{path}\":{{}}")).collect();
        let text = format!("{{{}}}", fields.join(","));
        let sorted = in_document_order(text.as_bytes(), paths.clone());
        assert!(sorted.iter().eq(paths.iter().rev()));
    }

    #[test]
    fn broken_bodies_are_explained_and_excerpted() {
        assert!(json(b"{\"a\":").unwrap_err().contains("unexpected end"));
        assert_eq!(json("[".repeat(100_000).as_bytes()).unwrap_err(), "exceeded max depth");
        assert_eq!(excerpt(b"[]"), "5b5d");
        assert_eq!(excerpt(b""), "<empty>");
        assert_eq!(excerpt(&[b'{'; 40]), format!("{} ...", "{".repeat(30)));
    }

    #[test]
    fn a_float_is_quoted_as_it_was_sent() {
        let text = br#"{"3e0":"3.0 \"3E0","a":[31, 30e-1 ,3.0],"b":-1.50}"#;
        for (float, sent) in [(3.0, Some("30e-1")), (-1.5, Some("-1.50")), (31.0, None), (1.5, None)] {
            assert_eq!(float_as_sent(text, float), sent);
        }
        assert_eq!(float_as_sent(b"\xff3.0", 3.0), None);
    }

    #[test]
    fn half_a_surrogate_pair_is_read_as_what_is_no_character() {
        for (text, expected) in [
            (r#""\ud800""#, "\u{fffd}"),
            (r#""a\uDC00b""#, "a\u{fffd}b"),
            (r#""\ud83d\ud83d\ude00""#, "\u{fffd}\u{1f600}"),
            (r#""\\ud800 \uD800\\u0041\ud800\u0041""#, "\\ud800 \u{fffd}\\u0041\u{fffd}A"),
        ] {
            assert_eq!(json(text.as_bytes()).unwrap().value, json!(expected), "{text}");
        }
        assert_eq!(json(br#"["\ud800" 1]"#).unwrap_err(), "invalid character '1' after array element");
    }

    #[test]
    fn bytes_that_are_not_utf8_are_read() {
        assert_eq!(json(b"\"\xff\"").unwrap().value, json!("\u{fffd}"));
    }
}
