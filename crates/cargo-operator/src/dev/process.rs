//! The operator as a process.

use std::{path::Path, process::Stdio};

use tokio::{
    process::{Child, ChildStdin, Command},
    time::{Duration, timeout},
};

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

/// A running operator, which is killed when this is dropped. If this process is killed, the operator stops by itself, because its standard
/// input ends.
pub(super) struct Running {
    child: Child,
    /// Open until the operator has to stop.
    input: Option<ChildStdin>,
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
        // The session prints what happens; the user's own log lines would be lost among those of the library.
        let selects_levels = |flag: &String| LOG_FLAGS.contains(&flag.split('=').next().unwrap_or_default());
        if std::env::var_os("RUST_LOG").is_none_or(|filter| filter.is_empty())
            && !flags.iter().any(selects_levels)
        {
            command.env("RUST_LOG", LOG_FILTER);
        }
        command.env(STOP_AT_END_OF_INPUT, "1").current_dir(folder).stdin(Stdio::piped()).kill_on_drop(true);
        // A terminal sends Ctrl-C to all processes of a group. This process then asks the operator to stop, which would be a second signal:
        // the operator would exit without waiting for its reconciles.
        #[cfg(unix)]
        command.process_group(0);
        let child = command.spawn();
        let mut child =
            child.map_err(|error| Failure::new(format!("cannot run {}: {error}", program.display())))?;
        // `Child::wait` closes the standard input that the child still owns, which would ask the operator to stop.
        let input = child.stdin.take();
        Ok(Self { child, input })
    }

    /// Waits until the operator ends by itself, and returns its status.
    ///
    /// Dropping the future changes nothing.
    pub(super) async fn ended(&mut self) -> String {
        match self.child.wait().await {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        }
    }

    /// Asks the operator to stop, and kills it if it still runs after ten seconds.
    pub(super) async fn stop(mut self) {
        self.ask_to_stop();
        if timeout(DRAIN, self.child.wait()).await.is_err() {
            // Fails only if the process has ended.
            let _ = self.child.kill().await;
        }
        // Not earlier: at the end of its input the operator would stop with the message that its parent has ended.
        drop(self.input);
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

/// Runs a command of the program and returns its output, or its error.
pub(super) async fn answer(program: &Path, arguments: &[String]) -> Result<String, String> {
    answer_within(program, arguments, ANSWER).await
}

async fn answer_within(program: &Path, arguments: &[String], within: Duration) -> Result<String, String> {
    let mut command = Command::from(ask::offline(program));
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
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

    #[tokio::test]
    async fn a_program_that_does_not_answer_is_ended_and_named() {
        let arguments = ["1000".to_owned()];
        let error = answer_within(Path::new("/bin/sleep"), &arguments, Duration::ZERO).await;
        let expected =
            "/bin/sleep 1000 did not end within 0 s: its main has to return operator().main().await";
        assert_eq!(error, Err(expected.to_owned()));
    }
}
