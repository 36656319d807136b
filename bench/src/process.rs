//! A child process that speaks the protocol, and its resource usage according to the kernel.

use std::fs;
use std::process::Stdio;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::{Duration, timeout};

use crate::protocol::{Ask, Figures, Hung};

/// Default time limit of a step, so that a peer that hangs does not stop the run.
const LONGEST_STEP: Duration = Duration::from_secs(120);

/// Clock ticks per second in `/proc`. Linux fixes this value for user space.
const TICKS_PER_SECOND: f64 = 100.0;

/// A running peer. Dropping it kills the process. If the driver is killed, the peer exits at the end of its standard input.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    child: Grouped,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    /// Whether a step is unanswered. The next line of output could then be a late answer.
    is_in_step: bool,
}

impl Process {
    pub(crate) fn start(name: &str, program: &std::path::Path) -> anyhow::Result<Self> {
        let mut command = Command::new(program);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = Grouped::spawn(&mut command)?;
        let input = child.0.stdin.take().context("a piped child has an input")?;
        let output = child.0.stdout.take().context("a piped child has an output")?;
        Ok(Self {
            name: name.to_owned(),
            child,
            input,
            output: BufReader::new(output).lines(),
            is_in_step: false,
        })
    }

    /// Sends a step and waits for its answer.
    pub(crate) async fn ask(&mut self, step: &str, with: Value) -> anyhow::Result<Figures> {
        self.ask_within(LONGEST_STEP, step, with).await
    }

    /// Like `ask`, with another time limit.
    pub(crate) async fn ask_within(
        &mut self,
        longest: Duration,
        step: &str,
        with: Value,
    ) -> anyhow::Result<Figures> {
        let mut line = serde_json::to_vec(&Ask { step, with })?;
        line.push(b'\n');
        let exchange = async {
            self.input.write_all(&line).await?;
            self.output.next_line().await
        };
        // Stays set if this future is dropped or fails: the next answer would belong to this step.
        self.is_in_step = true;
        let answer = timeout(longest, exchange).await;
        let answer =
            answer.map_err(|_| Hung(format!("{}: {step}: no answer within {longest:?}", self.name)))?;
        let line = answer?.with_context(|| format!("{}: {step}: the process has ended", self.name))?;
        self.is_in_step = false;
        Figures::read(step, &line).with_context(|| self.name.clone())
    }

    /// Returns whether the process can receive more steps, because it has answered all earlier ones.
    pub(crate) fn is_usable(&self) -> bool {
        !self.is_in_step
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let id =
            i32::try_from(self.id()?).ok().and_then(Pid::from_raw).context("a process ID fits into i32")?;
        Ok(kill_process(id, signal)?)
    }

    /// Closes standard input, and waits for the process to exit.
    pub(crate) async fn finish(self) -> anyhow::Result<()> {
        let Self { mut child, input, .. } = self;
        // The end of its input is the signal for the process to exit.
        drop(input);
        let ended = timeout(Duration::from_secs(10), child.0.wait()).await;
        ended.context("a process did not exit at the end of its standard input")??;
        Ok(())
    }

    /// Process ID.
    pub(crate) fn id(&self) -> anyhow::Result<u32> {
        self.child.0.id().with_context(|| format!("{}: the process has ended", self.name))
    }

    /// Current and peak resident memory in bytes.
    pub(crate) fn memory(&self) -> anyhow::Result<Memory> {
        Memory::of(self.id()?)
    }
}

/// A process group. Dropping it kills the process and its children.
#[derive(Debug)]
pub(crate) struct Grouped(pub(crate) Child);

impl Grouped {
    pub(crate) fn spawn(command: &mut Command) -> anyhow::Result<Self> {
        let shown = format!("{:?}", command.as_std().get_program());
        // A group of its own, so that a kill also reaches processes that the child has started.
        let child = command.process_group(0).kill_on_drop(true).spawn();
        Ok(Self(child.with_context(|| format!("{shown}: does not start"))?))
    }
}

impl Drop for Grouped {
    fn drop(&mut self) {
        // A process that has been waited for has no ID any more.
        let id = self.0.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        if let Some(id) = id {
            // Fails if the group has already exited.
            let _ = kill_process_group(id, Signal::KILL);
        }
    }
}

/// Resident memory in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory {
    pub(crate) now: f64,
    pub(crate) peak: f64,
}

impl Memory {
    pub(crate) fn of(process: u32) -> anyhow::Result<Self> {
        let status = fs::read_to_string(format!("/proc/{process}/status"))?;
        let bytes = |field: &str| -> anyhow::Result<f64> {
            let line =
                status.lines().find_map(|line| line.strip_prefix(field)).context("no memory in status")?;
            Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? * 1024.0)
        };
        Ok(Self { now: bytes("VmRSS:")?, peak: bytes("VmHWM:")? })
    }
}

/// CPU seconds that a process has used so far, with a resolution of 10 ms.
pub(crate) fn cpu_seconds(process: u32) -> anyhow::Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The second field is the name in parentheses, which can contain spaces; utime and stime are fields 14 and 15.
    let (_, rest) = stat.rsplit_once(')').context("no name in stat")?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok());
    let (user, system) = ticks(11).zip(ticks(12)).context("no times in stat")?;
    Ok((user + system) / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn a_step_is_sent_and_its_answer_returned() -> anyhow::Result<()> {
        // `cat` repeats the request, which is not an answer.
        let mut cat = Process::start("cat", Path::new("/bin/cat"))?;
        let error = cat.ask("echo", json!({})).await.expect_err("cat measures nothing");
        assert!(format!("{error:#}").starts_with(r#"cat: echo: not an answer: {"do":"echo","with":{}}"#));
        assert!(cat.memory()?.peak >= cat.memory()?.now && cat.memory()?.now > 0.0);
        cat.finish().await
    }

    #[tokio::test]
    async fn the_end_of_a_peer_is_an_error_and_not_a_wait() -> anyhow::Result<()> {
        let mut ended = Process::start("true", Path::new("/bin/true"))?;
        assert!(ended.ask("anything", json!({})).await.is_err());
        assert!(!ended.is_usable());
        Ok(())
    }

    #[tokio::test]
    async fn a_peer_that_does_not_answer_is_told_from_one_that_fails() -> anyhow::Result<()> {
        // `wc` prints nothing before its input ends.
        let mut silent = Process::start("silent", Path::new("/usr/bin/wc"))?;
        let error =
            silent.ask_within(Duration::ZERO, "anything", json!({})).await.expect_err("it says nothing");
        assert!(error.is::<Hung>() && !silent.is_usable(), "{error:#}");
        Ok(())
    }

    #[tokio::test]
    async fn dropping_a_process_kills_its_children() -> anyhow::Result<()> {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", "sleep 600 & echo $!; wait"]).stdout(Stdio::piped());
        let mut shell = Grouped::spawn(&mut shell)?;
        let output = shell.0.stdout.take().context("it is piped")?;
        let sleeper = BufReader::new(output).lines().next_line().await?.context("the shell says it")?;
        drop(shell);
        let is_alive = || {
            let stat = fs::read_to_string(format!("/proc/{sleeper}/stat")).ok()?;
            (!stat.contains(") Z ")).then_some(()) // a zombie has exited, but its parent has not waited for it yet
        };
        while is_alive().is_some() {
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    #[test]
    fn the_kernel_tells_the_cpu_time_of_a_process() -> anyhow::Result<()> {
        assert!(cpu_seconds(std::process::id())? >= 0.0);
        Ok(())
    }
}
