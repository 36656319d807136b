//! Creates, updates, patches, applies and deletions.

use super::*;

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

/// These warnings are this server's own: a kube-apiserver acts on such objects.
#[tokio::test]
async fn the_creation_of_an_object_without_effect_has_a_warning() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
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
async fn unusable_requests_are_refused_with_their_reason() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    define(&service, "widgets", "Widget", "Namespaced", &[("v1", json!({"spec": {"type": "object"}}))]).await;
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}});
    assert_eq!(post(&service, widgets, &widget).await.code, 201);
    let refused = patch(&service, widgets, "{}").await;
    assert_eq!((refused.code, refused.message().as_str()), (400, "name must be provided"));
    let refused = send(&service, "OPTIONS", widgets, &[], "").await;
    let why = " is not supported on resources of kind \"widgets.example.com\"";
    assert_eq!((refused.code, refused.message().as_str()), (405, why));
    let refused = patch(&service, &format!("{widgets}/w"), "null").await;
    assert_eq!((refused.code, refused.message().as_str()), (400, "Invalid JSON Patch"));
    let deep = format!("{{\"data\":{}", "[".repeat(20_000));
    let refused = send(&service, "POST", &format!("{NAMESPACE}/configmaps"), &[JSON], &deep).await;
    assert!(
        refused.message().contains("json parse error: invalid character '[' exceeded max depth ("),
        "{}",
        refused.message()
    );
}

#[tokio::test]
async fn a_strategic_merge_patch_that_is_null_changes_nothing() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    let strategic = [("content-type", "application/strategic-merge-patch+json")];
    assert_eq!(send(&service, "PATCH", NAMESPACE, &strategic, "null").await.code, 200);
}

#[tokio::test]
async fn a_deletion_of_a_definition_checks_its_preconditions() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    define(&service, "widgets", "Widget", "Namespaced", &[("v1", json!({"spec": {"type": "object"}}))]).await;
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
}

#[tokio::test]
async fn only_kinds_that_count_generations_replace_that_of_the_client() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    let generation = async |path: &str, object: &Value| {
        post(&service, &format!("{NAMESPACE}/{path}"), object).await.value()["metadata"]["generation"].clone()
    };
    let map = json!({"metadata": {"name": "g", "generation": 7}});
    assert_eq!(generation("configmaps", &map).await, 7);
    let mut counted = pod("g", None, &["c"]);
    counted["metadata"]["generation"] = json!(7);
    assert_eq!(generation("pods", &counted).await, 1);
    let binding = json!({"metadata": {"name": "g"}, "target": {"kind": "Node", "name": "n"}});
    assert_eq!(post(&service, &format!("{NAMESPACE}/pods/g/binding"), &binding).await.code, 201);
    let bound = get(&service, &format!("{NAMESPACE}/pods/g")).await.value();
    assert_eq!(bound["metadata"]["generation"], 1, "a binding is no change of the specification");
}

#[tokio::test]
async fn finalizers_of_a_namespace_must_be_qualified() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    post(&service, "/api/v1/namespaces", &json!({"metadata": {"name": "f"}})).await;
    let finalize =
        json!({"metadata": {"name": "f"}, "spec": {"finalizers": ["kubernetes", "nope"]}}).to_string();
    let refused = send(&service, "PUT", "/api/v1/namespaces/f/finalize", &[JSON], &finalize).await;
    let why = "spec.finalizers[1]: Invalid value: \"nope\": name is neither a standard finalizer name nor is it fully qualified";
    assert_eq!(refused.code, 422);
    assert!(refused.message().ends_with(why), "{}", refused.message());
}

#[tokio::test]
async fn a_token_review_has_managed_fields_and_a_rules_review_has_none() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    let review = json!({"spec": {"token": "t"}});
    let answer = post(&service, "/apis/authentication.k8s.io/v1/tokenreviews", &review).await.value();
    assert_eq!(answer["metadata"]["managedFields"][0]["fieldsV1"], json!({"f:spec": {"f:token": {}}}));
    let rules = json!({"spec": {"namespace": "default"}});
    let answer =
        post(&service, "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", &rules).await.value();
    assert_eq!((&answer["metadata"], &answer["spec"]), (&json!({}), &json!({})));
}

#[tokio::test]
async fn the_creator_does_not_own_what_the_server_adds() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    let event = json!({
        "metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "namespace": "default"}, "reason": "R",
        "message": "m", "type": "Normal",
    });
    let answer = post(&service, &format!("{NAMESPACE}/events"), &event).await.value();
    let owned = json!({"f:involvedObject": {}, "f:message": {}, "f:reason": {}, "f:type": {}});
    assert_eq!(answer["metadata"]["managedFields"][0]["fieldsV1"], owned);
    let headless = json!({"metadata": {"name": "h"}, "spec": {"clusterIP": "None", "ports": [{"port": 80}]}});
    let created = post(&service, &format!("{NAMESPACE}/services"), &headless).await.value();
    assert_eq!(created["spec"]["ipFamilies"], json!(["IPv4", "IPv6"]));
    let owned = &created["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"];
    let names: Vec<&String> = owned.as_object().unwrap().keys().collect();
    assert_eq!(names, ["f:clusterIP", "f:internalTrafficPolicy", "f:ports", "f:sessionAffinity", "f:type"]);
}
