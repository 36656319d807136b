//! Matching by rules and selectors: whether a webhook or an admission policy reviews a request, and in which version of the resource.

use std::sync::Arc;

use kube_apimachinery::selector::LabelSelector;
use kube_apimachinery::status::ApiError;
use serde_json::Value;

use super::versions::Equivalents;
use super::{Attributes, Operation, is_namespace};
use crate::kind::registry::ServedKind;
use crate::kind::resource::Resource;
use crate::store::{Key, TypeMeta};

/// Requests that a webhook or an admission policy reviews.
#[derive(Debug)]
pub(super) struct MatchCriteria {
    /// Rules of which one must match; `None` matches all requests.
    rules: Option<Vec<RequestRule>>,
    /// Rules of which none may match.
    excluded: Vec<RequestRule>,
    /// Whether rules also match requests for the same resource in another version or group (`matchPolicy: Equivalent`).
    matches_equivalent: bool,
    /// Namespaces of the objects to review; `None` selects none, because the stored selector is invalid.
    namespace_selector: Option<LabelSelector>,
    object_selector: Option<LabelSelector>,
}

/// A rule: operations on resources.
#[derive(Debug)]
struct RequestRule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    /// Pairs of resource and subresource, each of which may be `*`.
    resources: Vec<(String, String)>,
    scope: ResourceScope,
    /// Names of the objects; empty for all names.
    names: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ResourceScope {
    All,
    Namespaced,
    Cluster,
}

impl RequestRule {
    fn read(rule: &Value) -> Self {
        let texts = |field: &str| -> Vec<String> {
            let texts = rule[field].as_array().into_iter().flatten();
            texts.filter_map(|text| Some(text.as_str()?.to_owned())).collect()
        };
        let split = |resource: String| match resource.split_once('/') {
            Some((resource, subresource)) => (resource.to_owned(), subresource.to_owned()),
            None => (resource, String::new()),
        };
        Self {
            operations: texts("operations"),
            groups: texts("apiGroups"),
            versions: texts("apiVersions"),
            resources: texts("resources").into_iter().map(split).collect(),
            scope: match rule["scope"].as_str() {
                Some("Namespaced") => ResourceScope::Namespaced,
                Some("Cluster") => ResourceScope::Cluster,
                _ => ResourceScope::All,
            },
            names: texts("resourceNames"),
        }
    }

    /// Whether the rule matches a request if it is seen as a request for `resource`.
    fn matches(&self, attributes: &Attributes<'_>, resource: &Resource) -> bool {
        // A namespace is cluster-scoped, although admission puts it in the namespace of its own name.
        let is_cluster_scoped = attributes.namespace.is_empty() || is_namespace(attributes.served);
        let in_scope = match self.scope {
            ResourceScope::All => true,
            ResourceScope::Namespaced => !is_cluster_scoped,
            ResourceScope::Cluster => is_cluster_scoped,
        };
        let has = |list: &[String], wanted: &str| list.iter().any(|entry| entry == "*" || entry == wanted);
        let is_named = |(name, subresource): &(String, String)| {
            (name == "*" || *name == resource.plural)
                && (subresource == "*" || subresource == attributes.subresource)
        };
        in_scope
            && has(&self.operations, operation_name(attributes.operation))
            && has(&self.groups, &resource.group)
            && has(&self.versions, &resource.version)
            && self.resources.iter().any(is_named)
            // A name that is still to be generated is in no list.
            && (self.names.is_empty() || self.names.iter().any(|name| name == attributes.name))
    }
}

/// Returns the name of an operation in rules and reviews.
pub(super) fn operation_name(operation: Operation) -> &'static str {
    match operation {
        Operation::Create => "CREATE",
        Operation::Update => "UPDATE",
        Operation::Delete => "DELETE",
        Operation::Connect => "CONNECT",
    }
}

/// Resource as which a webhook or an admission policy receives the request.
#[derive(Debug, Clone)]
pub(super) enum ReceivedAs {
    /// The resource of the request.
    Requested,
    /// The resource of the request in another version, or in another group.
    Equivalent(Arc<ServedKind>),
}

impl ReceivedAs {
    /// Whether both are the same resource in the same version.
    pub(super) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Requested, Self::Requested) => true,
            (Self::Equivalent(one), Self::Equivalent(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

impl MatchCriteria {
    /// Reads the criteria of a webhook.
    pub(super) fn of_webhook(hook: &Value) -> Self {
        Self::read(hook, Some(rules_in(hook, "rules")))
    }

    /// Reads the `matchConstraints` of an admission policy or the `matchResources` of its binding. Without rules they match all requests.
    pub(super) fn of_policy(resources: &Value) -> Self {
        let rules = Some(rules_in(resources, "resourceRules")).filter(|rules| !rules.is_empty());
        Self::read(resources, rules)
    }

    fn read(criteria: &Value, rules: Option<Vec<RequestRule>>) -> Self {
        Self {
            rules,
            excluded: rules_in(criteria, "excludeResourceRules"),
            matches_equivalent: criteria["matchPolicy"] != "Exact",
            namespace_selector: LabelSelector::from_object(&criteria["namespaceSelector"]),
            object_selector: LabelSelector::from_object(&criteria["objectSelector"]),
        }
    }

    /// Returns the resource as which a webhook or policy receives the request; `None` if the rules or selectors do not match. Match
    /// conditions are not evaluated here.
    ///
    /// # Errors
    /// 404 if the namespace does not exist: the selector needs its labels.
    pub(super) fn matches(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        equivalents: &Equivalents,
    ) -> Result<Option<ReceivedAs>, ApiError> {
        // Rules come first, because they cost least and decide most often.
        if self.matching_form(&self.excluded, attributes, equivalents).is_some() {
            return Ok(None);
        }
        let form = match &self.rules {
            None => Some(ReceivedAs::Requested),
            Some(rules) => self.matching_form(rules, attributes, equivalents),
        };
        let Some(form) = form else { return Ok(None) };
        if !selects_object(self.object_selector.as_ref(), attributes, object) {
            return Ok(None);
        }
        let is_selected = selects_namespace(self.namespace_selector.as_ref(), attributes, object)?;
        Ok(is_selected.then_some(form))
    }

    /// Returns the resource by which one of these rules matches.
    fn matching_form(
        &self,
        rules: &[RequestRule],
        attributes: &Attributes<'_>,
        equivalents: &Equivalents,
    ) -> Option<ReceivedAs> {
        // Another version is only tried if no rule has that of the request, which needs no conversion.
        if rules.iter().any(|rule| rule.matches(attributes, &attributes.served.resource)) {
            return Some(ReceivedAs::Requested);
        }
        if !self.matches_equivalent || rules.is_empty() {
            return None;
        }
        let others = equivalents.of(attributes.cluster, attributes.served, attributes.subresource);
        let of_rule = |rule: &RequestRule| {
            others.iter().find(|other| rule.matches(attributes, &other.resource)).cloned()
        };
        // As in kube-apiserver, the order of the rules decides between several versions.
        rules.iter().find_map(of_rule).map(ReceivedAs::Equivalent)
    }
}

fn rules_in(criteria: &Value, field: &str) -> Vec<RequestRule> {
    criteria[field].as_array().into_iter().flatten().map(RequestRule::read).collect()
}

/// Whether the object selector matches the object before or after the request.
fn selects_object(
    selector: Option<&LabelSelector>,
    attributes: &Attributes<'_>,
    object: Option<&Value>,
) -> bool {
    let Some(selector) = selector else { return false };
    if selector.is_empty() {
        return true;
    }
    // The parameters of a connection have no metadata.
    let objects = [object, attributes.old]
        .into_iter()
        .flatten()
        .filter(|object| attributes.operation != Operation::Connect && object.is_object());
    objects.into_iter().any(|object| selector.matches(object))
}

/// Whether the namespace selector matches. Objects without a namespace always match; for a namespace its own labels count.
fn selects_namespace(
    selector: Option<&LabelSelector>,
    attributes: &Attributes<'_>,
    object: Option<&Value>,
) -> Result<bool, ApiError> {
    let is_namespace = is_namespace(attributes.served);
    if attributes.namespace.is_empty() && !is_namespace {
        return Ok(true);
    }
    let Some(selector) = selector else { return Ok(false) };
    // An empty selector needs no labels, so it also matches in a namespace that does not exist.
    if selector.is_empty() {
        return Ok(true);
    }
    // The store does not have the labels of this write yet.
    if is_namespace
        && attributes.subresource.is_empty()
        && matches!(attributes.operation, Operation::Create | Operation::Update)
        && let Some(object) = object
    {
        return Ok(selector.matches(object));
    }
    let name = attributes.namespace;
    let table = crate::kinds::namespace::table();
    let stored = attributes.cluster.read(|store| store.get(&table, &Key::new("", name)).cloned());
    let stored = stored.ok_or_else(|| ApiError::not_found("", "namespaces", name))?;
    Ok(selector.matches(&stored.document.to_value(&TypeMeta::new("v1", "Namespace"), stored.revision)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::admission::OperationOptions;
    use crate::request::query::{DeleteOptions, WriteKind, WriteOptions};
    use crate::testing;

    /// Checks which requests of the form `OPERATION path` a rule matches.
    fn check(rule: &Value, requests: &[(&str, Operation, bool)]) {
        let server = testing::server();
        let rule = RequestRule::read(rule);
        for (path, operation, expected) in requests {
            let call = testing::call(&server, path);
            let write = WriteOptions::read(&call.query, WriteKind::Update).unwrap();
            let delete = DeleteOptions::read(&call.query, None).unwrap();
            let options = match operation {
                Operation::Create => OperationOptions::Create(&write),
                Operation::Update => OperationOptions::Update(&write),
                Operation::Delete => OperationOptions::Delete(&delete),
                Operation::Connect => OperationOptions::Connect,
            };
            let attributes = call.attributes(options, None);
            assert_eq!(rule.matches(&attributes, &call.served.resource), *expected, "{operation:?} {path}");
        }
    }

    const PODS: &str = "/api/v1/namespaces/default/pods";
    const POD: &str = "/api/v1/namespaces/default/pods/p";
    const STATUS: &str = "/api/v1/namespaces/default/pods/p/status";
    const NODE: &str = "/api/v1/nodes/n";
    const NAMESPACE: &str = "/api/v1/namespaces/default";
    const SCALE: &str = "/apis/apps/v1/namespaces/default/deployments/d/scale";

    #[tokio::test]
    async fn a_rule_without_a_subresource_matches_none() {
        let rule = json!({"operations": ["CREATE", "UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]});
        check(
            &rule,
            &[
                (PODS, Operation::Create, true),
                (POD, Operation::Update, true),
                (POD, Operation::Delete, false),
                (STATUS, Operation::Update, false),
                (NODE, Operation::Update, false),
            ],
        );
    }

    #[tokio::test]
    async fn stars_match_any_resource_or_any_subresource() {
        let rule = |resources: &[&str]| json!({"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": resources});
        let update = Operation::Update;
        check(&rule(&["*"]), &[(POD, update, true), (STATUS, update, false), (SCALE, update, false)]);
        check(&rule(&["pods/*"]), &[(POD, update, true), (STATUS, update, true), (SCALE, update, false)]);
        check(&rule(&["*/scale"]), &[(POD, update, false), (STATUS, update, false), (SCALE, update, true)]);
        check(&rule(&["*/*"]), &[(POD, update, true), (STATUS, update, true), (NODE, update, true)]);
    }

    #[tokio::test]
    async fn a_namespace_is_cluster_scoped() {
        let rule = |scope: &str| {
            json!({
                "operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "scope": scope,
            })
        };
        let update = Operation::Update;
        check(&rule("Cluster"), &[(POD, update, false), (NODE, update, true), (NAMESPACE, update, true)]);
        check(&rule("Namespaced"), &[(POD, update, true), (NODE, update, false), (NAMESPACE, update, false)]);
        check(&rule("*"), &[(POD, update, true), (NODE, update, true), (NAMESPACE, update, true)]);
    }
}
