//! `cargo run --profile bench -p kube-apiserver-embedded --example load`: measures the server against its goals.
//!
//! Requests and sockets are measured on the program `kube-apiserver-embedded` in a process of its own, so that the client's
//! work is not counted. Build it first with the same profile, or name it with `--server`. CPU time is the kernel's for that
//! process (`utime` and `stime`), memory its resident set. `just load` does both steps.
//!
//! Latencies include the effects of other load on the machine, so run nothing else. Additional figures show how late this
//! program itself was, and how long server and client waited for a CPU. While measuring throughput this program never
//! sleeps, so the machine needs at least two CPUs.
//!
//! The exit code is 1 if a goal is missed.

mod alarm;
mod idle;
mod objects;
mod process;
mod rbac;
mod report;
mod requests;
mod start;
mod watches;
mod wire;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};

use process::Program;
use report::Report;

/// Any failure ends the run, because figures of a partial run are useless.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Measures the embedded API server against its goals.
#[derive(Debug, Parser)]
struct Arguments {
    /// Run shorter and with fewer objects: checks that everything works, but the figures mean little.
    #[arg(long)]
    quick: bool,
    /// Print one line of JSON per figure instead of a table.
    #[arg(long)]
    json: bool,
    /// Program to measure; by default the one that cargo built beside this example.
    #[arg(long, value_name = "PATH")]
    server: Option<PathBuf>,
    /// Run only these parts, in the given order.
    #[arg(long, value_enum, value_name = "PART")]
    only: Vec<Part>,
    /// Internal: measures a start in this fresh process.
    #[arg(long, hide = true)]
    start_in_process: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Time until the server answers, and its memory at rest.
    Start,
    /// Creates and gets over 8 connections.
    Requests,
    /// Creates and gets of a user with rights by RBAC, among 10,000 bindings.
    Rbac,
    /// 1,000 watches in process.
    Watchers,
    /// 1,000 watches over sockets.
    Sockets,
    /// 10,000 idle watches.
    Idle,
    /// 100,000 objects.
    Memory,
    /// 100,000 objects in a data file.
    DataFile,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.start_in_process {
        start::print_in_process().await;
        return ExitCode::SUCCESS;
    }
    match run(&arguments).await {
        Ok(report) => {
            report.print(arguments.json);
            if report.is_met() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

async fn run(arguments: &Arguments) -> Result<Report> {
    let program = Program::find(arguments.server.clone())?;
    let all = Part::value_variants().to_vec();
    let parts = if arguments.only.is_empty() { all } else { arguments.only.clone() };
    let mut report = Report::default();
    for part in parts {
        match part {
            Part::Start => start::measure(&program, arguments.quick, &mut report)?,
            Part::Requests => requests::measure(&program, arguments.quick, &mut report).await?,
            Part::Rbac => rbac::measure(&program, arguments.quick, &mut report).await?,
            Part::Watchers => watches::in_process(arguments.quick, &mut report).await?,
            Part::Sockets => watches::over_sockets(&program, arguments.quick, &mut report).await?,
            Part::Idle => idle::measure(&program, arguments.quick, &mut report).await?,
            Part::Memory => requests::fill(&program, arguments.quick, &mut report).await?,
            Part::DataFile => requests::fill_file(&program, arguments.quick, &mut report).await?,
        }
    }
    Ok(report)
}
