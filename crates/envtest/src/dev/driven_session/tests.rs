//! Tests of driven sessions, with pipes in place of a process.

use std::{collections::VecDeque, fs, io::PipeWriter, path::Path, time::Duration};

use tokio::{task::JoinSet, time::timeout};

use super::*;

/// Longest request in these tests.
const MAX: u64 = 4096;

/// Time within which a session has to answer on a slow machine.
const WITHIN: Duration = Duration::from_secs(60);

/// A driven session in a task.
struct Driven {
    requests: PipeWriter,
    messages: mpsc::UnboundedReceiver<Value>,
    /// Lines about objects that came before an answer.
    lines: VecDeque<String>,
    served: JoinSet<io::Result<()>>,
}

/// Messages of a session, by line.
struct Messages {
    sender: mpsc::UnboundedSender<Value>,
    line: Vec<u8>,
}

impl Write for Messages {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.line.extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let line = std::mem::take(&mut self.line);
        let message = serde_json::from_slice(&line).expect("a line of JSON");
        self.sender.send(message).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Driven {
    fn start(schema: &'static str) -> Self {
        let (input, requests) = io::pipe().expect("a pipe");
        let (sender, messages) = mpsc::unbounded_channel();
        let output = Messages { sender, line: Vec::new() };
        let mut served = JoinSet::new();
        served.spawn(serve(schema, BufReader::new(input), MAX, output));
        Self { requests, messages, lines: VecDeque::new(), served }
    }

    async fn any_message(&mut self) -> Value {
        let message = timeout(WITHIN, self.messages.recv()).await.expect("in time");
        message.expect("the session runs")
    }

    /// The next message that is not about an object.
    async fn message(&mut self) -> Value {
        loop {
            let message = self.any_message().await;
            match message["line"].as_str() {
                Some(line) => self.lines.push_back(line.to_owned()),
                None => return message,
            }
        }
    }

    /// The next line about an object.
    async fn line(&mut self) -> String {
        match self.lines.pop_front() {
            Some(line) => line,
            None => self.any_message().await["line"].as_str().expect("a line").to_owned(),
        }
    }

    async fn answer(&mut self, line: &str) -> Value {
        self.send(line);
        self.message().await
    }

    /// Writes a line in one piece: the session closes its input after a line that is too long.
    fn send(&mut self, line: &str) {
        self.requests.write_all(format!("{line}\n").as_bytes()).expect("the session reads");
    }

    async fn error(&mut self, line: &str) -> String {
        let answer = self.answer(line).await;
        let text = |field: &str| answer["error"][field].as_str().expect("an error").to_owned();
        format!("{}: {}", text("kind"), text("message"))
    }

    /// Starts the API server, with its files in this folder.
    async fn begin(&mut self, folder: &Path) -> Value {
        self.message().await;
        self.answer(r#"{"request":"flags","more":["--leader-elect"]}"#).await;
        self.answer(&start_request(folder, "restore")).await
    }

    /// Closes the input, and waits until the session has ended.
    async fn end(self) -> io::Result<()> {
        let Self { requests, mut served, messages: _messages, .. } = self;
        drop(requests);
        ended(&mut served, WITHIN).await
    }
}

/// Waits until a session has ended.
async fn ended(served: &mut JoinSet<io::Result<()>>, within: Duration) -> io::Result<()> {
    let result = timeout(within, served.join_next()).await.expect("it ends in time");
    result.expect("a task").expect("it does not panic")
}

fn start_request(folder: &Path, previous: &str) -> String {
    json!({
        "request": "start", "folder": folder, "port": 0, "previous": previous,
        "services": [], "definitions": [definition()],
    })
    .to_string()
}

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "albums.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "plural": "albums", "singular": "album", "kind": "Album" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": {
                    "type": "object", "properties": { "spec": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
                } },
            }],
        },
    })
}

fn install_request() -> String {
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "album", "namespace": "default" },
    });
    json!({ "request": "install", "definitions": [definition()], "rights": [account] }).to_string()
}

#[tokio::test]
async fn a_session_of_another_schema_is_refused() {
    let mut driven = Driven::start("operator-session/v9");
    let hello = json!({ "hello": { "schema": SCHEMA, "library": env!("CARGO_PKG_VERSION") } });
    assert_eq!(driven.message().await, hello);
    let refused = driven.message().await;
    assert_eq!(refused["error"]["kind"], "schema");
    let message = refused["error"]["message"].as_str().expect("a message");
    assert!(
        message.ends_with("uses session schema operator-session/v2, but operator-session/v9 was requested")
    );
    assert!(ended(&mut driven.served, WITHIN).await.is_err(), "the process fails");
}

/// Wrong lines change nothing: the session answers the next one.
#[tokio::test]
async fn wrong_and_early_requests_are_refused_and_the_session_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut driven = Driven::start(SCHEMA);
    driven.message().await;
    for (line, reason) in [
        ("", "request: a line is not a request of schema operator-session/v2: EOF"),
        ("{\"request\":", "request: a line is not a request of schema operator-session/v2: EOF"),
        ("\u{0}\u{1}", "request: a line is not a request of schema operator-session/v2: expected value"),
        (
            r#"{"request":"stop"}"#,
            "request: a line is not a request of schema operator-session/v2: unknown variant",
        ),
        (r#"{"request":"publish"}"#, "request: the flags of the operator were not requested"),
        (r#"{"request":"apply","path":"/"}"#, "request: the session is not started"),
        (&install_request(), "request: the session is not started"),
        (&start_request(folder.path(), "restore"), "request: the flags of the operator were not requested"),
    ] {
        let error = driven.error(line).await;
        assert!(error.starts_with(reason), "{line}: {error}");
    }
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0, "files were written");
    let words = driven.answer(r#"{"request":"flags","more":["--leader-elect"]}"#).await;
    let words = words["answer"]["words"].as_array().expect("flags");
    assert_eq!(words.last(), Some(&json!("--leader-elect")));
    assert!(driven.end().await.is_ok());
}

#[tokio::test]
async fn a_line_that_is_too_long_ends_the_session() {
    let mut driven = Driven::start(SCHEMA);
    driven.message().await;
    let longest = " ".repeat(MAX as usize);
    let error = driven.error(&longest).await;
    assert!(error.starts_with("request: a line is not a request of schema"), "{error}");
    let error = driven.error(&format!("{longest} ")).await;
    assert_eq!(error, "request: a line has more than 4096 bytes");
    assert!(ended(&mut driven.served, WITHIN).await.is_err(), "the process fails");
}

#[tokio::test]
async fn a_line_that_is_too_long_is_reported_after_a_request_that_takes_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut driven = Driven::start(SCHEMA);
    driven.message().await;
    driven.answer(r#"{"request":"flags","more":[]}"#).await;
    driven.send(&start_request(folder.path(), "restore"));
    let started = driven.answer(&" ".repeat(MAX as usize + 1)).await;
    assert_eq!(started["answer"]["objects"], json!([]), "{started}");
    assert_eq!(driven.message().await["error"]["message"], "a line has more than 4096 bytes");
    assert!(ended(&mut driven.served, WITHIN).await.is_err(), "the process fails");
}

/// The whole of a session, and the next one with its objects.
#[tokio::test]
async fn objects_and_rights_are_installed_and_kept_for_the_next_session() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = folder.path().join("operator");
    let mut driven = Driven::start(SCHEMA);
    let started = driven.begin(&files).await;
    assert_eq!(started["answer"]["objects"], json!([]), "{started}");
    assert!(files.join("kubeconfig").is_file());
    let again = driven.error(&start_request(&files, "restore")).await;
    assert_eq!(again, "request: the session is started already");

    let installed = driven.answer(&install_request()).await;
    assert_eq!(installed, json!({ "answer": { "user": "system:serviceaccount:default:album" } }));
    assert_eq!(started["answer"]["operatorKubeconfig"], json!(files.join("operator.kubeconfig")));
    assert!(files.join("operator.kubeconfig").is_file());
    let sample = folder.path().join("sample.yaml");
    let apply = json!({ "request": "apply", "path": sample }).to_string();
    for text in ["hello", "good morning"] {
        let object = json!({
            "apiVersion": "example.com/v1", "kind": "Album", "metadata": { "name": "a" }, "spec": { "text": text },
        });
        fs::write(&sample, object.to_string()).expect("a file");
        assert_eq!(driven.answer(&apply).await, json!({ "answer": { "applied": 1 } }));
    }
    let line = driven.line().await;
    assert!(line.starts_with("       album default/a  created → changed, after "), "{line}");
    fs::write(&sample, "apiVersion: example.com/v1\nkind: Photo\nmetadata: {name: a}\n").expect("a file");
    let error = driven.error(&apply).await;
    assert!(error.starts_with("failed: ") && error.contains("does not serve kind Photo"), "{error}");

    let page = driven.answer(r#"{"request":"publish"}"#).await;
    let page = page["answer"]["page"].as_str().expect("a page");
    assert!(page.starts_with("http://127.0.0.1:") && page.contains("/explain/#token="), "{page}");
    assert!(files.join("session.json").is_file());

    // Another session cannot use the folder meanwhile, and does not disturb this one.
    let mut other = Driven::start(SCHEMA);
    let refused = other.begin(&files).await;
    assert_eq!(refused["error"]["kind"], "inUse", "{refused}");
    assert!(other.end().await.is_ok());
    assert!(driven.end().await.is_ok());
    assert!(!files.join("session.json").exists(), "the session has ended");

    let one = json!([{ "singular": "album", "plural": "albums", "count": 1 }]);
    for (previous, objects) in [("restore", one), ("delete", json!([]))] {
        let mut next = Driven::start(SCHEMA);
        next.message().await;
        next.answer(r#"{"request":"flags","more":[]}"#).await;
        let started = next.answer(&start_request(&files, previous)).await;
        assert_eq!(started["answer"]["objects"], objects, "{previous}");
        assert!(next.end().await.is_ok());
    }
}

/// A definition that the server has already is installed again without a commit.
#[tokio::test]
async fn changes_of_restored_objects_have_lines() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = folder.path().join("operator");
    let sample = folder.path().join("sample.yaml");
    for (text, step) in [("hello", "created"), ("good morning", "changed"), ("good night", "changed")] {
        let object = json!({
            "apiVersion": "example.com/v1", "kind": "Album", "metadata": { "name": "a" }, "spec": { "text": text },
        });
        fs::write(&sample, object.to_string()).expect("a file");
        let mut driven = Driven::start(SCHEMA);
        driven.begin(&files).await;
        driven.answer(&install_request()).await;
        let apply = json!({ "request": "apply", "path": sample }).to_string();
        assert_eq!(driven.answer(&apply).await, json!({ "answer": { "applied": 1 } }));
        assert_eq!(driven.line().await, format!("       album default/a  {step}"));
        assert!(driven.end().await.is_ok());
    }
}

/// The failure comes from the operator's log, the change from the API server: both are in one line.
#[tokio::test]
async fn a_failed_reconcile_is_in_the_line_of_its_object() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut driven = Driven::start(SCHEMA);
    driven.begin(folder.path()).await;
    driven.answer(&install_request()).await;
    let sample = folder.path().join("sample.yaml");
    let object = json!({ "apiVersion": "example.com/v1", "kind": "Album", "metadata": { "name": "a" } });
    fs::write(&sample, object.to_string()).expect("a file");
    let apply = json!({ "request": "apply", "path": sample }).to_string();
    let failed = json!({
        "request": "failed", "kind": "Album", "namespace": "default", "name": "a", "error": "no luck",
    });
    assert_eq!(driven.answer(&apply).await, json!({ "answer": { "applied": 1 } }));
    for _ in 0..3 {
        assert_eq!(driven.answer(&failed.to_string()).await, json!({ "answer": {} }));
    }
    let line = driven.line().await;
    assert!(line.starts_with("       album default/a  created → failed: no luck, after "), "{line}");
    assert_eq!(driven.line().await, "       album default/a  failed 2 more times with the same error");
    // Another program.
    driven.answer(r#"{"request":"starting","services":[]}"#).await;
    driven.answer(&failed.to_string()).await;
    assert_eq!(driven.line().await, "       album default/a  failed: no luck");
    assert!(driven.end().await.is_ok());
}

/// An operator gets its first webhook, and later has none, while the session runs.
#[tokio::test]
async fn services_are_those_of_the_program_that_starts() {
    let folder = tempfile::tempdir().expect("a folder");
    let operator = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = operator.local_addr().expect("an address").port();
    let mut driven = Driven::start(SCHEMA);
    driven.message().await;
    let flags = json!({ "request": "flags", "more": [format!("--webhook-bind-address=:{port}")] });
    driven.answer(&flags.to_string()).await;
    driven.answer(&start_request(folder.path(), "restore")).await;
    let webhooks = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": { "name": "album" },
        "webhooks": [{
            "name": "album.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"], "timeoutSeconds": 1,
            "clientConfig": { "service": { "namespace": "default", "name": "album-webhooks" } },
            "rules": [{ "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["*"] }],
        }],
    });
    let sample = folder.path().join("sample.json");
    let apply = json!({ "request": "apply", "path": sample }).to_string();
    fs::write(&sample, webhooks.to_string()).expect("a file");
    assert_eq!(driven.answer(&apply).await, json!({ "answer": { "applied": 1 } }));
    let config = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" } });
    fs::write(&sample, config.to_string()).expect("a file");
    let error = driven.error(&apply).await;
    assert!(error.ends_with("service \"album-webhooks\" not found"), "{error}");

    let starting = json!({ "request": "starting", "services": [["default", "album-webhooks"]] });
    assert_eq!(driven.answer(&starting.to_string()).await, json!({ "answer": {} }));
    driven.send(&apply);
    let called = timeout(WITHIN, operator.accept()).await.expect("in time").expect("a connection");
    // No operator answers.
    drop((called, operator));
    let error = driven.message().await["error"]["message"].to_string();
    assert!(error.contains("failed calling webhook") && !error.contains("not found"), "{error}");

    let starting = json!({ "request": "starting", "services": [] });
    assert_eq!(driven.answer(&starting.to_string()).await, json!({ "answer": {} }));
    assert_eq!(driven.answer(&apply).await, json!({ "answer": { "applied": 1 } }), "nothing is called");
    assert!(driven.end().await.is_ok());
}

#[tokio::test]
async fn a_port_in_use_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port();
    let mut driven = Driven::start(SCHEMA);
    driven.message().await;
    driven.answer(r#"{"request":"flags","more":[]}"#).await;
    let request = start_request(folder.path(), "restore").replace("\"port\":0", &format!("\"port\":{port}"));
    let error = driven.error(&request).await;
    assert!(error.starts_with("listen: ") && error.contains(&port.to_string()), "{error}");
    assert!(driven.end().await.is_ok());
}

/// The end of the input ends a session that carries out a request: here one that waits for a webhook.
#[tokio::test]
async fn the_end_of_the_input_ends_a_request() {
    let folder = tempfile::tempdir().expect("a folder");
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let webhooks = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": { "name": "silent" },
        "webhooks": [{
            "name": "silent.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"], "timeoutSeconds": 30,
            "clientConfig": { "url": format!("https://{}/", silent.local_addr().expect("an address")) },
            "rules": [{ "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["*"] }],
        }],
    });
    let sample = folder.path().join("sample.json");
    let apply = json!({ "request": "apply", "path": sample }).to_string();
    let mut driven = Driven::start(SCHEMA);
    driven.begin(folder.path()).await;
    fs::write(&sample, webhooks.to_string()).expect("a file");
    assert_eq!(driven.answer(&apply).await, json!({ "answer": { "applied": 1 } }));
    let config = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" } });
    fs::write(&sample, config.to_string()).expect("a file");
    writeln!(driven.requests, "{apply}").expect("the session reads");
    let _called = timeout(WITHIN, silent.accept()).await.expect("in time").expect("a connection");
    drop(driven.requests);
    let ended = ended(&mut driven.served, Duration::from_secs(20)).await;
    assert!(ended.is_ok(), "it did not wait for the webhook");
    while let Some(message) = driven.messages.recv().await {
        assert!(message.get("line").is_some(), "the request was answered: {message}");
    }
}
