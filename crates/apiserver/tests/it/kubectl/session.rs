//! A server on a port of its own, and a kubectl with a home of its own, so that nothing of the user's is read or left
//! behind.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use kube_apiserver_embedded::{ApiServer, Listener, Options, Profile};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

/// Timeout of a command.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Path of the server program.
const PROGRAM: &str = env!("CARGO_BIN_EXE_kube-apiserver-embedded");

pub(crate) struct Session {
    kubectl: PathBuf,
    home: TempDir,
    _server: Server,
}

/// Stops when dropped, and ends every watch.
#[expect(dead_code, reason = "held for its effect on drop")]
enum Server {
    InProcess(Listener, ApiServer),
    Program(Child),
}

impl Session {
    /// Starts a session for each installed kubectl; prints a notice if there is none.
    pub(crate) async fn all() -> Vec<Self> {
        let found = kubectls();
        if found.is_empty() {
            // Not captured as test output, so that the notice is visible.
            let _ = writeln!(
                std::io::stderr(),
                "skipped: kubectl is neither on PATH nor in KUBECTL_VERSIONS_DIR"
            );
        }
        let mut sessions = Vec::new();
        for kubectl in found {
            sessions.push(Self::start(kubectl).await);
        }
        sessions
    }

    /// Like [`all`](Self::all), with the definition of widgets installed.
    pub(crate) async fn all_with_widgets() -> Vec<Self> {
        let sessions = Self::all().await;
        for session in &sessions {
            session.pipe("apply -f -", include_str!("widgets.yaml")).await;
            session.run("wait --for=condition=Established crd/widgets.example.com --timeout=10s").await;
        }
        sessions
    }

    /// Like [`all`](Self::all), with the program as server, TLS and users.
    pub(crate) async fn all_over_tls() -> Vec<Self> {
        let mut sessions = Vec::new();
        for session in Self::all().await {
            sessions.push(session.over_tls().await);
        }
        sessions
    }

    async fn start(kubectl: PathBuf) -> Self {
        let server = ApiServer::start(Options::default().profile(Profile::Dev));
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = server.listen(address).await.expect("a free port is to be had");
        let home = tempfile::tempdir().expect("a folder for temporary files is to be had");
        std::fs::write(home.path().join("config"), listener.kubeconfig()).expect("it can be written to");
        Self { kubectl, home, _server: Server::InProcess(listener, server) }
    }

    async fn over_tls(self) -> Self {
        let users = self.file("users", "secret,jane,u-1,\"system:masters\"\n");
        let mut program = Command::new(PROGRAM)
            .args(["--tls", "--profile", "dev", "--token-auth-file", &users, "--kubeconfig-out"])
            .arg(self.home.path().join("config"))
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the program can be started");
        let mut lines = BufReader::new(program.stdout.take().expect("standard output is piped")).lines();
        let first = timeout(TIMEOUT, lines.next_line()).await.expect("it is ready soon");
        let first = first.expect("its output can be read").unwrap_or_default();
        assert!(first.starts_with("ready https://127.0.0.1:"), "{first}");
        Self { _server: Server::Program(program), ..self }
    }

    /// Writes a file and returns its path for commands.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.home.path().join(name);
        std::fs::write(&path, text).expect("the temporary folder can be written to");
        path.to_str().expect("temporary paths are UTF-8").to_owned()
    }

    /// Runs a command that must succeed; returns standard output. Arguments are split at spaces, except within
    /// quotes.
    pub(crate) async fn run(&self, arguments: &str) -> String {
        self.pipe(arguments, "").await
    }

    /// Like [`run`](Self::run), with standard input.
    pub(crate) async fn pipe(&self, arguments: &str, input: &str) -> String {
        let output = self.output(arguments, input).await;
        let (out, error) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{} {arguments}: {}\n{out}{error}", self.name(), output.status);
        out
    }

    /// Runs a command that must fail; returns standard error.
    pub(crate) async fn fail(&self, arguments: &str, input: &str) -> String {
        let output = self.output(arguments, input).await;
        assert!(!output.status.success(), "{} {arguments}: succeeded\n{}", self.name(), text(&output.stdout));
        text(&output.stderr)
    }

    /// Runs a command that may succeed or fail; returns its output.
    pub(crate) async fn output(&self, arguments: &str, input: &str) -> Output {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("kubectl can be started");
        let mut stdin = child.stdin.take().expect("standard input is piped");
        // A command that reads no input may have ended already.
        let _ = stdin.write_all(input.as_bytes()).await;
        drop(stdin);
        match timeout(TIMEOUT, child.wait_with_output()).await {
            Ok(output) => output.expect("its output can be read"),
            Err(_elapsed) => panic!("{} {arguments}: still running after {TIMEOUT:?}", self.name()),
        }
    }

    /// Starts a command that runs until it is stopped, such as `get --watch`.
    pub(crate) fn follow(&self, arguments: &str) -> Following {
        let mut child = self.command(arguments).stdin(Stdio::null()).spawn().expect("kubectl can be started");
        let lines = BufReader::new(child.stdout.take().expect("standard output is piped")).lines();
        Following { child, lines }
    }

    fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(&self.kubectl);
        command
            .args(split(arguments))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.home.path())
            .env("KUBECONFIG", self.home.path().join("config"))
            .env("KUBECACHEDIR", self.home.path().join("cache"))
            .env("KUBE_EDITOR", "sed -i s/green/violet/")
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    fn name(&self) -> String {
        self.kubectl.display().to_string()
    }
}

/// A running command and its output.
pub(crate) struct Following {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Following {
    /// Reads lines until one contains `wanted`.
    pub(crate) async fn until(&mut self, wanted: &str) {
        let mut seen = String::new();
        let search = async {
            while let Some(line) = self.lines.next_line().await.expect("its output can be read") {
                if line.contains(wanted) {
                    return;
                }
                seen.push_str(&line);
                seen.push('\n');
            }
            panic!("the output ended without `{wanted}`:\n{seen}");
        };
        let found = timeout(TIMEOUT, search).await;
        assert!(found.is_ok(), "no `{wanted}` within {TIMEOUT:?}:\n{seen}");
    }

    /// Ends the command and waits for its end.
    pub(crate) async fn stop(mut self) {
        self.child.kill().await.expect("it can be ended");
    }
}

/// Returns every `kubectl` on PATH, including names with a version, and those in `KUBECTL_VERSIONS_DIR`.
fn kubectls() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let versions = std::env::var_os("KUBECTL_VERSIONS_DIR").map(PathBuf::from);
    let mut found = Vec::new();
    for folder in std::env::split_paths(&path).chain(versions) {
        let Ok(entries) = std::fs::read_dir(folder) else {
            continue; // PATH may contain folders that do not exist
        };
        found.extend(entries.flatten().map(|entry| entry.path()).filter(|path| is_kubectl(path)));
    }
    found.sort();
    // A file that is reachable through two folders counts once.
    found.dedup_by_key(|path| path.canonicalize().unwrap_or_else(|_| path.clone()));
    found
}

/// Whether the name is like `kubectl`, `kubectl.1.33` or `kubectl-v1.33`, but not a plugin such as `kubectl-neat`.
fn is_kubectl(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let Some(version) = name.strip_prefix("kubectl") else {
        return false;
    };
    let version = version.trim_start_matches(['.', '-', '_', 'v']);
    path.is_file() && version.starts_with(|c: char| c.is_ascii_digit()) || name == "kubectl"
}

/// Splits at spaces, except between single quotes.
fn split(arguments: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for character in arguments.chars() {
        match character {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            other => words.last_mut().expect("there is always a last word").push(other),
        }
    }
    words
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
