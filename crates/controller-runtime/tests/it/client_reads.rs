//! Lists, watches, kinds known at run time, and subresources.

use controller_runtime::{
    Client, DynamicKind, ObjectKey,
    client::{ErrorKind, Expected, Patch, ResultExt},
};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::{
    apps::v1::Deployment,
    autoscaling::v1::Scale,
    core::v1::{ConfigMap, Namespace},
};
use kube::core::{DynamicObject, PartialObjectMeta, WatchEvent};
use serde_json::json;

use crate::support::{Widget, WidgetStatus, config_map, environment, key, widget};

/// The test kind as a type that expects another type of its field.
mod misread {
    #[derive(
        kube::CustomResource, Clone, Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
    )]
    #[kube(group = "example.com", version = "v1", kind = "Widget", namespaced)]
    pub(super) struct MisreadSpec {
        pub(super) size: String,
    }
}

#[tokio::test]
async fn pages_show_all_objects_once_in_their_order() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    for number in 0..7 {
        client.create(&widget(&format!("w{number}"), number)).await.unwrap();
    }
    let first = client.list::<Widget>().limit(3).await.unwrap();
    assert_eq!((first.items.len(), first.remaining), (3, Some(4)));
    let rest = client.list::<Widget>().continue_from(first.continue_token.unwrap()).await.unwrap();
    assert_eq!(rest.items.iter().map(|widget| widget.spec.size).collect::<Vec<_>>(), [3, 4, 5, 6]);

    let pages: Vec<_> =
        client.list::<Widget>().in_namespace("default").limit(3).pages().try_collect().await.unwrap();
    assert_eq!(pages.iter().map(|page| page.items.len()).collect::<Vec<_>>(), [3, 3, 1]);
    let sizes: Vec<_> = pages.iter().flat_map(|page| &page.items).map(|widget| widget.spec.size).collect();
    assert_eq!(sizes, (0..7).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_page_of_a_compacted_state_is_an_error_that_ends_the_pages() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    for number in 0..4 {
        client.create(&widget(&format!("w{number}"), number)).await.unwrap();
    }
    let mut pages = client.list::<Widget>().limit(2).pages();
    assert_eq!(pages.next().await.unwrap().unwrap().items.len(), 2);
    client.create(&widget("w5", 5)).await.unwrap();
    env.server().faults().compact();
    assert!(pages.next().await.unwrap().unwrap_err().is_expired());
    assert!(pages.next().await.is_none());
}

#[tokio::test]
async fn lists_are_selected_by_labels_and_fields() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    for (name, app) in [("a", "web"), ("b", "web"), ("c", "db")] {
        let mut map = config_map(name);
        map.metadata.labels = Some([("app".to_owned(), app.to_owned())].into());
        client.create(&map).await.unwrap();
    }
    let names = async |list: controller_runtime::client::List<ConfigMap>| -> Vec<String> {
        list.await.unwrap().items.into_iter().filter_map(|map| map.metadata.name).collect()
    };
    let maps = || client.list::<ConfigMap>().in_namespace("default");
    assert_eq!(names(maps().labels("app=web")).await, ["a", "b"]);
    assert_eq!(names(maps().labels("app=web").fields("metadata.name=b")).await, ["b"]);
    assert_eq!(names(maps().labels("app").labels("app notin (web)")).await, ["c"]);
    client.delete_all::<ConfigMap>().in_namespace("default").labels("app=web").await.unwrap();
    assert_eq!(names(maps().labels("app")).await, ["c"]);
}

#[tokio::test]
async fn metadata_alone_is_read_and_patched_but_not_written() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    client.create(&widget("a", 1)).await.unwrap();
    let key = ObjectKey::<PartialObjectMeta<Widget>>::new("default", "a");
    let meta = client.get(&key).await.unwrap().unwrap();
    assert_eq!(meta.types.as_ref().unwrap().kind, "PartialObjectMetadata");
    let listed = client.list::<PartialObjectMeta<Widget>>().await.unwrap();
    assert_eq!(listed.items[0].metadata.uid, meta.metadata.uid);
    let labels = Patch::merge(&json!({ "metadata": { "labels": { "x": "y" } } }));
    let labelled = client.patch(&key, labels.with_version_of(&meta)).await.unwrap();
    assert_eq!(labelled.metadata.labels.unwrap()["x"], "y");
    assert_eq!(client.create(&meta).await.unwrap_err().kind(), &ErrorKind::NotSent);
}

#[tokio::test]
async fn an_answer_that_does_not_fit_its_type_names_the_field() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    client.create(&widget("a", 1)).await.unwrap();
    let error = client.get(&ObjectKey::<misread::Widget>::new("default", "a")).await.unwrap_err();
    let ErrorKind::Undecodable(problem) = error.kind() else { panic!("{error}") };
    assert_eq!(problem.path, "spec.size");
    let error = client.list::<misread::Widget>().await.unwrap_err();
    let ErrorKind::Undecodable(problem) = error.kind() else { panic!("{error}") };
    assert_eq!(problem.path, "items[0].spec.size");
}

#[tokio::test]
async fn dynamic_kinds_are_read_and_written_like_others() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    let kind = client.discover("example.com", "v1", "Widget").await.unwrap();
    assert_eq!(kind, DynamicKind::namespaced("example.com", "v1", "Widget", "widgets"));
    assert!(client.discover("example.com", "v1", "Gadget").await.unwrap_err().is_not_served());

    let widgets = client.of(kind);
    let key = ObjectKey::<DynamicObject>::new("default", "a");
    let object = DynamicObject::new("a", widgets.kind().resource()).within("default");
    let created = widgets.create(&object.data(json!({ "spec": { "size": 1 } }))).await.unwrap();
    let patch = Patch::json(&json!([{ "op": "replace", "path": "/spec/size", "value": 2 }]));
    let mut changed = widgets.patch(&key, patch).await.unwrap();
    assert!(widgets.update(&created).await.unwrap_err().is_conflict());
    changed.data["spec"]["size"] = json!(3);
    widgets.update(&changed).await.unwrap();
    assert_eq!(client.get(&crate::support::key("a")).await.unwrap().unwrap().spec.size, 3);

    client.create(&config_map("settings")).await.unwrap();
    let maps = client.of(DynamicKind::of::<ConfigMap>());
    let listed = maps.list().in_namespace("default").fields("metadata.name=settings").await.unwrap();
    assert_eq!(listed.items[0].types.as_ref().unwrap().kind, "ConfigMap", "a list says it once for all");
    maps.delete(&listed.items[0]).await.unwrap();
    assert!(maps.get(&ObjectKey::new("default", "settings")).await.unwrap().is_none());

    let namespaces = client.of(DynamicKind::of::<Namespace>());
    assert!(namespaces.get(&ObjectKey::new((), "default")).await.unwrap().is_some());
}

#[tokio::test]
async fn a_watch_delivers_the_changes_since_a_list() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    let page = client.list::<Widget>().await.unwrap();
    let mut events = client.watch::<Widget>(&page.resource_version).in_namespace("default").stream();
    let created = client.create(&widget("a", 1)).await.unwrap();
    client.delete(&created).await.unwrap();
    let WatchEvent::Added(added) = events.try_next().await.unwrap().unwrap() else {
        panic!("it was created")
    };
    assert_eq!(added.metadata.uid, created.metadata.uid);
    assert!(matches!(events.try_next().await.unwrap(), Some(WatchEvent::Deleted(_))));

    env.server().faults().compact();
    let mut late = client.watch::<Widget>(&page.resource_version).stream();
    assert!(late.next().await.unwrap().unwrap_err().is_expired());
    assert!(late.next().await.is_none());
}

#[tokio::test]
async fn subresources_are_read_and_written_separately() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
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
    let stored = client.create(&deployment).await.unwrap();
    let web = ObjectKey::of(&stored).unwrap();
    let scale = client.subresource(&web, "scale");
    let mut wanted: Scale = scale.get().await.unwrap();
    wanted.spec.get_or_insert_default().replicas = Some(3);
    let _: Scale = scale.update(&wanted).await.unwrap();
    let mut scaled = client.get(&web).await.unwrap().unwrap();
    assert_eq!(scaled.spec.as_ref().unwrap().replicas, Some(3));

    scaled.status.get_or_insert_default().replicas = Some(3);
    scaled.spec.get_or_insert_default().replicas = Some(7);
    let updated = client.update_status(&scaled).await.unwrap();
    assert_eq!(updated.status.unwrap().replicas, Some(3));
    assert_eq!(updated.spec.unwrap().replicas, Some(3), "the status alone");
    let status: Deployment = client.subresource(&web, "status").get().await.unwrap();
    assert_eq!(status.metadata.uid, stored.metadata.uid);
}

#[tokio::test]
async fn a_conflict_names_the_object_the_expected_version_and_the_next_step() {
    let env = environment().await;
    let client = Client::new(env.client(), "one");
    let created = client.create(&widget("a", 1)).await.unwrap();
    let version = created.metadata.resource_version.clone().unwrap();
    client.merge_patch(&key("a"), &json!({ "spec": { "size": 2 } })).await.unwrap();

    let error = client.update(&created).await.unwrap_err();
    let conflict = error.conflict().expect("it has changed since");
    assert_eq!(conflict.object, "widgets.example.com default/a");
    assert_eq!(conflict.expected, Expected::Version(version));
    assert!(
        error
            .to_string()
            .ends_with("; read the object again and repeat the change, as retry_on_conflict does"),
        "{error}"
    );

    let theirs = client.field_manager("two").apply(&widget("a", 3)).without_force().await.unwrap_err();
    let conflict = theirs.conflict().expect("one owns the field");
    assert_eq!(conflict.expected, Expected::Ownership(vec![".spec.size".to_owned()]));
    assert!(
        theirs.to_string().ends_with("; leave these fields to their owner, or apply with force"),
        "{theirs}"
    );

    let current = client.get(&key("a")).await.unwrap().unwrap();
    client.delete(&current).await.unwrap();
    client.create(&widget("a", 1)).await.unwrap();
    let error = client.delete(&current).any_version().await.unwrap_err();
    assert_eq!(error.conflict().map(|c| &c.expected), Some(&Expected::Uid(current.metadata.uid.unwrap())));
}

#[tokio::test]
async fn an_update_needs_a_version_and_an_invalid_object_has_causes() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    let error = client.update(&widget("a", 1)).await.unwrap_err();
    assert!(error.to_string().contains("metadata.resourceVersion must be set"), "{error}");
    client.create(&widget("a", 1)).await.unwrap();
    let error = client.merge_patch(&key("a"), &json!({ "spec": { "size": "x" } })).await.unwrap_err();
    assert!(error.is_invalid(), "{error}");
    assert_eq!(error.causes()[0].field, "spec.size");
    let gone = client.merge_patch(&key("b"), &json!({})).await.optional().unwrap();
    assert!(gone.is_none());
    assert!(client.create(&widget("a", 1)).await.ignore_already_exists().unwrap().is_none());
    let status = client.apply_status(&key("a"), &WidgetStatus { seen: 1 }).without_force().await.unwrap();
    assert_eq!(status.status, Some(WidgetStatus { seen: 1 }));
}
