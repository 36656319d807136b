//! Profile dev: dependents of deleted owners are deleted, namespaces are emptied, and no task outlives the server. Time is paused, so
//! waits take no real time, and a wait that never ends fails immediately.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{
    Api, DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, PropagationPolicy,
};
use kube::{Client, Resource, ResourceExt};
use kube_apiserver_embedded::{ApiServer, Epoch, Options, Profile};
use serde_json::json;

fn start() -> (ApiServer, Client) {
    let server = ApiServer::start(Options::default().profile(Profile::Dev));
    let client = Client::new(server.service(), "default");
    (server, client)
}

fn owned_by(name: &str, owner: &ConfigMap) -> ConfigMap {
    let reference = OwnerReference { block_owner_deletion: Some(true), ..owner.owner_ref(&()).unwrap() };
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            owner_references: Some(vec![reference]),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    }
}

async fn create(api: &Api<ConfigMap>, map: &ConfigMap) -> ConfigMap {
    api.create(&PostParams::default(), map).await.unwrap()
}

async fn named(api: &Api<ConfigMap>, name: &str) -> ConfigMap {
    let map = ConfigMap {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        ..ConfigMap::default()
    };
    create(api, &map).await
}

async fn names(api: &Api<ConfigMap>) -> String {
    // Commits wake the controllers. They are done when the runtime is idle, which is when paused time advances.
    tokio::time::sleep(Duration::from_millis(1)).await;
    let names: Vec<String> =
        api.list(&ListParams::default()).await.unwrap().iter().map(ResourceExt::name_any).collect();
    names.join(" ")
}

#[tokio::test(start_paused = true)]
async fn a_server_without_writes_does_not_change() {
    let (_server, client) = start();
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let version = async || maps.list(&ListParams::default()).await.unwrap().metadata.resource_version;
    let before = version().await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(version().await, before);
}

#[tokio::test(start_paused = true)]
async fn dependents_are_deleted_after_their_owner_level_by_level() {
    let (_server, client) = start();
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    let top = named(&api, "top").await;
    let middle = create(&api, &owned_by("middle", &top)).await;
    create(&api, &owned_by("bottom", &middle)).await;
    named(&api, "unrelated").await;
    api.delete("top", &DeleteParams::default()).await.unwrap();
    assert_eq!(names(&api).await, "unrelated");
}

#[tokio::test(start_paused = true)]
async fn an_owner_deleted_in_the_foreground_waits_for_its_dependents() {
    let (_server, client) = start();
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    let owner = named(&api, "owner").await;
    let mut dependent = owned_by("dependent", &owner);
    dependent.metadata.finalizers = Some(vec!["example.com/hold".to_owned()]);
    create(&api, &dependent).await;
    let foreground =
        DeleteParams { propagation_policy: Some(PropagationPolicy::Foreground), ..DeleteParams::default() };
    api.delete("owner", &foreground).await.unwrap();
    assert_eq!(names(&api).await, "dependent owner");
    let release = json!({"metadata": {"finalizers": null}});
    api.patch("dependent", &PatchParams::default(), &Patch::Merge(release)).await.unwrap();
    assert_eq!(names(&api).await, "");
}

#[tokio::test(start_paused = true)]
async fn orphans_stay_without_their_reference() {
    let (_server, client) = start();
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    let owner = named(&api, "owner").await;
    create(&api, &owned_by("dependent", &owner)).await;
    let orphan =
        DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
    api.delete("owner", &orphan).await.unwrap();
    assert_eq!(names(&api).await, "dependent");
    assert!(api.get("dependent").await.unwrap().owner_references().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_deleted_namespace_is_emptied_and_removed() {
    let (_server, client) = start();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = Namespace {
        metadata: ObjectMeta { name: Some("team".to_owned()), ..ObjectMeta::default() },
        ..Namespace::default()
    };
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    let api: Api<ConfigMap> = Api::namespaced(client, "team");
    named(&api, "a").await;
    namespaces.delete("team", &DeleteParams::default()).await.unwrap();
    assert_eq!(names(&api).await, "");
    assert!(namespaces.get_opt("team").await.unwrap().is_none());
    let late = api.create(&PostParams::default(), &ConfigMap::default()).await.unwrap_err();
    assert!(matches!(late, kube::Error::Api(status) if status.code == 404));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_namespace_keeps_its_contents_for_its_grace_period() {
    let options = Options::default()
        .profile(Profile::Dev)
        .epoch(Epoch::starting_now("2026-01-01T00:00:00Z".parse().unwrap()))
        .namespace_grace(Duration::from_secs(5));
    let server = ApiServer::start(options);
    let client = Client::new(server.service(), "team");
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some("team".to_owned());
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    named(&api, "a").await;
    namespaces.delete("team", &DeleteParams::default()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(4900)).await;
    assert_eq!(names(&api).await, "a");
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(names(&api).await, "");
    assert!(namespaces.get_opt("team").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_namespace_deleted_with_its_owner_is_emptied_first() {
    let (_server, client) = start();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = |name: &str, owner: Option<&Namespace>| Namespace {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            owner_references: owner.map(|owner| vec![owner.owner_ref(&()).unwrap()]),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    let owner = namespaces.create(&PostParams::default(), &namespace("owner", None)).await.unwrap();
    namespaces.create(&PostParams::default(), &namespace("owned", Some(&owner))).await.unwrap();
    let api: Api<ConfigMap> = Api::namespaced(client, "owned");
    named(&api, "free").await;
    let mut held = named(&api, "held").await;
    held.metadata.finalizers = Some(vec!["example.com/hold".to_owned()]);
    api.replace("held", &PostParams::default(), &held).await.unwrap();
    namespaces.delete("owner", &DeleteParams::default()).await.unwrap();
    assert_eq!(names(&api).await, "held");
    assert!(namespaces.get("owned").await.unwrap().metadata.deletion_timestamp.is_some());
    let release = json!({"metadata": {"finalizers": null}});
    api.patch("held", &PatchParams::default(), &Patch::Merge(release)).await.unwrap();
    assert_eq!(names(&api).await, "");
    assert!(namespaces.get_opt("owned").await.unwrap().is_none());
}

/// Creates a pod that runs on a node, where only its kubelet can end it.
async fn running_pod(pods: &Api<Pod>, owner: Option<OwnerReference>) {
    let mut pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
    }))
    .unwrap();
    pod.metadata.owner_references = owner.map(|owner| vec![owner]);
    pods.create(&PostParams::default(), &pod).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_pod_on_a_node_has_a_grace_period_when_its_owner_or_namespace_is_deleted() {
    let (_server, client) = start();
    let api: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let owner = named(&api, "owner").await;
    running_pod(&pods, owner.owner_ref(&())).await;
    api.delete("owner", &DeleteParams::default()).await.unwrap();
    assert_eq!(names(&api).await, "");
    let pod = pods.get("p").await.unwrap().metadata;
    assert!(pod.deletion_timestamp.is_some());
    assert_eq!(pod.deletion_grace_period_seconds, Some(30));
    // Like the kubelet once the containers have ended.
    pods.delete("p", &DeleteParams::default().grace_period(0)).await.unwrap();
    assert!(pods.get_opt("p").await.unwrap().is_none());

    let namespaces: Api<Namespace> = Api::all(client.clone());
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some("team".to_owned());
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(client.clone(), "team");
    running_pod(&pods, None).await;
    namespaces.delete("team", &DeleteParams::default()).await.unwrap();
    names(&api).await;
    assert_eq!(pods.get("p").await.unwrap().metadata.deletion_grace_period_seconds, Some(30));
    let conditions = namespaces.get("team").await.unwrap().status.unwrap().conditions.unwrap();
    let remaining =
        conditions.iter().find(|condition| condition.type_ == "NamespaceContentRemaining").unwrap();
    assert_eq!(
        remaining.message.as_deref(),
        Some("Some resources are remaining: pods. has 1 resource instances")
    );
    pods.delete("p", &DeleteParams::default().grace_period(0)).await.unwrap();
    names(&api).await;
    assert!(namespaces.get_opt("team").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn deleted_volumes_and_claims_are_removed_when_they_are_not_in_use() {
    let (_server, client) = start();
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(client.clone());
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let claim = |name: &str| {
        serde_json::from_value(json!({"metadata": {"name": name}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
        }}))
        .unwrap()
    };
    let volume = serde_json::from_value(json!({"metadata": {"name": "v"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/v"},
    }}))
    .unwrap();
    let pod = serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": {
        "nodeName": "n", "containers": [{"name": "c", "image": "i"}],
        "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "used"}}],
    }}))
    .unwrap();
    volumes.create(&PostParams::default(), &volume).await.unwrap();
    for name in ["used", "free"] {
        claims.create(&PostParams::default(), &claim(name)).await.unwrap();
    }
    pods.create(&PostParams::default(), &pod).await.unwrap();
    volumes.delete("v", &DeleteParams::default()).await.unwrap();
    for name in ["used", "free"] {
        claims.delete(name, &DeleteParams::default()).await.unwrap();
    }
    names(&maps).await;
    assert!(volumes.get_opt("v").await.unwrap().is_none());
    assert!(claims.get_opt("free").await.unwrap().is_none());
    assert!(claims.get("used").await.unwrap().metadata.deletion_timestamp.is_some());
    pods.delete("p", &DeleteParams::default().grace_period(0)).await.unwrap();
    names(&maps).await;
    assert!(claims.get_opt("used").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_pod_deleted_in_the_foreground_gets_its_grace_period_after_its_dependents() {
    let (_server, client) = start();
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let pods: Api<Pod> = Api::default_namespaced(client);
    running_pod(&pods, None).await;
    let reference = OwnerReference {
        block_owner_deletion: Some(true),
        ..pods.get("p").await.unwrap().owner_ref(&()).unwrap()
    };
    let mut dependent = ConfigMap::default();
    dependent.metadata.name = Some("dependent".to_owned());
    dependent.metadata.owner_references = Some(vec![reference]);
    create(&maps, &dependent).await;
    let foreground =
        DeleteParams { propagation_policy: Some(PropagationPolicy::Foreground), ..DeleteParams::default() };
    pods.delete("p", &foreground).await.unwrap();
    assert_eq!(names(&maps).await, "");
    let pod = pods.get("p").await.unwrap().metadata;
    assert_eq!((pod.finalizers, pod.deletion_grace_period_seconds), (None, Some(30)));
}

#[tokio::test(start_paused = true)]
async fn a_namespace_without_finalizers_is_removed_by_the_second_delete() {
    for profile in [Profile::Envtest, Profile::Dev] {
        let server = ApiServer::start(Options::default().profile(profile));
        let client = Client::new(server.service(), "default");
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some("team".to_owned());
        namespace = namespaces.create(&PostParams::default(), &namespace).await.unwrap();
        namespace.spec = None;
        let finalize = namespaces
            .replace_subresource("finalize", "team", &PostParams::default(), &namespace)
            .await
            .unwrap();
        assert!(finalize.spec.unwrap_or_default().finalizers.is_none());
        namespaces.delete("team", &DeleteParams::default()).await.unwrap();
        names(&Api::default_namespaced(client)).await;
        let left = namespaces.get("team").await.unwrap();
        assert_eq!(left.status.unwrap().phase.as_deref(), Some("Terminating"), "{profile:?}");
        namespaces.delete("team", &DeleteParams::default()).await.unwrap();
        assert!(namespaces.get_opt("team").await.unwrap().is_none(), "{profile:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn controllers_end_with_the_last_handle() {
    let before = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let (server, client) = start();
    let api: Api<ConfigMap> = Api::default_namespaced(client.clone());
    named(&api, "a").await;
    drop(server);
    // The client still works: its service is a handle too.
    assert_eq!(names(&api).await, "a");
    drop((api, client));
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), before);
}
