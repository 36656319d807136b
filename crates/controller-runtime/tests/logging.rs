//! Log lines of the runtime, with the names of Go's fields. A separate test program, because its single subscriber must
//! be installed before anything is logged.
#![expect(clippy::unwrap_used, reason = "a test that meets an error has failed")]

use std::{
    cell::RefCell,
    io,
    sync::{
        Once, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use controller_runtime::{
    Action, BoxError, Builder, Cached, Client, Context, Event, Manager, ManagerOptions, ObjectKey,
    ReconcileError,
    cache::CacheOptions,
    client::Warnings,
    controller::ControllerOptions,
    manager::{RunContext, Runnable},
    reconcile,
    source::Requests,
};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Endpoints};
use kube_envtest::{
    Environment,
    faults::{Action as Fault, Failure, Rule},
};
use serde_json::json;
use tracing::{Instrument, level_filters::LevelFilter};

thread_local! {
    /// Log of the current thread. Each test has its own thread.
    static LOG: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

struct ToThread;

impl io::Write for ToThread {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        LOG.with_borrow_mut(|log| log.extend_from_slice(text));
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Starts a new log.
fn log() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let format = tracing_subscriber::fmt().with_ansi(false).without_time().with_target(false);
        format.with_max_level(LevelFilter::DEBUG).with_writer(|| ToThread).init();
    });
    LOG.with_borrow_mut(Vec::clear);
}

/// Returns the lines that contain `part`.
fn lines(part: &str) -> Vec<String> {
    let text = LOG.with_borrow(|log| String::from_utf8(log.clone()).unwrap());
    text.lines().filter(|line| line.contains(part)).map(|line| line.trim_start().to_owned()).collect()
}

/// Returns the line without its `reconcileID`, which differs each time.
fn without_id(line: &str) -> String {
    let (before, rest) = line.split_once(" reconcileID=").expect("it has a reconcileID");
    let (id, after) = rest.split_once(' ').expect("more follows");
    assert_eq!(id.len(), 36, "{line}");
    format!("{before} {after}")
}

async fn start() -> (Environment, Manager) {
    log();
    let env = Environment::builder().start().await.unwrap();
    let manager = Manager::new(env.client(), ManagerOptions::new("test").seed(1));
    (env, manager)
}

async fn create_lease(env: &Environment) {
    let mut lease = Lease::default();
    lease.metadata.namespace = Some("default".to_owned());
    lease.metadata.name = Some("a".to_owned());
    Client::new(env.client(), "test").create(&lease).await.unwrap();
}

/// Runs the manager until 1 s after `work` has ended.
async fn run(manager: Manager, work: impl Future<Output = ()>) {
    let ready = manager.ready();
    let end = async {
        ready.await.unwrap();
        work.await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    };
    manager.run(end).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn each_failure_is_one_line_with_the_fields_of_go_and_an_id_of_its_own() {
    let (env, manager) = start().await;
    let fails = async |_: &ObjectKey<Lease>, cx: &Context| {
        if cx.attempt() < 2 { Err(ReconcileError::new("no luck")) } else { Ok(Action::done()) }
    };
    Builder::managed_by(&manager).for_kind::<Lease>().complete(reconcile::from_fn(fails)).unwrap();
    run(manager, create_lease(&env)).await;

    let fields = "controller=\"lease\" controllerGroup=\"coordination.k8s.io\" controllerKind=\"Lease\"";
    let failures = lines("Reconciler error");
    let expected = |attempt: u32, retry: &str| {
        format!(
            "ERROR reconcile{{{fields} namespace=\"default\" name=\"a\" attempt={attempt}}}: \
             Reconciler error error=no luck retryAfter={retry}"
        )
    };
    let seen: Vec<_> = failures.iter().map(|line| without_id(line)).collect();
    assert_eq!(seen, [expected(0, "5ms"), expected(1, "10ms")]);
    assert_ne!(failures[0].split("reconcileID=").nth(1), failures[1].split("reconcileID=").nth(1));
    assert_eq!(lines("Reconcile successful").len(), 1);

    let source = format!("INFO Starting EventSource {fields} source=\"leases.coordination.k8s.io\"");
    assert_eq!(lines("Starting EventSource"), [source]);
    for line in ["Shutdown signal received, waiting for all workers to finish", "All workers finished"] {
        assert_eq!(lines(line), [format!("INFO {line} {fields}")]);
    }
    assert_eq!(lines("Starting Controller"), [format!("INFO Starting Controller {fields}")]);
    assert_eq!(lines("Starting workers"), [format!("INFO Starting workers {fields} worker count=16")]);
    assert_eq!(lines("Reconciling").len(), 3);
}

/// Rows 1, 3 and 8 of the table of outcomes.
#[tokio::test(start_paused = true)]
async fn every_failure_is_logged_as_a_reconciler_error() {
    let (env, manager) = start().await;
    let fails = async |_: &ObjectKey<Lease>, cx: &Context| match cx.attempt() {
        0 => panic!("a bug"),
        1 => std::future::pending().await,
        _ => Err(ReconcileError::terminal("hopeless")),
    };
    Builder::managed_by(&manager)
        .for_kind::<Lease>()
        .with_options(ControllerOptions::default().reconciliation_timeout(Duration::from_millis(100)))
        .complete(reconcile::from_fn(fails))
        .unwrap();
    run(manager, create_lease(&env)).await;
    let logged = lines("Reconciler error");
    let [panicked, timed_out, terminal] = &logged[..] else { panic!("three lines: {logged:#?}") };
    assert!(
        panicked.contains("error=panic: a bug, at ") && panicked.ends_with(" [recovered] retryAfter=5ms")
    );
    assert!(
        timed_out.ends_with("error=the reconcile exceeded its timeout and was dropped retryAfter=10ms"),
        "{timed_out}"
    );
    assert!(terminal.ends_with("Reconciler error error=terminal error: hopeless"), "{terminal}");
}

/// Go logs each conflict as an error, so a healthy operator with a second writer seems to fail.
#[tokio::test(start_paused = true)]
async fn a_conflict_is_logged_as_an_error_from_the_ninth_attempt_on() {
    let (env, manager) = start().await;
    let conflicts = async |env: &kube::Client, key: &ObjectKey<Lease>, cx: &Context| {
        let client = Client::new(env.clone(), "test");
        let stale = client.get(key).await?.expect("it is there");
        client.merge_patch(key, &json!({ "metadata": { "labels": { "a": cx.id().to_string() } } })).await?;
        if cx.attempt().is_multiple_of(2) {
            client.update(&stale).await?;
        } else {
            // Both kube's own error, and an `anyhow::Error` with a context.
            let leases = kube::Api::<Lease>::namespaced(env.clone(), "default");
            let replaced = leases.replace("a", &kube::api::PostParams::default(), &stale).await;
            anyhow::Context::context(replaced, "while renewing")?;
        }
        Ok(Action::done())
    };
    let predicate = |event: &Event<Lease>| matches!(event, Event::Create { .. });
    Builder::managed_by(&manager)
        .for_kind::<Lease>()
        .with_predicate(predicate)
        .complete(reconcile::from_fn_with(env.client(), conflicts))
        .unwrap();
    run(manager, async {
        create_lease(&env).await;
        tokio::time::sleep(Duration::from_secs(3)).await;
    })
    .await;
    let logged = lines("Reconciler error");
    let levels = logged.iter().map(|line| line.split(' ').next().unwrap()).collect::<Vec<_>>();
    assert_eq!(levels, [["DEBUG"; 8].as_slice(), &["ERROR"; 2]].concat(), "{logged:#?}");
    assert!(logged[1].contains("while renewing: "), "{}", logged[1]);
}

/// Rows 5, 6 and 7 of the table of outcomes, and a failure with a delay of its own.
#[tokio::test(start_paused = true)]
async fn requeues_are_logged_with_their_delays() {
    let (env, manager) = start().await;
    let goes_on = async |runs: &AtomicUsize, _: &ObjectKey<Lease>, _: &Context| match runs
        .fetch_add(1, Ordering::SeqCst)
    {
        0 | 1 => Ok(Action::requeue()),
        2 => Ok(Action::requeue_after(Duration::from_nanos(300_022_307))),
        3 => Err(ReconcileError::retry_after("busy", Duration::from_nanos(200_022_307))),
        _ => Ok(Action::done()),
    };
    let reconciler = reconcile::from_fn_with(AtomicUsize::new(0), goes_on);
    Builder::managed_by(&manager).for_kind::<Lease>().complete(reconciler).unwrap();
    run(manager, create_lease(&env)).await;
    let of_run = |attempt: u32| {
        format!(
            "reconcile{{controller=\"lease\" controllerGroup=\"coordination.k8s.io\" controllerKind=\"Lease\" \
             namespace=\"default\" name=\"a\" attempt={attempt}}}: "
        )
    };
    let logged = |part: &str| lines(part).iter().map(|line| without_id(line)).collect::<Vec<_>>();
    let requeued = [
        format!("DEBUG {}Reconcile done, requeueing retryAfter=5ms", of_run(0)),
        format!("DEBUG {}Reconcile done, requeueing retryAfter=10ms", of_run(1)),
        format!("DEBUG {}Reconcile done, requeueing after 300ms", of_run(2)),
    ];
    assert_eq!(logged("Reconcile done"), requeued);
    let failed = format!("ERROR {}Reconciler error error=busy retryAfter=200ms", of_run(0));
    assert_eq!(logged("Reconciler error"), [failed]);
    assert_eq!(logged("Reconcile successful"), [format!("DEBUG {}Reconcile successful", of_run(0))]);
}

/// Row 4 of the table of outcomes.
#[tokio::test(start_paused = true)]
async fn an_unrecovered_panic_is_counted_and_logged() {
    let (env, manager) = start().await;
    let panics = async |_: &ObjectKey<Lease>, _: &Context| panic!("a bug");
    Builder::managed_by(&manager)
        .for_kind::<Lease>()
        .with_options(ControllerOptions::default().recover_panic(false))
        .complete(reconcile::from_fn(panics))
        .unwrap();
    create_lease(&env).await;
    manager.clone().run(std::future::pending()).await.unwrap_err();
    let logged: Vec<_> = lines("Observed a panic").iter().map(|line| without_id(line)).collect();
    let [line] = &logged[..] else { panic!("one line: {logged:?}") };
    let expected = "INFO reconcile{controller=\"lease\" controllerGroup=\"coordination.k8s.io\" controllerKind=\"Lease\" \
                    namespace=\"default\" name=\"a\" attempt=0}: Observed a panic in reconciler: a bug, at ";
    assert!(line.starts_with(expected) && line.contains("logging.rs:"), "{line}");
    let metrics = manager.metrics().encode();
    for (family, value) in
        [("reconcile_panics_total", 1), ("reconcile_errors_total", 0), ("active_workers", 0)]
    {
        let sample = format!("controller_runtime_{family}{{controller=\"lease\"}} {value}\n");
        assert!(metrics.contains(&sample), "{sample} is not in {metrics}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_logs_the_groups_that_it_waits_for() {
    let (_env, manager) = start().await;
    let done = async |_: &ObjectKey<Lease>, _: &Context| Ok(Action::done());
    Builder::managed_by(&manager).for_kind::<Lease>().complete(reconcile::from_fn(done)).unwrap();
    run(manager, async {}).await;
    let waits = ["leader election runnables", "caches"];
    assert_eq!(lines("Stopping and"), waits.map(|group| format!("INFO Stopping and waiting for {group}")));
    assert_eq!(lines("Wait completed"), ["INFO Wait completed, proceeding to shutdown the manager"]);
}

/// A runnable that logs when it starts.
struct Says(&'static str);

impl Runnable for Says {
    async fn start(&self, _: RunContext) -> Result<(), BoxError> {
        tracing::info!("{}", self.0);
        Ok(())
    }
}

/// In Go the values of the context of `Start` do not reach the runnables.
#[tokio::test(start_paused = true)]
async fn a_span_around_the_run_contains_all_its_log_lines() {
    let (env, manager) = start().await;
    manager.add(Says("hello")).unwrap();
    let done = async |_: &ObjectKey<Lease>, _: &Context| Ok(Action::done());
    Builder::managed_by(&manager).for_kind::<Lease>().complete(reconcile::from_fn(done)).unwrap();
    run(manager, create_lease(&env)).instrument(tracing::info_span!("cluster", name = "blue")).await;

    let all = lines("");
    let outside: Vec<_> = all.iter().filter(|line| !line.contains("cluster{name=\"blue\"}:")).collect();
    assert_eq!(outside, Vec::<&String>::new());
    for part in
        ["hello", "Starting EventSource", "Starting workers", "Reconcile successful", "All workers finished"]
    {
        assert_eq!(lines(part).len(), 1, "{part}: {all:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn requests_of_other_types_are_logged_by_their_debug_form() {
    let (_env, manager) = start().await;
    let done = async |_: &(u32, &'static str), _: &Context| Ok(Action::done());
    Builder::managed_by(&manager)
        .for_requests("numbers")
        .watches_raw_source(Requests::stream("one", futures::stream::iter([(1, "x")])))
        .complete(reconcile::from_fn(done))
        .unwrap();
    run(manager, async {}).await;
    let seen: Vec<_> = lines("Reconcile successful").iter().map(|line| without_id(line)).collect();
    let line = r#"DEBUG reconcile{controller="numbers" request=(1, "x") attempt=0}: Reconcile successful"#;
    assert_eq!(seen, [line]);
}

#[tokio::test(start_paused = true)]
async fn a_custom_span_replaces_the_default() {
    let (env, manager) = start().await;
    let options = ControllerOptions::default().log_constructor(|key: &ObjectKey<Lease>, cx: &Context| {
        tracing::info_span!("mine", lease = %key, attempt = cx.attempt())
    });
    let done = async |_: &ObjectKey<Lease>, _: &Context| Ok(Action::done());
    Builder::managed_by(&manager)
        .for_kind::<Lease>()
        .with_options(options)
        .complete(reconcile::from_fn(done))
        .unwrap();
    run(manager, create_lease(&env)).await;
    let line = "DEBUG mine{lease=default/a attempt=0}: Reconcile successful";
    assert_eq!(lines("Reconcile successful"), [line]);
}

#[tokio::test(start_paused = true)]
async fn a_read_before_a_late_cache_is_complete_is_no_error_in_the_log_at_first() {
    let (env, manager) = start().await;
    type Late = (Manager, OnceLock<Cached<Endpoints>>);
    let read = async |(manager, late): &Late, key: &ObjectKey<Lease>, _: &Context| {
        let cached = late.get_or_init(|| manager.cached());
        cached.get(&ObjectKey::new("default", key.name()))?;
        Ok(Action::done())
    };
    let reconciler = reconcile::from_fn_with((manager.clone(), OnceLock::new()), read);
    Builder::managed_by(&manager).for_kind::<Lease>().complete(reconciler).unwrap();
    run(manager, create_lease(&env)).await;
    let failed = lines("the cache of endpoints is not complete yet");
    assert!(!failed.is_empty() && failed.iter().all(|line| line.starts_with("DEBUG ")), "{failed:?}");
    assert_eq!(lines("Reconcile successful").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_failing_list_is_logged_with_the_name_of_its_cluster() {
    let (_env, manager) = start().await;
    let away = Environment::builder().start().await.unwrap();
    away.server().faults().add(Rule::new(Fault::Fail(Failure::Unavailable)).resource("", "endpoints"));
    let east = manager.add_cluster("east", away.client(), CacheOptions::default()).unwrap();
    let _endpoints = east.cached::<Endpoints>();
    run(manager, async {}).await;
    let failed = lines("list failed: ");
    assert!(!failed.is_empty(), "{:#?}", lines(""));
    assert!(
        failed.iter().all(|line| line.starts_with("WARN ") && line.ends_with("resource=\"east/endpoints\"")),
        "{failed:#?}"
    );
}

#[tokio::test]
async fn warnings_of_the_api_server_are_logged_each_time_once_or_never() {
    let (env, _) = start().await;
    let warned = async |warnings: Warnings| {
        log();
        let client = Client::builder(env.client(), "test").warnings(warnings).build();
        client.list::<Endpoints>().await.unwrap();
        client.field_manager("other").list::<Endpoints>().await.unwrap();
        lines("the API server warns")
    };
    let each = warned(Warnings::Log).await;
    assert_eq!(each.len(), 2);
    assert!(
        each[0].starts_with("WARN the API server warns: v1 Endpoints is deprecated")
            && each[0].ends_with("verb=list subject=\"endpoints\""),
        "{each:?}"
    );
    assert_eq!(warned(Warnings::LogOnce).await, each[..1]);
    assert_eq!(warned(Warnings::LogOnce).await, each[..1], "another client has said nothing yet");
    assert!(warned(Warnings::Ignore).await.is_empty());
}
