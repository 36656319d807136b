//! Patches, and preconditions on object and version.

use std::sync::{Arc, Mutex};

use controller_runtime::{
    Client, ClientError, DynamicKind, ObjectKey, Verb,
    client::{Call, Expected, Next, Patch},
};
use k8s_openapi::api::{apps::v1::Deployment, autoscaling::v1::Scale, core::v1::ConfigMap};
use kube::core::DynamicObject;
use serde_json::json;

use crate::support::{Widget, WidgetStatus, config_map, environment, key, widget};

/// Checks the outcome of each patch, on any API server.
pub(crate) async fn of_one_version(client: &Client, namespace: &str) {
    let key = ObjectKey::<Widget>::new(namespace, "a");
    let mut first = widget("a", 1);
    first.metadata.namespace = Some(namespace.to_owned());
    let first = client.create(&first).await.unwrap();
    let sized = |old: &Widget, size: i32| {
        let mut new = old.clone();
        new.spec.size = size;
        Patch::between(old, &new)
    };
    let expected = |error: ClientError| error.conflict().map(|conflict| conflict.expected.clone());
    let version =
        |widget: &Widget| Some(Expected::Version(widget.metadata.resource_version.clone().unwrap()));
    let uid = |widget: &Widget| Some(Expected::Uid(widget.metadata.uid.clone().unwrap()));

    let second = client.patch(&key, sized(&first, 2)).await.unwrap();
    assert_eq!(second.spec.size, 2);
    let stale = client.patch(&key, sized(&first, 3)).await.unwrap_err();
    assert_eq!(expected(stale), version(&first), "the object has another version by now");
    let third = client.patch(&key, sized(&first, 3).any_version()).await.unwrap();
    assert_eq!(third.spec.size, 3);

    let operations = json!([{ "op": "replace", "path": "/spec/size", "value": 4 }]);
    let stale = client.patch(&key, Patch::json(&operations).with_version_of(&first)).await.unwrap_err();
    assert_eq!(expected(stale), version(&first));
    let fourth = client.patch(&key, Patch::json(&operations).with_version_of(&third)).await.unwrap();
    assert_eq!(fourth.spec.size, 4);

    client.delete(&fourth).await.unwrap();
    let mut anew = widget("a", 7);
    anew.metadata.namespace = Some(namespace.to_owned());
    let anew = client.create(&anew).await.unwrap();
    let another = client.patch(&key, sized(&fourth, 5)).await.unwrap_err();
    assert_eq!(expected(another), version(&fourth), "it cannot have the version of the one before it");
    let another = client.patch(&key, sized(&fourth, 5).any_version()).await.unwrap_err();
    assert!(
        another.to_string().ends_with("another object has taken its name: read that one and start again")
    );
    assert_eq!(expected(another), uid(&fourth));
    let json = Patch::json(&operations).with_version_of(&fourth).any_version();
    assert_eq!(expected(client.patch(&key, json).await.unwrap_err()), uid(&fourth));
    let left = client.get(&key).await.unwrap().unwrap();
    assert_eq!(left.metadata.resource_version, anew.metadata.resource_version);

    let invalid = client.merge_patch(&key, &json!({ "spec": { "size": "x" } })).await.unwrap_err();
    assert!(invalid.is_invalid() && !invalid.is_conflict(), "{invalid}");
}

#[tokio::test]
async fn a_computed_patch_applies_to_the_version_that_was_read() {
    let env = environment().await;
    of_one_version(&Client::new(env.client(), "test"), "default").await;
}

#[tokio::test]
async fn a_patch_without_a_version_to_check_is_not_sent() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    client.create(&widget("a", 1)).await.unwrap();
    let patch = Patch::merge(&json!({ "spec": { "size": 2 } })).with_version_of(&widget("a", 1));
    let error = client.patch(&key("a"), patch).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "patch widgets.example.com default/a: not sent: metadata.resourceVersion of the object to be patched must be set: \
         read the object first"
    );
}

#[tokio::test]
async fn strategic_and_subresource_patches_can_require_a_version() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    let settings = ObjectKey::<ConfigMap>::new("default", "settings");
    let first = client.create(&config_map("settings")).await.unwrap();
    let roses = || Patch::strategic(&json!({ "data": { "theme": "roses" } }));
    client.patch(&settings, roses().with_version_of(&first)).await.unwrap();
    assert!(client.patch(&settings, roses().with_version_of(&first)).await.unwrap_err().is_conflict());
    client.patch(&settings, roses()).await.expect("by hand, it is for every version");

    let maps = client.of(DynamicKind::of::<ConfigMap>());
    let old: DynamicObject = maps.get(&ObjectKey::new("default", "settings")).await.unwrap().unwrap();
    let mut new = old.clone();
    new.data["data"]["theme"] = json!("blue");
    maps.patch(&ObjectKey::new("default", "settings"), Patch::between(&old, &new)).await.unwrap();
    let stale = maps.patch(&ObjectKey::new("default", "settings"), Patch::between(&old, &new)).await;
    assert!(stale.unwrap_err().is_conflict());

    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": { "namespace": "default", "name": "web" },
        "spec": {
            "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" } },
                "spec": { "containers": [{ "name": "web", "image": "web" }] },
            },
        },
    }))
    .unwrap();
    let web = ObjectKey::of(&client.create(&deployment).await.unwrap()).unwrap();
    let scale = client.subresource(&web, "scale");
    let old: Scale = scale.get().await.unwrap();
    let mut new = old.clone();
    new.spec.get_or_insert_default().replicas = Some(3);
    let scaled: Scale = scale.patch(Patch::between(&old, &new)).await.unwrap();
    assert_eq!(scaled.spec.unwrap().replicas, Some(3));
    new.spec.get_or_insert_default().replicas = Some(4);
    let stale = scale.patch::<Scale>(Patch::between(&old, &new)).await.unwrap_err();
    assert!(stale.is_conflict(), "{stale}");
}

#[tokio::test]
async fn create_or_patch_applies_to_the_version_that_it_read() {
    let env = environment().await;
    let sent = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&sent);
    let client = Client::new(env.client(), "test").intercepted(move |call: Call, next: Next| {
        if call.verb() == Verb::Patch {
            noted.lock().unwrap().push(serde_json::from_slice::<serde_json::Value>(call.body()).unwrap());
        }
        next.run(call)
    });
    let created = client.create(&widget("a", 1)).await.unwrap();
    let made = client.create_or_patch(widget("a", 0), |widget| {
        (widget.spec.size, widget.status) = (2, Some(WidgetStatus { seen: 2 }));
        Ok(())
    });
    made.await.unwrap();
    let sent = sent.lock().unwrap();
    assert_eq!(sent.len(), 2, "the status goes by itself");
    assert_eq!(sent[0]["metadata"]["resourceVersion"].as_str(), created.metadata.resource_version.as_deref());
    for patch in &*sent {
        assert_eq!(patch["metadata"]["uid"].as_str(), created.metadata.uid.as_deref(), "{patch}");
    }
    assert_ne!(sent[0]["metadata"]["resourceVersion"], sent[1]["metadata"]["resourceVersion"]);
}
