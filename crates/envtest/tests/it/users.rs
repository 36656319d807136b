//! Users with the rights of manifests: enforcement and reports.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube_envtest::{Assets, Cluster, Environment, Transport, UserError};
use serde_json::{Value, json};

const RULES: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: manager}
rules:
- {apiGroups: [""], resources: [configmaps], verbs: [create, patch, delete]}
- {apiGroups: [""], resources: [configmaps/finalizers], verbs: [update]}
- {nonResourceURLs: [/metrics, /logs/*], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: manager}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: manager}
subjects: [{kind: ServiceAccount, name: manager, namespace: system}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: leader, namespace: system}
rules:
- {apiGroups: [coordination.k8s.io], resources: [leases], resourceNames: [lock], verbs: [get, update]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: leader, namespace: system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: leader}
subjects: [{kind: ServiceAccount, name: manager, namespace: system}]
"#;

fn code<T>(answer: Result<T, kube::Error>) -> u16 {
    match answer {
        Ok(_) => 200,
        Err(kube::Error::Api(status)) => status.code,
        Err(error) => panic!("{error}"),
    }
}

async fn get(client: &kube::Client, path: &str) -> u16 {
    code(client.request_text(http::Request::get(path).body(Vec::new()).expect("a request")).await)
}

async fn apply(client: &kube::Client, object: &Value) -> u16 {
    let maps = Api::<ConfigMap>::namespaced(client.clone(), "default");
    let name = object["metadata"]["name"].as_str().expect("a name");
    code(maps.patch(name, &PatchParams::apply("test"), &Patch::Apply(object)).await)
}

#[tokio::test]
async fn a_service_account_may_do_what_the_manifests_grant_it_and_nothing_else() {
    for transport in [Transport::InProcess, Transport::Tcp("127.0.0.1:0".parse().unwrap())] {
        let env = Environment::builder().transport(transport).start().await.unwrap();
        let account = env.service_account("system", "manager").with_manifest_text(RULES).await.unwrap();
        let client = account.client();
        assert_eq!(
            (account.name(), client.default_namespace()),
            ("system:serviceaccount:system:manager", "system")
        );
        assert_eq!(account.kubeconfig().is_some(), env.kubeconfig().is_some());

        let owner = serde_json::from_value(json!({"metadata": {"name": "o"}})).unwrap();
        let maps = Api::<ConfigMap>::namespaced(env.client(), "default");
        let uid = maps.create(&PostParams::default(), &owner).await.unwrap().metadata.uid;
        let owned = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "ownerReferences": [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": uid, "blockOwnerDeletion": true}]}});
        assert_eq!(apply(&client, &owned).await, 200);
        assert_eq!(code(Api::<Secret>::namespaced(client.clone(), "shop").get("x").await), 403);
        assert_eq!(get(&client, "/logs/a").await, 404);
        assert_eq!(get(&client, "/debug/pprof").await, 403);
        assert_eq!(get(&client, "/version").await, 200, "every user may");
        let lease = "/apis/coordination.k8s.io/v1/namespaces/system/leases";
        assert_eq!(get(&client, &format!("{lease}/lock")).await, 404);
        assert_eq!(get(&client, &format!("{lease}/other")).await, 403);
        assert_eq!(get(&client, "/apis/coordination.k8s.io/v1/namespaces/default/leases/lock").await, 403);

        let rights = account.rights().expect("the server is embedded");
        assert!(!rights.is_exact());
        assert_eq!(
            rights.to_string(),
            "rights of system:serviceaccount:system:manager: 5 used, 4 missing, 3 superfluous\
             \n  missing      get secrets in shop\
             \n  missing      get leases.coordination.k8s.io in default\
             \n  missing      get leases.coordination.k8s.io in system\
             \n  missing      get /debug/pprof\
             \n  superfluous  delete configmaps\
             \n  superfluous  update leases.coordination.k8s.io \"lock\" in system\
             \n  superfluous  get /metrics"
        );
        let error = account.check_rights().expect_err("requests were refused");
        assert_eq!(
            error.to_string(),
            "the API server refused requests of system:serviceaccount:system:manager, which lacks: get secrets in shop, \
             get leases.coordination.k8s.io in default, get leases.coordination.k8s.io in system, get /debug/pprof"
        );
    }
}

#[tokio::test]
async fn users_with_equal_manifests_have_rights_of_their_own() {
    let env = Environment::builder().start().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("rbac.yaml"), RULES).unwrap();
    std::fs::write(folder.path().join("kustomization.yaml"), "resources: [rbac.yaml]").unwrap();
    let first = env.user("first").with_manifests(folder.path()).await.unwrap();
    let second = env.user("second").with_manifests(folder.path()).await.unwrap();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    assert_eq!((apply(&first.client(), &map).await, apply(&second.client(), &map).await), (200, 200));
    let used = |user: &kube_envtest::User| {
        user.rights().unwrap().used.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(used(&first), ["create configmaps", "patch configmaps"]);
    assert_eq!(used(&second), ["patch configmaps"], "the object existed");
    assert_eq!(second.check_rights(), Ok(()));
    let third = env.user("third").with_groups(["devs"]).await.unwrap();
    assert_eq!(apply(&third.client(), &map).await, 403);
}

/// The rights of an apply that creates an object, in the audits of the embedded server and of a kube-apiserver, if the binaries are
/// configured.
#[tokio::test(flavor = "multi_thread")]
async fn an_apply_without_the_right_to_create_lacks_that_right() {
    let mut clusters = vec![Cluster::Embedded];
    if Assets::are_configured() {
        clusters.push(Cluster::Binaries(Assets::from_env().unwrap()));
    } else {
        eprintln!("skipped for a kube-apiserver: KUBEBUILDER_ASSETS is not set");
    }
    for cluster in clusters {
        let env = Environment::builder().cluster(cluster).user("jane", ["devs"]).start().await.unwrap();
        let rules = json!([
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch"]},
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"], "resourceNames": ["mine"]},
        ]);
        let objects = [
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r"}, "rules": rules}),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "b"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}}),
        ];
        let jane = env.user("jane").with_objects(&objects).await.unwrap();
        let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        assert_eq!(apply(&jane.client(), &map("mine")).await, 200);
        assert_eq!(jane.check_rights(), Ok(()));
        assert_eq!(apply(&jane.client(), &map("other")).await, 403);
        assert_eq!(
            jane.rights().expect("an audit").to_string(),
            "rights of jane: 2 used, 1 missing, 0 superfluous\n  missing      create configmaps in default"
        );
        env.stop().await.unwrap();
    }
}

#[tokio::test]
async fn rights_of_objects_in_memory_are_exact_if_each_is_needed() {
    let env = Environment::builder().user("jane", ["devs"]).start().await.unwrap();
    let objects = [
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r"},
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "b"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}}),
    ];
    let jane = env.user("jane").with_objects(&objects).await.unwrap();
    let maps = Api::<ConfigMap>::namespaced(jane.client(), "default");
    assert!(!jane.rights().unwrap().is_exact());
    maps.list(&ListParams::default()).await.unwrap();
    jane.rights().unwrap().assert_exact();
}

#[tokio::test]
async fn manifests_that_grant_nothing_are_refused() {
    let env = Environment::builder().start().await.unwrap();
    let error = async |text: &str| {
        env.user("jane").with_manifest_text(text).await.expect_err("the manifests are wrong").to_string()
    };
    let broken = error("kind: [").await;
    assert!(broken.starts_with("the text does not contain Kubernetes objects: "), "{broken}");
    let unbound = RULES.split("---").next().unwrap();
    assert_eq!(
        error(unbound).await,
        "no binding of the manifests names jane: they contain none with subjects"
    );
    assert_eq!(
        error(&RULES.replace("kind: ClusterRole, name: manager", "kind: ClusterRole, name: gone")).await,
        "ClusterRoleBinding manager refers to ClusterRole gone, which neither the manifests nor the cluster has"
    );
    let misspelt = error(&RULES.replace("resourceNames", "resourceName")).await;
    assert!(
        misspelt.starts_with("the API server rejected Role system/jane:leader: ")
            && misspelt.contains("resourceName"),
        "{misspelt}"
    );
    let other = env.service_account("other", "manager").with_manifest_text(RULES).await.unwrap_err();
    assert_eq!(
        other.to_string(),
        "no binding of the manifests names system:serviceaccount:other:manager: they name ServiceAccount system/manager"
    );
    let folder = tempfile::tempdir().unwrap();
    let empty = env.user("jane").with_manifests(folder.path()).await.unwrap_err();
    assert!(matches!(&empty, UserError::Empty { path } if path == folder.path()), "{empty}");
}
