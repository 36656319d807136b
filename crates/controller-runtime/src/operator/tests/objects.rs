//! The rendered objects, and their acceptance by an API server.

use expect_test::expect_file;
use http::Request;
use kube_envtest::Environment;
use serde_json::Value;

use super::*;
use crate::manifests::{Parameters, Part, Program, RENDERED_BY, RenderError, objects_of};

/// Flags with which each server and the election are on.
const EVERYTHING: &str = "--leader-elect --metrics-bind-address=:8443 --metrics-cert-path=/certs/metrics";

fn complete() -> Operator {
    guestbook().setup(add_webhooks_to)
}

/// An operator that has every kind of object, and the options that render them all.
pub(super) fn complete_manifests() -> (Operator, String) {
    let options = format!(
        "--namespace shop --image registry.example.com/guestbook:1 --service-monitor -- {EVERYTHING}"
    );
    (complete(), options)
}

#[tokio::test]
async fn everything_is_rendered() {
    let line = format!(
        "manifests --namespace shop --image registry.example.com/guestbook:1 --service-monitor -- {EVERYTHING}"
    );
    let text = answer(&complete(), &line).await.expect("manifests");
    assert_eq!(answer(&complete(), &line).await.expect("manifests"), text, "the second time");
    // The digest of each object is tested below.
    let without_digest: String = text
        .lines()
        .map(|line| match line.split_once("sha256:") {
            Some((before, digest)) => format!("{before}sha256:…{}\n", &digest[12..]),
            None => format!("{line}\n"),
        })
        .collect();
    expect_file!["guestbook.yaml"].assert_eq(&without_digest);
}

#[tokio::test]
async fn an_operator_with_one_kind_has_less_than_180_lines() {
    let text = answer(&guestbook(), "manifests").await.expect("manifests");
    assert!(text.lines().count() <= 180, "{} lines", text.lines().count());
}

#[tokio::test]
async fn an_api_server_accepts_every_object_with_strict_validation() {
    let env = Environment::builder().start().await.expect("an API server");
    let line = format!("manifests -- {EVERYTHING}");
    let objects = objects_of(&answer(&complete(), &line).await.expect("manifests")).expect("YAML");
    assert!(objects.len() > 15, "{} objects", objects.len());
    for object in objects {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
        let plural = match &*kind {
            "NetworkPolicy" => "networkpolicies".to_owned(),
            kind => format!("{}s", kind.to_lowercase()),
        };
        let root = if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
        let namespace = match object["metadata"]["namespace"].as_str() {
            Some(namespace) => format!("/namespaces/{namespace}"),
            None => String::new(),
        };
        let request = Request::post(format!("{root}{namespace}/{plural}?fieldValidation=Strict"))
            .header("content-type", "application/json")
            .body(object.to_string().into_bytes())
            .expect("a request");
        let created = env.client().request::<Value>(request).await;
        let created = created.unwrap_or_else(|error| panic!("{kind}: {error}"));
        assert_eq!(created["metadata"]["name"], object["metadata"]["name"], "{kind}");
    }
}

#[tokio::test]
async fn an_edit_changes_the_digest() {
    let digest = async |line: &str| {
        let objects = objects_of(&answer(&guestbook(), line).await.expect("manifests")).expect("YAML");
        let text =
            objects[0]["metadata"]["annotations"][RENDERED_BY].as_str().expect("an annotation").to_owned();
        let (library, digest) = text.split_once(", sha256:").expect("a digest");
        assert_eq!(library, concat!("controller-runtime ", env!("CARGO_PKG_VERSION")));
        digest.to_owned()
    };
    let one = digest("manifests --only deployment --image a").await;
    assert_eq!(one.len(), 12);
    assert_eq!(one, digest("manifests --only deployment --image a").await);
    assert_ne!(one, digest("manifests --only deployment --image b").await);
}

#[tokio::test]
async fn without_an_election_a_second_pod_never_runs() {
    let text = answer(&guestbook(), "manifests --only deployment").await.expect("manifests");
    assert!(text.contains("strategy: {type: Recreate}\n"), "{text}");
}

/// Objects of the operator with these options.
async fn rendered(
    adapt: impl Fn(ManagerOptions) -> ManagerOptions + Send + Sync + 'static,
    parameters: &Parameters,
) -> Result<String, RenderError> {
    let flags = arguments::run_flags(&guestbook(), &[]).unwrap_or_else(|_| panic!("the flags are good"));
    let manager = complete().options(adapt).manager_offline(&flags, "guestbook").expect("it is set up");
    Ok(Program::of(&manager).render(parameters)?.only(&[Part::Deployment, Part::Services]).to_yaml())
}

#[tokio::test]
async fn the_grace_period_follows_the_drain() {
    use std::time::Duration;

    use crate::manager::Shutdown;
    for (drain, seconds) in [
        (Shutdown::Immediate, 15),
        (Shutdown::Within(Duration::from_secs(30)), 45),
        (Shutdown::Within(Duration::from_millis(1_500)), 17),
        (Shutdown::Unbounded, 3600),
    ] {
        let adapt = move |options: ManagerOptions| options.graceful_shutdown_timeout(drain);
        let text = rendered(adapt, &Parameters::default()).await.expect("objects");
        assert!(text.contains(&format!("terminationGracePeriodSeconds: {seconds}\n")), "{drain:?}: {text}");
    }
}

#[tokio::test]
async fn ports_that_other_hosts_cannot_reach_are_not_rendered() {
    let adapt = |options: ManagerOptions| {
        options.health_probe_bind_address("127.0.0.1:8081".parse().expect("an address"))
    };
    let text = rendered(adapt, &Parameters::default()).await.expect("objects");
    assert!(!text.contains("livenessProbe") && !text.contains("8081"), "{text}");
}

/// An API server would refuse all objects of a kind if it could not call the webhooks of its configurations.
#[tokio::test]
async fn webhooks_without_a_server_are_not_rendered() {
    let with = answer(&complete(), "manifests --only services,webhooks").await.expect("objects");
    let expected = ["Service", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];
    assert_eq!(kinds(&with), expected);
    for flag in
        ["--enable-webhooks=false", "--webhook-bind-address=0", "--webhook-bind-address=127.0.0.1:9443"]
    {
        let without = answer(&complete(), &format!("manifests --only services,webhooks -- {flag}")).await;
        assert_eq!(without, Ok(String::new()), "{flag}");
    }
}

#[tokio::test]
async fn webhooks_with_certificates_from_files_have_a_secret_and_their_service() {
    use crate::serving::{CertFiles, Serving};
    let adapt = |options: ManagerOptions| {
        options
            .webhooks(WebhookOptions::default().serving(Serving::Files(CertFiles::in_dir("/certs/webhooks"))))
    };
    let text = rendered(adapt, &Parameters::default()).await.expect("objects");
    for part in [
        "mountPath: /certs/webhooks",
        "secretName: guestbook-webhooks-certificate",
        "name: guestbook-webhooks\n",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    let elsewhere = |options: ManagerOptions| {
        let service = WebhookService::new("system", "hooks");
        options.webhooks(WebhookOptions::default().certificates(SelfManagedCertificates::new(&service)))
    };
    let text = rendered(elsewhere, &Parameters::default()).await.expect("objects");
    assert!(text.contains("name: hooks\n  namespace: system\n"), "{text}");
    let refused =
        rendered(elsewhere, &Parameters::default().namespace("shop")).await.expect_err("two namespaces");
    assert_eq!(
        refused,
        RenderError::ServiceNamespace { service: "system".to_owned(), namespace: "shop".to_owned() }
    );
}

#[tokio::test]
async fn a_monitor_needs_a_certificate_that_can_be_verified() {
    let (code, text) = answer(&guestbook(), "manifests --service-monitor -- --metrics-bind-address=:8443")
        .await
        .expect_err("it is self-signed");
    assert!(code == 1 && text.contains("add --metrics-cert-path"), "{text}");
    let plain = "manifests --service-monitor --only monitoring -- --metrics-bind-address=:8080 --metrics-secure=false";
    let text = answer(&guestbook(), plain).await.expect("a monitor");
    assert!(text.contains("scheme: http}\n") && !text.contains("bearerTokenFile"), "{text}");
}
