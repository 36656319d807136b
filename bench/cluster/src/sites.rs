//! The Site kind. Writes and conversions of Sites call webhooks.

use std::cell::RefCell;
use std::fs;
use std::net::TcpListener;
use std::path::Path;

use anyhow::Context as _;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bench_peer::{Ask, Reply};
use futures::{StreamExt as _, TryStreamExt as _};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, PostParams};
use kube::client::ConfigExt as _;
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, Config};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::{Value, json};
use tokio::time::{Duration, Instant, MissedTickBehavior, interval, sleep};
use tower::ServiceBuilder;

use crate::each;

const GROUP: &str = "sites.example.com";
const NAMESPACE: &str = "sites";
/// Number of reviews that the API server sends at a time.
const REVIEWS: usize = 3;

/// Webhooks of a peer: where they are served, and how the API server trusts them.
pub(crate) struct Webhooks {
    port: u16,
    /// Certificate of the authority in PEM, encoded for `caBundle`.
    authority: String,
    /// The same in DER.
    root: Vec<u8>,
}

impl Webhooks {
    /// Writes a certificate for 127.0.0.1 and its key to `folder`, and picks a free port.
    pub(crate) fn prepare(folder: &Path) -> anyhow::Result<(Self, Reply)> {
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
        let key = KeyPair::generate()?;
        let certificate = CertificateParams::new(["127.0.0.1".to_owned()])?.signed_by(&key, &authority)?;
        let folder = folder.join("webhooks");
        fs::create_dir(&folder)?;
        fs::write(folder.join("tls.crt"), certificate.pem())?;
        fs::write(folder.join("tls.key"), key.serialize_pem())?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let root = authority.der().to_vec();
        let webhooks = Self { port, authority: BASE64_STANDARD.encode(authority.pem()), root };
        let reply = Reply::figures([
            ("certificates", Value::from(folder.display().to_string())),
            ("port", port.into()),
        ]);
        Ok((webhooks, reply))
    }

    fn client_config(&self, path: &str) -> Value {
        json!({"url": format!("https://127.0.0.1:{}{path}", self.port), "caBundle": self.authority})
    }

    fn webhooks(&self, verb: &str) -> Value {
        json!([{
            "name": format!("{verb}.sites.example.com"),
            "clientConfig": self.client_config(&format!("/{verb}-sites-example-com-v2-site")),
            "rules": [{"apiGroups": [GROUP], "apiVersions": ["v2"], "resources": ["sites"], "operations": ["CREATE"]}],
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
        }])
    }

    /// Creates the definition. Version v2 is stored.
    pub(crate) async fn define(&self, client: Client) -> anyhow::Result<Reply> {
        let version = |name: &str, is_stored: bool, spec: Value| {
            json!({"name": name, "served": true, "storage": is_stored, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "properties": spec}},
            }}})
        };
        let definition = json!({
            "metadata": {"name": format!("sites.{GROUP}")},
            "spec": {
                "group": GROUP,
                "scope": "Namespaced",
                "names": {"plural": "sites", "singular": "site", "kind": "Site", "listKind": "SiteList"},
                "versions": [
                    version("v1", false, json!({"address": {"type": "string"}, "replicas": {"type": "integer"}})),
                    version("v2", true, json!({
                        "host": {"type": "string"}, "port": {"type": "integer"}, "replicas": {"type": "integer"},
                    })),
                ],
                "conversion": {"strategy": "Webhook", "webhook": {
                    "conversionReviewVersions": ["v1"], "clientConfig": self.client_config("/convert"),
                }},
            },
        });
        let definition: CustomResourceDefinition = serde_json::from_value(definition)?;
        kube_envtest::install_crds(&client, &[definition]).await?;
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(NAMESPACE.to_owned());
        Api::all(client).create(&PostParams::default(), &namespace).await?;
        Ok(Reply::done())
    }

    /// Creates the configurations, and waits until the webhooks answer.
    pub(crate) async fn configure(&self, client: Client) -> anyhow::Result<Reply> {
        let mutating = json!({"metadata": {"name": "sites"}, "webhooks": self.webhooks("mutate")});
        let validating = json!({"metadata": {"name": "sites"}, "webhooks": self.webhooks("validate")});
        let mutating: MutatingWebhookConfiguration = serde_json::from_value(mutating)?;
        let validating: ValidatingWebhookConfiguration = serde_json::from_value(validating)?;
        let parameters = PostParams::default();
        Api::all(client.clone()).create(&parameters, &mutating).await?;
        Api::all(client.clone()).create(&parameters, &validating).await?;
        let dry_run = PostParams { dry_run: true, ..PostParams::default() };
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            match sites(client.clone(), "v2").create(&dry_run, &site(0)).await {
                Ok(site) => {
                    anyhow::ensure!(
                        site.data["spec"]["replicas"] == 1,
                        "the webhook sets no default: {:?}",
                        site.data
                    );
                    return Ok(Reply::done());
                }
                Err(error) if Instant::now() > deadline => {
                    return Err(error).context("the webhooks do not answer");
                }
                Err(_) => sleep(Duration::from_millis(50)).await,
            }
        }
    }
}

/// Creates `count` Sites, from number `first` on, as fast as possible. Returns the seconds, and the round trips in nanoseconds.
pub(crate) async fn create(client: Client, ask: &Ask) -> anyhow::Result<Reply> {
    let (first, count) = (ask.number("first")?, ask.number("count")?);
    let sites = sites(client, "v2");
    let started = Instant::now();
    let round_trips = RefCell::new(Vec::with_capacity(count));
    let create = async |number| {
        let sent = Instant::now();
        sites.create(&PostParams::default(), &site(number)).await?;
        round_trips.borrow_mut().push(sent.elapsed().as_nanos());
        Ok(())
    };
    each(first..first + count, create).await?;
    let round_trips: Vec<u64> =
        round_trips.into_inner().into_iter().map(u64::try_from).collect::<Result<_, _>>()?;
    Ok(Reply::figures([
        ("seconds", Value::from(started.elapsed().as_secs_f64())),
        ("round_trips", json!(round_trips)),
    ]))
}

/// Creates `count` Sites at an even pace. Returns the round trips in nanoseconds.
pub(crate) async fn paced(client: Client, ask: &Ask) -> anyhow::Result<Reply> {
    let (first, count) = (ask.number("first")?, ask.number("count")?);
    let sites = sites(client, "v2");
    let mut ticks = interval(Duration::from_secs(1) / u32::try_from(ask.number("per_second")?)?);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut round_trips = Vec::with_capacity(count);
    for number in first..first + count {
        ticks.tick().await;
        let sent = Instant::now();
        sites.create(&PostParams::default(), &site(number)).await?;
        round_trips.push(u64::try_from(sent.elapsed().as_nanos())?);
    }
    Ok(Reply::figures([("round_trips", json!(round_trips))]))
}

/// Lists all Sites in version v1, in one request. The time ends when the answer was read, before it is parsed.
pub(crate) async fn convert(client: Client, ask: &Ask) -> anyhow::Result<Reply> {
    let started = Instant::now();
    let text = list(&client, "v1").await?;
    let seconds = started.elapsed().as_secs_f64();
    check_converted(&objects(&text)?, ask.number("count")?)?;
    Ok(Reply::figures([("seconds", seconds)]))
}

async fn list(client: &Client, version: &str) -> anyhow::Result<String> {
    let path = format!("/apis/{GROUP}/{version}/namespaces/{NAMESPACE}/sites");
    Ok(client.request_text(http::Request::get(path).body(Vec::new())?).await?)
}

/// Returns the objects of a list.
fn objects(list: &str) -> anyhow::Result<Vec<Value>> {
    let mut list: Value = serde_json::from_str(list)?;
    match list["items"].take() {
        Value::Array(items) => Ok(items),
        _ => anyhow::bail!("a list has items"),
    }
}

fn check_converted(objects: &[Value], expected: usize) -> anyhow::Result<()> {
    anyhow::ensure!(objects.len() == expected, "{} instead of {expected} sites", objects.len());
    let is_converted =
        |site: &Value| site["apiVersion"] == format!("{GROUP}/v1") && site["spec"]["address"].is_string();
    anyhow::ensure!(objects.iter().all(is_converted), "the sites were not converted");
    Ok(())
}

impl Webhooks {
    /// Converts all Sites to version v1 by calls of the webhook, without the API server, in reviews of `per_review` objects.
    /// Returns the seconds of each of `lists` conversions of all. The time ends when the answers were read, before they are
    /// parsed.
    pub(crate) async fn review(&self, client: &Client, ask: &Ask) -> anyhow::Result<Reply> {
        let mut sites = objects(&list(client, "v2").await?)?;
        for site in &mut sites {
            // As in the reviews of the API server.
            site["metadata"].as_object_mut().context("an object has metadata")?.remove("resourceVersion");
        }
        let reviews: Vec<Vec<u8>> = sites.chunks(ask.number("per_review")?).map(review).collect();
        let mut config = Config::new(format!("https://127.0.0.1:{}", self.port).parse()?);
        config.root_cert = Some(vec![self.root.clone()]);
        let webhook = without_delay(&config)?;
        let call = async |review: Vec<u8>| -> anyhow::Result<String> {
            let request = http::Request::post("/convert").header("content-type", "application/json");
            Ok(webhook.request_text(request.body(review)?).await?)
        };
        let mut seconds = Vec::new();
        for _ in 0..ask.number("lists")? {
            let bodies = reviews.clone();
            let started = Instant::now();
            let answers: Vec<String> =
                futures::stream::iter(bodies).map(call).buffered(REVIEWS).try_collect().await?;
            seconds.push(started.elapsed().as_secs_f64());
            let mut converted = Vec::new();
            for answer in answers {
                match serde_json::from_str::<Value>(&answer)?["response"]["convertedObjects"].take() {
                    Value::Array(objects) => converted.extend(objects),
                    _ => anyhow::bail!("the webhook converts nothing: {answer}"),
                }
            }
            check_converted(&converted, sites.len())?;
        }
        Ok(Reply::figures([("seconds", json!(seconds))]))
    }
}

/// Creates a client that sends the ends of its requests at once, like those of the API servers. kube's own client does not set
/// TCP_NODELAY, so that the last part of a large request may wait 40 ms for the acknowledgement of the others.
fn without_delay(config: &Config) -> anyhow::Result<Client> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    let tls = config.rustls_https_connector_with_connector(tcp)?;
    let http = hyper_util::client::legacy::Client::builder(TokioExecutor::new()).build(tls);
    Ok(Client::new(ServiceBuilder::new().layer(config.base_uri_layer()).service(http), NAMESPACE))
}

fn review(objects: &[Value]) -> Vec<u8> {
    let request = json!({"uid": "7", "desiredAPIVersion": format!("{GROUP}/v1"), "objects": objects});
    let review =
        json!({"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1", "request": request});
    review.to_string().into_bytes()
}

fn sites(client: Client, version: &str) -> Api<DynamicObject> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, version, "Site"));
    Api::namespaced_with(client, NAMESPACE, &kind)
}

/// A Site in version v2 without replicas, which a webhook sets.
fn site(number: usize) -> DynamicObject {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, "v2", "Site"));
    let spec = json!({"spec": {"host": format!("site-{number}.example.com"), "port": 8080}});
    DynamicObject::new(&format!("site-{number:06}"), &kind).data(spec)
}
