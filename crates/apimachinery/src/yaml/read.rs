//! YAML documents, parsed as the Go library of kube-apiserver parses them.
//!
//! Only the first of several documents is read. The last of several equal keys wins, and each repetition is recorded.

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::Spanned;

use crate::decode::{self, Decoded, normalize_numbers};

/// Context of an error of [`read()`], which kube-apiserver omits where its decoder of objects reports the error.
pub const CONVERSION: &str = "error converting YAML to JSON: ";

/// Parses YAML, of which JSON is a subset. Numbers are converted as Go does when it goes through JSON: `3.0` is 3.
///
/// # Errors
/// Go's message.
pub fn read(bytes: &[u8]) -> Result<Decoded, String> {
    // Most clients send JSON, which parses several times faster. A body with duplicate keys is parsed as YAML, because its parser reports
    // their lines.
    if let Ok(mut body) = decode::json(bytes)
        && body.value.is_object()
        && body.strict.is_empty()
    {
        normalize_numbers(&mut body.value);
        return Ok(body);
    }
    let text = String::from_utf8_lossy(bytes);
    let node = with_room(|| first_document(&text)).and_then(|node| node);
    let ParsedValue { mut value, repeated } = node.map_err(|why| format!("{CONVERSION}yaml: {why}"))?;
    normalize_numbers(&mut value);
    Ok(Decoded { value, strict: repeated })
}

fn first_document(text: &str) -> Result<ParsedValue, String> {
    let options = serde_saphyr::options! {
        duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::LastWins,
        // YAML 1.1: the mode `0644` is octal.
        legacy_octal_numbers: true,
    };
    let mut bytes = text.as_bytes();
    let first = serde_saphyr::read_with_options::<_, ParsedValue>(&mut bytes, options).next();
    first.unwrap_or_else(|| Ok(ParsedValue::default())).map_err(|error| explain(&error, text))
}

/// Runs the parser in a thread of its own. It recurses up to its limit of 64 levels, which overflows a stack of the default size in builds
/// without optimization.
fn with_room<T: Send>(parse: impl FnOnce() -> T + Send) -> Result<T, String> {
    const ROOM: usize = 16 << 20;
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("yaml".to_owned()).stack_size(ROOM);
        let thread = thread
            .spawn_scoped(scope, parse)
            .map_err(|why| format!("cannot start a thread to parse it: {why}"))?;
        Ok(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

/// Formats the errors of strict decoding: repeated YAML keys, duplicate fields and unknown fields.
pub fn strict_error(complaints: &[String]) -> String {
    let (lines, others): (Vec<&str>, Vec<&str>) =
        complaints.iter().map(String::as_str).partition(|text| text.starts_with("line "));
    let heading = (!lines.is_empty()).then(|| format!("yaml: unmarshal errors:\n  {}", lines.join("\n  ")));
    heading.iter().map(String::as_str).chain(others).collect::<Vec<_>>().join(", ")
}

/// Translates an error to Go's message, as far as both libraries report the same problem.
///
/// Go counts lines from 1 in scanner errors and from 0 in parser errors. It omits a line 0, and the first line in scanner
/// errors.
fn explain(error: &serde_saphyr::Error, text: &str) -> String {
    let said = error.without_snippet().to_string();
    let said = said.lines().next().unwrap_or_default();
    let said = said.rsplit_once(" at line ").map_or(said, |(said, _)| said);
    let line = error.location().map_or(0, |location| location.line());
    let (problem, line) = match said.strip_prefix("unclosed bracket '") {
        // Go reports a missing bracket at the end of the text.
        Some("{'") => ("did not find expected ',' or '}'", text.lines().count() as u64),
        Some(_) => ("did not find expected ',' or ']'", text.lines().count() as u64),
        None if said.starts_with("while parsing") => (problem(said), line.saturating_sub(1)),
        None => (problem(said), if line > 1 { line } else { 0 }),
    };
    if line == 0 { problem.to_owned() } else { format!("line {line}: {problem}") }
}

/// Strips the context of a message (`while parsing a block mapping, `), which Go does not print.
fn problem(said: &str) -> &str {
    let context = said.strip_prefix("while ").and_then(|rest| rest.split_once(", "));
    context.map_or(said, |(_, problem)| problem)
}

/// A value and the repeated keys in it.
#[derive(Default)]
struct ParsedValue {
    value: Value,
    /// `line 7: key "size" already set in map`, in the order of the text.
    repeated: Vec<String>,
}

impl From<Value> for ParsedValue {
    fn from(value: Value) -> Self {
        Self { value, repeated: Vec::new() }
    }
}

impl<'de> Deserialize<'de> for ParsedValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = ParsedValue;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<ParsedValue, E> {
        Ok(Value::Bool(value).into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<ParsedValue, E> {
        Ok(Value::from(value).into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<ParsedValue, E> {
        Ok(Value::from(value).into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<ParsedValue, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number).into())
    }

    fn visit_str<E>(self, value: &str) -> Result<ParsedValue, E> {
        Ok(Value::from(value).into())
    }

    fn visit_string<E>(self, value: String) -> Result<ParsedValue, E> {
        Ok(Value::from(value).into())
    }

    fn visit_unit<E>(self) -> Result<ParsedValue, E> {
        Ok(ParsedValue::default())
    }

    fn visit_none<E>(self) -> Result<ParsedValue, E> {
        Ok(ParsedValue::default())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<ParsedValue, D::Error> {
        ParsedValue::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<ParsedValue, A::Error> {
        let mut list = Vec::new();
        let mut repeated = Vec::new();
        while let Some(mut item) = items.next_element::<ParsedValue>()? {
            repeated.append(&mut item.repeated);
            list.push(item.value);
        }
        Ok(ParsedValue { value: Value::Array(list), repeated })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<ParsedValue, A::Error> {
        let mut object = Map::new();
        let mut repeated = Vec::new();
        while let Some(name) = fields.next_key::<String>()? {
            let field: Spanned<ParsedValue> = fields.next_value()?;
            let line = field.referenced.line();
            let mut node = field.value;
            repeated.append(&mut node.repeated);
            if object.contains_key(&name) && repeated.len() < decode::COMPLAINTS {
                let key = Value::from(name.as_str());
                repeated.push(format!("line {line}: key {key} already set in map"));
            }
            object.insert(name, node.value);
        }
        Ok(ParsedValue { value: Value::Object(object), repeated })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(text: &str, value: &Value, repeated: &[&str]) {
        let body = read(text.as_bytes()).unwrap();
        assert_eq!(body.value, *value, "{text}");
        assert_eq!(body.strict, repeated, "{text}");
    }

    /// Observed with kube-apiserver v1.36.3.
    #[test]
    fn numbers_that_start_with_zero_are_octal() {
        check(
            "mode: 0644\nshort: 010\nprefix: 0o10\nzero: 0\ntext: '0644'\nfraction: 0.5\n",
            &json!({"mode": 420, "short": 8, "prefix": 8, "zero": 0, "text": "0644", "fraction": 0.5}),
            &[],
        );
    }

    #[test]
    fn repeated_keys_are_reported_with_their_lines_and_the_last_one_counts() {
        check(
            "a: 1\nb:\n  c: 1\n  c: 2\na: 3\n",
            &json!({"a": 3, "b": {"c": 2}}),
            &[r#"line 4: key "c" already set in map"#, r#"line 5: key "a" already set in map"#],
        );
        check(r#"{"a": 1, "a": 2}"#, &json!({"a": 2}), &[r#"line 1: key "a" already set in map"#]);
    }

    #[test]
    fn the_first_document_counts() {
        check("a: 1\n---\n{broken", &json!({"a": 1}), &[]);
        check("---\n# comment\na: 1\n", &json!({"a": 1}), &[]);
        for nothing in ["", "null", "# comment\n", "~"] {
            check(nothing, &Value::Null, &[]);
        }
    }

    #[test]
    fn values_are_read() {
        check(
            "a: 1\nb: [x, 'y', 1.5, true, null]\n",
            &json!({"a": 1, "b": ["x", "y", 1.5, true, null]}),
            &[],
        );
        check("a: &l {x: 'y'}\nb: *l\n", &json!({"a": {"x": "y"}, "b": {"x": "y"}}), &[]);
        check("just text", &json!("just text"), &[]);
    }

    #[test]
    fn broken_texts_are_explained_as_go_explains_them() {
        for (text, why) in [
            ("a: b: c", "mapping values are not allowed in this context"),
            ("a: 1\nb: c: d\n", "line 2: mapping values are not allowed in this context"),
            ("{not json", "line 1: did not find expected ',' or '}'"),
            ("a:\n- [1,\n", "line 2: did not find expected ',' or ']'"),
            ("a: 1\n b: 2\n- c\n", "line 2: mapping values are not allowed in this context"),
        ] {
            let error = read(text.as_bytes()).unwrap_err();
            assert_eq!(error, format!("error converting YAML to JSON: yaml: {why}"), "{text:?}");
        }
    }
}
