//! Machine and versions of a run, for the report.

use std::fs;
use std::time::Instant;

use tokio::process::Command;

use crate::build::{Programs, root};

/// Description of the environment of a run.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) date: String,
    /// Facts, one line each.
    pub(crate) lines: Vec<String>,
}

pub(crate) async fn describe(programs: &Programs, profile: &str) -> Machine {
    #[expect(clippy::disallowed_methods, reason = "a report has a date")]
    let now = jiff::Timestamp::now();
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = field(&cpu, "model name").unwrap_or("unknown processor").to_owned();
    let threads = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kilobytes = field(&memory, "MemTotal").and_then(|text| text.trim_end_matches(" kB").parse().ok());
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let go = match programs.peer(crate::build::Language::Go) {
        Ok(_) => format!(
            "{}, controller-runtime {}, client-go {}",
            first_line("go", &["version"]).await,
            go_module("sigs.k8s.io/controller-runtime"),
            go_module("k8s.io/client-go")
        ),
        Err(reason) => format!("Go: {reason}"),
    };
    let lines = vec![
        format!("{threads} threads of {model}; {:.0} GB of memory", kilobytes.unwrap_or(0.0) * 1024.0 / 1e9),
        format!(
            "Linux {}; load when the run began: {}",
            kernel.trim(),
            load.split(' ').next().unwrap_or("?")
        ),
        format!("{}, profile `{profile}`", first_line("rustc", &["--version"]).await),
        go,
        format!("kube {}, glibc's allocator", kube_version()),
        format!("this repository at {}", first_line("git", &["describe", "--always", "--dirty"]).await),
    ];
    Machine { date: now.strftime("%Y-%m-%d %H:%M UTC").to_string(), lines }
}

/// Bytes per second that one thread reads from memory. It is the best of several attempts, because other load only lowers it.
pub(crate) fn memory_speed() -> f64 {
    let block = vec![1_u64; 32 << 20 >> 3];
    let best = (0..5).map(|_| {
        #[expect(clippy::disallowed_methods, reason = "it is real time that is measured")]
        let started = Instant::now();
        let sum = block.iter().fold(0_u64, |sum, word| sum.wrapping_add(*word));
        let took = started.elapsed().as_secs_f64();
        std::hint::black_box(sum);
        (block.len() * 8) as f64 / took
    });
    best.fold(0.0, f64::max)
}

fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.lines().find_map(|line| Some(line.strip_prefix(name)?.trim_start_matches([' ', '\t', ':']).trim()))
}

async fn first_line(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(root()).output().await;
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().next().unwrap_or("unknown").to_owned()
}

fn go_module(name: &str) -> String {
    let manifest = fs::read_to_string(root().join("bench/peers/go/go.mod")).unwrap_or_default();
    let line = manifest.lines().find_map(|line| line.trim().strip_prefix(name)).unwrap_or("unknown");
    line.trim().to_owned()
}

fn kube_version() -> String {
    let lock = fs::read_to_string(root().join("bench/peers/kube-rs/Cargo.lock")).unwrap_or_default();
    let version = lock.split("name = \"kube-runtime\"\nversion = \"").nth(1);
    version.and_then(|rest| rest.split('"').next()).unwrap_or("unknown").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peers_have_the_versions_that_are_reported() {
        assert!(go_module("k8s.io/client-go").starts_with('v'), "{}", go_module("k8s.io/client-go"));
        assert!(kube_version().starts_with(|digit: char| digit.is_ascii_digit()), "{}", kube_version());
    }

    #[test]
    fn memory_is_read_at_some_speed() {
        assert!(memory_speed() > 1e6);
    }
}
