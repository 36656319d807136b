//! Writes in a version that is not stored, and ownership across versions.

use serde_json::{Value, json};

use super::{Cluster, DEFINITION, V1, V2, owners, thing};

#[tokio::test]
async fn objects_are_written_and_read_in_every_version() {
    let cluster = Cluster::start().await;
    let (code, created) = cluster.send("POST", V2, &thing("v2", "a", &json!({"amount": 1}))).await;
    assert_eq!((code, &created["spec"]), (201, &json!({"amount": 1})));
    assert_eq!(cluster.get(&format!("{V1}/a")).await.1["spec"], json!({"size": 1}));
    let (_, changed) = cluster.send("PATCH", &format!("{V2}/a"), &json!({"spec": {"amount": 2}})).await;
    assert_eq!((&changed["spec"], &changed["metadata"]["generation"]), (&json!({"amount": 2}), &json!(2)));
    let mut object = cluster.get(&format!("{V2}/a")).await.1;
    object["spec"]["amount"] = json!(3);
    let (code, replaced) = cluster.send("PUT", &format!("{V2}/a"), &object).await;
    assert_eq!((code, &replaced["spec"]), (200, &json!({"amount": 3})));
    assert_eq!(cluster.get(&format!("{V1}/a")).await.1["spec"], json!({"size": 3}));
    // The update of an unchanged object is none.
    let (_, same) = cluster.send("PUT", &format!("{V2}/a"), &replaced).await;
    assert_eq!(same["metadata"]["resourceVersion"], replaced["metadata"]["resourceVersion"]);
    let (_, dry) =
        cluster.send("PATCH", &format!("{V2}/a?dryRun=All"), &json!({"spec": {"amount": 9}})).await;
    assert_eq!(dry["spec"], json!({"amount": 9}));
    assert_eq!(dry["metadata"]["resourceVersion"], replaced["metadata"]["resourceVersion"]);
    let (_, deleted) = cluster.send("DELETE", &format!("{V2}/a"), &Value::Null).await;
    assert_eq!(deleted["status"], "Success");
    assert_eq!(cluster.get(&format!("{V1}/a")).await.0, 404);
}

#[tokio::test]
async fn a_deletion_keeps_the_stored_version_of_a_held_object() {
    let cluster = Cluster::start().await;
    let mut held = thing("v1", "a", &json!({"size": 1}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    cluster.send("POST", V1, &held).await;
    let (code, marked) = cluster.send("DELETE", &format!("{V2}/a"), &Value::Null).await;
    assert_eq!((code, &marked["spec"]), (200, &json!({"amount": 1})));
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    let (_, stored) = cluster.get(&format!("{V1}/a")).await;
    assert_eq!(stored["spec"], json!({"size": 1}));
    assert_eq!(stored["metadata"]["deletionTimestamp"], marked["metadata"]["deletionTimestamp"]);
    let release = json!({"metadata": {"finalizers": null}});
    assert_eq!(cluster.send("PATCH", &format!("{V2}/a"), &release).await.0, 200);
    assert_eq!(cluster.get(&format!("{V2}/a")).await.0, 404);
}

/// Observed with kube-apiserver v1.36.3.
#[tokio::test]
async fn an_applier_can_change_its_version() {
    let cluster = Cluster::start().await;
    let path = |version: &str| format!("{}/a", if version == "v1" { V1 } else { V2 });
    let first = thing("v1", "a", &json!({"size": 1}));
    assert_eq!(cluster.apply(&path("v1"), "me", &first).await.0, 201);
    let (code, object) = cluster.apply(&path("v2"), "me", &thing("v2", "a", &json!({"amount": 2}))).await;
    assert_eq!(code, 200, "{object}");
    assert_eq!(object["spec"], json!({"amount": 2}));
    assert_eq!(owners(&object), [r#"me v2 {"f:amount":{}}"#]);
    assert_eq!(cluster.get(&path("v1")).await.1["spec"], json!({"size": 2}));
    // The applier removes its field in another version than the one in which it set the field.
    let empty = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}});
    let (code, object) = cluster.apply(&path("v1"), "me", &empty).await;
    assert_eq!(code, 200, "{object}");
    assert_eq!(object["spec"].get("size"), None);
    assert_eq!(cluster.get(&path("v2")).await.1["spec"].get("amount"), None);
}

#[tokio::test]
async fn appliers_of_different_versions_conflict() {
    let cluster = Cluster::start().await;
    let (v1, v2) = (format!("{V1}/a"), format!("{V2}/a"));
    assert_eq!(cluster.apply(&v2, "one", &thing("v2", "a", &json!({"amount": 1}))).await.0, 201);
    let (code, object) = cluster.apply(&v1, "other", &thing("v1", "a", &json!({"size": 1}))).await;
    assert_eq!(code, 200, "{object}");
    // An apply that changes no field sets no time, and entries without time come first.
    assert_eq!(owners(&object), [r#"other v1 {"f:size":{}}"#, r#"one v2 {"f:amount":{}}"#]);
    let wanted = thing("v1", "a", &json!({"size": 2}));
    let (code, conflict) = cluster.apply(&v1, "other", &wanted).await;
    assert_eq!(code, 409);
    assert_eq!(conflict["message"], "Apply failed with 1 conflict: conflict with \"one\": .spec.amount");
    let (code, forced) = cluster.apply(&v1, "other&force=true", &wanted).await;
    assert_eq!(code, 200, "{forced}");
    assert_eq!(owners(&forced), [r#"other v1 {"f:size":{}}"#]);
    // The first manager no longer applies the field. The field stays, because the second manager owns it.
    let empty = json!({"apiVersion": "example.com/v2", "kind": "Thing", "metadata": {"name": "a"}});
    let (code, object) = cluster.apply(&v2, "one", &empty).await;
    assert_eq!((code, &object["spec"]), (200, &json!({"amount": 2})));
}

#[tokio::test]
async fn an_update_takes_fields_from_owners_in_other_versions() {
    let cluster = Cluster::start().await;
    cluster.apply(&format!("{V1}/a"), "one", &thing("v1", "a", &json!({"size": 1}))).await;
    let path = format!("{V2}/a?fieldManager=other");
    let (_, object) = cluster.send("PATCH", &path, &json!({"spec": {"amount": 2}})).await;
    assert_eq!(owners(&object), [r#"other v2 {"f:amount":{}}"#]);
}

#[tokio::test]
async fn owners_of_fields_are_kept_when_their_version_is_no_longer_served() {
    let cluster = Cluster::start().await;
    let (v1, v2) = (format!("{V1}/a"), format!("{V2}/a"));
    assert_eq!(cluster.apply(&v2, "one", &thing("v2", "a", &json!({"amount": 1}))).await.0, 201);
    let unserved = json!([{"op": "replace", "path": "/spec/versions/1/served", "value": false}]);
    assert_eq!(cluster.send_as("PATCH", DEFINITION, "application/json-patch+json", &unserved).await.0, 200);
    assert_eq!(cluster.get(&v2).await.0, 404);
    let wanted = thing("v1", "a", &json!({"size": 2}));
    let (code, conflict) = cluster.apply(&v1, "other", &wanted).await;
    let why = "Apply failed with 1 conflict: conflict with \"one\": .spec.amount";
    assert_eq!((code, &conflict["message"]), (409, &json!(why)));
    let (code, forced) = cluster.apply(&v1, "other&force=true", &wanted).await;
    assert_eq!((code, &forced["spec"]), (200, &json!({"size": 2})));
    assert_eq!(owners(&forced), [r#"other v1 {"f:size":{}}"#]);
}

#[tokio::test]
async fn subresources_are_converted_too() {
    let cluster = Cluster::start().await;
    let subresources = |path: &str| json!({"status": {}, "scale": {"specReplicasPath": path, "statusReplicasPath": ".status.replicas"}});
    let status = json!({"type": "object", "properties": {"replicas": {"type": "integer"}}});
    let place = |index: u8, rest: &str| format!("/spec/versions/{index}/{rest}");
    let patch = json!([
        {"op": "add", "path": place(0, "subresources"), "value": subresources(".spec.size")},
        {"op": "add", "path": place(1, "subresources"), "value": subresources(".spec.amount")},
        {"op": "add", "path": place(0, "schema/openAPIV3Schema/properties/status"), "value": status},
        {"op": "add", "path": place(1, "schema/openAPIV3Schema/properties/status"), "value": status},
    ]);
    let (code, body) = cluster.send_as("PATCH", DEFINITION, "application/json-patch+json", &patch).await;
    assert_eq!(code, 200, "{body}");
    cluster.create("a", 3).await;
    let mut scale = cluster.get(&format!("{V2}/a/scale")).await.1;
    assert_eq!((&scale["kind"], &scale["spec"]), (&json!("Scale"), &json!({"replicas": 3})));
    scale["spec"]["replicas"] = json!(4);
    let (code, scaled) = cluster.send("PUT", &format!("{V2}/a/scale"), &scale).await;
    assert_eq!((code, &scaled["spec"]), (200, &json!({"replicas": 4})));
    let status = json!({"spec": {"amount": 9}, "status": {"replicas": 4}});
    let (code, changed) = cluster.send("PATCH", &format!("{V2}/a/status"), &status).await;
    assert_eq!(
        (code, &changed["spec"], &changed["status"]["replicas"]),
        (200, &json!({"amount": 4}), &json!(4))
    );
    let (_, stored) = cluster.get(&format!("{V1}/a")).await;
    assert_eq!((&stored["spec"], &stored["status"]), (&json!({"size": 4}), &json!({"replicas": 4})));
}

/// Unchanged parts of an object are not validated again, but the object as a whole is: its schema does not declare its metadata.
#[tokio::test]
async fn an_unchanged_object_lacks_required_fields_in_another_version() {
    let cluster = Cluster::start().await;
    let mut definition = cluster.get(DEFINITION).await.1;
    definition["spec"]["versions"][1]["schema"]["openAPIV3Schema"]["required"] = json!(["spec"]);
    assert_eq!(cluster.send("PUT", DEFINITION, &definition).await.0, 200);
    let mut first = thing("v1", "a", &json!({}));
    first.as_object_mut().unwrap().remove("spec");
    assert_eq!(cluster.send("POST", V1, &first).await.0, 201);
    let (code, refused) = cluster.send("PATCH", &format!("{V2}/a"), &json!({})).await;
    assert_eq!(code, 422, "{refused}");
    assert_eq!(refused["message"], "Thing.example.com \"a\" is invalid: spec: Required value");
    assert_eq!(cluster.send("PATCH", &format!("{V1}/a"), &json!({})).await.0, 200);
}
