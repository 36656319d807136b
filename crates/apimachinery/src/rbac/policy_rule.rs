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
    /// Returns the rules that the default bindings grant to the group `system:authenticated`: those of the ClusterRoles `system:discovery`,
    /// `system:public-info-viewer` and `system:basic-user`.
    #[must_use]
    pub fn of_authenticated_users() -> [Self; 3] {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let reviews = |group: &str, resources: &[&str]| Self {
            verbs: texts(&["create"]),
            api_groups: texts(&[group]),
            resources: texts(resources),
            ..Self::default()
        };
        let urls = [
            "/api",
            "/api/*",
            "/apis",
            "/apis/*",
            "/healthz",
            "/livez",
            "/openapi",
            "/openapi/*",
            "/readyz",
            "/version",
            "/version/",
        ];
        [
            Self { verbs: texts(&["get"]), non_resource_urls: texts(&urls), ..Self::default() },
            reviews("authorization.k8s.io", &["selfsubjectaccessreviews", "selfsubjectrulesreviews"]),
            reviews("authentication.k8s.io", &["selfsubjectreviews"]),
        ]
    }

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
        self.part_that_allows(action).is_some()
    }

    /// Returns the part of the rule that permits the action; `None` if the rule does not.
    #[must_use]
    pub fn part_that_allows(&self, action: &Action<'_>) -> Option<RulePart<'_>> {
        let verb = find(&self.verbs, action.verb())?;
        match action {
            Action::Path { path, .. } => {
                let path = self.non_resource_urls.iter().find(|url| url_covers(url, path))?;
                Some(RulePart::Path { verb, path })
            }
            Action::Resource(action) => {
                let group = find(&self.api_groups, action.group)?;
                let resource = self.resources.iter().find(|rule| resource_matches(rule, action))?;
                let is_named = self.resource_names.is_empty()
                    || self.resource_names.iter().any(|name| name == action.name);
                is_named.then_some(RulePart::Resource { verb, group, resource })
            }
        }
    }
}

/// Part of a [`PolicyRule`], with its asterisks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RulePart<'r> {
    /// A verb on a resource.
    Resource {
        /// Verb, such as `get` or `*`.
        verb: &'r str,
        /// API group, such as `apps` or `*`; empty for the core group.
        group: &'r str,
        /// Resource, such as `pods`, `pods/log`, `*/scale` or `*`.
        resource: &'r str,
    },
    /// A verb on a path.
    Path {
        /// Verb, such as `get` or `*`.
        verb: &'r str,
        /// Path, such as `/metrics` or `/logs/*`.
        path: &'r str,
    },
}

/// Whether a list of a rule has the value or `*`.
pub(super) fn contains(list: &[String], value: &str) -> bool {
    find(list, value).is_some()
}

/// Returns the first element that is the value or `*`.
fn find<'l>(list: &'l [String], value: &str) -> Option<&'l str> {
    list.iter().find(|one| *one == ALL || *one == value).map(String::as_str)
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
