//! Findings: each problem with its exact text.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use controller_runtime::{
    Action, Builder, Cached, Client, Context, DynamicKind, Manager, ManagerOptions, ObjectKey,
    ReconcileError, Reconciler,
    client::Patch,
    controller::ControllerOptions,
    reconcile, set_controller_reference,
    webhook::{Admission, Operation, Rejection, Rule, WebhookOptions, WebhookService},
};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Namespace},
    rbac::v1::{ClusterRole, ClusterRoleBinding},
};
use kube::{CustomResource, CustomResourceExt};
use kube_apiserver_embedded::faults::{self, Failure};
use kube_envtest::{Environment, Epoch};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
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
async fn a_missing_right_names_its_registration_and_the_rule_to_add_until_the_request_succeeds() {
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
    let role = |verbs: &[&str]| from_json::<ClusterRole>(rules(verbs));
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": { "name": "guestbook" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "guestbook" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "operator" }],
    });
    admin.create(&role(&["list", "watch", "create"])).await.unwrap();
    admin.create(&from_json::<ClusterRoleBinding>(binding)).await.unwrap();
    let manager = manager(&env, env.client_for("operator", [""; 0]));
    let _running = run(&manager, works(apply_child)).await;
    create(&env, "shop", "web").await;
    sleep(SECOND).await;
    let declarations = manager.declarations();
    let owns = declarations.iter().find(|declaration| declaration.reason == "owns").unwrap().place;
    let text = "missing-right guestbook may not patch configmaps in namespace shop: 8 requests refused with code 403 since \
                10:00:00 UTC. The right is declared by owns of controller guestbook at PLACE, but the applied roles lack it: render \
                and apply the manifests of this program again, or give the operator's ServiceAccount a Role in namespace shop with \
                the rule {apiGroups: [\"\"], resources: [\"configmaps\"], verbs: [\"create\", \"patch\"]}.";
    let place = format!("{}:{}", owns.file(), owns.line());
    assert_eq!(findings(&manager).await, [text.replace("PLACE", &place)]);

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
async fn a_fight_over_a_field_names_both_sides_within_five_turns() {
    let env = environment().await;
    let manager = manager(&env, env.client());
    let owners = manager.cached::<Guestbook>();
    let works = works(move |key, client| apply_deployment(owners.clone(), key, client));
    Builder::managed_by(&manager).for_kind::<Guestbook>().owns::<Deployment>().complete(works).unwrap();
    let _running = Running::start(manager.clone()).await;
    create(&env, "shop", "web").await;
    let hpa = Client::new(env.client(), "hpa");
    let web = ObjectKey::<Deployment>::new("shop", "web");
    for _ in 0..2 {
        assert_eq!(findings(&manager).await, [""; 0]);
        sleep(SECOND * 6).await;
        hpa.merge_patch(&web, &json!({ "spec": { "replicas": 2 } })).await.unwrap();
        sleep(SECOND / 10).await;
        let replicas = hpa.get(&web).await.unwrap().unwrap().spec.unwrap().replicas;
        assert_eq!(replicas, Some(3), "the operator sets it back");
    }
    assert_eq!(
        findings(&manager).await,
        [
            "fight Deployment shop/web: .spec.replicas is written alternately by guestbook (3) and hpa (2), 5 times in 12 s. \
             Remove the field from the writes of guestbook, or stop hpa from writing it."
        ]
    );
    let finding = &manager.findings().await[0];
    assert_eq!(
        finding.evidence,
        [
            "10:00:12 UTC: guestbook wrote 3",
            "10:00:12 UTC: hpa",
            "10:00:06 UTC: guestbook wrote 3",
            "10:00:06 UTC: hpa"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_status_that_differs_in_each_run_is_named() {
    let env = environment().await;
    let manager = manager(&env, env.client());
    let count = Arc::new(AtomicU32::new(0));
    let works = works(move |key, client| {
        let seen = count.fetch_add(1, Relaxed);
        async move {
            sleep(SECOND / 4).await;
            let status = Patch::merge(&json!({ "status": { "lastSeen": seen.to_string() } }));
            client.subresource(&key, "status").patch::<Guestbook>(status).await?;
            Ok(())
        }
    });
    let _running = run(&manager, works).await;
    create(&env, "shop", "web").await;
    sleep(SECOND).await;
    assert_eq!(findings(&manager).await, [""; 0]);
    sleep(SECOND + SECOND / 10).await;
    assert_eq!(
        findings(&manager).await,
        [
            "self-trigger Guestbook shop/web: 8 runs in 2 s, each caused by a write of the previous run: status.lastSeen of \
             guestbooks.example.com shop/web differs each time. Write the field only if something else changes as well, or ignore \
             such events: with_predicate(GenerationChanged)."
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_stuck_deletion_names_the_finalizer_and_the_manager_that_added_it() {
    let env = environment().await;
    let manager = manager(&env, env.client());
    let owners = manager.cached::<Guestbook>();
    let works = works(move |key, client| {
        let owners = owners.clone();
        async move {
            let Some(guestbook) = owners.get(&key)? else { return Ok(()) };
            if guestbook.metadata.deletion_timestamp.is_some() {
                return Err(ReconcileError::new("the archive is full"));
            }
            if guestbook.metadata.finalizers.is_none() {
                let patch = json!({ "metadata": { "finalizers": ["example.com/archive"] } });
                client.merge_patch(&key, &patch).await?;
            }
            Ok(())
        }
    });
    let _running = run(&manager, works).await;
    let other = Client::new(env.client(), "other-operator");
    let mut old = guestbook("shop", "old");
    old.metadata.finalizers = Some(vec!["other.example.com/hold".to_owned()]);
    other.create(&old).await.unwrap();
    create(&env, "shop", "ours").await;
    sleep(SECOND).await;
    for name in ["old", "ours"] {
        other.delete_key(&ObjectKey::<Guestbook>::new("shop", name)).await.unwrap();
    }
    sleep(SECOND * 240).await;
    assert_eq!(of("stuck-finalizer", &findings(&manager).await), [""; 0], "a deletion may take some minutes");
    sleep(SECOND * 3600 * 3).await;
    assert_eq!(
        of("stuck-finalizer", &findings(&manager).await),
        [
            "Guestbook shop/old was deleted 3 h 4 min ago and waits for finalizer other.example.com/hold, which other-operator added. \
             This operator did not add it. Check whether the program that removes it runs. Remove the finalizer by hand only if that \
             program is gone and its clean-up does not matter.",
            "Guestbook shop/ours was deleted 3 h 4 min ago and waits for finalizer example.com/archive of this operator. The last \
             run of controller guestbook failed at 12:51:51 UTC: the archive is full. Repair the cause of the error: the operator \
             removes its finalizer when its clean-up succeeds."
        ]
    );
}

/// For each list of findings, the managers of fields are read for at most eight objects. The next list includes those of other objects.
#[tokio::test(start_paused = true)]
async fn later_findings_know_the_managers_of_all_stuck_objects() {
    let env = environment().await;
    let manager = manager(&env, env.client());
    let owners = manager.cached::<Guestbook>();
    let works = works(move |key, client| {
        let owners = owners.clone();
        async move {
            let Some(guestbook) = owners.get(&key)? else { return Ok(()) };
            if guestbook.metadata.finalizers.is_none() {
                let patch = json!({ "metadata": { "finalizers": ["example.com/archive"] } });
                client.merge_patch(&key, &patch).await?;
            }
            Ok(())
        }
    });
    let _running = run(&manager, works).await;
    let names: Vec<String> = (0..10).map(|number| format!("book-{number}")).collect();
    for name in &names {
        create(&env, "shop", name).await;
    }
    sleep(SECOND).await;
    for name in &names {
        let key = ObjectKey::<Guestbook>::new("shop", name.as_str());
        Client::new(env.client(), "other").delete_key(&key).await.unwrap();
    }
    sleep(SECOND * 600).await;
    for expected in [8, 10] {
        let findings = findings(&manager).await;
        let stuck = of("stuck-finalizer", &findings);
        let ours = stuck.iter().filter(|text| text.contains("example.com/archive of this operator"));
        assert_eq!((ours.count(), stuck.len()), (expected, 10), "{stuck:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_does_not_fit_its_type_is_named_with_its_last_writer() {
    let env = environment().await;
    // The schema of the cluster is older than the type.
    let mut loose = Guestbook::crd();
    for version in &mut loose.spec.versions {
        let schema = version.schema.as_mut().unwrap().open_api_v3_schema.as_mut().unwrap();
        schema.properties.as_mut().unwrap().insert(
            "spec".to_owned(),
            from_json(json!({
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            })),
        );
    }
    client(&env).apply(&loose).await.unwrap();
    sleep(SECOND).await;
    for number in 0..3 {
        create(&env, "shop", &format!("good-{number}")).await;
    }
    let kind = DynamicKind::namespaced("example.com", "v1", "Guestbook", "guestbooks");
    let bad: kube::core::DynamicObject = from_json(json!({
        "apiVersion": "example.com/v1", "kind": "Guestbook", "metadata": { "namespace": "shop", "name": "bad" },
        "spec": { "theme": 3 },
    }));
    Client::new(env.client(), "kubectl-edit").of(kind).create(&bad).await.unwrap();
    let manager = manager(&env, env.client());
    let owners = manager.cached::<Guestbook>();
    let works = works(move |key, _| {
        let owners = owners.clone();
        async move {
            owners.get(&key)?;
            Ok(())
        }
    });
    let _running = run(&manager, works).await;
    sleep(SECOND).await;
    assert_eq!(
        of("unreadable-object", &findings(&manager).await),
        [
            "Guestbook shop/bad does not fit its Rust type: .spec.theme: invalid type: integer `3`, expected a string (version 208, \
             written by kubectl-edit at 10:00:01 UTC). It is not reconciled until it changes. The other 3 objects of its kind are not \
             affected. Correct the object, or widen the type."
        ]
    );
    let fixed = json!({ "spec": { "theme": "roses" } });
    client(&env).merge_patch(&ObjectKey::<Guestbook>::new("shop", "bad"), &fixed).await.unwrap();
    sleep(SECOND).await;
    assert_eq!(findings(&manager).await, [""; 0]);
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
            "starved Guestbook blog/a has been in line for 48 s: 8 of 8 workers of controller guestbook work for shop, which has 1,608 more \
             requests in line. Let namespaces take turns with fair_by in ControllerOptions::queue, or set more workers with \
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
