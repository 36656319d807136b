//! Tests of the commands, without a cluster.

mod chart;
mod check;
mod drift;
mod objects;
mod reference;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::{runtime::Handle, task::block_in_place};

use super::*;
use crate::{
    Action, Builder, ClientError, ObjectKey, Verb,
    manager::AddError,
    reconcile,
    webhook::{Defaulter, Validator, Verdict, WebhookOptions},
};

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Guestbook", namespaced, status = "GuestbookStatus")]
struct GuestbookSpec {
    greeting: String,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
struct GuestbookStatus {
    ready: bool,
}

impl Defaulter for Guestbook {
    async fn set_defaults(&mut self, _: &crate::webhook::Admission) -> Verdict {
        Ok(())
    }
}

impl Validator for Guestbook {}

fn add_to(manager: &Manager) -> Result<(), AddError> {
    let reconciler = reconcile::from_fn(async |_: &ObjectKey<Guestbook>, _: &_| Ok(Action::done()));
    let builder = Builder::managed_by(manager).for_kind::<Guestbook>().owns::<ConfigMap>();
    builder.needs::<ConfigMap>([Verb::Delete]).complete(reconciler)?;
    Ok(())
}

/// Adds another controller, with webhooks.
fn add_webhooks_to(manager: &Manager) -> Result<(), AddError> {
    let reconciler = reconcile::from_fn(async |_: &ObjectKey<Guestbook>, _: &_| Ok(Action::done()));
    let builder = Builder::managed_by(manager).for_kind::<Guestbook>().named("webhooks");
    builder.defaulted().validated().complete(reconciler)?;
    Ok(())
}

fn guestbook() -> Operator {
    Operator::new("guestbook", "guestbook.example.com").version("1.2.3").crd::<Guestbook>().setup(add_to)
}

/// Runs the command in `line`. Returns its output, or the exit code and the message.
async fn answer(operator: &Operator, line: &str) -> Result<String, (u8, String)> {
    match operator.answer(line.split_whitespace()).await {
        Ok(answer) if answer.differs => Err((DIFFERS, answer.text)),
        Ok(answer) => Ok(answer.text),
        Err(error) => Err((error.exit_code(), error.to_string())),
    }
}

fn kinds(text: &str) -> Vec<&str> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("kind: "));
    lines.collect()
}

#[tokio::test]
async fn manifests_are_printed_without_a_cluster() {
    let text =
        answer(&guestbook(), "manifests --image registry.example.com/guestbook:1").await.expect("manifests");
    assert_eq!(
        kinds(&text),
        [
            "Namespace",
            "CustomResourceDefinition",
            "ServiceAccount",
            "ClusterRole",
            "ClusterRoleBinding",
            "ClusterRole",
            "ClusterRole",
            "ClusterRole",
            "Deployment"
        ]
    );
    assert!(text.contains("image: registry.example.com/guestbook:1\n"), "{text}");
    assert_eq!(answer(&guestbook(), "manifests --image registry.example.com/guestbook:1").await, Ok(text));
}

#[tokio::test]
async fn flags_of_the_run_shape_the_manifests() {
    let line =
        "manifests --only deployment,services --replicas 2 -- --leader-elect --metrics-bind-address=:8443";
    let text = answer(&guestbook(), line).await.expect("manifests");
    for part in [
        "args: [--leader-elect, --metrics-bind-address=:8443]\n",
        "- {containerPort: 8443, name: metrics}\n",
        "terminationGracePeriodSeconds: 45",
        "replicas: 2",
        "path: /readyz",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    assert!(!text.contains("Recreate"), "the lease allows a rolling update: {text}");
    assert_eq!(kinds(&text), ["Service", "Deployment"]);
}

#[tokio::test]
async fn json_begins_with_the_schema() {
    let text = answer(&guestbook(), "crds --format json").await.expect("definitions");
    assert!(text.starts_with(r#"{"schema":"operator/v1","library":""#), "{text}");
    let value: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(value["objects"][0]["metadata"]["name"], "guestbooks.example.com");
}

/// Sends a request for an object, which a setup function must not do.
fn ask(manager: &Manager) -> Result<Option<ConfigMap>, ClientError> {
    let roses = ObjectKey::new("shop", "roses");
    block_in_place(|| Handle::current().block_on(manager.client().get::<ConfigMap>(&roses).into_future()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn setup_that_asks_the_server_is_named() {
    let asking = guestbook().setup(|manager| ask(manager).map(drop));
    let refused = answer(&asking, "manifests").await.expect_err("there is no API server");
    let expected = "a setup function sent the request GET /api/v1/namespaces/shop/configmaps/roses while manifests were printed: \
                    use DynamicKind, or send it in a reconcile";
    assert_eq!(refused, (1, expected.to_owned()));
    let hiding = guestbook().setup(|manager| {
        let _ = ask(manager);
        Ok::<_, AddError>(())
    });
    assert_eq!(answer(&hiding, "manifests").await.expect_err("an answer was missing").1, expected);
}

#[tokio::test]
async fn setup_that_fails_is_named_by_its_line() {
    let place = Location::caller().line() + 1;
    let failing = guestbook().setup(|_| Err("no theme"));
    let (code, text) = answer(&failing, "manifests").await.expect_err("setup fails");
    assert_eq!(code, 1);
    assert!(text.contains(&format!("tests/mod.rs:{place}:")) && text.ends_with("failed: no theme"), "{text}");
}

#[tokio::test]
async fn wrong_usage_has_code_2() {
    for line in [
        "manifest",
        "manifests --only everything",
        "manifests --replicas 0",
        "manifests -- --loud",
        "manifests -- crds",
        "manifests -- manifests",
        "crds --format xml",
        "manifests --layout kustomize",
        "manifests --layout tar",
        "manifests --baseline deploy/operator.yaml",
        "manifests --check --allow [{}]",
        "manifests --resources 3",
        "rbac -- crds",
        "--metrics-bind-address=8443",
    ] {
        let (code, text) = answer(&guestbook(), line).await.expect_err(line);
        assert_eq!(code, 2, "{line}: {text}");
    }
}

#[tokio::test]
async fn wrong_names_and_ports_fail_with_the_next_step() {
    for (operator, line, expected) in [
        (Operator::new("Guest_Book", "id"), "manifests", "\"Guest_Book\""),
        (Operator::new("9lives", "id"), "manifests", "must begin with a letter"),
        (guestbook(), "manifests --namespace Shop", "\"Shop\""),
        (guestbook(), "manifests --replicas 2", "add --leader-elect"),
        (guestbook(), "manifests -- --health-probe-bind-address=:0", "such as :8081"),
    ] {
        let (code, text) = answer(&operator, line).await.expect_err(line);
        assert!(code == 1 && text.contains(expected), "{line}: {code} {text}");
    }
}

#[tokio::test]
async fn help_and_version_are_answers() {
    assert_eq!(answer(&guestbook(), "--version").await, Err((0, "guestbook 1.2.3\n".to_owned())));
    let (code, text) = answer(&guestbook(), "--help").await.expect_err("help");
    assert!(code == 0 && text.contains("manifests") && text.contains("--leader-elect"), "{text}");
}

#[tokio::test]
async fn rights_are_printed_with_their_lines() {
    let text = answer(&guestbook(), "rbac -- --leader-elect").await.expect("a table");
    for part in [
        "list watch",
        "guestbooks.example.com/status",
        "leases.coordination.k8s.io",
        "operator/tests/mod.rs:",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    let text = answer(&guestbook(), "rbac --format json").await.expect("JSON");
    let value: Value = serde_json::from_str(&text).expect("JSON");
    let delete =
        value["rights"].as_array().expect("a list").iter().find(|right| right["verbs"][0] == "delete");
    let delete = delete.expect("needs");
    assert_eq!((&delete["resource"], &delete["scope"]), (&"configmaps".into(), &"cluster".into()));
    assert_eq!(value["risks"], Value::Array(Vec::new()));
}
