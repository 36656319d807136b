//! Compatibility of two states of a CustomResourceDefinition: changes that break stored objects or clients, and changes that users may
//! notice.
//!
//! [`compare`] takes the released definition and the new one. An [error](Level::Error) means that an object or a client that worked with
//! the old definition may not work with the new one. Without an error, every object that is valid under the old schema of a version is
//! valid under its new schema.
//!
//! ```
//! use kube_apimachinery::crd_compat::{Level, compare};
//! use serde_json::json;
//!
//! let definition = |spec: serde_json::Value| json!({
//!     "metadata": {"name": "guestbooks.example.com"},
//!     "spec": {
//!         "group": "example.com", "scope": "Namespaced",
//!         "names": {"kind": "Guestbook", "plural": "guestbooks"},
//!         "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
//!             "type": "object",
//!             "properties": {"spec": {"type": "object", "properties": spec}},
//!         }}}],
//!     },
//! });
//! let old = definition(json!({"theme": {"type": "string"}}));
//! let new = definition(json!({"size": {"type": "integer"}}));
//! let changes = compare(&old, &new);
//! assert_eq!(changes[0].level, Level::Error);
//! assert_eq!(
//!     changes[0].to_string(),
//!     "guestbooks.example.com v1: .spec.theme is gone (field-removed): stored objects lose it. Keep it",
//! );
//! ```
//!
//! Paths name fields as `.spec.theme`, items of lists as `.spec.members[*]` and values of maps as `.spec.labels.*`.
//!
//! # Exceptions
//!
//! [`Exceptions`] allow single changes by place and rule, with a reason and optionally until a version of the program.
//!
//! # Limitations
//!
//! - CEL rules are compared as text; neither their meaning nor their cost is examined. A new rule is a warning only: the API server does
//!   not apply it to unchanged values, unless the rule uses `oldSelf`.
//! - Patterns are compared as text: a pattern that matches more is an error too.
//! - `allOf`, `anyOf`, `oneOf` and `not` are compared branch by branch, not by meaning.

mod bounds;
mod definition;
mod exceptions;
mod rule;
mod schema_changes;
mod style;
#[cfg(test)]
mod tests;

use std::fmt;

use serde_json::Value;

pub use self::{
    exceptions::{Exception, ExceptionError, Exceptions, Judgement},
    rule::{Level, Rule},
};

/// A difference between two states of a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// Weight of the change.
    pub level: Level,
    /// Rule that the change violates.
    pub rule: Rule,
    /// Name of the definition, such as `guestbooks.example.com`.
    pub definition: String,
    /// Name of the version; `None` for a change of the whole definition.
    pub version: Option<String>,
    /// Place in the schema, such as `.spec.theme`, or in the definition, such as `spec.scope`.
    pub path: String,
    /// The change: a phrase that continues the path, such as `is gone`.
    pub fact: String,
    /// The effect, and the way to avoid it.
    pub advice: String,
}

/// Formats the definition, the version, the path, the change, the rule and the advice in one line.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.definition)?;
        if let Some(version) = &self.version {
            write!(f, " {version}")?;
        }
        write!(f, ": {} {} ({}): {}", self.path, self.fact, self.rule, self.advice)
    }
}

/// Compares two states of a definition, as JSON in version `apiextensions.k8s.io/v1`. Changes have the order of the definition: errors,
/// warnings and [style](Level::Style) are mixed.
#[must_use]
pub fn compare(old: &Value, new: &Value) -> Vec<Change> {
    let mut report = Report::new(definition::name(old));
    definition::compare(&mut report, old, new);
    style::examine(&mut report, Some(old), new);
    report.changes
}

/// Compares the definitions of two releases by name. A removed definition is an error; a new one is examined for [style](Level::Style)
/// only. Values of other kinds are ignored.
#[must_use]
pub fn compare_all<'v>(
    old: impl IntoIterator<Item = &'v Value>,
    new: impl IntoIterator<Item = &'v Value>,
) -> Vec<Change> {
    let definitions = |value: &&Value| value["kind"] == "CustomResourceDefinition";
    let old: Vec<&Value> = old.into_iter().filter(definitions).collect();
    let new: Vec<&Value> = new.into_iter().filter(definitions).collect();
    let of_name =
        |all: &[&'v Value], name: &str| all.iter().copied().find(|other| definition::name(other) == name);
    let mut changes = Vec::new();
    for old in &old {
        let name = definition::name(old);
        match of_name(&new, name) {
            Some(new) => changes.extend(compare(old, new)),
            None => {
                let mut report = Report::new(name);
                let advice = "its objects are deleted with it. Keep it, and stop to serve it first";
                report.add(Rule::DefinitionRemoved, "the definition", "is gone", advice);
                changes.extend(report.changes);
            }
        }
    }
    for new in new.iter().filter(|new| of_name(&old, definition::name(new)).is_none()) {
        let mut report = Report::new(definition::name(new));
        style::examine(&mut report, None, new);
        changes.extend(report.changes);
    }
    changes
}

/// Changes of one definition.
struct Report {
    definition: String,
    version: Option<String>,
    changes: Vec<Change>,
}

impl Report {
    fn new(definition: &str) -> Self {
        Self { definition: definition.to_owned(), version: None, changes: Vec::new() }
    }

    /// Adds a change with the level of its rule.
    fn add(&mut self, rule: Rule, path: &str, fact: impl Into<String>, advice: impl Into<String>) {
        self.add_with(rule.level(), rule, path, fact, advice);
    }

    fn add_with(
        &mut self,
        level: Level,
        rule: Rule,
        path: &str,
        fact: impl Into<String>,
        advice: impl Into<String>,
    ) {
        self.changes.push(Change {
            level,
            rule,
            definition: self.definition.clone(),
            version: self.version.clone(),
            path: if path.is_empty() { "the object".to_owned() } else { path.to_owned() },
            fact: fact.into(),
            advice: advice.into(),
        });
    }
}
