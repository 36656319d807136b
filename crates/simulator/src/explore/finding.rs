//! A run that violates a rule, as a story.

use std::{fmt, path::PathBuf, sync::Arc};

use crate::{
    judge::Violation,
    oracle::Oracle,
    plan::Plan,
    run::Outcome,
    trace::{Entry, MARK, Suspect, story},
};

/// Maximum number of lines of a finding, with the line that names the simulation and those that replay it.
const LINES: usize = 15;

/// Maximum number of characters of an error in a finding.
const LONGEST_ERROR: usize = 160;

/// A run that violates a rule.
///
/// Its text is the story: the violation, the events, the guilty write, and the plan.
#[derive(Debug, Clone)]
pub struct Finding {
    oracle: Oracle,
    title: String,
    /// The object that the violation is about.
    suspect: Suspect,
    /// Lines between the title and the story: the rule and other facts.
    facts: Vec<String>,
    plan: Plan,
    entries: Arc<[Entry]>,
    without_faults: Arc<[Entry]>,
    /// Number of deviations before the plan was shrunk.
    shrunk_from: usize,
    /// The trace file, if it was written, and the name of the test.
    saved: Option<(PathBuf, String)>,
}

impl Finding {
    /// The violated rule.
    #[must_use]
    pub fn oracle(&self) -> Oracle {
        self.oracle
    }

    /// The deviations that lead to the violation: [`Simulation::replay`](crate::Simulation::replay) plays them.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Every action of the run, one a line.
    #[must_use]
    pub fn trace(&self) -> Vec<String> {
        self.entries.iter().map(ToString::to_string).collect()
    }

    /// The trace file, which the environment variable `SIMULATION` replays. Written by
    /// [`Simulation::explore`](crate::Simulation::explore).
    #[must_use]
    pub fn trace_file(&self) -> Option<&std::path::Path> {
        self.saved.as_ref().map(|(path, _)| &**path)
    }

    /// The line of the story with the guilty write.
    pub(crate) fn guilty(&self) -> Option<String> {
        let story = story(&self.entries, &self.without_faults, &self.suspect, LINES);
        story.into_iter().find(|line| line.contains(MARK))
    }

    pub(crate) fn title(&self) -> &str {
        &self.title
    }

    pub(crate) fn suspect(&self) -> &Suspect {
        &self.suspect
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub(crate) fn without_faults(&self) -> &[Entry] {
        &self.without_faults
    }

    pub(crate) fn save_as(&mut self, path: PathBuf, test: &str) {
        self.saved = Some((path, test.to_owned()));
    }

    /// Sets the number of deviations that the plan had before it was shrunk.
    pub(super) fn shrunk_from(&mut self, deviations: usize) {
        self.shrunk_from = deviations;
    }

    /// A violation in a run of `plan`. `place` says which run that was, such as `plan 3 of 7`.
    pub(super) fn new(
        place: &str,
        violation: &Violation,
        plan: &Plan,
        run: &Outcome,
        reference: Option<&Outcome>,
    ) -> Self {
        let mut facts = vec![format!("violates: {}", violation.oracle)];
        if !place.is_empty() {
            facts[0].push_str(&format!("; {place}"));
        }
        facts.extend(violation.details.iter().map(|line| format!("also: {line}")));
        if let Some(error) = run.errors.last() {
            let line = error.lines().next().unwrap_or_default();
            let short: String = line.chars().take(LONGEST_ERROR).collect();
            facts.push(format!("last error: {short}{}", if short.len() < line.len() { "…" } else { "" }));
        }
        Self {
            oracle: violation.oracle,
            title: violation.title.clone(),
            suspect: violation.suspect.clone(),
            facts,
            plan: plan.clone(),
            entries: run.trace.clone().into(),
            without_faults: reference.map(|reference| reference.trace.clone().into()).unwrap_or_default(),
            shrunk_from: plan.deviations.len(),
            saved: None,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.title)?;
        let deviations = self.plan.deviations.len();
        for (place, fact) in self.facts.iter().enumerate() {
            write!(f, "\n  {fact}")?;
            if place == 0 && self.shrunk_from > deviations {
                write!(f, ", shrunk from {} deviations to {deviations}", self.shrunk_from)?;
            }
        }
        // The story gets the lines that are left of the limit, but never fewer than four, for the guilty
        // write and the faults around it.
        let other_lines = 1 + self.facts.len() + deviations + if self.saved.is_some() { 2 } else { 0 };
        let lines = LINES.saturating_sub(other_lines).max(4);
        for line in story(&self.entries, &self.without_faults, &self.suspect, lines) {
            write!(f, "\n  {line}")?;
        }
        for deviation in &self.plan.deviations {
            write!(f, "\n  replay: {deviation}")?;
        }
        if let Some((path, test)) = &self.saved {
            write!(f, "\n  or:      SIMULATION={} cargo test {test}", path.display())?;
            write!(f, "\n  picture: {}", path.with_extension("html").display())?;
        }
        Ok(())
    }
}
