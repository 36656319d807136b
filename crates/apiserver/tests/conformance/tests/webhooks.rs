//! Answers of webhooks.

use serde_json::{Value, json};

use crate::webhooks::{Hooks, Webhooks};

/// Returns status and body of the answer to a review; null if there is none.
async fn answer(respond: Value, review: &Value) -> Value {
    let webhooks = Webhooks::new("hooks:1", "authority");
    webhooks.respond("hook", respond);
    match webhooks.answer("/hook", review.to_string().as_bytes()).await {
        Some((status, body)) => {
            let body: Value =
                serde_json::from_slice(&body).unwrap_or_else(|_| String::from_utf8_lossy(&body).into());
            json!([status, body])
        }
        None => Value::Null,
    }
}

fn review(request: &Value) -> Value {
    json!({"apiVersion": "g/v1", "kind": "Review", "request": request})
}

#[tokio::test(start_paused = true)]
async fn an_admission_response_gets_the_uid_and_an_encoded_patch() {
    let review = review(&json!({"uid": "u"}));
    let response =
        |response: Value| json!([200, {"apiVersion": "g/v1", "kind": "Review", "response": response}]);
    assert_eq!(
        answer(json!({"allowed": true, "patch": [], "delaySeconds": 2}), &review).await,
        response(json!({"uid": "u", "allowed": true, "patch": "W10=", "patchType": "JSONPatch"}))
    );
    assert_eq!(
        answer(json!({"allowed": false, "wrongUid": true}), &review).await,
        response(json!({"uid": "wrong-uid", "allowed": false}))
    );
    assert_eq!(answer(json!({"close": true}), &review).await, Value::Null);
    assert_eq!(answer(json!({"httpStatus": 500, "raw": "boom"}), &review).await, json!([500, "boom"]));
}

#[tokio::test]
async fn a_conversion_moves_sets_and_removes_fields() {
    let objects = json!([{"apiVersion": "x/v1", "a": {"b": 1}, "gone": 1}, {"apiVersion": "x/v1"}]);
    let review = review(&json!({"uid": "u", "desiredAPIVersion": "x/v2", "objects": objects}));
    let operations = json!([
        {"op": "move", "from": "/a/b", "path": "/c/d"},
        {"op": "set", "path": "/e~1f", "value": true},
        {"op": "remove", "path": "/gone"},
    ]);
    let answered = answer(json!({"conversion": {"x/v2": operations}}), &review).await;
    assert_eq!(
        answered[1]["response"],
        json!({
            "uid": "u", "result": {"status": "Success"},
            "convertedObjects": [
                {"apiVersion": "x/v2", "a": {}, "c": {"d": 1}, "e/f": true},
                {"apiVersion": "x/v2", "e/f": true},
            ],
        })
    );
    let answered = answer(json!({"conversionFailure": "no"}), &review).await;
    assert_eq!(answered[1]["response"]["result"], json!({"status": "Failure", "message": "no"}));
}

#[tokio::test]
async fn calls_are_returned_once_and_not_recorded_while_the_player_polls() {
    let webhooks = Webhooks::new("hooks:1", "authority");
    let review = review(&json!({"uid": "u"}));
    for (on, expected) in [(false, json!([])), (true, json!([review])), (true, json!([review]))] {
        webhooks.record(on);
        assert_eq!(webhooks.answer("/hook", review.to_string().as_bytes()).await.unwrap().0, 404);
        assert_eq!(Value::from(webhooks.take_calls("hook")), expected);
    }
    assert_eq!((webhooks.host(), webhooks.ca_bundle()), ("hooks:1".to_owned(), "YXV0aG9yaXR5".to_owned()));
}
