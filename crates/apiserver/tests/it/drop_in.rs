//! The program in place of kube-apiserver and etcd, started as controller-runtime's envtest starts them.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use k8s_openapi::api::core::v1::{Namespace, Service, ServiceAccount};
use kube::api::{ListParams, ObjectMeta, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::json;
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_kube-apiserver-embedded");

/// A process that is killed when it is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    /// Stops the process like envtest. Returns whether it succeeded, and its standard error.
    fn terminate(mut self) -> (bool, String) {
        Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status().unwrap();
        let mut errors = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        (self.0.wait().unwrap().success(), errors)
    }
}

/// Fills a new folder; returns the folder above it, and the path that the program printed.
fn assets() -> (TempDir, PathBuf) {
    let above = tempfile::tempdir().unwrap();
    let output = Command::new(PROGRAM).arg("assets").arg(above.path().join("bin")).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let printed = String::from_utf8(output.stdout).unwrap();
    (above, PathBuf::from(printed.strip_suffix('\n').unwrap()))
}

fn output_of(program: &Path, arguments: &[&str]) -> Output {
    Command::new(program).args(arguments).output().unwrap()
}

/// Returns the line on standard error of a program that must fail.
fn refusal(program: &Path, arguments: &[&str]) -> String {
    let output = output_of(program, arguments);
    assert!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A certificate authority for clients, its file, and the other files of a control plane.
struct Files {
    folder: TempDir,
    authority: rcgen::CertifiedIssuer<'static, rcgen::KeyPair>,
}

impl Files {
    fn new() -> Self {
        let mut params = rcgen::CertificateParams::default();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let authority =
            rcgen::CertifiedIssuer::self_signed(params, rcgen::KeyPair::generate().unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("client-ca.crt"), authority.pem()).unwrap();
        let accounts = rcgen::KeyPair::generate().unwrap();
        fs::write(folder.path().join("sa.key"), accounts.serialize_pem()).unwrap();
        fs::write(folder.path().join("sa.pub"), accounts.public_key_pem()).unwrap();
        Self { folder, authority }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// Starts kube-apiserver with envtest's flags.
    fn start(&self, program: &Path, port: u16) -> Running {
        let flags = [
            "--allow-privileged=true".to_owned(),
            "--authorization-mode=RBAC".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--cert-dir={}", self.path("certificates")),
            format!("--client-ca-file={}", self.path("client-ca.crt")),
            "--disable-admission-plugins=ServiceAccount".to_owned(),
            "--etcd-servers=http://127.0.0.1:2379".to_owned(),
            format!("--secure-port={port}"),
            format!("--service-account-issuer=https://127.0.0.1:{port}/"),
            format!("--service-account-key-file={}", self.path("sa.pub")),
            format!("--service-account-signing-key-file={}", self.path("sa.key")),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        ];
        Running(Command::new(program).args(flags).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// Returns a client with a certificate for a user, or without credentials.
    async fn client(&self, port: u16, user: Option<(&str, &str)>) -> Client {
        let encode = |pem: &str| BASE64_STANDARD.encode(pem);
        let credentials = user.map(|(name, group)| {
            let mut params = rcgen::CertificateParams::default();
            params.distinguished_name = rcgen::DistinguishedName::new();
            params.distinguished_name.push(rcgen::DnType::CommonName, name);
            params.distinguished_name.push(rcgen::DnType::OrganizationName, group);
            params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
            let key = rcgen::KeyPair::generate().unwrap();
            let certificate = params.signed_by(&key, &self.authority).unwrap();
            json!({"client-certificate-data": encode(&certificate.pem()), "client-key-data": encode(&key.serialize_pem())})
        });
        let presented = fs::read_to_string(self.path("certificates/apiserver.crt")).unwrap();
        let kubeconfig = json!({
            "clusters": [{"name": "c", "cluster": {
                "server": format!("https://127.0.0.1:{port}"), "certificate-authority-data": encode(&presented),
            }}],
            "users": [{"name": "u", "user": credentials.unwrap_or_else(|| json!({}))}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        });
        let kubeconfig = Kubeconfig::from_yaml(&kubeconfig.to_string()).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        Client::try_from(config).unwrap()
    }
}

/// Waits until a process listens on a port.
fn connect(port: u16, running: &mut Running) -> TcpStream {
    loop {
        if let Ok(stream) = TcpStream::connect(("127.0.0.1", port)) {
            return stream;
        }
        assert!(running.0.try_wait().unwrap().is_none(), "the process ended before it listened");
        std::thread::yield_now();
    }
}

#[test]
fn the_folder_has_links_to_the_program() {
    let (_above, folder) = assets();
    let version = |name: &str| {
        let output = output_of(&folder.join(name), &["--version"]);
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(version("kube-apiserver").starts_with("Kubernetes v1.36.3+embedded"));
    assert!(version("etcd").contains("in place of etcd"));
    // A repeated call replaces the links, for example after an update.
    let again = output_of(Path::new(PROGRAM), &["assets", folder.to_str().unwrap()]);
    assert!(again.status.success(), "{again:?}");
}

#[cfg(unix)]
#[test]
fn a_link_to_a_removed_kubectl_is_replaced() {
    let on_path = tempfile::tempdir().unwrap();
    let installed = on_path.path().join("kubectl");
    fs::write(&installed, "a program").unwrap();
    let above = tempfile::tempdir().unwrap();
    let link = above.path().join("kubectl");
    std::os::unix::fs::symlink(above.path().join("removed"), &link).unwrap();
    let fill = || {
        let mut command = Command::new(PROGRAM);
        let output = command.arg("assets").arg(above.path()).env("PATH", on_path.path()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        fs::read_link(&link).unwrap()
    };
    assert_eq!(fill(), installed);
    // A link that works stays, even to another kubectl.
    let other = above.path().join("other");
    fs::write(&other, "another program").unwrap();
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(&other, &link).unwrap();
    assert_eq!(fill(), other);
}

#[test]
fn a_foreign_program_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let etcd = folder.path().join("etcd");
    fs::write(&etcd, "a program of the user").unwrap();
    let path = fs::canonicalize(folder.path()).unwrap();
    let told = refusal(Path::new(PROGRAM), &["assets", path.to_str().unwrap()]);
    assert_eq!(
        told,
        format!(
            "error: {}/etcd exists and is not a link to kube-apiserver-embedded: remove it, or choose another folder\n",
            path.display()
        )
    );
    assert_eq!(fs::read_to_string(&etcd).unwrap(), "a program of the user");
}

#[test]
fn a_folder_on_the_path_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let output =
        Command::new(PROGRAM).arg("assets").arg(folder.path()).env("PATH", folder.path()).output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8(output.stderr).unwrap().contains("is on the PATH"));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn without_a_folder_one_in_the_cache_is_filled() {
    let cache = tempfile::tempdir().unwrap();
    let fill = || {
        let output =
            Command::new(PROGRAM).arg("assets").env("XDG_CACHE_HOME", cache.path()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let folder = fill();
    assert!(Path::new(folder.trim_end()).starts_with(fs::canonicalize(cache.path()).unwrap()));
    assert_eq!(fill(), folder, "the same program has the same folder");
}

/// envtest reads the help: it disables `--insecure-port` if the line begins with it, and gives etcd `--unsafe-no-fsync` if it is there.
#[test]
fn the_help_names_the_flags_that_envtest_looks_for() {
    let (_above, folder) = assets();
    let names = |program: &str| -> Vec<String> {
        let output = output_of(&folder.join(program), &["--help"]);
        assert!(output.status.success());
        let help = String::from_utf8(output.stdout).unwrap();
        let names = help.lines().filter_map(|line| line.trim_start().strip_prefix("--")?.split(' ').next());
        names.map(str::to_owned).collect()
    };
    let api_server = names("kube-apiserver");
    assert!(api_server.len() > 150, "{} flags", api_server.len());
    assert!(!api_server.contains(&"insecure-port".to_owned()));
    assert!(
        api_server.contains(&"secure-port".to_owned()) && api_server.contains(&"etcd-servers".to_owned())
    );
    assert!(names("etcd").contains(&"unsafe-no-fsync".to_owned()));
}

#[test]
fn etcd_is_healthy_and_says_that_it_is_not_etcd() {
    let (above, folder) = assets();
    let port = free_port();
    let url = format!("http://127.0.0.1:{port}");
    let data = above.path().join("data");
    let started = Command::new(folder.join("etcd"))
        .arg(format!("--listen-client-urls={url}"))
        .arg(format!("--advertise-client-urls={url}"))
        .arg(format!("--listen-peer-urls=http://127.0.0.1:{}", free_port()))
        .arg(format!("--data-dir={}", data.display()))
        .arg("--unsafe-no-fsync=true")
        .stderr(Stdio::piped())
        .spawn();
    let mut running = Running(started.unwrap());
    let mut ask = |path: &str| {
        let mut stream = connect(port, &mut running);
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let health = ask("/health");
    assert!(
        health.starts_with("HTTP/1.1 200") && health.ends_with(r#"{"health":"true","reason":""}"#),
        "{health}"
    );
    assert!(ask("/v3/kv/range").starts_with("HTTP/1.1 404"));
    let (succeeded, errors) = running.terminate();
    assert!(succeeded);
    assert!(errors.contains("in place of etcd") && errors.contains("stores nothing"), "{errors}");
    assert!(!data.exists());
}

#[test]
fn a_wrong_command_line_is_reported_in_one_line_with_the_flag() {
    let (_above, folder) = assets();
    let api_server = folder.join("kube-apiserver");
    for (flag, expected) in [
        ("--etcd-server=x", "error: unknown flag: --etcd-server\n"),
        ("--secure-port=0", "error: --secure-port \"0\" must be between 1 and 65535\n"),
        (
            "--authorization-mode=Webhook",
            "error: --authorization-mode: authorization mode \"Webhook\" is not supported: use RBAC or AlwaysAllow\n",
        ),
        ("--bind-address=here", "error: --bind-address \"here\" is not an IP address\n"),
        (
            "--tls-cert-file=a.crt",
            "error: give --tls-cert-file and --tls-private-key-file together, or neither\n",
        ),
    ] {
        assert_eq!(refusal(&api_server, &[flag]), expected);
    }
    let told = refusal(&api_server, &["--client-ca-file=/absent/ca.crt"]);
    assert!(told.starts_with("error: client CA file /absent/ca.crt cannot be read: No such file"), "{told}");
    for flags in [
        &["--token-auth-file=/absent/x"][..],
        &["--service-account-signing-key-file=/absent/x"],
        &["--tls-cert-file=/absent/x", "--tls-private-key-file=/absent/x"],
    ] {
        let told = refusal(&api_server, flags);
        assert!(told.starts_with("error: ") && told.lines().count() == 1, "{told}");
        assert!(told.contains("/absent/x") && told.contains("cannot be read: No such file"), "{told}");
    }
    let told = refusal(&folder.join("etcd"), &["--listen-client-urls=https://127.0.0.1:1"]);
    assert!(
        told.starts_with("error: --listen-client-urls \"https://127.0.0.1:1\" is not supported"),
        "{told}"
    );
}

#[test]
fn files_without_a_usable_key_are_named() {
    let (_above, folder) = assets();
    let files = Files::new();
    let api_server = folder.join("kube-apiserver");
    let (garbage, public) = (files.path("garbage"), files.path("sa.pub"));
    fs::write(&garbage, "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n").unwrap();
    let (signing, authority) =
        (format!("--service-account-signing-key-file={}", files.path("sa.key")), files.path("client-ca.crt"));
    for (flags, file) in [
        (vec![format!("--service-account-signing-key-file={garbage}")], &garbage),
        (vec![format!("--service-account-signing-key-file={public}")], &public),
        (vec![signing, format!("--service-account-key-file={garbage}")], &garbage),
        (vec![format!("--client-ca-file={garbage}")], &garbage),
        (vec![format!("--tls-cert-file={authority}"), format!("--tls-private-key-file={garbage}")], &garbage),
        (
            vec![
                format!("--tls-cert-file={garbage}"),
                format!("--tls-private-key-file={}", files.path("sa.key")),
            ],
            &garbage,
        ),
    ] {
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let told = refusal(&api_server, &flags);
        assert!(told.starts_with("error: ") && told.lines().count() == 1, "{flags:?}: {told}");
        assert!(told.contains(file.as_str()), "{flags:?}: {told}");
    }
}

#[test]
fn a_port_in_use_ends_either_program_with_the_address() {
    let (_above, folder) = assets();
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let (files, port) = (Files::new(), address.port());
    let certificates = format!("--cert-dir={}", files.path("certificates"));
    let port = format!("--secure-port={port}");
    let etcd = format!("--listen-client-urls=http://{address}");
    for (program, flags) in
        [("kube-apiserver", vec!["--bind-address=127.0.0.1", &*port, &*certificates]), ("etcd", vec![&*etcd])]
    {
        let told = refusal(&folder.join(program), &flags);
        let in_use = told.contains("the address is in use") || told.contains("Address already in use");
        assert!(
            told.contains("cannot listen on ") && told.contains(&address.to_string()) && in_use,
            "{told}"
        );
    }
}

#[tokio::test]
async fn the_api_server_gives_each_certificate_the_rights_of_its_user() {
    let (_above, folder) = assets();
    let files = Files::new();
    let port = free_port();
    let mut running = files.start(&folder.join("kube-apiserver"), port);
    drop(connect(port, &mut running));

    let administrator = files.client(port, Some(("admin", "system:masters"))).await;
    let namespaces = Api::<Namespace>::all(administrator.clone());
    let names: Vec<_> = namespaces
        .list(&ListParams::default())
        .await
        .unwrap()
        .items
        .into_iter()
        .map(|n| n.metadata.name)
        .collect();
    assert!(names.contains(&Some("default".to_owned())));
    for (user, name) in [(Some(("jane", "devs")), "jane"), (None, "system:anonymous")] {
        let refused =
            Api::<Namespace>::all(files.client(port, user).await).list(&ListParams::default()).await;
        let expected = format!("User \"{name}\" cannot list resource \"namespaces\"");
        assert!(refused.unwrap_err().to_string().contains(&expected));
    }

    // Tokens are signed with the key of the flags, and name the issuer of the flags.
    let services = Api::<Service>::default_namespaced(administrator.clone());
    let accounts = Api::<ServiceAccount>::default_namespaced(administrator.clone());
    let account = ServiceAccount {
        metadata: ObjectMeta { name: Some("builder".to_owned()), ..ObjectMeta::default() },
        ..ServiceAccount::default()
    };
    accounts.create(&PostParams::default(), &account).await.unwrap();
    let request = serde_json::from_value(json!({"spec": {"audiences": []}})).unwrap();
    let answer = accounts.create_token_request("builder", &PostParams::default(), &request).await.unwrap();
    let token = answer.status.unwrap().token.unwrap();
    let claims = token.split('.').nth(1).unwrap();
    let claims = base64::prelude::BASE64_URL_SAFE_NO_PAD.decode(claims).unwrap();
    let claims: serde_json::Value = serde_json::from_slice(&claims).unwrap();
    assert_eq!(claims["iss"], format!("https://127.0.0.1:{port}/"));

    // Services have addresses of the range of the flags.
    let own = services.get("kubernetes").await.unwrap().spec.unwrap().cluster_ip;
    assert_eq!(own.as_deref(), Some("10.0.0.1"));

    // The discovery document leads to the public key, with which others verify tokens.
    let read = async |path: &str| -> serde_json::Value {
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        administrator.request(request).await.unwrap()
    };
    let issuer = read("/.well-known/openid-configuration").await;
    assert_eq!(issuer["issuer"], claims["iss"]);
    assert_eq!(issuer["id_token_signing_alg_values_supported"], json!(["ES256"]));
    let keys =
        issuer["jwks_uri"].as_str().unwrap().strip_prefix(&format!("https://127.0.0.1:{port}")).unwrap();
    let keys = read(keys).await;
    let [key] = keys["keys"].as_array().unwrap().as_slice() else { panic!("not one key: {keys}") };
    let (signed, signature) = token.rsplit_once('.').unwrap();
    let decode = |text: &str| base64::prelude::BASE64_URL_SAFE_NO_PAD.decode(text).unwrap();
    let header: serde_json::Value =
        serde_json::from_slice(&decode(signed.split('.').next().unwrap())).unwrap();
    assert_eq!(header["kid"], key["kid"]);
    let point = [vec![4], decode(key["x"].as_str().unwrap()), decode(key["y"].as_str().unwrap())].concat();
    let public = ring::signature::UnparsedPublicKey::new(&ring::signature::ECDSA_P256_SHA256_FIXED, point);
    public.verify(signed.as_bytes(), &decode(signature)).unwrap();

    let (succeeded, errors) = running.terminate();
    assert!(succeeded);
    assert_eq!(
        errors,
        "kube-apiserver-embedded in place of kube-apiserver: flags without effect: --allow-privileged, \
         --etcd-servers\n"
    );
}

#[tokio::test]
async fn a_certificate_is_generated_once_and_reused() {
    let (_above, folder) = assets();
    let files = Files::new();
    let mut generated = Vec::new();
    for _ in 0..2 {
        let port = free_port();
        let mut running = files.start(&folder.join("kube-apiserver"), port);
        drop(connect(port, &mut running));
        let client = files.client(port, Some(("admin", "system:masters"))).await;
        Api::<Namespace>::all(client).list(&ListParams::default()).await.unwrap();
        generated.push(fs::read_to_string(files.path("certificates/apiserver.crt")).unwrap());
        assert!(running.terminate().0);
    }
    assert_eq!(generated[0], generated[1]);
    // Without its key the certificate is of no use.
    fs::remove_file(files.path("certificates/apiserver.key")).unwrap();
    let cert_dir = format!("--cert-dir={}", files.path("certificates"));
    let told = refusal(&folder.join("kube-apiserver"), &[&cert_dir, "--secure-port=1"]);
    assert!(told.contains("apiserver.key cannot be read"), "{told}");
}
