//! Users of an environment, with their own credentials or with the rights of manifests.

mod builder;
mod permission;
mod report;
mod roles;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use http::{HeaderValue, header::AUTHORIZATION};
use kube::client::{ClientBuilder, ConfigExt};
use kube_apiserver_embedded::{ApiServer, Listener, Tokens, UserInfo};

pub use self::builder::UserBuilder;
pub use self::permission::{Permission, PermissionTarget};
use self::report::Usage;
pub use self::report::{MissingPermissions, RightsReport, UserError};
pub(crate) use self::roles::InstalledObject;
use crate::control_plane::{base64, client};

/// A user of an environment other than the administrator: see [`Environment::user`](crate::Environment::user).
///
/// Clones are handles of the same user.
#[derive(Clone)]
pub struct User {
    name: String,
    client: kube::Client,
    kubeconfig: Option<String>,
    /// Permissions that were granted and used; `None` for a user without manifests.
    usage: Option<Arc<Usage>>,
}

impl User {
    pub(crate) fn new(name: &str, client: kube::Client, kubeconfig: Option<String>) -> Self {
        Self { name: name.to_owned(), client, kubeconfig, usage: None }
    }

    /// Name of the user.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Client with the permissions of this user.
    #[must_use]
    pub fn client(&self) -> kube::Client {
        self.client.clone()
    }

    /// Kubeconfig for other processes; `None` if [`Environment::kubeconfig`](crate::Environment::kubeconfig) is `None`. A user that was
    /// not declared with [`Builder::user`](crate::Builder::user) has no credentials: its kubeconfig is that of the administrator, and
    /// impersonates the user.
    #[must_use]
    pub fn kubeconfig(&self) -> Option<&str> {
        self.kubeconfig.as_deref()
    }

    /// Reports which permissions the user has used, lacked, and had without need, since it was created.
    ///
    /// The report is made from the audit of the server. The embedded server delivers its audit events. A kube-apiserver that the
    /// environment has started writes a log, of which the last 100 MiB are read. The log records a request a moment after it was
    /// answered, and only the permission for the request itself: checks of admission plugins, such as `update` of `finalizers` for
    /// `blockOwnerDeletion`, are missing from the report.
    ///
    /// `None` for a user without manifests, on an existing cluster, and on a kube-apiserver with audit flags of the test.
    #[must_use]
    pub fn rights(&self) -> Option<RightsReport> {
        self.usage.as_ref().and_then(|usage| usage.report())
    }

    /// Returns an error if RBAC has refused a request of the user. Call it at the end of a test: an operator that tolerates refused
    /// requests can meet all other expectations.
    ///
    /// # Errors
    ///
    /// A request was refused because a permission is missing. There is never an error if [`rights`](Self::rights) is `None`.
    pub fn check_rights(&self) -> Result<(), MissingPermissions> {
        match self.rights() {
            Some(RightsReport { user, missing, .. }) if !missing.is_empty() => {
                Err(MissingPermissions { user, missing })
            }
            _ => Ok(()),
        }
    }
}

impl std::fmt::Debug for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("User").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A user declared with [`Builder::user`](crate::Builder::user), which has credentials of its own.
#[derive(Debug, Clone)]
pub(crate) struct DeclaredUser {
    pub(crate) name: String,
    pub(crate) groups: Vec<String>,
}

impl DeclaredUser {
    pub(crate) fn new<G: Into<String>>(name: impl Into<String>, groups: impl IntoIterator<Item = G>) -> Self {
        Self { name: name.into(), groups: groups.into_iter().map(Into::into).collect() }
    }

    /// Bearer token. It is predictable on purpose: a test server needs no secrets.
    fn token(&self) -> String {
        format!("user.{}", base64(&self.name))
    }
}

/// Tokens of an embedded server: one for each user, and one for the administrator. The administrator's token equals that of no user,
/// because theirs begin with `user.`.
pub(crate) fn tokens_of(users: &[DeclaredUser]) -> Tokens {
    let admin = UserInfo::new("envtest-admin", "", ["system:masters"]);
    let tokens = Tokens::new().with("administrator", admin);
    users.iter().fold(tokens, |tokens, user| {
        tokens.with(user.token(), UserInfo::new(&user.name, "", user.groups.iter().map(String::as_str)))
    })
}

/// Creates the users of an embedded server, each with its client, and with a kubeconfig if the server has a listener.
pub(crate) async fn connect_users(
    users: &[DeclaredUser],
    server: &ApiServer,
    listener: Option<&Listener>,
) -> Result<Vec<User>, kube::Error> {
    let mut connected = Vec::new();
    for user in users {
        connected.push(match listener {
            None => User::new(&user.name, in_process(server, &user.token())?, None),
            Some(listener) => {
                let kubeconfig = kubeconfig(&listener.url(), listener.certificate_authority(), user);
                User::new(&user.name, client(&kubeconfig).await?, Some(kubeconfig))
            }
        });
    }
    Ok(connected)
}

/// Creates a client that calls the server in process, with a bearer token.
fn in_process(server: &ApiServer, token: &str) -> Result<kube::Client, kube::Error> {
    let mut config = kube::Config::new(http::Uri::from_static("http://in.process"));
    let value = HeaderValue::from_str(&format!("Bearer {token}"))
        .map_err(|error| kube::Error::HttpError(error.into()))?;
    config.headers.push((AUTHORIZATION, value));
    let layer = config.extra_headers_layer()?;
    Ok(ClientBuilder::new(server.service(), "default").with_layer(&layer).build())
}

/// Returns a kubeconfig with the token of a user.
fn kubeconfig(url: &str, authority: Option<&str>, user: &DeclaredUser) -> String {
    let mut cluster = serde_json::json!({ "server": url });
    if let Some(authority) = authority {
        cluster["certificate-authority-data"] = base64(authority).into();
    }
    let config = serde_json::json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "envtest", "cluster": cluster }],
        "users": [{ "name": user.name, "user": { "token": user.token() } }],
        "contexts": [{
            "name": "envtest",
            "context": { "cluster": "envtest", "user": user.name, "namespace": "default" },
        }],
        "current-context": "envtest",
    });
    format!("{config:#}\n")
}
