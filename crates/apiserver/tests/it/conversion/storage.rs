//! Moves of the storage version, and the end of versions.

use serde_json::{Value, json};

use super::{Cluster, DEFINITION, V1, V2, definition, thing};

/// Starts a server with an object that is stored in v1, and moves the storage version to v2.
async fn moved() -> Cluster {
    let cluster = Cluster::start().await;
    cluster.create("a", 1).await;
    let (code, changed) = cluster.send("PATCH", DEFINITION, &json!({"spec": {"versions": versions()}})).await;
    assert_eq!((code, &changed["status"]["storedVersions"]), (200, &json!(["v1", "v2"])));
    cluster
}

/// Returns the versions of the definition, of which v2 is stored.
fn versions() -> Value {
    let mut versions = definition()["spec"]["versions"].take();
    versions[0]["storage"] = json!(false);
    versions[1]["storage"] = json!(true);
    versions
}

/// Removes v1 from the definition, and returns the response.
async fn without_v1(cluster: &Cluster) -> (u16, Value) {
    cluster.send("PATCH", DEFINITION, &json!({"spec": {"versions": [versions()[1]]}})).await
}

/// Reports that no object is stored in v1.
async fn report_migration(cluster: &Cluster) {
    let status = json!({"status": {"storedVersions": ["v2"]}});
    let (code, body) = cluster.send("PATCH", &format!("{DEFINITION}/status"), &status).await;
    assert_eq!((code, &body["status"]["storedVersions"]), (200, &json!(["v2"])));
}

#[tokio::test]
async fn objects_stay_readable_when_the_storage_version_moves() {
    let cluster = moved().await;
    assert_eq!(cluster.send("POST", V1, &thing("v1", "b", &json!({"size": 2}))).await.0, 201);
    cluster.hook.calls();
    for (path, specs) in
        [(V1, json!([{"size": 1}, {"size": 2}])), (V2, json!([{"amount": 1}, {"amount": 2}]))]
    {
        let (_, list) = cluster.get(path).await;
        let found: Vec<Value> =
            list["items"].as_array().unwrap().iter().map(|item| item["spec"].clone()).collect();
        assert_eq!(Value::from(found), specs);
    }
    assert_eq!(
        cluster.hook.calls(),
        [1],
        "a is stored in v1; b is stored in v2, and was converted when it was created"
    );
    // An update stores the object in the new version.
    cluster.send("PATCH", &format!("{V1}/a"), &json!({"spec": {"size": 3}})).await;
    cluster.hook.calls();
    assert_eq!(cluster.get(&format!("{V2}/a")).await.1["spec"], json!({"amount": 3}));
    assert!(cluster.hook.calls().is_empty());
}

#[tokio::test]
async fn a_version_can_be_removed_when_no_object_is_stored_in_it() {
    let cluster = moved().await;
    let (code, refused) = without_v1(&cluster).await;
    assert_eq!(code, 422);
    let why = "status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions; v1 was previously a storage version";
    assert!(refused["message"].as_str().unwrap().contains(why), "{refused}");
    // The update of an unchanged object stores it in the new version.
    let (_, object) = cluster.get(&format!("{V2}/a")).await;
    let (code, stored) = cluster.send("PUT", &format!("{V2}/a"), &object).await;
    assert_eq!(code, 200);
    assert_ne!(stored["metadata"]["resourceVersion"], object["metadata"]["resourceVersion"]);
    assert_eq!((&stored["spec"], &stored["metadata"]["generation"]), (&json!({"amount": 1}), &json!(1)));
    report_migration(&cluster).await;
    assert_eq!(without_v1(&cluster).await.0, 200);
    cluster.hook.calls();
    assert_eq!(cluster.get(&format!("{V2}/a")).await.1["spec"], json!({"amount": 1}));
    assert_eq!(cluster.get(&format!("{V1}/a")).await.0, 404);
    assert!(cluster.hook.calls().is_empty());
}

#[tokio::test]
async fn an_object_of_a_removed_version_is_deleted_with_its_definition() {
    let cluster = moved().await;
    report_migration(&cluster).await;
    assert_eq!(without_v1(&cluster).await.0, 200);
    assert_eq!(cluster.send("POST", V2, &thing("v2", "b", &json!({"amount": 2}))).await.0, 201);
    for path in [V2.to_owned(), format!("{V2}/a")] {
        let (code, status) = cluster.get(&path).await;
        let why = "request to convert CR from an invalid group/version: ";
        assert!(code == 500 && status["message"].as_str().unwrap().starts_with(why), "{status}");
    }
    assert_eq!(cluster.get(&format!("{V2}/b")).await.1["spec"], json!({"amount": 2}));
    assert_eq!(cluster.send("DELETE", DEFINITION, &Value::Null).await.0, 200);
    cluster.gone(DEFINITION).await;
}
