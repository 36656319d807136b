//! Findings: each problem with its exact text.

mod api_server;
mod objects;

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use controller_runtime::{
    Action, Builder, Cached, Client, Context, Manager, ManagerOptions, ObjectKey, ReconcileError, Reconciler,
    client::Patch, controller::ControllerOptions, reconcile, set_controller_reference,
};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Namespace},
};
use kube::CustomResource;
use kube_envtest::{Environment, Epoch};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::support::Running;

#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Guestbook", namespaced, status = "GuestbookStatus")]
struct GuestbookSpec {
    #[serde(default)]
    theme: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct GuestbookStatus {
    #[serde(default)]
    last_seen: String,
}

const SECOND: Duration = Duration::from_secs(1);

/// An environment with a clock that starts at 10:00.
async fn environment() -> Environment {
    let ten = Epoch::starting_now("2026-01-01T10:00:00Z".parse().unwrap());
    let env = Environment::builder().crd::<Guestbook>().epoch(ten).seed(1).start().await.unwrap();
    for name in ["shop", "blog"] {
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        client(&env).create(&from_json::<Namespace>(namespace)).await.unwrap();
    }
    env
}

fn client(env: &Environment) -> Client {
    Client::new(env.client(), "kubectl")
}

fn manager(env: &Environment, client: kube::Client) -> Manager {
    Manager::new(client, ManagerOptions::new("guestbook").epoch(env.epoch()).seed(1))
}

fn guestbook(namespace: &str, name: &str) -> Guestbook {
    let mut guestbook = Guestbook::new(name, GuestbookSpec::default());
    guestbook.metadata.namespace = Some(namespace.to_owned());
    guestbook
}

async fn create(env: &Environment, namespace: &str, name: &str) {
    client(env).create(&guestbook(namespace, name)).await.unwrap();
}

/// Runs a controller of Guestbooks that owns ConfigMaps.
async fn run(manager: &Manager, reconciler: impl Reconciler<Request = ObjectKey<Guestbook>>) -> Running {
    Builder::managed_by(manager).for_kind::<Guestbook>().owns::<ConfigMap>().complete(reconciler).unwrap();
    Running::start(manager.clone()).await
}

/// A reconciler that does `work` with the client of the run.
fn works<F>(
    work: impl Fn(ObjectKey<Guestbook>, Client) -> F + Send + Sync + 'static,
) -> impl Reconciler<Request = ObjectKey<Guestbook>>
where
    F: Future<Output = Result<(), ReconcileError>> + Send + 'static,
{
    reconcile::from_fn_with(work, async |work: &_, key: &ObjectKey<Guestbook>, cx: &Context| {
        work(key.clone(), cx.client().clone()).await?;
        Ok(Action::done())
    })
}

/// Applies the ConfigMap of a Guestbook.
async fn apply_child(key: ObjectKey<Guestbook>, client: Client) -> Result<(), ReconcileError> {
    let mut child = ConfigMap::default();
    child.metadata.namespace = key.namespace().map(str::to_owned);
    child.metadata.name = Some(key.name().to_owned());
    child.data = Some([("theme".to_owned(), "roses".to_owned())].into());
    client.apply(&child).await?;
    Ok(())
}

async fn findings(manager: &Manager) -> Vec<String> {
    manager.findings().await.iter().map(ToString::to_string).collect()
}

#[tokio::test(start_paused = true)]
async fn a_long_back_off_names_its_end_and_its_cause() {
    let env = environment().await;
    let manager = manager(&env, env.client());
    let _running = run(&manager, works(async |_, _| Err(ReconcileError::new("theme not found")))).await;
    create(&env, "shop", "web").await;
    sleep(SECOND * 400).await;
    assert_eq!(
        findings(&manager).await,
        [
            "long-back-off Guestbook shop/web waits 4 min 15 s more, until 10:10:55 UTC: back-off after 17 failures, \
         the last at 10:05:27 UTC: theme not found. Repair the cause of the error. A change of the object's spec, or its deletion, \
         starts the next run at once."
        ]
    );
}

/// Applies a Deployment with three replicas that the Guestbook owns.
async fn apply_deployment(
    owners: Cached<Guestbook>,
    key: ObjectKey<Guestbook>,
    client: Client,
) -> Result<(), ReconcileError> {
    let Some(owner) = owners.get(&key)? else { return Ok(()) };
    let container = json!({ "name": "web", "image": "web:1" });
    let labels = json!({ "app": key.name() });
    let spec = json!({
        "replicas": 3, "selector": { "matchLabels": labels },
        "template": { "metadata": { "labels": labels }, "spec": { "containers": [container] } },
    });
    let metadata = json!({ "namespace": key.namespace(), "name": key.name() });
    let mut deployment: Deployment = from_json(json!({ "metadata": metadata, "spec": spec }));
    set_controller_reference(&*owner, &mut deployment)?;
    client.apply(&deployment).await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_request_behind_thousands_of_another_namespace_is_named() {
    let env = environment().await;
    let manager = manager(&env, env.client());
    let works = works(async |_, _| {
        sleep(SECOND).await;
        Ok(())
    });
    let options = ControllerOptions::default().max_concurrent_reconciles(8);
    Builder::managed_by(&manager).for_kind::<Guestbook>().with_options(options).complete(works).unwrap();
    let _running = Running::start(manager.clone()).await;
    for number in 0..2000 {
        create(&env, "shop", &format!("web-{number}")).await;
    }
    create(&env, "blog", "a").await;
    sleep(SECOND * 20).await;
    assert_eq!(findings(&manager).await, [""; 0]);
    sleep(SECOND * 28).await;
    assert_eq!(
        findings(&manager).await,
        [
            "starved Guestbook blog/a has been queued for 48 s: 8 of 8 workers of controller guestbook reconcile requests of shop, which has 1,608 \
             more queued requests. Let namespaces take turns with fair_by in ControllerOptions::queue, or set more workers with \
             max_concurrent_reconciles."
        ]
    );
}

/// A day of an operator with 500 children: it writes statuses, other programs write fields of their own, objects come and go, a watch
/// ends, and a reconcile fails now and then.
#[tokio::test(start_paused = true)]
async fn a_healthy_operator_has_no_findings_for_a_day() {
    let env = environment().await;
    let manager = manager(&env, env.client());
    let owners = manager.cached::<Guestbook>();
    let runs = Arc::new(AtomicU32::new(0));
    let works = works(move |key, client| {
        let (owners, run) = (owners.clone(), runs.fetch_add(1, Relaxed));
        async move {
            if run % 97 == 0 {
                return Err(ReconcileError::new("a glitch"));
            }
            let Some(guestbook) = owners.get(&key)? else { return Ok(()) };
            apply_deployment(owners, key.clone(), client.clone()).await?;
            let seen = guestbook.spec.theme.clone();
            if guestbook.status.as_ref().is_none_or(|status| status.last_seen != seen) {
                let status = Patch::merge(&json!({ "status": { "lastSeen": seen } }));
                client.subresource(&key, "status").patch::<Guestbook>(status).await?;
            }
            Ok(())
        }
    });
    Builder::managed_by(&manager).for_kind::<Guestbook>().owns::<Deployment>().complete(works).unwrap();
    let _running = Running::start(manager.clone()).await;
    for number in 0..500 {
        create(&env, "shop", &format!("web-{number}")).await;
    }
    let (user, hpa) = (client(&env), Client::new(env.client(), "hpa"));
    let name = |number: u32| format!("web-{}", number % 500);
    for hour in 0..24_u32 {
        for minute in (0..60_u32).step_by(5) {
            let number = hour * 60 + minute;
            let key = ObjectKey::<Guestbook>::new("shop", name(number * 7));
            user.merge_patch(&key, &json!({ "spec": { "theme": number.to_string() } })).await.unwrap();
            let web = ObjectKey::<Deployment>::new("shop", name(number * 13));
            // A field that the operator does not write.
            let pause = json!({ "spec": { "minReadySeconds": number % 500 } });
            hpa.merge_patch(&web, &pause).await.unwrap();
            sleep(SECOND * 300).await;
            assert_eq!(findings(&manager).await, [""; 0], "at {hour}:{minute}");
        }
        let gone = name(hour);
        user.delete_key(&ObjectKey::<Guestbook>::new("shop", gone.as_str())).await.unwrap();
        sleep(SECOND).await;
        create(&env, "shop", &gone).await;
    }
}

/// The findings of one kind.
fn of<'f>(id: &str, findings: &'f [String]) -> Vec<&'f str> {
    findings.iter().filter_map(|finding| finding.strip_prefix(id)).map(str::trim_start).collect()
}

fn from_json<T: serde::de::DeserializeOwned>(json: Value) -> T {
    serde_json::from_value(json).unwrap()
}
