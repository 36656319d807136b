//! Differences between two worlds in normal form.

use std::{collections::BTreeSet, fmt};

use serde_json::Value;

use super::NormalForm;

/// A difference between two worlds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Difference {
    /// Only the world without faults has it.
    Missing(String),
    /// Only the world with faults has it.
    Extra(String),
    /// A value differs.
    Value { name: String, path: String, expected: Option<Value>, found: Option<Value> },
}

impl Difference {
    /// Name of the object or of the remote system that differs.
    pub(crate) fn name(&self) -> &str {
        let (Self::Missing(name) | Self::Extra(name) | Self::Value { name, .. }) = self;
        name
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(name) => write!(f, "{name} is missing"),
            Self::Extra(name) => write!(f, "{name} is left over"),
            Self::Value { name, path, expected, found } => {
                write!(f, "{name} has {path} = {}, ", short(found.as_ref()))?;
                write!(f, "the run without faults has {}", short(expected.as_ref()))
            }
        }
    }
}

/// Text of a value in a message.
fn short(value: Option<&Value>) -> String {
    let text = value.map_or_else(|| "nothing".to_owned(), ToString::to_string);
    if text.chars().count() <= 60 { text } else { text.chars().take(57).chain("...".chars()).collect() }
}

/// Returns the differences of a world from the one without faults.
pub(crate) fn compare(expected: &NormalForm, found: &NormalForm) -> Vec<Difference> {
    let mut differences = Vec::new();
    for (name, value) in expected {
        match found.get(name) {
            None => differences.push(Difference::Missing(name.clone())),
            Some(other) => compare_values(name, "", value, other, &mut differences),
        }
    }
    let extra = found.keys().filter(|name| !expected.contains_key(*name));
    differences.extend(extra.map(|name| Difference::Extra(name.clone())));
    differences
}

fn compare_values(name: &str, path: &str, expected: &Value, found: &Value, all: &mut Vec<Difference>) {
    let differs = |path: &str, expected: Option<&Value>, found: Option<&Value>| Difference::Value {
        name: name.to_owned(),
        path: path.to_owned(),
        expected: expected.cloned(),
        found: found.cloned(),
    };
    if expected == found {
        return;
    }
    let (Value::Object(fields), Value::Object(others)) = (expected, found) else {
        return all.push(differs(path, Some(expected), Some(found)));
    };
    let keys: BTreeSet<&String> = fields.keys().chain(others.keys()).collect();
    for key in keys {
        let path = format!("{path}.{key}");
        match (fields.get(key), others.get(key)) {
            (Some(field), Some(other)) => compare_values(name, &path, field, other, all),
            (field, other) => all.push(differs(&path, field, other)),
        }
    }
}
