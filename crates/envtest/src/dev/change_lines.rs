//! Turns commits of the API server into lines such as `guestbook default/sample created → configmaps default/sample created → Ready`.

use std::{collections::BTreeMap, time::Duration};

use kube_apiserver_embedded::Commit;
use serde_json::Value;

/// Time without another step after which a line ends.
const QUIET: Duration = Duration::from_millis(200);

/// Time without another step after which a line ends if its only step is the creation of an object. It is longer, because an operator
/// that is still starting reconciles the object later.
const START: Duration = Duration::from_secs(2);

/// Text of the step in which an object of the operator is created.
const CREATED: &str = "created";

/// Time after the line of a failure at which equal failures since then are reported. It doubles with each report: a request that is retried
/// for hours gets a few lines.
const REPEATED: Duration = Duration::from_secs(2);

/// Largest number of failing objects that are remembered. The next failure of one that is forgotten is printed as its first.
const FAILING: usize = 1024;

/// Largest number of steps in one line, so that an operator that writes without end also gets lines.
const STEPS: usize = 6;

/// Changes of an operator's objects and their children, grouped into one line for each object.
///
/// A line ends when a condition has become true, when a reconcile has failed, when no step has followed for [`QUIET`], or after [`STEPS`]
/// steps. After the creation of an object the second step may follow within [`START`].
///
/// The first failure of an object has its error. Equal failures that follow are counted, until the object changes or another program starts.
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

/// An object whose latest reconcile failed.
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
        let (subject, step, ends) = match self.kinds.get(&(commit.group.clone(), commit.resource.clone())) {
            Some(kind) => {
                let Step { mut text, ends, renews } = step(before.as_ref(), after.as_ref())?;
                let subject = subject_of(&kind.kind, &place);
                if renews
                    && let Some(failing) = self.failing.remove(&subject).filter(|_| ends && after.is_some())
                {
                    let runs = if failing.failures == 1 { "run" } else { "runs" };
                    text = format!("{text} (after {} failed {runs})", failing.failures);
                }
                (subject, text, ends)
            }
            None => {
                let verb = match (&before, &after) {
                    (None, _) => "created",
                    (_, None) => "deleted",
                    _ => "changed",
                };
                (self.owner(object, &commit.namespace)?, format!("{} {place} {verb}", commit.resource), false)
            }
        };
        self.add(subject, step, ends, now)
    }

    /// Adds a failed reconcile at the time `now`, and returns the line that it completes.
    pub(super) fn failed(&mut self, failed: FailedReconcile, now: Duration) -> Option<String> {
        let subject = subject_of(&failed.kind, &place(&failed.namespace, &failed.name));
        // A line has no line breaks.
        let error = failed.error.split_whitespace().collect::<Vec<_>>().join(" ");
        if let Some(failing) = self.failing.get_mut(&subject).filter(|failing| failing.error == error) {
            failing.failures += 1;
            failing.unreported += 1;
            return None;
        }
        if self.failing.len() >= FAILING {
            self.failing.pop_first();
        }
        let step = format!("failed: {error}");
        let failing = Failing { error, failures: 1, unreported: 0, reported: now, pause: REPEATED };
        self.failing.insert(subject.clone(), failing);
        self.add(subject, step, true, now)
    }

    /// Forgets failures, because another program of the operator starts: its first failures are printed even if they are the same.
    pub(super) fn forget_failures(&mut self) {
        self.failing.clear();
    }

    /// Adds a step to the line of an object, and returns the line if it is complete.
    fn add(&mut self, subject: String, step: String, ends: bool, now: Duration) -> Option<String> {
        let new = Line { begun: now, last: now, steps: Vec::new() };
        let line = self.open.entry(subject.clone()).or_insert(new);
        line.last = now;
        line.steps.push(step);
        if !ends && line.steps.len() < STEPS {
            return None;
        }
        self.open.remove(&subject).map(|line| line.text(&subject))
    }

    /// The operator's object that controls `object`.
    fn owner(&self, object: &Value, namespace: &str) -> Option<String> {
        let owners = object["metadata"]["ownerReferences"].as_array()?;
        let owner = owners.iter().find(|owner| owner["controller"] == true)?;
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

/// A change of an operator's object.
struct Step {
    text: String,
    /// Whether a line ends with it.
    ends: bool,
    /// Whether a failure after it is printed even if it equals the one before.
    renews: bool,
}

impl Step {
    /// A change by the user.
    fn by_user(text: &str, ends: bool) -> Self {
        Self { text: text.to_owned(), ends, renews: true }
    }

    /// A change by the operator, which it may repeat with each failure.
    fn by_operator(text: impl Into<String>) -> Self {
        Self { text: text.into(), ends: false, renews: false }
    }
}

/// Describes a change of an operator's object. `None` if the change does not concern users.
fn step(before: Option<&Value>, after: Option<&Value>) -> Option<Step> {
    let (before, after) = match (before, after) {
        (None, Some(_)) => return Some(Step::by_user(CREATED, false)),
        (_, None) => return Some(Step::by_user("deleted", true)),
        (Some(before), Some(after)) => (before, after),
    };
    let deleted = |object: &Value| object["metadata"]["deletionTimestamp"].is_string();
    if deleted(after) && !deleted(before) {
        return Some(Step::by_user("deletion requested", false));
    }
    if before["metadata"]["generation"] != after["metadata"]["generation"] {
        return Some(Step::by_user("changed", false));
    }
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
        return Some(Step { text: text("type"), ends: true, renews: true });
    }
    let text = format!("{} {}: {} ({})", text("type"), text("status"), text("message"), text("reason"));
    Some(Step::by_operator(text))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const KIND: &str = "guestbooks example.com Guestbook Namespaced";

    /// Plays commits, each "time resource[.group] namespace/name", with the object before and after, and failures, each
    /// "time failed:Kind namespace/name" with the error, and compares the lines with the times at which they were complete.
    fn check(definition: &str, commits: &[(u64, &str, Value, Value)], expected: &[&str]) {
        let words: Vec<&str> = definition.split(' ').collect();
        let mut changes = ChangeLines::default();
        changes.define(words[1], words[0], words[2], words[3]);
        let mut lines = Vec::new();
        let mut take = |now: Duration, found: Vec<String>| {
            lines.extend(found.into_iter().map(|line| format!("{} {line}", now.as_millis())));
        };
        for (at, subject, before, after) in commits {
            let now = Duration::from_millis(*at);
            while let Some(next) = changes.next().filter(|next| *next <= now) {
                take(next, changes.quiet(next));
            }
            let (resource, place) = subject.split_once(' ').expect("a resource and a place");
            if let Some(kind) = resource.strip_prefix("failed:") {
                let (namespace, name) = place.split_once('/').unwrap_or(("", place));
                let [kind, namespace, name] = [kind, namespace, name].map(str::to_owned);
                let error = after.as_str().expect("an error").to_owned();
                let failed = FailedReconcile { kind, namespace, name, error };
                take(now, changes.failed(failed, now).into_iter().collect());
                continue;
            }
            let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
            let (namespace, name) = place.split_once('/').unwrap_or(("", place));
            let commit = commit(group, resource, namespace, name, before.clone(), after.clone());
            take(now, changes.commit(&commit, now).into_iter().collect());
        }
        while let Some(next) = changes.next() {
            take(next, changes.quiet(next));
        }
        assert_eq!(lines, expected);
    }

    fn commit(
        group: &str,
        resource: &str,
        namespace: &str,
        name: &str,
        before: Value,
        after: Value,
    ) -> Commit {
        let state = |state: Value| (!state.is_null()).then_some(state);
        Commit::of_parts(group, resource, namespace, name, state(before), state(after))
    }

    fn child(owner: &str) -> Value {
        let owner =
            json!({ "apiVersion": "example.com/v1", "kind": "Guestbook", "name": owner, "controller": true });
        json!({ "metadata": { "ownerReferences": [owner] } })
    }

    fn object(generation: u64, conditions: &[(&str, &str)]) -> Value {
        let conditions: Vec<Value> = conditions
            .iter()
            .map(|(kind, status)| json!({ "type": kind, "status": status, "reason": "Why", "message": "because" }))
            .collect();
        json!({ "metadata": { "generation": generation }, "status": { "conditions": conditions } })
    }

    #[test]
    fn a_line_names_the_cause_first_and_the_condition_last() {
        check(
            KIND,
            &[
                (0, "guestbooks.example.com shop/a", Value::Null, object(1, &[])),
                (2, "configmaps shop/a", Value::Null, child("a")),
                (3, "guestbooks.example.com shop/a", object(1, &[]), object(1, &[("Ready", "True")])),
                (900, "guestbooks.example.com shop/a", object(1, &[]), object(2, &[])),
                (905, "configmaps shop/a", child("a"), child("a")),
            ],
            &[
                "3 guestbook shop/a  created → configmaps shop/a created → Ready, after 3 ms",
                "1105 guestbook shop/a  changed → configmaps shop/a changed, after 5 ms",
            ],
        );
    }

    #[test]
    fn an_operator_that_starts_meanwhile_continues_the_line_of_a_created_object() {
        let created = |at| (at, "guestbooks.example.com a/b", Value::Null, object(1, &[]));
        let ready = (1600, "guestbooks.example.com a/b", object(1, &[]), object(1, &[("Ready", "True")]));
        check(KIND, &[created(0), ready], &["1600 guestbook a/b  created → Ready, after 1600 ms"]);
        check(
            KIND,
            &[created(0), (1500, "configmaps a/b", Value::Null, child("b"))],
            &["1700 guestbook a/b  created → configmaps a/b created, after 1500 ms"],
        );
        check(KIND, &[created(0)], &["2000 guestbook a/b  created"]);
    }

    #[test]
    fn a_condition_that_is_not_true_is_quoted() {
        check(
            KIND,
            &[(0, "guestbooks.example.com a/b", object(1, &[]), object(1, &[("Ready", "False")]))],
            &["200 guestbook a/b  Ready False: because (Why)"],
        );
    }

    #[test]
    fn a_deletion_ends_with_the_object() {
        let deleted = json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } });
        check(
            KIND,
            &[
                (0, "guestbooks.example.com a/b", object(1, &[]), deleted.clone()),
                (1, "configmaps a/b-archive", Value::Null, json!({ "metadata": {} })),
                (4, "guestbooks.example.com a/b", deleted, Value::Null),
                (5, "configmaps a/b", child("b"), Value::Null),
            ],
            &[
                "4 guestbook a/b  deletion requested → deleted, after 4 ms",
                "205 guestbook a/b  configmaps a/b deleted",
            ],
        );
    }

    #[test]
    fn children_of_cluster_scoped_objects_are_in_the_line_of_their_owner() {
        check(
            "guestbooks example.com Guestbook Cluster",
            &[(0, "configmaps default/a", Value::Null, child("a"))],
            &["200 guestbook a  configmaps default/a created"],
        );
    }

    #[test]
    fn an_operator_that_writes_without_end_gets_a_line_for_six_steps() {
        let write = |at: u64| {
            let state = |number: u64| json!({ "status": { "number": number } });
            (at, "guestbooks.example.com a/b", state(at), state(at + 1))
        };
        let commits: Vec<_> = (0..7).map(write).collect();
        let six = ["status written"; 6].join(" → ");
        check(
            KIND,
            &commits,
            &[&format!("5 guestbook a/b  {six}, after 5 ms"), "206 guestbook a/b  status written"],
        );
    }

    /// A failure, at this time in milliseconds.
    fn failed(at: u64, error: &str) -> (u64, &'static str, Value, Value) {
        (at, "failed:Guestbook a/b", Value::Null, json!(error))
    }

    #[test]
    fn a_failure_ends_the_line_of_its_object() {
        let changed = (0, "guestbooks.example.com a/b", object(1, &[]), object(2, &[]));
        check(
            KIND,
            &[changed, failed(3, "theme not found:\n  create it")],
            &["3 guestbook a/b  changed → failed: theme not found: create it, after 3 ms"],
        );
        check(
            "guestbooks example.com Guestbook Cluster",
            &[(5, "failed:Guestbook b", Value::Null, json!("no luck"))],
            &["5 guestbook b  failed: no luck"],
        );
    }

    /// The operator's back-off doubles from 5 ms.
    #[test]
    fn equal_failures_are_counted() {
        let backoff = (0..14).map(|attempt| (1 << attempt) * 5 - 5);
        let failures: Vec<_> = backoff.map(|at| failed(at, "no luck")).collect();
        check(
            KIND,
            &failures,
            &[
                "0 guestbook a/b  failed: no luck",
                "2000 guestbook a/b  failed 8 more times with the same error",
                "6000 guestbook a/b  failed 2 more times with the same error",
                "14000 guestbook a/b  failed once more with the same error",
                "30000 guestbook a/b  failed once more with the same error",
                "62000 guestbook a/b  failed once more with the same error",
            ],
        );
    }

    #[test]
    fn a_failure_is_printed_again_if_it_differs_or_the_object_changed() {
        let status = |condition: &str| object(1, &[("Ready", condition)]);
        let name = "guestbooks.example.com a/b";
        check(
            KIND,
            &[
                failed(0, "no luck"),
                failed(10, "no luck"),
                failed(20, "no theme"),
                // The operator reports the failure in the status: no news.
                (30, name, status("Unknown"), status("False")),
                failed(31, "no theme"),
                (1000, name, object(1, &[]), object(2, &[])),
                failed(1001, "no theme"),
                failed(1010, "no theme"),
                (1500, name, status("False"), status("True")),
                failed(1600, "no theme"),
                (1700, name, status("True"), Value::Null),
            ],
            &[
                "0 guestbook a/b  failed: no luck",
                "20 guestbook a/b  failed: no theme",
                "230 guestbook a/b  Ready False: because (Why)",
                "1001 guestbook a/b  changed → failed: no theme, after 1 ms",
                "1500 guestbook a/b  Ready (after 2 failed runs)",
                "1600 guestbook a/b  failed: no theme",
                "1700 guestbook a/b  deleted",
            ],
        );
    }

    #[test]
    fn another_program_has_failures_of_its_own_and_few_objects_are_remembered() {
        let failed = |name: &str| FailedReconcile {
            kind: "Guestbook".to_owned(),
            namespace: "a".to_owned(),
            name: name.to_owned(),
            error: "no luck".to_owned(),
        };
        let mut changes = ChangeLines::default();
        let line = |name: &str| Some(format!("guestbook a/{name}  failed: no luck"));
        assert_eq!(changes.failed(failed("b"), Duration::ZERO), line("b"));
        assert_eq!(changes.failed(failed("b"), Duration::ZERO), None);
        changes.forget_failures();
        assert_eq!(changes.failed(failed("b"), Duration::ZERO), line("b"));
        for number in 0..2 * FAILING {
            let name = format!("c{number}");
            assert_eq!(changes.failed(failed(&name), Duration::ZERO), line(&name));
        }
        assert_eq!(changes.failing.len(), FAILING);
    }

    #[test]
    fn labels_and_objects_of_others_make_no_line() {
        let labelled = |label: &str| json!({ "metadata": { "labels": { "a": label } } });
        let commits = [
            (0, "guestbooks.example.com a/b", labelled("x"), labelled("y")),
            (1, "secrets a/b", Value::Null, labelled("x")),
        ];
        check(KIND, &commits, &[]);
    }
}
