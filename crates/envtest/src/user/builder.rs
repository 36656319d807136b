//! Creates a user of an environment, with the rights of manifests.

use std::collections::BTreeSet;
use std::fmt;
use std::future::IntoFuture;
use std::path::PathBuf;
use std::pin::Pin;

use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams, ValidationDirective};
use kube::core::DynamicObject;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::{Duration, Instant, sleep};

use super::permission::Permission;
use super::report::{AuditSource, Usage};
use super::roles::{RbacObject, Roles, Subject, read};
use super::{InstalledObject, User, UserError};
use crate::control_plane::client;
use crate::environment::Environment;

/// Field manager of the objects that environments apply.
const MANAGER: &str = "kube-envtest";

/// Time limit within which a kube-apiserver grants the rights of new roles and bindings. It usually takes milliseconds.
const GRANTED_WITHIN: Duration = Duration::from_secs(10);

/// Interval between access reviews of a permission that is not granted yet.
const INTERVAL: Duration = Duration::from_millis(10);

/// Creates a user when awaited: see [`Environment::user`] and [`Environment::service_account`].
#[must_use = "the user is created when the builder is awaited"]
pub struct UserBuilder<'a> {
    environment: &'a Environment,
    subject: Subject,
    groups: Vec<String>,
    paths: Vec<PathBuf>,
    texts: Vec<String>,
    objects: Vec<Result<Value, serde_json::Error>>,
}

impl<'a> UserBuilder<'a> {
    pub(crate) fn user(environment: &'a Environment, name: String) -> Self {
        Self::new(environment, Subject::User(name), Vec::new())
    }

    pub(crate) fn service_account(environment: &'a Environment, namespace: String, name: String) -> Self {
        let groups = vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
        Self::new(environment, Subject::ServiceAccount { namespace, name }, groups)
    }

    fn new(environment: &'a Environment, subject: Subject, groups: Vec<String>) -> Self {
        Self { environment, subject, groups, paths: Vec::new(), texts: Vec::new(), objects: Vec::new() }
    }

    /// Makes the user a member of these groups and of `system:authenticated`. A user that was declared with
    /// [`Builder::user`](crate::Builder::user) keeps the groups of its credentials.
    pub fn with_groups<G: Into<String>>(mut self, groups: impl IntoIterator<Item = G>) -> Self {
        self.groups.extend(groups.into_iter().map(Into::into));
        self
    }

    /// Grants the user the rights of the roles and bindings in a YAML or JSON file, or in all such files of a folder, such as
    /// `config/rbac`. Other kinds are skipped.
    pub fn with_manifests(mut self, path: impl Into<PathBuf>) -> Self {
        self.paths.push(path.into());
        self
    }

    /// Like [`with_manifests`](Self::with_manifests), but with the contents of a file.
    pub fn with_manifest_text(mut self, text: impl Into<String>) -> Self {
        self.texts.push(text.into());
        self
    }

    /// Like [`with_manifests`](Self::with_manifests), but with roles and bindings in memory: types of `k8s-openapi`, or JSON values.
    pub fn with_objects<T: Serialize>(mut self, objects: impl IntoIterator<Item = T>) -> Self {
        self.objects.extend(objects.into_iter().map(serde_json::to_value));
        self
    }

    async fn create(self) -> Result<User, UserError> {
        let environment = self.environment;
        let admin = environment.client();
        let user = self.connect().await?;
        let has_manifests = !self.paths.is_empty() || !self.texts.is_empty() || !self.objects.is_empty();
        if let Subject::ServiceAccount { namespace, name } = &self.subject {
            ensure_namespace(&admin, namespace).await?;
            let account = json!({ "metadata": { "name": name } });
            let accounts = Api::<ServiceAccount>::namespaced(admin.clone(), namespace);
            ensure(&accounts, account, &format!("ServiceAccount {namespace}/{name}")).await?;
        }
        if !has_manifests {
            return Ok(user);
        }
        let roles = Roles::of(self.read()?, &self.subject, &self.groups)?;
        // An API server accepts a binding to a missing role. The binding then grants nothing, and the operator fails later with a 403.
        for (role, binding) in &roles.foreign {
            let found = api(&admin, role).get_opt(&role.name).await;
            let found = found.map_err(refused(&role.title()))?;
            if found.is_none() {
                return Err(UserError::NoSuchRole { binding: binding.clone(), role: role.title() });
            }
        }
        for object in &roles.objects {
            if let Some(namespace) = &object.namespace {
                ensure_namespace(&admin, namespace).await?;
            }
            let mut parameters = PatchParams::apply(MANAGER).force();
            // A misspelt field of a rule would otherwise be dropped, and the role would grant less than its text says.
            parameters.field_validation = Some(ValidationDirective::Strict);
            let (objects, patch) = (api(&admin, object), Patch::Apply(&object.value));
            let applied = objects.patch(&object.name, &parameters, &patch).await;
            applied.map_err(refused(&object.title()))?;
            // Only an existing cluster outlives the environment, which then deletes these objects.
            environment.note_installed(InstalledObject {
                resource: object.resource(),
                namespace: object.namespace.clone(),
                name: object.name.clone(),
            });
        }
        let name = self.subject.user_name();
        let usage = match environment.embedded() {
            Some(server) => {
                // No wait, because the authorizer of the embedded server sees a role or binding as soon as it is committed.
                let usage = Usage::new(name, roles.granted, AuditSource::Embedded);
                server.audit_to(&usage);
                usage
            }
            None => {
                until_granted(&user, &roles.granted).await?;
                let source = environment.audit_log().cloned().map_or(AuditSource::Absent, AuditSource::Log);
                Usage::new(name, roles.granted, source)
            }
        };
        Ok(User { usage: Some(usage), ..user })
    }

    /// Reads the roles and bindings of all sources.
    fn read(&self) -> Result<Vec<RbacObject>, UserError> {
        let namespace = self.subject.namespace();
        let mut objects = Vec::new();
        for path in &self.paths {
            let found = RbacObject::among(read(path)?, namespace)?;
            // A file without roles is probably the wrong file, and the test would run without rights.
            if found.is_empty() {
                return Err(UserError::Empty { path: path.clone() });
            }
            objects.extend(found);
        }
        let invalid = |reason: String| UserError::Parse { origin: "the text".to_owned(), reason };
        for text in &self.texts {
            let documents = serde_saphyr::from_multiple(text).map_err(|error| invalid(error.to_string()))?;
            objects.extend(RbacObject::among(documents, namespace)?);
        }
        for object in &self.objects {
            let object = object.as_ref().map_err(|error| invalid(error.to_string()))?;
            objects.extend(RbacObject::among(vec![object.clone()], namespace)?);
        }
        Ok(objects)
    }

    /// Creates the client of the user, without rights.
    async fn connect(&self) -> Result<User, UserError> {
        let (environment, name) = (self.environment, self.subject.user_name());
        if let Some(declared) = environment.declared_user(&name) {
            return Ok(declared.clone());
        }
        let kubeconfig = environment
            .kubeconfig()
            .map(|admin| impersonating(admin, &name, &self.groups, self.subject.namespace()))
            .transpose()?;
        // The kubeconfig comes first: a test that has one uses the same way as other processes.
        let client = match (environment.embedded(), &kubeconfig) {
            (_, Some(kubeconfig)) => client(kubeconfig).await?,
            (Some(server), None) => {
                let user = kube_apiserver_embedded::UserInfo::new(&name, "", &self.groups);
                kube::Client::new(server.service_for(user), self.subject.namespace())
            }
            (None, None) => environment.client_for(&name, self.groups.clone()),
        };
        Ok(User::new(&name, client, kubeconfig))
    }
}

impl<'a> IntoFuture for UserBuilder<'a> {
    type Output = Result<User, UserError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.create())
    }
}

impl fmt::Debug for UserBuilder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserBuilder").field("subject", &self.subject).finish_non_exhaustive()
    }
}

/// Returns the kubeconfig of the administrator, with impersonation of the user.
///
/// # Errors
/// The kubeconfig of the administrator is no YAML. Without impersonation, the user would have all rights.
fn impersonating(admin: &str, name: &str, groups: &[String], namespace: &str) -> Result<String, UserError> {
    let unreadable = |reason: String| UserError::Parse {
        origin: "the kubeconfig of the administrator".to_owned(),
        reason,
    };
    let mut config: Value = serde_saphyr::from_str(admin).map_err(|error| unreadable(error.to_string()))?;
    let are_objects =
        |list: &Value| list.as_array().is_some_and(|entries| entries.iter().all(Value::is_object));
    if !(are_objects(&config["users"]) && are_objects(&config["contexts"])) {
        return Err(unreadable("its users and contexts are no lists of objects".to_owned()));
    }
    for user in config["users"].as_array_mut().into_iter().flatten() {
        if !user["user"].is_object() {
            user["user"] = json!({});
        }
        // The administrator's credentials stay, because impersonation needs the right to impersonate.
        user["user"]["as"] = json!(name);
        user["user"]["as-groups"] = json!(groups);
    }
    for context in config["contexts"].as_array_mut().into_iter().flatten() {
        context["context"]["namespace"] = json!(namespace);
    }
    Ok(format!("{config:#}\n"))
}

/// Returns the API of an object's kind, in the namespace of the object.
fn api(client: &kube::Client, object: &RbacObject) -> Api<DynamicObject> {
    let resource = object.resource();
    match &object.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

async fn ensure_namespace(admin: &kube::Client, name: &str) -> Result<(), UserError> {
    let namespaces = Api::<Namespace>::all(admin.clone());
    ensure(&namespaces, json!({ "metadata": { "name": name } }), &format!("Namespace {name}")).await
}

/// Creates an object, unless it exists.
async fn ensure<K>(objects: &Api<K>, object: Value, title: &str) -> Result<(), UserError>
where
    K: Clone + Serialize + serde::de::DeserializeOwned + fmt::Debug,
{
    let invalid =
        |error: serde_json::Error| UserError::Invalid { object: title.to_owned(), reason: error.to_string() };
    let object: K = serde_json::from_value(object).map_err(invalid)?;
    match objects.create(&PostParams::default(), &object).await {
        // Several users may share a namespace or an account.
        Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => Ok(()),
        created => created.map(drop).map_err(refused(title)),
    }
}

/// Waits until the authorizer of a kube-apiserver, which watches roles and bindings, grants the permissions.
async fn until_granted(user: &User, permissions: &BTreeSet<Permission>) -> Result<(), UserError> {
    let reviews = Api::<SelfSubjectAccessReview>::all(user.client());
    // API servers read roles through a cache, so a new role takes effect a moment after its creation.
    let deadline = Instant::now() + GRANTED_WITHIN;
    for permission in permissions {
        let review = permission.review();
        loop {
            let reason = match reviews.create(&PostParams::default(), &review).await {
                Ok(answer) if answer.status.as_ref().is_some_and(|status| status.allowed) => break,
                Ok(_) => permission.to_string(),
                Err(error) => error.to_string(),
            };
            if Instant::now() >= deadline {
                let user = user.name().to_owned();
                return Err(UserError::NotGranted { user, within: GRANTED_WITHIN, reason });
            }
            sleep(INTERVAL).await;
        }
    }
    Ok(())
}

/// Converts a request error to a refusal of this object.
fn refused(object: &str) -> impl FnOnce(kube::Error) -> UserError {
    move |error| {
        let reason = match error {
            kube::Error::Api(status) => status.message.clone(),
            other => other.to_string(),
        };
        UserError::Refused { object: object.to_owned(), reason }
    }
}
