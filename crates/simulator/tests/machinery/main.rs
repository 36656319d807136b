//! Properties of every simulation: runs repeat, bad operators are named, tests of nothing fail.

mod determinism;
mod framework;
mod replicas;
mod stepping;

use std::{
    cell::Cell,
    ffi::OsStr,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    process::Command,
    rc::Rc,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use controller_runtime::{
    Action, BoxError, Builder, Context, Manager, ObjectKey, ReconcileError, Reconciler, manager::AddError,
};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube_simulator::{Explore, Finding, Now, Oracle, Simulation};
use serde_json::json;

/// A ConfigMap of this name in the namespace of each reconcile.
fn map(name: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    (map.metadata.name, map.metadata.namespace) = (Some(name.to_owned()), Some("default".to_owned()));
    map
}

/// A simulation of an operator that calls `reconcile` for each namespace, and of a user that creates one.
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

/// A budget that no search needs, even on a busy machine: the tests depend on the plans, not on their speed.
const LONG: Duration = Duration::from_secs(600);

fn crashes() -> Explore {
    Explore::crashes().budget(LONG)
}

fn found(simulation: Simulation) -> Finding {
    simulation.find(crashes()).expect("a finding")
}

fn panic_of(test: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(test)).expect_err("a panic");
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).expect("a text")
}

#[test]
fn a_correct_operator_is_silent() {
    let explore = Explore::crashes().and(Explore::lost_answers()).and(Explore::early_steps());
    let report = applies(|key| key.name().to_owned()).explore(explore.budget(LONG));
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
    let text = panic_of(|| drop(idle.explore(crashes())));
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
    assert!(finding.to_string().contains("the virtual time does not advance"), "{finding}");
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
    assert!(finding.to_string().contains("keep running after its crash"), "{finding}");
}

#[test]
fn an_operator_that_cannot_be_made_is_named() {
    let unmade = Simulation::new("operator", |_: &Manager| Err::<(), _>("no configuration"));
    let finding = found(unmade);
    assert!(finding.to_string().contains("the operator cannot be created: no configuration"), "{finding}");
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
    let ends_without =
        |now: &Now<'_>| now.all::<ConfigMap>().iter().all(|map| map.metadata.name.as_deref() != Some("red"));
    let finding = found(applies(|key| key.name().to_owned()).always("no red map", ends_without));
    assert_eq!(finding.oracle(), Oracle::Check);
    let finding = found(applies(|key| key.name().to_owned()).eventually("no red map", ends_without));
    assert!(finding.to_string().contains("\"no red map\" does not hold after the step"), "{finding}");
}

#[test]
fn a_plan_that_is_invalid_or_does_not_happen_is_an_error() {
    let never = "crash after create secrets default/x #1";
    let text = panic_of(|| drop(applies(|key| key.name().to_owned()).replay(never)));
    assert!(text.contains("did not happen") && text.contains(never), "{text}");
    let error = applies(|key| key.name().to_owned()).replay("explode").unwrap_err();
    assert!(error.to_string().starts_with("not a deviation: \"explode\""), "{error}");
}

/// An operator that notes the time each minute.
fn restless() -> Simulation {
    simulation(|_, cx| async move {
        let mut map = map("heart");
        map.data = Some([("beat".to_owned(), cx.wall_time().as_second().to_string())].into());
        cx.client().apply(&map).await?;
        Ok(Action::requeue_after(Duration::from_secs(60)))
    })
}

#[test]
fn a_masked_field_does_not_count() {
    assert_eq!(found(restless()).oracle(), Oracle::Quiet);
    let masked = restless().mask::<ConfigMap>("/data/beat");
    assert!(masked.find(crashes()).is_none());
    let text = panic_of(|| drop(restless().mask::<ConfigMap>("data.beat")));
    assert!(text.contains("\"data.beat\" is not a JSON pointer"), "{text}");
}

#[test]
fn a_condition_may_have_to_last_or_to_hold_sometimes() {
    let has_map =
        |now: &Now<'_>| now.all::<ConfigMap>().iter().any(|map| map.metadata.name.as_deref() == Some("red"));
    let applying = || applies(|key| key.name().to_owned());
    let deleted = applying().step("the map is deleted", async |user| {
        user.delete_key(&ObjectKey::<ConfigMap>::new("default", "red")).await
    });
    let finding = found(deleted.lasting("the map stays", has_map));
    assert!(
        finding.to_string().contains("\"the map stays\" does not hold any more after the step"),
        "{finding}"
    );
    applying().sometimes("there is a map", has_map).explore(crashes());
    let never = || applying().sometimes("there are many", |now| now.all::<ConfigMap>().len() > 100);
    let text = panic_of(|| drop(never().explore(crashes())));
    assert!(text.contains("no run met the conditions [\"there are many\"]"), "{text}");
}

#[test]
fn a_step_may_take_days_but_not_for_ever() {
    let waits = |days: u64| {
        applies(|key| key.name().to_owned()).step("days pass", async move |_| {
            tokio::time::sleep(Duration::from_secs(days * 86_400)).await;
            Ok::<_, std::convert::Infallible>(())
        })
    };
    assert!(waits(1).replay("").expect("a plan").is_none());
    let finding = waits(8).replay("").expect("a plan").expect("a finding");
    assert!(finding.to_string().contains("takes longer than seven virtual days"), "{finding}");
}

/// An operator that creates a map in place of the one of which it died before it could note it.
fn doubling() -> Simulation {
    simulation(|key, cx| async move {
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
    })
}

#[test]
fn many_runs_of_one_plan_are_equal() {
    let text = || {
        let finding = doubling().replay("crash after create configmaps default/red-* #1").expect("a plan");
        finding.expect("two maps").trace().join("\n")
    };
    let first = text();
    assert!(first.contains("CRASH"), "{first}");
    for _ in 0..5 {
        assert_eq!(text(), first);
    }
}

/// Runs a test of this file in a process with an environment variable, and returns whether it passed, and its output.
fn with_variable(test: &str, name: &str, value: impl AsRef<OsStr>) -> (bool, String) {
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new(program);
    command.args(["--exact", test, "--nocapture"]).env(name, value);
    let output = command.output().expect("it starts");
    let [out, errors] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    (output.status.success(), format!("{out}{errors}"))
}

/// Runs a test of this file in a process with `SIMULATION`, and returns its output.
fn with_trace_file(test: &str, file: &Path) -> String {
    let (passed, output) = with_variable(test, "SIMULATION", file);
    assert!(!passed, "a replay of a violation fails: {output}");
    output
}

#[test]
fn processes_share_the_plans_and_a_finding_of_one_fails_the_test() {
    let test = "processes_share_the_plans_and_a_finding_of_one_fails_the_test";
    if std::env::var_os("SIMULATION_JOBS").is_some() || std::env::var_os("SIMULATION_SHARE").is_some() {
        drop(doubling().explore(crashes()));
    }
    let (passed, output) = with_variable(test, "SIMULATION_JOBS", "2");
    assert!(!passed && output.contains("replay: crash after "), "{output}");
    let silent = "a_correct_operator_is_silent";
    let (passed, output) = with_variable(silent, "SIMULATION_JOBS", "2");
    let plans = |output: &str| -> Option<String> {
        Some(output.split(" plans played").next()?.rsplit(": ").next()?.to_owned())
    };
    assert!(passed && output.contains("in 2 processes"), "{output}");
    let (_, alone) = with_variable(silent, "SIMULATION_BUDGET", "600");
    assert_eq!(plans(&output), plans(&alone), "{output}{alone}");
}

#[test]
fn processes_that_share_the_plans_judge_the_conditions_of_each_search() {
    let test = "processes_that_share_the_plans_judge_the_conditions_of_each_search";
    if std::env::var_os("SIMULATION_JOBS").is_some() || std::env::var_os("SIMULATION_SHARE").is_some() {
        let with = |least: usize| {
            let name = format!("at least {least}");
            let holds = move |now: &Now<'_>| now.all::<ConfigMap>().len() >= least;
            let explore = crashes();
            applies(|key| key.name().to_owned()).sometimes(&name, holds).explore(explore)
        };
        with(1);
        println!("the condition of the first search holds");
        with(100);
        return;
    }
    let (passed, output) = with_variable(test, "SIMULATION_JOBS", "2");
    assert!(!passed && output.contains("the condition of the first search holds"), "{output}");
    assert!(output.contains("no run met the conditions [\"at least 100\"]"), "{output}");
}

#[test]
fn a_call_does_not_wait_again_for_a_step_that_cannot_begin() {
    // The step is not done before the call is carried out, so the next one cannot begin before the call.
    let longest = Rc::new(Cell::new(Duration::ZERO));
    let took = Rc::clone(&longest);
    let waits = applies(|key| key.name().to_owned()).step("its map is awaited", async move |user| {
        user.apply_yaml("{apiVersion: v1, kind: Namespace, metadata: {name: blue}}").await?;
        let began = tokio::time::Instant::now();
        while user.get(&ObjectKey::<ConfigMap>::new("default", "blue")).await?.is_none() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        took.set(took.get().max(began.elapsed()));
        Ok::<_, BoxError>(())
    });
    let waits = waits.step("nothing", async |_| Ok::<_, BoxError>(()));
    let report = waits.explore(Explore::early_steps().budget(LONG));
    assert!(report.is_complete() && report.did_not_happen > 0, "{report}");
    assert!(longest.get() < Duration::from_secs(15), "{:?}", longest.get());
}

#[test]
fn the_world_is_not_quiet_before_long_timers_have_fired() {
    let hour = Duration::from_secs(3600);
    let late = simulation(move |key, cx| async move {
        let namespace = cx.client().get(&key).await?;
        let Some(created) = namespace.and_then(|namespace| namespace.metadata.creation_timestamp) else {
            return Ok(Action::done());
        };
        cx.client().apply(&map("first")).await?;
        let age = Duration::try_from(cx.wall_time().duration_since(created.0)).unwrap_or_default();
        if age < hour {
            return Ok(Action::requeue_after(hour - age));
        }
        cx.client().apply(&map("second")).await?;
        Ok(Action::done())
    });
    let has_both = |now: &Now<'_>| matches!(now.all::<ConfigMap>().len(), 0 | 2);
    let finding = late.eventually("both maps are there", has_both).replay("").expect("a plan");
    assert!(finding.is_none(), "{}", finding.expect("a finding"));
}

#[test]
fn seeds_add_a_random_plan_each_and_wrong_variables_are_errors() {
    let silent = "a_correct_operator_is_silent";
    let (_, output) = with_variable(silent, "SIMULATION_SEEDS", "3..7");
    assert!(output.contains("early steps, random: "), "{output}");
    let (passed, output) = with_variable(silent, "SIMULATION_BUDGET", "soon");
    assert!(!passed && output.contains("SIMULATION_BUDGET=\"soon\" is not valid"), "{output}");
}

#[test]
fn a_trace_file_replays_its_run_alone() {
    let test = "a_trace_file_replays_its_run_alone";
    let story = panic_of(|| drop(doubling().explore(crashes())));
    if std::env::var_os("SIMULATION").is_some() {
        panic!("{story}");
    }
    assert!(story.contains(&format!("cargo test {test}")), "{story}");
    assert!(story.lines().count() <= 16, "{story}");
    let path = story.split("SIMULATION=").nth(1).and_then(|rest| rest.split(' ').next()).expect("a path");
    let path = Path::new(path);
    let text = with_trace_file(test, path);
    assert!(text.contains("replayed") && text.contains("the run equals that in the file"), "{text}");
    let text = with_trace_file("a_correct_operator_is_silent", path);
    assert!(
        text.contains("belongs to the test") && text.contains(&format!("run `cargo test {test}`")),
        "{text}"
    );
    let picture = std::fs::read_to_string(path.with_extension("html")).expect("a picture");
    assert!(picture.contains("<svg") && picture.contains("CRASH"), "{picture}");
    let old = path.with_extension("old");
    let other_format = std::fs::read_to_string(path).expect("a file").replace("format 1", "format 0");
    std::fs::write(&old, other_format).expect("a file");
    let text = with_trace_file(test, &old);
    assert!(text.contains("format 0, which another version of kube-simulator wrote"), "{text}");
}

#[test]
fn saved_plans_are_played_first() {
    let story = panic_of(|| drop(doubling().explore(Explore::refusals().budget(LONG))));
    assert!(story.contains("saved as doubling.trace"), "{story}");
}

#[test]
fn an_operator_that_sleeps_in_real_time_is_named() {
    let sleeping = simulation(|_, cx| async move {
        #[expect(clippy::disallowed_methods, reason = "the bug")]
        std::thread::sleep(Duration::from_millis(40));
        cx.client().apply(&map("x")).await?;
        Ok(Action::done())
    });
    let finding = found(sleeping);
    assert!(finding.to_string().contains("blocks its thread"), "{finding}");
    assert!(finding.to_string().contains("reconcile"), "{finding}");
}

#[test]
fn an_operator_that_uses_threads_or_sockets_is_named() {
    let threads = simulation(|_, cx| async move {
        tokio::task::spawn_blocking(|| ()).await?;
        cx.client().apply(&map("x")).await?;
        Ok(Action::done())
    });
    let finding = found(threads);
    assert!(finding.to_string().contains("the operator uses threads"), "{finding}");
    let sockets = simulation(|_, cx| async move {
        let _listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
        cx.client().apply(&map("x")).await?;
        Ok(Action::done())
    });
    let finding = found(sockets);
    assert!(finding.to_string().contains("opens a socket"), "{finding}");
}

#[test]
fn a_task_that_is_always_ready_is_named_within_seconds() {
    let busy = simulation(|_, _| async move {
        loop {
            tokio::task::yield_now().await;
        }
    });
    let finding = found(busy);
    assert_eq!(finding.oracle(), Oracle::Quiet);
    assert!(finding.to_string().contains("always ready"), "{finding}");
}

#[test]
fn a_reconcile_that_panics_is_found() {
    let panicking = applies(|key| {
        assert!(key.name() != "red", "no red ones");
        key.name().to_owned()
    });
    let finding = found(panicking);
    assert!(finding.to_string().contains("a reconcile of the operator panics: no red ones"), "{finding}");
}

#[test]
fn a_rule_can_be_allowed_to_be_violated() {
    let doubling =
        doubling().allow(Oracle::SameObjects, "maps are cheap").allow(Oracle::SameCounts, "so are they");
    assert!(doubling.find(crashes()).is_none());
}

#[test]
fn random_plans_find_and_shrink_to_the_cause() {
    let finding = doubling().find(Explore::random(3).runs(200).budget(LONG)).expect("two maps");
    assert_eq!(finding.plan().to_string().lines().count(), 1, "{finding}");
}
