//! The smallest roles that grant a set of rights.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::{
    api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use serde_json::json;

use super::right::{Right, RightScope, Target, in_order};

const GROUP: &str = "rbac.authorization.k8s.io";

/// Roles that grant exactly the rights of [`Declarations`](super::Declarations). Made by
/// [`Declarations::roles`](super::Declarations::roles).
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Roles {
    /// Rights in all namespaces and on kinds without namespaces; `None` if there are none.
    pub cluster_role: Option<ClusterRole>,
    /// Rights in single namespaces that the ClusterRole does not grant, one Role for each namespace.
    pub roles: Vec<Role>,
}

/// Bindings of [`Roles`] to a ServiceAccount.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Bindings {
    /// Binding of the ClusterRole.
    pub cluster_role_binding: Option<ClusterRoleBinding>,
    /// Bindings of the Roles, in the same order.
    pub role_bindings: Vec<RoleBinding>,
}

impl Roles {
    /// Makes roles called `name` for an operator that runs in `namespace`.
    pub(super) fn of<'r>(rights: impl IntoIterator<Item = &'r Right>, name: &str, namespace: &str) -> Self {
        let mut everywhere = Verbs::default();
        let mut by_namespace: BTreeMap<Arc<str>, Verbs> = BTreeMap::new();
        for right in rights {
            match &right.scope {
                // A URL has no namespace, so only a ClusterRole can grant it.
                _ if matches!(right.target, Target::Url(_)) => everywhere.add(right),
                RightScope::Cluster => everywhere.add(right),
                RightScope::OwnNamespace => by_namespace.entry(Arc::from(namespace)).or_default().add(right),
                RightScope::Namespaces { names, .. } => {
                    for name in names {
                        by_namespace.entry(Arc::clone(name)).or_default().add(right);
                    }
                }
            }
        }
        let metadata = |namespace: Option<&str>| ObjectMeta {
            name: Some(name.to_owned()),
            namespace: namespace.map(str::to_owned),
            ..ObjectMeta::default()
        };
        let nothing = Verbs::default();
        let roles = by_namespace.iter().filter_map(|(namespace, verbs)| {
            let rules = verbs.rules(&everywhere);
            (!rules.is_empty()).then(|| Role { metadata: metadata(Some(namespace)), rules: Some(rules) })
        });
        let rules = everywhere.rules(&nothing);
        let cluster_role = (!rules.is_empty()).then(|| ClusterRole {
            metadata: metadata(None),
            rules: Some(rules),
            ..ClusterRole::default()
        });
        Self { cluster_role, roles: roles.collect() }
    }

    /// Binds the roles to the ServiceAccount `service_account` in `namespace`. A binding is called like its role.
    #[must_use]
    pub fn bindings(&self, service_account: &str, namespace: &str) -> Bindings {
        let subject = || Subject {
            kind: "ServiceAccount".to_owned(),
            name: service_account.to_owned(),
            namespace: Some(namespace.to_owned()),
            ..Subject::default()
        };
        let role_ref = |kind: &str, metadata: &ObjectMeta| RoleRef {
            api_group: Some(GROUP.to_owned()),
            kind: kind.to_owned(),
            name: metadata.name.clone().unwrap_or_default(),
        };
        let cluster_role_binding = self.cluster_role.as_ref().map(|role| ClusterRoleBinding {
            metadata: role.metadata.clone(),
            role_ref: role_ref("ClusterRole", &role.metadata),
            subjects: Some(vec![subject()]),
        });
        let role_bindings = self.roles.iter().map(|role| RoleBinding {
            metadata: role.metadata.clone(),
            role_ref: role_ref("Role", &role.metadata),
            subjects: Some(vec![subject()]),
        });
        Bindings { cluster_role_binding, role_bindings: role_bindings.collect() }
    }

    /// The roles and their [bindings](Self::bindings) as a text for `kubectl apply` and for tests: YAML documents, each written as JSON.
    #[must_use]
    pub fn manifest(&self, service_account: &str, namespace: &str) -> String {
        let bindings = self.bindings(service_account, namespace);
        let roles =
            self.cluster_role.iter().map(|role| json!(role)).chain(self.roles.iter().map(|role| json!(role)));
        let whole = bindings.cluster_role_binding.iter().map(|binding| json!(binding));
        let single = bindings.role_bindings.iter().map(|binding| json!(binding));
        roles.chain(whole).chain(single).map(|object| format!("---\n{object:#}\n")).collect()
    }
}

type ByName = BTreeMap<Option<String>, BTreeSet<Cow<'static, str>>>;

/// Verbs by object and by URL.
#[derive(Default)]
struct Verbs {
    /// By group and resource with subresource; then by name, `None` for all names.
    objects: BTreeMap<(String, String), ByName>,
    urls: BTreeMap<String, BTreeSet<Cow<'static, str>>>,
}

impl Verbs {
    fn add(&mut self, right: &Right) {
        match &right.target {
            Target::Url(path) => self.urls.entry(path.clone()).or_default().extend(right.verbs.clone()),
            Target::Objects { group, resource, subresource, names } => {
                let slash = if subresource.is_empty() { "" } else { "/" };
                let key = (group.clone(), format!("{resource}{slash}{subresource}"));
                let by_name = self.objects.entry(key).or_default();
                let all = names.is_empty().then_some(None);
                for name in all.into_iter().chain(names.iter().cloned().map(Some)) {
                    by_name.entry(name).or_default().extend(right.verbs.clone());
                }
            }
        }
    }

    /// The smallest rules that grant these verbs, without those that `others` grant.
    fn rules(&self, others: &Self) -> Vec<PolicyRule> {
        let mut rules = self.object_rules(others);
        rules.extend(self.url_rules(others));
        rules
    }

    fn object_rules(&self, others: &Self) -> Vec<PolicyRule> {
        // Resources of one group with the same verbs share a rule, and so do names of one resource.
        let mut plain: BTreeMap<(&str, Vec<&str>), Vec<&str>> = BTreeMap::new();
        let mut named: BTreeMap<(&str, &str, Vec<&str>), Vec<&str>> = BTreeMap::new();
        for (key, by_name) in &self.objects {
            let (group, resource) = (key.0.as_str(), key.1.as_str());
            let elsewhere = others.objects.get(key);
            let granted = |name: &Option<String>, verb: &Cow<'static, str>| {
                let has = |by_name: &ByName, name: &Option<String>| {
                    by_name.get(name).is_some_and(|verbs| verbs.contains(verb))
                };
                let by_another_rule = name.is_some() && has(by_name, &None);
                by_another_rule || elsewhere.is_some_and(|others| has(others, &None) || has(others, name))
            };
            for (name, verbs) in by_name {
                let verbs = in_order(verbs.iter().filter(|verb| !granted(name, verb)));
                match name {
                    _ if verbs.is_empty() => {}
                    None => plain.entry((group, verbs)).or_default().push(resource),
                    Some(name) => named.entry((group, resource, verbs)).or_default().push(name),
                }
            }
        }
        let mut rules: Vec<PolicyRule> = Vec::new();
        rules.extend(plain.into_iter().map(|((group, verbs), resources)| PolicyRule {
            api_groups: Some(texts(&[group])),
            resources: Some(texts(&resources)),
            verbs: texts(&verbs),
            ..PolicyRule::default()
        }));
        rules.extend(named.into_iter().map(|((group, resource, verbs), names)| PolicyRule {
            api_groups: Some(texts(&[group])),
            resources: Some(texts(&[resource])),
            resource_names: Some(texts(&names)),
            verbs: texts(&verbs),
            ..PolicyRule::default()
        }));
        // By resource, so that the same rights give the same text.
        rules.sort_by(|one, other| {
            let key = |rule: &PolicyRule| {
                (rule.api_groups.clone(), rule.resources.clone(), rule.resource_names.clone())
            };
            key(one).cmp(&key(other))
        });
        rules
    }

    fn url_rules(&self, others: &Self) -> Vec<PolicyRule> {
        let mut urls: BTreeMap<Vec<&str>, Vec<&str>> = BTreeMap::new();
        for (path, verbs) in &self.urls {
            let elsewhere = others.urls.get(path);
            let granted = |verb: &&Cow<'static, str>| !elsewhere.is_some_and(|others| others.contains(*verb));
            let verbs = in_order(verbs.iter().filter(granted));
            if !verbs.is_empty() {
                urls.entry(verbs).or_default().push(path);
            }
        }
        let rules = urls.into_iter().map(|(verbs, paths)| PolicyRule {
            non_resource_urls: Some(texts(&paths)),
            verbs: texts(&verbs),
            ..PolicyRule::default()
        });
        rules.collect()
    }
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}
