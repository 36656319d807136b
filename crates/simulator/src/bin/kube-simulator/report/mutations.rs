//! Guarantees of the framework that are switched off one by one in a copy of its sources. A simulation of the suite must find each.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
};

use super::{figures::Figure, searches};
use crate::cargo::cargo;

/// Environment variable that names the guarantee to switch off, and the text for its test in [`Mutation::to`].
const SWITCHED_OFF: &str = "SIMULATION_SWITCHED_OFF";
const IS_OFF: &str = "IS_OFF";

/// A change of the sources that takes a guarantee away, and the test that must find it.
struct Mutation {
    /// The guarantee that is switched off.
    without: &'static str,
    file: &'static str,
    /// Text that stands once in the file, and the text in its place, in which [`IS_OFF`] stands for the test of the environment variable.
    from: &'static str,
    to: &'static str,
    /// Test target of this package, and the test.
    target: &'static str,
    test: &'static str,
    /// Rules one of which the finding must name.
    violates: &'static [&'static str],
}

/// Changes that are compiled together, because an environment variable selects one of them at run time.
const SELECTED: [Mutation; 3] = [
    Mutation {
        without: "own writes in cached reads",
        file: "crates/controller-runtime/src/client/requests/write.rs",
        from: "let own_writes = self.settings().own_writes.as_ref().filter(|_| to_cache && !call.dry_run);",
        to: "let own_writes = self.settings().own_writes.as_ref().filter(|_| to_cache && !call.dry_run && !IS_OFF);",
        target: "machinery",
        test: "framework::a_cache_shows_own_writes_before_the_watch_reports_them",
        violates: &["same objects", "same counts"],
    },
    Mutation {
        without: "preconditions of deletes",
        file: "crates/controller-runtime/src/client/requests/delete.rs",
        from: "self.options.preconditions = Preconditions::of(meta);",
        to: "if !IS_OFF { self.options.preconditions = Preconditions::of(meta); }",
        target: "corpus",
        test: "grave_robber::the_corrected_operator_has_no_finding",
        violates: &["same objects", "same counts"],
    },
    Mutation {
        without: "the permit to write",
        file: "crates/controller-runtime/src/client/transport/exchange.rs",
        from: "let permits = settings.gates.iter().map(|gate| gate.permit(call));",
        to: "let permits = settings.gates.iter().filter(|_| !IS_OFF).map(|gate| gate.permit(call));",
        target: "machinery",
        test: "framework::a_process_that_has_lost_its_lease_writes_no_more",
        violates: &["one at a time"],
    },
];

/// A change that takes effect when it is compiled.
const COMPILED: [Mutation; 1] = [Mutation {
    without: "the order of the branches of a `select!`",
    file: "crates/controller-runtime/src/controller/worker.rs",
    from: "must not keep a worker from stopping.\n                biased;",
    to: "must not keep a worker from stopping.",
    target: "machinery",
    test: "framework::a_surplus_worker_stops_although_requests_wait",
    violates: &["repeats"],
}];

/// Sets of changes, each of which is compiled.
const MUTATIONS: [&[Mutation]; 2] = [&SELECTED, &COMPILED];

/// Folder of the workspace.
fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

impl Mutation {
    /// Returns the changed source.
    fn apply_to(&self, source: &str) -> Result<String, String> {
        let is_off = format!("std::env::var({SWITCHED_OFF:?}).is_ok_and(|off| off == {:?})", self.without);
        match source.matches(self.from).count() {
            // A text that is found twice or not at all no longer names the guarantee.
            1 => Ok(source.replacen(self.from, &self.to.replace(IS_OFF, &is_off), 1)),
            count => Err(format!("{} contains {count} times, not once: {}", self.file, self.from)),
        }
    }

    /// Changes the copy of the sources, and returns the text before.
    fn change(&self, copy: &Path) -> Result<String, String> {
        let file = copy.join(self.file);
        let source = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        fs::write(&file, self.apply_to(&source)?).map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(source)
    }

    /// Plays the test, and returns the rule that the finding names.
    fn test_in(&self, copy: &Path) -> Result<Option<String>, String> {
        let report = copy.join("report.json");
        // Without a report of an earlier test there is nothing to remove.
        let _ = fs::remove_file(&report);
        let mut command = cargo();
        command.current_dir(copy).args(["test", "-p", "kube-simulator", "--test", self.target]);
        command.args(["--", "--exact", self.test]);
        command.env("SIMULATION_REPORT", &report).env("SIMULATION_BUDGET", searches::BUDGET);
        command.env(SWITCHED_OFF, self.without);
        // Dependencies from registries are not compiled again.
        command.env("CARGO_TARGET_DIR", target_folder(copy)?);
        command.stdout(Stdio::null());
        let status = command.status().map_err(|error| format!("cargo cannot be run: {error}"))?;
        let reports = searches::read(&[report])
            .map_err(|error| format!("the test {} wrote no report ({status}): {error}", self.test))?;
        Ok(reports.iter().find_map(|search| search["found"].as_str().map(str::to_owned)))
    }
}

/// Folder for the compiled copy: the one of this program.
fn target_folder(copy: &Path) -> Result<PathBuf, String> {
    let program = std::env::current_exe().map_err(|error| format!("this program has no path: {error}"))?;
    Ok(program.ancestors().nth(2).map_or_else(|| copy.join("target"), Path::to_owned))
}

/// Copies the files of a folder, without compiled ones and those of version control.
fn copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (name, source) = (entry.file_name(), entry.path());
        match entry.file_type()? {
            _ if name == "target" || name == ".git" => {}
            kind if kind.is_dir() => copy_folder(&source, &to.join(name))?,
            _ => fs::copy(&source, to.join(name)).map(drop)?,
        }
    }
    Ok(())
}

/// Switches each guarantee off, and counts those that the suite finds.
pub(crate) fn play() -> Result<Figure, String> {
    let folder = std::env::temp_dir().join(format!("kube-simulator-mutations-{}", std::process::id()));
    let played = copy_folder(&workspace(), &folder)
        .map_err(|error| format!("{}: {error}", folder.display()))
        .and_then(|()| play_in(&folder));
    // A copy that stays does no harm.
    let _ = fs::remove_dir_all(&folder);
    played
}

fn play_in(folder: &Path) -> Result<Figure, String> {
    let (mut missed, mut number) = (Vec::new(), 0);
    for together in MUTATIONS {
        let mut originals = Vec::new();
        for mutation in together {
            // All changes of a set are made before the first test, so that cargo compiles the set once.
            originals.push((folder.join(mutation.file), mutation.change(folder)?));
        }
        for mutation in together {
            let found = mutation.test_in(folder)?;
            let is_found = found.as_deref().is_some_and(|rule| mutation.violates.contains(&rule));
            eprintln!("without {}: {}", mutation.without, found.as_deref().unwrap_or("nothing is found"));
            number += 1;
            if !is_found {
                missed.push(mutation.without);
            }
        }
        for (file, source) in originals {
            // The next set must change the original sources.
            fs::write(&file, source).map_err(|error| format!("{}: {error}", file.display()))?;
        }
    }
    let names = if missed.is_empty() { String::new() } else { format!(" (not: {})", missed.join(", ")) };
    Ok(Figure {
        name: "guarantees of the framework whose loss the suite finds".to_owned(),
        measured: format!("{} of {number}{names}", number - missed.len()),
        goal: "all".to_owned(),
        is_met: missed.is_empty(),
        is_determinism: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_has_one_place_in_the_sources() {
        for mutation in MUTATIONS.into_iter().flatten() {
            let source = fs::read_to_string(workspace().join(mutation.file)).expect("a file");
            let changed = mutation.apply_to(&source).expect("one place");
            assert_ne!(changed, source, "{}", mutation.without);
            assert!(!changed.contains(IS_OFF), "{changed}");
        }
    }

    #[test]
    fn a_change_without_its_place_is_an_error() {
        let error = COMPILED[0].apply_to("fn main() {}").unwrap_err();
        assert!(error.contains("contains 0 times, not once"), "{error}");
    }
}
