//! Numbers as Go's decoders treat them: integers of builtin kinds must be written as integers, and in custom objects
//! `3.0` is 3. Responses format numbers as Go does.

use http::Request;
use http_body_util::{BodyExt, Full};
use kube_apiserver_embedded::{ApiServer, ApiService, Options};
use serde_json::{Value, json};
use tower_service::Service;

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/a";
const THINGS: &str = "/apis/example.com/v1/namespaces/default/things";

async fn send(service: &mut ApiService, method: &str, path: &str, kind: &str, body: &str) -> (u16, String) {
    let request = Request::builder().method(method).uri(path).header("content-type", kind);
    let response = service.call(request.body(Full::from(body.to_owned())).unwrap()).await.unwrap();
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (code, String::from_utf8(body.to_vec()).unwrap())
}

async fn message(
    service: &mut ApiService,
    method: &str,
    path: &str,
    kind: &str,
    body: &str,
) -> (u16, String) {
    let (code, answer) = send(service, method, path, kind, body).await;
    let answer: Value = serde_json::from_str(&answer).unwrap();
    (code, answer["message"].as_str().unwrap_or_default().to_owned())
}

/// A Deployment with this text as the number of replicas.
fn deployment(replicas: &str) -> String {
    let spec = json!({
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
    });
    let spec = spec.to_string();
    let head = r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"#;
    format!(r#"{head}"spec":{{"replicas":{replicas},{}}}"#, &spec[1..])
}

async fn replicas(service: &mut ApiService) -> Value {
    let (_, deployment) = send(service, "GET", DEPLOYMENT, "application/json", "").await;
    serde_json::from_str::<Value>(&deployment).unwrap()["spec"]["replicas"].clone()
}

#[tokio::test]
async fn a_float_is_no_integer_of_a_builtin_kind() {
    const JSON: &str = "application/json";
    let mut service = ApiServer::start(Options::default()).service();
    let refused = |number: &str| {
        format!(
            "json: cannot unmarshal number {number} into Go struct field DeploymentSpec.spec.replicas of type int32"
        )
    };
    let unhandled = |number: &str| {
        format!("Deployment in version \"v1\" cannot be handled as a Deployment: {}", refused(number))
    };
    for number in ["3.0", "3e0", "30.0e-1", "0.5", "1e10"] {
        let answer = message(&mut service, "POST", DEPLOYMENTS, JSON, &deployment(number)).await;
        assert_eq!(answer, (400, unhandled(number)));
    }
    assert_eq!(send(&mut service, "POST", DEPLOYMENTS, JSON, &deployment("2")).await.0, 201);
    let answer = message(&mut service, "PUT", DEPLOYMENT, JSON, &deployment("3E0")).await;
    assert_eq!(answer, (400, unhandled("3E0")));
    for (kind, patch) in [
        ("application/merge-patch+json", r#"{"spec":{"replicas":3.0}}"#),
        ("application/json-patch+json", r#"[{"op":"replace","path":"/spec/replicas","value":3.0}]"#),
    ] {
        let (code, message) = message(&mut service, "PATCH", DEPLOYMENT, kind, patch).await;
        assert_eq!(code, 422, "{kind}");
        assert!(message.ends_with(&refused("3.0")), "{kind}: {message}");
    }
    assert_eq!(replicas(&mut service).await, 2);
    let options = r#"{"gracePeriodSeconds":1.0}"#;
    let (code, message) = message(&mut service, "DELETE", DEPLOYMENT, JSON, options).await;
    let why = "json: cannot unmarshal number 1.0 into Go struct field DeleteOptions.gracePeriodSeconds of type int64";
    assert_eq!((code, message.as_str()), (400, why));
}

#[tokio::test]
async fn values_that_go_decodes_to_a_tree_may_be_floats_without_fraction() {
    let mut service = ApiServer::start(Options::default()).service();
    let yaml = "application/yaml";
    // Go converts YAML to JSON, in which 1.0 becomes 1, even if the YAML is JSON.
    assert_eq!(send(&mut service, "POST", DEPLOYMENTS, yaml, &deployment("1.0")).await.0, 201);
    assert_eq!(replicas(&mut service).await, 1);
    for (kind, replicas_sent, expected) in [
        ("application/strategic-merge-patch+json", "3.0", 3),
        ("application/strategic-merge-patch+json", "4e0", 4),
        ("application/apply-patch+yaml", "5.0", 5),
    ] {
        let force = if kind.contains("apply") { "?fieldManager=a&force=true" } else { "" };
        let path = format!("{DEPLOYMENT}{force}");
        let (code, answer) = send(&mut service, "PATCH", &path, kind, &deployment(replicas_sent)).await;
        assert_eq!(code, 200, "{kind}: {answer}");
        assert_eq!(replicas(&mut service).await, expected, "{kind}");
    }
    let strategic = "application/strategic-merge-patch+json";
    let (code, message) =
        message(&mut service, "PATCH", DEPLOYMENT, strategic, r#"{"spec":{"replicas":3.5}}"#).await;
    assert_eq!(code, 422);
    assert!(message.ends_with("cannot convert float64 to int32"), "{message}");
}

#[tokio::test]
async fn numbers_of_custom_objects_come_back_as_go_writes_them() {
    const JSON: &str = "application/json";
    let mut service = ApiServer::start(Options::default()).service();
    let schema = json!({
        "type": "object",
        "properties": {"i": {"type": "integer"}, "n": {"type": "number"}, "any": {"x-kubernetes-preserve-unknown-fields": true}},
    });
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(send(&mut service, "POST", definitions, JSON, &definition.to_string()).await.0, 201);
    let thing = |name: &str, field: &str, number: &str| {
        let head =
            format!(r#"{{"apiVersion":"example.com/v1","kind":"Thing","metadata":{{"name":"{name}"}}"#);
        format!(r#"{head},"{field}":{number}}}"#)
    };
    for (index, (field, sent, written)) in [
        ("i", "3.0", "3"),
        ("i", "3e0", "3"),
        ("i", "9007199254740991.0", "9007199254740991"),
        ("i", "9223372036854775807", "9223372036854775807"),
        ("n", "3.5", "3.5"),
        ("n", "1E20", "100000000000000000000"),
        ("n", "1e21", "1e+21"),
        ("n", "0.0000010", "0.000001"),
        ("n", "0.0000001", "1e-7"),
        ("n", "15e299", "1.5e+300"),
        ("n", "0.30000000000000004", "0.30000000000000004"),
        ("n", "179769313486231570000e288", "1.7976931348623157e+308"),
        ("any", "[18446744073709551615,{\"a\":2.0}]", "[18446744073709552000,{\"a\":2}]"),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("a{index}");
        let (code, answer) = send(&mut service, "POST", THINGS, JSON, &thing(&name, field, sent)).await;
        assert_eq!(code, 201, "{answer}");
        let expected = format!("\"{field}\":{written}");
        assert!(answer.contains(&expected), "{sent}: {answer}");
        // All views show equal numbers.
        let path = format!("{THINGS}/{name}");
        for accept in ["application/json", "application/json;as=Table;g=meta.k8s.io;v=v1"] {
            let request = Request::get(format!("{path}?includeObject=Object")).header("accept", accept);
            let response =
                service.call(request.body(Full::<bytes::Bytes>::default()).unwrap()).await.unwrap();
            let body = response.into_body().collect().await.unwrap().to_bytes();
            let text = String::from_utf8(body.to_vec()).unwrap();
            assert!(text.contains(&expected), "{sent} as {accept}: {text}");
        }
        let dry = thing(&format!("dry{index}"), field, sent);
        let (code, answer) = send(&mut service, "POST", &format!("{THINGS}?dryRun=All"), JSON, &dry).await;
        assert!(code == 201 && answer.contains(&expected), "{sent} in a dry run: {answer}");
    }
    for (field, sent, code, why) in [
        ("i", "3.5", 422, "i in body must be of type integer: \"number\""),
        ("i", "1e18", 422, "i in body must be of type integer: \"number\""),
        ("i", "9223372036854775808", 422, "i in body must be of type integer: \"number\""),
        ("n", "1e400", 400, "json: cannot unmarshal number 1e400 into Go value of type float64"),
    ] {
        let answer = message(&mut service, "POST", THINGS, JSON, &thing("b", field, sent)).await;
        assert!(answer.0 == code && answer.1.contains(why), "{sent}: {answer:?}");
    }
}
