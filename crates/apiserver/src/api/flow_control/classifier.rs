//! Matching rules of flow schemas, as documented by Kubernetes under "API Priority and Fairness".
//!
//! Among the schemas that match a request, the one with the lowest precedence wins; of equal ones, the first by name. A schema matches if
//! one of its rules matches both the user and the request. A schema without an existing priority level matches nothing.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::Value;

use crate::request::info::{RequestInfo, RequestTarget};
use crate::user::UserInfo;

const SCHEMA_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
const LEVEL_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");
/// Wildcard in a list of a rule, or in a user or group name.
const ALL: &str = "*";

/// Flow of a request, as UIDs. Names would reveal to users how the server ranks other users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Flow {
    schema: HeaderValue,
    level: HeaderValue,
}

impl Flow {
    /// Adds the response headers.
    pub(crate) fn write(self, headers: &mut HeaderMap) {
        headers.insert(SCHEMA_UID, self.schema);
        headers.insert(LEVEL_UID, self.level);
    }
}

/// Schemas with an existing priority level, in order of evaluation.
#[derive(Debug, Default)]
pub(super) struct Classifier(Vec<(Flow, Vec<FlowRule>)>);

impl Classifier {
    pub(super) fn new(
        schemas: impl IntoIterator<Item = ParsedFlowSchema>,
        levels: impl IntoIterator<Item = PriorityLevel>,
    ) -> Self {
        let levels: BTreeMap<String, HeaderValue> =
            levels.into_iter().map(|level| (level.name, level.uid)).collect();
        let mut schemas: Vec<ParsedFlowSchema> = schemas.into_iter().collect();
        schemas.sort_by(|one, other| (one.precedence, &one.name).cmp(&(other.precedence, &other.name)));
        let of = |schema: ParsedFlowSchema| {
            let level = levels.get(&schema.level)?.clone();
            Some((Flow { schema: schema.uid, level }, schema.rules))
        };
        Self(schemas.into_iter().filter_map(of).collect())
    }

    pub(super) fn classify(&self, user: &UserInfo, target: &RequestTarget) -> Option<Flow> {
        let mut schemas = self.0.iter();
        schemas
            .find(|(_, rules)| rules.iter().any(|rule| rule.takes(user, target)))
            .map(|(flow, _)| flow.clone())
    }
}

/// A priority level.
#[derive(Debug)]
pub(super) struct PriorityLevel {
    name: String,
    uid: HeaderValue,
}

impl PriorityLevel {
    pub(super) fn read(object: Value) -> Option<Self> {
        let Object { metadata, .. } = serde_json::from_value::<Object<Value>>(object).ok()?;
        Some(Self { name: metadata.name, uid: HeaderValue::try_from(metadata.uid).ok()? })
    }
}

/// A flow schema.
#[derive(Debug)]
pub(super) struct ParsedFlowSchema {
    name: String,
    uid: HeaderValue,
    precedence: i64,
    /// Name of its priority level.
    level: String,
    rules: Vec<FlowRule>,
}

impl ParsedFlowSchema {
    /// Reads a flow schema; `None` if it is invalid.
    pub(super) fn read(object: Value) -> Option<Self> {
        let Object { metadata, spec } = serde_json::from_value::<Object<Spec>>(object).ok()?;
        Some(Self {
            name: metadata.name,
            uid: HeaderValue::try_from(metadata.uid).ok()?,
            precedence: spec.matching_precedence,
            level: spec.priority_level_configuration.name,
            rules: spec.rules,
        })
    }
}

#[derive(Deserialize)]
struct Object<S> {
    metadata: Metadata,
    spec: S,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    uid: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    priority_level_configuration: NamedSubject,
    matching_precedence: i64,
    #[serde(default)]
    rules: Vec<FlowRule>,
}

#[derive(Debug, Deserialize)]
struct NamedSubject {
    name: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FlowRule {
    #[serde(default)]
    subjects: Vec<Subject>,
    #[serde(default)]
    resource_rules: Vec<ResourceRule>,
    #[serde(default, rename = "nonResourceRules")]
    path_rules: Vec<PathRule>,
}

impl FlowRule {
    /// Whether the rule matches user and request. The attributes of the request (`RequestInfo`) are computed only if they are needed: most
    /// rules match everything, or only paths.
    fn takes(&self, user: &UserInfo, target: &RequestTarget) -> bool {
        if !self.subjects.iter().any(|subject| subject.is(user)) {
            return false;
        }
        if self.resource_rules.iter().any(ResourceRule::is_everything)
            && self.path_rules.iter().any(PathRule::is_everything)
        {
            return true;
        }
        // Path rules apply to requests without a resource, resource rules to all others. The attributes, which distinguish the two, are
        // read last because they are expensive.
        let path = self.path_rules.iter().any(|rule| rule.takes(target));
        if self.resource_rules.is_empty() && !path {
            return false;
        }
        match target.info() {
            Some(facts) => self.resource_rules.iter().any(|rule| rule.takes(facts)),
            None => path,
        }
    }
}

/// User, group or service account of a rule.
#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all_fields = "camelCase")]
enum Subject {
    User { user: NamedSubject },
    Group { group: NamedSubject },
    ServiceAccount { service_account: Account },
}

#[derive(Debug, Deserialize)]
struct Account {
    namespace: String,
    name: String,
}

impl Subject {
    fn is(&self, user: &UserInfo) -> bool {
        match self {
            Self::User { user: meant } => [ALL, user.name.as_str()].contains(&meant.name.as_str()),
            Self::Group { group } => group.name == ALL || user.groups.contains(&group.name),
            Self::ServiceAccount { service_account: meant } => {
                let parts = user.name.strip_prefix("system:serviceaccount:");
                parts.and_then(|parts| parts.split_once(':')).is_some_and(|(namespace, name)| {
                    namespace == meant.namespace && [ALL, name].contains(&meant.name.as_str())
                })
            }
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResourceRule {
    verbs: Vec<String>,
    api_groups: Vec<String>,
    /// Plural names, with a subresource if the rule is about one, such as `pods/log`.
    resources: Vec<String>,
    #[serde(default)]
    namespaces: Vec<String>,
    /// Whether requests without a namespace match too.
    #[serde(default)]
    cluster_scope: bool,
}

impl ResourceRule {
    fn is_everything(&self) -> bool {
        let lists = [&self.verbs, &self.api_groups, &self.resources, &self.namespaces];
        self.cluster_scope && lists.into_iter().all(|list| list.iter().any(|item| item == ALL))
    }

    fn takes(&self, facts: &RequestInfo) -> bool {
        let namespace = facts.effective_namespace();
        let is_resource = |item: &str| {
            if facts.subresource.is_empty() {
                return item == facts.resource;
            }
            item.split_once('/') == Some((facts.resource.as_str(), facts.subresource.as_str()))
        };
        has(&self.verbs, facts.verb.name())
            && has(&self.api_groups, &facts.group)
            && self.resources.iter().any(|item| item == ALL || is_resource(item))
            && if namespace.is_empty() { self.cluster_scope } else { has(&self.namespaces, namespace) }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PathRule {
    verbs: Vec<String>,
    #[serde(rename = "nonResourceURLs")]
    paths: Vec<String>,
}

impl PathRule {
    fn is_everything(&self) -> bool {
        [&self.verbs, &self.paths].into_iter().all(|list| list.iter().any(|item| item == ALL))
    }

    fn takes(&self, target: &RequestTarget) -> bool {
        let path = target.path();
        let is_verb = |verb: &String| verb == ALL || verb.eq_ignore_ascii_case(target.method.as_str());
        // A path also matches all paths below it, with or without a trailing star.
        let is_path = |meant: &String| {
            let above = meant.strip_suffix('*').unwrap_or(meant);
            let above = above.strip_suffix('/').unwrap_or(above);
            meant == ALL
                || meant == path
                || path.strip_prefix(above).is_some_and(|below| below.starts_with('/'))
        };
        self.verbs.iter().any(is_verb) && self.paths.iter().any(is_path)
    }
}

/// Whether a list of a rule contains an item or the wildcard.
fn has(list: &[String], item: &str) -> bool {
    list.iter().any(|meant| meant == ALL || meant == item)
}

#[cfg(test)]
mod tests;
