//! Properties of every simulation: runs repeat, bad operators are named, tests of nothing fail.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use controller_runtime::{
    Action, Builder, Context, Manager, ObjectKey, ReconcileError, Reconciler, manager::AddError,
};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube_simulator::{Explore, Finding, Oracle, Simulation};
use serde_json::json;

/// A ConfigMap of this name in the namespace of each reconcile.
fn map(name: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    (map.metadata.name, map.metadata.namespace) = (Some(name.to_owned()), Some("default".to_owned()));
    map
}

/// A simulation whose operator calls `reconcile` for each namespace, and whose user creates one.
fn simulation<F>(
    reconcile: impl Fn(ObjectKey<Namespace>, Context) -> F + Clone + Send + Sync + 'static,
) -> Simulation
where
    F: Future<Output = Result<Action, ReconcileError>> + Send + 'static,
{
    struct ByFn<R>(R);
    impl<R, F> Reconciler for ByFn<R>
    where
        R: Fn(ObjectKey<Namespace>, Context) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Action, ReconcileError>> + Send + 'static,
    {
        type Request = ObjectKey<Namespace>;

        async fn reconcile(
            &self,
            key: &ObjectKey<Namespace>,
            cx: &Context,
        ) -> Result<Action, ReconcileError> {
            (self.0)(key.clone(), cx.clone()).await
        }
    }
    let add = move |manager: &Manager| -> Result<(), AddError> {
        Builder::managed_by(manager).for_kind::<Namespace>().complete(ByFn(reconcile.clone()))?;
        Ok(())
    };
    Simulation::new("operator", add).step("a namespace is created", async |user| {
        user.apply_yaml("{apiVersion: v1, kind: Namespace, metadata: {name: red}}").await
    })
}

fn applies(name: impl Fn(&ObjectKey<Namespace>) -> String + Clone + Send + Sync + 'static) -> Simulation {
    simulation(move |key, cx| {
        let map = map(&name(&key));
        async move {
            cx.client().apply(&map).await?;
            Ok(Action::done())
        }
    })
}

fn found(simulation: Simulation) -> Finding {
    simulation.find(Explore::crashes()).expect("a finding")
}

fn panic_of(test: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(test)).expect_err("a panic");
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).expect("a text")
}

#[test]
fn a_correct_operator_is_silent() {
    let report = applies(|key| key.name().to_owned()).explore(Explore::all().budget(Duration::from_secs(60)));
    assert!(report.is_complete() && report.did_not_happen == 0, "{report}");
}

#[test]
fn an_operator_that_depends_on_something_else_does_not_repeat() {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let finding = found(applies(|key| format!("{}-{}", key.name(), RUNS.fetch_add(1, Ordering::Relaxed))));
    assert_eq!(finding.oracle(), Oracle::Repeats);
    assert!(finding.to_string().contains("first run:"), "{finding}");
}

#[test]
fn a_test_of_nothing_fails() {
    let idle = simulation(|_, _| async { Ok(Action::done()) });
    let text = panic_of(|| drop(idle.explore(Explore::crashes())));
    assert!(text.contains("tests nothing"), "{text}");
    let text = panic_of(|| {
        drop(applies(|key| key.name().to_owned()).explore(Explore::crashes().budget(Duration::ZERO)));
    });
    assert!(text.contains("its budget ended before the first"), "{text}");
}

#[test]
fn an_operator_that_never_becomes_quiet_is_found_without_faults() {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let restless = simulation(|_, cx| async move {
        let mut map = map("heart");
        map.data = Some([("beat".to_owned(), COUNT.fetch_add(1, Ordering::Relaxed).to_string())].into());
        cx.client().apply(&map).await?;
        Ok(Action::requeue_after(Duration::from_secs(60)))
    });
    let finding = found(restless);
    assert_eq!(finding.oracle(), Oracle::Quiet);
    assert!(finding.to_string().contains("configmaps default/heart .data"), "{finding}");
}

#[test]
fn an_operator_that_writes_without_end_is_found() {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let looping = simulation(|_, cx| async move {
        loop {
            let mut map = map("heart");
            map.data = Some([("beat".to_owned(), COUNT.fetch_add(1, Ordering::Relaxed).to_string())].into());
            cx.client().apply(&map).await?;
        }
    });
    let finding = found(looping);
    assert_eq!(finding.oracle(), Oracle::Quiet);
    assert!(finding.to_string().contains("no time passes"), "{finding}");
}

#[test]
fn tasks_that_survive_a_crash_are_found() {
    let leaking = simulation(|_, cx| async move {
        #[expect(clippy::disallowed_methods, reason = "the bug")]
        tokio::spawn(std::future::pending::<()>());
        cx.client().apply(&map("x")).await?;
        Ok(Action::done())
    });
    let finding = found(leaking);
    assert_eq!(finding.oracle(), Oracle::Runs);
    assert!(finding.to_string().contains("survive its crash"), "{finding}");
}

#[test]
fn an_operator_that_cannot_be_made_is_named() {
    let unmade = Simulation::new("operator", |_: &Manager| Err::<(), _>("no configuration"));
    let finding = found(unmade);
    assert!(finding.to_string().contains("the operator cannot be made: no configuration"), "{finding}");
    let panicking =
        Simulation::new("operator", |_: &Manager| -> Result<(), AddError> { panic!("no configuration") });
    let finding = found(panicking);
    assert!(finding.to_string().contains("it panicked: no configuration"), "{finding}");
}

#[test]
fn a_step_that_cannot_succeed_is_named() {
    let finding = found(
        applies(|key| key.name().to_owned()).step("nonsense", async |user| user.apply_yaml("{}").await),
    );
    assert_eq!(finding.oracle(), Oracle::Steps);
    assert!(finding.to_string().contains("\"nonsense\" does not succeed"), "{finding}");
}

#[test]
fn checks_hold_always_or_whenever_the_world_is_quiet() {
    let ends_without = |now: &kube_simulator::Now<'_>| {
        now.all::<ConfigMap>().iter().all(|map| map.metadata.name.as_deref() != Some("red"))
    };
    let finding = found(applies(|key| key.name().to_owned()).always("no red map", ends_without));
    assert_eq!(finding.oracle(), Oracle::Check);
    let finding = found(applies(|key| key.name().to_owned()).eventually("no red map", ends_without));
    assert!(finding.to_string().contains("\"no red map\" does not hold after the step"), "{finding}");
}

#[test]
fn a_plan_that_does_not_happen_or_is_none_is_an_error() {
    let never = "crash after create secrets default/x #1";
    let text = panic_of(|| drop(applies(|key| key.name().to_owned()).replay(never)));
    assert!(text.contains("did not happen") && text.contains(never), "{text}");
    let error = applies(|key| key.name().to_owned()).replay("explode").unwrap_err();
    assert!(error.to_string().starts_with("not a deviation: \"explode\""), "{error}");
}

#[test]
fn many_runs_of_one_plan_are_equal() {
    let text = || {
        let doubling = simulation(|key, cx| async move {
            let marked = cx.client().get(&key).await?.is_none_or(|namespace| {
                namespace.metadata.labels.is_some_and(|labels| labels.contains_key("done"))
            });
            if !marked {
                let mut map = map("");
                (map.metadata.name, map.metadata.generate_name) = (None, Some(format!("{}-", key.name())));
                cx.client().create(&map).await?;
                cx.client().merge_patch(&key, &json!({"metadata": {"labels": {"done": "yes"}}})).await?;
            }
            Ok(Action::done())
        });
        let finding = doubling.replay("crash after create configmaps default/red-* #1").expect("a plan");
        finding.expect("two maps").trace().join("\n")
    };
    let first = text();
    assert!(first.contains("CRASH"), "{first}");
    for _ in 0..5 {
        assert_eq!(text(), first);
    }
}
