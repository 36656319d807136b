//! A Guestbook from creation to deletion, in process with exact times and over TCP.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex},
    time::Duration,
};

use controller_runtime::{
    Action, Client, Context, Manager, ManagerOptions, ObjectKey, ReconcileError, Reconciler, Verb,
};
use guestbook::{
    api::{Guestbook, GuestbookSpec},
    controller::{self, FINALIZER, GuestbookReconciler},
};
use k8s_openapi::{
    api::{apps::v1::Deployment, core::v1::ConfigMap},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{CustomResourceExt, ResourceExt};
use kube_envtest::{Environment, Operator, Rights, Transport, eventually, install_crds};
use serde_json::json;
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn the_loop_in_process_with_exact_times() {
    let gaps = the_loop(Transport::InProcess).await;
    assert_eq!(gaps[..6], [5, 10, 20, 40, 80, 160].map(Duration::from_millis));
}

#[tokio::test]
async fn the_loop_over_tcp() {
    let gaps = the_loop(Transport::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))).await;
    for (gap, least) in gaps.iter().zip([5, 10, 20, 40, 80, 160].map(Duration::from_millis)) {
        assert!(*gap >= least, "{gaps:?}");
    }
}

/// Runs a Guestbook through its life. Returns the delays between its failing attempts.
async fn the_loop(transport: Transport) -> Vec<Duration> {
    let env = Environment::builder().transport(transport).start().await.expect("a server starts");
    // The operator has exactly the permissions of its manifests.
    let rights = Rights::of_manifests(include_str!("../manifests/rbac.yaml"), "default").expect("manifests");
    let manager = Manager::new(env.client(), ManagerOptions::new("guestbook-operator"));
    controller::add_to(&manager).expect("it is the only controller");
    // The program installs the kind with this client before it creates its manager.
    manager.needs::<CustomResourceDefinition>([Verb::Get, Verb::Apply]);
    let declared = manager.declarations().roles("guestbook", "default").manifest("guestbook", "default");
    let declared = Rights::of_manifests(&declared, "default").expect("manifests");
    assert_eq!(declared.unused(), rights.unused(), "the manifests grant what the registrations need");
    let operators = rights.client(env.client());
    install_crds(&operators, &[Guestbook::crd()]).await.expect("the kind is served");
    let client = Client::new(env.client(), "the-loop");
    let attempts = Attempts::default();
    let mut operator = operator(operators, &attempts);
    operator.start().await.expect("it becomes ready");

    // Created: the children exist, and the status says so.
    client.create(&guestbook("welcome")).await.expect("it is new");
    ready(&client, "welcome").await;
    assert_eq!(replicas(&client, "welcome").await, Some(1));
    let page = get::<ConfigMap>(&client, "welcome").await.expect("the page exists");
    assert_eq!(page.owner_references()[0].name, "welcome");
    let held = get::<Guestbook>(&client, "welcome").await.expect("it exists");
    assert_eq!(held.finalizers(), [FINALIZER]);

    // A deleted child is created again.
    let deployment = get::<Deployment>(&client, "welcome").await.expect("the deployment exists");
    client.delete(&deployment).await.expect("it can be deleted");
    until("the deployment is created again", async || {
        let now = get::<Deployment>(&client, "welcome").await.ok_or("there is none")?;
        if now.uid() == deployment.uid() { Err("it is the old one".to_owned()) } else { Ok(()) }
    })
    .await;

    // A changed spec is applied to the child.
    client
        .merge_patch(&key::<Guestbook>("welcome"), &json!({ "spec": { "replicas": 3 } }))
        .await
        .expect("it can be scaled");
    until("three replicas", async || match replicas(&client, "welcome").await {
        Some(3) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    ready(&client, "welcome").await;

    // A missing theme: the reconcile fails and is retried with growing delays, until the theme exists.
    attempts.clear();
    client
        .merge_patch(&key::<Guestbook>("welcome"), &json!({ "spec": { "theme": "roses" } }))
        .await
        .expect("it can be changed");
    until("seven failures", async || match attempts.failed().len() {
        0..7 => Err(format!("{:?}", attempts.failed())),
        _ => Ok(()),
    })
    .await;
    let unready = get::<Guestbook>(&client, "welcome").await.expect("it exists");
    assert_eq!(unready.ready().map(|ready| &*ready.reason), Some("ThemeNotFound"));
    let gaps = attempts.failed().windows(2).map(|pair| pair[1] - pair[0]).collect();
    client.create(&config_map("roses")).await.expect("it is new");
    ready(&client, "welcome").await;

    // A changed theme is copied into the page.
    let style = json!({ "data": { "style.css": "h1 { color: crimson }" } });
    client.merge_patch(&key::<ConfigMap>("roses"), &style).await.expect("it can be changed");
    until("the page has the style of the theme", async || {
        let page = get::<ConfigMap>(&client, "welcome").await.ok_or("there is none")?;
        if page.data.iter().flatten().any(|(file, _)| file == "style.css") {
            Ok(())
        } else {
            Err(format!("{page:?}"))
        }
    })
    .await;

    // An object that the Guestbook does not own has the name of a child: the operator leaves it unchanged.
    let mut theirs = config_map("taken");
    theirs.data = Some([("mine".to_owned(), "yes".to_owned())].into());
    client.create(&theirs).await.expect("it is new");
    client.create(&guestbook("taken")).await.expect("it is new");
    attempts.clear();
    until("the operator refuses", async || match attempts.failed().len() {
        0..3 => Err(format!("{:?}", attempts.failed())),
        _ => Ok(()),
    })
    .await;
    let theirs = get::<ConfigMap>(&client, "taken").await.expect("it is left alone");
    assert_eq!((theirs.owner_references().len(), theirs.data.map(|data| data.len())), (0, Some(1)));
    client
        .delete(&get::<Guestbook>(&client, "taken").await.expect("it exists"))
        .await
        .expect("it can be deleted");

    // Changes made while the operator is stopped are applied when it starts again.
    operator.stop().await.expect("it stops in order");
    client
        .merge_patch(&key::<Guestbook>("welcome"), &json!({ "spec": { "replicas": 5 } }))
        .await
        .expect("it can be scaled");
    client.create(&guestbook("museum")).await.expect("it is new");
    assert_eq!(replicas(&client, "welcome").await, Some(3));
    operator.start().await.expect("it becomes ready");
    ready(&client, "museum").await;
    until("five replicas", async || match replicas(&client, "welcome").await {
        Some(5) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;

    // Deleted: the finalizer has run, and the children are gone.
    let doomed = get::<Guestbook>(&client, "welcome").await.expect("it exists");
    client.delete(&doomed).await.expect("it can be deleted");
    until("everything is gone", async || {
        let left = [
            get::<Guestbook>(&client, "welcome").await.is_some(),
            get::<Deployment>(&client, "welcome").await.is_some(),
            get::<ConfigMap>(&client, "welcome").await.is_some(),
        ];
        if left.contains(&true) { Err(format!("guestbook, deployment, page: {left:?}")) } else { Ok(()) }
    })
    .await;
    let archive =
        get::<ConfigMap>(&client, "welcome-archive").await.expect("the finalizer archives the greeting");
    assert_eq!(archive.data.expect("data")["greeting"], "Welcome!");
    assert!(get::<Deployment>(&client, "museum").await.is_some(), "the other one is left alone");
    operator.stop().await.expect("it stops in order");
    assert_eq!(rights.unused(), UNUSED);
    gaps
}

/// Permissions that no request uses here. An API server checks `create` when an applied object does not exist, and `update` of
/// finalizers for owner references; `list` is needed on servers that do not stream lists.
const UNUSED: [&str; 6] = [
    "create configmaps",
    "create customresourcedefinitions.apiextensions.k8s.io",
    "create deployments.apps",
    "list configmaps",
    "list deployments.apps",
    "update guestbooks.example.com/finalizers",
];

fn guestbook(name: &str) -> Guestbook {
    let mut guestbook =
        Guestbook::new(name, GuestbookSpec { greeting: "Welcome!".to_owned(), replicas: 1, theme: None });
    guestbook.metadata.namespace = Some("default".to_owned());
    guestbook
}

fn config_map(name: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.namespace = Some("default".to_owned());
    map.metadata.name = Some(name.to_owned());
    map
}

fn key<K: controller_runtime::Object>(name: &str) -> ObjectKey<K>
where
    &'static str: controller_runtime::NamespaceOf<K::Scope>,
{
    ObjectKey::new("default", name)
}

async fn get<K: controller_runtime::StaticObject>(client: &Client, name: &str) -> Option<K>
where
    &'static str: controller_runtime::NamespaceOf<K::Scope>,
{
    client.get(&key::<K>(name)).await.expect("the server answers")
}

async fn replicas(client: &Client, name: &str) -> Option<i32> {
    get::<Deployment>(client, name).await?.spec?.replicas
}

async fn ready(client: &Client, name: &str) {
    until("it is ready", async || {
        let guestbook = get::<Guestbook>(client, name).await.ok_or("it does not exist")?;
        if guestbook.is_ready() { Ok(()) } else { Err(format!("{:?}", guestbook.status)) }
    })
    .await;
}

async fn until(what: &str, look: impl AsyncFnMut() -> Result<(), String>) {
    eventually(Duration::from_secs(20), look).await.unwrap_or_else(|unmet| panic!("{what}: {unmet}"));
}

/// The Guestbook operator; records the times of its failures.
fn operator(client: kube::Client, attempts: &Attempts) -> Operator {
    let attempts = attempts.clone();
    Operator::new(client, move |instance| {
        let attempts = attempts.clone();
        async move {
            let manager = Manager::new(instance.client(), ManagerOptions::new("guestbook-operator").seed(1));
            let reconciler = Attempted { inner: GuestbookReconciler::new(&manager), attempts };
            controller::build(&manager, reconciler)?;
            Ok(instance.run(manager.ready(), manager.run(instance.stopped())).await?)
        }
    })
}

/// Times of failed reconciles.
#[derive(Clone, Default)]
struct Attempts(Arc<Mutex<Vec<Instant>>>);

impl Attempts {
    fn failed(&self) -> Vec<Instant> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    fn clear(&self) {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clear();
    }
}

/// The Guestbook reconciler; records the times of its failures.
struct Attempted {
    inner: GuestbookReconciler,
    attempts: Attempts,
}

impl Reconciler for Attempted {
    type Request = ObjectKey<Guestbook>;

    async fn reconcile(&self, key: &ObjectKey<Guestbook>, cx: &Context) -> Result<Action, ReconcileError> {
        let result = self.inner.reconcile(key, cx).await;
        if result.is_err() {
            self.attempts.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(Instant::now());
        }
        result
    }
}
