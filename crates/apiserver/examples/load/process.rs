//! The server as a process, and its resource usage.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::HeaderValue;
use tokio::time::{Duration, Instant};

use super::Result;
use super::wire::Tls;

/// Ticks per second of the CPU times in `/proc`, a fixed value on Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// The program that starts servers.
#[derive(Debug)]
pub(crate) struct Program(PathBuf);

impl Program {
    /// Returns `given`, or the program that cargo built beside this example.
    pub(crate) fn find(given: Option<PathBuf>) -> Result<Self> {
        let path = match given {
            Some(path) => path,
            None => {
                let example = std::env::current_exe()?;
                let folder =
                    example.parent().and_then(|examples| examples.parent()).ok_or("no target folder")?;
                folder.join("kube-apiserver-embedded")
            }
        };
        if !path.is_file() {
            let path = path.display();
            return Err(format!(
                "{path}: not there: build it with `cargo build --profile bench -p kube-apiserver-embedded`"
            )
            .into());
        }
        Ok(Self(path))
    }

    /// Starts a server with TLS and waits for its first line.
    pub(crate) fn start(&self) -> Result<ServerProcess> {
        self.start_with(&[])
    }

    /// Like [`start`](Self::start), with other options.
    pub(crate) fn start_with(&self, options: &[&OsStr]) -> Result<ServerProcess> {
        let started = Instant::now();
        let mut child = Command::new(&self.0)
            .args(["--listen", "127.0.0.1:0", "--tls", "--kubeconfig-out", "-"])
            .args(options)
            .stdout(Stdio::piped())
            .spawn()?;
        let mut output = BufReader::new(child.stdout.take().ok_or("the server has no output")?);
        let mut line = String::new();
        output.read_line(&mut line)?;
        let ready = started.elapsed();
        let address =
            line.trim().strip_prefix("ready https://").ok_or_else(|| format!("not ready: {line}"))?;
        let address = address.parse()?;
        // Take the certificate from the kubeconfig, which follows.
        let authority = loop {
            let mut line = String::new();
            if output.read_line(&mut line)? == 0 {
                return Err("the server printed no certificate".into());
            }
            if let Some((_, authority)) = line.split_once("certificate-authority-data: ") {
                break String::from_utf8(BASE64_STANDARD.decode(authority.trim())?)?;
            }
        };
        Ok(ServerProcess { tls: Tls::trusting(&authority)?, address, authorization: None, ready, child })
    }
}

/// A running server; dropping it kills it.
pub(crate) struct ServerProcess {
    pub(crate) address: SocketAddr,
    /// Trusts this server.
    pub(crate) tls: Tls,
    /// Sent with each request on connections that are opened from now on.
    pub(crate) authorization: Option<HeaderValue>,
    /// Time from spawning the process to its first line.
    pub(crate) ready: Duration,
    child: Child,
}

impl ServerProcess {
    /// Returns the resident memory in MB.
    pub(crate) fn resident(&self) -> Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
        let kib: f64 = line.trim().trim_end_matches(" kB").parse()?;
        Ok(kib * 1024.0 / 1e6)
    }

    /// Returns the seconds for which the server or this program was runnable but waited for a CPU. Both have one
    /// thread.
    pub(crate) fn waited_for_cpu(&self) -> Result<f64> {
        Ok(waited_for_cpu(&self.child.id().to_string())? + waited_for_cpu("self")?)
    }

    /// Returns the CPU seconds used so far.
    pub(crate) fn cpu(&self) -> Result<f64> {
        cpu_of(&self.child.id().to_string())
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // Both calls only fail if the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the CPU seconds that this process has used so far.
pub(crate) fn own_cpu() -> Result<f64> {
    cpu_of("self")
}

fn waited_for_cpu(process: &str) -> Result<f64> {
    let text = fs::read_to_string(format!("/proc/{process}/schedstat"))?;
    let nanoseconds: f64 =
        text.split_ascii_whitespace().nth(1).ok_or("no time of waiting in schedstat")?.parse()?;
    Ok(nanoseconds / 1e9)
}

fn cpu_of(process: &str) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The second field is the name in parentheses, which may contain spaces; utime and stime are the 14th and
    // 15th.
    let (_, rest) = stat.rsplit_once(')').ok_or("no name in stat")?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok());
    let (user, system) = ticks(11).zip(ticks(12)).ok_or("no times in stat")?;
    Ok((user + system) / TICKS_PER_SECOND)
}
