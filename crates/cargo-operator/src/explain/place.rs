//! Address of an operator, and the token for it.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

use clap::Args;
use serde::Deserialize;

use super::operator_api::ApiError;
use crate::{
    ask::SCHEMA,
    failure::Failure,
    kubectl::{self, Forwarded, NamespacedName},
    project::PackageSelection,
    shell::Shell,
};

/// Variable of the environment with a bearer token.
const TOKEN: &str = "OPERATOR_TOKEN";

/// Options that select an operator.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Operator")]
pub(super) struct Arguments {
    /// Address of the operator's metrics server, such as https://127.0.0.1:8443; by default that of `cargo operator dev`
    #[arg(long, value_name = "URL", conflicts_with = "context")]
    address: Option<String>,
    /// Operator in the cluster of this context of the kubeconfig: kubectl forwards a port to it
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Deployment of the operator; by default the one with the name of the package, in the namespace of the same name
    #[arg(long, value_name = "NAMESPACE/NAME", requires = "context")]
    deployment: Option<NamespacedName>,
    /// Service account that may read explanations; kubectl creates a token for it
    #[arg(long, value_name = "NAMESPACE/NAME", requires = "context")]
    account: Option<NamespacedName>,
    /// File with the bearer token; by default the token is in $OPERATOR_TOKEN
    #[arg(long, value_name = "FILE", conflicts_with = "account")]
    token_file: Option<PathBuf>,
    /// Accept any certificate of the address; certificates of loopback addresses are always accepted
    #[arg(long, requires = "address")]
    insecure: bool,
}

/// Address and credentials of an operator.
#[derive(Debug)]
pub(crate) struct Place {
    /// Scheme, host and port.
    pub(super) address: String,
    pub(super) token: Option<String>,
    pub(super) accepts_any_certificate: bool,
    /// Step that helps if the operator does not answer.
    hint: String,
    origin: Origin,
}

/// Source of an address.
#[derive(Debug)]
enum Origin {
    /// The file of a session of `dev` in this folder.
    Session(PathBuf),
    /// The user.
    Given,
    /// A port that kubectl forwards until this is dropped.
    Forwarded(#[expect(dead_code, reason = "it ends the process when it is dropped")] Box<Forwarded>),
}

/// The file that a session of `dev` writes.
#[derive(Debug, Deserialize)]
struct SessionFile {
    schema: String,
    #[serde(default)]
    library: String,
    #[serde(default)]
    address: String,
    #[serde(default)]
    token: String,
}

impl Place {
    /// Finds the operator that the options select, or else that of a session of `dev`.
    pub(super) async fn find(
        arguments: &Arguments,
        package: &PackageSelection,
        here: &Path,
        shell: &Shell,
    ) -> Result<Self, Failure> {
        let given = match &arguments.token_file {
            Some(file) => Some(token_of(file)?),
            None => env::var(TOKEN).ok().filter(|token| !token.is_empty()),
        };
        if let Some(address) = &arguments.address {
            return Self::at(address, given, arguments.insecure);
        }
        let (folder, name) = package.folder(here)?;
        let Some(context) = &arguments.context else {
            return Self::of_session(&folder.join("target/operator"));
        };
        let deployment = arguments.deployment.clone().unwrap_or_else(|| NamespacedName::of_deployment(&name));
        let token = match (given, &arguments.account) {
            (_, Some(account)) => kubectl::token(context, account, shell).await?,
            (Some(token), None) => token,
            (None, None) => {
                return Err(Failure::usage("the operator requires a bearer token, and none was given").hint(
                    format!("name a service account that may read /explain/* with --account NAMESPACE/NAME, or set ${TOKEN}"),
                ));
            }
        };
        let forwarded = kubectl::forward(context, &deployment, shell).await?;
        Ok(Self {
            address: forwarded.address.clone(),
            token: Some(token),
            // kubectl has verified the API server, which forwards the connection to this pod.
            accepts_any_certificate: true,
            hint: format!(
                "kubectl --context {context} logs -n {} deployment/{} shows more",
                deployment.namespace, deployment.name
            ),
            origin: Origin::Forwarded(Box::new(forwarded)),
        })
    }

    /// Checks an address of the user.
    fn at(address: &str, token: Option<String>, insecure: bool) -> Result<Self, Failure> {
        let unusable = |reason: &str| {
            Failure::usage(format!("{address} is not the address of an operator: {reason}"))
                .hint("give scheme, host and port, such as https://127.0.0.1:8443")
        };
        let uri: http::Uri =
            address.parse().map_err(|error: http::uri::InvalidUri| unusable(&error.to_string()))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err(unusable("it begins with neither http:// nor https://"));
        }
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(unusable("it has a path"));
        }
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let is_loopback =
            host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
        if uri.scheme_str() == Some("http") && token.is_some() && !is_loopback {
            return Err(unusable(
                "a bearer token is sent over http only to loopback addresses: use https://",
            ));
        }
        Ok(Self {
            address: address.trim_end_matches('/').to_owned(),
            token,
            accepts_any_certificate: insecure || is_loopback,
            hint: format!(
                "check that {address} is the address of --metrics-bind-address, or of a forwarded port"
            ),
            origin: Origin::Given,
        })
    }

    /// The operator of the session that writes to this folder.
    pub(crate) fn of_session(folder: &Path) -> Result<Self, Failure> {
        let path = folder.join("session.json");
        let shown = path.display();
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(Failure::new("no operator of this project runs here: there is no session of `dev`").hint(
                    "run cargo operator dev, without --on, in another terminal, or name an operator with --address or --context",
                ));
            }
            Err(error) => return Err(Failure::new(format!("cannot read {shown}: {error}"))),
        };
        let file: SessionFile = serde_json::from_str(&text)
            .map_err(|error| Failure::new(format!("{shown} is not the file of a session: {error}")))?;
        if file.schema != SCHEMA {
            return Err(Failure::new(format!(
                "{shown} has schema {} of kube-envtest {}, but cargo-operator {} reads schema {SCHEMA}",
                file.schema,
                file.library,
                env!("CARGO_PKG_VERSION")
            )));
        }
        Ok(Self {
            address: file.address,
            token: Some(file.token),
            accepts_any_certificate: false,
            hint:
                "if cargo operator dev has ended, start it again; if the operator has ended, its log says why"
                    .to_owned(),
            origin: Origin::Session(folder.to_owned()),
        })
    }

    /// Prepares another attempt after a missing answer, and returns whether one can succeed. A session of `dev` that was restarted has
    /// another address, which this reads.
    ///
    /// # Errors
    ///
    /// The session has ended.
    pub(super) fn refresh(&mut self) -> Result<bool, Failure> {
        match &self.origin {
            Origin::Session(folder) => *self = Self::of_session(&folder.clone())?,
            Origin::Given => {}
            Origin::Forwarded(_) => return Ok(false),
        }
        Ok(true)
    }

    /// Address of the page, with the token.
    pub(crate) fn page(&self) -> String {
        let token = self.token.as_ref().map_or_else(String::new, |token| format!("#token={token}"));
        format!("{}/explain/{token}", self.address)
    }

    /// Whether the address works only while this process runs.
    pub(super) fn ends_with_this_process(&self) -> bool {
        matches!(self.origin, Origin::Forwarded(_))
    }

    /// The failure to report for an error of the API.
    pub(super) fn failure(&self, error: ApiError) -> Failure {
        let address = &self.address;
        match error {
            ApiError::NotFound(message) => Failure::new(message),
            ApiError::Refused(message) => Failure::new(format!(
                "the operator at {address} refused: {message}"
            ))
            .hint(format!(
                "its user needs the verb get on the nonResourceURLs /explain/*; set ${TOKEN} or --token-file"
            )),
            ApiError::Unreachable(reason) => {
                Failure::new(format!("the operator at {address} does not answer: {reason}")).hint(&self.hint)
            }
            ApiError::Unknown(reason) => {
                Failure::new(format!("the operator at {address} answered in an unknown form: {reason}"))
                    .hint("its controller-runtime may be older or newer than this cargo-operator")
            }
        }
    }
}

/// Reads a file with a bearer token.
fn token_of(file: &Path) -> Result<String, Failure> {
    let text = fs::read_to_string(file);
    let text = text.map_err(|error| Failure::new(format!("cannot read {}: {error}", file.display())))?;
    let token = text.trim();
    if token.is_empty() {
        return Err(Failure::new(format!("{} is empty: write a bearer token to it", file.display())));
    }
    Ok(token.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_checked() {
        let at = |address: &str, token: Option<&str>| {
            let place = Place::at(address, token.map(str::to_owned), false);
            place
                .map(|place| (place.page(), place.accepts_any_certificate))
                .map_err(|failure| failure.message)
        };
        assert_eq!(
            at("https://127.0.0.1:8443/", Some("t")),
            Ok(("https://127.0.0.1:8443/explain/#token=t".to_owned(), true))
        );
        assert_eq!(
            at("https://ops.example.com", None),
            Ok(("https://ops.example.com/explain/".to_owned(), false))
        );
        assert_eq!(at("http://[::1]:80", Some("t")).map(|(_, any)| any), Ok(true));
        for (address, reason) in [
            ("127.0.0.1:8443", "it begins with neither http:// nor https://"),
            ("ftp://host", "it begins with neither http:// nor https://"),
            ("https://host/path", "it has a path"),
            ("http://host:8080", "a bearer token is sent over http only to loopback addresses: use https://"),
        ] {
            let expected = format!("{address} is not the address of an operator: {reason}");
            assert_eq!(at(address, Some("t")), Err(expected));
        }
    }

    #[test]
    fn files_of_sessions_are_checked() {
        let folder = tempfile::tempdir().expect("a folder");
        let of = |text: Option<&str>| {
            if let Some(text) = text {
                fs::write(folder.path().join("session.json"), text).expect("a file");
            }
            Place::of_session(folder.path()).map(|place| place.page()).map_err(|failure| failure.message)
        };
        assert!(of(None).is_err_and(|message| message.contains("there is no session of `dev`")));
        assert!(of(Some("{")).is_err_and(|message| message.contains("is not the file of a session")));
        let newer = r#"{"schema":"operator/v9","library":"9.0.0"}"#;
        assert!(
            of(Some(newer))
                .is_err_and(|message| message.contains("schema operator/v9 of kube-envtest 9.0.0"))
        );
        let good = r#"{"schema":"operator/v1","address":"http://127.0.0.1:1","token":"t"}"#;
        assert_eq!(of(Some(good)), Ok("http://127.0.0.1:1/explain/#token=t".to_owned()));
    }
}
