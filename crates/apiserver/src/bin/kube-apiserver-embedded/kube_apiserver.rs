//! The program in place of `kube-apiserver`.

use std::ffi::OsString;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use kube_apiserver_embedded::{
    AdmissionPlugin, ApiServer, AuthorizationMode, ClientAuthority, GIT_VERSION, GeneratedCertificate,
    ListenOptions, Options, ServiceAccountKeys, ServiceRange, ServingCertificate, Tokens,
};
use tracing_subscriber::filter::LevelFilter;

use crate::embedded::{ISSUER, duration};
use crate::flags::{Flags, Program};
use crate::signals::terminated;
use crate::{in_full, log_from, print, write_secret};

const PROGRAM: Program = Program {
    name: "kube-apiserver",
    table: include_str!("kube-apiserver-flags.txt"),
    meanings: &[
        ("authorization-mode", "RBAC, Node (without effect) or AlwaysAllow, which is the default"),
        ("bind-address", "address to listen on; by default 0.0.0.0"),
        ("cert-dir", "folder of apiserver.crt and apiserver.key, which are generated if absent"),
        ("client-ca-file", "authorities that sign the certificates of clients"),
        ("disable-admission-plugins", "admission plugins to disable"),
        ("enable-admission-plugins", "admission plugins to enable in addition to the default ones"),
        ("event-ttl", "time that Events are kept; by default 1h"),
        ("help", "print this help"),
        ("secure-port", "port to listen on with TLS; by default 6443"),
        ("service-account-issuer", "issuer of service account tokens; the first one is used"),
        ("service-account-key-file", "keys whose tokens are accepted; may be repeated"),
        ("service-account-signing-key-file", "private key that signs tokens of service accounts"),
        ("service-cluster-ip-range", "range of IPv4 addresses of Services; by default 10.0.0.0/24"),
        ("tls-cert-file", "certificate to present, instead of that in --cert-dir"),
        ("tls-private-key-file", "private key of --tls-cert-file"),
        ("token-auth-file", "users and their tokens: token,user,uid,\"group1,group2\""),
        ("v", "log level: 4 or more logs each request; RUST_LOG overrides it"),
        ("version", "print the version"),
    ],
    about: "kube-apiserver-embedded in place of kube-apiserver, for test environments: it needs no etcd, and keeps all objects in\n\
            memory until it ends. See kube-apiserver-embedded --help for its own flags.",
};

/// Admission plugins of kube-apiserver v1.36.3 that are absent here.
const ABSENT_PLUGINS: [&str; 19] = [
    "AlwaysAdmit",
    "AlwaysDeny",
    "AlwaysPullImages",
    "ClusterTrustBundleAttest",
    "DenyServiceExternalIPs",
    "EventRateLimit",
    "ExtendedResourceToleration",
    "ImagePolicyWebhook",
    "JobValidation",
    "LimitPodHardAntiAffinityTopology",
    "NamespaceAutoProvision",
    "NamespaceExists",
    "NodeDeclaredFeatureValidator",
    "NodeRestriction",
    "PodGroupProtection",
    "PodGroupWorkloadExists",
    "PodNodeSelector",
    "PodResizeValidator",
    "PodTolerationRestriction",
];

/// Serves until a signal arrives.
///
/// # Errors
/// One line that names the flag or file, and says how to correct it.
pub(crate) async fn run(arguments: Vec<OsString>) -> Result<(), String> {
    let flags = PROGRAM.read(arguments)?;
    if flags.is_on("help") {
        print(&PROGRAM.help());
        return Ok(());
    }
    if flags.is_on("version") {
        print(&format!("Kubernetes {GIT_VERSION}\n"));
        return Ok(());
    }
    let level = flags.value("v").and_then(|level| level.parse::<u8>().ok()).unwrap_or(0);
    log_from(if level >= 4 { LevelFilter::DEBUG } else { LevelFilter::WARN });
    if let Some(ignored) = flags.without_effect() {
        eprintln!("kube-apiserver-embedded in place of kube-apiserver: flags without effect: {ignored}");
    }
    // Signals are received before the port is open, so that a signal right after the first response is not missed.
    let terminated = terminated()?;
    let server = ApiServer::start(options(&flags)?);
    let address = address(&flags)?;
    let listen = ListenOptions::default().certificate(certificate(&flags, address.ip())?);
    let listener = server.listen_with(address, listen).await.map_err(in_full)?;
    terminated.await;
    listener.shutdown().await;
    Ok(())
}

fn options(flags: &Flags) -> Result<Options, String> {
    // The standard library offers random numbers only as the keys of a hasher.
    let seed = RandomState::new().build_hasher().finish();
    let mut options = Options::default().seed(seed).authorization(authorization(flags)?);
    // The plugin is on by default in kube-apiserver, which does not know whether a controller creates service accounts.
    options = options.enable_admission_plugin(AdmissionPlugin::ServiceAccount);
    for plugin in plugins(flags, "enable-admission-plugins")? {
        options = options.enable_admission_plugin(plugin);
    }
    for plugin in plugins(flags, "disable-admission-plugins")? {
        options = options.disable_admission_plugin(plugin);
    }
    // Set even without tokens, so that clients without credentials are anonymous, not administrators.
    options = options.tokens(match flags.value("token-auth-file") {
        Some(path) => Tokens::from_file(Path::new(path)).map_err(in_full)?,
        None => Tokens::new(),
    });
    if let Some(path) = flags.value("client-ca-file") {
        options = options.client_authority(ClientAuthority::from_file(Path::new(path)).map_err(in_full)?);
    }
    if let Some(ttl) = flags.value("event-ttl") {
        options = options.event_ttl(duration(ttl).map_err(|why| format!("--event-ttl {ttl:?}: {why}"))?);
    }
    let range = service_range(flags.value("service-cluster-ip-range").unwrap_or("10.0.0.0/24"))?;
    options = options.service_range(range);
    if let Some(path) = flags.value("service-account-signing-key-file") {
        let issuer = flags.values("service-account-issuer").first().map_or(ISSUER, String::as_str);
        let mut keys = ServiceAccountKeys::from_file(issuer, Path::new(path)).map_err(in_full)?;
        for path in flags.values("service-account-key-file") {
            keys = keys.verified_by_file(Path::new(path)).map_err(in_full)?;
        }
        options = options.service_account_keys(keys);
    }
    Ok(options)
}

/// Reads the range of Services: the one for IPv4, if there are two.
fn service_range(ranges: &str) -> Result<ServiceRange, String> {
    let range = ranges.split(',').find(|range| !range.contains(':')).ok_or_else(|| {
        format!(
            "--service-cluster-ip-range {ranges:?}: only IPv4 is supported: add a range such as 10.0.0.0/24"
        )
    })?;
    range.parse().map_err(|why| format!("--service-cluster-ip-range: {why}"))
}

/// Returns the plugins in a list of names. Plugins of kube-apiserver that are absent here are skipped, and named on standard error if the
/// flag would switch them on.
fn plugins(flags: &Flags, list: &'static str) -> Result<Vec<AdmissionPlugin>, String> {
    let mut known = Vec::new();
    for name in flags.list(list) {
        if let Ok(plugin) = name.parse() {
            known.push(plugin);
        } else if !ABSENT_PLUGINS.contains(&name) {
            return Err(format!("--{list}: plugin {name:?} is unknown"));
        } else if list.starts_with("enable") {
            eprintln!(
                "kube-apiserver-embedded in place of kube-apiserver: admission plugin {name} is not supported and has no effect"
            );
        }
    }
    Ok(known)
}

/// Returns the strongest of the modes: a request is allowed if one mode allows it. `Node` has no effect: nodes have the permissions that
/// roles grant them.
fn authorization(flags: &Flags) -> Result<AuthorizationMode, String> {
    let mut modes = flags.list("authorization-mode").filter(|mode| *mode != "Node").peekable();
    if modes.peek().is_none() && flags.value("authorization-mode").is_none() {
        return Ok(AuthorizationMode::AlwaysAllow);
    }
    let mut allowed = AuthorizationMode::Rbac;
    for mode in modes {
        let mode = mode.parse().map_err(|error| format!("--authorization-mode: {error}"))?;
        if mode == AuthorizationMode::AlwaysAllow {
            allowed = mode;
        }
    }
    Ok(allowed)
}

fn address(flags: &Flags) -> Result<SocketAddr, String> {
    let ip = flags.value("bind-address").unwrap_or("0.0.0.0");
    let ip: IpAddr = ip.parse().map_err(|_| format!("--bind-address {ip:?} is not an IP address"))?;
    let port = flags.value("secure-port").unwrap_or("6443");
    let number = port.parse().ok().filter(|port| *port != 0);
    let number = number.ok_or_else(|| format!("--secure-port {port:?} must be between 1 and 65535"))?;
    Ok(SocketAddr::new(ip, number))
}

/// Reads the certificate that the flags name, or the one in the folder for certificates. If the folder has none, a new one is written
/// there.
fn certificate(flags: &Flags, address: IpAddr) -> Result<ServingCertificate, String> {
    match (flags.value("tls-cert-file"), flags.value("tls-private-key-file")) {
        (Some(certificate), Some(key)) => {
            return ServingCertificate::from_files(Path::new(certificate), Path::new(key)).map_err(in_full);
        }
        (None, None) => {}
        _ => {
            return Err("give --tls-cert-file and --tls-private-key-file together, or neither".to_owned());
        }
    }
    let folder = Path::new(flags.value("cert-dir").unwrap_or("/var/run/kubernetes"));
    let (certificate, key) = (folder.join("apiserver.crt"), folder.join("apiserver.key"));
    if certificate.exists() || key.exists() {
        return ServingCertificate::from_files(&certificate, &key).map_err(in_full);
    }
    let generated = GeneratedCertificate::new(address).map_err(in_full)?;
    let written = std::fs::create_dir_all(folder)
        .and_then(|()| write_secret(&key, generated.key()))
        .and_then(|()| std::fs::write(&certificate, generated.certificates()));
    written
        .map_err(|error| format!("cannot write a certificate to --cert-dir {}: {error}", folder.display()))?;
    generated.to_serving().map_err(in_full)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(arguments: &[&str]) -> Flags {
        PROGRAM.read(arguments.iter().map(OsString::from).collect()).unwrap()
    }

    #[test]
    fn absent_plugins_are_absent() {
        for name in ABSENT_PLUGINS {
            assert!(name.parse::<AdmissionPlugin>().is_err(), "{name} exists here: remove it from the list");
        }
    }

    #[test]
    fn plugins_are_those_of_kube_apiserver() {
        let list = "disable-admission-plugins";
        let flags = given(&[
            "--disable-admission-plugins=ServiceAccount,PodNodeSelector",
            "--disable-admission-plugins=Priority",
        ]);
        assert_eq!(
            plugins(&flags, list).unwrap(),
            [AdmissionPlugin::ServiceAccount, AdmissionPlugin::Priority]
        );
        let refused = plugins(&given(&["--disable-admission-plugins=ServiceAcount"]), list).unwrap_err();
        assert_eq!(refused, "--disable-admission-plugins: plugin \"ServiceAcount\" is unknown");
    }

    #[test]
    fn a_request_is_allowed_if_one_mode_allows_it() {
        let mode = |text: &str| authorization(&given(&[&format!("--authorization-mode={text}")]));
        assert_eq!(authorization(&given(&[])).unwrap(), AuthorizationMode::AlwaysAllow);
        assert_eq!(mode("RBAC").unwrap(), AuthorizationMode::Rbac);
        assert_eq!(mode("Node,RBAC").unwrap(), AuthorizationMode::Rbac);
        assert_eq!(mode("Node").unwrap(), AuthorizationMode::Rbac);
        assert_eq!(mode("RBAC,AlwaysAllow").unwrap(), AuthorizationMode::AlwaysAllow);
        assert!(mode("ABAC").is_err());
    }
}
