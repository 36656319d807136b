//! All roles and bindings of a cluster, with an index by subject.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use super::action::Action;
use super::policy_rule::PolicyRule;
use super::role::{Binding, Identity, Kind, Principal, Role, RoleRef, Unresolved};
use crate::go;

/// Roles and bindings, found by name and by subject.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// Rules by namespace and name of the role; ClusterRoles are in the namespace "".
    roles: BTreeMap<String, BTreeMap<String, Arc<[PolicyRule]>>>,
    /// Bindings by namespace; ClusterRoleBindings are in the namespace "".
    bindings: BTreeMap<String, Bindings>,
}

/// Bindings of a namespace.
#[derive(Debug, Clone, Default)]
struct Bindings {
    by_name: BTreeMap<Arc<str>, Arc<Binding>>,
    by_user: BTreeMap<String, BTreeSet<Arc<str>>>,
    by_group: BTreeMap<String, BTreeSet<Arc<str>>>,
}

/// Result of access control.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// A rule permits the action.
    Allowed(Grant),
    /// No rule permits the action.
    Denied {
        /// Bindings of the user that could not be evaluated, as messages.
        errors: Vec<String>,
    },
}

impl Decision {
    /// Whether the action is permitted.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed(_))
    }

    /// Returns the reason for a `SubjectAccessReview`, and for the message of a 403; empty for a denial without errors.
    #[must_use]
    pub fn reason(&self) -> String {
        match self {
            Self::Allowed(grant) => format!("RBAC: allowed by {grant}"),
            Self::Denied { errors } if errors.is_empty() => String::new(),
            Self::Denied { errors } => format!("RBAC: {}", go::join_errors(errors)),
        }
    }
}

/// Binding and rule that permit an action. Formatted as `ClusterRoleBinding "a" of ClusterRole "b" to User "c"`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    binding: Arc<Binding>,
    /// Position of the subject in the binding.
    subject: usize,
    /// Rules of the role to which the binding refers.
    rules: Arc<[PolicyRule]>,
    /// Position of the rule that permits the action.
    rule: usize,
}

impl Grant {
    /// Returns the binding.
    #[must_use]
    pub fn binding(&self) -> &Binding {
        &self.binding
    }

    /// Returns the first rule of the role that permits the action.
    #[must_use]
    pub fn rule(&self) -> &PolicyRule {
        &self.rules[self.rule]
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.binding.subjects.get(self.subject) {
            Some(subject) => self.binding.describe(subject, f),
            None => Ok(()),
        }
    }
}

impl Policy {
    /// Adds a role, or replaces the role of the same name.
    pub fn put_role(&mut self, role: Role) {
        self.roles.entry(role.namespace).or_default().insert(role.name, role.rules);
    }

    /// Adds a binding, or replaces the binding of the same name.
    pub fn put_binding(&mut self, binding: Binding) {
        // A replaced binding may have had other subjects, which must leave the index.
        self.remove_binding(&binding.namespace, &binding.name);
        let name: Arc<str> = Arc::from(binding.name.as_str());
        let Bindings { by_name, by_user, by_group } =
            self.bindings.entry(binding.namespace.clone()).or_default();
        for subject in &binding.subjects {
            let (index, subject) = match subject.principal(&binding.namespace) {
                Some(Principal::User(user)) => (&mut *by_user, user),
                Some(Principal::Group(group)) => (&mut *by_group, group),
                None => continue,
            };
            index.entry(subject).or_default().insert(Arc::clone(&name));
        }
        by_name.insert(name, Arc::new(binding));
    }

    /// Removes a role or a binding; does nothing if no object has this name.
    pub fn remove(&mut self, kind: Kind, namespace: &str, name: &str) {
        match kind {
            Kind::Role | Kind::ClusterRole => {
                if let Some(roles) = self.roles.get_mut(namespace) {
                    roles.remove(name);
                    if roles.is_empty() {
                        self.roles.remove(namespace);
                    }
                }
            }
            Kind::RoleBinding | Kind::ClusterRoleBinding => self.remove_binding(namespace, name),
        }
    }

    fn remove_binding(&mut self, namespace: &str, name: &str) {
        let Some(bindings) = self.bindings.get_mut(namespace) else { return };
        let Some(binding) = bindings.by_name.remove(name) else { return };
        for subject in &binding.subjects {
            let (index, subject) = match subject.principal(namespace) {
                Some(Principal::User(user)) => (&mut bindings.by_user, user),
                Some(Principal::Group(group)) => (&mut bindings.by_group, group),
                None => continue,
            };
            if let Some(names) = index.get_mut(&subject) {
                names.remove(name);
                if names.is_empty() {
                    index.remove(&subject);
                }
            }
        }
        if bindings.by_name.is_empty() {
            self.bindings.remove(namespace);
        }
    }

    /// Decides whether a user may perform an action. Bindings of the cluster count, and those in the namespace of the action.
    #[must_use]
    pub fn decide(&self, user: Identity<'_>, action: &Action<'_>) -> Decision {
        let mut errors = Vec::new();
        for bindings in self.scopes(action.namespace()) {
            // A binding that names the user twice is evaluated twice, which changes nothing.
            for binding in bindings.sets_of(user).flatten().filter_map(|name| bindings.by_name.get(name)) {
                match self.rules_of(&binding.role, &binding.namespace) {
                    Ok(rules) => {
                        if let Some(rule) = rules.iter().position(|rule| rule.allows(action)) {
                            let subject = binding.subject_of(user).unwrap_or_default();
                            let (binding, rules) = (Arc::clone(binding), Arc::clone(rules));
                            return Decision::Allowed(Grant { binding, subject, rules, rule });
                        }
                    }
                    Err(error) => errors.push(error.to_string()),
                }
            }
        }
        Decision::Denied { errors }
    }

    /// Returns all rules of a user in a namespace, those of ClusterRoleBindings first, and the bindings that could not be evaluated. An
    /// empty namespace stands for ClusterRoleBindings alone.
    #[must_use]
    pub fn rules_for(&self, user: Identity<'_>, namespace: &str) -> (Vec<PolicyRule>, Vec<Unresolved>) {
        let (mut found, mut errors) = (Vec::new(), Vec::new());
        for bindings in self.scopes(namespace) {
            let names: BTreeSet<&Arc<str>> = bindings.sets_of(user).flatten().collect();
            for binding in names.into_iter().filter_map(|name| bindings.by_name.get(name)) {
                match self.rules_of(&binding.role, &binding.namespace) {
                    Ok(rules) => found.extend(rules.iter().cloned()),
                    Err(error) => errors.push(error),
                }
            }
        }
        (found, errors)
    }

    /// Returns the rules of the role of a binding in `namespace`, which is empty for a ClusterRoleBinding.
    ///
    /// # Errors
    /// [`Unresolved`] if there is no such role.
    pub fn rules_of(&self, role: &RoleRef, namespace: &str) -> Result<&Arc<[PolicyRule]>, Unresolved> {
        let (resource, namespace) = match role.kind.as_str() {
            // A ClusterRoleBinding, which is in no namespace, cannot refer to a Role.
            "Role" if namespace.is_empty() => ("role", None),
            "Role" => ("role", Some(namespace)),
            "ClusterRole" => ("clusterrole", Some("")),
            other => return Err(Unresolved::UnknownKind(other.to_owned())),
        };
        let rules = namespace.and_then(|namespace| self.roles.get(namespace)?.get(&role.name));
        rules.ok_or_else(|| Unresolved::NotFound { resource, name: role.name.clone() })
    }

    /// Returns the ClusterRoleBindings and the bindings of a namespace.
    fn scopes(&self, namespace: &str) -> impl Iterator<Item = &Bindings> {
        let local = (!namespace.is_empty()).then(|| self.bindings.get(namespace)).flatten();
        self.bindings.get("").into_iter().chain(local)
    }
}

impl Bindings {
    /// Returns the names of the bindings of a user, one set for its name and one for each group.
    fn sets_of<'a>(&'a self, user: Identity<'a>) -> impl Iterator<Item = &'a BTreeSet<Arc<str>>> {
        let own = self.by_user.get(user.name);
        own.into_iter().chain(user.groups.iter().filter_map(move |group| self.by_group.get(group)))
    }
}
