//! Turns commits of the API server into lines such as `guestbook default/sample created → configmaps default/sample created → Ready`.

use std::{collections::BTreeMap, time::Duration};

use kube_apiserver_embedded::Commit;
use serde_json::Value;

/// Time without another step after which a line ends.
const QUIET: Duration = Duration::from_millis(200);

/// Like [`QUIET`], for a line whose only step is the creation of an object. Longer, because an operator that is still starting reconciles
/// the object later.
const START: Duration = Duration::from_secs(2);

/// Text of the step in which an object of the operator is created.
const CREATED: &str = "created";

/// Time between the line about a failure and the first report of its repetitions. It doubles with each report, so that a request that is
/// retried for hours gets few lines.
const REPEATED: Duration = Duration::from_secs(2);

/// Maximum number of failing objects that are remembered. The next failure of a forgotten object is printed like its first one.
const FAILING: usize = 1024;

/// Maximum number of steps in one line, so that lines also end for an operator that never stops writing.
const STEPS: usize = 6;

/// Changes of an operator's objects and their children, grouped into one line for each object.
///
/// A line ends when a condition has become true, when a reconcile has failed, when no step has followed for [`QUIET`], or after [`STEPS`]
/// steps. After the creation of an object the second step may follow within [`START`].
///
/// The line of an object's first failure has the error. Further failures with the same error are counted, until the object changes or
/// another program starts.
#[derive(Debug, Default)]
pub(super) struct ChangeLines {
    /// Kinds of the operator, by group and plural.
    kinds: BTreeMap<(String, String), Kind>,
    /// Unfinished lines by object.
    open: BTreeMap<String, Line>,
    /// Latest failures by object; at most [`FAILING`].
    failing: BTreeMap<String, Failing>,
}

/// A failed reconcile of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FailedReconcile {
    /// Kind of the object, such as `Guestbook`.
    pub(super) kind: String,
    /// Namespace of the object; empty if its kind has none.
    pub(super) namespace: String,
    /// Name of the object.
    pub(super) name: String,
    /// Error of the reconcile.
    pub(super) error: String,
}

/// An object that failed in its latest reconcile.
#[derive(Debug)]
struct Failing {
    error: String,
    /// Failures with this error.
    failures: u64,
    /// Failures that no line has reported.
    unreported: u64,
    /// Time of the latest line about them.
    reported: Duration,
    /// Time from that line to the next.
    pause: Duration,
}

#[derive(Debug)]
struct Kind {
    kind: String,
    is_namespaced: bool,
}

#[derive(Debug)]
struct Line {
    begun: Duration,
    last: Duration,
    steps: Vec<String>,
}

impl ChangeLines {
    /// Adds a kind of the operator. A commit of its definition does so too.
    pub(super) fn define(&mut self, group: &str, plural: &str, kind: &str, scope: &str) {
        let kind = Kind { kind: kind.to_owned(), is_namespaced: scope == "Namespaced" };
        self.kinds.insert((group.to_owned(), plural.to_owned()), kind);
    }

    /// Adds a commit at the time `now`, and returns the line that it completes.
    pub(super) fn commit(&mut self, commit: &Commit, now: Duration) -> Option<String> {
        let (before, after) = (commit.before(), commit.after());
        let object = after.as_ref().or(before.as_ref())?;
        if commit.resource == "customresourcedefinitions" {
            let (spec, names) = (&object["spec"], &object["spec"]["names"]);
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            self.define(
                &text(&spec["group"]),
                &text(&names["plural"]),
                &text(&names["kind"]),
                &text(&spec["scope"]),
            );
            return None;
        }
        let place = place(&commit.namespace, &commit.name);
        let (subject, step, line) = match self.kinds.get(&(commit.group.clone(), commit.resource.clone())) {
            Some(kind) => {
                let Step { mut text, line, renews } = step(before.as_ref(), after.as_ref())?;
                let subject = subject_of(&kind.kind, &place);
                // A condition that became true is a success. A deletion also ends the line, but no run
                // succeeded.
                let succeeds = line == LineAfter::Ends && after.is_some();
                if renews && let Some(failing) = self.failing.remove(&subject).filter(|_| succeeds) {
                    let runs = if failing.failures == 1 { "run" } else { "runs" };
                    text = format!("{text} (after {} failed {runs})", failing.failures);
                }
                (subject, text, line)
            }
            None => {
                let verb = match (&before, &after) {
                    (None, _) => "created",
                    (_, None) => "deleted",
                    _ => "changed",
                };
                let step = format!("{} {place} {verb}", commit.resource);
                (self.owner(object, &commit.namespace)?, step, LineAfter::GoesOn)
            }
        };
        self.add(&subject, step, line, now)
    }

    /// Adds a failed reconcile at the time `now`, and returns the line that it completes.
    pub(super) fn failed(&mut self, failed: &FailedReconcile, now: Duration) -> Option<String> {
        let subject = subject_of(&failed.kind, &place(&failed.namespace, &failed.name));
        // An error may have line breaks, which must not split the line.
        let error = failed.error.split_whitespace().collect::<Vec<_>>().join(" ");
        if let Some(failing) = self.failing.get_mut(&subject).filter(|failing| failing.error == error) {
            failing.failures += 1;
            failing.unreported += 1;
            return None;
        }
        // The bound holds for operators that fail for many objects. An object that is left out is reported
        // again when it next fails.
        if self.failing.len() >= FAILING {
            self.failing.pop_first();
        }
        let step = format!("failed: {error}");
        let failing = Failing { error, failures: 1, unreported: 0, reported: now, pause: REPEATED };
        self.failing.insert(subject.clone(), failing);
        self.add(&subject, step, LineAfter::Ends, now)
    }

    /// Forgets failures, so that the first failures of the operator's next program are printed even if they are equal.
    pub(super) fn forget_failures(&mut self) {
        self.failing.clear();
    }

    /// Adds a step to the line of an object, and returns the line if it is complete.
    fn add(&mut self, subject: &str, step: String, after: LineAfter, now: Duration) -> Option<String> {
        let new = Line { begun: now, last: now, steps: Vec::new() };
        let line = self.open.entry(subject.to_owned()).or_insert(new);
        line.last = now;
        line.steps.push(step);
        // A line with many steps is printed although it goes on, so that an object in a loop still shows.
        if after == LineAfter::GoesOn && line.steps.len() < STEPS {
            return None;
        }
        self.open.remove(subject).map(|line| line.text(subject))
    }

    /// The operator's object that controls `object`.
    fn owner(&self, object: &Value, namespace: &str) -> Option<String> {
        let owners = object["metadata"]["ownerReferences"].as_array()?;
        let owner = owners.iter().find(|owner| owner["controller"] == true)?;
        // Kinds of the session are custom ones, whose API versions always have a group.
        let (group, _) = owner["apiVersion"].as_str()?.split_once('/')?;
        let mut kinds = self.kinds.iter().filter(|((of, _), _)| of == group);
        let (_, kind) = kinds.find(|(_, kind)| owner["kind"] == *kind.kind)?;
        let namespace = if kind.is_namespaced { namespace } else { "" };
        Some(subject_of(&kind.kind, &place(namespace, owner["name"].as_str()?)))
    }

    /// Returns the lines to which nothing was added for a while, and those about repeated failures.
    pub(super) fn quiet(&mut self, now: Duration) -> Vec<String> {
        let over = |line: &mut Line| now >= line.end();
        let over = self.open.extract_if(.., |_, line| over(line));
        let mut lines: Vec<_> = over.map(|(subject, line)| line.text(&subject)).collect();
        for (subject, failing) in &mut self.failing {
            if failing.next().is_some_and(|next| now >= next) {
                lines.push(failing.report(subject, now));
            }
        }
        lines
    }

    /// Time at which [`quiet`](Self::quiet) returns the next line.
    pub(super) fn next(&self) -> Option<Duration> {
        self.open.values().map(Line::end).chain(self.failing.values().filter_map(Failing::next)).min()
    }
}

impl Failing {
    /// Time of the next report; `None` if there is nothing to report.
    fn next(&self) -> Option<Duration> {
        (self.unreported > 0).then(|| self.reported + self.pause)
    }

    fn report(&mut self, subject: &str, now: Duration) -> String {
        let times = match std::mem::take(&mut self.unreported) {
            1 => "once more".to_owned(),
            count => format!("{count} more times"),
        };
        self.reported = now;
        self.pause *= 2;
        format!("{subject}  failed {times} with the same error")
    }
}

/// `guestbook default/sample`
fn subject_of(kind: &str, place: &str) -> String {
    format!("{} {place}", kind.to_lowercase())
}

fn place(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

impl Line {
    /// Time at which the line ends if nothing follows.
    fn end(&self) -> Duration {
        let is_start = self.steps.len() == 1 && self.steps[0] == CREATED;
        self.last + if is_start { START } else { QUIET }
    }

    fn text(&self, subject: &str) -> String {
        let took = (self.last - self.begun).as_millis();
        let after = if self.steps.len() > 1 { format!(", after {took} ms") } else { String::new() };
        format!("{subject}  {}{after}", self.steps.join(" → "))
    }
}

/// Whether the line of an object ends with a step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LineAfter {
    GoesOn,
    Ends,
}

/// A change of an operator's object.
struct Step {
    text: String,
    /// The line of the object after it.
    line: LineAfter,
    /// Whether the next failure is printed even if it equals the last one.
    renews: bool,
}

impl Step {
    /// A change by the user.
    fn by_user(text: &str, line: LineAfter) -> Self {
        Self { text: text.to_owned(), line, renews: true }
    }

    /// A change by the operator, which may occur again with each failed reconcile.
    fn by_operator(text: impl Into<String>) -> Self {
        Self { text: text.into(), line: LineAfter::GoesOn, renews: false }
    }
}

/// Describes a change of an operator's object. `None` if the change does not concern users.
fn step(before: Option<&Value>, after: Option<&Value>) -> Option<Step> {
    let (before, after) = match (before, after) {
        (None, Some(_)) => return Some(Step::by_user(CREATED, LineAfter::GoesOn)),
        (_, None) => return Some(Step::by_user("deleted", LineAfter::Ends)),
        (Some(before), Some(after)) => (before, after),
    };
    let deleted = |object: &Value| object["metadata"]["deletionTimestamp"].is_string();
    if deleted(after) && !deleted(before) {
        return Some(Step::by_user("deletion requested", LineAfter::GoesOn));
    }
    // Only a change of the specification raises the generation, and such a change is usually the user's.
    if before["metadata"]["generation"] != after["metadata"]["generation"] {
        return Some(Step::by_user("changed", LineAfter::GoesOn));
    }
    // Before the status: a condition says more than that the status was written.
    if let Some(condition) = changed_condition(before, after) {
        return Some(condition);
    }
    if before["status"] != after["status"] {
        return Some(Step::by_operator("status written"));
    }
    (before["metadata"]["finalizers"] != after["metadata"]["finalizers"])
        .then(|| Step::by_operator("finalizers changed"))
}

/// Returns the first condition that differs. A true one ends the line.
fn changed_condition(before: &Value, after: &Value) -> Option<Step> {
    let conditions = |object: &Value| object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let before = conditions(before);
    let changed = conditions(after).into_iter().find(|condition| !before.contains(condition))?;
    let text = |field: &str| changed[field].as_str().unwrap_or_default().to_owned();
    if text("status") == "True" {
        return Some(Step { text: text("type"), line: LineAfter::Ends, renews: true });
    }
    let text = format!("{} {}: {} ({})", text("type"), text("status"), text("message"), text("reason"));
    Some(Step::by_operator(text))
}

#[cfg(test)]
mod tests;
