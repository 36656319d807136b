//! Tests of the answers to reviews, without sockets.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use bytes::Bytes;
use http::StatusCode;
use http_body_util::StreamBody;
use hyper::body::Frame;
use k8s_openapi::api::{authentication::v1::UserInfo, core::v1::ConfigMap};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::*;
use crate::{error::BoxError, metrics::Metrics, webhook::registration::CONVERT};

mod v1 {
    use super::*;

    #[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
    #[kube(group = "example.com", version = "v1", kind = "Cart", namespaced)]
    pub(super) struct CartSpec {
        pub(super) item: String,
    }
}

mod v2 {
    use super::*;

    #[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
    #[kube(group = "example.com", version = "v2", kind = "Cart", namespaced)]
    pub(super) struct CartSpec {
        pub(super) items: Vec<String>,
        pub(super) urgent: Option<bool>,
    }
}

/// An order of one piece.
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
        // A mistake, which must not reach the API server.
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

#[tokio::test(start_paused = true)]
async fn a_validator_admits_or_refuses_with_the_status_of_kube_apiserver() {
    let good = "{items: [tea]}";
    check("CREATE", good, "", "allowed").await;
    check("CREATE", "{items: [milk]}", "", r#"allowed, warning "milk turns sour""#).await;
    let required =
        r#"422: Cart.example.com "a" is invalid: spec.items: Required value: a cart holds something"#;
    check("CREATE", "{items: []}", "", required).await;
    let two = r#"422: Cart.example.com "a" is invalid: [spec.items[0]: Invalid value: "grapefruit": must be short, spec.items[2]: Invalid value: "watermelon": must be short]"#;
    check("CREATE", "{items: [grapefruit, tea, watermelon]}", "", two).await;
    let forbidden = r#"422: Cart.example.com "a" is invalid: spec.urgent: Forbidden: may not be unset"#;
    check("UPDATE", good, "{items: [tea], urgent: true}", forbidden).await;
    check("UPDATE", good, good, "allowed").await;
    check("DELETE", "", "{items: [tea], urgent: true}", "403: it is urgent").await;
    check("DELETE", "", good, "allowed").await;
    check("CONNECT", good, "", "allowed").await;
}

#[tokio::test(start_paused = true)]
async fn a_failing_handler_fails_its_own_request_alone() {
    check("CREATE", "{items: [broken]}", "", "500: the disk is full").await;
    check("CREATE", "{items: [bomb]}", "", "500: panic: it explodes").await;
    check("CREATE", "{items: [slow]}", "", "504: the webhook did not finish within 10s").await;
    let wrong = "400: the object cannot be decoded as Cart: invalid type: integer `7`, expected a sequence";
    check("CREATE", "{items: 7}", "", wrong).await;
    check("CREATE", "", "", "400: the request has no object").await;
    check("UPDATE", "{items: []}", "", "400: the request has no old object").await;
    check("DELETE", "{items: []}", "", "400: the request has no old object").await;
}

#[tokio::test(start_paused = true)]
async fn the_deadline_is_that_of_the_query() {
    let slow = review("CREATE", "{items: [slow]}", "").to_string();
    let began = tokio::time::Instant::now();
    let (_, answer) = post(&webhooks().0, &format!("{VALIDATE}?timeout=3s"), slow).await;
    assert_eq!(answer["response"]["status"]["message"], "the webhook did not finish within 3s");
    assert_eq!(began.elapsed(), Duration::from_secs(3));
}

#[tokio::test]
async fn a_refused_object_has_a_cause_for_each_field() {
    let body = review("CREATE", "{items: []}", "").to_string();
    let (_, answer) = post(&webhooks().0, VALIDATE, body).await;
    let expected = json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure", "code": 422, "reason": "Invalid",
        "message": "Cart.example.com \"a\" is invalid: spec.items: Required value: a cart holds something",
        "details": { "group": "example.com", "kind": "Cart", "name": "a", "causes": [
            { "field": "spec.items", "reason": "FieldValueRequired", "message": "Required value: a cart holds something" },
        ] },
    });
    assert_eq!(answer["response"]["status"], expected);
}

/// Applies the patch of a response to the object of a review.
fn patched(review: &Value, answer: &Value) -> Value {
    let mut object = review["request"]["object"].clone();
    if let Some(patch) = answer["response"]["patch"].as_str() {
        assert_eq!(answer["response"]["patchType"], "JSONPatch");
        let patch: json_patch::Patch =
            serde_json::from_slice(&BASE64.decode(patch).expect("base64")).expect("a patch");
        json_patch::patch(&mut object, &patch).expect("the patch fits");
    }
    object["spec"].clone()
}

#[tokio::test]
async fn a_defaulter_changes_its_fields_and_keeps_unknown_ones() {
    for (given, expected) in [
        ("{items: [tea], note: fragile}", "{items: [tea], note: fragile, urgent: false}"),
        ("{items: [tea], urgent: true}", "{items: [tea], urgent: true}"),
        ("{items: [tea], urgent: null}", "{items: [tea], urgent: false}"),
    ] {
        let review = review("CREATE", given, "");
        let (_, answer) = post(&webhooks().0, MUTATE, review.to_string()).await;
        assert_eq!(patched(&review, &answer), yaml(expected), "{given}");
        assert_eq!(answer["response"]["auditAnnotations"], json!({ "urgent": "defaulted" }));
    }
}

#[tokio::test]
async fn an_unchanged_object_has_no_patch() {
    let review = review("UPDATE", "{items: [tea], urgent: true}", "{items: [tea], urgent: true}");
    let (_, answer) = post(&webhooks().0, MUTATE, review.to_string()).await;
    assert_eq!(answer["response"].get("patch"), None);
    assert_eq!(answer["response"].get("patchType"), None);
}

#[tokio::test]
async fn mutating_handlers_of_a_path_run_in_order_on_the_result_of_the_one_before() {
    let (webhooks, _) = webhooks();
    for text in ["milk", "tea"] {
        let append = move |cx: Admission| async move {
            let before: v2::Cart = cx.object()?;
            let mut after = before.clone();
            after.spec.items.push(text.to_owned());
            cx.changed(&before, &after)
        };
        webhooks.mutating(Rule::of::<v2::Cart>(), append).expect("the rule is that of the defaulter");
    }
    let review = review("CREATE", "{items: [salt], x: 1}", "");
    let (_, answer) = post(&webhooks, MUTATE, review.to_string()).await;
    assert_eq!(patched(&review, &answer), yaml("{items: [salt, milk, tea], urgent: false, x: 1}"));
}

#[tokio::test]
async fn all_validating_handlers_of_a_path_run_and_their_field_errors_are_joined() {
    let (webhooks, _) = webhooks();
    let rule = || Rule::of::<v2::Cart>().operations(&[Operation::Create]);
    let also = |cx: Admission| async move {
        cx.warn("checked");
        let mut errors = FieldErrors::new();
        errors.not_supported("spec.urgent", "maybe", &["yes", "no"]);
        errors.into_verdict()
    };
    webhooks.validating(rule(), also).expect("the rule is that of the validator");
    let (_, answer) = post(&webhooks, VALIDATE, review("CREATE", "{items: []}", "").to_string()).await;
    let message = r#"Cart.example.com "a" is invalid: [spec.items: Required value: a cart holds something, spec.urgent: Unsupported value: "maybe": supported values: "yes", "no"]"#;
    assert_eq!(answer["response"]["status"]["message"], message);
    assert_eq!(answer["response"]["warnings"], json!(["checked"]));
    let (_, answer) =
        post(&webhooks, VALIDATE, review("UPDATE", "{items: [a]}", "{items: [a]}").to_string()).await;
    assert_eq!(answer["response"]["allowed"], true, "it is registered for creations only");
}

#[tokio::test]
async fn responses_have_the_version_of_the_request() {
    let mut review = review("CREATE", "{items: [tea]}", "");
    review["apiVersion"] = json!("admission.k8s.io/v1beta1");
    let (_, answer) = post(&webhooks().0, VALIDATE, review.to_string()).await;
    assert_eq!(
        (&answer["apiVersion"], &answer["kind"]),
        (&json!("admission.k8s.io/v1beta1"), &json!("AdmissionReview"))
    );
    assert_eq!(answer["response"]["allowed"], true);
}

#[tokio::test]
async fn a_request_that_is_no_review_has_an_http_error() {
    let (webhooks, metrics) = webhooks();
    for (path, body, status, expected) in [
        (VALIDATE, "", 400, "request body is empty"),
        (
            VALIDATE,
            "{",
            400,
            "request body is not an AdmissionReview: EOF while parsing an object at line 1 column 1",
        ),
        (
            VALIDATE,
            "{}",
            400,
            r#"request body is a "" of version "", expected an AdmissionReview of version admission.k8s.io/v1 or v1beta1"#,
        ),
        (
            VALIDATE,
            r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v2"}"#,
            400,
            r#"request body is a "AdmissionReview" of version "admission.k8s.io/v2", expected an AdmissionReview of version admission.k8s.io/v1 or v1beta1"#,
        ),
        (
            VALIDATE,
            r#"{"kind":"Pod","apiVersion":"admission.k8s.io/v1"}"#,
            400,
            r#"request body is a "Pod" of version "admission.k8s.io/v1", expected an AdmissionReview of version admission.k8s.io/v1 or v1beta1"#,
        ),
        (
            VALIDATE,
            r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}"#,
            400,
            "the AdmissionReview has no request",
        ),
        (CONVERT, "", 400, "request body is empty"),
        (
            CONVERT,
            "{}",
            400,
            r#"request body is a "" of version "", expected a ConversionReview of version apiextensions.k8s.io/v1 or v1beta1"#,
        ),
        (
            CONVERT,
            r#"{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1"}"#,
            400,
            "the ConversionReview has no request",
        ),
        ("/validate-example-com-v2-other", "{}", 404, "404 page not found\n"),
    ] {
        let (answered, body) = post(&webhooks, path, body).await;
        let message = body.pointer("/response/status/message").unwrap_or(&body);
        assert_eq!((answered.as_u16(), message.as_str()), (status, Some(expected)));
    }
    let text = metrics.encode_prometheus();
    let counted =
        format!("controller_runtime_webhook_requests_total{{webhook=\"{VALIDATE}\",code=\"400\"}} 6\n");
    assert!(text.contains(&counted), "{text}");
    assert!(!text.contains("other"), "unknown paths make no series: {text}");
}

#[tokio::test]
async fn the_content_type_must_be_json() {
    for (content_type, status) in [("application/json; charset=utf-8", 200), ("text/plain", 400), ("", 400)] {
        let request = http::Request::post(VALIDATE).header("content-type", content_type);
        let body = Bytes::from(review("CREATE", "{items: [tea]}", "").to_string());
        let response = webhooks().0.answer(request.body(body).expect("a request")).await;
        assert_eq!(response.status().as_u16(), status, "{content_type}");
        if status == 400 {
            let answer: Value = serde_json::from_slice(response.body()).expect("JSON");
            let message = format!("contentType={content_type}, expected application/json");
            assert_eq!(answer["response"]["status"]["message"], message);
        }
    }
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_refused_with_or_without_a_length() {
    let (webhooks, _) = webhooks();
    let too_large = |limit: usize| format!("request entity is too large; limit is {limit} bytes");
    let (status, answer) = post(&webhooks, VALIDATE, vec![b' '; (7 << 20) + 1]).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(answer["response"]["status"]["message"], too_large(7 << 20));
    let (status, answer) = post(&webhooks, CONVERT, vec![b' '; (1 << 20) + 1]).await;
    assert_eq!((status, answer), (StatusCode::PAYLOAD_TOO_LARGE, Value::String(too_large(1 << 20))));

    let sent = http::Request::post(VALIDATE).header("content-type", "application/json");
    let declared = sent.header("content-length", "99999999999").body(http_body_util::Empty::new());
    assert_eq!(webhooks.serve(declared.expect("a request")).await.status(), StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_arrive_ends_with_the_deadline() {
    let silent = StreamBody::new(futures::stream::pending::<Result<Frame<Bytes>, Infallible>>());
    let request = http::Request::post(VALIDATE).header("content-type", "application/json").body(silent);
    let response = webhooks().0.serve(request.expect("a request")).await;
    assert_eq!(response.status(), StatusCode::REQUEST_TIMEOUT);
}

#[tokio::test]
async fn metrics_are_those_of_go() {
    let (webhooks, metrics) = webhooks();
    let zero = metrics.encode_prometheus();
    let line = |name: &str, labels: &str, value: u32| {
        format!("controller_runtime_webhook_{name}{{webhook=\"{VALIDATE}\"{labels}}} {value}\n")
    };
    for code in [200, 500] {
        assert!(zero.contains(&line("requests_total", &format!(",code=\"{code}\""), 0)), "{zero}");
    }
    assert!(zero.contains(&line("requests_in_flight", "", 0)), "{zero}");
    for item in ["tea", "bomb"] {
        post(&webhooks, VALIDATE, review("CREATE", &format!("{{items: [{item}]}}"), "").to_string()).await;
    }
    let text = metrics.encode_prometheus();
    assert!(text.contains(&line("requests_total", ",code=\"200\"", 2)), "{text}");
    assert!(text.contains(&line("latency_seconds_count", "", 2)), "{text}");
    assert!(text.contains("controller_runtime_webhook_panics_total 1\n"), "{text}");
}

#[tokio::test]
async fn handlers_see_the_request() {
    let (webhooks, _) = webhooks();
    let seen = Arc::new(Mutex::new(String::new()));
    let note = Arc::clone(&seen);
    let look = move |cx: Admission| {
        let user = cx.user().username.clone().unwrap_or_default();
        *note.lock().expect("no panic") = format!(
            "{:?} {} {:?} {:?} {} {} {user}",
            cx.operation(),
            cx.resource().resource,
            cx.subresource(),
            cx.namespace(),
            cx.name(),
            cx.is_dry_run()
        );
        async { Ok(()) }
    };
    webhooks.validating(Rule::of::<ConfigMap>().subresource("status"), look).expect("the path is free");
    let review = json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "7", "operation": "UPDATE", "name": "a", "namespace": "", "dryRun": true, "subResource": "status",
        "resource": { "group": "", "version": "v1", "resource": "configmaps" },
        "userInfo": { "username": "ann", "groups": ["g"], "extra": { "k": ["v"] } }, "options": { "kind": "UpdateOptions" },
    } });
    let (_, answer) = post(&webhooks, "/validate--v1-configmap-status", review.to_string()).await;
    assert_eq!(answer["response"]["allowed"], true);
    assert_eq!(*seen.lock().expect("no panic"), r#"Update configmaps Some("status") None a true ann"#);
}

fn cart(version: &str, name: &str, spec: &str) -> Value {
    let metadata = json!({ "name": name, "namespace": "default", "uid": "u", "generation": 3, "labels": { "own": "x" }, "new": 1 });
    json!({ "apiVersion": format!("example.com/{version}"), "kind": "Cart", "metadata": metadata, "spec": yaml(spec) })
}

async fn convert(desired: &str, objects: &[Value]) -> Value {
    let request = json!({ "uid": "7", "desiredAPIVersion": desired, "objects": objects });
    let review =
        json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request });
    let (status, answer) = post(&webhooks().0, CONVERT, review.to_string()).await;
    assert_eq!((status, &answer["response"]["uid"]), (StatusCode::OK, &json!("7")), "{answer}");
    answer["response"].clone()
}

#[tokio::test]
async fn objects_are_converted_through_the_hub_in_their_order() {
    let objects =
        [cart("v1", "a", "{item: tea}"), cart("v3", "b", "{list: 'a,b'}"), cart("v2", "c", "{items: [x]}")];
    let answer = convert("example.com/v2", &objects).await;
    assert_eq!(answer["result"], json!({ "status": "Success" }));
    let mut expected = cart("v2", "a", "{items: [tea], urgent: null}");
    expected["metadata"]["labels"] = json!({ "own": "x", "from": "v1" });
    assert_eq!(
        answer["convertedObjects"][0], expected,
        "all metadata but labels are those of the given object"
    );
    assert_eq!(answer["convertedObjects"][1], cart("v2", "b", "{items: [a, b], urgent: null}"));
    assert_eq!(answer["convertedObjects"][2], objects[2]);
    let answer = convert("example.com/v3", &objects[..1]).await;
    assert_eq!(answer["convertedObjects"][0]["spec"], yaml("{list: tea}"), "from spoke to spoke");
    let empty = convert("example.com/v3", &[]).await;
    assert_eq!((&empty["convertedObjects"], &empty["result"]["status"]), (&json!([]), &json!("Success")));
}

#[tokio::test]
async fn a_conversion_keeps_fields_that_the_types_do_not_know() {
    let given = cart("v1", "a", "{item: tea, note: fragile, empty: '', urgent: true}");
    let answer = convert("example.com/v2", &[given]).await;
    // `urgent` of v2 is known there, and v1 has no such field.
    assert_eq!(answer["convertedObjects"][0]["spec"], yaml("{items: [tea], note: fragile, urgent: null}"));
}

#[tokio::test]
async fn a_failed_conversion_fails_the_whole_request() {
    for (desired, object, expected) in [
        (
            "example.com/v1",
            cart("v2", "a", "{items: []}"),
            r#"Cart "a" cannot be converted from "example.com/v2" to "example.com/v1": v1 has one item, not 0"#,
        ),
        (
            "example.com/v9",
            cart("v2", "a", "{items: []}"),
            r#"Cart "a" cannot be converted from "example.com/v2" to "example.com/v9": version v9 is not registered"#,
        ),
        (
            "example.com/v1",
            cart("v8", "a", "{items: []}"),
            r#"Cart "a" cannot be converted from "example.com/v8" to "example.com/v1": version v8 is not registered"#,
        ),
        (
            "other.com/v1",
            cart("v2", "a", "{items: []}"),
            r#"Cart "a" cannot be converted from "example.com/v2" to "other.com/v1": the groups differ"#,
        ),
        (
            "example.com/v1",
            json!({ "apiVersion": "example.com/v2", "kind": "Box" }),
            r#"Box "" cannot be converted from "example.com/v2" to "example.com/v1": no converter is registered for the kind"#,
        ),
        (
            "example.com/v1",
            json!(7),
            r#" "" cannot be converted from "" to "example.com/v1": the groups differ"#,
        ),
        ("example.com/v1", cart("v2", "a", "{items: [bomb]}"), "panic: it explodes"),
    ] {
        let answer = convert(desired, &[object, cart("v2", "good", "{items: [a]}")]).await;
        assert_eq!(answer["result"]["status"], "Failure");
        assert_eq!(answer["convertedObjects"], json!([]));
        let message = answer["result"]["message"].as_str().expect("a message");
        assert_eq!(message.split(", at ").next(), Some(expected));
    }
}

#[test]
fn versions_of_different_kinds_are_refused() {
    let same = Registration::converter::<v2::Cart, (v1::Cart, v1::Cart)>();
    let error =
        Webhooks::new(Metrics::default().webhooks(), 0).register(vec![same]).expect_err("twice the same");
    let message = "example.com/v1, kind Cart cannot be converted to example.com/v2, kind Cart: the versions of a kind share group and kind and differ in the version";
    assert_eq!(error.to_string(), message);
}

#[test]
fn configurations_name_the_paths_rules_and_definitions_of_all_webhooks() {
    let (webhooks, _) = webhooks();
    let rule = Rule::of::<ConfigMap>().path("/check_config").failure_policy(FailurePolicy::Ignore);
    webhooks
        .validating(rule.timeout(Duration::from_millis(1500)), async |_| Ok(()))
        .expect("the path is free");
    let service = WebhookService::new("system", "hooks").ca_bundle("PEM");
    let all = webhooks.configurations(&service);
    let conversions = serde_json::to_value(&all.conversions).expect("JSON");
    let at = |path: &str| json!({ "caBundle": "UEVN", "service": { "namespace": "system", "name": "hooks", "path": path, "port": 443 } });
    assert_eq!(
        conversions,
        json!({ "carts.example.com": { "strategy": "Webhook", "webhook": {
        "clientConfig": at("/convert"), "conversionReviewVersions": ["v1"],
    } } })
    );
    let validating = serde_json::to_value(all.validating.expect("there are two")).expect("JSON");
    assert_eq!(validating["metadata"]["name"], "system-hooks");
    assert_eq!(
        validating["webhooks"],
        json!([
            {
                "name": "check-config.configmaps.core", "admissionReviewVersions": ["v1"], "clientConfig": at("/check_config"),
                "failurePolicy": "Ignore", "matchPolicy": "Equivalent", "sideEffects": "None", "timeoutSeconds": 2,
                "rules": [{ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"], "scope": "Namespaced" }],
            },
            {
                "name": "validate-example-com-v2-cart.carts.example.com", "admissionReviewVersions": ["v1"], "clientConfig": at(VALIDATE),
                "failurePolicy": "Fail", "matchPolicy": "Equivalent", "sideEffects": "None", "timeoutSeconds": 10,
                "rules": [{ "apiGroups": ["example.com"], "apiVersions": ["v2"], "operations": ["CREATE", "UPDATE", "DELETE"], "resources": ["carts"], "scope": "Namespaced" }],
            },
        ])
    );
    let mutating = all.mutating.expect("there is one").webhooks.expect("it has webhooks");
    assert_eq!(
        mutating.iter().map(|webhook| &*webhook.name).collect::<Vec<_>>(),
        ["mutate-example-com-v2-cart.carts.example.com"]
    );
}

#[test]
fn options_of_rules_are_in_the_configurations() {
    let (webhooks, _) = webhooks();
    let rule = Rule::of::<ConfigMap>()
        .match_policy(MatchPolicy::Exact)
        .side_effects(SideEffects::NoneOnDryRun)
        .reinvocation_policy(ReinvocationPolicy::IfNeeded)
        .match_condition("named", "object.metadata.name != ''");
    webhooks.mutating(rule.clone(), async |_| Ok(None)).expect("the path is free");
    let error = webhooks.mutating(rule.match_policy(MatchPolicy::Equivalent), async |_| Ok(None));
    let taken = RegisterError::PathTaken { path: "/mutate--v1-configmap".into(), by: "configmaps".into() };
    assert_eq!(error, Err(taken), "one entry of a configuration has one match policy");
    let all = webhooks.configurations(&WebhookService::new("system", "hooks"));
    let mutating = serde_json::to_value(all.mutating.expect("there are two")).expect("JSON");
    assert_eq!(
        mutating["webhooks"][0],
        json!({
            "name": "mutate--v1-configmap.configmaps.core", "admissionReviewVersions": ["v1"],
            "clientConfig": { "service": { "namespace": "system", "name": "hooks", "path": "/mutate--v1-configmap", "port": 443 } },
            "failurePolicy": "Fail", "matchPolicy": "Exact", "sideEffects": "NoneOnDryRun", "timeoutSeconds": 10,
            "matchConditions": [{ "name": "named", "expression": "object.metadata.name != ''" }],
            "reinvocationPolicy": "IfNeeded",
            "rules": [{ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"], "scope": "Namespaced" }],
        })
    );
}

/// Webhooks that know the token `jane's`, fail for `broken` and panic for `bomb`.
fn authenticating() -> Webhooks {
    let (webhooks, _) = webhooks();
    let authenticate = async |request: TokenRequest| match request.token() {
        "jane's" => {
            let user = UserInfo {
                username: Some("jane".into()),
                groups: Some(vec!["devs".into()]),
                ..UserInfo::default()
            };
            Ok(Some(Authenticated::from(user).for_audiences(request.audiences().to_vec())))
        }
        "broken" => Err("the directory is down".into()),
        "bomb" => panic!("it explodes"),
        _ => Ok(None),
    };
    webhooks.authentication("/authenticate", authenticate).expect("the path is free");
    webhooks
}

fn token_review(version: &str, token: &str) -> String {
    json!({ "apiVersion": format!("authentication.k8s.io/{version}"), "kind": "TokenReview", "spec": { "token": token, "audiences": ["api"] } })
        .to_string()
}

#[tokio::test]
async fn tokens_are_authenticated() {
    let webhooks = authenticating();
    for (version, token, expected) in [
        (
            "v1",
            "jane's",
            json!({ "authenticated": true, "user": { "username": "jane", "groups": ["devs"] }, "audiences": ["api"] }),
        ),
        ("v1beta1", "unknown", json!({ "authenticated": false })),
        ("v1", "broken", json!({ "authenticated": false, "error": "the directory is down" })),
        ("v1", "bomb", json!({ "authenticated": false, "error": "panic: it explodes [recovered]" })),
    ] {
        let (code, mut answer) = post(&webhooks, "/authenticate", token_review(version, token)).await;
        let status = answer["status"].take();
        if let Some(message) = status["error"].as_str().filter(|_| token == "bomb") {
            assert!(message.starts_with("panic: it explodes"), "{message}");
        } else {
            assert_eq!((code, status), (StatusCode::OK, expected), "{token}");
        }
        assert_eq!(answer["apiVersion"], format!("authentication.k8s.io/{version}"));
    }
}

#[tokio::test]
async fn a_request_that_is_no_token_review_is_refused_without_quoting_it() {
    let webhooks = authenticating();
    let large = format!(r#"{{"spec":{{"token":"{}"}}}}"#, "x".repeat(1 << 20));
    let refused = [
        (String::new(), 400, "request body is empty"),
        (
            r#"{"spec": {"token": ["secret"]}}"#.to_owned(),
            400,
            "request body is not a TokenReview: it cannot be decoded",
        ),
        (token_review("v1", ""), 400, "token is empty"),
        (
            token_review("v2", "secret"),
            400,
            r#"request body is a "TokenReview" of version "authentication.k8s.io/v2", expected a TokenReview of version authentication.k8s.io/v1 or v1beta1"#,
        ),
        (large, 413, "request entity is too large; limit is 1048576 bytes"),
    ];
    for (body, code, message) in refused {
        let (status, answer) = post(&webhooks, "/authenticate", body).await;
        assert_eq!(
            (status.as_u16(), &answer["status"]),
            (code, &json!({ "authenticated": false, "error": message }))
        );
    }
}

#[test]
fn authentication_has_a_path_of_its_own() {
    let webhooks = authenticating();
    let taken = |result: Result<(), RegisterError>| result.expect_err("it is taken").to_string();
    let rule = Rule::of::<ConfigMap>().path("/authenticate");
    assert_eq!(
        taken(webhooks.validating(rule, async |_| Ok(()))),
        "webhook path /authenticate is already used for authentication: choose another path, or use the same rule"
    );
    assert!(taken(webhooks.authentication(VALIDATE, async |_| Ok(None))).contains("for carts.example.com"));
    assert!(taken(webhooks.authentication(CONVERT, async |_| Ok(None))).contains("for conversions"));
    assert!(taken(webhooks.authentication("no-slash", async |_| Ok(None))).contains("is invalid"));
    let shown = format!("{:?}", TokenRequest::deserialize(json!({ "token": "secret" })).expect("it is one"));
    assert!(!shown.contains("secret"), "{shown}");
}

#[test]
fn generated_objects_find_a_conversion_that_loses_something() {
    check_generated_round_trips::<v3::Cart, v2::Cart>(1, 200).expect("the hub has all fields of v3");
    let error = check_generated_round_trips::<v2::Cart, v3::Cart>(1, 200).expect_err("v3 has no urgency");
    let RoundTripError::Generated { seed: 1, source, .. } = &error else { panic!("{error}") };
    let lost = source.to_string();
    assert!(lost.starts_with("/spec/") && lost.ends_with("after the conversion to v3 and back"), "{lost}");
    let again = check_generated_round_trips::<v2::Cart, v3::Cart>(1, 200).expect_err("it is repeatable");
    assert_eq!(error.to_string(), again.to_string());
}
