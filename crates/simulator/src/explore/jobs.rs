//! A search shared by several processes: the test starts its own program once for each share of the plans.

use std::{
    cell::Cell,
    fs::OpenOptions,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::atomic::{AtomicU64, Ordering},
};

use serde_json::Value;

use super::Report;

thread_local! {
    /// Number of searches that the test of this thread has shared.
    static SEARCHES: Cell<usize> = const { Cell::new(0) };
}

/// A process that plays a share of the plans. It is killed when this value is dropped.
struct Job {
    /// `None` after [`wait`](Self::wait).
    child: Option<Child>,
    /// File to which the process appends a line for each search of the test: a [`Report`] as JSON.
    part: PathBuf,
}

impl Job {
    fn start(mut command: Command) -> Result<Self, String> {
        let part = part_file();
        // An earlier program with the same process id may have left this file.
        let _ = std::fs::remove_file(&part);
        // The report comes in a file, because the output of the test may contain anything.
        command.env("SIMULATION_PART", &part);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let program = command.get_program().to_owned();
        let child =
            command.spawn().map_err(|error| format!("{} does not start: {error}", program.display()))?;
        Ok(Self { child: Some(child), part })
    }

    /// Waits for the end of the process.
    fn wait(&mut self) -> Result<Output, String> {
        let child = self.child.take().ok_or("a process of the search has been waited for")?;
        child.wait_with_output().map_err(|error| format!("a process of the search: {error}"))
    }

    /// Report of the search with this number, if the process has written it.
    fn report(&self, search: usize) -> Option<Value> {
        let text = std::fs::read_to_string(&self.part).ok()?;
        serde_json::from_str(text.lines().nth(search)?).ok()
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // Both calls fail if the process has ended.
            let _ = child.kill();
            let _ = child.wait();
        }
        // Fails if the process did not write it.
        let _ = std::fs::remove_file(&self.part);
    }
}

/// Path of a file that no other process of any search uses.
fn part_file() -> PathBuf {
    static FILES: AtomicU64 = AtomicU64::new(0);
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("kube-simulator-{}-{number}.json", std::process::id()))
}

/// Adds the report of a search to the file of this process.
///
/// # Errors
///
/// The file cannot be written.
pub(crate) fn add_part(part: &Path, report: &Report) -> io::Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(part)?;
    writeln!(file, "{}", report.to_json())
}

/// Starts `jobs` processes of the test in this program, waits for all, and sums their reports up.
///
/// # Errors
///
/// Output of the first process that failed.
pub(crate) fn run(test: &str, jobs: usize) -> Result<Report, String> {
    let program = std::env::current_exe().map_err(|error| format!("this program has no path: {error}"))?;
    // Each process plays all searches of the test, in the same order.
    let search = SEARCHES.replace(SEARCHES.get() + 1);
    let start = |number: usize| {
        let mut command = Command::new(&program);
        // Without capture the panic message, which contains the story, goes to stderr, where `story` looks
        // for it.
        command.args(["--exact", test, "--nocapture"]);
        // A process that saw this variable would start processes itself.
        command.env_remove("SIMULATION_JOBS").env("SIMULATION_SHARE", format!("{number}/{jobs}"));
        Job::start(command)
    };
    // All are started before the first is waited for. If one does not start, the drop of the others ends
    // them.
    let started: Vec<Job> = (1..=jobs).map(start).collect::<Result<_, _>>()?;
    let (mut parts, mut failed) = (Vec::new(), None);
    for mut job in started {
        let output = job.wait()?;
        if !output.status.success() {
            let [out, errors] =
                [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
            // The loop goes on after a failure: the other processes still write their trace files.
            failed = failed.or(Some(story(&errors).map_or(format!("{out}{errors}"), str::to_owned)));
            continue;
        }
        match job.report(search) {
            Some(part) => parts.push(part),
            None => {
                let text = String::from_utf8_lossy(&output.stdout).into_owned();
                failed = failed.or(Some(format!("a process of the search played no plan:\n{text}")));
            }
        }
    }
    failed.map_or_else(|| Ok(Report::of_parts(&parts)), Err)
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

    #[test]
    fn each_process_has_a_file_of_its_own_and_a_line_in_it_for_each_search() {
        let job = Job { child: None, part: part_file() };
        assert_ne!(job.part, part_file());
        for plans in [1, 2] {
            add_part(&job.part, &Report { plans, ..Report::of_no_plan() }).unwrap();
        }
        let plans = |search| job.report(search).map(|report| report["plans"].clone());
        assert_eq!([plans(0), plans(1), plans(2)], [Some(1.into()), Some(2.into()), None]);
        let part = job.part.clone();
        drop(job);
        assert!(!part.exists());
    }

    #[cfg(unix)]
    #[test]
    fn a_process_ends_when_the_search_fails_before_it_is_waited_for() {
        let mut command = Command::new("sleep");
        command.arg("600");
        let job = Job::start(command).unwrap();
        let id = job.child.as_ref().map(Child::id).unwrap().to_string();
        let is_alive = || {
            let asked = Command::new("kill").args(["-0", &id]).stderr(Stdio::null()).status();
            asked.unwrap().success()
        };
        assert!(is_alive());
        drop(job);
        assert!(!is_alive());
    }
}
