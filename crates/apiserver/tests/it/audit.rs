//! Audit of requests: users, order, and permissions.

use expect_test::{Expect, expect};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube_apiserver_embedded::{AdmissionPlugin, ApiServer, Options, UserInfo};
use serde_json::{Value, json};

/// Starts a server on which `jane` has the permissions of `rules`, each written as `verbs group/resources`.
struct Cluster {
    server: ApiServer,
    admin: kube::Client,
    jane: kube::Client,
}

async fn cluster(options: Options, rules: &[&str]) -> Cluster {
    let server = ApiServer::start(options);
    let admin = kube::Client::new(server.service(), "default");
    let rules: Vec<Value> = rules
        .iter()
        .map(|rule| {
            let (verbs, about) = rule.split_once(' ').expect("it succeeds");
            let (group, resources) = about.split_once('/').expect("it succeeds");
            let list = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
            json!({"verbs": list(verbs), "apiGroups": [group], "resources": list(resources)})
        })
        .collect();
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"}, "rules": rules,
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "b"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}],
    });
    Api::<k8s_openapi::api::rbac::v1::ClusterRole>::all(admin.clone())
        .create(&PostParams::default(), &serde_json::from_value(role).expect("it succeeds"))
        .await
        .expect("it succeeds");
    Api::<k8s_openapi::api::rbac::v1::ClusterRoleBinding>::all(admin.clone())
        .create(&PostParams::default(), &serde_json::from_value(binding).expect("it succeeds"))
        .await
        .expect("it succeeds");
    let jane = kube::Client::new(server.service_for(UserInfo::new("jane", "", [""; 0])), "default");
    Cluster { server, admin, jane }
}

fn map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}})).expect("it succeeds")
}

#[expect(clippy::needless_pass_by_value, reason = "`expect!` returns values")]
fn check(events: impl ToString, expected: Expect) {
    expected.assert_eq(&events.to_string());
}

/// Formats the checks of all events, one per line.
fn checks(audit: &kube_apiserver_embedded::audit::AuditLog) -> String {
    let events = audit.take();
    let lines = events.iter().flat_map(|event| event.checks.iter().map(ToString::to_string));
    lines.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn requests_are_recorded_in_order_with_user_and_code() {
    let Cluster { server, admin, jane } = cluster(Options::default(), &["create,get /configmaps"]).await;
    let audit = server.audit();
    let maps = Api::<ConfigMap>::default_namespaced(jane.clone());
    maps.create(&PostParams::default(), &map("a")).await.unwrap();
    let mut generated = map("");
    generated.metadata.name = None;
    generated.metadata.generate_name = Some("g-".into());
    let name = maps.create(&PostParams::default(), &generated).await.unwrap().metadata.name.unwrap();
    maps.get("a").await.unwrap();
    maps.get("missing").await.unwrap_err();
    maps.list(&ListParams::default()).await.unwrap_err();
    jane.apiserver_version().await.unwrap();
    Api::<Namespace>::all(admin).get("default").await.unwrap();
    let text = audit.to_string().replace(&name, "g-…");
    check(
        text,
        expect![[r#"
            jane: create configmaps default/a: 201
            jane: create configmaps default/g-…: 201
            jane: get configmaps default/a: 200
            jane: get configmaps default/missing: 404
            jane: list configmaps default/: 403
            jane: get /version: 200
            system:admin: get namespaces default: 200
        "#]],
    );
    assert_eq!(audit.take().len(), 7);
    assert!(audit.events().is_empty() && audit.dropped() == 0);
}

#[tokio::test]
async fn an_event_names_the_rule_that_allowed_the_request() {
    let Cluster { server, jane, .. } =
        cluster(Options::default(), &["list /pods", "get /secrets,configmaps"]).await;
    let audit = server.audit();
    let maps = Api::<ConfigMap>::default_namespaced(jane.clone());
    maps.get("a").await.unwrap_err();
    maps.delete("a", &Default::default()).await.unwrap_err();
    check(
        checks(&audit),
        expect![[r#"
            jane may get resource "configmaps" in API group "" in the namespace "default", by ClusterRoleBinding "b" of ClusterRole "r" to User "jane", rule {APIGroups:[""], Resources:["secrets" "configmaps"], Verbs:["get"]}
            jane may not delete resource "configmaps" in API group "" in the namespace "default""#]],
    );
}

#[tokio::test]
async fn an_apply_of_a_new_object_needs_permission_to_create_it() {
    let Cluster { server, admin, jane } = cluster(Options::default(), &["patch /configmaps"]).await;
    let audit = server.audit();
    let apply = async |client: &kube::Client| {
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
        let maps = Api::<ConfigMap>::default_namespaced(client.clone());
        maps.patch("a", &PatchParams::apply("test"), &Patch::Apply(body)).await
    };
    let refused = apply(&jane).await.unwrap_err().to_string();
    assert!(
        refused.contains("configmaps \"a\" is forbidden: User \"jane\" cannot create resource"),
        "{refused}"
    );
    check(
        checks(&audit),
        expect![[r#"
            jane may patch resource "configmaps" in API group "" in the namespace "default", by ClusterRoleBinding "b" of ClusterRole "r" to User "jane", rule {APIGroups:[""], Resources:["configmaps"], Verbs:["patch"]}
            jane may not create resource "configmaps" in API group "" in the namespace "default""#]],
    );
    apply(&admin).await.unwrap();
    drop(audit.take());
    apply(&jane).await.unwrap();
    assert!(!checks(&audit).contains("create"), "the object exists");
}

/// A ConfigMap owned by a ConfigMap, as controllers write it.
fn owned(name: &str, owner: &ConfigMap) -> ConfigMap {
    let metadata = &owner.metadata;
    serde_json::from_value(json!({"metadata": {"name": name, "ownerReferences": [{
        "apiVersion": "v1", "kind": "ConfigMap", "name": metadata.name, "uid": metadata.uid,
        "controller": true, "blockOwnerDeletion": true,
    }]}}))
    .expect("an object")
}

#[tokio::test]
async fn permissions_for_owner_references_are_recorded_while_they_are_not_required() {
    let Cluster { server, admin, jane } =
        cluster(Options::default(), &["create,update,get /configmaps"]).await;
    let owner =
        Api::<ConfigMap>::default_namespaced(admin).create(&PostParams::default(), &map("o")).await.unwrap();
    let audit = server.audit();
    let maps = Api::<ConfigMap>::default_namespaced(jane);
    let mut created = maps.create(&PostParams::default(), &owned("a", &owner)).await.unwrap();
    created.metadata.owner_references = None;
    maps.replace("a", &PostParams::default(), &created).await.unwrap();
    let checks = checks(&audit);
    let noted: Vec<&str> = checks.lines().filter(|line| line.contains("not required")).collect();
    check(
        noted.join("\n"),
        expect![[r#"
            jane may not update resource "configmaps/finalizers" in API group "" in the namespace "default" (not required by this server)
            jane may not delete resource "configmaps" in API group "" in the namespace "default" (not required by this server)"#]],
    );
}

#[tokio::test]
async fn permissions_for_owner_references_are_required_with_the_plugin() {
    let options =
        Options::default().enable_admission_plugin(AdmissionPlugin::OwnerReferencesPermissionEnforcement);
    let Cluster { admin, jane, .. } = cluster(options, &["create,update,get /configmaps"]).await;
    let owner = Api::<ConfigMap>::default_namespaced(admin.clone())
        .create(&PostParams::default(), &map("o"))
        .await
        .unwrap();
    let maps = Api::<ConfigMap>::default_namespaced(jane);
    let refused = maps.create(&PostParams::default(), &owned("a", &owner)).await.unwrap_err();
    let kube::Error::Api(refused) = refused else { panic!("{refused}") };
    check(
        refused.message,
        expect![[
            r#"configmaps "a" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: , <nil>"#
        ]],
    );
    let all = Api::<ConfigMap>::default_namespaced(admin);
    let mut created = all.create(&PostParams::default(), &owned("a", &owner)).await.unwrap();
    created.metadata.owner_references = None;
    let refused = maps.replace("a", &PostParams::default(), &created).await.unwrap_err().to_string();
    assert!(refused.contains("cannot set an ownerRef on a resource you can't delete: , <nil>"), "{refused}");
    created.metadata.owner_references = owned("a", &owner).metadata.owner_references;
    maps.replace("a", &PostParams::default(), &created).await.expect("its owner is unchanged");
}

#[tokio::test]
async fn impersonated_and_impersonating_user_are_recorded() {
    let Cluster { server, .. } = cluster(Options::default(), &[]).await;
    let audit = server.audit();
    let request = http::Request::get("/api/v1/namespaces/default/pods")
        .header("impersonate-user", "jane")
        .body(kube::client::Body::empty())
        .unwrap();
    kube::Client::new(server.service(), "default").send(request).await.unwrap();
    check(
        &audit,
        expect![[r#"
        system:admin as jane: list pods default/: 403
    "#]],
    );
    assert_eq!(audit.events()[0].acting_user().name, "jane");
}
