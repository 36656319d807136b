use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::ready;
use http::Method;
use http_body_util::{BodyExt, Full};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::{Duration, Instant};
use tower_service::Service;

use super::*;
use crate::ApiServer;
use crate::Options;
use crate::UserInfo;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A plugin that records its calls, changes labels, and refuses objects with a certain label.
#[derive(Clone, Default)]
struct Witness(Arc<Mutex<Vec<String>>>);

impl Witness {
    fn note(&self, stage: &str, request: &Attributes<'_>, object: Option<&Value>) {
        let labels = object.map_or("-".to_owned(), |object| object["metadata"]["labels"].to_string());
        let uid = object.is_some_and(|object| object["metadata"].get("uid").is_some());
        let uid = if uid { ", uid" } else { "" };
        self.0.lock().push(format!("{stage} {:?} {labels}{uid}", request.operation));
    }
}

impl MutatingPlugin for Witness {
    fn mutate<'a>(&'a self, request: &'a Attributes<'a>, object: Option<&'a mut Value>) -> Verdict<'a> {
        self.note("mutate", request, object.as_deref());
        if let Some(object) = object
            && object["metadata"]["labels"].is_object()
        {
            object["metadata"]["labels"]["mutated"] = json!("yes");
        }
        request.warn("mind the label");
        ready(Ok(())).boxed()
    }
}

impl ValidatingPlugin for Witness {
    fn validate<'a>(&'a self, request: &'a Attributes<'a>, object: Option<&'a Value>) -> Verdict<'a> {
        self.note("validate", request, object);
        let refused = object.is_some_and(|object| object["metadata"]["labels"]["refuse"] == "yes");
        let verdict = if refused { Err(ApiError::bad_request("not so")) } else { Ok(()) };
        ready(verdict).boxed()
    }
}

/// A plugin that never completes.
#[derive(Clone)]
struct Silent;

impl MutatingPlugin for Silent {
    fn mutate<'a>(&'a self, _: &'a Attributes<'a>, _: Option<&'a mut Value>) -> Verdict<'a> {
        ready(Ok(())).boxed()
    }
}

impl ValidatingPlugin for Silent {
    fn validate<'a>(&'a self, _: &'a Attributes<'a>, _: Option<&'a Value>) -> Verdict<'a> {
        std::future::pending().boxed()
    }
}

/// Returns the code and the body of the response, and the number of warnings.
async fn send(server: &ApiServer, method: Method, path: &str, body: &Value) -> (u16, Value, usize) {
    let kind = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    let request = http::Request::builder().method(method).uri(path).header("content-type", kind);
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let response = server.service().call(request.body(Full::new(Bytes::from(body))).unwrap()).await.unwrap();
    let (head, body) = response.into_parts();
    let body = serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap();
    (head.status.as_u16(), body, head.headers.get_all("warning").iter().count())
}

fn map(name: &str, labels: &Value) -> Value {
    json!({"metadata": {"name": name, "labels": labels}})
}

#[tokio::test]
async fn a_write_goes_through_its_stages_in_order() {
    let witness = Witness::default();
    let admission = Admission::standard().with(witness.clone());
    let server = ApiServer::start_with(Options::default(), admission);
    let said = |expected: &[&str]| assert_eq!(std::mem::take(&mut *witness.0.lock()), expected);

    let (code, created, warnings) = send(&server, Method::POST, MAPS, &map("a", &json!({"k": "v"}))).await;
    assert_eq!((code, warnings), (201, 1));
    assert_eq!(created["metadata"]["labels"], json!({"k": "v", "mutated": "yes"}));
    let owned = created["metadata"]["managedFields"][0]["fieldsV1"].to_string();
    assert!(!owned.contains("f:mutated"), "fields that a plugin sets have no owner: {owned}");
    said(&[r#"mutate Create {"k":"v"}"#, r#"validate Create {"k":"v","mutated":"yes"}, uid"#]);

    // Validating plugins are not called for objects that fail validation.
    let (code, _, _) = send(&server, Method::POST, MAPS, &map("b", &json!({"k": "!"}))).await;
    assert_eq!(code, 422);
    said(&[r#"mutate Create {"k":"!"}"#]);
    let (code, _, warnings) = send(&server, Method::POST, MAPS, &map("b", &json!({"refuse": "yes"}))).await;
    assert_eq!((code, warnings), (400, 1), "a refused request has its warnings");
    let one = format!("{MAPS}/b");
    assert_eq!(send(&server, Method::GET, &one, &Value::Null).await.0, 404);
    witness.0.lock().clear();

    let one = format!("{MAPS}/a");
    let patch = json!({"metadata": {"labels": {"k": "w"}}});
    assert_eq!(send(&server, Method::PATCH, &one, &patch).await.0, 200);
    said(&[
        r#"mutate Update {"k":"w","mutated":"yes"}, uid"#,
        r#"validate Update {"k":"w","mutated":"yes"}, uid"#,
    ]);
    let patch = json!({"metadata": {"labels": {"refuse": "yes"}}});
    assert_eq!(send(&server, Method::PATCH, &one, &patch).await.0, 400);
    witness.0.lock().clear();
    assert_eq!(send(&server, Method::DELETE, &one, &Value::Null).await.0, 200);
    said(&["mutate Delete -", "validate Delete -"]);

    // After a plugin refuses, no other plugin is called.
    let elsewhere = "/api/v1/namespaces/nowhere/configmaps";
    assert_eq!(send(&server, Method::POST, elsewhere, &map("a", &Value::Null)).await.0, 404);
    said(&[]);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_waits_for_too_long_ends() {
    let server = ApiServer::start_with(Options::default(), Admission::standard().with(Silent));
    for (query, seconds, why) in [
        ("", 34, "within requested timeout - context deadline exceeded"),
        ("?timeout=5s", 5, "within the allotted timeout"),
    ] {
        let started = Instant::now();
        let (code, status, _) =
            send(&server, Method::POST, &format!("{MAPS}{query}"), &map("a", &Value::Null)).await;
        assert_eq!((code, started.elapsed()), (504, Duration::from_secs(seconds)));
        assert_eq!(status["message"], format!("Timeout: request did not complete {why}"));
    }
    assert_eq!(send(&server, Method::GET, &format!("{MAPS}/a"), &Value::Null).await.0, 404);
}

/// A plugin that records the attributes of requests to `namespaces/a`, to its contents, and of reviews.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<String>>>);

impl Recorder {
    fn note(&self, stage: &str, request: &Attributes<'_>, object: Option<&Value>) {
        let kind = &request.kind;
        let subresource = if request.subresource.is_empty() { "" } else { "/" };
        let show = |object: Option<&Value>| {
            let Some(object) = object else { return "-".to_owned() };
            let metadata = &object["metadata"];
            let given = ["uid", "managedFields", "deletionTimestamp"].into_iter();
            let given: Vec<&str> = given.filter(|field| metadata.get(*field).is_some()).collect();
            format!("{}[{}]", object["kind"].as_str().unwrap_or_default(), given.join(" "))
        };
        let options = request.options().map_or("-".to_owned(), |mut options| {
            let fields = options.as_object_mut().unwrap();
            assert_eq!(fields.remove("apiVersion"), Some(json!("meta.k8s.io/v1")));
            let kind = fields.remove("kind").unwrap();
            // The preconditions of a namespace contain its generated UID.
            fields.remove("preconditions");
            if fields.is_empty() { kind.as_str().unwrap().to_owned() } else { format!("{kind}{options}") }
        });
        self.0.lock().push(format!(
            "{stage} {:?} {}{subresource}{} {}/{} kind={}/{} {} old={} {options}",
            request.operation,
            request.served.resource.plural,
            request.subresource,
            request.namespace,
            request.name,
            kind.api_version(),
            kind.kind,
            show(object),
            show(request.old),
        ));
    }
}

impl MutatingPlugin for Recorder {
    fn mutate<'a>(&'a self, request: &'a Attributes<'a>, object: Option<&'a mut Value>) -> Verdict<'a> {
        self.note("mutate", request, object.as_deref());
        ready(Ok(())).boxed()
    }
}

impl ValidatingPlugin for Recorder {
    fn validate<'a>(&'a self, request: &'a Attributes<'a>, object: Option<&'a Value>) -> Verdict<'a> {
        self.note("validate", request, object);
        ready(Ok(())).boxed()
    }
}

/// The expectations are the attributes in recorded reviews of kube-apiserver.
#[tokio::test]
async fn plugins_get_the_object_of_the_request_and_its_options() {
    let recorder = Recorder::default();
    let server = ApiServer::start_with(Options::default(), Admission::standard().with(recorder.clone()));
    let pods = "/api/v1/namespaces/default/pods";
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": pod["spec"]});
    let deployment = json!({
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    });
    let applied = "application/apply-patch+yaml";
    let (json, merge) = ("application/json", "application/merge-patch+json");
    for (method, path, kind, body, expected) in [
        (
            "POST",
            format!("{MAPS}?fieldManager=me&fieldValidation=Strict"),
            json,
            json!({"metadata": {"generateName": "g-"}}),
            vec![
                r#"mutate Create configmaps default/ kind=v1/ConfigMap ConfigMap[managedFields] old=- "CreateOptions"{"fieldManager":"me","fieldValidation":"Strict"}"#,
                r#"validate Create configmaps default/g-… kind=v1/ConfigMap ConfigMap[uid managedFields] old=- "CreateOptions"{"fieldManager":"me","fieldValidation":"Strict"}"#,
            ],
        ),
        (
            "PATCH",
            format!("{MAPS}/a?fieldManager=me"),
            applied,
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}}),
            vec![
                r#"mutate Create configmaps default/a kind=v1/ConfigMap ConfigMap[managedFields] old=- "CreateOptions"{"fieldManager":"me"}"#,
                r#"validate Create configmaps default/a kind=v1/ConfigMap ConfigMap[uid managedFields] old=- "CreateOptions"{"fieldManager":"me"}"#,
            ],
        ),
        (
            "PUT",
            format!("{MAPS}/a?dryRun=All"),
            json,
            json!({"metadata": {"name": "a"}}),
            vec![
                r#"mutate Update configmaps default/a kind=v1/ConfigMap ConfigMap[] old=ConfigMap[uid managedFields] "UpdateOptions"{"dryRun":["All"]}"#,
                r#"validate Update configmaps default/a kind=v1/ConfigMap ConfigMap[uid] old=ConfigMap[uid managedFields] "UpdateOptions"{"dryRun":["All"]}"#,
            ],
        ),
        (
            "POST",
            deployments.to_owned(),
            json,
            deployment,
            vec![
                "mutate Create deployments default/web kind=apps/v1/Deployment Deployment[managedFields] old=- CreateOptions",
                "validate Create deployments default/web kind=apps/v1/Deployment Deployment[uid managedFields] old=- CreateOptions",
            ],
        ),
        (
            "PATCH",
            format!("{deployments}/web/status"),
            merge,
            json!({"status": {"replicas": 1}}),
            vec![
                "mutate Update deployments/status default/web kind=apps/v1/Deployment Deployment[uid managedFields] old=Deployment[uid managedFields] UpdateOptions",
                "validate Update deployments/status default/web kind=apps/v1/Deployment Deployment[uid managedFields] old=Deployment[uid managedFields] UpdateOptions",
            ],
        ),
        (
            "PATCH",
            format!("{deployments}/web/scale"),
            merge,
            json!({"spec": {"replicas": 3}}),
            vec![
                "mutate Update deployments/scale default/web kind=autoscaling/v1/Scale Scale[uid managedFields] old=Scale[uid managedFields] UpdateOptions",
                "validate Update deployments/scale default/web kind=autoscaling/v1/Scale Scale[uid] old=Scale[uid] UpdateOptions",
            ],
        ),
        (
            "POST",
            pods.to_owned(),
            json,
            pod,
            vec![
                "mutate Create pods default/p kind=v1/Pod Pod[managedFields] old=- CreateOptions",
                "validate Create pods default/p kind=v1/Pod Pod[uid managedFields] old=- CreateOptions",
            ],
        ),
        (
            "POST",
            format!("{pods}/p/exec?command=ls&command=-l&stdout=true"),
            json,
            Value::Null,
            vec![
                "mutate Connect pods/exec default/p kind=v1/PodExecOptions PodExecOptions[] old=- -",
                "validate Connect pods/exec default/p kind=v1/PodExecOptions PodExecOptions[] old=- -",
            ],
        ),
        (
            "POST",
            format!("{pods}/p/eviction?dryRun=All"),
            json,
            json!({"metadata": {"name": "p"}}),
            vec![
                r#"mutate Create pods/eviction default/p kind=policy/v1/Eviction Eviction[] old=- "CreateOptions"{"dryRun":["All"]}"#,
                r#"validate Create pods/eviction default/p kind=policy/v1/Eviction Eviction[] old=- "CreateOptions"{"dryRun":["All"]}"#,
            ],
        ),
        (
            "DELETE",
            format!("{pods}/p"),
            json,
            Value::Null,
            vec![
                r#"mutate Delete pods default/p kind=v1/Pod - old=Pod[uid managedFields] "DeleteOptions"{"gracePeriodSeconds":0}"#,
                r#"validate Delete pods default/p kind=v1/Pod - old=Pod[uid managedFields] "DeleteOptions"{"gracePeriodSeconds":0}"#,
                r#"mutate Delete pods default/p kind=v1/Pod - old=Pod[uid managedFields deletionTimestamp] "DeleteOptions"{"gracePeriodSeconds":0}"#,
                r#"validate Delete pods default/p kind=v1/Pod - old=Pod[uid managedFields deletionTimestamp] "DeleteOptions"{"gracePeriodSeconds":0}"#,
            ],
        ),
        (
            "DELETE",
            format!("{deployments}?propagationPolicy=Background"),
            json,
            Value::Null,
            vec![
                r#"mutate Delete deployments default/ kind=apps/v1/Deployment - old=Deployment[uid managedFields] "DeleteOptions"{"propagationPolicy":"Background"}"#,
                r#"validate Delete deployments default/ kind=apps/v1/Deployment - old=Deployment[uid managedFields] "DeleteOptions"{"propagationPolicy":"Background"}"#,
            ],
        ),
        (
            "POST",
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews".to_owned(),
            json,
            json!({"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}}),
            vec![
                "mutate Create selfsubjectaccessreviews / kind=authorization.k8s.io/v1/SelfSubjectAccessReview SelfSubjectAccessReview[managedFields] old=- CreateOptions",
                "validate Create selfsubjectaccessreviews / kind=authorization.k8s.io/v1/SelfSubjectAccessReview SelfSubjectAccessReview[managedFields] old=- CreateOptions",
            ],
        ),
        (
            "POST",
            "/api/v1/namespaces".to_owned(),
            json,
            json!({"metadata": {"name": "n"}}),
            vec![
                "mutate Create namespaces n/n kind=v1/Namespace Namespace[managedFields] old=- CreateOptions",
                "validate Create namespaces n/n kind=v1/Namespace Namespace[uid managedFields] old=- CreateOptions",
            ],
        ),
        (
            "DELETE",
            "/api/v1/namespaces/n".to_owned(),
            json,
            Value::Null,
            vec![
                "mutate Delete namespaces n/n kind=v1/Namespace - old=Namespace[uid managedFields] DeleteOptions",
                "validate Delete namespaces n/n kind=v1/Namespace - old=Namespace[uid managedFields] DeleteOptions",
            ],
        ),
    ] {
        let request = http::Request::builder().method(method).uri(&path).header("content-type", kind);
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = request.body(Full::new(Bytes::from(body))).unwrap();
        let response = server.service().call(request).await.unwrap();
        let code = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let noted = std::mem::take(&mut *recorder.0.lock());
        // Generated names differ between runs.
        let noted: Vec<String> = noted
            .iter()
            .map(|line| match line.split_once("default/g-") {
                Some((before, after)) => format!("{before}default/g-…{}", &after[5..]),
                None => line.clone(),
            })
            .collect();
        assert_eq!(noted, expected, "{method} {path}: {code} {}", String::from_utf8_lossy(&body));
    }
}

/// An object that foreign code changes is completed, and its ownership restored.
#[tokio::test]
async fn a_changed_object_is_completed_and_its_broken_ownership_restored() {
    /// A plugin that replaces the data by the value of an annotation, as a webhook might.
    #[derive(Clone)]
    struct Foreign;

    impl MutatingPlugin for Foreign {
        fn mutate<'a>(&'a self, request: &'a Attributes<'a>, object: Option<&'a mut Value>) -> Verdict<'a> {
            let Some(object) = object.filter(|object| object["data"].is_object()) else {
                return ready(Ok(())).boxed();
            };
            let before = object["metadata"]["managedFields"].clone();
            let data = object["data"]["json"].as_str().map(|text| serde_json::from_str(text).unwrap());
            object["data"]["added"] = data.unwrap_or_default();
            object["unknown"] = json!("field");
            object["metadata"]["managedFields"][0]["operation"] = json!("Guess");
            let outcome = request.conform(object);
            request.warn(restore_managed_fields(&before, object).unwrap_or_default());
            ready(outcome).boxed()
        }
    }

    impl ValidatingPlugin for Foreign {
        fn validate<'a>(&'a self, _: &'a Attributes<'a>, _: Option<&'a Value>) -> Verdict<'a> {
            ready(Ok(())).boxed()
        }
    }

    let server = ApiServer::start_with(Options::default(), Admission::standard().with(Foreign));
    let good = json!({"metadata": {"name": "a"}, "data": {"json": "\"text\""}});
    let (code, created, warnings) = send(&server, Method::POST, MAPS, &good).await;
    assert_eq!((code, warnings), (201, 1));
    assert_eq!(created["data"], json!({"json": "\"text\"", "added": "text"}));
    assert_eq!(created.get("unknown"), None);
    assert_eq!(created["metadata"]["managedFields"][0]["operation"], "Update");
    let bad = json!({"metadata": {"name": "b"}, "data": {"json": "5"}});
    let (code, status, warnings) = send(&server, Method::POST, MAPS, &bad).await;
    assert_eq!((code, warnings), (500, 1));
    assert_eq!(
        status["message"],
        "Internal error occurred: json: cannot unmarshal number into Go struct field ConfigMap.data of type string"
    );
}

/// The check for escalation sees rules that a plugin adds: users grant only permissions that they hold.
#[tokio::test]
async fn rules_that_a_plugin_adds_to_a_role_are_checked_for_escalation() {
    const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
    const GROUP: &str = "rbac.authorization.k8s.io";

    /// A plugin that adds a rule to the role `generous`.
    #[derive(Clone)]
    struct Generous;

    impl MutatingPlugin for Generous {
        fn mutate<'a>(&'a self, _: &'a Attributes<'a>, object: Option<&'a mut Value>) -> Verdict<'a> {
            let Some(role) = object.filter(|object| object["metadata"]["name"] == "generous") else {
                return ready(Ok(())).boxed();
            };
            let rules = role["rules"].as_array_mut().unwrap();
            rules.push(json!({"verbs": ["delete"], "apiGroups": [""], "resources": ["secrets"]}));
            ready(Ok(())).boxed()
        }
    }

    impl ValidatingPlugin for Generous {
        fn validate<'a>(&'a self, _: &'a Attributes<'a>, _: Option<&'a Value>) -> Verdict<'a> {
            ready(Ok(())).boxed()
        }
    }

    let server = ApiServer::start_with(Options::default(), Admission::standard().with(Generous));
    let held = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]});
    let write = json!({"verbs": ["create", "update"], "apiGroups": [GROUP], "resources": ["roles"]});
    let role = |name: &str, rules: Value| json!({"metadata": {"name": name}, "rules": rules});
    let of_bob = role("bob", json!([held, write]));
    assert_eq!(send(&server, Method::POST, ROLES, &of_bob).await.0, 201);
    let binding = json!({
        "metadata": {"name": "bob"}, "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": "bob"},
        "subjects": [{"kind": "User", "apiGroup": GROUP, "name": "bob"}],
    });
    let bindings = ROLES.replace("/roles", "/rolebindings");
    assert_eq!(send(&server, Method::POST, &bindings, &binding).await.0, 201);

    let mut bob = server.service_for(UserInfo::new("bob", "", [""; 0]));
    for (method, path, name, code) in [
        ("POST", ROLES.to_owned(), "plain", 201),
        ("POST", ROLES.to_owned(), "generous", 403),
        ("PUT", format!("{ROLES}/plain"), "plain", 200),
        ("PUT", format!("{ROLES}/generous"), "generous", 403),
    ] {
        let body = role(name, json!([held])).to_string();
        let request = http::Request::builder().method(method).uri(&path);
        let request = request.header("content-type", "application/json");
        let response = bob.call(request.body(Full::new(Bytes::from(body))).unwrap()).await.unwrap();
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(status, code, "{method} {path}: {}", String::from_utf8_lossy(&body));
        if code == 403 {
            let text = String::from_utf8_lossy(&body).into_owned();
            assert!(text.contains("secrets") && text.contains("delete"), "{text}");
        }
    }
}
