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

/// Largest number of steps in one line, so that an operator that writes without end also gets lines.
const STEPS: usize = 6;

/// Changes of an operator's objects and their children, grouped into one line for each object.
///
/// A line ends when a condition has become true, when no step has followed for [`QUIET`], or after [`STEPS`] steps. After the creation of
/// an object the second step may follow within [`START`].
#[derive(Debug, Default)]
pub(super) struct ChangeLines {
    /// Kinds of the operator, by group and plural.
    kinds: BTreeMap<(String, String), Kind>,
    /// Unfinished lines by object.
    open: BTreeMap<String, Line>,
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
                let (step, ends) = step(before.as_ref(), after.as_ref())?;
                (format!("{} {place}", kind.kind.to_lowercase()), step, ends)
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
        Some(format!("{} {}", kind.kind.to_lowercase(), place(namespace, owner["name"].as_str()?)))
    }

    /// Returns the lines to which nothing was added for a while.
    pub(super) fn quiet(&mut self, now: Duration) -> Vec<String> {
        let over = |line: &mut Line| now >= line.end();
        self.open.extract_if(.., |_, line| over(line)).map(|(subject, line)| line.text(&subject)).collect()
    }

    /// Time at which [`quiet`](Self::quiet) returns the next line.
    pub(super) fn next(&self) -> Option<Duration> {
        self.open.values().map(Line::end).min()
    }
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

/// Describes a change of an operator's object, and returns whether a line ends with it. `None` if the
/// change does not concern users.
fn step(before: Option<&Value>, after: Option<&Value>) -> Option<(String, bool)> {
    let (before, after) = match (before, after) {
        (None, Some(_)) => return Some((CREATED.to_owned(), false)),
        (_, None) => return Some(("deleted".to_owned(), true)),
        (Some(before), Some(after)) => (before, after),
    };
    let deleted = |object: &Value| object["metadata"]["deletionTimestamp"].is_string();
    if deleted(after) && !deleted(before) {
        return Some(("deletion requested".to_owned(), false));
    }
    if before["metadata"]["generation"] != after["metadata"]["generation"] {
        return Some(("changed".to_owned(), false));
    }
    if let Some(condition) = changed_condition(before, after) {
        return Some(condition);
    }
    if before["status"] != after["status"] {
        return Some(("status written".to_owned(), false));
    }
    (before["metadata"]["finalizers"] != after["metadata"]["finalizers"])
        .then(|| ("finalizers changed".to_owned(), false))
}

/// Returns the first condition that differs, and whether it is true.
fn changed_condition(before: &Value, after: &Value) -> Option<(String, bool)> {
    let conditions = |object: &Value| object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let before = conditions(before);
    let changed = conditions(after).into_iter().find(|condition| !before.contains(condition))?;
    let text = |field: &str| changed[field].as_str().unwrap_or_default().to_owned();
    if text("status") == "True" {
        return Some((text("type"), true));
    }
    Some((format!("{} {}: {} ({})", text("type"), text("status"), text("message"), text("reason")), false))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const KIND: &str = "guestbooks example.com Guestbook Namespaced";

    /// Plays commits, each "time resource[.group] namespace/name", with the object before and after, and returns the lines with the
    /// times at which they were complete.
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
