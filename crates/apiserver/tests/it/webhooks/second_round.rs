//! The second round of mutating webhooks, after a webhook has changed the object.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::Method;
use serde_json::{Value, json};

use super::cluster::{Kind, MAPS, client, configure, respond, send, start};

/// Creates a ConfigMap whose webhook removes a field that its match condition reads, with further fields of the webhook.
async fn without_its_field(change: &Value) -> (u16, Value) {
    let patch = BASE64_STANDARD.encode(r#"[{"op": "remove", "path": "/data/k"}]"#);
    let server = start(move |review| {
        let response = json!({"allowed": true, "patch": patch, "patchType": "JSONPatch"});
        async move { Ok(respond(&review, &response)) }
    });
    let mut fields = json!({"matchConditions": [{"name": "k", "expression": "object.data.k == 'v'"}]});
    for (field, value) in change.as_object().into_iter().flatten() {
        fields[field] = value.clone();
    }
    configure(&server, Kind::Mutating, &client(), &fields).await;
    let map = json!({"metadata": {"name": "a"}, "data": {"k": "v", "other": "v"}});
    let (code, body) = send(&server, Method::POST, MAPS, &map).await;
    (code, if code < 300 { body["data"].clone() } else { body["message"].clone() })
}

/// Rule of kube-apiserver: in each round, its dispatcher matches a webhook (`ShouldCallHook`) before it asks whether that is to be called
/// again (`ShouldReinvokeWebhook`).
#[tokio::test(start_paused = true)]
async fn match_conditions_of_webhooks_that_are_not_called_again_are_evaluated() {
    let why =
        "configmaps \"a\" is forbidden: expression 'object.data.k == 'v'' resulted in error: no such key: k";
    assert_eq!(without_its_field(&json!({})).await, (403, json!(why)));
    let ignored = json!({"failurePolicy": "Ignore"});
    assert_eq!(without_its_field(&ignored).await, (201, json!({"other": "v"})));
}
