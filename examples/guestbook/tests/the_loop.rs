//! The whole loop, from a Guestbook in the API to its children and back, in process with exact times and over TCP.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex},
    time::Duration,
};

use controller_runtime::{
    Action, Client, Context, Manager, ObjectKey, Reconciler, manager::Options, reconcile,
};
use guestbook::{
    api::{Guestbook, GuestbookSpec},
    controller::{self, FINALIZER, GuestbookReconciler},
};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
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

/// Goes once through the life of a Guestbook; returns the times between its failing attempts.
async fn the_loop(transport: Transport) -> Vec<Duration> {
    let env = Environment::builder().transport(transport).start().await.expect("a server starts");
    // The operator may do what its manifests allow, and no more.
    let rights = Rights::of_manifests(include_str!("../manifests/rbac.yaml"), "default").expect("manifests");
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

    // A child is deleted: it is made anew.
    let deployment = get::<Deployment>(&client, "welcome").await.expect("the deployment exists");
    client.delete(&deployment).await.expect("it can be deleted");
    until("the deployment is made anew", async || {
        let now = get::<Deployment>(&client, "welcome").await.ok_or("there is none")?;
        if now.uid() == deployment.uid() { Err("it is the old one".to_owned()) } else { Ok(()) }
    })
    .await;

    // The spec changes: so does the child.
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

    // Something is missing: the reconcile fails, and is retried later and later, until it is there.
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

    // The theme changes: so does the page.
    let style = json!({ "data": { "style.css": "h1 { color: crimson }" } });
    client.merge_patch(&key::<ConfigMap>("roses"), &style).await.expect("it can be changed");
    until("the page is dressed", async || {
        let page = get::<ConfigMap>(&client, "welcome").await.ok_or("there is none")?;
        if page.data.iter().flatten().any(|(file, _)| file == "style.css") {
            Ok(())
        } else {
            Err(format!("{page:?}"))
        }
    })
    .await;

    // Somebody else's object has the name of a child: it is left alone.
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

    // The operator stops, the world goes on, another one starts: it converges.
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

/// What an API server asks for where no request says it: `create` of who applies what is not there yet, `update` of finalizers for
/// owner references; and `list` where lists are not streamed.
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

/// The Guestbook operator, whose failures are recorded.
fn operator(client: kube::Client, attempts: &Attempts) -> Operator {
    let attempts = attempts.clone();
    Operator::new(client, move |instance| {
        let attempts = attempts.clone();
        async move {
            let manager = Manager::new(instance.client(), Options::new("guestbook-operator").seed(1));
            let reconciler = Attempted { inner: GuestbookReconciler::new(&manager), attempts };
            controller::build(&manager, reconciler)?;
            Ok(instance.run(manager.ready(), manager.run(instance.stopped())).await?)
        }
    })
}

/// When reconciles failed.
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

/// The Guestbook reconciler, whose failures are noted.
struct Attempted {
    inner: GuestbookReconciler,
    attempts: Attempts,
}

impl Reconciler for Attempted {
    type Request = ObjectKey<Guestbook>;

    async fn reconcile(&self, key: &ObjectKey<Guestbook>, cx: &Context) -> Result<Action, reconcile::Error> {
        let result = self.inner.reconcile(key, cx).await;
        if result.is_err() {
            self.attempts.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(Instant::now());
        }
        result
    }
}
