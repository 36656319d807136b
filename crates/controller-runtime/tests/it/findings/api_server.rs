//! Findings about the API server: watches, rights, webhooks and limits.

use controller_runtime::{
    Manager, ManagerOptions,
    webhook::{Admission, Operation, Rejection, Rule, WebhookOptions, WebhookService},
};
use k8s_openapi::api::{
    core::v1::ConfigMap,
    rbac::v1::{ClusterRole, ClusterRoleBinding},
};
use kube_apiserver_embedded::faults::{self, Failure};
use serde_json::json;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{SECOND, apply_child, client, create, environment, findings, from_json, manager, run, works};
use crate::faults::{Fault, faulty};

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
