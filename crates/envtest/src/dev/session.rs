//! An API server for development: with TLS, access control, and an account for the operator.

use std::{
    fs, io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
};

use k8s_openapi::{
    api::{
        authentication::v1::{TokenRequest, TokenRequestSpec},
        core::v1::ServiceAccount,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Api, api::PostParams};
use kube_apiserver_embedded::{ApiServer, ListenOptions, Listener, Options, Profile, Tokens, UserInfo};
use serde_json::{Value, json};

use super::{
    DevError,
    apply::{ObjectRef, apply, apply_files},
    narrator::Narrator,
};
use crate::{crd::install_crds, documents::documents_of_text};

/// Field manager of definitions and rights.
const MANAGER: &str = "operator-manifests";

/// Address of the operator's webhooks: their default port.
const WEBHOOKS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9443);

/// Lifetime of the operator's token: longer than a day's work, for an operator that runs on while its code does not compile.
const TOKEN_SECONDS: i64 = 7 * 24 * 3600;

/// An API server on loopback for one operator under development, and its two kubeconfigs: of an administrator, for kubectl, and of the
/// operator's service account.
///
/// The server keeps its objects while the operator is rebuilt and restarted. Dropping the session stops it.
pub struct Session {
    server: ApiServer,
    listener: Listener,
    folder: PathBuf,
    /// Objects that the last call of [`grant`](Self::grant) applied.
    granted: Vec<ObjectRef>,
}

impl Session {
    /// Starts a server with garbage collection and role-based access control. It listens with TLS at `address`, with port 0 at a free port,
    /// calls webhooks of `services`, which are namespaces and names, at port 9443 of loopback, and has one administrator with a random token.
    /// The administrator's kubeconfig is written to `folder`.
    ///
    /// # Errors
    ///
    /// The address is in use, a file cannot be written, or the operating system has no random numbers.
    pub async fn start(
        services: &[(String, String)],
        address: SocketAddr,
        folder: impl Into<PathBuf>,
    ) -> Result<(Self, Narrator), DevError> {
        let folder = folder.into();
        let server = ApiServer::start(options(services)?);
        let narrator = Narrator::new(&server);
        let listener = server.listen_with(address, ListenOptions::default().tls()).await?;
        let session = Self { server, listener, folder, granted: Vec::new() };
        write_secret(&session.kubeconfig(), &session.listener.kubeconfig())?;
        Ok((session, narrator))
    }

    /// Free loopback address.
    #[must_use]
    pub fn any_address() -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
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

    /// Installs or changes definitions, and waits until their kinds are served. Definitions that are no longer given remain, with their
    /// objects.
    ///
    /// # Errors
    ///
    /// The server rejects a definition.
    pub async fn define(&self, definitions: &[CustomResourceDefinition]) -> Result<(), DevError> {
        Ok(install_crds(&self.client(), definitions).await?)
    }

    /// Gives the operator exactly the rights in `objects`: applies its service account, roles and bindings, deletes those of the last
    /// call that are missing now, and writes a kubeconfig with a token of the service account.
    ///
    /// # Errors
    ///
    /// The server refuses an object, or there is not one service account.
    pub async fn grant(&mut self, objects: Vec<Value>) -> Result<(), DevError> {
        let is_account = |object: &&Value| object["kind"] == "ServiceAccount";
        let mut accounts = objects.iter().filter(is_account).map(|account| {
            let text = |field: &str| account["metadata"][field].as_str().unwrap_or_default().to_owned();
            (text("namespace"), text("name"))
        });
        let (Some((namespace, name)), None) = (accounts.next(), accounts.next()) else {
            return Err(DevError::ServiceAccounts);
        };
        let client = self.client();
        let mut granted = Vec::new();
        for object in objects {
            granted.push(apply(&client, object, MANAGER).await.map_err(DevError::Grant)?);
        }
        for gone in self.granted.iter().filter(|before| !granted.contains(before)) {
            gone.delete(&client).await.map_err(DevError::Grant)?;
        }
        self.granted = granted;
        let accounts = Api::<ServiceAccount>::namespaced(client, &namespace);
        let spec =
            TokenRequestSpec { expiration_seconds: Some(TOKEN_SECONDS), ..TokenRequestSpec::default() };
        let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
        let token = accounts.create_token_request(&name, &PostParams::default(), &request).await;
        let token =
            token.map_err(DevError::Request)?.status.and_then(|status| status.token).unwrap_or_default();
        write_secret(&self.operator_kubeconfig(), &self.kubeconfig_of(&name, &namespace, &token))
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
        config["users"] = json!([{ "name": user, "user": { "token": token } }]);
        let context = &mut config["contexts"][0]["context"];
        let cluster = context["cluster"].take();
        *context = json!({ "cluster": cluster, "user": user, "namespace": namespace });
        format!("{config:#}\n")
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
fn options(services: &[(String, String)]) -> Result<Options, DevError> {
    let mut random = [0; 24];
    getrandom::fill(&mut random).map_err(|error| DevError::Random(error.to_string()))?;
    let token: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let admin = UserInfo::new("developer", "", ["system:masters"]);
    let options = Options::default().profile(Profile::Dev).tokens(Tokens::new().with(token, admin));
    Ok(services
        .iter()
        .fold(options, |options, (namespace, name)| options.service_address(namespace, name, WEBHOOKS)))
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
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        io::Write::write_all(&mut options.open(path)?, text.as_bytes())
    });
    written.map_err(|source| DevError::Write { path: path.to_owned(), source })
}
