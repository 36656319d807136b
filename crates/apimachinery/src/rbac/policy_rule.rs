//! Rules of roles.

use std::fmt;

use serde_json::{Map, Value, json};

use super::action::{Action, ResourceAction};
use crate::go::quote;

/// Matches every value of a list.
const ALL: &str = "*";

/// A rule of a role: verbs on resources, or on paths that belong to no resource.
///
/// Formatted as in escalation errors: `{APIGroups:[""], Resources:["pods"], Verbs:["get"]}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PolicyRule {
    /// Verbs; `*` is all of them.
    pub verbs: Vec<String>,
    /// API groups; the core group is empty, `*` is all of them.
    pub api_groups: Vec<String>,
    /// Resources such as `pods`, subresources such as `pods/log` or `*/scale`; `*` is all of both.
    pub resources: Vec<String>,
    /// Names of the objects; empty allows all. Actions without a name, such as a create, need a rule without names.
    pub resource_names: Vec<String>,
    /// Paths; the last character may be `*`. A rule has either paths or resources.
    pub non_resource_urls: Vec<String>,
}

impl PolicyRule {
    /// Reads an element of `rules`. A list that is missing or has another type counts as empty, and grants nothing.
    #[must_use]
    pub fn from_value(rule: &Value) -> Self {
        let texts = |field: &str| {
            let values = rule[field].as_array().into_iter().flatten();
            values.filter_map(|value| value.as_str().map(str::to_owned)).collect()
        };
        Self {
            verbs: texts("verbs"),
            api_groups: texts("apiGroups"),
            resources: texts("resources"),
            resource_names: texts("resourceNames"),
            non_resource_urls: texts("nonResourceURLs"),
        }
    }

    /// Reads the `rules` of a role.
    #[must_use]
    pub fn list(rules: &Value) -> Vec<Self> {
        rules.as_array().into_iter().flatten().map(Self::from_value).collect()
    }

    /// Returns the rule as an element of `rules`. Empty lists are omitted, except for `verbs`.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let mut fields = Map::new();
        fields.insert("verbs".to_owned(), json!(self.verbs));
        for (name, values) in [
            ("apiGroups", &self.api_groups),
            ("resources", &self.resources),
            ("resourceNames", &self.resource_names),
            ("nonResourceURLs", &self.non_resource_urls),
        ] {
            if !values.is_empty() {
                fields.insert(name.to_owned(), json!(values));
            }
        }
        Value::Object(fields)
    }

    /// Whether the rule permits the action.
    #[must_use]
    pub fn allows(&self, action: &Action<'_>) -> bool {
        contains(&self.verbs, action.verb())
            && match action {
                Action::Path { path, .. } => self.non_resource_urls.iter().any(|url| url_covers(url, path)),
                Action::Resource(action) => self.allows_objects(action),
            }
    }

    fn allows_objects(&self, action: &ResourceAction<'_>) -> bool {
        contains(&self.api_groups, action.group)
            && self.resources.iter().any(|rule| resource_matches(rule, action))
            && (self.resource_names.is_empty() || self.resource_names.iter().any(|name| name == action.name))
    }
}

/// Whether a list of a rule has the value or `*`.
pub(super) fn contains(list: &[String], value: &str) -> bool {
    list.iter().any(|one| one == ALL || one == value)
}

/// Whether a resource of a rule includes that of the action: `*`, `pods`, `pods/log` or `*/log`.
fn resource_matches(rule: &str, action: &ResourceAction<'_>) -> bool {
    if rule == ALL {
        return true;
    }
    if action.subresource.is_empty() {
        return rule == action.resource;
    }
    // Compared in parts, which avoids an allocation for the combined name.
    let parent = rule.strip_suffix(action.subresource).and_then(|parent| parent.strip_suffix('/'));
    parent.is_some_and(|parent| parent == ALL || parent == action.resource)
}

/// Whether a path of a rule, which may end in `*`, includes another path or pattern.
pub(super) fn url_covers(url: &str, path: &str) -> bool {
    url == path || url.ends_with('*') && path.starts_with(url.trim_end_matches('*'))
}

impl fmt::Display for PolicyRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        for (name, values) in [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.non_resource_urls),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ] {
            if !values.is_empty() {
                parts.push(format!("{name}:{}", quoted(values)));
            }
        }
        write!(f, "{{{}}}", parts.join(", "))
    }
}

/// Formats a list of texts as Go's `%q`.
pub(super) fn quoted(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| quote(text)).collect();
    format!("[{}]", texts.join(" "))
}
