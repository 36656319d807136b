//! The API server of a session. It runs in the project's program `dev`, where `kube_envtest::dev::run` carries out requests.
//!
//! Requests and messages are lines of JSON. Their forms are in `kube-envtest`, `dev/session_protocol.rs`.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
};

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncWriteExt, BufReader},
    process::{Child, ChildStdin, Command},
    sync::mpsc::{self, Receiver},
    task::JoinSet,
    time::{Duration, timeout},
};

use super::{
    operator_log::FailedReconcile,
    rendered::Rendered,
    session_folder::{copy_into, in_use},
    session_messages::{Applied, Done, Flags, Message, Published, Started, WAITING_LINES, read_messages},
};
use crate::{ask, failure::Failure};

/// Schema of the messages that this program reads and writes.
const SCHEMA: &str = "operator-session/v2";

/// Variable of the environment that asks the program for a session.
const VARIABLE: &str = "OPERATOR_SESSION";

/// Time within which the program must send its greeting. A program with sessions takes milliseconds; a program without them never
/// sends it.
const HELLO: Duration = Duration::from_secs(10);

/// Time within which the program must end after its input was closed.
const END: Duration = Duration::from_secs(5);

/// Hint for a port that is in use.
pub(super) const PORT_IN_USE: &str =
    "another program uses the port: choose another one with --port, or leave out --port for a free one";

/// A running session. Its process ends when this is dropped, because that closes its input.
#[derive(Debug)]
pub(super) struct Session {
    child: Child,
    input: ChildStdin,
    /// Answers and errors. One request is sent at a time.
    replies: Receiver<Message>,
    /// Lines to print.
    lines: Receiver<String>,
    /// Reads the output of the process until that ends.
    reader: JoinSet<()>,
    /// Flags with which the operator runs.
    flags: Vec<String>,
    /// Kubeconfig with which the operator connects. Empty before [`Session::start`].
    operator_kubeconfig: PathBuf,
    /// Whether the session before has left objects of the operator's kinds.
    has_earlier_objects: bool,
}

impl Session {
    /// Starts a copy of `program` in `folder`, which builds cannot overwrite, and checks that its messages have the schema of this
    /// program. `more` are flags of the user for the operator.
    pub(super) async fn begin(program: &Path, folder: &Path, more: &[String]) -> Result<Self, Failure> {
        // A copy runs, so that the next build can replace the program while the session uses it.
        let copy = copy_into(folder, program)
            .map_err(|error| Failure::new(format!("cannot copy {}: {error}", program.display())))?;
        // A program without sessions would run the operator. Offline it finds no cluster, so it changes nothing.
        let mut command = Command::from(ask::offline(&copy));
        command.env(VARIABLE, SCHEMA).stdin(Stdio::piped()).stdout(Stdio::piped());
        // Ctrl-C must reach only this process, which lets the operator finish before it ends the session.
        #[cfg(unix)]
        command.process_group(0);
        let mut child = command
            .spawn()
            .map_err(|error| Failure::new(format!("cannot run {}: {error}", copy.display())))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Failure::new(format!(
                "{} was started without standard input and output",
                copy.display()
            )));
        };
        // One place is enough, because each request waits for its reply.
        let (reply, replies) = mpsc::channel(1);
        let (line, lines) = mpsc::channel(WAITING_LINES);
        let mut reader = JoinSet::new();
        reader.spawn(read_messages(BufReader::new(output), reply, line));
        let mut session = Self {
            child,
            input,
            replies,
            lines,
            reader,
            flags: Vec::new(),
            operator_kubeconfig: PathBuf::new(),
            has_earlier_objects: false,
        };
        if let Err(failure) = session.greet(HELLO).await {
            session.kill().await;
            return Err(failure);
        }
        let Flags { words } = session.request(&json!({ "request": "flags", "more": more })).await?;
        session.flags = words;
        Ok(session)
    }

    /// Waits for the first message, and checks its schema.
    async fn greet(&mut self, within: Duration) -> Result<(), Failure> {
        let other = |reason: &str| {
            Failure::new(format!("the program dev of this project did not start a session: {reason}")).hint(
                "its main has to return kube_envtest::dev::run(…).await, as in a new project; \
                 if its kube-envtest is older than this program, run cargo operator upgrade",
            )
        };
        match timeout(within, self.replies.recv()).await {
            Ok(Some(Message::Hello { schema, library })) => check_schema(&schema, &library),
            Ok(Some(_)) => Err(other("its first message is not a greeting")),
            Ok(None) => {
                let status = self.child.wait().await;
                let status = status.map_or_else(|error| error.to_string(), |status| status.to_string());
                Err(other(&format!("it ended ({status})")))
            }
            Err(_) => Err(other(&match self.lines.try_recv() {
                Ok(line) => format!("it printed {:?}", line.trim()),
                Err(_) => format!("it printed nothing within {} s", within.as_secs()),
            })),
        }
    }

    /// Starts the API server, with its files in `folder`.
    pub(super) async fn start(
        &mut self,
        folder: &Path,
        port: u16,
        previous: &str,
        rendered: &Rendered,
    ) -> Result<Started, Failure> {
        let started: Started = self
            .request(&json!({
                "request": "start", "folder": text(folder)?, "port": port, "previous": previous,
                "services": rendered.services, "definitions": rendered.definitions,
            }))
            .await?;
        self.operator_kubeconfig.clone_from(&started.operator_kubeconfig);
        self.has_earlier_objects = !started.objects.is_empty();
        Ok(started)
    }

    /// Installs definitions, and gives the operator exactly the rendered rights.
    pub(super) async fn install(&mut self, rendered: &Rendered) -> Result<(), Failure> {
        let Rendered { definitions, rights, .. } = rendered;
        let request = json!({ "request": "install", "definitions": definitions, "rights": rights });
        let Done {} = self.request(&request).await?;
        Ok(())
    }

    /// Announces the start of another program of the operator, after the end of the previous one. From then on the API server calls
    /// the webhooks of the new program's Services only.
    pub(super) async fn starting(&mut self, rendered: &Rendered) -> Result<(), Failure> {
        let request = json!({ "request": "starting", "services": rendered.services });
        let Done {} = self.request(&request).await?;
        Ok(())
    }

    /// Adds a failed reconcile to the line of its object.
    pub(super) async fn failed(&mut self, failed: &FailedReconcile) -> Result<(), Failure> {
        let FailedReconcile { kind, namespace, name, error } = failed;
        let request = json!({
            "request": "failed", "kind": kind, "namespace": namespace, "name": name, "error": error,
        });
        let Done {} = self.request(&request).await?;
        Ok(())
    }

    /// Applies the objects in a file or folder, and returns their number.
    pub(super) async fn apply(&mut self, path: &Path) -> Result<usize, Failure> {
        let Applied { applied } = self.request(&json!({ "request": "apply", "path": text(path)? })).await?;
        Ok(applied)
    }

    /// Writes the file by which `explain` finds the operator, and returns the address of its page of explanations.
    pub(super) async fn publish(&mut self) -> Result<Option<String>, Failure> {
        let Published { page } = self.request(&json!({ "request": "publish" })).await?;
        Ok(page)
    }

    /// Whether the session before has left objects of the operator's kinds.
    pub(super) fn has_earlier_objects(&self) -> bool {
        self.has_earlier_objects
    }

    /// Flags with which the operator runs.
    pub(super) fn flags(&self) -> &[String] {
        &self.flags
    }

    /// Kubeconfig with which the operator connects.
    pub(super) fn operator_kubeconfig(&self) -> &Path {
        &self.operator_kubeconfig
    }

    /// Waits for the next line to print; an error if the process has ended.
    ///
    /// # Cancellation
    ///
    /// Dropping the future loses no line.
    pub(super) async fn next_line(&mut self) -> Result<String, Failure> {
        match self.lines.recv().await {
            Some(line) => Ok(line),
            None => Err(self.ended().await),
        }
    }

    /// Closes the input of the process, and waits until it has ended. Kills it if it still runs after five seconds.
    pub(super) async fn end(self) {
        // The reader is kept until then, because the process may print before it ends.
        let Self { mut child, input, reader: _reader, .. } = self;
        // The end of its input is the signal for the session to end.
        drop(input);
        if timeout(END, child.wait()).await.is_err() {
            // Fails only if the process has ended.
            let _ = child.kill().await;
        }
    }

    async fn kill(mut self) {
        // Fails only if the process has ended.
        let _ = self.child.kill().await;
    }

    /// Sends a request and waits for its answer.
    async fn request<T: for<'de> Deserialize<'de>>(&mut self, request: &Value) -> Result<T, Failure> {
        let line = format!("{request}\n");
        let unknown = |reason: &str| {
            Failure::new(format!("the API server of the session answered in an unknown form: {reason}"))
        };
        // A failed write means that the process has ended. Then there is no reply, and `ended` reports it.
        let _ = self.input.write_all(line.as_bytes()).await;
        match self.replies.recv().await {
            Some(Message::Answer(answer)) => {
                T::deserialize(answer).map_err(|error| unknown(&error.to_string()))
            }
            Some(Message::Error { kind, message }) => Err(refused(&kind, message)),
            Some(message) => Err(unknown(&format!("{message:?}"))),
            None => Err(self.ended().await),
        }
    }

    /// The failure to report if the process has ended on its own.
    async fn ended(&mut self) -> Failure {
        // The output may be closed although the process runs on.
        let status = match timeout(END, self.child.wait()).await {
            Ok(Ok(status)) => status.to_string(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "it closed its output".to_owned(),
        };
        Failure::new(format!("the API server of the session ended ({status})"))
            .hint("start cargo operator dev again: the objects are kept")
    }
}

/// A path in JSON.
fn text(path: &Path) -> Result<&str, Failure> {
    path.to_str().ok_or_else(|| Failure::new(format!("the path {} is not in UTF-8", path.display())))
}

fn check_schema(schema: &str, library: &str) -> Result<(), Failure> {
    if schema == SCHEMA {
        return Ok(());
    }
    let version = env!("CARGO_PKG_VERSION");
    Err(Failure::new(format!(
        "the program dev uses session schema {schema} of kube-envtest {library}, but cargo-operator {version} reads schema \
         {SCHEMA}"
    ))
    .hint("cargo operator upgrade sets the libraries to the versions of this program; or install the cargo-operator of that version"))
}

/// Converts an error of the session to a failure with a hint that says how to continue.
fn refused(kind: &str, message: String) -> Failure {
    let failure = Failure::new(message);
    match kind {
        "listen" => failure.hint(PORT_IN_USE),
        "inUse" => in_use(),
        "dataFile" => {
            failure.hint("start with an empty server: --reset deletes the objects of the previous session")
        }
        _ => failure,
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// A session of a shell script in place of a program.
    async fn begin(script: &str) -> Result<Session, Failure> {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("program");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).expect("a file");
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .expect("a program");
        Session::begin(&program, &folder.path().join("operator"), &[]).await
    }

    const HELLO_LINE: &str = r#"echo '{"hello":{"schema":"operator-session/v2","library":"0.1.0"}}'"#;
    const FLAGS: &str = r#"read line; echo '{"answer":{"words":["--a"]}}'"#;

    #[tokio::test]
    async fn programs_without_a_session_are_named() {
        for (script, reason) in [
            ("exit 3", "the program dev of this project did not start a session: it ended (exit status: 3)"),
            (
                r#"echo '{"answer":{}}'; read line"#,
                "the program dev of this project did not start a session: its first message is not a greeting",
            ),
            (
                r#"echo '{"hello":{"schema":"operator-session/v9","library":"9.0.0"}}'; read line"#,
                "the program dev uses session schema operator-session/v9 of kube-envtest 9.0.0, but cargo-operator ",
            ),
        ] {
            let failure = begin(script).await.expect_err(script);
            assert!(failure.message.starts_with(reason), "{script}: {}", failure.message);
            let hint = failure.hint.expect("the next step");
            assert!(hint.contains("cargo operator upgrade"), "{hint}");
        }
    }

    /// The error quotes the first line that a program without sessions prints.
    #[tokio::test]
    async fn a_program_that_says_nothing_is_named_after_a_while() {
        for (script, reason) in [
            ("echo '  API server https://…'; read line", "it printed \"API server https://…\""),
            ("read line", "it printed nothing within 0 s"),
        ] {
            let mut child = Command::new("/bin/sh")
                .args(["-c", script])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .expect("a shell");
            let (reply, replies) = mpsc::channel(1);
            let (line, mut lines) = mpsc::channel(WAITING_LINES);
            let output = BufReader::new(child.stdout.take().expect("a pipe"));
            let mut reader = JoinSet::new();
            reader.spawn(read_messages(output, reply, line));
            let printed = match reason.contains("nothing") {
                true => None,
                false => lines.recv().await,
            };
            // The line is there before the wait, so that it needs no time.
            let (again, lines) = mpsc::channel(1);
            if let Some(printed) = printed {
                again.send(printed).await.expect("room");
            }
            let input = child.stdin.take().expect("a pipe");
            let mut session = Session {
                child,
                input,
                replies,
                lines,
                reader,
                flags: Vec::new(),
                operator_kubeconfig: PathBuf::new(),
                has_earlier_objects: false,
            };
            let failure = session.greet(Duration::ZERO).await.expect_err("no greeting");
            assert!(failure.message.ends_with(reason), "{}", failure.message);
            session.end().await;
        }
    }

    #[tokio::test]
    async fn output_of_the_users_program_is_printed_and_disturbs_nothing() {
        let lines = r#"echo 'my own main'; echo '{"line":"a  created"}'; echo '{"unknown":1}'"#;
        let answer = r#"read line; echo '{"answer":{"applied":2}}'; read end"#;
        let mut session =
            begin(&format!("{HELLO_LINE}\n{FLAGS}\n{lines}\n{answer}")).await.expect("a session");
        assert_eq!(session.flags(), ["--a"]);
        assert_eq!(session.apply(Path::new("/samples")).await, Ok(2));
        for line in ["my own main", "a  created", r#"{"unknown":1}"#] {
            assert_eq!(session.next_line().await.as_deref(), Ok(line));
        }
        session.end().await;
    }

    #[tokio::test]
    async fn errors_have_their_cure_and_an_end_is_named() {
        let replies = r#"read line; echo '{"error":{"kind":"inUse","message":"in use"}}'
            read line; echo '{"error":{"kind":"dataFile","message":"damaged"}}'
            read line; echo '{"error":{"kind":"listen","message":"taken"}}'
            read line; echo '{"error":{"kind":"new","message":"else"}}'
            read line; echo '{"answer":{}}'
            read line; exit 4"#;
        let mut session = begin(&format!("{HELLO_LINE}\n{FLAGS}\n{replies}")).await.expect("a session");
        for (message, hint) in [
            (
                "another session of this project is running: it was started with cargo operator dev or cargo run",
                Some("end it first"),
            ),
            ("damaged", Some("start with an empty server: --reset")),
            ("taken", Some("another program uses the port")),
            ("else", None),
            ("the API server of the session answered in an unknown form: missing field `applied`", None),
            (
                "the API server of the session ended (exit status: 4)",
                Some("start cargo operator dev again: the objects are kept"),
            ),
        ] {
            let failure = session.apply(Path::new("/samples")).await.expect_err(message);
            assert_eq!(failure.message, message);
            let given = failure.hint.as_deref();
            assert_eq!(given.is_some(), hint.is_some(), "{given:?}");
            assert!(given.unwrap_or_default().starts_with(hint.unwrap_or_default()), "{given:?}");
        }
        let ended = session.next_line().await.expect_err("it ended");
        assert_eq!(ended.message, "the API server of the session ended (exit status: 4)");
    }
}
