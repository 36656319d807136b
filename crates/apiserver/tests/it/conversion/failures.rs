//! Webhooks that fail, and work of the server that does not depend on them.

use serde_json::{Value, json};
use tokio::time::{Duration, Instant};

use super::hook::Change;
use super::{Cluster, DEFINITION, V1, V2, names, thing};

const FAILED: &str = "conversion webhook for example.com/v1, Kind=Thing";

#[tokio::test]
async fn a_dry_run_of_a_deletion_converts_the_marked_object() {
    let cluster = Cluster::start().await;
    let held = json!({
        "apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a", "finalizers": ["example.com/a"]},
        "spec": {"size": 1},
    });
    let (code, created) = cluster.send("POST", V1, &held).await;
    assert_eq!(code, 201, "{created}");
    let path = format!("{V2}/a?dryRun=All");
    let (code, marked) = cluster.send("DELETE", &path, &Value::Null).await;
    assert!(code == 200 && marked["metadata"]["deletionTimestamp"].is_string(), "{marked}");
    cluster.hook.change(|response| {
        let version = &mut response["convertedObjects"][0]["apiVersion"];
        if *version == "example.com/v1" {
            *version = json!("example.com/v3");
        }
    });
    let (code, status) = cluster.send("DELETE", &path, &Value::Null).await;
    assert!(code == 500 && status["message"].as_str().unwrap().contains("invalid groupVersion"), "{status}");
}

#[tokio::test]
async fn a_webhook_cannot_lose_reorder_or_replace_objects() {
    let cluster = Cluster::start().await;
    for (name, size) in [("a", 1), ("b", 2)] {
        cluster.create(name, size).await;
    }
    let cases: [(Change, &str); 5] = [
        (
            |response| drop(response["convertedObjects"].as_array_mut().unwrap().pop()),
            "returned 1 objects, expected 2",
        ),
        (
            |response| response["convertedObjects"].as_array_mut().unwrap().reverse(),
            "returned invalid object: must have the same name: a != b",
        ),
        (
            |response| response["convertedObjects"][1]["metadata"]["namespace"] = json!("other"),
            "returned invalid object: must have the same namespace: default != other",
        ),
        (
            |response| response["convertedObjects"][1]["metadata"]["labels"] = json!({"a": "not valid"}),
            "returned invalid metadata: metadata.labels: Invalid value: \"not valid\": ",
        ),
        (
            |response| *response = json!("nothing"),
            "failed: json: cannot unmarshal string into Go struct field ConversionReview.response of type v1.ConversionResponse",
        ),
    ];
    for (change, why) in cases {
        cluster.hook.change(change);
        let (code, status) = cluster.get(V2).await;
        let message = status["message"].as_str().unwrap();
        assert!(code == 500 && message.starts_with(&format!("{FAILED} {why}")), "{message}");
    }
    cluster.hook.mend();
    assert_eq!(names(&cluster.get(V2).await.1), ["a", "b"], "nothing of it was kept");
}

#[tokio::test]
async fn a_failed_conversion_changes_nothing() {
    let cluster = Cluster::start().await;
    cluster.create("a", 1).await;
    cluster.hook.fail("not today");
    let path = format!("{V2}/a");
    let apply = thing("v2", "a", &json!({"amount": 2}));
    for (code, status) in [
        cluster.get(&path).await,
        cluster.send("PATCH", &path, &json!({"spec": {"amount": 2}})).await,
        cluster.send("DELETE", &path, &Value::Null).await,
        cluster.send("DELETE", V2, &Value::Null).await,
        cluster.apply(&path, "me", &apply).await,
    ] {
        assert_eq!((code, &status["message"]), (500, &json!(format!("{FAILED} failed: not today"))));
    }
    let (code, status) = cluster.send("POST", V2, &thing("v2", "b", &json!({"amount": 2}))).await;
    let why = "conversion webhook for example.com/v2, Kind=Thing failed: not today";
    assert_eq!((code, &status["message"]), (500, &json!(why)));
    let (_, list) = cluster.get(V1).await;
    assert_eq!((names(&list), &list["items"][0]["spec"]), (vec!["a".to_owned()], &json!({"size": 1})));
    assert_eq!(cluster.send("DELETE", &format!("{V1}/a"), &Value::Null).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_never_answers_times_out_after_30_seconds() {
    let cluster = Cluster::start().await;
    cluster.create("a", 1).await;
    cluster.hook.delay(Duration::from_secs(3600));
    let begun = Instant::now();
    let path = format!("{V2}/a");
    let (slow, quick) = tokio::join!(cluster.get(&path), async {
        // No lock is held meanwhile.
        cluster.create("b", 2).await;
        begun.elapsed()
    });
    assert_eq!((slow.0, begun.elapsed().as_secs(), quick), (500, 30, Duration::ZERO));
    let why = "failed: Post \"https://hooks.example.com/convert\": context deadline exceeded";
    assert_eq!(slow.1["message"], format!("{FAILED} {why}"));
}

#[tokio::test]
async fn a_broken_webhook_does_not_stop_the_deletion_of_its_definition() {
    let cluster = Cluster::start().await;
    for number in 0..3 {
        cluster.create(&format!("t{number}"), number).await;
    }
    cluster.send("POST", V2, &thing("v2", "other", &json!({"amount": 9}))).await;
    cluster.hook.fail("not today");
    cluster.hook.calls();
    assert_eq!(cluster.send("DELETE", DEFINITION, &Value::Null).await.0, 200);
    cluster.gone(DEFINITION).await;
    assert!(cluster.hook.calls().is_empty());
}

#[tokio::test]
async fn a_broken_webhook_stops_neither_garbage_collection_nor_namespaces() {
    let cluster = Cluster::with_controllers().await;
    let space = json!({"metadata": {"name": "doomed"}});
    assert_eq!(cluster.send("POST", "/api/v1/namespaces", &space).await.0, 201);
    let doomed = "/apis/example.com/v1/namespaces/doomed/things";
    assert_eq!(cluster.send("POST", doomed, &thing("v1", "a", &json!({"size": 1}))).await.0, 201);
    let (_, owner) = cluster
        .send("POST", "/api/v1/namespaces/default/configmaps", &json!({"metadata": {"name": "owner"}}))
        .await;
    let mut dependent = thing("v1", "dependent", &json!({"size": 1}));
    dependent["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"],
    }]);
    assert_eq!(cluster.send("POST", V1, &dependent).await.0, 201);
    cluster.hook.fail("not today");
    cluster.hook.calls();
    cluster.send("DELETE", "/api/v1/namespaces/doomed", &Value::Null).await;
    cluster.send("DELETE", "/api/v1/namespaces/default/configmaps/owner", &Value::Null).await;
    cluster.gone("/api/v1/namespaces/doomed").await;
    cluster.gone(&format!("{V1}/dependent")).await;
    assert!(cluster.hook.calls().is_empty());
}
