//! Options of deletions, as webhooks see them.

use std::sync::{Arc, Mutex};

use http::Method;
use serde_json::{Value, json};

use super::cluster::{Kind, client, configure, respond, send, start};

/// Deletes an object, or a collection, and returns the grace period in the options that the webhook received.
async fn grace_periods(collection: &str, object: &Value, deleted: &str, options: &Value) -> Vec<Value> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let reviews = Arc::clone(&seen);
    let server = start(move |review| {
        reviews.lock().unwrap().push(review["request"]["options"]["gracePeriodSeconds"].clone());
        let response = respond(&review, &json!({"allowed": true}));
        async { Ok(response) }
    });
    let (code, body) = send(&server, Method::POST, collection, object).await;
    assert_eq!(code, 201, "{body}");
    let rules =
        json!([{"operations": ["DELETE"], "apiGroups": [""], "apiVersions": ["*"], "resources": ["*"]}]);
    configure(&server, Kind::Validating, &client(), &json!({ "rules": rules })).await;
    let (code, body) = send(&server, Method::DELETE, deleted, options).await;
    assert_eq!(code, 200, "{body}");
    let seen = seen.lock().unwrap();
    seen.clone()
}

/// The deletion of one pod has its grace period. That of a namespace or of a collection has the options of the request. Observed with
/// kube-apiserver v1.36.3.
#[tokio::test(start_paused = true)]
async fn the_grace_period_of_one_object_is_completed() {
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let namespace = json!({"metadata": {"name": "a"}});
    let negative = json!({"gracePeriodSeconds": -5});
    let check = async |deleted: &str, options: &Value, expected: &[Value]| {
        let (collection, object) =
            if deleted.contains("pods") { (pods, &pod) } else { ("/api/v1/namespaces", &namespace) };
        let seen = grace_periods(collection, object, deleted, options).await;
        assert_eq!(seen, expected, "{deleted} {options}");
    };
    let one = format!("{pods}/a");
    check(&one, &Value::Null, &[json!(0), json!(0)]).await;
    check(&one, &json!({"dryRun": ["All"]}), &[json!(0)]).await;
    check(pods, &Value::Null, &[Value::Null, Value::Null]).await;
    check(pods, &json!({"gracePeriodSeconds": 3}), &[json!(3), json!(3)]).await;
    check("/api/v1/namespaces/a", &negative, &[json!(-5)]).await;
}
