//! Searches of the corpus and of the examples, which tests play, and their summary.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::cargo::cargo;

/// Budget of each search. A bug must be found earlier.
pub(crate) const BUDGET: &str = "600s";

/// Goals: seconds of processor time within which a bug is found, and lines of its story.
const LONGEST: f64 = 60.0;
const LINES: u64 = 15;

/// End of the names of tests of operators without a bug in the corpus.
const CORRECTED: &str = "::the_corrected_operator_has_no_finding";

/// End of the names of other tests of operators without a bug, which are of ordinary shapes.
const ORDINARY: &str = "_no_finding";

/// Mark of the tests of examples in the reports, which have no bugs.
const EXAMPLE: &str = "example ";

/// A program with simulations as tests.
struct TestProgram {
    package: &'static str,
    /// The integration test or the program that contains the tests, as arguments of cargo.
    target: [&'static str; 2],
    /// Part of the names of the tests; empty: all tests.
    filter: &'static str,
}

impl TestProgram {
    fn is_example(&self) -> bool {
        self.package != "kube-simulator"
    }
}

const fn program(package: &'static str, target: [&'static str; 2], filter: &'static str) -> TestProgram {
    TestProgram { package, target, filter }
}

/// Simulations of the corpus, and of the examples.
const PROGRAMS: [TestProgram; 7] = [
    program("kube-simulator", ["--test", "corpus"], ""),
    program("kube-simulator", ["--test", "further"], ""),
    program("guestbook", ["--test", "simulation"], ""),
    program("pod-labeller", ["--bin", "pod-labeller"], "labels_survive"),
    program("secret-sync", ["--test", "simulation"], ""),
    program("metadata-watcher", ["--test", "simulation"], ""),
    program("leader-election", ["--bin", "leader-election"], "a_candidate_leads_again"),
];

/// Runs the corpus and the examples, and returns their reports.
pub(crate) fn play() -> Result<Vec<Value>, String> {
    let folder = std::env::temp_dir().join(format!("kube-simulator-report-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let searches = play_in(&folder);
    // The reports are read; a file that stays does no harm.
    let _ = std::fs::remove_dir_all(&folder);
    searches
}

fn play_in(folder: &Path) -> Result<Vec<Value>, String> {
    let compiled = compile()?;
    let mut all = Vec::new();
    for (number, program) in PROGRAMS.iter().enumerate() {
        let file = folder.join(number.to_string());
        program.run(&compiled, &file)?;
        let name = format!("{} {}", program.package, program.target.join(" "));
        let text = std::fs::read_to_string(&file)
            .map_err(|error| format!("the tests of {name} wrote no report: {error}"))?;
        for line in text.lines() {
            let mut search = parse(&file, line)?;
            // The test of an example may have any name. The mark says in the summary that the example has no bug.
            if program.is_example() {
                search["test"] = format!("{EXAMPLE}{}", program.package).into();
            }
            all.push(search);
        }
    }
    Ok(all)
}

/// Compiles all test programs with one call of cargo, because a package alone may have its dependencies with other features. Returns the
/// messages of cargo, which name the programs.
fn compile() -> Result<Vec<Value>, String> {
    let mut command = cargo();
    command.args(["test", "--no-run", "--message-format=json-render-diagnostics"]);
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    // With this feature the dependencies are those of this program.
    command.args(["--features", "kube-simulator/report"]);
    for program in &PROGRAMS {
        command.args(["-p", program.package]).args(program.target);
    }
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cargo cannot be run: {error}"))?;
    if !output.status.success() {
        return Err("the simulations do not compile".to_owned());
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    messages
        .lines()
        .map(|line| serde_json::from_str(line).map_err(|error| format!("cargo printed {line:?}: {error}")))
        .collect()
}

impl TestProgram {
    /// Plays the tests, which write their reports into a file.
    fn run(&self, compiled: &[Value], report: &Path) -> Result<(), String> {
        let (program, package) = self.find_in(compiled)?;
        let mut command = Command::new(program);
        // As `cargo test` starts it.
        command.current_dir(package).env("CARGO_MANIFEST_DIR", package);
        command.args((!self.filter.is_empty()).then_some(self.filter)).arg("--test-threads=1");
        command.env("SIMULATION_REPORT", report).env("SIMULATION_BUDGET", BUDGET);
        // Standard output is for the table of this program. The exit status is ignored: the report contains failed tests, too.
        command.stdout(std::io::stderr());
        command.status().map_err(|error| format!("{program} cannot be run: {error}"))?;
        Ok(())
    }

    /// Returns the path of the program, and the folder of its package.
    fn find_in<'a>(&self, compiled: &'a [Value]) -> Result<(&'a str, &'a Path), String> {
        let [_, target] = self.target;
        let is_it = |message: &&Value| {
            let package = message["package_id"].as_str().unwrap_or_default();
            // The name of a package stands in the path of its folder, or else before its version.
            let is_of_package = package.contains(&format!("/{}#", self.package))
                || package.contains(&format!("#{}@", self.package));
            is_of_package
                && message["target"]["name"] == *target
                && message["profile"]["test"] == true
                && message["executable"].is_string()
        };
        let artifact = compiled.iter().find(is_it);
        let program = artifact.and_then(|artifact| artifact["executable"].as_str());
        let manifest = artifact.and_then(|artifact| artifact["manifest_path"].as_str());
        let folder = manifest.and_then(|manifest| Path::new(manifest).parent());
        program
            .zip(folder)
            .ok_or_else(|| format!("cargo compiled no tests {} of {}", self.target.join(" "), self.package))
    }
}

/// Reads reports, one a line.
pub(crate) fn read(files: &[PathBuf]) -> Result<Vec<Value>, String> {
    let mut searches = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(file).map_err(|error| unreadable(file, &error.to_string()))?;
        for line in text.lines() {
            searches.push(parse(file, line)?);
        }
    }
    Ok(searches)
}

fn parse(file: &Path, line: &str) -> Result<Value, String> {
    serde_json::from_str(line).map_err(|error| unreadable(file, &error.to_string()))
}

fn unreadable(file: &Path, error: &str) -> String {
    format!("{} is not a report of a simulation: {error}", file.display())
}

/// Summary of searches, by operator.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    rows: Vec<String>,
    /// Whether each bug was found in time, and whether each operator without a bug got a finding.
    bugs: BTreeMap<String, bool>,
    corrected: BTreeMap<String, bool>,
    ordinary: BTreeMap<String, bool>,
    examples: BTreeMap<String, bool>,
    slowest: f64,
    /// Findings, and those with a short story, with a marked write, and with one deviation at most.
    findings: usize,
    short: usize,
    marked: usize,
    single: usize,
    /// Plans played for operators without a bug.
    plans: u64,
    is_late: bool,
}

impl Summary {
    pub(crate) fn of(searches: &[Value]) -> Self {
        let mut summary = Self::default();
        searches.iter().for_each(|search| summary.add(search));
        summary
    }

    fn add(&mut self, search: &Value) {
        let name = search["test"].as_str().unwrap_or_default();
        let seconds = search["processorSeconds"].as_f64().or_else(|| search["seconds"].as_f64());
        let seconds = seconds.unwrap_or_default();
        let found = search["found"].as_str();
        let result = match found {
            Some(oracle) => {
                let lines = search["lines"].as_u64().unwrap_or_default();
                let deviations = search["deviations"].as_u64().unwrap_or_default();
                self.findings += 1;
                self.short += usize::from(lines <= LINES);
                self.marked += usize::from(search["guilty"].is_string());
                self.single += usize::from(deviations <= 1);
                let guilty = search["guilty"].as_str().unwrap_or("no write is marked");
                let guilty: Vec<&str> = guilty.split_whitespace().skip(1).collect();
                let guilty = guilty.join(" ");
                let guilty = guilty.split('←').next().unwrap_or_default().trim();
                let s = if deviations == 1 { "" } else { "s" };
                format!("{oracle}, {deviations} deviation{s}, {lines} lines: {guilty}")
            }
            None => {
                // A search that found something ended early on purpose.
                self.is_late |= search["played"] != search["plans"];
                format!("nothing in {} of {} plans", search["played"], search["plans"])
            }
        };
        self.rows.push(format!("| `{name}` | {seconds:.2} | {result} |"));
        let operator = name.split("::").next().unwrap_or_default().to_owned();
        let played = search["played"].as_u64().unwrap_or_default();
        if let Some(example) = name.strip_prefix(EXAMPLE) {
            *self.examples.entry(example.to_owned()).or_default() |= found.is_some();
            self.plans += played;
        } else if name.ends_with(CORRECTED) {
            *self.corrected.entry(operator).or_default() |= found.is_some();
            self.plans += played;
        } else if name.ends_with(ORDINARY) {
            *self.ordinary.entry(name.to_owned()).or_default() |= found.is_some();
            self.plans += played;
        } else {
            *self.bugs.entry(operator).or_default() |= found.is_some() && seconds <= LONGEST;
            self.slowest = self.slowest.max(seconds);
        }
    }

    pub(crate) fn exit_code(&self) -> u8 {
        // A report without any search of the corpus would otherwise meet all goals.
        let is_missed = self.bugs.values().any(|found| !found) || self.bugs.len() + self.corrected.len() == 0;
        let without_bug = [&self.corrected, &self.ordinary, &self.examples];
        let has_false_finding = without_bug.into_iter().flat_map(BTreeMap::values).any(|found| *found);
        if is_missed || has_false_finding {
            1
        } else if self.is_late {
            3
        } else {
            0
        }
    }
}

/// Names with a value, for a message.
fn names(of: &BTreeMap<String, bool>, value: bool) -> String {
    let named: Vec<&str> = of.iter().filter(|(_, found)| **found == value).map(|(name, _)| &**name).collect();
    if named.is_empty() { String::new() } else { format!(": {}", named.join(", ")) }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| search | seconds | result |\n|---|---:|---|")?;
        self.rows.iter().try_for_each(|row| writeln!(f, "{row}"))?;
        let count = |of: &BTreeMap<String, bool>, value| of.values().filter(|found| **found == value).count();
        writeln!(f, "\n| searches | measured | goal |\n|---|---|---|")?;
        let (bugs, findings) = (self.bugs.len(), self.findings);
        let (found, missed) = (count(&self.bugs, true), names(&self.bugs, false));
        writeln!(f, "| bugs found within {LONGEST} s of processor time{missed} | {found} of {bugs} | all |")?;
        writeln!(f, "| longest search for a bug | {:.1} s | ≤ {LONGEST} s |", self.slowest)?;
        let without_bug = [
            ("corrected operators", &self.corrected),
            ("ordinary operators", &self.ordinary),
            ("examples", &self.examples),
        ];
        for (of, all) in without_bug {
            let (found, of_them) = (count(all, true), names(all, true));
            writeln!(f, "| {of} with a finding{of_them} | {found} of {} | 0 |", all.len())?;
        }
        writeln!(f, "| plans played for operators without a bug | {} | |", self.plans)?;
        writeln!(f, "| stories of at most {LINES} lines | {} of {findings} | all |", self.short)?;
        writeln!(f, "| stories that mark the write at fault | {} of {findings} | all |", self.marked)?;
        writeln!(f, "| plans of at most one deviation | {} of {findings} | |", self.single)?;
        if self.is_late {
            writeln!(f, "\nSome searches ended with their budget, which SIMULATION_BUDGET sets.")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_test_program_is_found_among_the_messages_of_cargo() {
        let message = |package: &str, test: bool, program: &str| {
            json!({"reason": "compiler-artifact", "package_id": package, "manifest_path": "/w/examples/x/Cargo.toml",
                "target": {"name": "pod-labeller"}, "profile": {"test": test}, "executable": program})
        };
        let compiled = [
            json!({"reason": "build-script-executed", "package_id": "path+file:///w/examples/pod-labeller#0.1.0"}),
            message("path+file:///w/examples/pod-labeller#0.1.0", false, "program"),
            message("path+file:///w/examples/other-pod-labeller#0.1.0", true, "other"),
            message("path+file:///w/examples/x#pod-labeller@0.1.0", true, "tests"),
        ];
        let labeller = program("pod-labeller", ["--bin", "pod-labeller"], "");
        assert_eq!(labeller.find_in(&compiled), Ok(("tests", Path::new("/w/examples/x"))));
        let error = labeller.find_in(&compiled[..3]).unwrap_err();
        assert_eq!(error, "cargo compiled no tests --bin pod-labeller of pod-labeller");
    }

    #[test]
    fn missed_bugs_false_findings_and_unfinished_searches_have_exit_codes() {
        let bug = |found: Option<&str>, seconds: f64| {
            json!({"test": "a::is_found", "found": found, "processorSeconds": seconds, "lines": 12, "deviations": 1,
                "guilty": "  3  operator creates x   ← not in the run without faults", "plans": 3, "played": 3})
        };
        let silent = |test: &str, found: Option<&str>, played: u32| json!({"test": test, "found": found, "seconds": 1.0, "plans": 3, "played": played});
        let corrected = |found, played| silent("a::the_corrected_operator_has_no_finding", found, played);
        let code = |searches: &[Value]| Summary::of(searches).exit_code();
        assert_eq!(code(&[bug(Some("same objects"), 1.0), corrected(None, 3)]), 0);
        assert_eq!(code(&[bug(Some("same objects"), 61.0), corrected(None, 3)]), 1);
        assert_eq!(code(&[bug(None, 1.0), corrected(None, 3)]), 1);
        assert_eq!(code(&[bug(Some("quiet"), 1.0), corrected(Some("quiet"), 3)]), 1);
        assert_eq!(code(&[bug(Some("quiet"), 1.0), corrected(None, 2)]), 3);
        assert_eq!(code(&[bug(Some("quiet"), 1.0), silent("example x", Some("quiet"), 3)]), 1);
        let ordinary = |found| silent("ordinary::x::the_operator_has_no_finding", found, 3);
        assert_eq!(code(&[bug(Some("quiet"), 1.0), ordinary(None)]), 0);
        assert_eq!(code(&[bug(Some("quiet"), 1.0), ordinary(Some("same counts"))]), 1);
        assert_eq!(code(&[]), 1);
        let text = Summary::of(&[bug(Some("quiet"), 1.0), corrected(Some("quiet"), 3)]).to_string();
        assert!(text.contains("| quiet, 1 deviation, 12 lines: operator creates x |"), "{text}");
        assert!(text.contains("| corrected operators with a finding: a | 1 of 1 | 0 |"), "{text}");
    }
}
