//! The webhooks of both servers: admission by the behaviour that the URL names, and the conversion of `sprockets`.
//!
//! A URL is `https://127.0.0.1:port/{side}/{namespace}/{webhook}/{behaviour}` for admission, and `…/{side}/convert` for conversion.
//! Responses depend only on the URL and the request, so both servers receive the same ones.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, KeyUsagePurpose};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use super::Result;

/// The server that calls a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    Genuine,
    Embedded,
}

impl Side {
    /// Part of the URL. Both have the same length, so that equal messages are cut off at the same place.
    fn name(self) -> &'static str {
        match self {
            Self::Genuine => "twin-g",
            Self::Embedded => "twin-e",
        }
    }
}

/// Calls by side and namespace: webhook and review.
type Calls = BTreeMap<(String, String), Vec<(String, Value)>>;

/// Answers reviews until it is dropped.
pub(crate) struct Responder {
    address: SocketAddr,
    authority: String,
    calls: Arc<Mutex<Calls>>,
    _connections: JoinSet<()>,
}

impl Responder {
    /// Listens on a free port of 127.0.0.1 with a certificate of an authority of its own.
    pub(crate) async fn start() -> Result<Self> {
        let (acceptor, authority) = certificate()?;
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
        let address = listener.local_addr()?;
        let calls = Arc::<Mutex<Calls>>::default();
        let received = Arc::clone(&calls);
        let mut connections = JoinSet::new();
        connections.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, received) = (acceptor.clone(), Arc::clone(&received));
                open.spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let service = service_fn(move |request| serve(Arc::clone(&received), request));
                    // A behaviour that closes the connection ends with an error.
                    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                });
                while open.try_join_next().is_some() {}
            }
        });
        let authority = BASE64.encode(authority);
        Ok(Self { address, authority, calls, _connections: connections })
    }

    /// Returns the start of the URLs for a server, and the authority in base64.
    pub(crate) fn address(&self, side: Side) -> (String, String) {
        (format!("https://{}/{}", self.address, side.name()), self.authority.clone())
    }

    /// Takes the reviews of a namespace. Mutating webhooks come in the order of their calls; validating webhooks are called at the same
    /// time, and are sorted.
    pub(crate) fn take(&self, side: Side, namespace: &str) -> Vec<(String, Value)> {
        let calls = self.calls.lock().remove(&(side.name().to_owned(), namespace.to_owned()));
        let (mutating, mut validating): (Vec<_>, Vec<_>) =
            calls.unwrap_or_default().into_iter().partition(|(webhook, _)| webhook.starts_with('m'));
        validating.sort_by(|(one, _), (other, _)| one.cmp(other));
        mutating.into_iter().chain(validating).collect()
    }
}

async fn serve(
    calls: Arc<Mutex<Calls>>,
    request: Request<Incoming>,
) -> std::result::Result<Response<Full<Bytes>>, String> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
    let review: Value = serde_json::from_slice(&body).unwrap_or_default();
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let (status, text) = match parts[..] {
        [_, "convert"] => (200, convert(&review).to_string()),
        [side, namespace, webhook, behaviour] => {
            if webhook != "ready" {
                let mut calls = calls.lock();
                let of_namespace = calls.entry((side.to_owned(), namespace.to_owned())).or_default();
                of_namespace.push((webhook.to_owned(), review.clone()));
            }
            admit(behaviour, &review).ok_or("closed")?
        }
        _ => (404, "no such webhook".to_owned()),
    };
    let response = Response::builder().status(status).header("Content-Type", "application/json");
    response.body(Full::from(text)).map_err(|error| error.to_string())
}

/// Behaviours of webhooks that let requests pass, most of them with a change.
pub(crate) const PASSING: [&str; 13] = [
    "allow",
    "warn",
    "audit",
    "label",
    "annotation",
    "finalizer",
    "remove-labels",
    "replace-missing",
    "status",
    "empty-patch",
    "unknown-field",
    "null",
    "twice",
];

/// Behaviours of webhooks that refuse requests, or fail.
pub(crate) const FAILING: [&str; 22] = [
    "deny",
    "deny-code",
    "deny-reason",
    "deny-message",
    "deny-causes",
    "deny-empty",
    "deny-warn",
    "test-fails",
    "remove-missing",
    "no-patch-type",
    "bad-patch-type",
    "bad-base64",
    "bad-patch",
    "bad-type",
    "wrong-uid",
    "no-uid",
    "wrong-version",
    "wrong-kind",
    "no-response",
    "http-500",
    "not-json",
    "close",
];

/// Returns status and body of the response to an admission review; `None` closes the connection.
fn admit(behaviour: &str, review: &Value) -> Option<(u16, String)> {
    let uid = review["request"]["uid"].clone();
    let mut response = json!({"uid": uid, "allowed": true});
    let patch = |operations: Value| BASE64.encode(operations.to_string());
    let mut patches = |operations: Value| {
        response["patchType"] = json!("JSONPatch");
        response["patch"] = patch(operations).into();
    };
    match behaviour {
        "label" => patches(json!([{"op": "add", "path": "/metadata/labels/hook", "value": "x"}])),
        "annotation" => {
            patches(json!([{"op": "add", "path": "/metadata/annotations", "value": {"hook": "x"}}]));
        }
        "finalizer" => {
            patches(json!([{"op": "add", "path": "/metadata/finalizers", "value": ["example.com/hook"]}]));
        }
        "remove-labels" => patches(json!([{"op": "remove", "path": "/metadata/labels"}])),
        "replace-missing" => {
            patches(json!([{"op": "replace", "path": "/metadata/labels/missing", "value": "x"}]));
        }
        "status" => patches(json!([{"op": "add", "path": "/status", "value": {"replicas": 1}}])),
        "empty-patch" => patches(json!([])),
        "unknown-field" => patches(json!([{"op": "add", "path": "/unknown", "value": 1}])),
        "null" => patches(json!([{"op": "add", "path": "/metadata/annotations", "value": null}])),
        "twice" => patches(json!([
            {"op": "add", "path": "/metadata/labels/one", "value": "1"},
            {"op": "copy", "from": "/metadata/labels/one", "path": "/metadata/labels/two"},
        ])),
        "test-fails" => patches(json!([{"op": "test", "path": "/metadata/name", "value": "?"}])),
        "remove-missing" => patches(json!([{"op": "remove", "path": "/metadata/labels/missing"}])),
        "bad-type" => patches(json!([{"op": "add", "path": "/metadata/labels/hook", "value": 1}])),
        "bad-patch" => patches(json!({"op": "add"})),
        "no-patch-type" => response["patch"] = patch(json!([])).into(),
        "bad-patch-type" => {
            response["patch"] = patch(json!([])).into();
            response["patchType"] = json!("Merge");
        }
        "bad-base64" => {
            response["patch"] = json!("?");
            response["patchType"] = json!("JSONPatch");
        }
        "warn" => response["warnings"] = json!(["first", "second \"quoted\"", "first", ""]),
        "audit" => response["auditAnnotations"] = json!({"key": "value"}),
        "wrong-uid" => response["uid"] = json!("x"),
        "no-uid" => drop(response.as_object_mut()?.remove("uid")),
        "close" => return None,
        "http-500" => return Some((500, "broken".into())),
        "not-json" => return Some((200, "broken".into())),
        "no-response" => {
            return Some((
                200,
                json!({"apiVersion": review["apiVersion"], "kind": review["kind"]}).to_string(),
            ));
        }
        _ if behaviour.starts_with("deny") => {
            response["allowed"] = json!(false);
            match behaviour {
                "deny" => response["status"] = json!({"message": "no", "code": 403, "reason": "Forbidden"}),
                "deny-code" => response["status"] = json!({"code": 418, "message": "teapot"}),
                "deny-reason" => response["status"] = json!({"reason": "Invalid"}),
                "deny-message" => response["status"] = json!({"message": "only text", "status": "Success"}),
                "deny-causes" => {
                    response["status"] = json!({
                        "message": "causes", "code": 422, "reason": "Invalid",
                        "details": {"name": "n", "causes": [{"field": "spec", "message": "bad", "reason": "FieldValueInvalid"}]},
                    });
                }
                "deny-warn" => response["warnings"] = json!(["denied"]),
                _ => {}
            }
        }
        _ => {}
    }
    let mut answer =
        json!({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response});
    match behaviour {
        "wrong-version" => answer["apiVersion"] = json!("admission.k8s.io/v2"),
        "wrong-kind" => answer["kind"] = json!("Review"),
        _ => {}
    }
    Some((200, answer.to_string()))
}

/// Converts `sprockets`. `spec.fail` of an object names a failure of its conversion to the stored version; conversions to the other version
/// succeed, because kube-apiserver converts the objects of all stories for its cache.
fn convert(review: &Value) -> Value {
    let request = &review["request"];
    let desired = request["desiredAPIVersion"].as_str().unwrap_or_default();
    let objects = request["objects"].as_array().map_or(&[][..], Vec::as_slice);
    let mut converted: Vec<Value> = objects.iter().map(|object| convert_object(object, desired)).collect();
    let mut response = json!({"uid": request["uid"], "result": {"status": "Success"}});
    let fails = objects.iter().filter_map(|object| object["spec"]["fail"].as_str()).next();
    match fails.filter(|_| desired.ends_with("/v1")) {
        Some("failed") => response["result"] = json!({"status": "Failure", "message": "cannot convert"}),
        Some("silent") => response["result"] = json!({"status": "Failure"}),
        Some("uid") => response["uid"] = json!("x"),
        Some("none") => converted.clear(),
        Some("many") => converted.extend(converted.first().cloned()),
        Some("version") => converted = objects.to_vec(),
        Some("name") => converted[0]["metadata"]["name"] = json!("other"),
        Some("kind") => converted[0]["kind"] = json!("Other"),
        Some("label") => converted[0]["metadata"]["labels"]["converted"] = json!("yes"),
        Some("metadata") => drop(converted[0].as_object_mut().and_then(|object| object.remove("metadata"))),
        Some("finalizer") => converted[0]["metadata"]["finalizers"] = json!(["example.com/converted"]),
        Some("bad-label") => converted[0]["metadata"]["labels"] = json!({"a b": "c d"}),
        Some("null") => converted[0] = Value::Null,
        _ => {}
    }
    response["convertedObjects"] = converted.into();
    json!({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response})
}

/// Version 1 has `spec.size`, such as `3x4`; version 2 has `spec.width` and `spec.height`, or `spec.raw` for other sizes.
pub(crate) fn convert_object(object: &Value, desired: &str) -> Value {
    let mut object = object.clone();
    object["apiVersion"] = desired.into();
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return object };
    if desired.ends_with("/v2") {
        let Some(size) = spec.remove("size") else { return object };
        let sides = size.as_str().and_then(|size| size.split_once('x'));
        match sides.and_then(|(width, height)| Some((width.parse::<u8>().ok()?, height.parse::<u8>().ok()?)))
        {
            Some((width, height)) => {
                spec.insert("width".into(), width.into());
                spec.insert("height".into(), height.into());
            }
            None => drop(spec.insert("raw".into(), size)),
        }
    } else if desired.ends_with("/v1") {
        let (width, height, raw) = (spec.remove("width"), spec.remove("height"), spec.remove("raw"));
        let number = |value: Option<Value>| value.and_then(|value| value.as_u64()).unwrap_or_default();
        let size = match raw {
            Some(raw) => raw,
            None if width.is_none() && height.is_none() => return object,
            None => format!("{}x{}", number(width), number(height)).into(),
        };
        spec.insert("size".into(), size);
    }
    object
}

/// Returns a certificate for 127.0.0.1, and its authority as PEM.
fn certificate() -> Result<(TlsAcceptor, String)> {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
    let key = KeyPair::generate()?;
    let server = CertificateParams::new(vec!["127.0.0.1".to_owned()])?.signed_by(&key, &authority)?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![server.der().clone()], key)?;
    Ok((TlsAcceptor::from(Arc::new(config)), authority.pem()))
}
