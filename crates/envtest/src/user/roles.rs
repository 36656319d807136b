//! Roles and bindings in manifests, and the permissions they grant a user. Pure, except for reading files and removing objects.

use std::collections::BTreeSet;
use std::path::Path;

use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::Api;
use kube::api::DeleteParams;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Permission, UserError};
use crate::documents::{documents_of, files_of};

const GROUP: &str = "rbac.authorization.k8s.io";

/// Name of a user, and how the bindings of its manifests name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Subject {
    /// Bindings bind the user instead of their subjects.
    User(String),
    /// Bindings keep their subjects. A binding counts if the account, or one of its groups, is among them.
    ServiceAccount { namespace: String, name: String },
}

impl Subject {
    /// Name of the user in requests.
    pub(super) fn user_name(&self) -> String {
        match self {
            Self::User(name) => name.clone(),
            Self::ServiceAccount { namespace, name } => {
                kube_apimachinery::rbac::service_account_name(namespace, name)
            }
        }
    }

    /// Namespace of objects that name none, and of the client.
    pub(super) fn namespace(&self) -> &str {
        match self {
            Self::User(_) => "default",
            Self::ServiceAccount { namespace, .. } => namespace,
        }
    }

    /// Returns whether a binding with these subjects binds the user.
    fn is_in(&self, subjects: &Value, groups: &[String]) -> bool {
        let subjects = subjects.as_array().into_iter().flatten();
        let mut subjects =
            subjects.map(|subject| (&subject["kind"], &subject["name"], &subject["namespace"]));
        subjects.any(|(kind, name, namespace)| match self {
            _ if kind == "Group" => {
                name.as_str().is_some_and(|name| groups.iter().any(|group| group == name))
            }
            // A subject of kind User may also name a service account, by its user name.
            _ if kind == "User" => *name == self.user_name(),
            Self::User(_) => false,
            Self::ServiceAccount { namespace: own_namespace, name: own_name } => {
                kind == "ServiceAccount" && name == own_name && namespace == own_namespace
            }
        })
    }
}

/// Kind, namespace and name of an object that was installed for a user.
#[derive(Debug, Clone)]
pub(crate) struct InstalledObject {
    pub(crate) resource: ApiResource,
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
}

impl InstalledObject {
    /// Deletes the object, if it still exists.
    pub(crate) async fn remove(&self, client: &kube::Client) -> Result<(), UserError> {
        let objects: Api<DynamicObject> = match &self.namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &self.resource),
            None => Api::all_with(client.clone(), &self.resource),
        };
        match objects.delete(&self.name, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            deleted => deleted.map(drop).map_err(|error| UserError::Refused {
                object: format!("the deletion of {} {}", self.resource.kind, self.name),
                reason: error.to_string(),
            }),
        }
    }
}

/// A role or a binding to be installed.
#[derive(Debug, Clone)]
pub(super) struct RbacObject {
    pub(super) kind: RbacKind,
    /// Namespace of a Role or RoleBinding.
    pub(super) namespace: Option<String>,
    pub(super) name: String,
    pub(super) value: Value,
}

/// Kind of a role or binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RbacKind {
    Role,
    ClusterRole,
    RoleBinding,
    ClusterRoleBinding,
}

impl RbacKind {
    const ALL: [Self; 4] = [Self::Role, Self::ClusterRole, Self::RoleBinding, Self::ClusterRoleBinding];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Role => "Role",
            Self::ClusterRole => "ClusterRole",
            Self::RoleBinding => "RoleBinding",
            Self::ClusterRoleBinding => "ClusterRoleBinding",
        }
    }

    fn is_namespaced(self) -> bool {
        matches!(self, Self::Role | Self::RoleBinding)
    }

    pub(super) fn is_binding(self) -> bool {
        matches!(self, Self::RoleBinding | Self::ClusterRoleBinding)
    }
}

impl RbacObject {
    /// Returns the roles and bindings among documents and in their lists. Other kinds are skipped. Objects without a namespace are placed
    /// in `namespace`.
    pub(super) fn among(documents: Vec<Value>, namespace: &str) -> Result<Vec<Self>, UserError> {
        let mut objects = Vec::new();
        for mut document in documents {
            if document["kind"] == "List" {
                let Value::Array(items) = document["items"].take() else { continue };
                objects.extend(Self::among(items, namespace)?);
                continue;
            }
            let version = document["apiVersion"].as_str().unwrap_or_default();
            let kind = RbacKind::ALL.into_iter().find(|kind| document["kind"] == kind.name());
            let (Some(kind), true) = (kind, version.starts_with("rbac.authorization.k8s.io/")) else {
                continue;
            };
            let Some(name) = document["metadata"]["name"].as_str().map(str::to_owned) else {
                return Err(UserError::Nameless { kind: kind.name() });
            };
            let namespace = kind
                .is_namespaced()
                .then(|| document["metadata"]["namespace"].as_str().unwrap_or(namespace).to_owned());
            if let Some(namespace) = &namespace {
                document["metadata"]["namespace"] = json!(namespace);
            }
            objects.push(Self { kind, namespace, name, value: document });
        }
        Ok(objects)
    }

    pub(super) fn resource(&self) -> ApiResource {
        ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, "v1", self.kind.name()))
    }

    /// Name for messages: `RoleBinding shop/reader`.
    pub(super) fn title(&self) -> String {
        let namespace = self.namespace.iter().map(|namespace| format!("{namespace}/")).collect::<String>();
        format!("{} {namespace}{}", self.kind.name(), self.name)
    }

    /// Returns whether a binding refers to this role. A binding reaches ClusterRoles, and Roles of its own namespace.
    fn is_role_of(&self, binding: &Self) -> bool {
        let reference = &binding.value["roleRef"];
        let is_in_reach = self.namespace.is_none() || self.namespace == binding.namespace;
        is_in_reach && reference["kind"] == self.kind.name() && reference["name"] == *self.name
    }

    fn rules(&self) -> Result<Vec<PolicyRule>, UserError> {
        let rules = self.value["rules"].clone();
        Option::<Vec<PolicyRule>>::deserialize(rules)
            .map(Option::unwrap_or_default)
            .map_err(|error| UserError::Invalid { object: self.title(), reason: error.to_string() })
    }
}

/// Reads the documents of a file, or of all YAML and JSON files of a folder.
pub(super) fn read(path: &Path) -> Result<Vec<Value>, UserError> {
    let mut documents = Vec::new();
    for file in files_of(path)? {
        documents.extend(documents_of(&file)?);
    }
    Ok(documents)
}

/// Roles and bindings of a user.
#[derive(Debug, Default)]
pub(super) struct Roles {
    /// Objects to be installed: roles before bindings.
    pub(super) objects: Vec<RbacObject>,
    /// Permissions that they grant the user.
    pub(super) granted: BTreeSet<Permission>,
    /// Roles outside of the manifests to which bindings refer, with the title of the binding.
    pub(super) foreign: Vec<(RbacObject, String)>,
}

impl Roles {
    /// Adapts the objects of manifests to the user, and determines its permissions.
    pub(super) fn of(
        mut objects: Vec<RbacObject>,
        subject: &Subject,
        groups: &[String],
    ) -> Result<Self, UserError> {
        let (mut granted, mut foreign) = (BTreeSet::new(), Vec::new());
        let (mut is_bound, mut subjects) = (false, BTreeSet::new());
        for binding in objects.iter().filter(|object| object.kind.is_binding()) {
            // A user of a test stands for the operator, so all bindings count for it: `bind_to` replaces
            // their subjects.
            if matches!(subject, Subject::ServiceAccount { .. })
                && !subject.is_in(&binding.value["subjects"], groups)
            {
                subjects.extend(titles(&binding.value["subjects"]));
                continue;
            }
            is_bound = true;
            let Some(role) = objects.iter().find(|object| object.is_role_of(binding)) else {
                // A role of the cluster, such as `view`. Its rules are not known here, so they are not part
                // of the report.
                foreign.push((role_reference(binding), binding.title()));
                continue;
            };
            for rule in role.rules()? {
                granted.extend(Permission::of_rule(&rule, binding.namespace.as_deref()));
            }
        }
        if !is_bound && !objects.is_empty() {
            return Err(UserError::NotBound { user: subject.user_name(), subjects });
        }
        if let Subject::User(user) = subject {
            bind_to(user, &mut objects);
        }
        // Roles first: an API server refuses no binding to a missing role, but the binding grants nothing
        // until the role exists.
        objects.sort_by_key(|object| object.kind.is_binding());
        Ok(Self { objects, granted, foreign })
    }
}

/// Replaces the subjects of all bindings by a user, and prefixes the names of the objects with that of the user, so that users with the
/// same manifests do not share them.
fn bind_to(user: &str, objects: &mut [RbacObject]) {
    let roles: Vec<RbacObject> = objects.iter().filter(|object| !object.kind.is_binding()).cloned().collect();
    for object in objects {
        if object.kind.is_binding() {
            if let Some(role) = roles.iter().find(|role| role.is_role_of(object)) {
                object.value["roleRef"]["name"] = json!(format!("{user}:{}", role.name));
            }
            object.value["subjects"] = json!([{ "apiGroup": GROUP, "kind": "User", "name": user }]);
        }
        // Users of one cluster, and of one set of manifests, must not overwrite each other's roles.
        object.name = format!("{user}:{}", object.name);
        object.value["metadata"]["name"] = json!(object.name);
    }
}

/// Returns the role to which a binding refers, without its contents.
fn role_reference(binding: &RbacObject) -> RbacObject {
    let reference = &binding.value["roleRef"];
    let kind = if reference["kind"] == "Role" { RbacKind::Role } else { RbacKind::ClusterRole };
    RbacObject {
        kind,
        namespace: if kind == RbacKind::Role { binding.namespace.clone() } else { None },
        name: reference["name"].as_str().unwrap_or_default().to_owned(),
        value: Value::Null,
    }
}

/// Names the subjects of a binding: `ServiceAccount system/controller-manager`.
fn titles(subjects: &Value) -> Vec<String> {
    let text = |subject: &Value, field: &str| subject[field].as_str().unwrap_or_default().to_owned();
    let title = |subject: &Value| {
        let namespace = text(subject, "namespace");
        let slash = if namespace.is_empty() { "" } else { "/" };
        format!("{} {namespace}{slash}{}", text(subject, "kind"), text(subject, "name"))
    };
    subjects.as_array().into_iter().flatten().map(title).collect()
}
