//! `cargo run --release -p bench`: compares this repository with controller-runtime for Go and with kube-rs, by the same work on
//! the same machine in the same run.
//!
//! The driver builds three programs, the *peers*, and an API server. It starts the peers in turn, sends them steps over standard
//! input ([`protocol`]), and writes the results as a report ([`report`]) and as JSON. Nothing is stored between runs: a figure
//! that was not measured is reported as such. See `bench/README.md`.

mod build;
mod cluster;
mod figures;
mod goals;
mod latency;
mod machine;
mod number;
mod process;
mod protocol;
mod remarks;
mod report;
mod samples;
mod session;
mod stats;
mod svg;
mod workloads;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use tokio::time::Instant;

use build::Programs;
use remarks::Remarks;
use session::Session;
use workloads::Part;

/// Compares this repository with controller-runtime for Go and with kube-rs.
#[derive(Debug, Parser)]
struct Arguments {
    /// Run three shorter rounds instead of five: less than twenty minutes after the build.
    #[arg(long)]
    quick: bool,
    /// Write goals and rows as JSON to this file.
    #[arg(long, value_name = "PATH")]
    json: Option<PathBuf>,
    /// Run only these parts. Figures of the other parts are reported as not measured.
    #[arg(long, value_enum, value_name = "NAME")]
    only: Vec<Part>,
    /// Number of rounds: each peer runs each workload once per round.
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,
    /// Number of pods in the cache workload.
    #[arg(long, value_name = "N", default_value_t = 50_000)]
    pods: usize,
    /// Build profile of the peers; `dev` is for testing the benchmark itself.
    #[arg(long, value_name = "PROFILE", default_value = "bench")]
    profile: String,
    /// Use the programs of an earlier build.
    #[arg(long)]
    no_build: bool,
    /// Path of the report; its charts are written to a folder beside it. The default is `bench/REPORT.md` for a whole run,
    /// and the target folder otherwise.
    #[arg(long, value_name = "PATH")]
    report: Option<PathBuf>,
}

impl Arguments {
    fn is_whole(&self) -> bool {
        !self.quick
            && self.only.is_empty()
            && self.rounds.is_none()
            && self.pods == 50_000
            && self.profile == "bench"
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // Cancelling `run` drops its processes, which kills them.
    let result = tokio::select! {
        result = run(&arguments) => result,
        signal = interrupted() => signal.and_then(|()| Err(anyhow::anyhow!("interrupted"))),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn interrupted() -> anyhow::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    tokio::select! {
        result = tokio::signal::ctrl_c() => Ok(result?),
        _ = terminate.recv() => Ok(()),
        _ = hang_up.recv() => Ok(()),
    }
}

async fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let programs = Programs::find(&arguments.profile);
    let programs = if arguments.no_build { programs } else { programs.build(&arguments.profile).await? };
    // Described after the builds, because the description says whether the peer in Go was built.
    let machine = machine::describe(&programs, &arguments.profile).await;
    let rounds = arguments.rounds.unwrap_or(if arguments.quick { 3 } else { 5 });
    let mut session = Session::new(programs, rounds, arguments.quick, arguments.pods);
    for part in workloads::parts(&arguments.only) {
        eprintln!("== {}", part.name());
        let started = Instant::now();
        part.run(&mut session).await;
        session.took.push((part.name(), started.elapsed()));
    }
    let verdicts = goals::verdicts(&session.samples);
    let path = match &arguments.report {
        Some(path) => path.clone(),
        // Only a whole run may replace the report that is under version control.
        None if arguments.is_whole() => build::root().join("bench/REPORT.md"),
        None => build::target().join("bench/REPORT.md"),
    };
    report::write(&path, &machine, &session, &verdicts, &Remarks::read())?;
    eprintln!("report: {}", path.display());
    if let Some(path) = &arguments.json {
        let json = report::json(&session, &verdicts);
        std::fs::write(path, serde_json::to_string_pretty(&json)? + "\n")?;
    }
    for verdict in verdicts.iter().filter(|verdict| !verdict.met) {
        eprintln!("not met: {}", verdict.line());
    }
    eprintln!("{}", report::took(&session));
    Ok(())
}
