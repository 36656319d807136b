//! Tests of the lines about changes, with commits and failures as they arrive.

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
            take(now, changes.failed(&failed, now).into_iter().collect());
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

fn commit(group: &str, resource: &str, namespace: &str, name: &str, before: Value, after: Value) -> Commit {
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
        .map(
            |(kind, status)| json!({ "type": kind, "status": status, "reason": "Why", "message": "because" }),
        )
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
    assert_eq!(changes.failed(&failed("b"), Duration::ZERO), line("b"));
    assert_eq!(changes.failed(&failed("b"), Duration::ZERO), None);
    changes.forget_failures();
    assert_eq!(changes.failed(&failed("b"), Duration::ZERO), line("b"));
    for number in 0..2 * FAILING {
        let name = format!("c{number}");
        assert_eq!(changes.failed(&failed(&name), Duration::ZERO), line(&name));
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
