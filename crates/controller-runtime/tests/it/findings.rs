//! Findings: each problem with its exact text.

use std::{future::Future, time::Duration};

use controller_runtime::{
    Action, Builder, Client, Context, Manager, ManagerOptions, ObjectKey, ReconcileError, Reconciler,
    reconcile,
    webhook::{Admission, Operation, Rejection, Rule, WebhookOptions, WebhookService},
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::CustomResource;
use kube_apiserver_embedded::faults::{self, Failure};
use kube_envtest::{Environment, Epoch};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::{
    faults::{Fault, faulty},
    support::Running,
};

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

/// An environment whose time begins at 10:00.
async fn environment() -> Environment {
    let ten = Epoch::starting_now("2026-01-01T10:00:00Z".parse().unwrap());
    let env = Environment::builder().crd::<Guestbook>().epoch(ten).seed(1).start().await.unwrap();
    for name in ["shop", "blog"] {
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        client(&env)
            .create(&serde_json::from_value::<k8s_openapi::api::core::v1::Namespace>(namespace).unwrap())
            .await
            .unwrap();
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

#[tokio::test(start_paused = true)]
async fn a_watch_that_fails_names_its_last_error_and_its_readers() {
    let env = environment().await;
    let gone = CancellationToken::new();
    let is_gone = gone.clone();
    let connection = faulty(env.client(), move |seen| match seen.is_about("configmaps") && seen.is_watch() {
        true if is_gone.is_cancelled() => Fault::Refuse(503, "ServiceUnavailable"),
        true => Fault::SilentFrom(is_gone.clone()),
        false => Fault::Pass,
    });
    let manager = manager(&env, connection);
    let _running = run(&manager, works(apply_child)).await;
    sleep(SECOND * 10).await;
    gone.cancel();
    sleep(SECOND * 60).await;
    assert_eq!(findings(&manager).await, [""; 0], "it fails for less than a minute");
    sleep(SECOND * 600).await;
    assert_eq!(
        findings(&manager).await,
        [
            "dead-watch The cache of configmaps has received nothing for 11 min 10 s: cached objects may be out of date. \
         Attempt 20 failed 22 s ago: watch: a fault of the test (503). Controller guestbook reads it. Lists and watches are \
         retried until one succeeds. Check the API server and the network to it, and whether it still serves the kind."
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_missing_right_names_the_rule_to_add_until_the_request_succeeds() {
    let env = environment().await;
    let rules = |verbs: &[&str]| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": "guestbook" },
            "rules": [
                { "apiGroups": ["example.com"], "resources": ["guestbooks"], "verbs": ["list", "watch"] },
                { "apiGroups": [""], "resources": ["configmaps"], "verbs": verbs },
            ],
        })
    };
    let admin = client(&env);
    let role = |verbs: &[&str]| {
        serde_json::from_value::<k8s_openapi::api::rbac::v1::ClusterRole>(rules(verbs)).unwrap()
    };
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": { "name": "guestbook" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "guestbook" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "operator" }],
    });
    admin.create(&role(&["list", "watch", "create"])).await.unwrap();
    admin
        .create(&serde_json::from_value::<k8s_openapi::api::rbac::v1::ClusterRoleBinding>(binding).unwrap())
        .await
        .unwrap();
    let manager = manager(&env, env.client_for("operator", [""; 0]));
    let _running = run(&manager, works(apply_child)).await;
    create(&env, "shop", "web").await;
    sleep(SECOND).await;
    assert_eq!(
        findings(&manager).await,
        [
            "missing-right guestbook may not patch configmaps in namespace shop: 8 requests refused with code 403 since 10:00:00 UTC. \
         Give the operator's ServiceAccount a Role in namespace shop with the rule {apiGroups: [\"\"], resources: \
         [\"configmaps\"], verbs: [\"create\", \"patch\"]}."
        ]
    );

    admin.apply(&role(&["list", "watch", "create", "patch"])).await.unwrap();
    sleep(SECOND * 2).await;
    assert_eq!(findings(&manager).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_refuses_writes_is_quoted() {
    let env = environment().await;
    let policy =
        Manager::new(env.client(), ManagerOptions::new("policy").webhooks(WebhookOptions::local(None)));
    let rule = Rule::of::<ConfigMap>().operations(&[Operation::Create]);
    policy
        .webhooks()
        .validating(rule, async |_: Admission| Err(Rejection::forbidden("image must be signed")))
        .unwrap();
    let service = WebhookService::new("policy", "policy");
    let mut other = env.operator(move |instance| {
        let policy = policy.clone();
        let service = service.clone();
        async move {
            let manifests = policy.webhooks().configurations(&service).manifests();
            instance.serve_webhooks(policy.webhooks().clone(), manifests).await?;
            Ok(instance.run(policy.ready(), policy.run(instance.stopped())).await?)
        }
    });
    other.start().await.unwrap();
    let manager = manager(&env, env.client());
    let _running = run(&manager, works(apply_child)).await;
    create(&env, "shop", "web").await;
    sleep(SECOND / 10).await;
    assert_eq!(
        findings(&manager).await,
        ["webhook-refuses 5 of the last 5 writes of configmaps shop/web were refused by webhook \
         validate--v1-configmap.configmaps.core (not of this program): \"image must be signed\". The message comes from the \
         webhook: change what the operator writes, or ask the owner of the webhook. The write is retried."]
    );

    other.crash().await;
    sleep(SECOND * 60).await;
    assert_eq!(
        findings(&manager).await,
        ["webhook-refuses 14 of the last 14 writes of configmaps shop/web failed because webhook \
             validate--v1-configmap.configmaps.core (not of this program) did not answer: failed to call webhook: Post \
             \"https://policy.policy.svc:443/validate--v1-configmap?timeout=10s\": dial tcp policy/policy:443: connect: connection \
             refused: the operator does not run. Repair the service of the webhook. Its failurePolicy is Fail, so the API server \
             refuses such writes until it answers. The write is retried."]
    );
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_asks_to_wait_is_reported_with_the_runs_that_wait() {
    let env = environment().await;
    let manager = manager(&env, env.client());
    let _running = run(&manager, works(apply_child)).await;
    let busy = faults::Action::Fail(Failure::TooManyRequests { retry_after: SECOND });
    env.server().faults().add(faults::Rule::new(busy).resource("", "configmaps").verb(faults::Verb::Patch));
    for name in ["a", "b", "c"] {
        create(&env, "shop", name).await;
    }
    sleep(SECOND * 5).await;
    assert_eq!(
        findings(&manager).await,
        [
            "throttled The API server refused 15 requests of the last minute with code 429 and asks to wait 1 s before the next try. \
         3 runs of guestbook wait now. If the operator sends more than it needs, reduce that or set ClientBuilder::rate_limit; \
         otherwise give it a FlowSchema with a larger priority level."
        ]
    );
}
