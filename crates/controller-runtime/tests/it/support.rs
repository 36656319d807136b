//! Shared test helpers: a custom kind, a manager in the background, and a reconciler that records its calls.

use std::{
    future::Future,
    sync::{Arc, Mutex},
    time::Duration,
};

use controller_runtime::{
    Action, Builder, Context, Manager, ManagerOptions, ObjectKey, ReconcileError, Reconciler,
    manager::ManagerError, reconcile,
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::CustomResource;
use kube_envtest::Environment;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::{task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;

/// A kind of the tests.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Widget", namespaced, status = "WidgetStatus")]
pub(crate) struct WidgetSpec {
    #[serde(default)]
    pub(crate) size: i32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct WidgetStatus {
    #[serde(default)]
    pub(crate) seen: i32,
}

pub(crate) async fn environment() -> Environment {
    Environment::builder().crd::<Widget>().start().await.expect("an embedded server starts")
}

pub(crate) fn widget(name: &str, size: i32) -> Widget {
    let mut widget = Widget::new(name, WidgetSpec { size });
    widget.metadata.namespace = Some("default".to_owned());
    widget
}

pub(crate) fn config_map(name: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.namespace = Some("default".to_owned());
    map.metadata.name = Some(name.to_owned());
    map
}

pub(crate) fn key(name: &str) -> ObjectKey<Widget> {
    ObjectKey::new("default", name)
}

pub(crate) fn manager(env: &Environment) -> Manager {
    Manager::new(env.client(), ManagerOptions::new("test").seed(1))
}

/// A manager that runs in the background until it is stopped or dropped.
pub(crate) struct Running {
    stop: CancellationToken,
    task: JoinSet<Result<(), ManagerError>>,
}

impl Running {
    /// Starts the manager and waits until it is ready.
    pub(crate) async fn start(manager: Manager) -> Self {
        let ready = manager.ready();
        let running = Self::begin(manager);
        ready.await.expect("the manager becomes ready");
        running
    }

    /// Starts the manager.
    pub(crate) fn begin(manager: Manager) -> Self {
        let (stop, mut task) = (CancellationToken::new(), JoinSet::new());
        let stopped = stop.clone();
        task.spawn(async move { manager.run(stopped.cancelled()).await });
        Self { stop, task }
    }

    /// Stops the manager, and waits for its end.
    pub(crate) async fn stop(self) -> Result<(), ManagerError> {
        self.stop.cancel();
        self.end().await
    }

    /// Waits for the manager's end.
    pub(crate) async fn end(mut self) -> Result<(), ManagerError> {
        self.task.join_next().await.expect("one task was spawned").expect("it does not panic")
    }
}

/// Result of a test reconciler for a request, given the number of earlier failures.
type Act = Box<dyn Fn(&ObjectKey<Widget>, u32) -> Result<Action, ReconcileError> + Send + Sync>;

/// A reconciler that records time and request of each call.
#[derive(Clone)]
pub(crate) struct Notes {
    calls: Arc<Mutex<Vec<(Instant, String)>>>,
    act: Arc<Act>,
}

impl Notes {
    pub(crate) fn new(
        act: impl Fn(&ObjectKey<Widget>, u32) -> Result<Action, ReconcileError> + Send + Sync + 'static,
    ) -> Self {
        Self { calls: Arc::default(), act: Arc::new(Box::new(act)) }
    }

    /// Creates a reconciler that only records and succeeds.
    pub(crate) fn done() -> Self {
        Self::new(|_, _| Ok(Action::done()))
    }

    /// Returns the names of the requests, in order.
    pub(crate) fn names(&self) -> Vec<String> {
        self.calls.lock().unwrap().iter().map(|(_, name)| name.clone()).collect()
    }

    /// Returns the times between the calls.
    pub(crate) fn gaps(&self) -> Vec<Duration> {
        self.calls.lock().unwrap().windows(2).map(|pair| pair[1].0 - pair[0].0).collect()
    }

    /// Clears the records.
    pub(crate) fn clear(&self) {
        self.calls.lock().unwrap().clear();
    }
}

impl Reconciler for Notes {
    type Request = ObjectKey<Widget>;

    async fn reconcile(&self, key: &ObjectKey<Widget>, cx: &Context) -> Result<Action, ReconcileError> {
        self.calls.lock().unwrap().push((Instant::now(), key.name().to_owned()));
        (self.act)(key, cx.attempt())
    }
}

/// A reconciler that sleeps, and records when each run began.
pub(crate) struct Slow {
    pub(crate) notes: Notes,
    pub(crate) work: Duration,
}

impl Reconciler for Slow {
    type Request = ObjectKey<Widget>;

    async fn reconcile(&self, key: &ObjectKey<Widget>, cx: &Context) -> Result<Action, ReconcileError> {
        let result = self.notes.reconcile(key, cx).await;
        tokio::time::sleep(self.work).await;
        result
    }
}

/// A reconciler for requests of any type, which records their `Debug` forms.
pub(crate) struct NoteAll<R> {
    pub(crate) seen: Arc<Mutex<Vec<String>>>,
    request: std::marker::PhantomData<fn(R)>,
}

impl<R> NoteAll<R> {
    pub(crate) fn new() -> Self {
        Self { seen: Arc::default(), request: std::marker::PhantomData }
    }

    /// Takes the recorded requests, in order.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}

impl<R> Clone for NoteAll<R> {
    fn clone(&self) -> Self {
        Self { seen: Arc::clone(&self.seen), request: std::marker::PhantomData }
    }
}

impl<R: reconcile::Request> Reconciler for NoteAll<R> {
    type Request = R;

    async fn reconcile(&self, request: &R, _: &Context) -> Result<Action, ReconcileError> {
        self.seen.lock().unwrap().push(format!("{request:?}"));
        Ok(Action::done())
    }
}

/// A running manager with one controller of Widgets that owns ConfigMaps.
pub(crate) async fn run(
    env: &Environment,
    reconciler: impl Reconciler<Request = ObjectKey<Widget>>,
) -> Running {
    let manager = manager(env);
    Builder::managed_by(&manager)
        .for_kind::<Widget>()
        .owns::<ConfigMap>()
        .complete(reconciler)
        .expect("it is the only controller");
    Running::start(manager).await
}

/// Waits until everything that is due within a short time has happened.
pub(crate) async fn settle() {
    tokio::time::advance(Duration::ZERO).await;
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
}

/// Waits until the object is gone from the server.
pub(crate) async fn gone(client: &controller_runtime::Client, key: &ObjectKey<Widget>) {
    let looked = kube_envtest::eventually(Duration::from_secs(10), async || match client.get(key).await {
        Ok(None) => Ok(()),
        Ok(Some(_)) => Err(format!("{key} is still there")),
        Err(error) => Err(error.to_string()),
    });
    looked.await.unwrap();
}

/// Returns the number of sockets of this process.
pub(crate) fn sockets() -> usize {
    let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let is_socket = |path: std::path::PathBuf| path.to_string_lossy().starts_with("socket:");
    open.filter(|file| std::fs::read_link(file.path()).is_ok_and(is_socket)).count()
}

/// Runs the test with this name in its own process, on a runtime with paused time. There it shares neither sockets nor
/// `tracing`'s cached interest in callsites with other tests.
pub(crate) fn alone<F: Future<Output = ()>>(name: &str, test: impl FnOnce() -> F) {
    alone_in(name, TestTime::Paused, test);
}

/// Like [`alone`], in real time, for tests with sockets.
pub(crate) fn alone_in_real_time<F: Future<Output = ()>>(name: &str, test: impl FnOnce() -> F) {
    alone_in(name, TestTime::Real, test);
}

/// Time of a test in its own process.
#[derive(Clone, Copy, PartialEq)]
enum TestTime {
    Paused,
    Real,
}

fn alone_in<F: Future<Output = ()>>(name: &str, time: TestTime, test: impl FnOnce() -> F) {
    const ALONE: &str = "CONTROLLER_RUNTIME_TEST_ALONE";
    if std::env::var(ALONE).is_ok_and(|alone| alone == name) {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        return builder.enable_all().start_paused(time == TestTime::Paused).build().unwrap().block_on(test());
    }
    let mut process = std::process::Command::new(std::env::current_exe().unwrap());
    let output = process.args(["--exact", name, "--nocapture"]).env(ALONE, name).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
