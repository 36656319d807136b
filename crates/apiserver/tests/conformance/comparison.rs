//! Differences between a recorded response and an actual one, each with its JSON path.
//!
//! Values are compared exactly: lists in order, numbers by type, no field missing and none added. The tables at the top
//! list the few differences that a conforming server may have.

use serde_json::{Map, Value};

use crate::bindings::Bindings;
use crate::entry_order;

/// Request path, JSON path of a subtree that is not compared, and reason. A trailing `*` matches any ending.
const IGNORED: [(&str, &str, &str); 6] = [
    ("/version", "$.git*", "identity of the build"),
    ("/version", "$.buildDate", "identity of the build"),
    ("/version", "$.goVersion", "identity of the build"),
    ("/version", "$.compiler", "identity of the build"),
    ("/version", "$.platform", "identity of the build"),
    ("/api", "$.serverAddressByClientCIDRs", "where the server listens"),
];

/// Lists without a defined order, and the reason.
const UNORDERED: [(&str, &str); 1] =
    [("$.details.causes", "conflicts of several managers are collected in a hash map")];

/// A difference from the recorded response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Difference {
    /// JSON path, or `status`, `content type`, `warnings[0]`, `events[2].object…`.
    pub(crate) path: String,
    pub(crate) expected: String,
    pub(crate) got: String,
}

/// Compares parts of a response and collects the differences.
#[derive(Debug)]
pub(crate) struct Comparison<'a> {
    bindings: &'a mut Bindings,
    /// Path of the request, without its query.
    request_path: &'a str,
    found: Vec<Difference>,
}

impl<'a> Comparison<'a> {
    pub(crate) fn new(bindings: &'a mut Bindings, request_path: &'a str) -> Self {
        let request_path = request_path.split('?').next().unwrap_or_default();
        Self { bindings, request_path, found: Vec::new() }
    }

    pub(crate) fn into_differences(self) -> Vec<Difference> {
        self.found
    }

    /// Compares the values at `path`.
    pub(crate) fn values(&mut self, path: &str, expected: &Value, actual: &Value) {
        if self.is_ignored(path) {
            return;
        }
        match (expected, actual) {
            (Value::Object(expected), Value::Object(actual)) => self.objects(path, expected, actual),
            (Value::Array(expected), Value::Array(actual)) => self.lists(path, expected, actual),
            (Value::String(expected), Value::String(actual)) => self.texts(path, expected, actual),
            // Placeholders of allocated node ports stand for numbers.
            (Value::String(label), Value::Number(actual)) if label.starts_with("{{nodePort") => {
                self.texts(path, label, &actual.to_string());
            }
            _ if expected == actual => {}
            _ => self.differ(path, Some(expected), Some(actual)),
        }
    }

    /// Compares two texts. For long ones the differing part is shown.
    pub(crate) fn texts(&mut self, path: &str, expected: &str, actual: &str) {
        let (expected, actual) = (without_store_key(expected), without_store_key(actual));
        if let Err(why) = self.bindings.agree(&expected, &actual) {
            let (expected, mut got) = around_first_difference(&self.bindings.expand(&expected), &actual);
            if !why.is_empty() {
                got = format!("{got} ({why})");
            }
            self.found.push(Difference { path: path.to_owned(), expected, got });
        }
    }

    fn objects(&mut self, path: &str, expected: &Map<String, Value>, actual: &Map<String, Value>) {
        let mut remaining: Vec<&String> = actual.keys().collect();
        for (key, value) in expected {
            let exact = remaining.iter().position(|name| *name == key);
            let found = exact.or_else(|| remaining.iter().position(|name| self.is_same_key(key, name)));
            match found {
                Some(at) => {
                    let name = remaining.remove(at);
                    self.values(&child(path, name), value, &actual[name]);
                }
                None => self.differ(&child(path, &self.bindings.expand(key)), Some(value), None),
            }
        }
        for name in remaining {
            self.differ(&child(path, name), None, Some(&actual[name]));
        }
    }

    /// Keys may contain placeholders too, such as `k:{"uid":"{{uid:1}}"}` in managed fields.
    fn is_same_key(&mut self, expected: &str, actual: &str) -> bool {
        expected.contains("{{") && self.bindings.agree(expected, actual).is_ok()
    }

    fn lists(&mut self, path: &str, expected: &[Value], actual: &[Value]) {
        if expected.len() != actual.len() {
            self.found.push(Difference {
                path: format!("{path}.length"),
                expected: expected.len().to_string(),
                got: actual.len().to_string(),
            });
        }
        let (mut expected, mut actual) = (expected.to_vec(), actual.to_vec());
        if UNORDERED.iter().any(|(unordered, _)| *unordered == path) {
            expected.sort_by_cached_key(ToString::to_string);
            actual.sort_by_cached_key(ToString::to_string);
        }
        if path.ends_with(".managedFields")
            && let Some(adjusted) = entry_order::adjusted(&expected, &actual)
        {
            expected = adjusted;
        }
        for (index, (expected, actual)) in expected.iter().zip(&actual).enumerate() {
            self.values(&format!("{path}[{index}]"), expected, actual);
        }
    }

    /// Records a difference; `None` is an absent value.
    pub(crate) fn differ(&mut self, path: &str, expected: Option<&Value>, actual: Option<&Value>) {
        if self.is_ignored(path) {
            return;
        }
        let expected = expected
            .map_or("(absent)".to_owned(), |value| shorten(&self.bindings.expand(&value.to_string())));
        let got = actual.map_or("(absent)".to_owned(), |value| shorten(&value.to_string()));
        self.found.push(Difference { path: path.to_owned(), expected, got });
    }

    fn is_ignored(&self, path: &str) -> bool {
        IGNORED.iter().any(|(request, pattern, _)| {
            *request == self.request_path
                && match pattern.strip_suffix('*') {
                    Some(start) => path.starts_with(start),
                    None => path == *pattern,
                }
        })
    }
}

/// Joins `$.metadata` and `labels` to `$.metadata.labels`; unusual keys are quoted.
fn child(path: &str, key: &str) -> String {
    if !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || "_-".contains(c)) {
        format!("{path}.{key}")
    } else {
        format!("{path}[{}]", Value::from(key))
    }
}

/// Masks storage keys in error messages, which have another format on servers with etcd.
fn without_store_key(text: &str) -> String {
    let Some((before, rest)) = text.split_once("Key: /") else {
        return text.to_owned();
    };
    let Some((_, rest)) = rest.split_once(", ResourceVersion: ") else {
        return text.to_owned();
    };
    let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    format!("{before}Key: *, ResourceVersion: *{after}")
}

/// Maximum number of characters shown of a value.
const WIDTH: usize = 200;

fn shorten(text: &str) -> String {
    match text.char_indices().nth(WIDTH) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Quotes both texts; long ones from shortly before the first difference.
fn around_first_difference(expected: &str, actual: &str) -> (String, String) {
    let same = expected.chars().zip(actual.chars()).take_while(|(a, b)| a == b).count();
    let is_long = expected.len().max(actual.len()) > WIDTH;
    let start = if is_long { same.saturating_sub(60) } else { 0 };
    let window = |text: &str| {
        let rest: String = text.chars().skip(start).collect();
        format!("{}{}", if start > 0 { "…" } else { "" }, Value::from(shorten(&rest)))
    };
    (window(expected), window(actual))
}
