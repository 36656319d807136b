//! Effects of admission policies on requests of clients. Texts and codes were recorded from kube-apiserver v1.36.3.

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use kube_apiserver_embedded::{ApiServer, ApiService, Options};
use serde_json::{Value, json};
use tower_service::Service;

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

struct Answer {
    code: u16,
    body: Value,
    warnings: Vec<String>,
}

async fn send(service: &ApiService, method: &str, path: &str, body: &Value) -> Answer {
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let request = Request::builder().method(method).uri(path).header("content-type", kind);
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let request = request.body(Full::new(Bytes::from(body))).unwrap();
    let response = service.clone().call(request).await.unwrap();
    let (head, body) = response.into_parts();
    let warnings = head.headers.get_all("warning").iter();
    Answer {
        code: head.status.as_u16(),
        warnings: warnings.map(|warning| warning.to_str().unwrap().to_owned()).collect(),
        body: serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap(),
    }
}

/// Creates an object that is accepted without a warning.
async fn create(service: &ApiService, path: &str, body: &Value) -> Value {
    let answer = send(service, "POST", path, body).await;
    assert_eq!((answer.code, answer.warnings), (201, Vec::new()), "{}", answer.body);
    answer.body
}

fn start() -> (ApiServer, ApiService) {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    (server, service)
}

fn rules(group: &str, resource: &str) -> Value {
    json!({"resourceRules": [{
        "operations": ["*"], "apiGroups": [group], "apiVersions": ["v1"], "resources": [resource],
    }]})
}

fn merged(mut target: Value, fields: &Value) -> Value {
    for (name, value) in fields.as_object().unwrap() {
        target[name] = value.clone();
    }
    target
}

/// Creates the validating policy `p` and its binding `b`. `policy` and `binding` are further fields of their specifications.
async fn validate(service: &ApiService, policy: &Value, binding: &Value) {
    let spec = merged(json!({"matchConstraints": rules("", "configmaps")}), policy);
    let policy = json!({"metadata": {"name": "p"}, "spec": spec});
    create(service, &format!("{GROUP}/validatingadmissionpolicies"), &policy).await;
    let spec = merged(json!({"policyName": "p", "validationActions": ["Deny"]}), binding);
    let binding = json!({"metadata": {"name": "b"}, "spec": spec});
    create(service, &format!("{GROUP}/validatingadmissionpolicybindings"), &binding).await;
}

/// Creates the mutating policy `name` and its binding.
async fn mutate(service: &ApiService, name: &str, policy: &Value) {
    let spec = json!({"matchConstraints": rules("", "configmaps"), "reinvocationPolicy": "Never"});
    let policy = json!({"metadata": {"name": name}, "spec": merged(spec, policy)});
    create(service, &format!("{GROUP}/mutatingadmissionpolicies"), &policy).await;
    let binding = json!({"metadata": {"name": name}, "spec": {"policyName": name}});
    create(service, &format!("{GROUP}/mutatingadmissionpolicybindings"), &binding).await;
}

fn applied(expression: &str) -> Value {
    json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}})
}

fn patched(expression: &str) -> Value {
    json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}})
}

fn map(value: &str) -> Value {
    json!({"metadata": {"name": "m"}, "data": {"k": value}})
}

/// Checks the code and the reason behind `denied request: ` for a ConfigMap, or the code alone if it is accepted.
async fn check_validation(policy: Value, binding: Value, code: u16, why: &str) {
    let (_server, service) = start();
    validate(&service, &policy, &binding).await;
    let answer = send(&service, "POST", CONFIG_MAPS, &map("v")).await;
    let message = answer.body["message"].as_str().unwrap_or_default();
    let shown = message.split_once("denied request: ").map_or(message, |(_, why)| why);
    assert_eq!((answer.code, shown), (code, why), "{policy} {binding}");
}

#[tokio::test]
async fn a_failed_validation_denies_the_request_with_its_message_and_reason() {
    let (_server, service) = start();
    validate(&service, &json!({"validations": [{"expression": "object.data.k != 'bad'"}]}), &json!({})).await;
    let answer = send(&service, "POST", CONFIG_MAPS, &map("bad")).await;
    let why = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: failed expression: object.data.k != 'bad'";
    assert_eq!(answer.code, 422);
    assert_eq!(answer.body["message"], format!("configmaps \"m\" is forbidden: {why}"));
    assert_eq!(
        answer.body["details"],
        json!({"name": "m", "kind": "configmaps", "causes": [{"message": why}]})
    );
    create(&service, CONFIG_MAPS, &map("good")).await;
    let patch = json!({"data": {"k": "bad"}});
    assert_eq!(send(&service, "PATCH", &format!("{CONFIG_MAPS}/m"), &patch).await.code, 422);

    let rule = |fields: Value| json!({"validations": [merged(json!({"expression": " false "}), &fields)]});
    check_validation(rule(json!({"reason": "Forbidden"})), json!({}), 403, "failed expression: false").await;
    let large = json!({"reason": "RequestEntityTooLarge", "message": "big"});
    check_validation(rule(large), json!({}), 413, "big").await;
    let lines = json!({"messageExpression": "'two\\nlines'", "message": " own "});
    check_validation(rule(lines), json!({}), 422, "own").await;
    let blank = json!({"messageExpression": "'   '"});
    check_validation(rule(blank), json!({}), 422, "failed expression: false").await;
    let message = json!({"messageExpression": "'k is ' + object.data.k", "message": "own"});
    check_validation(rule(message), json!({}), 422, "k is v").await;
}

#[tokio::test]
async fn an_expression_without_a_value_counts_by_the_failure_policy() {
    let broken = json!({"validations": [{"expression": "object.data.nope == 'x'"}]});
    let why = "expression 'object.data.nope == 'x'' resulted in error: no such key: nope";
    check_validation(broken.clone(), json!({}), 422, why).await;
    check_validation(merged(broken, &json!({"failurePolicy": "Ignore"})), json!({}), 201, "").await;
    let conditions = json!({
        "validations": [{"expression": "false"}],
        "matchConditions": [
            {"name": "x", "expression": "object.data.nope == 'a'"}, {"name": "y", "expression": "object.data.nopf == 'a'"},
        ],
    });
    let why = "[expression 'object.data.nope == 'a'' resulted in error: no such key: nope, expression 'object.data.nopf == \
               'a'' resulted in error: no such key: nopf]";
    check_validation(conditions, json!({}), 422, why).await;
    let unmatched = json!({
        "validations": [{"expression": "false"}],
        "matchConditions": [
            {"name": "x", "expression": "object.data.nope == 'a'"}, {"name": "y", "expression": "false"},
        ],
    });
    check_validation(unmatched, json!({}), 201, "").await;
}

#[tokio::test]
async fn variables_are_evaluated_when_they_are_used() {
    let variables = json!([
        {"name": "broken", "expression": "object.data.nope"},
        {"name": "check", "expression": "authorizer.group('').resource('pods')"},
        {"name": "k", "expression": "object.data.k"},
        {"name": "loud", "expression": "variables.k.upperAscii()"},
    ]);
    let rule =
        |expression: &str| json!({"variables": variables, "validations": [{"expression": expression}]});
    check_validation(rule("variables.loud == 'V' && (true || variables.broken)"), json!({}), 201, "").await;
    check_validation(rule("variables.check.check('get').allowed()"), json!({}), 201, "").await;
    let why = "expression 'variables.broken == 1' resulted in error: composited variable \"broken\" fails to evaluate: no \
               such key: nope";
    check_validation(rule("variables.broken == 1"), json!({}), 422, why).await;
}

#[tokio::test]
async fn parameters_are_found_by_name_and_by_label() {
    let kind = |api_version: &str, kind: &str, expression: &str| {
        json!({
            "paramKind": {"apiVersion": api_version, "kind": kind}, "validations": [{"expression": expression}],
        })
    };
    let by_name = |action: &str| json!({"paramRef": {"name": "absent", "parameterNotFoundAction": action}});
    let maps = kind("v1", "ConfigMap", "false");
    check_validation(maps.clone(), by_name("Allow"), 201, "").await;
    let why =
        "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";
    check_validation(maps, by_name("Deny"), 422, why).await;
    check_validation(kind("v1", "ConfigMap", "params == null"), json!({}), 201, "").await;
    let why = "failed to configure policy: failed to find resource referenced by paramKind: 'example.com/v1, Kind=Foo'";
    check_validation(kind("example.com/v1", "Foo", "false"), by_name("Allow"), 422, why).await;
    let elsewhere =
        json!({"paramRef": {"name": "n", "namespace": "default", "parameterNotFoundAction": "Allow"}});
    let why = "failed to configure binding: paramRef.namespace must not be provided for a cluster-scoped `paramKind`";
    check_validation(kind("v1", "Node", "false"), elsewhere, 422, why).await;

    let (_server, service) = start();
    let secret = |name: &str, limit: &str| json!({"metadata": {"name": name, "labels": {"limit": "yes"}}, "stringData": {"k": limit}});
    let secrets = "/api/v1/namespaces/default/secrets";
    create(&service, secrets, &secret("a", "v")).await;
    create(&service, secrets, &secret("b", "w")).await;
    let policy = merged(
        kind("v1", "Secret", "false"),
        &json!({"validations": [{
            "expression": "params.metadata.name != 'b'",
            "messageExpression": "params.apiVersion + ' ' + params.kind + ' ' + params.metadata.name",
        }]}),
    );
    let selector = json!({"paramRef": {
        "selector": {"matchLabels": {"limit": "yes"}}, "parameterNotFoundAction": "Deny",
    }});
    validate(&service, &policy, &selector).await;
    let answer = send(&service, "POST", CONFIG_MAPS, &map("v")).await;
    let message = answer.body["message"].as_str().unwrap();
    assert!(message.ends_with("denied request: v1 Secret b"), "{message}");
    send(&service, "PATCH", &format!("{secrets}/b"), &json!({"metadata": {"labels": null}})).await;
    create(&service, CONFIG_MAPS, &map("v")).await;
}

#[tokio::test]
async fn failed_validations_are_warned_about_and_recorded() {
    let (server, service) = start();
    let policy = json!({
        "validations": [{"expression": "true"}, {"expression": "object.data.k != 'bad'", "message": "k is bad"}],
        "auditAnnotations": [
            {"key": "seen", "valueExpression": "'k=' + object.data.k"}, {"key": "none", "valueExpression": "null"},
        ],
    });
    validate(&service, &policy, &json!({"validationActions": ["Warn", "Audit"]})).await;
    let audit = server.audit();
    let answer = send(&service, "POST", CONFIG_MAPS, &map("bad")).await;
    assert_eq!(answer.code, 201);
    assert_eq!(
        answer.warnings,
        ["299 - \"Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': k is bad\""]
    );
    let events = audit.take();
    let annotations: Vec<(&str, &str)> =
        events[0].annotations.iter().map(|(key, value)| (&**key, &**value)).collect();
    let failure = r#"[{"message":"k is bad","policy":"p","binding":"b","expressionIndex":1,"validationActions":["Warn","Audit"]}]"#;
    assert_eq!(
        annotations,
        [("p/seen", "k=bad"), ("validation.policy.admission.k8s.io/validation_failure", failure)]
    );
}

#[tokio::test]
async fn a_deletion_has_no_object_and_policies_are_not_reviewed() {
    let (_server, service) = start();
    let policy = json!({
        "matchConstraints": {"resourceRules": [
            {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]},
        ]},
        "validations": [{"expression": "request.operation != 'DELETE' || (object == null && oldObject.data.k != 'keep')"}],
    });
    validate(&service, &policy, &json!({})).await;
    create(&service, CONFIG_MAPS, &map("keep")).await;
    assert_eq!(send(&service, "DELETE", &format!("{CONFIG_MAPS}/m"), &Value::Null).await.code, 422);
    let answer = send(&service, "DELETE", CONFIG_MAPS, &Value::Null).await;
    assert!(answer.body["message"].as_str().unwrap().starts_with("configmaps \"Unknown\" is forbidden"));
    let policy = format!("{GROUP}/validatingadmissionpolicies/p");
    assert_eq!(send(&service, "DELETE", &policy, &Value::Null).await.code, 200);
    assert_eq!(send(&service, "DELETE", &format!("{CONFIG_MAPS}/m"), &Value::Null).await.code, 200);
}

#[tokio::test]
async fn expressions_see_objects_in_the_version_of_the_rule() {
    let (_server, service) = start();
    let policy = json!({
        "matchConstraints": rules("autoscaling", "horizontalpodautoscalers"),
        "matchConditions": [{"name": "requested", "expression": "request.resource.version == 'v2'"}],
        "validations": [{
            "expression": "false",
            "messageExpression": "request.resource.version + request.requestResource.version + request.kind.version + \
                                  request.requestKind.version + object.apiVersion + \
                                  string(object.spec.targetCPUUtilizationPercentage)",
        }],
    });
    validate(&service, &policy, &json!({})).await;
    let autoscaler = json!({"metadata": {"name": "h"}, "spec": {
        "maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"},
        "metrics": [{"type": "Resource", "resource": {
            "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50},
        }}],
    }});
    let path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    let answer = send(&service, "POST", path, &autoscaler).await;
    let message = answer.body["message"].as_str().unwrap();
    assert!(message.ends_with("denied request: v1v2v1v2autoscaling/v150"), "{message}");
}

/// Checks the data of a ConfigMap after mutations, or the message of its refusal.
async fn check_mutations(policy: Value, expected: Value) {
    let (_server, service) = start();
    mutate(&service, "m", &policy).await;
    let answer = send(&service, "POST", CONFIG_MAPS, &map("v")).await;
    let shown = if answer.code == 201 { &answer.body["data"] } else { &answer.body["message"] };
    assert_eq!(*shown, expected, "{policy}");
}

#[tokio::test]
async fn mutations_are_applied_one_after_the_other() {
    let append = |suffix: &str| applied(&format!("Object{{data: {{'k': object.data.k + '{suffix}'}}}}"));
    check_mutations(json!({"mutations": [append("a"), append("b")]}), json!({"k": "vab"})).await;
    let again = json!({"mutations": [append("a")], "reinvocationPolicy": "IfNeeded"});
    check_mutations(again, json!({"k": "vaa"})).await;
    let broken = applied("Object{data: {'k': object.data.nope}}");
    let ignoring = json!({"mutations": [broken, append("b")], "failurePolicy": "Ignore"});
    check_mutations(ignoring, json!({"k": "vb"})).await;
    let variables = json!({
        "variables": [{"name": "v", "expression": "object.data.k + '!'"}],
        "mutations": [applied("Object{data: {'k': variables.v}}"), applied("Object{data: {'l': variables.v}}")],
    });
    check_mutations(variables, json!({"k": "v!", "l": "v!!"})).await;
    let patches = "[JSONPatch{op: 'test', path: '/data/k', value: 'v'}, JSONPatch{op: 'add', path: '/data/' + \
                   jsonpatch.escapeKey('x'), value: 'y'}]";
    check_mutations(json!({"mutations": [patched(patches)]}), json!({"k": "v", "x": "y"})).await;
    let untested = "[JSONPatch{op: 'add', path: '/data/x', value: 'y'}, JSONPatch{op: 'test', path: '/data/k', value: 'w'}]";
    check_mutations(json!({"mutations": [patched(untested)]}), json!({"k": "v"})).await;
}

#[tokio::test]
async fn mutations_that_fail_refuse_the_request() {
    let denied = |why: &str| json!(format!("policy 'm' with binding 'm' denied request: {why}"));
    let check =
        |mutation: Value, expected: Value| check_mutations(json!({"mutations": [mutation]}), expected);
    check(
        applied("Object{spec: Object.spec{x: 1}}"),
        denied("error applying patch: failed to convert patch object to typed object: .spec: field not declared in schema"),
    )
    .await;
    check(
        patched("[JSONPatch{op: 'remove', path: '/data/x'}]"),
        denied("JSON Patch: error in remove for path: '/data/x': Unable to remove nonexistent key: x: missing value"),
    )
    .await;
    check(
        patched("[JSONPatch{op: 'add', path: '/nope', value: 5}]"),
        json!("Internal error occurred: strict decoding error: unknown field \"nope\""),
    )
    .await;
    check(
        patched("[JSONPatch{op: 'add', path: '/data/n', value: 5}]"),
        json!("Internal error occurred: json: cannot unmarshal number into Go struct field ConfigMap.data of type string"),
    )
    .await;
    let unknown = json!({"mutations": [], "paramKind": {"apiVersion": "example.com/v1", "kind": "Foo"}});
    let unknown = merged(unknown, &json!({"mutations": [applied("Object{}")]}));
    let why = "policy \"m\" denied request: failed to configure policy: failed to find resource referenced by paramKind: \
               'example.com/v1, Kind=Foo'";
    check_mutations(unknown, json!(why)).await;
}

#[tokio::test]
async fn mutated_fields_have_no_owner_and_are_validated() {
    let (_server, service) = start();
    mutate(
        &service,
        "m",
        &json!({"mutations": [applied("Object{metadata: Object.metadata{labels: {'by': 'policy'}}}")]}),
    )
    .await;
    validate(
        &service,
        &json!({"validations": [{"expression": "object.metadata.labels['by'] == 'policy'"}]}),
        &json!({}),
    )
    .await;
    let created = create(&service, CONFIG_MAPS, &map("v")).await;
    assert_eq!(created["metadata"]["labels"], json!({"by": "policy"}));
    let fields = &created["metadata"]["managedFields"][0]["fieldsV1"];
    assert_eq!(*fields, json!({"f:data": {".": {}, "f:k": {}}}));
}
