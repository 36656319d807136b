//! Caches on a genuine API server.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering::SeqCst},
};

use controller_runtime::{
    Manager, ManagerOptions, ObjectKey,
    client::{Deletion, Patch},
};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::{
    apps::v1::Deployment,
    autoscaling::v1::Scale,
    core::v1::{ConfigMap, Pod},
};
use kube::{
    api::{ListParams, VersionMatch},
    core::{DynamicObject, PartialObjectMeta},
};
use kube_envtest::eventually;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{Genuine, SOON, genuine, genuine_with_flags};
use crate::{
    faults::{Fault, faulty},
    support::{Running, Widget, WidgetStatus, config_map},
};

async fn config_maps(cluster: &Genuine, names: impl IntoIterator<Item = String>) {
    let client = cluster.client();
    let made = stream::iter(names).map(|name| {
        let mut map = config_map(&name);
        map.metadata.namespace = Some(cluster.namespace.clone());
        let client = &client;
        async move { client.create(&map).await.map(drop) }
    });
    made.buffer_unordered(32).try_collect::<Vec<()>>().await.unwrap();
}

#[tokio::test]
async fn streamed_and_paged_lists_are_both_complete() {
    let Some(cluster) = genuine().await else { return };
    config_maps(&cluster, (0..1_200).map(|number| format!("m{number:04}"))).await;
    for streams in [true, false] {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&asked);
        let client = faulty(cluster.kube.clone(), move |seen| {
            noted.lock().unwrap().push(match () {
                () if seen.is_stream() => "stream",
                () if seen.is_watch() => "watch",
                () if seen.path.contains("continue=") => "page",
                () => "list",
            });
            if seen.is_stream() && !streams { Fault::Refuse(422, "Invalid") } else { Fault::Pass }
        });
        let manager = Manager::new(client, ManagerOptions::new("test"));
        let maps =
            manager.cache().of::<ConfigMap>().namespaces([cluster.namespace.as_str()]).build().unwrap();
        let running = Running::start(manager).await;
        assert_eq!(maps.len().unwrap(), 1_200);
        let late = format!("late-{streams}");
        config_maps(&cluster, [late.clone()]).await;
        let key = ObjectKey::new(cluster.namespace.as_str(), late.as_str());
        maps.until(&key, |map| map.is_some(), SOON).await.unwrap();
        cluster.client().delete_key(&key).await.unwrap();
        maps.until(&key, |map| map.is_none(), SOON).await.unwrap();
        let expected: &[_] = if streams { &["stream"] } else { &["stream", "list", "page", "page", "watch"] };
        assert_eq!(*asked.lock().unwrap(), expected);
        running.stop().await.unwrap();
    }
}

#[tokio::test]
async fn own_writes_are_visible_at_once() {
    let Some(cluster) = genuine().await else { return };
    let manager = cluster.manager();
    let (client, key) = (manager.client(), cluster.key("a"));
    let widgets = manager.cache().of::<Widget>().namespaces([cluster.namespace.as_str()]).build().unwrap();
    let by_size = widgets.index(|widget| Some(widget.spec.size));
    let _running = Running::start(manager).await;
    let shown = || {
        let widget = widgets.get(&key).unwrap()?;
        Some((widget.spec.size, widget.status.as_ref().map(|status| status.seen)))
    };
    for round in 0..20 {
        let mut written = client.create(&cluster.widget("a", 1)).await.unwrap();
        assert_eq!((shown(), by_size.values().unwrap()), (Some((1, None)), vec![1]), "round {round}");
        written.spec.size = 2;
        written = client.update(&written).await.unwrap();
        assert_eq!(shown(), Some((2, None)), "round {round}");
        written.status = Some(WidgetStatus { seen: 2 });
        client.update_status(&written).await.unwrap();
        assert_eq!(shown(), Some((2, Some(2))), "round {round}");
        client.merge_patch(&key, &json!({ "spec": { "size": 3 } })).await.unwrap();
        assert_eq!(shown(), Some((3, Some(2))), "round {round}");
        client.apply(&cluster.widget("a", 4)).await.unwrap();
        assert_eq!((shown(), by_size.values().unwrap()), (Some((4, Some(2))), vec![4]), "round {round}");
        client.apply_status(&key, &WidgetStatus { seen: 4 }).await.unwrap();
        assert_eq!(shown(), Some((4, Some(4))), "round {round}");
        assert_eq!(client.delete_key(&key).await.unwrap(), Deletion::Done);
        assert_eq!((shown(), by_size.values().unwrap()), (None, vec![]), "round {round}");
    }
}

#[tokio::test]
async fn a_cache_holds_selected_objects_in_the_form_of_its_type() {
    let Some(cluster) = genuine().await else { return };
    let client = cluster.client();
    for (name, app) in [("a", "web"), ("b", "web"), ("c", "db")] {
        let mut widget = cluster.widget(name, 7);
        widget.metadata.labels = Some([("app".to_owned(), app.to_owned())].into());
        client.create(&widget).await.unwrap();
    }
    let manager = cluster.manager();
    let here = [cluster.namespace.as_str()];
    let kind = client.discover("example.com", "v1", "Widget").await.unwrap();
    let metadata = manager.cache().of::<PartialObjectMeta<Widget>>().namespaces(here).build().unwrap();
    let web = manager.cache().of::<Widget>().namespaces(here).labels("app=web").build().unwrap();
    let dynamic =
        manager.cache().of_dynamic(&kind).namespaces(here).fields("metadata.name!=a").build().unwrap();
    let _running = Running::start(manager).await;
    let names = |objects: Vec<Option<String>>| objects.into_iter().flatten().collect::<Vec<_>>().join(" ");
    let of_web = || names(web.list().unwrap().iter().map(|object| object.metadata.name.clone()).collect());
    assert_eq!(
        names(metadata.list().unwrap().iter().map(|object| object.metadata.name.clone()).collect()),
        "a b c"
    );
    assert_eq!(of_web(), "a b");
    let rest: Vec<Arc<DynamicObject>> = dynamic.list().unwrap();
    assert_eq!(names(rest.iter().map(|object| object.metadata.name.clone()).collect()), "b c");
    assert_eq!(rest[0].data["spec"]["size"], 7);

    let app = |app: &str| json!({ "metadata": { "labels": { "app": app } } });
    client.merge_patch(&cluster.key("a"), &app("db")).await.unwrap();
    web.until(&cluster.key("a"), |widget| widget.is_none(), SOON).await.unwrap();
    client.merge_patch(&cluster.key("c"), &app("web")).await.unwrap();
    web.until(&cluster.key("c"), |widget| widget.is_some(), SOON).await.unwrap();
    assert_eq!(of_web(), "b c");
    assert_eq!(metadata.len().unwrap(), 3, "who leaves a selection is not deleted");
}

#[tokio::test]
async fn a_cache_with_a_compacted_version_lists_again() {
    let flags = ["--etcd-compaction-interval=1s", "--watch-cache-sizes=configmaps#0"];
    let Some(cluster) = genuine_with_flags(&flags).await else { return };
    config_maps(&cluster, ["kept", "deleted", "changed"].map(ToOwned::to_owned)).await;
    let (cut, down) = (CancellationToken::new(), Arc::new(AtomicBool::new(false)));
    let asked = Arc::new(Mutex::new(Vec::new()));
    let (noted, first, is_down) = (Arc::clone(&asked), cut.clone(), Arc::clone(&down));
    let client = faulty(cluster.kube.clone(), move |seen| {
        if is_down.load(SeqCst) {
            return Fault::Refuse(503, "ServiceUnavailable");
        }
        noted.lock().unwrap().push(if seen.is_stream() { "stream" } else { "watch" });
        if first.is_cancelled() { Fault::Pass } else { Fault::PassUntil(first.clone()) }
    });
    let manager = Manager::new(client, ManagerOptions::new("test"));
    let maps = manager.cache().of::<ConfigMap>().namespaces([cluster.namespace.as_str()]).build().unwrap();
    let _running = Running::start(manager).await;
    let seen = maps.resource_version().unwrap().to_string();
    down.store(true, SeqCst);
    cut.cancel();

    let key = |name: &str| ObjectKey::<ConfigMap>::new(cluster.namespace.as_str(), name);
    let client = cluster.client();
    client.delete_key(&key("deleted")).await.unwrap();
    client.merge_patch(&key("changed"), &json!({ "data": { "new": "yes" } })).await.unwrap();
    config_maps(&cluster, ["created".to_owned()]).await;
    let compacted = eventually(SOON, async || {
        let then = ListParams::default().at(&seen).matching(VersionMatch::Exact);
        match cluster.api::<ConfigMap>().list(&then).await {
            Err(kube::Error::Api(status)) if status.code == 410 => Ok(()),
            other => Err(format!("version {seen} is still there: {:?}", other.map(|list| list.items.len()))),
        }
    });
    compacted.await.unwrap();
    down.store(false, SeqCst);

    maps.until(&key("deleted"), |map| map.is_none(), SOON).await.unwrap();
    let shown: Vec<_> = maps
        .list()
        .unwrap()
        .iter()
        .map(|map| (map.metadata.name.clone().unwrap(), map.data.is_some()))
        .collect();
    assert_eq!(
        shown,
        [("changed".to_owned(), true), ("created".to_owned(), false), ("kept".to_owned(), false)]
    );
    assert_eq!(*asked.lock().unwrap(), ["stream", "watch", "stream"]);
}

#[tokio::test]
async fn own_writes_of_pods_and_subresources_are_visible_at_once() {
    let Some(cluster) = genuine().await else { return };
    let manager = cluster.manager();
    let client = manager.client();
    let here = [cluster.namespace.as_str()];
    let pods = manager.cache().of::<Pod>().namespaces(here).build().unwrap();
    let deployments = manager.cache().of::<Deployment>().namespaces(here).build().unwrap();
    let maps = manager.cache().of::<ConfigMap>().namespaces(here).build().unwrap();
    let _running = Running::start(manager).await;
    let containers = json!([{ "name": "c", "image": "busybox" }]);
    let metadata = json!({ "name": "a", "namespace": cluster.namespace });
    let pod = json!({ "metadata": metadata, "spec": { "containers": containers } });
    let pod = client.create::<Pod>(&serde_json::from_value(pod).unwrap()).await.unwrap();
    let key = ObjectKey::of(&pod).unwrap();
    let debug = json!({ "spec": { "ephemeralContainers": [{ "name": "debug", "image": "tools" }] } });
    client.subresource(&key, "ephemeralcontainers").patch::<Pod>(Patch::strategic(&debug)).await.unwrap();
    let seen = pods.get(&key).unwrap().unwrap();
    assert_eq!(seen.spec.as_ref().unwrap().ephemeral_containers.as_ref().unwrap().len(), 1);
    assert_eq!(client.delete_key(&key).await.unwrap(), Deletion::Done, "no node runs it");
    assert!(pods.get(&key).unwrap().is_none() && cluster.client().get(&key).await.unwrap().is_none());

    let template = json!({ "metadata": { "labels": { "app": "a" } }, "spec": { "containers": containers } });
    let selector = json!({ "matchLabels": { "app": "a" } });
    let deployment = json!({ "metadata": metadata, "spec": { "selector": selector, "template": template } });
    let deployment = client.create::<Deployment>(&serde_json::from_value(deployment).unwrap()).await.unwrap();
    let key = ObjectKey::of(&deployment).unwrap();
    let scale = json!({ "spec": { "replicas": 3 } });
    client.subresource(&key, "scale").patch::<Scale>(Patch::merge(&scale)).await.unwrap();
    let replicas = |deployment: &Deployment| deployment.spec.as_ref()?.replicas;
    let scaled = |deployment: Option<&Deployment>| deployment.and_then(replicas) == Some(3);
    deployments.until(&key, scaled, SOON).await.unwrap();
    assert_eq!(client.delete(&*deployments.get(&key).unwrap().unwrap()).await.unwrap(), Deletion::Done);
    assert!(deployments.get(&key).unwrap().is_none());

    config_maps(&cluster, ["a", "b"].map(ToOwned::to_owned)).await;
    client.delete_all::<ConfigMap>().in_namespace(here[0]).await.unwrap();
    assert!(
        maps.is_empty().unwrap()
            && cluster.client().list::<ConfigMap>().in_namespace(here[0]).await.unwrap().items.is_empty()
    );
}
