//! The operator as a process.

use std::{path::Path, process::Stdio};

use tokio::{
    process::{Child, Command},
    time::{Duration, timeout},
};

use crate::failure::Failure;

/// Time that the operator has to end its reconciles.
const DRAIN: Duration = Duration::from_secs(10);

/// A running operator. It is killed when this is dropped.
pub(super) struct Running {
    child: Child,
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
        command.current_dir(folder).stdin(Stdio::null()).kill_on_drop(true);
        let child = command.spawn();
        let child =
            child.map_err(|error| Failure::new(format!("cannot run {}: {error}", program.display())))?;
        Ok(Self { child })
    }

    /// Waits until it ends by itself, and returns its status.
    ///
    /// Dropping the future changes nothing.
    pub(super) async fn ended(&mut self) -> String {
        match self.child.wait().await {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        }
    }

    /// Asks it to stop, and kills it if it has not after ten seconds.
    pub(super) async fn stop(mut self) {
        ask_to_stop(&self.child);
        if timeout(DRAIN, self.child.wait()).await.is_err() {
            // It has ended if this fails.
            let _ = self.child.kill().await;
        }
    }
}

#[cfg(unix)]
fn ask_to_stop(child: &Child) {
    use rustix::process::{Pid, Signal, kill_process};

    let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    if let Some(pid) = pid {
        // It has ended if this fails.
        let _ = kill_process(pid, Signal::TERM);
    }
}

/// Without signals it is killed after the time for its reconciles.
#[cfg(not(unix))]
fn ask_to_stop(_: &Child) {}

/// Runs a command of the program and returns its output, or its error.
pub(super) async fn answer(program: &Path, arguments: &[String]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).kill_on_drop(true).output().await;
    let output = output.map_err(|error| format!("cannot run {}: {error}", program.display()))?;
    if output.status.success() {
        return String::from_utf8(output.stdout).map_err(|_| "its output is not text".to_owned());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(errors.trim().trim_start_matches("error: ").to_owned())
}
