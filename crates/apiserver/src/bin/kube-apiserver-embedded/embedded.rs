//! The program under its own name, with flags of its own.
//!
//! Once it serves requests, it prints `ready http://127.0.0.1:PORT` (with `--tls` `ready https://…`) as the first line on standard output.
//! Without `--data-file` the state is lost when the program ends.

use std::ffi::OsString;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand, ValueEnum};
use jiff::SignedDuration;
use kube_apiserver_embedded::{
    AdmissionPlugin, ApiServer, AuthorizationMode, ClientAuthority, DataFile, ListenOptions, Options,
    Profile, ServiceAccountKeys, Tokens,
};
use tokio::time::Duration;
use tracing_subscriber::filter::LevelFilter;

use crate::signals::terminated;
use crate::{assets, in_full, log_from, print, write_secret};

/// Grace period of deleted namespaces: short enough to wait for, and long enough that timestamps distinguish writes of clients from those
/// of controllers.
const NAMESPACE_GRACE: Duration = Duration::from_secs(1);

/// Issuer of service account tokens unless a flag names another one.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc";

/// A Kubernetes API server without etcd, for tests and development.
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Address to listen on; port 0 picks a free one. Addresses other than loopback need --token-auth-file or --client-ca-file.
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// Serve HTTPS, with HTTP/2, instead of plain HTTP. The kubeconfig contains the certificate authority.
    #[arg(long)]
    tls: bool,
    /// Users and their bearer tokens, one per line: token,user,uid,"group1,group2". Without it every client is admin.
    #[arg(long, value_name = "CSV")]
    token_auth_file: Option<PathBuf>,
    /// Accept client certificates that an authority in this file (PEM) has signed: the common name is the user, the organizations
    /// are the groups. Clients without credentials are anonymous then.
    #[arg(long, value_name = "PEM", requires = "tls")]
    client_ca_file: Option<PathBuf>,
    /// Sign tokens of service accounts with the private key in this file (PEM): RSA, or an elliptic curve in PKCS#8.
    #[arg(long, value_name = "PEM")]
    service_account_signing_key_file: Option<PathBuf>,
    /// Accept tokens of service accounts that the key in this file (PEM) has signed: a public key, certificate or private key. May
    /// be repeated.
    #[arg(long, value_name = "PEM", requires = "service_account_signing_key_file")]
    service_account_key_file: Vec<PathBuf>,
    /// Issuer of service account tokens, and their audience unless a request names others.
    #[arg(long, value_name = "URL", requires = "service_account_signing_key_file")]
    service_account_issuer: Option<String>,
    /// Access control: users may do what roles and bindings grant them (RBAC), or everything (AlwaysAllow). In both modes members of
    /// system:masters may do everything.
    #[arg(long, default_value_t, value_name = "MODE")]
    authorization_mode: AuthorizationMode,
    /// Write a kubeconfig for this server to a file, or with `-` to standard output after the line `ready …`.
    #[arg(long, value_name = "PATH")]
    kubeconfig_out: Option<PathBuf>,
    /// Keep the objects in this file, which is created if it does not exist. Writes that were answered survive a crash of the process.
    #[arg(long, value_name = "PATH")]
    data_file: Option<PathBuf>,
    /// Sync each write to disk before it is answered, so that it also survives a power failure.
    #[arg(long, requires = "data_file")]
    fsync: bool,
    /// Controllers to run: none (envtest), or garbage collection, namespace deletion, default service accounts and quotas (dev).
    #[arg(long, value_enum, default_value_t = ProfileName::Envtest)]
    profile: ProfileName,
    /// Time after their last change at which Events are deleted.
    #[arg(long, value_parser = duration, default_value = "1h", value_name = "DURATION")]
    event_ttl: Duration,
    /// Admission plugins to enable in addition to those that are enabled by default, separated by commas.
    #[arg(long, value_delimiter = ',', value_name = "PLUGINS")]
    enable_admission_plugins: Vec<AdmissionPlugin>,
    /// Admission plugins to disable, separated by commas. By default all are enabled except OwnerReferencesPermissionEnforcement and,
    /// outside of profile dev, ServiceAccount.
    #[arg(long, value_delimiter = ',', value_name = "PLUGINS")]
    disable_admission_plugins: Vec<AdmissionPlugin>,
    /// Accept faults as JSON below /debug/faults/: every client can make the server misbehave. Loopback addresses only.
    #[arg(long)]
    fault_api: bool,
    /// Generate the same UIDs and names in every run with this seed; without it they are random, as in clusters.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create kube-apiserver and etcd in a folder, as links to this program, and print the folder's path for KUBEBUILDER_ASSETS.
    ///
    /// KUBEBUILDER_ASSETS=$(kube-apiserver-embedded assets) go test ./...
    ///
    /// If kubectl is on the PATH, the folder also gets a link to it.
    Assets {
        /// Folder for the links; it is created if it does not exist. By default a folder in the user's cache.
        #[arg(value_name = "DIR")]
        folder: Option<PathBuf>,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ProfileName {
    Envtest,
    Dev,
}

/// Runs a command, or the server until a signal arrives.
///
/// # Errors
/// One line that names the problem, and says how to correct it.
pub(crate) async fn run(program: OsString, arguments: Vec<OsString>) -> Result<(), String> {
    let arguments = Arguments::parse_from(std::iter::once(program).chain(arguments));
    match arguments.command {
        Some(Command::Assets { folder }) => {
            let folder = assets::fill(folder.as_deref())?;
            print(&format!("{}\n", folder.display()));
            Ok(())
        }
        None => serve(arguments).await,
    }
}

async fn serve(arguments: Arguments) -> Result<(), String> {
    log_from(LevelFilter::WARN);
    let profile = match arguments.profile {
        ProfileName::Envtest => Profile::Envtest,
        ProfileName::Dev => Profile::Dev,
    };
    // Signals are received before the server is announced, so that a signal right after the announcement is not missed.
    let terminated = terminated()?;
    // The standard library offers random numbers only as the keys of a hasher.
    let seed = arguments.seed.unwrap_or_else(|| RandomState::new().build_hasher().finish());
    let mut options = Options::default()
        .profile(profile)
        .seed(seed)
        .namespace_grace(NAMESPACE_GRACE)
        .authorization(arguments.authorization_mode)
        .event_ttl(arguments.event_ttl);
    for plugin in arguments.enable_admission_plugins {
        options = options.enable_admission_plugin(plugin);
    }
    for plugin in arguments.disable_admission_plugins {
        options = options.disable_admission_plugin(plugin);
    }
    if let Some(path) = &arguments.token_auth_file {
        options = options.tokens(Tokens::from_file(path).map_err(in_full)?);
    }
    if let Some(path) = &arguments.client_ca_file {
        options = options.client_authority(ClientAuthority::from_file(path).map_err(in_full)?);
    }
    if let Some(path) = &arguments.service_account_signing_key_file {
        let issuer = arguments.service_account_issuer.as_deref().unwrap_or(ISSUER);
        let mut keys = ServiceAccountKeys::from_file(issuer, path).map_err(in_full)?;
        for path in &arguments.service_account_key_file {
            keys = keys.verified_by_file(path).map_err(in_full)?;
        }
        options = options.service_account_keys(keys);
    }
    let server = match arguments.data_file {
        Some(path) => {
            let file = DataFile::new(path).fsync(arguments.fsync);
            ApiServer::open(options, &file).map_err(in_full)?
        }
        None => ApiServer::start(options),
    };
    let mut listen = ListenOptions::default();
    if arguments.tls {
        listen = listen.tls();
    }
    if arguments.fault_api {
        listen = listen.faults();
    }
    let listener = server.listen_with(arguments.listen, listen).await.map_err(in_full)?;
    let mut announcement = format!("ready {}\n", listener.url());
    match arguments.kubeconfig_out.as_deref() {
        Some(path) if path == Path::new("-") => announcement += &listener.kubeconfig(),
        Some(path) => write_secret(path, &listener.kubeconfig())
            .map_err(|error| format!("cannot write the kubeconfig {}: {error}", path.display()))?,
        None => {}
    }
    print(&announcement);
    terminated.await;
    listener.shutdown().await;
    Ok(())
}

/// Parses a duration such as `90s` or `1h0m0s`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let read: SignedDuration = text.parse().map_err(|error: jiff::Error| error.to_string())?;
    Duration::try_from(read).map_err(|_| "the duration must not be negative".to_owned())
}
