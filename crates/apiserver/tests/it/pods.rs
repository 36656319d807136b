//! Subresources of pods: binding, eviction, resizing, ephemeral containers.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, EvictParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::Status;
use kube::{Client, Error, ResourceExt};
use kube_apiserver_embedded::{ApiServer, Options};
use serde_json::{Value, json};

async fn pod(name: &str) -> (ApiServer, Client, Api<Pod>) {
    let server = ApiServer::start(Options::default());
    let client = Client::new(server.service(), "default");
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    (server, client, pods)
}

fn binding(name: &str, node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "annotations": {"why": "free"}},
        "target": {"kind": "Node", "name": node},
    })
}

async fn bind(pods: &Api<Pod>, name: &str, body: &Value) -> Result<Value, Box<Status>> {
    pods.create_subresource("binding", name, &PostParams::default(), body).await.map_err(status)
}

fn status(error: Error) -> Box<Status> {
    match error {
        Error::Api(status) => status,
        other => panic!("{other}"),
    }
}

#[tokio::test(start_paused = true)]
async fn pods_are_selected_by_their_node_under_its_old_name_too() {
    let (_server, _, pods) = pod("bound").await;
    bind(&pods, "bound", &binding("bound", "n1")).await.unwrap();
    let free = json!({"metadata": {"name": "free"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    pods.create(&PostParams::default(), &serde_json::from_value(free).unwrap()).await.unwrap();
    for (selector, expected) in [
        ("spec.nodeName=n1", "bound"),
        ("spec.host=n1", "bound"),
        ("spec.host!=n1", "free"),
        ("spec.host=,status.phase=Pending", "free"),
    ] {
        let found = pods.list(&ListParams::default().fields(selector)).await.unwrap();
        let names: Vec<String> = found.iter().map(ResourceExt::name_any).collect();
        assert_eq!(names, [expected], "{selector}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_bound_once_and_its_deletion_then_has_a_grace_period() {
    let (_server, _, pods) = pod("p").await;
    bind(&pods, "p", &binding("p", "n")).await.unwrap();
    let bound = pods.get("p").await.unwrap();
    assert_eq!(bound.spec.unwrap().node_name.as_deref(), Some("n"));
    assert_eq!(bound.metadata.annotations.unwrap()["why"], "free");
    let conditions = bound.status.unwrap().conditions.unwrap();
    assert_eq!((&*conditions[0].type_, &*conditions[0].status), ("PodScheduled", "True"));

    let again = bind(&pods, "p", &binding("p", "m")).await.unwrap_err();
    assert_eq!(again.code, 409);
    assert_eq!(
        again.message,
        "Operation cannot be fulfilled on pods/binding \"p\": pod p is already assigned to node \"n\""
    );
    pods.evict("p", &EvictParams::default()).await.unwrap();
    let evicted = pods.get("p").await.unwrap();
    assert_eq!(evicted.metadata.deletion_grace_period_seconds, Some(30));
    let conditions = evicted.status.unwrap().conditions.unwrap();
    let last = conditions.last().unwrap();
    assert_eq!((&*last.type_, &*last.status), ("DisruptionTarget", "True"));
    assert_eq!(last.reason.as_deref(), Some("EvictionByEvictionAPI"));
}

#[tokio::test(start_paused = true)]
async fn a_binding_names_its_pod_and_a_node() {
    let (_server, _, pods) = pod("p").await;
    let other = bind(&pods, "p", &binding("q", "n")).await.unwrap_err();
    assert_eq!((other.code, &*other.message), (400, "name in URL does not match name in Binding object"));
    let nowhere = bind(&pods, "p", &binding("p", "")).await.unwrap_err();
    assert_eq!((nowhere.code, &*nowhere.message), (500, "target.name: Required value"));
    assert_eq!(bind(&pods, "absent", &binding("absent", "n")).await.unwrap_err().code, 404);
}

#[tokio::test(start_paused = true)]
async fn bindings_are_taken_by_their_older_path_too() {
    let (_server, client, pods) = pod("p").await;
    let request = http::Request::post("/api/v1/namespaces/default/bindings")
        .body(binding("p", "n").to_string().into_bytes())
        .unwrap();
    let answer: Value = client.request(request).await.unwrap();
    assert_eq!(answer["status"], "Success");
    assert_eq!(pods.get("p").await.unwrap().spec.unwrap().node_name.as_deref(), Some("n"));
}

#[tokio::test(start_paused = true)]
async fn ephemeral_containers_are_added_by_their_own_path_alone() {
    let (_server, _, pods) = pod("p").await;
    let patch = Patch::Strategic(json!({"spec": {
        "nodeName": "elsewhere", "ephemeralContainers": [{"name": "debug", "image": "tools"}],
    }}));
    let refused = pods.patch("p", &PatchParams::default(), &patch).await.map_err(status).unwrap_err();
    assert_eq!(refused.code, 422);
    pods.patch_subresource("ephemeralcontainers", "p", &PatchParams::default(), &patch).await.unwrap();
    let spec = pods.get("p").await.unwrap().spec.unwrap();
    assert_eq!(spec.ephemeral_containers.unwrap()[0].image.as_deref(), Some("tools"));
    assert_eq!(spec.node_name, None);
}

#[tokio::test(start_paused = true)]
async fn an_eviction_in_a_dry_run_evicts_nothing() {
    let (_server, _, pods) = pod("p").await;
    let post_options = PostParams { dry_run: true, ..PostParams::default() };
    pods.evict("p", &EvictParams { post_options, ..EvictParams::default() }).await.unwrap();
    assert!(pods.get_opt("p").await.unwrap().is_some());
    pods.evict("p", &EvictParams::default()).await.unwrap();
    assert!(pods.get_opt("p").await.unwrap().is_none());
}

/// Observed with kube-apiserver v1.36.3.
#[tokio::test(start_paused = true)]
async fn an_eviction_with_invalid_options_leaves_its_condition() {
    let (_server, client, pods) = pod("p").await;
    let eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"},
        "deleteOptions": {"propagationPolicy": "Bad"},
    });
    let request = http::Request::post("/api/v1/namespaces/default/pods/p/eviction")
        .body(eviction.to_string().into_bytes())
        .unwrap();
    let refused = client.request::<Value>(request).await.map_err(status).unwrap_err();
    assert_eq!(refused.code, 422, "{refused:?}");
    let conditions = pods.get("p").await.unwrap().status.unwrap().conditions.unwrap();
    assert_eq!(conditions.last().unwrap().type_, "DisruptionTarget");
}
