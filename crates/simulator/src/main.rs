//! `cargo run -p kube-simulator --features report -- report`: plays the corpus of buggy operators and their twins, and sums up.
//!
//! With files that `SIMULATION_REPORT` has written, it sums these up: `… -- report file.json…`. Exit code 0: every bug was found, and
//! nothing else; 1: a bug was missed, or an operator without one was blamed; 3: the budget ended before some search.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use serde_json::Value;

/// Budget of each search. A bug must be found earlier.
const BUDGET: &str = "600s";

/// Longest time in which a bug may be found, in seconds, and longest story.
const LONGEST: f64 = 60.0;
const LINES: u64 = 15;

/// End of the names of tests of operators without a bug.
const TWIN: &str = "::the_twin_is_silent";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() != Some("report") {
        eprintln!(
            "usage: kube-simulator report [FILE…]\n\nWithout files it plays the corpus, which takes some minutes."
        );
        return ExitCode::from(64);
    }
    let mut files: Vec<PathBuf> = arguments.map(PathBuf::from).collect();
    if files.is_empty() {
        match play_corpus() {
            Ok(file) => files.push(file),
            Err(error) => {
                eprintln!("error: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    match read(&files) {
        Ok(searches) => {
            let (text, code) = summary(&searches);
            print!("{text}");
            ExitCode::from(code)
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the corpus, and returns the file with its reports.
fn play_corpus() -> Result<PathBuf, String> {
    let file = std::env::temp_dir().join(format!("kube-simulator-report-{}.json", std::process::id()));
    // A file of an earlier process with this number.
    let _ = std::fs::remove_file(&file);
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["test", "-p", "kube-simulator", "--test", "corpus"]);
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    command.args(["--", "--test-threads=1"]);
    command.env("SIMULATION_REPORT", &file).env("SIMULATION_BUDGET", BUDGET);
    // A failed test is in the report, too.
    command.status().map_err(|error| format!("cargo cannot be run: {error}"))?;
    Ok(file)
}

fn read(files: &[PathBuf]) -> Result<Vec<Value>, String> {
    let mut searches = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(file).map_err(|error| unreadable(file, &error.to_string()))?;
        for line in text.lines() {
            searches.push(serde_json::from_str(line).map_err(|error| unreadable(file, &error.to_string()))?);
        }
    }
    Ok(searches)
}

fn unreadable(file: &Path, error: &str) -> String {
    format!("{} is no report of a simulation: {error}", file.display())
}

/// Returns the table and the exit code.
fn summary(searches: &[Value]) -> (String, u8) {
    let mut text = String::new();
    let (mut bugs, mut twins) = (BTreeMap::<String, bool>::new(), BTreeMap::<String, bool>::new());
    let (mut is_late, mut is_short) = (false, true);
    let _ = writeln!(text, "{:<58} {:>8}  result", "search", "seconds");
    for search in searches {
        let name = search["test"].as_str().unwrap_or_default();
        let operator = name.split("::").next().unwrap_or_default().to_owned();
        let seconds = search["seconds"].as_f64().unwrap_or_default();
        let result = match search["found"].as_str() {
            Some(oracle) => {
                let lines = search["lines"].as_u64().unwrap_or_default();
                is_short &= lines <= LINES;
                format!("{oracle}, {} deviations, story of {lines} lines", search["deviations"])
            }
            None => {
                is_late |= search["played"] != search["plans"];
                format!("nothing in {} of {} plans", search["played"], search["plans"])
            }
        };
        let _ = writeln!(text, "{name:<58} {seconds:>8.2}  {result}");
        let is_found = search["found"].is_string();
        if name.ends_with(TWIN) {
            *twins.entry(operator).or_default() |= is_found;
        } else {
            *bugs.entry(operator).or_default() |= is_found && seconds <= LONGEST;
        }
    }
    let found = bugs.values().filter(|found| **found).count();
    let blamed: Vec<&String> = twins.iter().filter(|(_, found)| **found).map(|(name, _)| name).collect();
    let missed: Vec<&String> = bugs.iter().filter(|(_, found)| !**found).map(|(name, _)| name).collect();
    let _ = writeln!(text, "\nbugs found within {LONGEST} s     {found} of {}", bugs.len());
    let _ = writeln!(text, "operators without a bug blamed {} of {}", blamed.len(), twins.len());
    let _ =
        writeln!(text, "stories of at most {LINES} lines    {}", if is_short { "all" } else { "not all" });
    if !missed.is_empty() {
        let _ = writeln!(text, "missed: {missed:?}");
    }
    if !blamed.is_empty() {
        let _ = writeln!(text, "blamed: {blamed:?}");
    }
    if is_late {
        let _ = writeln!(text, "some searches ended with their budget: SIMULATION_BUDGET sets it");
    }
    let is_wrong = !missed.is_empty() || !blamed.is_empty() || searches.is_empty();
    (
        text,
        if is_wrong {
            1
        } else if is_late {
            3
        } else {
            0
        },
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn missed_bugs_blamed_twins_and_unfinished_searches_have_exit_codes() {
        let bug = |found: Option<&str>, seconds: f64| json!({"test": "a::is_found", "found": found, "seconds": seconds, "lines": 12, "deviations": 1, "plans": 3, "played": 3});
        let twin = |found: Option<&str>, played: u32| json!({"test": "a::the_twin_is_silent", "found": found, "seconds": 1.0, "plans": 3, "played": played});
        let code = |searches: &[Value]| summary(searches).1;
        assert_eq!(code(&[bug(Some("same objects"), 1.0), twin(None, 3)]), 0);
        assert_eq!(code(&[bug(Some("same objects"), 61.0), twin(None, 3)]), 1);
        assert_eq!(code(&[bug(None, 1.0), twin(None, 3)]), 1);
        assert_eq!(code(&[bug(Some("quiet"), 1.0), twin(Some("quiet"), 3)]), 1);
        assert_eq!(code(&[bug(Some("quiet"), 1.0), twin(None, 2)]), 3);
        assert_eq!(code(&[]), 1);
    }
}
