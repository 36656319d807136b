//! Admission reviews: verdicts, patches, errors and limits.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
};

use super::*;
use crate::webhook::registration::CONVERT;
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use http_body_util::StreamBody;
use hyper::body::Frame;
use k8s_openapi::api::core::v1::ConfigMap;

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
