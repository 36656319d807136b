//! The program as users run it.

use std::{
    fs,
    io::{BufRead, BufReader},
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    pin::pin,
    process::{Child, Command, Output, Stdio},
};

use futures::TryStreamExt;
use guestbook::api::Guestbook;
use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, WatchEvent, WatchParams},
};
use kube_envtest::{Assets, Cluster, Environment, Transport};
use tempfile::TempDir;

fn guestbook() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_guestbook"));
    command.env_remove("RUST_LOG").env_remove("KUBECONFIG");
    command
}

fn run(args: &[&str]) -> Output {
    guestbook().args(args).output().expect("the program starts")
}

/// Runs the program, which must fail, and returns its single line of output.
fn failure(args: &[&str]) -> String {
    let output = run(args);
    assert!(!output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stderr).expect("text");
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}

#[test]
fn once_ends_after_the_demonstration_with_a_message() {
    let output = run(&["--once"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{output:?}");
    for expected in [
        "create three Guestbooks",
        "welcome    replicas 3  Ready",
        "wedding    replicas 2  not ready: ThemeNotFound",
        "wedding    theme not found: create ConfigMap default/roses",
        "museum     gone",
        "every Guestbook reached its state",
    ] {
        assert!(text.contains(expected), "{expected:?} is not in:\n{text}");
    }
    assert!(String::from_utf8_lossy(&output.stderr).is_empty(), "{output:?}");
}

/// The running program, after its demonstration.
struct Serving {
    child: Child,
    kubeconfig: String,
    /// The program's temporary folder, removed even if the program is killed.
    _folder: TempDir,
}

impl Serving {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut program = guestbook();
        let mut child =
            program.env("TMPDIR", folder.path()).stdout(Stdio::piped()).spawn().expect("the program starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let kubeconfig = lines
            .map_while(Result::ok)
            .find_map(|line| {
                Some(line.strip_prefix("try: kubectl --kubeconfig ")?.split(' ').next()?.to_owned())
            })
            .expect("it prints the path of its kubeconfig");
        Self { child, kubeconfig, _folder: folder }
    }

    fn stop(mut self) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status().expect("kill runs");
        assert!(sent.success());
        assert!(self.child.wait().expect("it ends").success());
        assert!(!Path::new(&self.kubeconfig).exists(), "it leaves no file behind");
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // Reached with a running program only if the test has failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `kubectl` against the running program. Each request, including watches, ends after 30 seconds.
struct Kubectl<'s> {
    serving: &'s Serving,
    home: TempDir,
}

impl<'s> Kubectl<'s> {
    /// Returns `None` if kubectl is not installed.
    fn find(serving: &'s Serving) -> Option<Self> {
        if Command::new("kubectl").args(["version", "--client"]).output().is_err() {
            eprintln!("skipped: kubectl is not installed");
            return None;
        }
        Some(Self { serving, home: tempfile::tempdir().expect("a temporary folder") })
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("kubectl");
        command.args(["--kubeconfig", &self.serving.kubeconfig, "--request-timeout", "30s"]).args(args);
        command.env("HOME", self.home.path()); // kubectl writes its cache there
        command
    }

    /// Returns the first four columns of the output.
    fn rows(&self, args: &[&str]) -> Vec<String> {
        let output = self.command(args).output().expect("kubectl runs");
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).lines().map(columns).collect()
    }
}

fn columns(line: &str) -> String {
    line.split_whitespace().take(4).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_printed_kubectl_command_works_and_sigterm_ends_the_program() {
    let serving = Serving::start();
    if let Some(kubectl) = Kubectl::find(&serving) {
        let expected =
            ["NAME REPLICAS READY REASON", "wedding 2 True ChildrenExist", "welcome 3 True ChildrenExist"];
        assert_eq!(kubectl.rows(&["get", "guestbooks"]), expected);
    }
    serving.stop();
}

#[test]
fn kubectl_applies_watches_and_deletes_while_the_operator_works() {
    let serving = Serving::start();
    let Some(kubectl) = Kubectl::find(&serving) else {
        return serving.stop();
    };
    let mut watch = kubectl.command(&["get", "guestbooks", "-w"]);
    let mut watch = watch.stdout(Stdio::piped()).spawn().expect("kubectl runs");
    let mut seen = BufReader::new(watch.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    let mut until = |row: &str| {
        let mut before = Vec::new();
        let found = seen.by_ref().map(|line| columns(&line)).find(|line| {
            before.push(line.clone());
            line == row
        });
        assert!(found.is_some(), "{row:?} is not among {before:#?}");
    };
    until("welcome 3 True ChildrenExist");

    let file = kubectl.home.path().join("garden.yaml");
    let path = file.to_str().expect("a path of text");
    for (replicas, said) in [(1, "created"), (4, "configured"), (4, "unchanged")] {
        let text = format!(
            "apiVersion: example.com/v1\nkind: Guestbook\nmetadata: {{name: garden}}\n\
             spec: {{greeting: Mind the roses, replicas: {replicas}}}\n"
        );
        fs::write(&file, text).expect("a file");
        assert_eq!(kubectl.rows(&["apply", "-f", path]), [format!("guestbook.example.com/garden {said}")]);
        if said != "unchanged" {
            until(&format!("garden {replicas} True ChildrenExist"));
        }
    }
    let deployment = kubectl.rows(&["get", "deployment", "garden", "-o", "jsonpath={.spec.replicas}"]);
    assert_eq!(deployment, ["4"]);
    let deleted = kubectl.rows(&["delete", "guestbook", "garden"]);
    assert_eq!(deleted, ["guestbook.example.com \"garden\" deleted"]);
    let archive = kubectl.rows(&["get", "configmap", "garden-archive", "-o", "jsonpath={.data.greeting}"]);
    assert_eq!(archive, ["Mind the roses"]);

    watch.kill().expect("it still watches");
    watch.wait().expect("it ends");
    serving.stop();
}

#[test]
fn bad_files_are_named() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().to_str().expect("a path of text");
    let text = failure(&["--once", "--guestbooks", path]);
    assert!(text.contains(path) && text.contains("needs three Guestbooks"), "{text}");

    for (yaml, expected) in [
        ("spec: [", "is not YAML"),
        ("kind: Gadget\napiVersion: v1\n", "contains Gadget (v1), not a Guestbook (example.com/v1)"),
        ("kind: Guestbook\napiVersion: example.com/v1\nspec: {greeting: hi}\n", "has no metadata.name"),
    ] {
        fs::write(folder.path().join("bad.yaml"), yaml).expect("a file");
        let text = failure(&["--once", "--guestbooks", path]);
        assert!(text.contains("bad.yaml") && text.contains(expected), "{text}");
    }
}

#[test]
fn a_refused_spec_is_reported_with_the_message_of_the_api_server() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, spec) in [("a", "greeting: hi"), ("b", "{greeting: hi, replicas: 99}"), ("c", "greeting: hi")]
    {
        let text = format!(
            "kind: Guestbook\napiVersion: example.com/v1\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n"
        );
        fs::write(folder.path().join(format!("{name}.yaml")), text.replace("{{", "{").replace("}}", "}"))
            .expect("a file");
    }
    let text = failure(&["--once", "--guestbooks", folder.path().to_str().expect("a path of text")]);
    assert!(text.contains("Guestbook b") && text.contains("spec.replicas"), "{text}");
}

#[test]
fn a_port_in_use_and_an_address_that_is_not_local_are_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("an address").to_string();
    let text = failure(&["--once", "--listen", &address]);
    assert!(text.contains(&address) && text.contains("in use"), "{text}");
    let text = failure(&["--once", "--listen", "0.0.0.0:0"]);
    assert!(text.contains("0.0.0.0") && text.contains("loopback"), "{text}");
}

#[test]
fn a_cluster_that_cannot_be_reached_is_named() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let missing = folder.path().join("none");
    let text = failure(&["--kubeconfig", missing.to_str().expect("a path of text")]);
    assert!(text.contains("none"), "{text}");

    let closed =
        std::net::TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("an address");
    let kubeconfig = folder.path().join("kubeconfig");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\n\
         clusters: [{{name: a, cluster: {{server: 'http://{closed}'}}}}]\n\
         users: [{{name: a, user: {{}}}}]\ncontexts: [{{name: a, context: {{cluster: a, user: a}}}}]\n"
    );
    fs::write(&kubeconfig, text).expect("a file");
    let kubeconfig = kubeconfig.to_str().expect("a path of text");
    let text = failure(&["--kubeconfig", kubeconfig]);
    assert!(text.contains(&closed.to_string()) && text.contains("refused"), "{text}");
    let text = failure(&["--kubeconfig", kubeconfig, "--context", "nowhere"]);
    assert!(text.contains("nowhere"), "{text}");
    let text = failure(&["--kubeconfig", kubeconfig, "--once"]);
    assert!(text.contains("--demo"), "{text}");
}

/// Runs the demonstration on an existing cluster.
async fn demonstrates_on(cluster: &Environment) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let kubeconfig = folder.path().join("kubeconfig");
    fs::write(&kubeconfig, cluster.kubeconfig().expect("it listens")).expect("a file");
    let demonstration =
        move || run(&["--kubeconfig", kubeconfig.to_str().expect("a path of text"), "--demo", "--once"]);
    let output = tokio::task::spawn_blocking(demonstration).await.expect("it does not panic");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("every Guestbook reached its state"), "{output:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demonstration_can_run_repeatedly_on_a_cluster() {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let cluster = Environment::builder().transport(Transport::Tcp(address)).start().await;
    let cluster = cluster.expect("a server starts");
    demonstrates_on(&cluster).await;
    demonstrates_on(&cluster).await;
}

/// Skipped, with a message, if the binaries are not configured.
#[tokio::test(flavor = "multi_thread")]
async fn the_demonstration_runs_on_a_real_control_plane() {
    if !Assets::are_configured() {
        eprintln!("skipped: KUBEBUILDER_ASSETS is not set");
        return;
    }
    let binaries = Cluster::Binaries(Assets::from_env().expect("they are there"));
    let cluster = Environment::builder().cluster(binaries).crd::<Guestbook>().start().await;
    let cluster = cluster.expect("a control plane starts");
    tokio::select! {
        () = demonstrates_on(&cluster) => {}
        ended = collect_garbage(cluster.client()) => panic!("garbage collection ended: {ended:?}"),
    }
    cluster.stop().await.expect("it ends");
}

/// Deletes the children of deleted Guestbooks, because a control plane without kube-controller-manager has no garbage collector.
async fn collect_garbage(client: kube::Client) -> Result<(), kube::Error> {
    let guestbooks: Api<Guestbook> = Api::default_namespaced(client.clone());
    let mut changes = pin!(guestbooks.watch(&WatchParams::default(), "0").await?);
    while let Some(change) = changes.try_next().await? {
        if let WatchEvent::Deleted(guestbook) = change {
            let (name, params) = (guestbook.name_any(), DeleteParams::default());
            Api::<Deployment>::default_namespaced(client.clone()).delete(&name, &params).await?;
            Api::<ConfigMap>::default_namespaced(client.clone()).delete(&name, &params).await?;
        }
    }
    Ok(())
}
