//! An API server for development: with TLS, access control, and an account for the operator.

use std::{
    collections::BTreeSet,
    fs::{self, File, TryLockError},
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
};

use k8s_openapi::{
    api::{
        admissionregistration::v1::{
            MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
        },
        authentication::v1::{TokenRequest, TokenRequestSpec},
        core::v1::{Service, ServiceAccount},
        rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use kube_apiserver_embedded::{
    ApiServer, DataFile, ListenOptions, Listener, Options, Profile, Tokens, UserInfo,
};
use serde_json::{Value, json};

use super::{
    DevError,
    apply::{applied_by, apply, apply_files},
    program::{Rendered, SCHEMA, SessionFlags},
    progress::Progress,
};
use crate::{crd::install_crds, documents::documents_of_text};

/// Field manager of rights. It marks those that an earlier session has left.
const MANAGER: &str = "operator-manifests";

/// File of a session's folder that is locked as long as the session runs. `cargo operator dev` checks the lock before it builds.
const LOCK: &str = "session.lock";

/// Address of the operator's webhooks at their default port.
pub(super) const DEFAULT_WEBHOOKS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9443);

/// User with the rights to read metrics and explanations, and to retry requests.
const READER: &str = "explain-reader";

/// Lifetime of the operator's token: a week, because an operator continues to run while its code does not compile.
const TOKEN_SECONDS: i64 = 7 * 24 * 3600;

/// Treatment of the objects that a previous session stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreviousObjects {
    /// The session begins with these objects.
    Restore,
    /// The session deletes the file with these objects and begins without any.
    Delete,
}

/// Number of stored objects of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KindCount {
    /// Name of one object, such as `guestbook`.
    pub singular: String,
    /// Name of several objects, such as `guestbooks`.
    pub plural: String,
    /// Number of objects.
    pub count: usize,
}

/// Options of a [`Session`].
#[derive(Debug, Clone)]
#[must_use]
pub struct SessionOptions {
    folder: PathBuf,
    services: Vec<(String, String)>,
    webhook_address: SocketAddr,
    address: SocketAddr,
    previous_objects: Option<PreviousObjects>,
}

impl SessionOptions {
    /// A session that writes its files to this folder, at a free port of loopback, with no objects.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            services: Vec::new(),
            webhook_address: DEFAULT_WEBHOOKS,
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            previous_objects: None,
        }
    }

    /// Sets the namespaces and names of the Services whose webhooks are called at [`webhook_address`](Self::webhook_address). Default:
    /// none.
    pub fn services(mut self, services: impl IntoIterator<Item = (String, String)>) -> Self {
        self.services = services.into_iter().collect();
        self
    }

    /// Sets the address at which the operator serves its webhooks. Default: port 9443 of loopback.
    pub fn webhook_address(mut self, address: SocketAddr) -> Self {
        self.webhook_address = address;
        self
    }

    /// Sets the address of the API server. Default: a free port of loopback.
    pub fn address(mut self, address: SocketAddr) -> Self {
        self.address = address;
        self
    }

    /// Keeps the objects in a file of the folder, for the next session. `previous` decides about the objects that the file already has.
    /// Default: objects are not kept.
    pub fn keep_objects(mut self, previous: PreviousObjects) -> Self {
        self.previous_objects = Some(previous);
        self
    }
}

/// An API server on loopback for one operator under development, and its two kubeconfigs: of an administrator, for kubectl, and of the
/// operator's service account.
///
/// The server keeps its objects while the operator is rebuilt and restarted. Dropping the session stops it.
pub struct Session {
    server: ApiServer,
    listener: Listener,
    folder: PathBuf,
    /// Token of [`READER`].
    reader_token: String,
    /// User name of the operator; empty before [`grant`](Self::grant).
    user: String,
    webhook_address: SocketAddr,
    /// Locked as long as the session uses the folder. The last field, because fields are dropped in their order.
    _lock: File,
}

impl Session {
    /// Starts a server with garbage collection and role-based access control. It listens with TLS, and has one administrator with a random
    /// token. The administrator's kubeconfig is written to the folder of the options.
    ///
    /// # Errors
    ///
    /// Another session uses the folder, the address is in use, a file cannot be read or written, or the operating system has no random
    /// numbers. If another session uses the folder, all its files stay as they are.
    pub async fn start(options: SessionOptions) -> Result<(Self, Progress), DevError> {
        // First the lock: two sessions of one folder would overwrite each other's files.
        let lock = lock(&options.folder)?;
        let reader_token = random_token()?;
        let server = start_server(server_options(&options, &reader_token)?, &options)?;
        // Before anything is written, so that no change is missed.
        let mut progress = Progress::new(&server);
        let listener = server.listen_with(options.address, ListenOptions::default().tls()).await?;
        let user = String::new();
        let (folder, webhook_address) = (options.folder.clone(), options.webhook_address);
        let session = Self { server, listener, folder, reader_token, user, webhook_address, _lock: lock };
        let definitions = Api::<CustomResourceDefinition>::all(session.client());
        for definition in definitions.list(&ListParams::default()).await.map_err(DevError::Request)? {
            progress.know(&definition);
        }
        for object in reader_rights() {
            apply(&session.client(), object, MANAGER).await.map_err(DevError::Grant)?;
        }
        // The operator applies the configurations of its webhooks when it starts.
        let mut served = session.stored_services().await?;
        served.retain(|service| !options.services.contains(service));
        session.delete_webhooks(&served).await?;
        write_secret(&session.kubeconfig(), &session.listener.kubeconfig())?;
        Ok((session, progress))
    }

    /// Prepares for the operator's next program, which has these Services: from now on, their webhooks are called at the address of the
    /// options. Deletes webhook configurations of earlier programs that call other Services, because nothing would answer the calls.
    /// Services that exist in the API server are an exception. Call it while no operator runs, because an operator applies its
    /// configurations again.
    ///
    /// # Errors
    ///
    /// The server refuses a request.
    pub async fn replace_services(
        &self,
        services: impl IntoIterator<Item = (String, String)>,
    ) -> Result<(), DevError> {
        let services: BTreeSet<_> = services.into_iter().collect();
        let addresses = services.iter().map(|service| (service.clone(), self.webhook_address));
        self.server.set_service_addresses(addresses.collect());
        let mut served = self.stored_services().await?;
        served.extend(services);
        self.delete_webhooks(&served).await
    }

    /// Namespaces and names of the Services that the API server has.
    async fn stored_services(&self) -> Result<BTreeSet<(String, String)>, DevError> {
        let services = Api::<Service>::all(self.client()).list(&ListParams::default()).await;
        let services = services.map_err(DevError::Request)?;
        let place = |service: &Service| (service.namespace().unwrap_or_default(), service.name_any());
        Ok(services.iter().map(place).collect())
    }

    /// Deletes the webhook configurations that call a Service that is not `served`.
    async fn delete_webhooks(&self, served: &BTreeSet<(String, String)>) -> Result<(), DevError> {
        let is_unserved = |config: &WebhookClientConfig| {
            let called =
                config.service.as_ref().map(|service| (service.namespace.clone(), service.name.clone()));
            called.is_some_and(|called| !served.contains(&called))
        };
        let (all, delete) = (ListParams::default(), DeleteParams::default());
        let mutating = Api::<MutatingWebhookConfiguration>::all(self.client());
        for found in mutating.list(&all).await.map_err(DevError::Request)? {
            if found.webhooks.iter().flatten().any(|webhook| is_unserved(&webhook.client_config)) {
                mutating.delete(&found.name_any(), &delete).await.map_err(DevError::Request)?;
            }
        }
        let validating = Api::<ValidatingWebhookConfiguration>::all(self.client());
        for found in validating.list(&all).await.map_err(DevError::Request)? {
            if found.webhooks.iter().flatten().any(|webhook| is_unserved(&webhook.client_config)) {
                validating.delete(&found.name_any(), &delete).await.map_err(DevError::Request)?;
            }
        }
        Ok(())
    }

    /// Client of an administrator.
    #[must_use]
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.server.service(), "default")
    }

    /// Address of the server.
    #[must_use]
    pub fn url(&self) -> String {
        self.listener.url()
    }

    /// Path of the administrator's kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    /// Path of the operator's kubeconfig, which [`grant`](Self::grant) writes.
    #[must_use]
    pub fn operator_kubeconfig(&self) -> PathBuf {
        self.folder.join("operator.kubeconfig")
    }

    /// User name of the operator's service account; empty before [`grant`](Self::grant).
    #[must_use]
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Number of stored objects of each kind of these definitions. Kinds without objects are left out, and so are those that the server
    /// does not know yet.
    ///
    /// # Errors
    ///
    /// The server refuses a request.
    pub async fn count(&self, definitions: &[CustomResourceDefinition]) -> Result<Vec<KindCount>, DevError> {
        let mut counts = Vec::new();
        for definition in definitions {
            let (spec, names) = (&definition.spec, &definition.spec.names);
            let Some(version) = spec.versions.iter().find(|version| version.served) else { continue };
            let kind = GroupVersionKind::gvk(&spec.group, &version.name, &names.kind);
            let resource = ApiResource::from_gvk_with_plural(&kind, &names.plural);
            let objects = Api::<DynamicObject>::all_with(self.client(), &resource);
            let count = match objects.list_metadata(&ListParams::default()).await {
                Ok(list) => list.items.len(),
                // The kind may be new, and its definition not installed yet.
                Err(kube::Error::Api(status)) if status.code == 404 => 0,
                Err(error) => return Err(DevError::Request(error)),
            };
            if count > 0 {
                let singular = names.singular.clone().unwrap_or_else(|| names.kind.to_lowercase());
                counts.push(KindCount { singular, plural: names.plural.clone(), count });
            }
        }
        Ok(counts)
    }

    /// Installs or changes definitions, and waits until their kinds are served. Definitions that are no longer given remain, with their
    /// objects.
    ///
    /// # Errors
    ///
    /// The server rejects a definition.
    pub async fn define(&self, definitions: &[CustomResourceDefinition]) -> Result<(), DevError> {
        Ok(install_crds(&self.client(), definitions).await?)
    }

    /// Gives the operator exactly the rendered rights: applies its service account, roles and bindings, deletes those of earlier calls
    /// and sessions that are not rendered now, and writes a kubeconfig with a token of the service account. A namespace that is not
    /// rendered now stays, because it can contain other objects.
    ///
    /// # Errors
    ///
    /// The server refuses an object, or there is not one service account.
    pub async fn grant(&mut self, rendered: &Rendered) -> Result<(), DevError> {
        let Some((namespace, name)) = rendered.account() else { return Err(DevError::ServiceAccounts) };
        let client = self.client();
        let mut granted = Vec::new();
        for object in &rendered.rights {
            granted.push(apply(&client, object.clone(), MANAGER).await.map_err(DevError::Grant)?);
        }
        // New rights are granted before old ones are taken away, so that an operator that still runs keeps
        // those that it needs.
        for before in applied_by(&client, MANAGER, &kinds_of_rights()).await.map_err(DevError::Request)? {
            // The session itself grants the rights of the reader, with the same field manager.
            if before.name() != READER && !granted.iter().any(|object| object.is_same(&before)) {
                before.delete(&client).await.map_err(DevError::Grant)?;
            }
        }
        let accounts = Api::<ServiceAccount>::namespaced(client, &namespace);
        let spec =
            TokenRequestSpec { expiration_seconds: Some(TOKEN_SECONDS), ..TokenRequestSpec::default() };
        let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
        let token = accounts.create_token_request(&name, &PostParams::default(), &request).await;
        let token =
            token.map_err(DevError::Request)?.status.and_then(|status| status.token).unwrap_or_default();
        self.user = format!("system:serviceaccount:{namespace}:{name}");
        write_secret(&self.operator_kubeconfig(), &self.kubeconfig_of(&name, &namespace, &token))
    }

    /// Writes `session.json`, by which `cargo operator explain` finds the operator, and returns the address of its page of explanations. The
    /// address contains a token that may read metrics and explanations. Does nothing if the user has chosen another address.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn publish(&self, flags: &SessionFlags) -> Result<Option<String>, DevError> {
        let Some(metrics) = flags.metrics() else { return Ok(None) };
        let library = env!("CARGO_PKG_VERSION");
        let file = json!({
            "schema": SCHEMA, "library": library, "address": format!("http://{metrics}"), "token": self.reader_token,
        });
        write_secret(&self.session_file(), &format!("{file:#}\n"))?;
        Ok(Some(format!("http://{metrics}/explain/#token={}", self.reader_token)))
    }

    fn session_file(&self) -> PathBuf {
        self.folder.join("session.json")
    }

    /// Applies the objects in a YAML or JSON file, or in all such files of a folder, and returns their number.
    ///
    /// # Errors
    ///
    /// A file cannot be read, or the server refuses an object; earlier objects have been applied.
    pub async fn apply_samples(&self, path: &Path) -> Result<usize, DevError> {
        Ok(apply_files(&self.client(), path, "samples").await?)
    }

    fn kubeconfig_of(&self, user: &str, namespace: &str, token: &str) -> String {
        let mut config =
            documents_of_text(&self.listener.kubeconfig()).unwrap_or_default().pop().unwrap_or_default();
        // Only the user differs from the administrator's kubeconfig, so the address and the certificate stay
        // right.
        config["users"] = json!([{ "name": user, "user": { "token": token } }]);
        let context = &mut config["contexts"][0]["context"];
        let cluster = context["cluster"].take();
        *context = json!({ "cluster": cluster, "user": user, "namespace": namespace });
        format!("{config:#}\n")
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // There is no such file if the session was never published.
        let _ = fs::remove_file(self.session_file());
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("url", &self.url())
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

/// Options of the server of a session.
fn server_options(session: &SessionOptions, reader_token: &str) -> Result<Options, DevError> {
    let admin = UserInfo::new("developer", "", ["system:masters"]);
    let tokens = Tokens::new().with(random_token()?, admin);
    let tokens = tokens.with(reader_token, UserInfo::new(READER, "", [] as [&str; 0]));
    // The seed determines the secret of service account tokens and the UIDs. It is random, so that neither repeats from an earlier
    // session.
    let mut seed = [0; 8];
    getrandom::fill(&mut seed).map_err(|error| DevError::Random(error.to_string()))?;
    let options = Options::default().profile(Profile::Dev).tokens(tokens).seed(u64::from_ne_bytes(seed));
    let address = session.webhook_address;
    Ok(session
        .services
        .iter()
        .fold(options, |options, (namespace, name)| options.service_address(namespace, name, address)))
}

/// Starts the server, with the objects of the previous session if the options restore them.
fn start_server(server: Options, options: &SessionOptions) -> Result<ApiServer, DevError> {
    let Some(previous) = options.previous_objects else { return Ok(ApiServer::start(server)) };
    let path = options.folder.join("objects.redb");
    let failed = |source| DevError::Write { path: path.clone(), source };
    fs::create_dir_all(&options.folder).map_err(failed)?;
    // Before the server opens the file.
    if previous == PreviousObjects::Delete {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
    }
    Ok(ApiServer::open(server, &DataFile::new(path))?)
}

/// Locks the folder of a session, until the file is closed.
fn lock(folder: &Path) -> Result<File, DevError> {
    let path = folder.join(LOCK);
    let failed = |source| DevError::Write { path: path.clone(), source };
    fs::create_dir_all(folder).map_err(failed)?;
    // The file stays after the session: if it were removed, two sessions could lock different files of one
    // name.
    let file = File::options().write(true).create(true).truncate(false).open(&path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(DevError::InUse(folder.to_owned())),
        // Some network file systems have no locks.
        Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => Ok(file),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

/// A token of 24 random bytes.
fn random_token() -> Result<String, DevError> {
    let mut random = [0; 24];
    getrandom::fill(&mut random).map_err(|error| DevError::Random(error.to_string()))?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Kinds of the objects that give rights to an operator.
fn kinds_of_rights() -> [ApiResource; 5] {
    [
        // Bindings first, so that no binding refers to a role that is gone.
        ApiResource::erase::<ClusterRoleBinding>(&()),
        ApiResource::erase::<RoleBinding>(&()),
        ApiResource::erase::<ClusterRole>(&()),
        ApiResource::erase::<Role>(&()),
        ApiResource::erase::<ServiceAccount>(&()),
    ]
}

/// Rights of [`READER`].
fn reader_rights() -> [Value; 2] {
    let group = "rbac.authorization.k8s.io";
    let version = format!("{group}/v1");
    [
        json!({
            "apiVersion": version, "kind": "ClusterRole", "metadata": { "name": READER },
            "rules": [
                { "nonResourceURLs": ["/explain", "/explain/*", "/metrics"], "verbs": ["get"] },
                { "nonResourceURLs": ["/explain/v1/retry"], "verbs": ["post"] },
            ],
        }),
        json!({
            "apiVersion": version, "kind": "ClusterRoleBinding", "metadata": { "name": READER },
            "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": READER },
            "subjects": [{ "apiGroup": group, "kind": "User", "name": READER }],
        }),
    ]
}

/// Writes a file that only its owner can read, and the folders above it.
fn write_secret(path: &Path, text: &str) -> Result<(), DevError> {
    let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| {
        // A file that exists keeps its permissions, so it is replaced.
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut options = fs::OpenOptions::new();
        // With `create_new` no other user's file or link at this path is written to.
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        io::Write::write_all(&mut options.open(path)?, text.as_bytes())
    });
    written.map_err(|source| DevError::Write { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests;
