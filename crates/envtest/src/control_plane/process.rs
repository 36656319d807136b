//! One process of a control plane: start, readiness, and stop.

use std::{
    fmt,
    fs::{self, File},
    future::Future,
    path::{Path, PathBuf},
    process::{Child, Stdio},
};

use tokio::time::{Duration, Instant, sleep};

use super::commands::Command;

/// Interval between checks of a process.
const INTERVAL: Duration = Duration::from_millis(20);

/// Lines of output quoted by an error.
const LINES: usize = 20;

/// A process of a control plane. Dropping it kills the process and waits for its exit.
pub(super) struct Process {
    name: &'static str,
    child: Child,
    log: Option<PathBuf>,
}

impl Process {
    /// Starts the process and writes its output to `log`, or to the output of this process without one.
    pub(super) fn spawn(command: &Command, log: Option<&Path>) -> Result<Self, ProcessError> {
        let Command { name, program, arguments } = command;
        let failed = |source| ProcessError::Spawn { name, program: program.clone(), source };
        // A file and no pipe: a pipe that is not read blocks the process when it is full.
        let (out, err) = match log {
            Some(log) => {
                let file = File::create(log).map_err(failed)?;
                (Stdio::from(file.try_clone().map_err(failed)?), Stdio::from(file))
            }
            None => (Stdio::inherit(), Stdio::inherit()),
        };
        let mut process = std::process::Command::new(program);
        // The process must not read the terminal of the test.
        process.args(arguments).stdin(Stdio::null()).stdout(out).stderr(err);
        let child = process.spawn().map_err(failed)?;
        Ok(Self { name, child, log: log.map(Path::to_owned) })
    }

    /// Waits until `probe` succeeds. Fails early if the process exits.
    pub(super) async fn ready<Fut: Future<Output = Result<(), String>>>(
        mut self,
        deadline: Instant,
        mut probe: impl FnMut() -> Fut,
    ) -> Result<Self, ProcessError> {
        let started = Instant::now();
        let mut last = "no request was sent".to_owned();
        while Instant::now() < deadline {
            // Check for an exit first, to report its output at once instead of a timeout.
            if let Some(status) = self.child.try_wait().map_err(|source| self.lost(source))? {
                let (name, output) = (self.name, self.output());
                return Err(ProcessError::Ended { name, status: status.to_string(), output });
            }
            match tokio::time::timeout_at(deadline, probe()).await {
                Ok(Ok(())) => return Ok(self),
                Ok(Err(error)) => last = error,
                Err(_) => "no answer".clone_into(&mut last),
            }
            sleep(INTERVAL).await;
        }
        let (name, output, within) = (self.name, self.output(), deadline - started);
        Err(ProcessError::NotReady { name, within, last, output })
    }

    /// Sends SIGTERM and waits until the process has exited; kills it at the deadline.
    pub(super) async fn stop(&mut self, deadline: Instant) -> Result<(), ProcessError> {
        self.terminate();
        let asked = Instant::now();
        loop {
            if self.child.try_wait().map_err(|source| self.lost(source))?.is_some() {
                return Ok(());
            }
            if Instant::now() >= deadline {
                self.kill();
                return Err(ProcessError::Killed { name: self.name, after: asked.elapsed() });
            }
            sleep(INTERVAL).await;
        }
    }

    /// Sends SIGTERM. An error is ignored because the process may have exited already.
    #[cfg(unix)]
    fn terminate(&mut self) {
        use rustix::process::{Pid, Signal, kill_process};
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let _ = pid.map(|pid| kill_process(pid, Signal::TERM));
    }

    /// Kills the process, because this platform has no SIGTERM.
    #[cfg(not(unix))]
    fn terminate(&mut self) {
        let _ = self.child.kill();
    }

    fn kill(&mut self) {
        // An error means that it has exited already.
        let _ = self.child.kill();
        // Without a wait the process would stay as a zombie until the test program ends.
        let _ = self.child.wait();
    }

    fn lost(&self, source: std::io::Error) -> ProcessError {
        ProcessError::Lost { name: self.name, source }
    }

    /// Returns the last lines of the log.
    fn output(&self) -> String {
        let text = self.log.as_ref().and_then(|log| fs::read(log).ok()).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LINES)..].join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Failure of a process of a control plane.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProcessError {
    /// The process could not be started.
    #[error("{name}: {} cannot be started", program.display())]
    Spawn {
        /// Name of the process.
        name: &'static str,
        /// Path of the program.
        program: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
    /// The process exited before it was ready.
    #[error("{name} ended before it was ready: {status}\n{output}")]
    Ended {
        /// Name of the process.
        name: &'static str,
        /// Exit status.
        status: String,
        /// Last lines of its output.
        output: String,
    },
    /// The process did not become ready in time.
    #[error("{name} is not ready after {within:?}: {last}\n{output}")]
    NotReady {
        /// Name of the process.
        name: &'static str,
        /// Time limit.
        within: Duration,
        /// Result of the last readiness check.
        last: String,
        /// Last lines of its output.
        output: String,
    },
    /// The process did not exit after SIGTERM.
    #[error("{name} did not end within {after:?} and was killed")]
    Killed {
        /// Name of the process.
        name: &'static str,
        /// Time from SIGTERM to the kill.
        after: Duration,
    },
    /// The state of the process could not be read.
    #[error("{name}: cannot read the state of the process")]
    Lost {
        /// Name of the process.
        name: &'static str,
        /// Cause.
        source: std::io::Error,
    },
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process").field("name", &self.name).field("id", &self.child.id()).finish()
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use rustix::process::Pid;

    use super::*;

    /// A shell script that stands for a binary.
    struct Script {
        folder: tempfile::TempDir,
    }

    impl Script {
        fn new() -> Self {
            Self { folder: tempfile::tempdir().unwrap() }
        }

        fn spawn(&self, text: &str) -> Process {
            let script = self.folder.path().join("script");
            fs::write(&script, text).unwrap();
            // `/bin/sh` runs the script by name: executing a file that was just written fails if a forked child still has it
            // open.
            let arguments = vec![script.display().to_string(), self.folder.path().display().to_string()];
            let command = Command { name: "fake", program: "/bin/sh".into(), arguments };
            Process::spawn(&command, Some(&self.folder.path().join("log"))).unwrap()
        }

        fn has(&self, name: &str) -> bool {
            self.folder.path().join(name).exists()
        }

        /// Waits until the script has created a file.
        async fn ready(&self, process: Process, name: &str) -> Result<Process, ProcessError> {
            let within = Instant::now() + Duration::from_secs(20);
            process
                .ready(within, async || if self.has(name) { Ok(()) } else { Err(format!("no {name}")) })
                .await
        }
    }

    fn is_alive(id: u32) -> bool {
        let pid = Pid::from_raw(i32::try_from(id).unwrap()).unwrap();
        rustix::process::test_kill_process(pid).is_ok()
    }

    #[tokio::test]
    async fn a_process_that_ends_early_is_reported_with_its_last_output() {
        let script = Script::new();
        let process = script.spawn("echo starting; echo 'no such flag' >&2; exit 3");
        let error = script.ready(process, "ready").await.unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("fake ended before it was ready: exit status: 3"), "{text}");
        assert!(text.ends_with("starting\nno such flag"), "{text}");
    }

    #[tokio::test]
    async fn a_process_that_is_never_ready_is_killed_and_reported() {
        let script = Script::new();
        let process = script.spawn("echo waiting; exec sleep 1000");
        let id = process.child.id();
        let deadline = Instant::now() + Duration::from_millis(200);
        let error = process.ready(deadline, async || Err("503".to_owned())).await.unwrap_err();
        assert!(matches!(&error, ProcessError::NotReady { last, .. } if last == "503"), "{error}");
        assert!(!is_alive(id));
    }

    #[tokio::test]
    async fn a_process_receives_sigterm_before_it_is_killed() {
        let script = Script::new();
        let text = "trap 'touch $1/ended; exit 0' TERM; touch $1/ready; while :; do sleep 0.01; done";
        let mut process = script.ready(script.spawn(text), "ready").await.unwrap();
        let id = process.child.id();
        process.stop(Instant::now() + Duration::from_secs(20)).await.unwrap();
        assert!(script.has("ended") && !is_alive(id));
    }

    #[tokio::test]
    async fn a_process_that_ignores_sigterm_is_killed_at_the_deadline() {
        let script = Script::new();
        let text = "trap '' TERM; touch $1/ready; while :; do sleep 0.01; done";
        let mut process = script.ready(script.spawn(text), "ready").await.unwrap();
        let id = process.child.id();
        let error = process.stop(Instant::now() + Duration::from_millis(200)).await.unwrap_err();
        assert!(matches!(error, ProcessError::Killed { .. }), "{error}");
        assert!(!is_alive(id));
    }

    #[tokio::test]
    async fn a_panic_ends_the_process_too() {
        let script = Script::new();
        let process = script.ready(script.spawn("touch $1/ready; exec sleep 1000"), "ready").await.unwrap();
        let id = process.child.id();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            let _process = process;
            panic!("a test fails");
        }));
        assert!(panicked.is_err() && !is_alive(id));
    }

    #[tokio::test]
    async fn a_missing_program_is_named() {
        let command = Command { name: "etcd", program: "/nowhere/etcd".into(), arguments: Vec::new() };
        let error = Process::spawn(&command, None).unwrap_err();
        assert_eq!(error.to_string(), "etcd: /nowhere/etcd cannot be started");
    }
}
