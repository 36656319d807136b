//! Decoding of JSON documents, with the errors of Go's decoder.
//!
//! Duplicate fields are detected here, because the decoded value no longer contains them; unknown fields are detected by the schema.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

mod go_json;
mod ordered;

pub use ordered::{JsonShape, JsonTree, OrderedValue};

/// Maximum number of duplicate and unknown fields that strict decoding reports, as in Go's decoder.
pub const COMPLAINTS: usize = 100;

/// A decoded document.
#[derive(Debug)]
pub struct Decoded {
    /// The document.
    pub value: Value,
    /// Errors of strict decoding: `duplicate field "spec.size"`.
    pub strict: Vec<String>,
}

/// Parses JSON. Numbers keep their notation (`3.0` stays a float) until [`normalize_numbers`] or a schema converts them.
///
/// # Errors
/// Go's message.
pub fn json(bytes: &[u8]) -> Result<Decoded, String> {
    let text = text_of(bytes);
    // Go accepts lone surrogates, which `serde_json` refuses: retry with replacements.
    read(&text)
        .or_else(|| go_json::without_lone_surrogates(&text).and_then(|mended| read(&mended)))
        .ok_or_else(|| go_json::explain(&latin1(bytes)))
}

/// Returns each byte as a character, as Go shows them in errors.
fn latin1(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

/// Returns the bytes as text, with U+FFFD for those that are not UTF-8.
fn text_of(bytes: &[u8]) -> Cow<'_, str> {
    // `from_utf8` checks many bytes at a time, `from_utf8_lossy` single characters.
    std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

fn read(text: &str) -> Option<Decoded> {
    let found = RefCell::new(Vec::new());
    let mut reader = serde_json::Deserializer::from_str(text);
    let seed = Strict { path: DocumentPath::Root, found: &found };
    let value = seed.deserialize(&mut reader).and_then(|value| reader.end().map(|()| value)).ok()?;
    Some(Decoded { value, strict: found.into_inner() })
}

/// Returns the errors of strict decoding of a builtin kind in the order of the document: an unknown field at its first occurrence, a
/// duplicate field at its second. Unknown fields, and fields inside them, are not reported as duplicates. In YAML, duplicates come first,
/// because Go finds them while it parses the text.
pub fn complaints(bytes: &[u8], duplicates: Vec<String>, unknown: Vec<String>) -> Vec<String> {
    let mut places: BTreeMap<String, ErrorPosition> =
        unknown.iter().map(|path| (path.clone(), ErrorPosition::unknown())).collect();
    let path_of = |text: &str| text.strip_prefix(DUPLICATE)?.strip_suffix('"').map(str::to_owned);
    for path in duplicates.iter().filter_map(|text| path_of(text)) {
        // An unknown field that occurs twice is reported only as unknown.
        places.entry(path).or_insert_with(ErrorPosition::duplicate);
    }
    if places.is_empty() {
        // The usual case: no second pass over the document is needed.
        return duplicates;
    }
    let found = RefCell::new((places, 0));
    let text = text_of(bytes);
    let mut reader = serde_json::Deserializer::from_str(&text);
    let is_json = Order { path: DocumentPath::Root, found: &found }.deserialize(&mut reader).is_ok();
    let unknown = unknown.into_iter().map(|path| format!("unknown field \"{path}\""));
    if !is_json {
        // The text is YAML, in which Go finds the duplicates first.
        return duplicates.into_iter().chain(unknown).collect();
    }
    let (places, _) = found.into_inner();
    let mut complaints: Vec<(usize, String)> = places
        .into_iter()
        // A duplicate inside an unknown field has no position, because `Order` does not enter such a field.
        .filter(|(_, place)| place.is_unknown || place.at != usize::MAX)
        .map(|(path, place)| {
            let what = if place.is_unknown { "unknown" } else { "duplicate" };
            (place.at, format!("{what} field \"{path}\""))
        })
        .collect();
    // The sort is stable: paths that do not occur in the text stay sorted by name, after the others.
    complaints.sort_by_key(|(at, _)| *at);
    complaints.into_iter().map(|(_, complaint)| complaint).collect()
}

/// Beginning of the error for a duplicate field.
const DUPLICATE: &str = "duplicate field \"";

/// Position of an error in the document.
#[derive(Debug)]
struct ErrorPosition {
    is_unknown: bool,
    /// Number of occurrences of the path that come before the error.
    left: usize,
    /// Position of the error among all errors; `usize::MAX` until the path occurs.
    at: usize,
}

impl ErrorPosition {
    fn unknown() -> Self {
        Self { is_unknown: true, left: 1, at: usize::MAX }
    }

    fn duplicate() -> Self {
        Self { is_unknown: false, left: 2, at: usize::MAX }
    }
}

/// Returns the text of the first float with this value in a JSON text: `3.0`, `3e0`, `30e-1`. Integers beyond 64 bits are floats.
#[must_use]
pub fn float_as_sent(bytes: &[u8], value: f64) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?;
    let mut in_text = false;
    let mut escaped = false;
    // Split at everything that cannot be part of a number, and inside strings at every character.
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
        .filter(|word| word.contains(['.', 'e', 'E']) || is_beyond_64_bits(word))
        .find(|word| word.parse::<f64>().is_ok_and(|float| float.to_bits() == value.to_bits()))
}

fn is_beyond_64_bits(word: &str) -> bool {
    word.parse::<i64>().is_err() && word.parse::<u64>().is_err()
}

/// Returns the start of a body for messages: in hexadecimal unless it looks like JSON.
#[must_use]
pub fn excerpt(bytes: &[u8]) -> String {
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

/// Path of a value in the document.
#[derive(Clone, Copy)]
enum DocumentPath<'a> {
    Root,
    Field(&'a DocumentPath<'a>, &'a str),
    Item(&'a DocumentPath<'a>, usize),
}

impl fmt::Display for DocumentPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Self::Root, name) => f.write_str(name),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
            Self::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// Deserializes a value and records its duplicate fields. The last of several equal fields wins.
#[derive(Clone, Copy)]
struct Strict<'a> {
    path: DocumentPath<'a>,
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
            let path = DocumentPath::Item(&self.path, list.len());
            items.next_element_seed(Strict { path, found: self.found })?
        } {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            let path = DocumentPath::Field(&self.path, &name);
            if object.contains_key(&name) {
                let text = format!("{DUPLICATE}{path}\"");
                let mut found = self.found.borrow_mut();
                // Each path is reported once. The limit also bounds this search.
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

/// Numbers the errors in the order of the document.
#[derive(Clone, Copy)]
struct Order<'a> {
    path: DocumentPath<'a>,
    /// Errors by path, and the position for the next one.
    found: &'a RefCell<(BTreeMap<String, ErrorPosition>, usize)>,
}

impl Order<'_> {
    /// Assigns a position to the error of a field, if it has one. Returns whether there may be errors below it.
    fn enter(&self, path: &str) -> bool {
        let (places, next) = &mut *self.found.borrow_mut();
        if let Some(place) = places.get_mut(path) {
            place.left = place.left.saturating_sub(1);
            if place.left == 0 && place.at == usize::MAX {
                place.at = *next;
                *next += 1;
            }
            if place.is_unknown {
                return false;
            }
        }
        // The paths are sorted, so the first one from `path` on shows whether any begins with it.
        let rest = (Bound::Included(path), Bound::Unbounded);
        places.range::<str, _>(rest).next().is_some_and(|(known, _)| known.starts_with(path))
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
        while items
            .next_element_seed(Order { path: DocumentPath::Item(&self.path, index), ..self })?
            .is_some()
        {
            index += 1;
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while let Some(name) = fields.next_key::<String>()? {
            let path = DocumentPath::Field(&self.path, &name);
            if self.enter(&path.to_string()) {
                fields.next_value_seed(Order { path, ..self })?;
            } else {
                fields.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// Converts numbers to the types that Go uses without a schema. Numbers beyond the range of `i64` become floats, and `3.0`
/// becomes `3`, because Go writes floats without a fraction as integers.
pub fn normalize_numbers(value: &mut Value) {
    match value {
        Value::Number(number) if number.as_i64().is_none() => {
            let Some(float) = number.as_f64() else { return };
            // Above 2^53 not every integer has a float, and schemas accept no float as an integer.
            if float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0 {
                #[expect(clippy::cast_possible_truncation, reason = "the range was checked above")]
                let integer = float as i64;
                *number = Number::from(integer);
            } else if let Some(float) = Number::from_f64(float) {
                *number = float;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(normalize_numbers),
        Value::Object(fields) => fields.values_mut().for_each(normalize_numbers),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
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

    /// Observed with kube-apiserver v1.36.3.
    #[test]
    fn complaints_are_in_the_order_of_the_document() {
        let check = |text: &str, unknown: &[&str], expected: &[&str]| {
            let duplicates = json(text.as_bytes()).map(|body| body.strict).unwrap_or_default();
            let unknown = unknown.iter().map(|path| (*path).to_owned()).collect();
            assert_eq!(complaints(text.as_bytes(), duplicates, unknown), expected);
        };
        check(
            r#"{"m":{"n":1,"n":2,"u":1},"s":{"u1":1,"r":1,"u1":2,"p":1,"p":2,"u2":{"a":1,"a":2},"c":[{"n":1,"n":1,"f":1}]}}"#,
            &["m.u", "s.c[0].f", "s.u1", "s.u2"],
            &[
                r#"duplicate field "m.n""#,
                r#"unknown field "m.u""#,
                r#"unknown field "s.u1""#,
                r#"duplicate field "s.p""#,
                r#"unknown field "s.u2""#,
                r#"duplicate field "s.c[0].n""#,
                r#"unknown field "s.c[0].f""#,
            ],
        );
        // Paths that do not occur in the text come last.
        check(
            r#"{"b":{"c":1},"":2,"ab":{"c":1}}"#,
            &["", "a", "b.c", "z"],
            &[
                r#"unknown field "b.c""#,
                r#"unknown field """#,
                r#"unknown field "a""#,
                r#"unknown field "z""#,
            ],
        );
        check("a: 1", &["b", "c"], &[r#"unknown field "b""#, r#"unknown field "c""#]);
    }

    #[test]
    fn thousands_of_complaints_are_sorted_quickly() {
        let paths: Vec<String> = (0..30_000).map(|n| format!("u{n:05}")).collect();
        let fields: Vec<String> = paths.iter().rev().map(|path| format!("\"{path}\":{{}}")).collect();
        let text = format!("{{{}}}", fields.join(","));
        let sorted = complaints(text.as_bytes(), Vec::new(), paths.clone());
        let expected = paths.iter().rev().map(|path| format!("unknown field \"{path}\""));
        assert!(sorted.into_iter().eq(expected));
    }

    #[test]
    fn broken_bodies_are_explained_and_excerpted() {
        assert!(json(b"{\"a\":").unwrap_err().contains("unexpected end"));
        assert_eq!(
            json("[".repeat(100_000).as_bytes()).unwrap_err(),
            "invalid character '[' exceeded max depth"
        );
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
        let large = b"[18446744073709551615, 123456789012345678901234567890]";
        assert_eq!(
            float_as_sent(large, 123_456_789_012_345_678_901_234_567_890.0),
            Some("123456789012345678901234567890")
        );
        assert_eq!(float_as_sent(large, 18_446_744_073_709_551_615.0), None);
        assert_eq!(float_as_sent(b"\xff3.0", 3.0), None);
    }

    #[test]
    fn a_lone_surrogate_is_read_as_the_replacement_character() {
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
