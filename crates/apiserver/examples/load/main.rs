//! `cargo run --profile bench -p kube-apiserver-embedded --example load`: what the server costs, goal by goal.
//!
//! Requests and sockets are measured on the program, `kube-apiserver-embedded`, in a process of its own, so that the
//! client's work is not counted; build it first with the same profile, or name it with `--server`. CPU is what the
//! kernel charged that process (`utime` and `stime`), memory its resident set. `just load` does both steps.
//!
//! Latency counts what the machine does besides, so nothing else should run; the figures below it say how late this program
//! itself was, and for how long server and client waited for a CPU. While it looks for the most that the server can do it
//! does not sleep, so two CPUs are the least.
//!
//! The exit code is 1 if a goal is missed.

mod alarm;
mod idle;
mod objects;
mod process;
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

/// Any failure ends the run: a figure of half a run is worth nothing.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Measures the embedded API server against its goals.
#[derive(Debug, Parser)]
struct Arguments {
    /// Shorter and smaller: shows that everything works, and figures that are worth little.
    #[arg(long)]
    quick: bool,
    /// One line of JSON per figure instead of a table.
    #[arg(long)]
    json: bool,
    /// The program to measure; by default the one that was built beside this one.
    #[arg(long, value_name = "PATH")]
    server: Option<PathBuf>,
    /// Only these parts, in the order given.
    #[arg(long, value_enum, value_name = "PART")]
    only: Vec<Part>,
    /// What this process does on behalf of another one of its kind.
    #[arg(long, hide = true)]
    start_in_process: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Time until the server answers, and its memory at rest.
    Start,
    /// Creates and gets over 8 connections.
    Requests,
    /// 1,000 watchers in process.
    Watchers,
    /// 1,000 watchers over sockets.
    Sockets,
    /// 10,000 watches of which nothing is heard.
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
            Part::Watchers => watches::in_process(arguments.quick, &mut report).await?,
            Part::Sockets => watches::over_sockets(&program, arguments.quick, &mut report).await?,
            Part::Idle => idle::measure(&program, arguments.quick, &mut report).await?,
            Part::Memory => requests::fill(&program, arguments.quick, &mut report).await?,
            Part::DataFile => requests::fill_file(&program, arguments.quick, &mut report).await?,
        }
    }
    Ok(report)
}
