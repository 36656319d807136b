//! The operator as a process.

use std::{path::Path, process::Stdio};

use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, BufReader},
    process::{Child, ChildStdin, Command},
    sync::mpsc::{self, Receiver, Sender},
    task::JoinSet,
    time::{Duration, timeout},
};

use super::operator_log::LogLine;
use crate::{ask, failure::Failure};

/// Time that the operator has to end its reconciles.
const DRAIN: Duration = Duration::from_secs(10);

/// Time that the program has to print its manifests, which takes it milliseconds. A program that is not an `Operator` may run forever.
const ANSWER: Duration = Duration::from_secs(30);

/// Asks an operator to stop once its standard input ends.
const STOP_AT_END_OF_INPUT: &str = "OPERATOR_STOP_AT_END_OF_INPUT";

/// Log filter of an operator in a session: warnings and errors of the library, and all that the program itself logs.
const LOG_FILTER: &str = "controller_runtime=warn,info";

/// Flags that select levels of the log.
const LOG_FLAGS: [&str; 3] = ["--log", "--log-level", "--zap-log-level"];

/// Selects the format of the log.
const LOG_FORMAT: &str = "OPERATOR_LOG_FORMAT";

/// Flags that select the format of the log. With one of them, lines are printed unchanged.
const FORMAT_FLAGS: [&str; 2] = ["--log-format", "--zap-encoder"];

/// Maximum number of log lines that wait to be printed. Further lines are counted and dropped: an operator that is blocked on its output
/// would answer no webhook.
const WAITING_LINES: usize = 8192;

/// Longest line of the log, in bytes. A longer one is split.
const MAX_LINE: u64 = 1 << 20;

/// Time within which the log ends after the operator. A process that the operator has started may keep the pipe open.
const LOG_END: Duration = Duration::from_secs(1);

/// A running operator, which is killed when this is dropped. If this process is killed, the operator stops by itself, because its standard
/// input ends.
pub(super) struct Running {
    child: Child,
    /// Open until the operator has to stop.
    input: Option<ChildStdin>,
    /// Lines of its standard error.
    log: Receiver<String>,
    /// Reads these lines until they end.
    reader: JoinSet<()>,
    /// Whether the user has selected the format of the log.
    has_own_format: bool,
}

/// An event of a running operator.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum OperatorEvent {
    /// A line of its log.
    Log(LogLine),
    /// The operator ended on its own, with this status, after the end of its log.
    Ended(String),
}

impl Running {
    /// Starts a program, which connects with `kubeconfig`.
    pub(super) fn start(
        program: &Path,
        folder: &Path,
        kubeconfig: &Path,
        flags: &[String],
    ) -> Result<Self, Failure> {
        let mut command = Command::new(program);
        command.arg("run").arg("--kubeconfig").arg(kubeconfig).args(flags);
        // The session prints a line for each change; the user's own log lines would be lost among those of the library.
        let has_flag = |names: &[&str]| {
            flags.iter().any(|flag| names.contains(&flag.split('=').next().unwrap_or_default()))
        };
        if std::env::var_os("RUST_LOG").is_none_or(|filter| filter.is_empty()) && !has_flag(&LOG_FLAGS) {
            command.env("RUST_LOG", LOG_FILTER);
        }
        let has_own_format = has_flag(&FORMAT_FLAGS);
        command.env(STOP_AT_END_OF_INPUT, "1").env(LOG_FORMAT, "json").current_dir(folder);
        // The operator stops at the end of this input, so it also ends if this process is killed.
        command.stdin(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        // A terminal sends Ctrl-C to all processes of a group. This process then asks the operator to stop, which would be a second signal:
        // the operator would exit without waiting for its reconciles.
        #[cfg(unix)]
        command.process_group(0);
        let child = command.spawn();
        let mut child =
            child.map_err(|error| Failure::new(format!("cannot run {}: {error}", program.display())))?;
        // `Child::wait` closes the standard input that the child still owns, which would ask the operator to stop.
        let input = child.stdin.take();
        let (line, log) = mpsc::channel(WAITING_LINES);
        let mut reader = JoinSet::new();
        if let Some(output) = child.stderr.take() {
            reader.spawn(read(BufReader::new(output), line));
        }
        Ok(Self { child, input, log, reader, has_own_format })
    }

    /// Waits for the next event. The last one is the end of the operator.
    ///
    /// # Cancellation
    ///
    /// Dropping the future loses no event.
    pub(super) async fn next(&mut self) -> OperatorEvent {
        let status = tokio::select! {
            biased;
            // Lines come first, so that the reason of an end is printed before the end.
            Some(line) = self.log.recv() => return self.event_of(line),
            status = self.child.wait() => status,
        };
        self.end_log().await;
        match (self.log.try_recv(), status) {
            (Ok(line), _) => self.event_of(line),
            (Err(_), Ok(status)) => OperatorEvent::Ended(status.to_string()),
            (Err(_), Err(error)) => OperatorEvent::Ended(error.to_string()),
        }
    }

    fn event_of(&self, line: String) -> OperatorEvent {
        OperatorEvent::Log(if self.has_own_format { LogLine::Text(line) } else { LogLine::parse(&line) })
    }

    /// Waits until all lines of an operator that has ended are read.
    async fn end_log(&mut self) {
        // After the timeout, only the lines that were read so far are printed.
        let _ = timeout(LOG_END, self.reader.join_next()).await;
    }

    /// Asks the operator to stop, and kills it if it still runs after ten seconds. Returns the rest of its log.
    pub(super) async fn stop(mut self) -> Vec<LogLine> {
        self.ask_to_stop();
        if timeout(DRAIN, self.child.wait()).await.is_err() {
            // Fails only if the process has ended.
            let _ = self.child.kill().await;
        }
        self.end_log().await;
        let mut rest = Vec::new();
        while let Ok(line) = self.log.try_recv() {
            if let OperatorEvent::Log(line) = self.event_of(line) {
                rest.push(line);
            }
        }
        // Not earlier: at the end of its input the operator would stop with the message that its parent has ended.
        drop(self.input);
        rest
    }

    #[cfg(unix)]
    fn ask_to_stop(&self) {
        use rustix::process::{Pid, Signal, kill_process};

        let pid = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // Fails only if the process has ended.
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    /// Closes the input, because this system has no signal that asks a process to stop.
    #[cfg(not(unix))]
    fn ask_to_stop(&mut self) {
        self.input = None;
    }
}

/// Reads the log of an operator. Lines that do not fit into the channel are dropped and counted.
async fn read(mut output: impl AsyncBufRead + Unpin, lines: Sender<String>) {
    let mut left_out = 0_u64;
    loop {
        let mut line = Vec::new();
        match (&mut output).take(MAX_LINE).read_until(b'\n', &mut line).await {
            Ok(1..) => {}
            _ => return,
        }
        // The count comes before the next line, at the place of the gap. The operator must never wait for the
        // terminal.
        if left_out > 0 && lines.try_send(format!("({left_out} lines of the log were left out)")).is_ok() {
            left_out = 0;
        }
        if lines.try_send(String::from_utf8_lossy(&line).trim_end().to_owned()).is_err() {
            left_out += 1;
        }
    }
}

/// Runs a command of the program and returns its output, or its error.
pub(super) async fn answer(program: &Path, arguments: &[String]) -> Result<String, String> {
    answer_within(program, arguments, ANSWER).await
}

async fn answer_within(program: &Path, arguments: &[String], within: Duration) -> Result<String, String> {
    let mut command = Command::from(ask::offline(program));
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    // A program whose main ignores its arguments runs the operator instead, and never ends.
    let Ok(output) = timeout(within, command.output()).await else {
        return Err(format!(
            "{} {} did not end within {} s: its main has to return operator().main().await",
            program.display(),
            arguments.first().map_or("", String::as_str),
            within.as_secs()
        ));
    };
    let output = output.map_err(|error| format!("cannot run {}: {error}", program.display()))?;
    if output.status.success() {
        return String::from_utf8(output.stdout).map_err(|_| "its output is not text".to_owned());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(errors.trim().trim_start_matches("error: ").to_owned())
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;

    use rustix::process::{Pid, getpgid};
    use tokio::io::AsyncWriteExt;

    use super::*;

    /// A terminal sends Ctrl-C to the process group of this process. The operator receives one signal, from [`Running::stop`].
    #[tokio::test]
    async fn ctrl_c_in_the_terminal_does_not_reach_the_operator() {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("operator");
        fs::write(&program, "#!/bin/sh\nread end\n").expect("a file");
        fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .expect("a program");
        let running =
            Running::start(&program, folder.path(), Path::new("kubeconfig"), &[]).expect("a process");
        let operator = running.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let operator = operator.expect("it runs");
        assert_eq!(getpgid(Some(operator)), Ok(operator), "it has a group of its own");
        assert_ne!(getpgid(None), Ok(operator));
        running.stop().await;
    }

    /// An operator of a shell script.
    fn script(folder: &Path, commands: &str, flags: &[&str]) -> Running {
        let program = folder.join("operator");
        fs::write(&program, format!("#!/bin/sh\n{commands}\n")).expect("a file");
        fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .expect("a program");
        let flags: Vec<_> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        Running::start(&program, folder, Path::new("kubeconfig"), &flags).expect("a process")
    }

    const LOG: &str = r#"
        echo 'text of the program' >&2
        echo "{\"timestamp\":\"t\",\"level\":\"INFO\",\"message\":\"the format is $OPERATOR_LOG_FORMAT\"}" >&2"#;

    /// The reason for its end may be in its last line.
    #[tokio::test]
    async fn the_log_of_an_operator_comes_before_its_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut running = script(folder.path(), &format!("{LOG}\necho last >&2; exit 3"), &[]);
        let mut events = Vec::new();
        while !matches!(events.last(), Some(OperatorEvent::Ended(_))) {
            events.push(running.next().await);
        }
        let text = |text: &str| OperatorEvent::Log(LogLine::Text(text.to_owned()));
        let event = LogLine::parse(r#"{"timestamp":"t","level":"INFO","message":"the format is json"}"#);
        assert!(matches!(event, LogLine::Event(_)));
        let ended = OperatorEvent::Ended("exit status: 3".to_owned());
        assert_eq!(events, [text("text of the program"), OperatorEvent::Log(event), text("last"), ended]);
    }

    #[tokio::test]
    async fn a_format_that_the_user_selects_stays_as_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        for flags in [&["--log-format=json"][..], &["--zap-encoder", "json"]] {
            let mut running = script(folder.path(), &format!("{LOG}\nread end"), flags);
            for _ in 0..2 {
                let event = running.next().await;
                assert!(matches!(event, OperatorEvent::Log(LogLine::Text(_))), "{event:?}");
            }
            running.stop().await;
        }
    }

    /// Lines of a log that ends while nothing reads them are returned.
    #[tokio::test]
    async fn the_rest_of_the_log_is_printed_after_a_stop() {
        let folder = tempfile::tempdir().expect("a folder");
        // One write, so that the signal does not come between the lines.
        let mut running = script(folder.path(), "printf 'ready\\nstopping\\n' >&2\nread end", &[]);
        assert_eq!(running.next().await, OperatorEvent::Log(LogLine::Text("ready".to_owned())));
        assert_eq!(running.stop().await, [LogLine::Text("stopping".to_owned())]);
    }

    #[tokio::test]
    async fn lines_of_the_log_beyond_the_queue_are_counted() {
        let (line, mut lines) = mpsc::channel(2);
        read(&b"0\n1\n2\n"[..], line).await;
        assert_eq!(lines.recv().await.as_deref(), Some("0"));
        assert_eq!(lines.recv().await.as_deref(), Some("1"));
        assert_eq!(lines.recv().await, None);

        let (line, mut lines) = mpsc::channel(1);
        let (mut writer, output) = tokio::io::duplex(1024);
        let mut reader = JoinSet::new();
        reader.spawn(read(BufReader::new(output), line));
        writer.write_all(b"0\n1\n2\n").await.expect("room");
        // The reader is the only other task, and runs until it waits for the next line.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        assert_eq!(lines.recv().await.as_deref(), Some("0"));
        writer.write_all(b"3\n").await.expect("room");
        assert_eq!(lines.recv().await.as_deref(), Some("(2 lines of the log were left out)"));
        drop(writer);
        reader.join_next().await.expect("a task").expect("it ends");
    }

    #[tokio::test]
    async fn a_program_that_does_not_answer_is_ended_and_named() {
        let arguments = ["1000".to_owned()];
        let error = answer_within(Path::new("/bin/sleep"), &arguments, Duration::ZERO).await;
        let expected =
            "/bin/sleep 1000 did not end within 0 s: its main has to return operator().main().await";
        assert_eq!(error, Err(expected.to_owned()));
    }
}
