//! Subresources of pods: logs, and connections to containers.

use super::*;

fn pod(name: &str, node: Option<&str>, containers: &[&str]) -> Value {
    let containers: Vec<Value> = containers.iter().map(|name| json!({"name": name, "image": "i"})).collect();
    let mut pod = json!({"metadata": {"name": name}, "spec": {"containers": containers}});
    if let Some(node) = node {
        pod["spec"]["nodeName"] = json!(node);
    }
    pod
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
