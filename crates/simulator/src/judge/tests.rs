//! Differences between a run with faults and the run without them that are violations.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::time::Duration;

use super::*;
use crate::{
    names::{OPERATOR, ProcessName},
    run::QuietWorld,
    similar::{Learned, Masks, World},
};

#[test]
fn a_request_that_fails_in_both_runs_is_no_violation() {
    let failing = |request: &str| BTreeMap::from([(request.to_owned(), "no".to_owned())]);
    assert_eq!(compare_failures(&failing("a x"), &failing("a x")), None);
    let violation = compare_failures(&BTreeMap::new(), &failing("a x")).unwrap();
    assert!(violation.title.starts_with("a x fails forever"), "{}", violation.title);
}

#[test]
fn a_write_without_the_lead_is_a_violation_unless_it_happens_without_faults() {
    let write = |call: &str| BTreeMap::from([(call.to_owned(), "a no longer leads, but b does".to_owned())]);
    assert_eq!(compare_leads(&write("apply x"), &write("apply x")), None);
    let violation = compare_leads(&write("apply x"), &write("apply y")).unwrap();
    assert_eq!(violation.title, "a no longer leads, but b does; the former still sends: apply y");
}

#[test]
fn an_object_that_is_gone_before_the_operator_wrote_to_it_may_have_been_missed() {
    let operator = ProcessName { program: OPERATOR, replica: 0, is_tested: true };
    let operator = || Actor::Process { process: operator, life: 0 };
    let id = ObjectId::new("", "configmaps", "a", "x");
    let entry = |actor, verb| Entry {
        at: Duration::ZERO,
        action: Action::Committed(Arc::new(Change {
            actor,
            verb,
            id: id.clone(),
            family: id.clone(),
            revision: 1,
            before: None,
            after: None,
            is_visible: true,
            trespass: None,
        })),
    };
    let marked = [
        entry(Actor::User, Verb::Created),
        entry(operator(), Verb::Changed),
        entry(operator(), Verb::Deleted),
    ];
    let missed = [entry(Actor::User, Verb::Created), entry(Actor::User, Verb::Deleted)];
    let own = [entry(operator(), Verb::Created), entry(Actor::Server, Verb::Deleted)];
    assert!(is_deleted_before_its_first_write(&marked, &missed));
    assert!(!is_deleted_before_its_first_write(&missed, &missed), "it never has a finalizer");
    assert!(!is_deleted_before_its_first_write(&marked, &marked));
    assert!(!is_deleted_before_its_first_write(&own, &own), "objects of the operator are its own");
}

#[test]
fn a_difference_that_is_allowed_does_not_hide_another() {
    let outcome = |map: &str, bucket: &str| {
        let state = ObjectState::new("configmaps", json!({"data": {"a": map}}), &Masks::default());
        let world = World {
            objects: BTreeMap::from([(ObjectId::new("", "configmaps", "a", "x"), Arc::new(state))]),
            remotes: BTreeMap::from([(Arc::from("cloud"), json!(bucket))]),
            ..World::default()
        };
        let quiet = QuietWorld { world, counts: BTreeMap::new(), failing: BTreeMap::new() };
        Outcome { quiet: BTreeMap::from([(0, quiet)]), ..Outcome::default() }
    };
    let expected = Expected::new(outcome("1", "1"), Learned::default());
    let violated = |found: &Outcome, allowed: &[Oracle]| {
        let is_allowed = |oracle| allowed.contains(&oracle);
        judge(&expected, found, &Plan::default(), &is_allowed, &|| &[]).map(|violation| violation.oracle)
    };
    let both = outcome("2", "2");
    assert_eq!(violated(&both, &[]), Some(Oracle::SameObjects));
    assert_eq!(violated(&both, &[Oracle::SameObjects]), Some(Oracle::SameRemotes));
    assert_eq!(violated(&both, &[Oracle::SameObjects, Oracle::SameRemotes]), None);
    assert_eq!(violated(&outcome("2", "1"), &[Oracle::SameObjects]), None);
}

#[test]
fn the_run_without_faults_does_not_end_with_a_request_that_is_refused_for_good() {
    let failing = |error: &str| {
        let failing = BTreeMap::from([("tasks a/x".to_owned(), error.to_owned())]);
        judge_last_world(&Outcome { failing, ..Outcome::default() }).map(|violation| violation.suspect)
    };
    let forbidden = "delete tasks a/x: tasks is forbidden: no right";
    assert_eq!(failing(forbidden), Some(Suspect::CallOf(forbidden.to_owned())));
    assert!(failing("apply tasks a/x: Task.dev \"x\" is invalid: spec.size: no number").is_some());
    assert!(failing("create tasks a/x: tasks.dev \"x\" already exists").is_some());
    let conflict =
        "update tasks a/x: Operation cannot be fulfilled on tasks.dev \"x\": the object has been modified";
    assert!(failing(conflict).is_some());
    assert_eq!(failing("the Secret admin does not exist"), None);
}

#[test]
fn the_run_without_faults_does_not_end_with_a_finalizer_of_the_operator_on_a_deleted_object() {
    let id = ObjectId::new("", "configmaps", "a", "x");
    let state = |finalizers: &[&str], deleted: Value| {
        let metadata = json!({"finalizers": finalizers, "deletionTimestamp": deleted});
        let whole = json!({"metadata": metadata});
        Arc::new(ObjectState::new("configmaps", whole, &Masks::default()))
    };
    let process = ProcessName { program: OPERATOR, replica: 0, is_tested: true };
    let added = |actor: Actor| {
        let change = Change {
            verb: Verb::Changed,
            actor,
            id: id.clone(),
            family: id.clone(),
            revision: 1,
            before: Some(state(&[], Value::Null)),
            after: Some(state(&["dev/cleanup"], Value::Null)),
            is_visible: true,
            trespass: None,
        };
        Entry { at: Duration::ZERO, action: Action::Committed(Arc::new(change)) }
    };
    let judged = |actor: Actor, last: Arc<ObjectState>| {
        let world = World { objects: BTreeMap::from([(id.clone(), last)]), ..World::default() };
        let quiet = QuietWorld { world, counts: BTreeMap::new(), failing: BTreeMap::new() };
        let quiet = BTreeMap::from([(1, quiet)]);
        judge_last_world(&Outcome { trace: vec![added(actor)], quiet, ..Outcome::default() })
    };
    let (operator, deleted) = (Actor::Process { process, life: 0 }, json!("2026-01-01T00:00:00Z"));
    let kept = judged(operator, state(&["dev/cleanup"], deleted.clone()));
    assert!(kept.is_some_and(|kept| kept.title.ends_with("does not remove its finalizer dev/cleanup")));
    assert_eq!(judged(operator, state(&["dev/cleanup"], Value::Null)), None);
    assert_eq!(judged(Actor::User, state(&["dev/cleanup"], deleted.clone())), None);
    assert_eq!(judged(operator, state(&["dev/other"], deleted)), None);
}
