//! Permissions of a client against an embedded API server.

use http::Request;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, api::ListParams};

use super::Rights;
use crate::Environment;

const MANIFESTS: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reader}
rules:
- {nonResourceURLs: [/metrics, /logs/*], verbs: [get]}
- {apiGroups: [""], resources: [configmaps], verbs: [list, delete]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader, namespace: elsewhere}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader}
"#;

/// Returns the HTTP code of the answer to a GET.
async fn code(client: &kube::Client, path: &str) -> u16 {
    let request = Request::get(path).body(Vec::new()).expect("a request");
    match client.request_text(request).await {
        Ok(_) => 200,
        Err(kube::Error::Api(status)) => status.code,
        Err(error) => panic!("{path}: {error}"),
    }
}

#[tokio::test]
async fn granted_requests_pass_and_count_as_used() {
    let env = Environment::builder().start().await.expect("an API server");
    let rights = Rights::of_manifests(MANIFESTS, "default").expect("manifests");
    let client = rights.client(env.client());
    for path in ["/version", "/api", "/apis/apps/v1", "/openapi/v3", "/livez"] {
        assert_ne!(code(&client, path).await, 403, "every authenticated user may read {path}");
    }
    let all = ["delete configmaps", "get /logs/*", "get /metrics", "list configmaps"];
    assert_eq!(rights.unused(), all, "default permissions of authenticated users do not count as used");

    assert_ne!(code(&client, "/metrics").await, 403);
    assert_eq!(code(&client, "/debug/pprof").await, 403);
    Api::<ConfigMap>::all(client.clone()).list(&ListParams::default()).await.expect("a list");
    let refused = Api::<ConfigMap>::default_namespaced(client).get("a").await.expect_err("not allowed");
    let message = "configmaps is forbidden: the manifests do not allow to get resource \"configmaps\" in API group \"\" in \
                the namespace \"default\"";
    assert!(refused.to_string().contains(message), "{refused}");
    assert_eq!(rights.unused(), ["delete configmaps", "get /logs/*"]);
}

#[tokio::test]
async fn a_role_binding_grants_no_paths() {
    let env = Environment::builder().start().await.expect("an API server");
    let text = MANIFESTS.replace("ClusterRoleBinding", "RoleBinding");
    let client = Rights::of_manifests(&text, "default").expect("manifests").client(env.client());
    assert_eq!(code(&client, "/metrics").await, 403);
    Api::<ConfigMap>::default_namespaced(client.clone()).list(&ListParams::default()).await.expect("a list");
    assert!(Api::<ConfigMap>::all(client).list(&ListParams::default()).await.is_err());
}
