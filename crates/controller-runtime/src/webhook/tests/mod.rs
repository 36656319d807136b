//! Tests of the answers to reviews, without sockets.

mod admission;
mod authentication;
mod configurations;
mod conversion;

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::*;
use crate::{error::BoxError, metrics::Metrics};

/// A cart with one item.
mod v1 {
    use super::*;

    #[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
    #[kube(group = "example.com", version = "v1", kind = "Cart", namespaced)]
    pub(super) struct CartSpec {
        pub(super) item: String,
    }
}

/// The hub version: a cart with a list of items.
mod v2 {
    use super::*;

    #[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
    #[kube(group = "example.com", version = "v2", kind = "Cart", namespaced)]
    pub(super) struct CartSpec {
        pub(super) items: Vec<String>,
        pub(super) urgent: Option<bool>,
    }
}

/// A cart with its items in one text, separated by commas.
mod v3 {
    use super::*;

    #[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
    #[kube(group = "example.com", version = "v3", kind = "Cart", namespaced)]
    pub(super) struct CartSpec {
        pub(super) list: String,
    }
}

impl From<v1::Cart> for v2::Cart {
    fn from(v1: v1::Cart) -> Self {
        let mut metadata = v1.metadata;
        // A mistake of this converter. The answer must have the `uid` of the given object nevertheless.
        metadata.uid = None;
        metadata.labels.get_or_insert_default().insert("from".into(), "v1".into());
        Self { metadata, spec: v2::CartSpec { items: vec![v1.spec.item], urgent: None } }
    }
}

impl TryFrom<v2::Cart> for v1::Cart {
    type Error = BoxError;

    fn try_from(hub: v2::Cart) -> Result<Self, BoxError> {
        match &*hub.spec.items {
            [item] if item == "bomb" => panic!("it explodes"),
            [item] => Ok(Self { spec: v1::CartSpec { item: item.clone() }, metadata: hub.metadata }),
            items => Err(format!("v1 has one item, not {}", items.len()).into()),
        }
    }
}

impl From<v3::Cart> for v2::Cart {
    fn from(v3: v3::Cart) -> Self {
        let items = v3.spec.list.split(',').map(str::to_owned).collect();
        Self { metadata: v3.metadata, spec: v2::CartSpec { items, urgent: None } }
    }
}

impl From<v2::Cart> for v3::Cart {
    fn from(hub: v2::Cart) -> Self {
        Self { metadata: hub.metadata, spec: v3::CartSpec { list: hub.spec.items.join(",") } }
    }
}

impl Defaulter for v2::Cart {
    async fn set_defaults(&mut self, cx: &Admission) -> Verdict {
        self.spec.urgent.get_or_insert(false);
        cx.audit_annotation("urgent", "defaulted");
        Ok(())
    }
}

impl Validator for v2::Cart {
    const OPERATIONS: &'static [Operation] = &[Operation::Create, Operation::Update, Operation::Delete];

    async fn validate_create(&self, cx: &Admission) -> Verdict {
        match self.spec.items.first().map(|item| &**item) {
            Some("bomb") => panic!("it explodes"),
            Some("slow") => tokio::time::sleep(Duration::from_secs(3600)).await,
            Some("broken") => Err(std::io::Error::other("the disk is full"))?,
            Some("milk") => cx.warn("milk turns sour"),
            _ => {}
        }
        let (mut errors, items) = (FieldErrors::new(), FieldPath::new("spec").child("items"));
        if self.spec.items.is_empty() {
            errors.required(&items, "a cart holds something");
        }
        for (index, item) in self.spec.items.iter().enumerate().filter(|(_, item)| item.len() > 8) {
            errors.invalid(items.index(index), item, "must be short");
        }
        errors.into_verdict()
    }

    async fn validate_update(&self, old: &Self, _: &Admission) -> Verdict {
        let mut errors = FieldErrors::new();
        if old.spec.urgent == Some(true) && self.spec.urgent != Some(true) {
            errors.forbidden("spec.urgent", "may not be unset");
        }
        errors.into_verdict()
    }

    async fn validate_delete(&self, _: &Admission) -> Verdict {
        match self.spec.urgent {
            Some(true) => Err(Rejection::forbidden("it is urgent")),
            _ => Ok(()),
        }
    }
}

const MUTATE: &str = "/mutate-example-com-v2-cart";
const VALIDATE: &str = "/validate-example-com-v2-cart";

fn webhooks() -> (Webhooks, Metrics) {
    let metrics = Metrics::default();
    let webhooks = Webhooks::new(metrics.webhooks(), 1 << 20);
    let of_cart = vec![
        Registration::defaulter::<v2::Cart>(|rule| rule),
        Registration::validator::<v2::Cart>(|rule| rule),
        Registration::converter::<v2::Cart, (v1::Cart, v3::Cart)>(),
    ];
    webhooks.register(of_cart).expect("they do not conflict");
    (webhooks, metrics)
}

/// Parses YAML in flow style.
fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).expect("YAML")
}

fn review(operation: &str, object: &str, old: &str) -> Value {
    let cart = |spec: &str| match yaml(spec) {
        Value::Null => Value::Null,
        spec => {
            json!({ "apiVersion": "example.com/v2", "kind": "Cart", "metadata": { "name": "a" }, "spec": spec })
        }
    };
    json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "7", "operation": operation, "name": "a", "namespace": "default",
        "kind": { "group": "example.com", "version": "v2", "kind": "Cart" },
        "object": cart(object), "oldObject": cart(old),
    } })
}

async fn post(webhooks: &Webhooks, path: &str, body: impl Into<Bytes>) -> (StatusCode, Value) {
    let request = http::Request::post(path).header("content-type", "application/json").body(body.into());
    let response = webhooks.answer(request.expect("a request")).await;
    let text = String::from_utf8_lossy(response.body()).into_owned();
    (response.status(), serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

/// Checks a request's result: `allowed`, or code and message; then its warnings.
async fn check(operation: &str, object: &str, old: &str, expected: &str) {
    let (status, answer) = post(&webhooks().0, VALIDATE, review(operation, object, old).to_string()).await;
    assert_eq!((status, &answer["response"]["uid"]), (StatusCode::OK, &json!("7")), "{answer}");
    let response = &answer["response"];
    let mut text = match response["allowed"].as_bool() {
        Some(true) => "allowed".to_owned(),
        _ => format!(
            "{}: {}",
            response["status"]["code"],
            response["status"]["message"].as_str().unwrap_or("")
        ),
    };
    for warning in response["warnings"].as_array().into_iter().flatten() {
        text += &format!(", warning {warning}");
    }
    let panics_at = text.find(", at ").map_or(text.len(), |at| at);
    assert_eq!(&text[..panics_at], expected, "{operation} {object}");
}
