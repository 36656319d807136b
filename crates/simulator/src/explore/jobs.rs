//! A search shared by several processes: the test starts its own program once for each share of the plans.

use std::{
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use serde_json::Value;

use super::Report;

/// Starts `jobs` processes of the test in this program, waits for all, and sums their reports up.
///
/// # Errors
///
/// Output of the first process that failed.
pub(crate) fn run(test: &str, jobs: usize) -> Result<Report, String> {
    let program = std::env::current_exe().map_err(|error| format!("this program has no path: {error}"))?;
    let file = |number: usize| {
        std::env::temp_dir().join(format!("kube-simulator-{}-{number}.json", std::process::id()))
    };
    let start = |number: usize| {
        let mut command = Command::new(&program);
        command.args(["--exact", test, "--nocapture"]);
        command.env_remove("SIMULATION_JOBS").env("SIMULATION_SHARE", format!("{number}/{jobs}"));
        command.env("SIMULATION_PART", file(number));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().map_err(|error| format!("{} does not start: {error}", program.display()));
        child.map(|child| (child, file(number)))
    };
    let children: Vec<(Child, PathBuf)> = (1..=jobs).map(start).collect::<Result<_, _>>()?;
    let (mut report, mut failed) = (Report::of_no_plan(), None);
    // All of them are waited for, so that none outlives the test.
    for (child, file) in children {
        let output = child.wait_with_output().map_err(|error| format!("a process of the search: {error}"))?;
        let part = std::fs::read_to_string(&file).ok();
        // Fails if the process did not write it.
        let _ = std::fs::remove_file(&file);
        if !output.status.success() {
            let [out, errors] =
                [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
            failed = failed.or(Some(story(&errors).map_or(format!("{out}{errors}"), str::to_owned)));
            continue;
        }
        let part = part.and_then(|text| serde_json::from_str::<Value>(&text).ok());
        match part {
            Some(part) => report.add(&part),
            None => {
                let text = String::from_utf8_lossy(&output.stdout).into_owned();
                failed = failed.or(Some(format!("a process of the search played no plan:\n{text}")));
            }
        }
    }
    failed.map_or(Ok(report), Err)
}

/// Finds the story of a finding in the output of a process.
fn story(output: &str) -> Option<&str> {
    let story = &output[output.find("simulation \"")?..];
    story.split("\n\n").next().map(str::trim_end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_story_is_extracted_from_the_output() {
        let output =
            "\nthread 'a' panicked at b.rs:1:2:\nsimulation \"pages\": x\n  violates: y\n\nnote: run with";
        assert_eq!(story(output), Some("simulation \"pages\": x\n  violates: y"));
        assert_eq!(story("error: no test"), None);
    }
}
