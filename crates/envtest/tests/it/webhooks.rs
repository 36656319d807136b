//! Installation of webhooks in an environment: configurations, addresses, readiness, and errors.

use std::{
    convert::Infallible,
    future::Future,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::Path,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use k8s_openapi::{
    api::{
        admissionregistration::v1::{ValidatingWebhookConfiguration, WebhookClientConfig},
        core::v1::ConfigMap,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api,
    api::{DeleteParams, ListParams, PostParams},
    core::DynamicObject,
};
use kube_apiserver_embedded::faults::{Action, Failure, Rule, Verb};
use kube_envtest::{
    Builder, Cluster, Environment, Instance, Operator, OperatorError, StartError, Transport, WebhookError,
};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

/// Webhooks of an operator at some paths, which allow every operation.
#[derive(Clone, Default)]
struct Hooks {
    paths: Vec<&'static str>,
    /// Never answers.
    hangs: bool,
    /// Answers 404 at first.
    late: Arc<AtomicBool>,
    /// Reviewed names.
    reviewed: Arc<Mutex<Vec<String>>>,
}

impl tower_service::Service<Request<Bytes>> for Hooks {
    type Response = Response<Bytes>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Bytes>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let hooks = self.clone();
        Box::pin(async move {
            if hooks.hangs {
                std::future::pending::<()>().await;
            }
            let mut response = Response::new(Bytes::new());
            if !hooks.paths.contains(&request.uri().path()) || hooks.late.load(Ordering::Relaxed) {
                *response.status_mut() = StatusCode::NOT_FOUND;
            } else if request.method() == "GET" {
                *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
            } else {
                let mut review: Value = serde_json::from_slice(request.body()).unwrap();
                hooks.reviewed.lock().unwrap().push(review["request"]["name"].as_str().unwrap().to_owned());
                let answer = json!({ "uid": review["request"]["uid"], "allowed": true });
                review.as_object_mut().unwrap().remove("request");
                review["response"] = answer;
                *response.body_mut() = review.to_string().into();
            }
            Ok(response)
        })
    }
}

const SERVED: &str = "/validate-maps";

fn serving() -> Hooks {
    Hooks { paths: vec![SERVED], ..Hooks::default() }
}

/// A configuration for ConfigMaps with names that begin with `map-`.
fn configuration(path: &str) -> Vec<DynamicObject> {
    let object = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": { "name": "maps" },
        "webhooks": [{
            "name": "maps.example.com",
            "admissionReviewVersions": ["v1"],
            "clientConfig": { "service": { "namespace": "system", "name": "hooks", "path": path } },
            "sideEffects": "None",
            "rules": [{ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"] }],
        }],
    });
    vec![serde_json::from_value(object).unwrap()]
}

/// A conversion webhook for the kind of [`definition`].
fn conversion() -> DynamicObject {
    let object = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": { "name": "as.example.com" },
        "spec": { "conversion": { "strategy": "Webhook", "webhook": {
            "clientConfig": { "service": { "namespace": "system", "name": "hooks", "path": SERVED } },
            "conversionReviewVersions": ["v1"],
        } } },
    });
    serde_json::from_value(object).unwrap()
}

fn operator(env: &Environment, hooks: &Hooks, manifests: &[DynamicObject]) -> Operator {
    let (hooks, manifests) = (hooks.clone(), manifests.to_vec());
    env.operator(move |instance| {
        let (hooks, manifests) = (hooks.clone(), manifests.clone());
        async move {
            instance.serve_webhooks(hooks, manifests).await?;
            instance.set_ready();
            instance.stopped().await;
            Ok(())
        }
    })
}

async fn create_map(env: &Environment, name: &str) -> Result<ConfigMap, kube::Error> {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    Api::namespaced(env.client(), "default").create(&PostParams::default(), &map).await
}

fn over_tcp() -> Builder {
    Environment::builder().transport(Transport::Tcp((Ipv4Addr::LOCALHOST, 0).into()))
}

async fn config_of(env: &Environment, name: &str) -> WebhookClientConfig {
    let api: Api<ValidatingWebhookConfiguration> = Api::all(env.client());
    api.get(name).await.unwrap().webhooks.unwrap().remove(0).client_config
}

#[tokio::test(start_paused = true)]
async fn an_operator_has_started_when_its_webhooks_answer() {
    let env = Environment::builder().start().await.unwrap();
    let hooks = serving();
    hooks.late.store(true, Ordering::Relaxed);
    let late = Arc::clone(&hooks.late);
    let registered_late = async {
        sleep(Duration::from_secs(3)).await;
        late.store(false, Ordering::Relaxed);
    };
    let (start, mut operator) = (Instant::now(), operator(&env, &hooks, &configuration(SERVED)));
    tokio::join!(operator.start(), registered_late).0.unwrap();
    assert_eq!(start.elapsed().as_secs(), 3);
    let service = config_of(&env, "maps").await.service.unwrap();
    assert_eq!((&*service.name, service.path.as_deref()), ("hooks", Some(SERVED)), "as in production");
    create_map(&env, "map").await.unwrap();
    assert_eq!(*hooks.reviewed.lock().unwrap(), ["map"]);

    operator.stop().await.unwrap();
    let refused = create_map(&env, "other").await.unwrap_err().to_string();
    assert!(refused.contains("connection refused: the operator does not run"), "{refused}");
    operator.start().await.unwrap();
    create_map(&env, "other").await.unwrap();
    assert_eq!(*hooks.reviewed.lock().unwrap(), ["map", "other"]);
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_does_not_answer_fails_the_start() {
    let env = Environment::builder().webhooks_within(Duration::from_secs(7)).start().await.unwrap();
    let start = Instant::now();
    let error = operator(&env, &serving(), &configuration("/validate-pods")).start().await.unwrap_err();
    assert!(matches!(error, OperatorError::Webhooks(WebhookError::NotServed { .. })), "{error:?}");
    assert_eq!(
        error.to_string(),
        "webhook maps.example.com of ValidatingWebhookConfiguration maps of the operator: the operator serves no webhook at \
         /validate-pods (status 404 for 7s): register one with this path, or correct `clientConfig.service.path`"
    );
    assert_eq!(start.elapsed().as_secs(), 7);
    let api: Api<ValidatingWebhookConfiguration> = Api::all(env.client());
    assert!(api.get_opt("maps").await.unwrap().is_none(), "it would refuse every ConfigMap");

    let hangs = Hooks { hangs: true, ..serving() };
    let error = operator(&env, &hangs, &configuration(SERVED)).start().await.unwrap_err().to_string();
    let expected = "no answer from https://hooks.system.svc:443/validate-maps within 7s: no response; ";
    assert!(error.contains(expected), "{error}");
}

#[tokio::test(start_paused = true)]
async fn configurations_that_cannot_be_used_are_errors_of_the_start() {
    let env = Environment::builder().start().await.unwrap();
    let failure = async |mut operator: Operator| match operator.start().await.unwrap_err() {
        OperatorError::Failed(cause) => cause.to_string(),
        error => panic!("{error:?}"),
    };
    let none = failure(operator(&env, &serving(), &[])).await;
    assert!(none.starts_with("there are no webhook configurations: pass those of the operator"), "{none}");

    let missing = failure(operator(&env, &serving(), &[conversion()])).await;
    assert_eq!(
        missing,
        "the conversion of CustomResourceDefinition as.example.com of the operator cannot be installed, because its \
         CustomResourceDefinition does not exist: add it with `Builder::crd`"
    );
    let homeless = Operator::new(env.client(), |instance: Instance| async move {
        Ok(instance.serve_webhooks(serving(), configuration(SERVED)).await?)
    });
    let homeless = failure(homeless).await;
    assert!(homeless.starts_with("the operator does not belong to an environment: "), "{homeless}");

    let mut bad = configuration(SERVED);
    bad[0].data["webhooks"][0]["sideEffects"] = "Some".into();
    let error = operator(&env, &serving(), &bad).start().await.unwrap_err().to_string();
    assert!(
        error.starts_with("the API server rejected ValidatingWebhookConfiguration maps of the operator: "),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn files_that_cannot_be_used_are_errors_of_the_environment() {
    let start = async |path: &Path| Environment::builder().webhooks_from(path).start().await.unwrap_err();
    let missing = start(Path::new("/nowhere/webhook")).await;
    assert!(matches!(&missing, StartError::Webhooks(WebhookError::Read { .. })), "{missing:?}");
    let folder = tempfile::tempdir().unwrap();
    let nothing = start(folder.path()).await.to_string();
    assert!(nothing.contains("contains no MutatingWebhookConfiguration"), "{nothing}");
    std::fs::write(folder.path().join("a.yaml"), "kind: [").unwrap();
    let broken = start(folder.path()).await.to_string();
    assert!(broken.contains("a.yaml does not contain Kubernetes objects: "), "{broken}");
}

#[tokio::test]
async fn over_sockets_each_environment_has_an_address_and_certificates_of_its_own() {
    let first = over_tcp().start().await.unwrap();
    let second = over_tcp().webhooks_within(Duration::from_millis(300)).start().await.unwrap();
    let (address, folder) = first.webhooks().socket().unwrap();
    let (other, elsewhere) = second.webhooks().socket().unwrap();
    assert!(address != other && folder != elsewhere);
    let read = |folder: &Path| std::fs::read_to_string(folder.join("ca.crt")).unwrap();
    assert_ne!(read(&folder), read(&elsewhere));
    assert!(first.webhooks().socket() == Some((address, folder.clone())));

    let error = second.webhooks().install(configuration(SERVED)).await.unwrap_err();
    let WebhookError::NoAnswer { url, reason, .. } = &error else { panic!("{error:?}") };
    assert_eq!(*url, format!("https://{other}{SERVED}"));
    assert!(reason.contains("Connection refused") && reason.contains("WebhookOptions::local"), "{reason}");
    // A server without TLS.
    let _plain = TcpListener::bind(other).unwrap();
    let error = second.webhooks().install(configuration(SERVED)).await.unwrap_err().to_string();
    assert!(error.contains("within 300ms: no response"), "{error}");
    drop(first);
    assert!(!folder.exists());
}

#[tokio::test]
async fn an_address_that_is_taken_fails_the_start() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address: SocketAddr = taken.local_addr().unwrap();
    let error = over_tcp().webhooks_at(address).start().await.unwrap_err().to_string();
    assert!(
        error.starts_with(&format!("cannot prepare the address {address} for the webhook server: ")),
        "{error}"
    );
}

/// A definition with a Service for its conversions.
fn definition() -> CustomResourceDefinition {
    let schema =
        json!({ "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } });
    let version = |name: &str, storage: bool| json!({ "name": name, "served": true, "storage": storage, "schema": schema });
    let definition = json!({
        "metadata": { "name": "as.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": { "kind": "A", "plural": "as" },
            "versions": [version("v1", false), version("v2", true)],
            "conversion": { "strategy": "Webhook", "webhook": {
                "clientConfig": { "service": { "namespace": "system", "name": "hooks", "path": "/convert" } },
                "conversionReviewVersions": ["v1"],
            } },
        },
    });
    serde_json::from_value(definition).unwrap()
}

#[tokio::test]
async fn services_in_definitions_become_the_address_of_the_test() {
    let env = over_tcp().crds([definition()]).start().await.unwrap();
    let api: Api<CustomResourceDefinition> = Api::all(env.client());
    let stored = api.get("as.example.com").await.unwrap().spec.conversion.unwrap().webhook.unwrap();
    let config = stored.client_config.unwrap();
    let (address, folder) = env.webhooks().socket().unwrap();
    assert_eq!((config.url, config.service.is_none()), (Some(format!("https://{address}/convert")), true));
    assert_eq!(config.ca_bundle.unwrap().0, std::fs::read(folder.join("ca.crt")).unwrap());
}

#[tokio::test(start_paused = true)]
async fn conversions_in_definitions_have_to_be_served() {
    let env = Environment::builder().crds([definition()]).start().await.unwrap();
    let mut operator = operator(&env, &serving(), &configuration(SERVED));
    let error = operator.start().await.unwrap_err().to_string();
    let expected =
        "conversion of CustomResourceDefinition as.example.com: the operator serves no webhook at /convert";
    assert!(error.starts_with(expected), "{error}");
}

/// Options of an environment on the cluster of another one.
fn on(cluster: &Environment) -> Builder {
    let url: http::Uri = cluster.listener().unwrap().url().parse().unwrap();
    let existing = Cluster::Existing(Box::new(kube::Config::new(url)));
    Environment::builder().cluster(existing).webhooks_within(Duration::from_millis(100))
}

#[tokio::test]
async fn a_conversion_is_restored_although_the_answer_to_its_installation_was_lost() {
    let mut plain = definition();
    plain.spec.conversion = None;
    let cluster = over_tcp().crds([plain]).start().await.unwrap();
    let env = on(&cluster).start().await.unwrap();
    let lost = Rule::new(Action::LoseResponse).verb(Verb::Patch);
    cluster.server().faults().add(lost.resource("apiextensions.k8s.io", "customresourcedefinitions").once());
    env.webhooks().install([conversion()]).await.unwrap_err();
    let api: Api<CustomResourceDefinition> = Api::all(cluster.client());
    let strategy = async || api.get("as.example.com").await.unwrap().spec.conversion.unwrap().strategy;
    assert_eq!(strategy().await, "Webhook", "the request was carried out");
    env.stop().await.unwrap();
    assert_eq!(strategy().await, "None");
}

#[tokio::test]
async fn a_stop_goes_on_after_a_failure_and_reports_all_failures() {
    let cluster = over_tcp().start().await.unwrap();
    let mut plain = definition();
    plain.spec.conversion = None;
    let env = on(&cluster).crds([plain]).clean_up().start().await.unwrap();
    // A `url` is that of another server, which is not asked whether it answers.
    let named = |name: &str| {
        let mut configuration = configuration(SERVED).remove(0);
        configuration.metadata.name = Some(name.to_owned());
        configuration.data["webhooks"][0]["clientConfig"] = json!({ "url": "https://127.0.0.1:1/x" });
        configuration
    };
    env.webhooks().install([named("first"), named("second")]).await.unwrap();
    let fails = || Rule::new(Action::Fail(Failure::Internal)).verb(Verb::Delete).once();
    let faults = cluster.server().faults();
    faults.add(fails().resource("admissionregistration.k8s.io", "validatingwebhookconfigurations"));
    faults.add(fails().resource("apiextensions.k8s.io", "customresourcedefinitions"));
    let error = env.stop().await.unwrap_err().to_string();
    for object in ["ValidatingWebhookConfiguration first of the operator", "as.example.com"] {
        assert!(error.contains(object), "{error}");
    }
    let api: Api<ValidatingWebhookConfiguration> = Api::all(cluster.client());
    let left = api.list(&ListParams::default()).await.unwrap().items;
    let left: Vec<String> = left.into_iter().map(|found| found.metadata.name.unwrap()).collect();
    assert!(left.len() == 1 && left[0].starts_with("first-"), "{left:?}");
}

#[tokio::test]
async fn webhooks_on_an_existing_cluster_belong_to_one_environment_and_are_removed_with_it() {
    let cluster = over_tcp().start().await.unwrap();
    let (first, second) = (on(&cluster).start().await.unwrap(), on(&cluster).start().await.unwrap());
    let api: Api<ValidatingWebhookConfiguration> = Api::all(cluster.client());
    let names = async || {
        let listed = api.list(&ListParams::default()).await.unwrap().items;
        listed.into_iter().map(|found| found.metadata.name.unwrap()).collect::<Vec<_>>()
    };
    // A `url` is that of another server, which is not asked whether it answers.
    let mut configuration = configuration(SERVED);
    configuration[0].data["webhooks"][0]["clientConfig"] = json!({ "url": "https://127.0.0.1:1/x" });
    for env in [&first, &second] {
        env.webhooks().install(configuration.clone()).await.unwrap();
    }
    let both = names().await;
    assert!(both.len() == 2 && both.iter().all(|name| name.starts_with("maps-")), "{both:?}");

    // Outside of the namespaces of both environments nothing is called.
    create_map(&cluster, "map").await.unwrap();
    let namespace = first.namespace("mine").await.unwrap();
    let labels = api.get(&both[0]).await.unwrap().webhooks.unwrap().remove(0).namespace_selector.unwrap();
    let labels: Vec<String> =
        labels.match_labels.unwrap().into_iter().map(|(key, value)| format!("{key}={value}")).collect();
    let other = api.get(&both[1]).await.unwrap().webhooks.unwrap().remove(0).namespace_selector.unwrap();
    let other = other.match_labels.unwrap().into_iter().map(|(key, value)| format!("{key}={value}"));
    let mut selected = Vec::new();
    for selector in labels.into_iter().chain(other) {
        let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(cluster.client());
        selected.extend(namespaces.list(&ListParams::default().labels(&selector)).await.unwrap().items);
    }
    assert_eq!(selected.len(), 1, "one of both selects it");
    assert_eq!(selected[0].metadata.name.as_deref(), Some(namespace.name()));

    first.stop().await.unwrap();
    assert_eq!(names().await.len(), 1);
    api.delete(&names().await[0], &DeleteParams::default()).await.unwrap();
    second.stop().await.expect("a configuration that is gone is no error");
}
