//! Measures the simulator against its goals.
//!
//! It plays the corpus of buggy and corrected operators, the simulations of the examples, and workloads of known sizes,
//! and prints a table in Markdown: which bugs were found, after how long, which operators without a bug got a finding,
//! whether runs repeat, and how fast they are. With files that `SIMULATION_REPORT` has written, it sums these up: `… --
//! report file.json…`.
//!
//! Exit code 0: all goals are met; 1: a bug was missed, an operator without a bug got a finding, or a figure misses its
//! goal; 2: runs did not repeat; 3: the budget ended before some search.

mod creates;
mod figures;
mod mutations;
mod processor_time;
mod searches;
mod workloads;

use std::{path::PathBuf, process::ExitCode};

use mimalloc::MiMalloc;
use serde_json::Value;

use figures::Figure;

/// Allocator of the program. With glibc's, a run spends a fifth of its time in the allocator.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const USAGE: &str = "usage: kube-simulator report [FILE…]   sums up the files that SIMULATION_REPORT names; without files it plays the\n\
                     \u{20}                                    corpus and the examples, and measures, which takes an hour\n\
                     \u{20}      kube-simulator figures [NAME…]  measures only\n\
                     \u{20}      kube-simulator traces NUMBER    plays one plan NUMBER times, and prints a hash of the traces";

/// Runs a command of the program.
pub(crate) fn run(mut arguments: impl Iterator<Item = String>) -> ExitCode {
    let command = arguments.next().unwrap_or_default();
    let rest: Vec<String> = arguments.collect();
    let result = match (&*command, &*rest) {
        ("report", []) => searches::play().and_then(|searches| report_with_figures(&searches)),
        ("report", files) => {
            let files: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
            searches::read(&files).map(|searches| ExitCode::from(print_summary(&searches)))
        }
        ("figures", names) => figures::measure(names).map(|figures| print(&figures)),
        ("traces", [number]) => {
            number.parse().map_err(|_| format!("{number:?} is not a number")).and_then(figures::print_traces)
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(64);
        }
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

/// Prints a summary of searches and measured figures, and returns the exit code.
fn report_with_figures(searches: &[Value]) -> Result<ExitCode, String> {
    let code_of_searches = print_summary(searches);
    let figures = figures::measure(&[])?;
    println!();
    let code = print(&figures);
    Ok(match code_of_searches {
        0 => code,
        other => ExitCode::from(other),
    })
}

/// Prints a summary of searches, and returns its exit code.
fn print_summary(searches: &[Value]) -> u8 {
    let summary = searches::Summary::of(searches);
    print!("{summary}");
    summary.exit_code()
}

/// Prints a table of figures, and returns the exit code.
fn print(figures: &[Figure]) -> ExitCode {
    println!("| figure | measured | goal | met |\n|---|---|---|---|");
    for figure in figures {
        println!("{figure}");
    }
    match figures.iter().find(|figure| !figure.is_met) {
        None => ExitCode::SUCCESS,
        Some(figure) if figure.is_determinism => ExitCode::from(2),
        Some(_) => ExitCode::FAILURE,
    }
}
