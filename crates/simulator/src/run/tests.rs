//! Runs of plans: several deviations at one call, and what a run remembers of calls and processes that are gone.

use controller_runtime::{
    Action as Next, BoxError, Builder, Context, Manager, ObjectKey, ReconcileError, Reconciler,
    manager::{AddError, RunContext, Runnable},
};
use k8s_openapi::{
    api::core::v1::{ConfigMap, Namespace, Pod},
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{Api, api::DeleteParams};
use serde::Serialize;
use tokio::{sync::Notify, time::timeout};

use super::*;
use crate::{Remote, Simulation, actors::kubelet};

/// Replaces a map by its successor: creates it with an owned one, and deletes it.
struct Passing;

fn map(name: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    (map.metadata.name, map.metadata.namespace) = (Some(name.to_owned()), Some("default".to_owned()));
    map
}

impl Reconciler for Passing {
    type Request = ObjectKey<Namespace>;

    async fn reconcile(&self, key: &ObjectKey<Namespace>, cx: &Context) -> Result<Next, ReconcileError> {
        if key.name() != "red" {
            return Ok(Next::done());
        }
        let owner = cx.client().apply(&map("owner")).await?;
        let mut owned = map("owned");
        owned.metadata.owner_references = Some(vec![OwnerReference {
            api_version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            name: "owner".to_owned(),
            uid: owner.metadata.uid.unwrap_or_default(),
            ..OwnerReference::default()
        }]);
        cx.client().apply(&owned).await?;
        cx.client().delete_key(&ObjectKey::<ConfigMap>::new("default", "owner")).await?;
        Ok(Next::done())
    }
}

/// Plays a plan. Returns the lines of the trace about faults and maps, without times, and the deviations that did not happen.
fn played(plan: &str) -> (Vec<String>, Vec<String>) {
    let add = |manager: &Manager| -> Result<(), AddError> {
        Builder::managed_by(manager).for_kind::<Namespace>().complete(Passing)?;
        Ok(())
    };
    let simulation = Simulation::new("passing", add).step("a namespace is created", async |user| {
        user.apply_yaml("{apiVersion: v1, kind: Namespace, metadata: {name: red}}").await
    });
    shown(&outcome_of(&simulation, plan))
}

/// Plays a plan until the world is quiet after the last step.
fn outcome_of(simulation: &Simulation, plan: &str) -> Outcome {
    let definition = simulation.definition();
    let seed = Seed(0);
    let start = Start::new(definition, seed).unwrap();
    let (limits, expected, beginning) = (&Limits::default(), None, Beginning::Start);
    let pace = Pace::Usual;
    let circumstances = Circumstances { seed, start: &start, limits, expected, beginning, pace };
    let outcome = play(definition, &plan.parse().unwrap(), circumstances);
    assert_eq!(outcome.end, End::Quiet);
    outcome
}

/// Returns the lines of a trace about faults and maps, without times, and the deviations that did not happen.
fn shown(outcome: &Outcome) -> (Vec<String>, Vec<String>) {
    let is_shown = |entry: &&Entry| {
        entry.action.is_deviation()
            || matches!(&entry.action, Action::Committed(change) if &*change.id.resource == "configmaps")
    };
    let shown = outcome.trace.iter().filter(is_shown).map(line);
    (shown.collect(), outcome.did_not_happen.iter().map(ToString::to_string).collect())
}

/// Line of a trace, without its time.
fn line(entry: &Entry) -> String {
    entry.action.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_refused_call_is_refused_after_a_pause_and_no_other_call_instead() {
    let refusal = "refuse with 409 apply configmaps default/owner #1";
    let pause = "pause for 11 seconds before apply configmaps default/owner #1";
    let (shown, missed) = played(&format!("{refusal}\n{pause}"));
    assert_eq!(
        shown[..3],
        [
            "PAUSED operator is cut off for 11 s",
            "RESUMED operator",
            "operator apply configmaps default/owner: refuse with 409",
        ]
    );
    assert_eq!(missed, [""; 0]);
    // The order of the lines of a plan has no effect.
    assert_eq!((shown, missed), played(&format!("{pause}\n{refusal}")));
}

#[test]
fn a_call_that_a_dead_process_never_sends_is_not_refused() {
    let refusal = "refuse with 409 apply configmaps default/owner #1";
    let (shown, missed) = played(&format!("{refusal}\ncrash before apply configmaps default/owner #1"));
    assert!(shown.iter().all(|line| !line.contains("409")), "{shown:?}");
    assert_eq!(missed, [refusal]);
}

#[test]
fn a_call_is_refused_once() {
    let call = "apply configmaps default/owner #1";
    let (shown, missed) = played(&format!("refuse with 500 {call}\nrefuse with 409 {call}"));
    assert!(shown[0].ends_with("refuse with 500"), "{shown:?}");
    assert_eq!(missed, [format!("refuse with 409 {call}")]);
}

#[test]
fn an_answer_is_lost_once() {
    let call = "apply configmaps default/owned #1";
    let (shown, missed) = played(&format!("lose the answer of {call}\ncrash after {call}"));
    assert!(shown.iter().any(|line| line.ends_with("the answer is lost")), "{shown:?}");
    assert_eq!(missed, [format!("crash after {call}")]);
}

/// Creates a map for each namespace, and gives up after a second.
struct Hasty;

impl Reconciler for Hasty {
    type Request = ObjectKey<Namespace>;

    async fn reconcile(&self, key: &ObjectKey<Namespace>, cx: &Context) -> Result<Next, ReconcileError> {
        if key.name() == "red" {
            let owner = map("owner");
            let apply = cx.client().apply(&owner);
            if let Ok(applied) = timeout(Duration::from_secs(1), apply).await {
                applied?;
            }
        }
        Ok(Next::done())
    }
}

#[test]
fn an_answer_that_nobody_waits_for_is_not_lost() {
    let add = |manager: &Manager| -> Result<(), AddError> {
        Builder::managed_by(manager).for_kind::<Namespace>().complete(Hasty)?;
        Ok(())
    };
    let simulation = Simulation::new("hasty", add).step("a namespace is created", async |user| {
        user.apply_yaml("{apiVersion: v1, kind: Namespace, metadata: {name: red}}").await
    });
    let call = "apply configmaps default/owner #1";
    let lost = format!("lose the answer of {call}");
    let (shown, missed) =
        shown(&outcome_of(&simulation, &format!("cut off, and carry out late: {call}\n{lost}")));
    assert!(shown.contains(&"operator creates configmaps default/owner".to_owned()), "{shown:?}");
    assert!(shown.iter().all(|line| !line.ends_with("the answer is lost")), "{shown:?}");
    assert_eq!(missed, [lost]);
}

#[test]
fn the_collector_acts_before_a_crash_that_loses_the_answer() {
    let call = "delete configmaps default/owner #1";
    let (collect, crash) = (format!("collect garbage at once after {call}"), format!("crash after {call}"));
    for plan in [format!("{collect}\n{crash}"), format!("{crash}\n{collect}")] {
        let (shown, missed) = played(&plan);
        let place = |text: &str| shown.iter().position(|line| line.contains(text));
        let (collected, crashed) = (place("server deletes configmaps default/owned"), place("CRASH"));
        assert!(collected.is_some() && collected < crashed, "{shown:?}");
        assert_eq!(missed, [""; 0]);
    }
}

/// A remote system.
#[derive(Default, Serialize)]
struct Cloud {
    number: u32,
}

/// Reads the number for the namespace `red`, and gives up after a second.
struct Impatient(Remote<Cloud>);

impl Reconciler for Impatient {
    type Request = ObjectKey<Namespace>;

    async fn reconcile(&self, key: &ObjectKey<Namespace>, _: &Context) -> Result<Next, ReconcileError> {
        if key.name() == "red" {
            let read = self.0.effect("read", "", |cloud| cloud.number);
            // It gives up if the answer is late.
            let _ = timeout(Duration::from_secs(1), read).await;
        }
        Ok(Next::done())
    }
}

/// Raises the number for the namespace `blue`.
struct Raising(Remote<Cloud>);

impl Reconciler for Raising {
    type Request = ObjectKey<Namespace>;

    async fn reconcile(&self, key: &ObjectKey<Namespace>, _: &Context) -> Result<Next, ReconcileError> {
        if key.name() == "blue" {
            self.0.effect("raise", "", |cloud| cloud.number += 1).await?;
        }
        Ok(Next::done())
    }
}

#[test]
fn a_change_of_a_remote_system_by_another_program_is_not_that_of_a_write_that_was_given_up() {
    let reads = |manager: &Manager| -> Result<(), AddError> {
        let reading = Impatient(Remote::of_this_run());
        Builder::managed_by(manager).for_kind::<Namespace>().named("reads").complete(reading)?;
        Ok(())
    };
    let raises = |manager: &Manager| -> Result<(), AddError> {
        let raising = Raising(Remote::of_this_run());
        Builder::managed_by(manager).for_kind::<Namespace>().named("raises").complete(raising)?;
        Ok(())
    };
    let simulation = Simulation::new("reads", reads)
        .actor("raises", raises)
        .remote("cloud", Cloud::default)
        .step("a namespace is created", async |user| {
            user.apply_yaml("{apiVersion: v1, kind: Namespace, metadata: {name: red}}").await
        })
        .step("another one is created", async |user| {
            user.apply_yaml("{apiVersion: v1, kind: Namespace, metadata: {name: blue}}").await
        });
    // The operator gives up before the pause ends, and the call is carried out nevertheless.
    let outcome = outcome_of(&simulation, "cut off, and carry out late: read at cloud #1");
    assert!(outcome.did_not_happen.is_empty(), "{:?}", outcome.did_not_happen);
    let place = |text: &str| outcome.trace.iter().position(|entry| line(entry) == text);
    let (read, raised) = (place("operator read at cloud"), place("raises raise at cloud"));
    assert!(read.is_some() && read < raised, "{read:?} {raised:?}");
    assert!(outcome.writes.iter().all(|write| !write.is_visible), "{:?}", outcome.writes);
}

/// Applies a map for each of the namespaces `red` and `blue`.
struct Mapping;

impl Reconciler for Mapping {
    type Request = ObjectKey<Namespace>;

    async fn reconcile(&self, key: &ObjectKey<Namespace>, cx: &Context) -> Result<Next, ReconcileError> {
        if ["red", "blue"].contains(&key.name()) {
            cx.client().apply(&map(key.name())).await?;
        }
        Ok(Next::done())
    }
}

/// Ends the run of its manager with an error, once.
struct Ending(Arc<Notify>);

impl Runnable for Ending {
    async fn start(&self, _: RunContext) -> Result<(), BoxError> {
        self.0.notified().await;
        Err("the user ends it".into())
    }
}

#[test]
fn a_hold_ends_with_the_life_of_its_process_even_if_that_ends_by_itself() {
    let end = Arc::new(Notify::new());
    let of_operator = Arc::clone(&end);
    let add = move |manager: &Manager| -> Result<(), AddError> {
        manager.add(Ending(Arc::clone(&of_operator)))?;
        Builder::managed_by(manager).for_kind::<Namespace>().complete(Mapping)?;
        Ok(())
    };
    let simulation = Simulation::new("mapping", add)
        .step("a namespace is created, and the operator ends", async move |user| {
            user.apply_yaml("{apiVersion: v1, kind: Namespace, metadata: {name: red}}").await?;
            end.notify_one();
            Ok::<_, BoxError>(())
        })
        .step("another one is created", async |user| {
            user.apply_yaml("{apiVersion: v1, kind: Namespace, metadata: {name: blue}}").await
        });
    let plan = "hold until the next step is done, from namespaces ADDED red #1";
    let (shown, missed) = shown(&outcome_of(&simulation, plan));
    let place = |text: &str| shown.iter().position(|line| line.contains(text));
    let (held, ended) = (place("HELD BACK"), place("operator ends by itself"));
    assert!(held.is_some() && held < ended, "{shown:?}");
    // The next life receives its lines, so that no hold is released.
    assert!(place("operator′ creates configmaps default/blue").is_some(), "{shown:?}");
    assert_eq!(place("RELEASED"), None, "{shown:?}");
    assert_eq!(missed, [""; 0]);
}

#[test]
fn a_pod_that_is_gone_before_its_binding_is_no_error_of_the_kubelet() {
    let pod = "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: c, image: c}]}}";
    // The kubelet is the operator here, because faults happen to no other program.
    let simulation = Simulation::new("kubelet", kubelet)
        .step("a pod is created", async move |user| user.apply_yaml(pod).await)
        .step("it is deleted", async |user| {
            let pods = Api::<Pod>::namespaced(user.kube().clone(), "default");
            pods.delete("web", &DeleteParams::default().grace_period(0)).await.map(drop)
        });
    let plan = "begin the next step before create pods/binding default/web #1";
    let outcome = outcome_of(&simulation, plan);
    assert!(outcome.did_not_happen.is_empty(), "{:?}", outcome.did_not_happen);
    let place = |text: &str| outcome.trace.iter().position(|entry| line(entry) == text);
    let (deleted, bound) =
        (place("user deletes pods default/web"), place("operator create pods/binding default/web"));
    assert!(deleted.is_some() && deleted < bound, "{deleted:?} {bound:?}");
    assert_eq!(outcome.errors, [""; 0]);
}
