//! What a kube-apiserver 1.36.3 answered where no recording holds it, as far as clients rely on it.

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use kube_apiserver_embedded::{ApiServer, ApiService, Options, UserInfo};
use serde_json::{Value, json};
use tower_service::Service;

const NAMESPACE: &str = "/api/v1/namespaces/default";
const TABLE: (&str, &str) = ("accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
const JSON: (&str, &str) = ("content-type", "application/json");

struct Answer {
    code: u16,
    headers: HeaderMap,
    body: Bytes,
}

impl Answer {
    fn value(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    fn message(&self) -> String {
        self.value()["message"].as_str().unwrap_or_default().to_owned()
    }

    fn warnings(&self) -> Vec<String> {
        let all = self.headers.get_all("warning").iter().map(|line| line.to_str().unwrap());
        let text = |line: &str| line.strip_prefix("299 - \"")?.strip_suffix('"').map(str::to_owned);
        all.map(|line| text(line).unwrap().replace("\\\"", "\"").replace(r"\\", r"\")).collect()
    }
}

async fn send(
    service: &ApiService,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(Bytes::copy_from_slice(body.as_bytes()))).unwrap();
    let response = service.clone().call(request).await.unwrap();
    let (head, body) = response.into_parts();
    Answer {
        code: head.status.as_u16(),
        headers: head.headers,
        body: body.collect().await.unwrap().to_bytes(),
    }
}

async fn get(service: &ApiService, path: &str) -> Answer {
    send(service, "GET", path, &[], "").await
}

async fn post(service: &ApiService, path: &str, body: &Value) -> Answer {
    send(service, "POST", path, &[JSON], &body.to_string()).await
}

fn pod(name: &str, node: Option<&str>, containers: &[&str]) -> Value {
    let containers: Vec<Value> = containers.iter().map(|name| json!({"name": name, "image": "i"})).collect();
    let mut pod = json!({"metadata": {"name": name}, "spec": {"containers": containers}});
    if let Some(node) = node {
        pod["spec"]["nodeName"] = json!(node);
    }
    pod
}

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

#[tokio::test]
async fn a_configuration_without_a_name_is_applied_to_the_object_of_the_url() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    let maps = format!("{NAMESPACE}/configmaps");
    post(&service, &maps, &json!({"metadata": {"name": "a"}, "data": {"k": "1"}})).await;
    let apply = async |name: &str, metadata: Value, data: Value| {
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
        let headers = [("content-type", "application/apply-patch+yaml")];
        let path = format!("{maps}/{name}?fieldManager=m");
        send(&service, "PATCH", &path, &headers, &body.to_string()).await
    };
    let other = json!({"x": "2"});
    let conflict = json!({"k": "2"});
    assert_eq!(apply("a", json!({}), other.clone()).await.code, 200);
    assert_eq!(apply("a", Value::Null, other.clone()).await.code, 200);
    for (name, metadata, data, code, message) in [
        (
            "a",
            json!({"name": "b"}),
            &other,
            400,
            "the name of the object (b) does not match the name on the URL (a)",
        ),
        ("a", json!({"name": "b"}), &conflict, 409, "Apply failed with 1 conflict"),
        (
            "a",
            json!({"namespace": "kube-system"}),
            &other,
            400,
            "the namespace of the provided object does not match",
        ),
        ("a", json!({"namespace": "kube-system"}), &conflict, 409, "Apply failed with 1 conflict"),
        (
            "none",
            json!({}),
            &other,
            400,
            "the name of the object (none based on URL) was undeterminable: name must be provided",
        ),
    ] {
        let answer = apply(name, metadata.clone(), data.clone()).await;
        assert_eq!(answer.code, code, "{name} {metadata}");
        assert!(answer.message().starts_with(message), "{}", answer.message());
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
async fn a_pod_without_a_node_has_an_empty_log() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    let pods = format!("{NAMESPACE}/pods");
    for (name, node, containers) in
        [("one", None, &["c"][..]), ("two", None, &["c", "d"]), ("placed", Some("n"), &["c"])]
    {
        assert_eq!(post(&service, &pods, &pod(name, node, containers)).await.code, 201);
    }
    for (path, code, message) in [
        ("one/log", 204, ""),
        ("two/log?container=c", 204, ""),
        ("two/log", 400, "a container name must be specified for pod two, choose one of: [c d]"),
        ("two/log?container=z", 400, "container z is not valid for pod two"),
        ("none/log", 404, "pods \"none\" not found"),
        ("placed/log", 404, "pods \"n\" not found"),
    ] {
        let answer = get(&service, &format!("{pods}/{path}")).await;
        assert_eq!(answer.code, code, "{path}");
        if message.is_empty() {
            assert!(answer.body.is_empty());
        } else {
            assert_eq!(answer.message(), message);
        }
    }
}

/// The answers of kube-apiserver where it has no target to connect to.
#[tokio::test]
async fn connections_fail_where_there_is_nothing_to_connect_to() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    let pods = format!("{NAMESPACE}/pods");
    for (name, node, containers) in [
        ("one", None, &["c"][..]),
        ("two", None, &["c", "d"]),
        ("lost", Some("gone"), &["c"]),
        ("placed", Some("bare"), &["c"]),
    ] {
        assert_eq!(post(&service, &pods, &pod(name, node, containers)).await.code, 201);
    }
    assert_eq!(post(&service, "/api/v1/nodes", &json!({"metadata": {"name": "bare"}})).await.code, 201);
    let a = json!({"metadata": {"name": "a"}, "spec": {"ports": [{"name": "web", "port": 80}]}});
    assert_eq!(post(&service, &format!("{NAMESPACE}/services"), &a).await.code, 201);
    let missing = "the server could not find the requested resource";
    for (method, path, code, message) in [
        ("POST", "pods/one/exec?command=ls", 400, "pod one does not have a host assigned"),
        ("GET", "pods/one/attach", 400, "pod one does not have a host assigned"),
        ("GET", "pods/one/portforward?ports=80", 400, "pod one does not have a host assigned"),
        (
            "POST",
            "pods/two/exec?command=ls",
            400,
            "a container name must be specified for pod two, choose one of: [c d]",
        ),
        ("POST", "pods/two/exec?container=z", 400, "container z is not valid for pod two"),
        ("POST", "pods/none/exec", 404, "pods \"none\" not found"),
        ("POST", "pods/lost/exec", 404, "pods \"gone\" not found"),
        ("POST", "pods/placed/exec", 500, "no preferred addresses found; known addresses: []"),
        ("POST", "pods/one/exec?dryRun=All", 400, "dryRun is not supported"),
        (
            "GET",
            "pods/one/portforward?ports=80,x",
            400,
            "cannot convert to []int32: strconv.ParseUint: parsing \"x\": invalid syntax",
        ),
        (
            "GET",
            "pods/one/portforward?ports=65536",
            400,
            "cannot convert to []int32: strconv.ParseUint: parsing \"65536\": value out of range",
        ),
        ("PUT", "pods/one/exec", 405, "the server does not allow this method on the requested resource"),
        ("GET", "pods/one/exec/below", 404, missing),
        ("GET", "pods/one/proxy/any//path/?q=1", 400, "address not allowed"),
        ("GET", "pods/a:b:c/proxy", 400, "invalid pod request \"a:b:c\""),
        ("DELETE", "services/a/proxy/path", 404, "services \"a\" not found"),
        ("GET", "services/a:81/proxy", 503, "no service port 81 found for service \"a\""),
        ("GET", "services/https:b:web/proxy", 404, "services \"b\" not found"),
    ] {
        let answer = send(&service, method, &format!("{NAMESPACE}/{path}"), &[], "").await;
        assert_eq!((answer.code, answer.message().as_str()), (code, message), "{method} {path}");
    }
    let node = get(&service, "/api/v1/nodes/none/proxy/metrics").await;
    assert_eq!((node.code, node.message().as_str()), (404, "nodes \"none\" not found"));
    let endpoints = json!({"metadata": {"name": "a"}});
    assert_eq!(post(&service, &format!("{NAMESPACE}/endpoints"), &endpoints).await.code, 201);
    let answer = get(&service, &format!("{NAMESPACE}/services/a:80/proxy")).await;
    let message = "no endpoints available for service \"a\"";
    assert_eq!((answer.code, answer.message().as_str()), (503, message));
}

/// By the rules of v1.36.3: the GET of a WebSocket opens the same stream as a POST.
#[tokio::test]
async fn a_stream_to_a_pod_needs_permission_to_create_it() {
    const GROUP: &str = "rbac.authorization.k8s.io";
    let server = ApiServer::start(Options::default());
    let service = server.service();
    assert_eq!(post(&service, &format!("{NAMESPACE}/pods"), &pod("p", None, &["c"])).await.code, 201);
    let resources = ["pods/exec", "pods/attach", "pods/portforward", "pods/proxy"];
    for (user, verbs) in [("reader", &["get"][..]), ("writer", &["create"]), ("both", &["get", "create"])] {
        let rule = json!({"verbs": verbs, "apiGroups": [""], "resources": resources});
        let role = json!({"metadata": {"name": user}, "rules": [rule]});
        let binding = json!({
            "metadata": {"name": user}, "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": user},
            "subjects": [{"kind": "User", "apiGroup": GROUP, "name": user}],
        });
        for (plural, object) in [("roles", role), ("rolebindings", binding)] {
            let path = format!("/apis/{GROUP}/v1/namespaces/default/{plural}");
            assert_eq!(post(&service, &path, &object).await.code, 201);
        }
    }
    let no_host = "pod p does not have a host assigned";
    let no_reason = "pods \"p\" is forbidden: ";
    let cannot_create = "pods \"p\" is forbidden: User \"reader\" cannot create resource \"pods/exec\" in API group \"\" in \
                         the namespace \"default\"";
    for (user, method, subresource, code, message) in [
        ("reader", "GET", "exec", 403, no_reason),
        ("reader", "GET", "attach", 403, no_reason),
        ("reader", "GET", "portforward", 403, no_reason),
        ("reader", "GET", "proxy", 400, "address not allowed"),
        ("reader", "POST", "exec", 403, cannot_create),
        ("writer", "POST", "exec", 400, no_host),
        ("both", "GET", "exec", 400, no_host),
    ] {
        let service = server.service_for(UserInfo::new(user, "", [""; 0]));
        let answer = send(&service, method, &format!("{NAMESPACE}/pods/p/{subresource}"), &[], "").await;
        let told = (answer.code, answer.message());
        assert_eq!((told.0, told.1.as_str()), (code, message), "{user} {method} {subresource}");
    }
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
async fn strict_decoding_complains_in_the_order_of_the_document() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let body = r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"s","name":"s","unk":1},"spec":{
        "unk1":"x","replicas":1,"unk1":"y","paused":true,"paused":false,"selector":{"matchLabels":{"a":"b"}},
        "template":{"metadata":{"labels":{"a":"b","a":"b"}},"spec":{"zz":1,"zz":2,
        "containers":[{"name":"c","name":"c","image":"i","foo":1}]}}}}"#;
    let expected = [
        r#"duplicate field "metadata.name""#,
        r#"unknown field "metadata.unk""#,
        r#"unknown field "spec.unk1""#,
        r#"duplicate field "spec.paused""#,
        r#"duplicate field "spec.template.metadata.labels.a""#,
        r#"unknown field "spec.template.spec.zz""#,
        r#"duplicate field "spec.template.spec.containers[0].name""#,
        r#"unknown field "spec.template.spec.containers[0].foo""#,
    ];
    let path = format!("{deployments}?fieldValidation=Strict");
    let strict = send(&service, "POST", &path, &[JSON], body).await;
    let why = format!(
        "Deployment in version \"v1\" cannot be handled as a Deployment: strict decoding error: {}",
        expected.join(", ")
    );
    assert_eq!((strict.code, strict.message()), (400, why));
    let path = format!("{deployments}?fieldValidation=Warn&dryRun=All");
    assert_eq!(send(&service, "POST", &path, &[JSON], body).await.warnings(), expected);
}

#[tokio::test]
async fn the_metadata_of_custom_kinds_is_explained() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    let definition = json!({
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object"}},
            }}}],
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(post(&service, definitions, &definition).await.code, 201);
    let document = get(&service, "/openapi/v3/apis/example.com/v1").await.value();
    let meta = &document["components"]["schemas"]["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"];
    let about = "ObjectMeta is metadata that all persisted resources must have, which includes all objects users must \
                 create.";
    assert_eq!(meta["description"], about);
    let generation = "A sequence number representing a specific generation of the desired state. Populated by the \
                      system. Read-only.";
    assert_eq!(meta["properties"]["generation"]["description"], generation);
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

/// These warnings are this server's own: a kube-apiserver acts on such objects.
#[tokio::test]
async fn the_creation_of_an_object_without_effect_has_a_warning() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    let policy = json!({"metadata": {"name": "p"}, "spec": {}});
    let policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    let warning = "kube-apiserver-embedded: this ValidatingAdmissionPolicy has no effect: no admission policy is evaluated";
    let created = post(&service, policies, &policy).await;
    assert_eq!((created.code, created.warnings()), (201, vec![warning.to_owned()]));
    let label = r#"{"metadata":{"labels":{"a":"b"}}}"#;
    let headers = [("content-type", "application/merge-patch+json")];
    let changed = send(&service, "PATCH", &format!("{policies}/p"), &headers, label).await;
    assert_eq!((changed.code, changed.warnings()), (200, Vec::<String>::new()));

    let schema = json!({"type": "object", "properties": {
        "text": {"type": "string", "pattern": r"^(\pL{50}){20}$"}, "name": {"type": "string", "pattern": "^[a-z]+$"},
    }});
    let definition = json!({
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let created = post(&service, definitions, &definition).await;
    let pattern = r#"spec.versions[0].schema.openAPIV3Schema: the pattern "^(\\pL{50}){20}$" is too large for this server, which does not check it"#;
    assert_eq!((created.code, created.warnings()), (201, vec![pattern.to_owned()]));
    let things = "/apis/example.com/v1/namespaces/default/things";
    for (name, text, code) in [("a", "abc", 201), ("B", "abc", 422)] {
        let thing = json!({
            "apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"generateName": "t"},
            "name": name, "text": text,
        });
        assert_eq!(
            post(&service, things, &thing).await.code,
            code,
            "what is small enough is checked: {name}"
        );
    }
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Defines a kind with versions and their schemas, the first of which is stored.
async fn define(service: &ApiService, plural: &str, kind: &str, scope: &str, versions: &[(&str, Value)]) {
    let versions: Vec<Value> = versions
        .iter()
        .enumerate()
        .map(|(index, (name, properties))| {
            json!({
                "name": name, "served": true, "storage": index == 0, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
            })
        })
        .collect();
    let definition = json!({
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com", "scope": scope, "names": {"plural": plural, "kind": kind}, "versions": versions,
        },
    });
    let answer = post(service, DEFINITIONS, &definition).await;
    assert_eq!(answer.code, 201, "{}", answer.message());
}

async fn patch(service: &ApiService, path: &str, body: &str) -> Answer {
    send(service, "PATCH", path, &[("content-type", "application/merge-patch+json")], body).await
}

#[tokio::test]
async fn fields_that_the_storage_version_lacks_are_lost_at_once() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    let fields = |own: &str| {
        let default = format!("d{own}");
        json!({"spec": {"type": "object", "properties": {
            own: {"type": "string"}, "both": {"type": "string"}, default: {"type": "string", "default": own},
        }}})
    };
    define(&service, "multis", "Multi", "Namespaced", &[("v1", fields("a")), ("v2", fields("b"))]).await;
    let path = |version: &str| format!("/apis/example.com/{version}/namespaces/default/multis");
    let object = |spec: Value| json!({"apiVersion": "example.com/v2", "kind": "Multi", "metadata": {"name": "m"}, "spec": spec});
    let created = post(&service, &path("v2"), &object(json!({"b": "x", "both": "y"}))).await.value();
    assert_eq!(created["spec"], json!({"both": "y"}));
    assert!(created["metadata"]["managedFields"].to_string().contains("f:b"), "it is owned all the same");
    let spec =
        async |version: &str| get(&service, &format!("{}/m", path(version))).await.value()["spec"].clone();
    assert_eq!(spec("v1").await, json!({"both": "y", "da": "a"}));
    assert_eq!(spec("v2").await, json!({"both": "y"}));
    let changed = patch(&service, &format!("{}/m", path("v1")), r#"{"spec":{"a":"z"}}"#).await.value();
    assert_eq!(changed["spec"], json!({"a": "z", "both": "y", "da": "a"}));
    assert_eq!(spec("v2").await, json!({"both": "y"}));
}

#[tokio::test]
async fn an_embedded_object_must_have_its_type() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    let embedded = json!({
        "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
    });
    define(&service, "shells", "Shell", "Cluster", &[("v1", json!({"e": embedded}))]).await;
    for (embedded, wrong) in [
        (json!({}), "[e.apiVersion: Required value, e.kind: Required value]"),
        (json!({"apiVersion": "v1"}), "e.kind: Required value"),
        (json!({"apiVersion": "v1", "kind": "Pod"}), ""),
        (json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "A_b"}}), ""),
        (json!({"apiVersion": "", "kind": "pod"}), "e.apiVersion: Invalid value: \"\": must not be empty"),
        (
            json!({"apiVersion": "a/b/c", "kind": "Pod"}),
            "e.apiVersion: Invalid value: \"a/b/c\": unexpected GroupVersion string: a/b/c",
        ),
        (
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a b": "c"}}}),
            "e.metadata.labels: Invalid value: \"a b\": name part must consist of",
        ),
    ] {
        let shell = json!({
            "apiVersion": "example.com/v1", "kind": "Shell", "metadata": {"generateName": "s"}, "e": embedded,
        });
        let answer = post(&service, "/apis/example.com/v1/shells", &shell).await;
        assert_eq!(answer.code, if wrong.is_empty() { 201 } else { 422 }, "{embedded}");
        assert!(answer.message().contains(wrong), "{}", answer.message());
    }
}

#[tokio::test]
async fn a_write_of_the_status_of_a_builtin_kind_may_write_its_metadata() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    let template = json!({
        "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    let deployment = json!({"metadata": {"name": "x"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}});
    let apps = "/apis/apps/v1/namespaces/default";
    for (path, object) in [
        (format!("{NAMESPACE}/pods"), pod("x", None, &["c"])),
        (
            format!("{NAMESPACE}/services"),
            json!({"metadata": {"name": "x"}, "spec": {"ports": [{"port": 80}]}}),
        ),
        (format!("{apps}/deployments"), deployment.clone()),
        (format!("{apps}/replicasets"), deployment),
        ("/api/v1/nodes".to_owned(), json!({"metadata": {"name": "x"}, "spec": {"providerID": "p"}})),
    ] {
        assert_eq!(post(&service, &path, &object).await.code, 201, "{path}");
        let body = r#"{"metadata":{"labels":{"l":"1"},"annotations":{"n":"1"},"finalizers":["x.y/z"],
            "ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"q","uid":"u"}]}}"#;
        let answer = patch(&service, &format!("{path}/x/status?fieldManager=m"), body).await;
        assert_eq!(answer.code, 200, "{path}: {}", answer.message());
        let metadata = &answer.value()["metadata"];
        let entries = metadata["managedFields"].as_array().unwrap();
        let owned =
            &entries.iter().find(|entry| entry["subresource"] == "status").unwrap()["fieldsV1"]["f:metadata"];
        for (field, key, kept) in [
            ("labels", "f:labels", path.ends_with("deployments")),
            ("annotations", "f:annotations", false),
            ("finalizers", "f:finalizers", false),
            ("ownerReferences", "f:ownerReferences", path.ends_with("pods")),
        ] {
            assert_eq!(metadata.get(field).is_none(), kept, "{path} {field}");
            assert_eq!(owned.get(key).is_none(), kept, "{path} {field}");
        }
    }
}

#[tokio::test]
async fn small_things_are_as_observed() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    define(&service, "widgets", "Widget", "Namespaced", &[("v1", json!({"spec": {"type": "object"}}))]).await;
    define(&service, "clusters", "Cluster", "Cluster", &[("v1", json!({"spec": {"type": "object"}}))]).await;
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}});
    assert_eq!(post(&service, widgets, &widget).await.code, 201);
    // Requests that are not taken.
    let refused = patch(&service, widgets, "{}").await;
    assert_eq!((refused.code, refused.message().as_str()), (400, "name must be provided"));
    let refused = send(&service, "OPTIONS", widgets, &[], "").await;
    let why = " is not supported on resources of kind \"widgets.example.com\"";
    assert_eq!((refused.code, refused.message().as_str()), (405, why));
    let refused = patch(&service, &format!("{widgets}/w"), "null").await;
    assert_eq!((refused.code, refused.message().as_str()), (400, "Invalid JSON Patch"));
    let strategic = [("content-type", "application/strategic-merge-patch+json")];
    assert_eq!(send(&service, "PATCH", "/api/v1/namespaces/default", &strategic, "null").await.code, 200);
    let deep = format!("{{\"data\":{}", "[".repeat(20_000));
    let refused = send(&service, "POST", &format!("{NAMESPACE}/configmaps"), &[JSON], &deep).await;
    assert!(
        refused.message().contains("json parse error: invalid character '[' exceeded max depth ("),
        "{}",
        refused.message()
    );
    // Preconditions of definitions.
    for (precondition, why) in [
        (json!({"uid": "x"}), "Precondition failed: UID in precondition: x, UID in object meta: "),
        (
            json!({"resourceVersion": "1"}),
            "Precondition failed: ResourceVersion in precondition: 1, ResourceVersion in object meta: ",
        ),
    ] {
        let options = json!({ "preconditions": precondition }).to_string();
        let refused =
            send(&service, "DELETE", &format!("{DEFINITIONS}/widgets.example.com"), &[JSON], &options).await;
        let prefix = "Operation cannot be fulfilled on customresourcedefinitions.apiextensions.k8s.io \"widgets.example.com\": ";
        assert_eq!(refused.code, 409);
        assert!(refused.message().starts_with(&format!("{prefix}{why}")), "{}", refused.message());
    }
    // Selectors of cluster-scoped kinds.
    for (path, code) in [("/apis/example.com/v1/clusters", 400), ("/api/v1/nodes", 400), (DEFINITIONS, 200)] {
        let answer = get(&service, &format!("{path}?fieldSelector=metadata.namespace%3Dx")).await;
        assert_eq!(answer.code, code, "{path}");
    }
    // Generations of kinds that count none.
    let map = json!({"metadata": {"name": "g", "generation": 7}});
    assert_eq!(
        post(&service, &format!("{NAMESPACE}/configmaps"), &map).await.value()["metadata"]["generation"],
        7
    );
    let counted = json!({"metadata": {"name": "g", "generation": 7}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let pods = format!("{NAMESPACE}/pods");
    assert_eq!(post(&service, &pods, &counted).await.value()["metadata"]["generation"], 1);
    // A binding.
    let binding = json!({"metadata": {"name": "g"}, "target": {"kind": "Node", "name": "n"}});
    assert_eq!(post(&service, &format!("{pods}/g/binding"), &binding).await.code, 201);
    assert_eq!(get(&service, &format!("{pods}/g")).await.value()["metadata"]["generation"], 1);
    // Tables of an older version.
    let old = ("accept", "application/json;as=Table;v=v1beta1;g=meta.k8s.io");
    let table = send(&service, "GET", &pods, &[old], "").await.value();
    assert_eq!(table["rows"][0]["object"]["apiVersion"], "meta.k8s.io/v1beta1");
    // Finalizers of namespaces.
    post(&service, "/api/v1/namespaces", &json!({"metadata": {"name": "f"}})).await;
    let finalize =
        json!({"metadata": {"name": "f"}, "spec": {"finalizers": ["kubernetes", "nope"]}}).to_string();
    let refused = send(&service, "PUT", "/api/v1/namespaces/f/finalize", &[JSON], &finalize).await;
    let why = "spec.finalizers[1]: Invalid value: \"nope\": name is neither a standard finalizer name nor is it fully qualified";
    assert_eq!(refused.code, 422);
    assert!(refused.message().ends_with(why), "{}", refused.message());
    // Reviews.
    let review = json!({"spec": {"token": "t"}});
    let answer = post(&service, "/apis/authentication.k8s.io/v1/tokenreviews", &review).await.value();
    assert_eq!(answer["metadata"]["managedFields"][0]["fieldsV1"], json!({"f:spec": {"f:token": {}}}));
    let rules = json!({"spec": {"namespace": "default"}});
    let answer =
        post(&service, "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", &rules).await.value();
    assert_eq!((&answer["metadata"], &answer["spec"]), (&json!({}), &json!({})));
    // Events without times.
    let event = json!({
        "metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "namespace": "default"}, "reason": "R",
        "message": "m", "type": "Normal",
    });
    let answer = post(&service, &format!("{NAMESPACE}/events"), &event).await.value();
    let owned = json!({"f:involvedObject": {}, "f:message": {}, "f:reason": {}, "f:type": {}});
    assert_eq!(answer["metadata"]["managedFields"][0]["fieldsV1"], owned);
    // Services without an address.
    let headless = json!({"metadata": {"name": "h"}, "spec": {"clusterIP": "None", "ports": [{"port": 80}]}});
    let service_ = post(&service, &format!("{NAMESPACE}/services"), &headless).await.value();
    assert_eq!(service_["spec"]["ipFamilies"], json!(["IPv4", "IPv6"]));
    let owned = &service_["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"];
    let names: Vec<&String> = owned.as_object().unwrap().keys().collect();
    assert_eq!(names, ["f:clusterIP", "f:internalTrafficPolicy", "f:ports", "f:sessionAffinity", "f:type"]);
}

#[tokio::test]
async fn any_type_may_be_an_integer_or_a_string() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    for (n, kind) in ["integer", "string", "number", "object"].into_iter().enumerate() {
        let field = json!({"port": {"type": kind, "x-kubernetes-int-or-string": true}});
        define(&service, &format!("ports{n}"), &format!("Port{n}"), "Cluster", &[("v1", field)]).await;
    }
    let schema = json!({"type": "object", "properties": {
        "a": {"type": "string", "default": 1}, "b": {"type": "integer", "minimum": 3, "default": 1},
    }});
    let definition = json!({
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    let refused = post(&service, DEFINITIONS, &definition).await;
    assert_eq!(
        refused.message(),
        "CustomResourceDefinition.apiextensions.k8s.io \"things.example.com\" is invalid: \
         [spec.validation.openAPIV3Schema.properties[a].default: Invalid value: \"integer\":  in body must be of type string: \
         \"integer\", spec.validation.openAPIV3Schema.properties[b].default: Invalid value: 1:  in body should be greater \
         than or equal to 3]"
    );
}
