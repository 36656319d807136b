//! The field of a JSON text where decoding failed, found from the position in the error.
//!
//! A deserializer that tracks the path itself makes a second copy of the decoder of each type, which for Kubernetes' types is
//! much of a program. The position is enough, and needs one copy for all types.

use std::{fmt, fmt::Write as _};

/// An object or array that encloses the position, and the child that contains it.
enum Around<'a> {
    /// An object, with the key of the last field that has begun, escapes included.
    Object(Option<&'a str>),
    /// An array, with the index of the last element that has begun.
    Array(usize),
}

/// The path of the value at which an error arose, such as `spec.containers[0].image`; `.` for the whole.
///
/// The error's position is the end of a value that does not fit, the end of an object that lacks a field, or the beginning of
/// an object or array where another type is expected.
pub(crate) fn failed_at(text: &str, error: &serde_json::Error) -> String {
    let lines = text.split_inclusive('\n').take(error.line().saturating_sub(1));
    let read = lines.map(str::len).sum::<usize>() + error.column();
    Path(around(text, read)).to_string()
}

/// The objects and arrays that enclose the value at a position, outermost first.
fn around(text: &str, read: usize) -> Vec<Around<'_>> {
    let bytes = text.as_bytes();
    let (mut around, mut at) = (Vec::new(), 0);
    // One pass over the text, which only tracks nesting, keys and indexes; it need not be valid JSON.
    while at < read.min(bytes.len()) {
        let begin = at;
        at += 1;
        match bytes[begin] {
            b'{' => around.push(Around::Object(None)),
            b'[' => around.push(Around::Array(0)),
            b'}' | b']' => {
                around.pop();
            }
            b',' => match around.last_mut() {
                Some(Around::Object(key)) => *key = None,
                Some(Around::Array(index)) => *index += 1,
                None => {}
            },
            b'"' => {
                while at < bytes.len() && bytes[at] != b'"' {
                    // Skips an escaped character, which may be a quote.
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                // The first text of a field is its key, the second, if there is one, its value.
                if let Some(Around::Object(key @ None)) = around.last_mut() {
                    *key = text.get(begin + 1..at);
                }
                at += 1;
            }
            _ => {}
        }
    }
    around
}

struct Path<'a>(Vec<Around<'a>>);

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for around in &self.0 {
            match around {
                Around::Object(None) => {}
                Around::Object(Some(key)) => {
                    if !first {
                        f.write_char('.')?;
                    }
                    f.write_str(key)?;
                    first = false;
                }
                Around::Array(index) => {
                    write!(f, "[{index}]")?;
                    first = false;
                }
            }
        }
        if first { f.write_char('.') } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use proptest::prelude::*;
    use serde::Deserialize;
    use serde_json::Value;

    use super::*;

    fn check(text: &str, path: &str) {
        let error = serde_json::from_str::<Pod>(text).expect_err("this is no pod");
        assert_eq!(failed_at(text, &error), path, "{error}");
    }

    #[test]
    fn a_value_that_does_not_fit_is_named() {
        check(r#"{"spec": {"containers": [{"name": "a"}, {"name": 7}]}}"#, "spec.containers[1].name");
        check(
            r#"{"spec": {"containers": [{"name": "a", "image": null}, {"name": false}]}}"#,
            "spec.containers[1].name",
        );
        check(r#"{"spec": {"priority": "high"}, "metadata": {}}"#, "spec.priority");
        check(r#"{"spec": {"priority": 12345678901}}"#, "spec.priority");
        check(r#"{"metadata": {"labels": {"a.b/c": true}}}"#, "metadata.labels.a.b/c");
        check(r#"{"metadata": {"finalizers": ["a", "b\"", 3]}}"#, "metadata.finalizers[2]");
    }

    #[test]
    fn an_object_or_array_in_the_wrong_place_is_named() {
        check(r#"{"metadata": {"name": {"first": "a"}}}"#, "metadata.name");
        check(r#"{"metadata": {"name":["a"]}}"#, "metadata.name");
        check(r#"{"metadata": {"finalizers": ["a", ["b"]]}}"#, "metadata.finalizers[1]");
        check(r#"{"metadata": {"finalizers": [{"b": 1}]}}"#, "metadata.finalizers[0]");
        check("[]", ".");
        check("7", ".");
    }

    #[test]
    fn an_object_that_lacks_a_field_is_named() {
        #[derive(Debug, Deserialize)]
        struct Rule {
            #[expect(dead_code, reason = "what matters is that it is not there")]
            host: String,
        }
        let text = "{\"rules\": [\n  {\"host\": \"a\"},\n  {\"port\": {\"number\": 80}}\n]}";
        let error = serde_json::from_str::<std::collections::BTreeMap<String, Vec<Rule>>>(text)
            .expect_err("a rule without a host");
        assert_eq!(failed_at(text, &error), "rules[1]", "{error}");
    }

    #[test]
    fn an_incomplete_or_empty_text_has_a_place() {
        check(r#"{"spec": {"containers": [{"name": "a"#, "spec.containers[0].name");
        check(r#"{"spec": {"containers": [{"name": "a\"#, "spec.containers[0].name");
        check("<html>", ".");
        check("", ".");
    }

    proptest! {
        /// No text and no position cause a panic.
        #[test]
        fn any_text_has_a_place(text in r#"[\[\]{}:,"\\a0 \né]{0,40}"#, read in 0_usize..50) {
            Path(around(&text, read)).to_string();
            if let Err(error) = serde_json::from_str::<Value>(&text) {
                failed_at(&text, &error);
            }
        }
    }
}
