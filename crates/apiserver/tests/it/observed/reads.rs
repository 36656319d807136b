//! Lists, watches and tables.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_watch_of_any_state_with_bookmarks_marks_the_end_of_the_initial_events() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    for (version, marked) in [("resourceVersion=0", true), ("", true), ("resourceVersion=1", false)] {
        let path = format!("{NAMESPACE}/secrets?watch=1&allowWatchBookmarks=true&timeoutSeconds=1&{version}");
        let text = String::from_utf8(get(&service, &path).await.body.to_vec()).unwrap();
        assert_eq!(text.contains("initial-events-end"), marked, "{version}: {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_table_of_a_scale_has_the_columns_of_scales() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    let deployment = json!({"metadata": {"name": "d"}, "spec": {
        "replicas": 2, "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    }});
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    post(&service, deployments, &deployment).await;
    let table = send(&service, "GET", &format!("{deployments}/d/scale"), &[TABLE], "").await.value();
    let columns: Vec<&str> = table["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert_eq!(columns, ["Name", "Desired", "Available", "Age"]);
    assert_eq!(table["rows"][0]["cells"], json!(["d", 2, 0, "0s"]));
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
}

#[tokio::test(start_paused = true)]
async fn only_the_first_event_of_a_watch_of_tables_has_column_definitions() {
    let server = ApiServer::start(Options::default());
    let path = "/api/v1/namespaces?watch=1&resourceVersion=0&timeoutSeconds=1";
    let body = send(&server.service(), "GET", path, &[TABLE], "").await.body;
    let events = serde_json::Deserializer::from_slice(&body).into_iter::<Value>();
    let has_definitions: Vec<bool> =
        events.map(|event| event.unwrap()["object"]["columnDefinitions"].is_array()).collect();
    assert!(has_definitions.len() > 1, "a new cluster has several namespaces");
    assert!(has_definitions[0]);
    assert!(!has_definitions[1..].contains(&true), "{has_definitions:?}");
}

#[tokio::test]
async fn component_statuses_are_computed_and_not_stored() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    let path = "/api/v1/componentstatuses";
    let list = get(&service, path).await.value();
    assert_eq!((&list["kind"], &list["metadata"]), (&json!("ComponentStatusList"), &json!({})));
    let healthy = json!({
        "metadata": {"name": "etcd-0"}, "conditions": [{"type": "Healthy", "status": "True", "message": "ok"}],
    });
    assert_eq!(list["items"].as_array().unwrap().len(), 3);
    assert_eq!(list["items"][2], healthy);
    let one = get(&service, &format!("{path}/etcd-0")).await.value();
    assert_eq!((&one["kind"], &one["conditions"]), (&json!("ComponentStatus"), &healthy["conditions"]));
    let none = get(&service, &format!("{path}/nope")).await;
    assert_eq!((none.code, none.message()), (404, "componentstatus \"nope\" not found".to_owned()));
    let selected = get(&service, &format!("{path}?fieldSelector=metadata.name%3Detcd-0")).await.value();
    assert_eq!(selected["items"], json!([healthy]));
    assert_eq!(get(&service, &format!("{path}?labelSelector=a")).await.value()["items"], json!([]));
    let table = send(&service, "GET", path, &[TABLE], "").await.value();
    assert_eq!(table["rows"][2]["cells"], json!(["etcd-0", "Healthy", "ok", ""]));
}

#[tokio::test]
async fn the_start_of_legacy_token_tracking_is_published() {
    let server = ApiServer::start(Options::default());
    let _listener = server.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let service = server.service();
    let path =
        "/api/v1/namespaces/kube-system/configmaps/kube-apiserver-legacy-service-account-token-tracking";
    let map = get(&service, path).await.value();
    let created = map["metadata"]["creationTimestamp"].as_str().unwrap();
    assert_eq!(map["data"], json!({"since": &created[..10]}));
}

#[tokio::test]
async fn reviews_have_no_table() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    post(&service, &format!("{NAMESPACE}/pods"), &pod("p", None, &["c"])).await;
    let only = "only the following media types are accepted: application/json, application/yaml, \
                application/vnd.kubernetes.protobuf";
    let review = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}).to_string();
    let own = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    for path in [
        own,
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        "/apis/authentication.k8s.io/v1/tokenreviews",
        "/api/v1/namespaces/default/serviceaccounts/default/token",
        "/api/v1/namespaces/default/pods/p/eviction",
        "/api/v1/namespaces/default/pods/p/binding",
    ] {
        let answer = send(&service, "POST", path, &[JSON, TABLE], &review).await;
        assert_eq!((answer.code, answer.message().as_str()), (406, only), "{path}");
    }
    let either = ("accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json");
    let answer = send(&service, "POST", own, &[JSON, either], &review).await;
    assert_eq!((answer.code, answer.value()["kind"].clone()), (201, json!("SelfSubjectAccessReview")));
    let metadata = ("accept", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io");
    let answer = send(&service, "POST", own, &[JSON, metadata], &review).await;
    assert_eq!((answer.code, answer.value()["kind"].clone()), (201, json!("PartialObjectMetadata")));
}

#[tokio::test]
async fn a_list_that_continues_after_its_state_expired_has_the_remaining_count() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    let maps = format!("{NAMESPACE}/secrets");
    for n in 0..40 {
        post(&service, &maps, &json!({"metadata": {"name": format!("s{n:02}")}})).await;
    }
    let first = get(&service, &format!("{maps}?limit=4")).await.value();
    assert_eq!(first["metadata"]["remainingItemCount"], 36);
    let token = first["metadata"]["continue"].as_str().unwrap();
    post(&service, &maps, &json!({"metadata": {"name": "t"}})).await;
    server.faults().compact();
    let expired = get(&service, &format!("{maps}?limit=4&continue={token}")).await;
    assert_eq!(expired.code, 410);
    let token = expired.value()["metadata"]["continue"].as_str().unwrap().to_owned();
    let second = get(&service, &format!("{maps}?limit=4&continue={token}")).await.value();
    assert_eq!(second["metadata"]["remainingItemCount"], 33, "one more than there were");
    assert_eq!(second["items"][0]["metadata"]["name"], "s04");
}

#[tokio::test]
async fn cluster_scoped_kinds_refuse_a_selector_by_namespace_but_definitions_do_not() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    define(&service, "clusters", "Cluster", "Cluster", &[("v1", json!({"spec": {"type": "object"}}))]).await;
    for (path, code) in [("/apis/example.com/v1/clusters", 400), ("/api/v1/nodes", 400), (DEFINITIONS, 200)] {
        let answer = get(&service, &format!("{path}?fieldSelector=metadata.namespace%3Dx")).await;
        assert_eq!(answer.code, code, "{path}");
    }
}

#[tokio::test]
async fn a_table_of_an_older_version_contains_objects_of_that_version() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    let pods = format!("{NAMESPACE}/pods");
    assert_eq!(post(&service, &pods, &pod("g", None, &["c"])).await.code, 201);
    let old = ("accept", "application/json;as=Table;v=v1beta1;g=meta.k8s.io");
    let table = send(&service, "GET", &pods, &[old], "").await.value();
    assert_eq!(table["rows"][0]["object"]["apiVersion"], "meta.k8s.io/v1beta1");
}

#[tokio::test(start_paused = true)]
async fn the_bookmark_before_the_deadline_repeats_the_revision_of_the_last_event() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    let path = format!("{NAMESPACE}/configmaps");
    let start = get(&service, &path).await.value()["metadata"]["resourceVersion"].clone();
    let watch = format!(
        "{path}?watch=1&allowWatchBookmarks=true&timeoutSeconds=5&resourceVersion={}",
        start.as_str().unwrap()
    );
    let (watched, _) = tokio::join!(get(&service, &watch), async {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        post(&service, &path, &json!({"metadata": {"name": "a"}})).await
    });
    let events: Vec<Value> =
        serde_json::Deserializer::from_slice(&watched.body).into_iter().collect::<Result<_, _>>().unwrap();
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["ADDED", "BOOKMARK"]);
    let revision = |event: &Value| event["object"]["metadata"]["resourceVersion"].clone();
    assert_eq!(revision(&events[0]), revision(&events[1]));
}

#[tokio::test(start_paused = true)]
async fn watches_end_without_an_event_that_cannot_be_shown_and_after_a_negative_timeout() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    let lists = ("accept", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io");
    for (path, headers) in [
        ("/api/v1/namespaces?watch=1&timeoutSeconds=1", &[lists][..]),
        ("/api/v1/namespaces?watch=1&timeoutSeconds=-1", &[]),
    ] {
        let ended = send(&service, "GET", path, headers, "").await;
        assert_eq!((ended.code, ended.body.len()), (200, 0), "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_continue_token_is_decoded_before_the_version_is_read() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    let refused = get(&service, &format!("{NAMESPACE}/configmaps?continue=x&resourceVersion=y")).await;
    let why = "invalid continue token: continue key is not valid: illegal base64 data at input byte 0";
    assert_eq!((refused.code, refused.message().as_str()), (400, why));
}
