//! Objects of a new cluster.

use std::net::SocketAddr;

use expect_test::expect;
use k8s_openapi::api::core::v1::{ConfigMap, Endpoints, Namespace, Service, ServiceAccount};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::flowcontrol::v1::{FlowSchema, PriorityLevelConfiguration};
use k8s_openapi::api::networking::v1::ServiceCIDR;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, PostParams};
use kube::{Client, Resource, ResourceExt};
use kube_apiserver_embedded::{ApiServer, Options, Profile, Tokens, UserInfo};

fn start(profile: Profile) -> (ApiServer, Client) {
    let server = ApiServer::start(Options::default().profile(profile));
    let client = Client::new(server.service(), "default");
    (server, client)
}

async fn names<K>(client: &Client) -> Vec<String>
where
    K: Resource<DynamicType = ()> + Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let all = Api::<K>::all(client.clone()).list(&ListParams::default()).await.unwrap();
    let shown = |object: &K| match object.namespace() {
        Some(namespace) => format!("{namespace}/{}", object.name_any()),
        None => object.name_any(),
    };
    all.items.iter().map(shown).collect()
}

#[tokio::test(start_paused = true)]
async fn a_server_begins_with_the_objects_of_every_cluster() {
    let (_server, client) = start(Profile::Envtest);
    assert_eq!(
        names::<Namespace>(&client).await,
        ["default", "kube-node-lease", "kube-public", "kube-system"]
    );
    for found in [
        names::<Service>(&client).await,
        names::<Endpoints>(&client).await,
        names::<EndpointSlice>(&client).await,
    ] {
        assert_eq!(found, ["default/kubernetes"]);
    }
    assert_eq!(names::<ConfigMap>(&client).await, [""; 0], "without a listener there are none");
    assert_eq!(names::<ServiceAccount>(&client).await, [""; 0], "no controller creates them in this profile");
    assert_eq!(names::<PriorityClass>(&client).await, ["system-cluster-critical", "system-node-critical"]);
    assert_eq!(
        names::<PriorityLevelConfiguration>(&client).await,
        [
            "catch-all",
            "exempt",
            "global-default",
            "leader-election",
            "node-high",
            "system",
            "workload-high",
            "workload-low",
        ]
    );
    let levels = names::<PriorityLevelConfiguration>(&client).await;
    let schemas = Api::<FlowSchema>::all(client.clone()).list(&ListParams::default()).await.unwrap().items;
    assert_eq!(schemas.len(), 11);
    for schema in schemas {
        assert!(levels.contains(&schema.spec.unwrap().priority_level_configuration.name));
    }
}

#[tokio::test(start_paused = true)]
async fn every_group_and_version_has_an_available_api_service() {
    let (_server, client) = start(Profile::Envtest);
    assert_eq!(names::<ServiceCIDR>(&client).await, ["kubernetes"]);
    let mut served = vec!["v1.".to_owned()];
    for group in client.list_api_groups().await.unwrap().groups {
        served.extend(group.versions.iter().map(|version| format!("{}.{}", version.version, group.name)));
    }
    served.sort();
    // The aggregator does not register itself.
    served.retain(|name| name != "v1.apiregistration.k8s.io");
    assert_eq!(names::<APIService>(&client).await, served);
    let services = Api::<APIService>::all(client.clone());
    for service in services.list(&ListParams::default()).await.unwrap() {
        let available = &service.status.as_ref().unwrap().conditions.as_ref().unwrap()[0];
        assert_eq!((&*available.type_, &*available.status), ("Available", "True"));
        assert_eq!(service.labels()["kube-aggregator.kubernetes.io/automanaged"], "onstart");
    }
    let apps = services.get("v1.apps").await.unwrap().spec.unwrap();
    expect![[r#"{"group":"apps","groupPriorityMinimum":17800,"version":"v1","versionPriority":15}"#]]
        .assert_eq(&serde_json::to_string(&apps).unwrap());
}

#[tokio::test(start_paused = true)]
async fn api_services_of_definitions_exist_as_long_as_the_definitions() {
    let (_server, client) = start(Profile::Envtest);
    let builtin = names::<APIService>(&client).await.len();
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    for plural in ["gadgets", "things"] {
        let version = |name: &str, storage: bool| {
            serde_json::json!({
                "name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": {"type": "object"}},
            })
        };
        let definition = serde_json::json!({
            "metadata": {"name": format!("{plural}.example.com")},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": {"plural": plural, "kind": plural},
                "versions": [version("v1", true), version("v1beta1", plural == "none")],
            },
        });
        let definition = serde_json::from_value(definition).unwrap();
        definitions.create(&PostParams::default(), &definition).await.unwrap();
        let registered = names::<APIService>(&client).await;
        assert_eq!(registered.len(), builtin + 2, "both definitions are of one group");
        assert!(registered.contains(&"v1.example.com".to_owned()));
        assert!(registered.contains(&"v1beta1.example.com".to_owned()));
    }
    let service = Api::<APIService>::all(client.clone()).get("v1.example.com").await.unwrap();
    assert_eq!(service.labels()["kube-aggregator.kubernetes.io/automanaged"], "true");
    let remove = async |name: &str| {
        definitions.delete(name, &DeleteParams::default()).await.unwrap();
        for _ in 0..1000 {
            if definitions.get_opt(name).await.unwrap().is_none() {
                return;
            }
        }
        panic!("{name} is still there");
    };
    remove("things.example.com").await;
    assert_eq!(names::<APIService>(&client).await.len(), builtin + 2, "there is the other one");
    remove("gadgets.example.com").await;
    assert_eq!(names::<APIService>(&client).await.len(), builtin);
}

#[tokio::test(start_paused = true)]
async fn every_binding_leads_to_a_role() {
    let (_server, client) = start(Profile::Envtest);
    let cluster_roles = names::<ClusterRole>(&client).await;
    let roles = names::<Role>(&client).await;
    assert_eq!((cluster_roles.len(), roles.len()), (69, 7));
    let bindings = Api::<ClusterRoleBinding>::all(client.clone()).list(&ListParams::default()).await.unwrap();
    assert_eq!(bindings.items.len(), 50);
    for binding in bindings {
        assert!(cluster_roles.contains(&binding.role_ref.name), "{}", binding.role_ref.name);
    }
    let local = Api::<RoleBinding>::all(client.clone()).list(&ListParams::default()).await.unwrap();
    assert_eq!(local.items.len(), 7);
    for binding in local {
        let role = format!("{}/{}", binding.namespace().unwrap(), binding.role_ref.name);
        assert!(roles.contains(&role), "{role}");
    }
    let all = Api::<ClusterRole>::all(client).get("cluster-admin").await.unwrap();
    expect![[
        r#"[{"apiGroups":["*"],"resources":["*"],"verbs":["*"]},{"nonResourceURLs":["*"],"verbs":["*"]}]"#
    ]]
    .assert_eq(&serde_json::json!(all.rules).to_string());
    assert_eq!(all.labels()["kubernetes.io/bootstrapping"], "rbac-defaults");
    assert_eq!(all.annotations()["rbac.authorization.kubernetes.io/autoupdate"], "true");
    let fields = all.metadata.managed_fields.as_ref().unwrap();
    assert_eq!(fields[0].manager.as_deref(), Some("kube-apiserver"));
    assert_eq!(fields[0].time, all.creation_timestamp(), "the time is that of the creation");
}

/// Aggregation is the work of a controller.
#[tokio::test(start_paused = true)]
async fn in_profile_dev_the_user_facing_roles_have_rules() {
    let (_server, client) = start(Profile::Dev);
    let roles: Api<ClusterRole> = Api::all(client);
    let count = async |name: &str| roles.get(name).await.unwrap().rules.unwrap_or_default().len();
    // `admin` includes `edit`, which includes `view`: the last one is complete after three rounds.
    let parts = count("system:aggregate-to-view").await
        + count("system:aggregate-to-edit").await
        + count("system:aggregate-to-admin").await;
    while count("admin").await < parts {
        tokio::task::yield_now().await;
    }
    assert!(count("view").await < count("edit").await && count("edit").await < parts);
    let view = roles.get("view").await.unwrap();
    let managers: Vec<_> =
        view.metadata.managed_fields.unwrap().into_iter().map(|entry| entry.manager.unwrap()).collect();
    assert_eq!(managers, ["clusterrole-aggregation-controller", "kube-apiserver"]);
    roles.delete("system:aggregate-to-view", &DeleteParams::default()).await.unwrap();
    while count("view").await > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn roles_that_select_each_other_get_the_same_rules_and_then_stay_as_they_are() {
    let (_server, client) = start(Profile::Dev);
    let roles: Api<ClusterRole> = Api::all(client);
    let role = |name: &str, selected: &str, rules: serde_json::Value| -> ClusterRole {
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": name, "labels": {(name): "x"}}, "rules": rules,
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {(selected): "x"}}]},
        }))
        .unwrap()
    };
    let part: ClusterRole = serde_json::from_value(serde_json::json!({
        "metadata": {"name": "part", "labels": {"one": "x"}},
        "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}],
    }))
    .unwrap();
    let none = serde_json::Value::Null;
    let all = [
        role("one", "two", none.clone()),
        role("two", "three", none.clone()),
        role("three", "one", none.clone()),
        role("self", "self", none),
        part,
    ];
    for role in &all {
        roles.create(&PostParams::default(), role).await.unwrap();
    }
    let state = async |name: &str| {
        let role = roles.get(name).await.unwrap();
        (role.rules.clone().unwrap_or_default().len(), role.resource_version().unwrap())
    };
    // The controller is done when the runtime is idle, which is when paused time advances.
    let settled = async || {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        [state("one").await, state("two").await, state("three").await, state("self").await]
    };
    let before = settled().await;
    assert_eq!(before.each_ref().map(|(rules, _)| *rules), [1, 1, 1, 0]);
    tokio::time::sleep(std::time::Duration::from_secs(600)).await;
    assert_eq!(settled().await, before);
    // The rules of a cycle keep each other: as in a cluster, they stay when their origin is deleted.
    roles.delete("part", &DeleteParams::default()).await.unwrap();
    assert_eq!(settled().await.each_ref().map(|(rules, _)| *rules), [1, 1, 1, 0]);
}

#[tokio::test(start_paused = true)]
async fn bindings_to_nothing_and_of_nobody_are_stored_and_grant_nothing() {
    let (server, client) = start(Profile::Envtest);
    let binding = |name: &str, role: &str, subjects: serde_json::Value| -> ClusterRoleBinding {
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": name}, "subjects": subjects,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        }))
        .unwrap()
    };
    let jane = serde_json::json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}]);
    let nobody = serde_json::json!([{"kind": "ServiceAccount", "namespace": "absent", "name": "absent"}]);
    let bindings: Api<ClusterRoleBinding> = Api::all(client);
    for binding in [
        binding("dangling", "absent", jane),
        binding("nobody", "cluster-admin", nobody),
        binding("empty", "cluster-admin", serde_json::Value::Null),
    ] {
        bindings.create(&PostParams::default(), &binding).await.unwrap();
    }
    let jane = UserInfo::new("jane", "", ["devs"]);
    let maps: Api<ConfigMap> = Api::all(Client::new(server.service_for(jane), "default"));
    let refused = maps.list(&ListParams::default()).await.unwrap_err().to_string();
    assert!(refused.contains("configmaps is forbidden: User \"jane\" cannot list resource"), "{refused}");
    assert!(
        refused.contains("RBAC: clusterrole.rbac.authorization.k8s.io \"absent\" not found"),
        "{refused}"
    );
}

#[tokio::test(start_paused = true)]
async fn admin_includes_edit_and_edit_includes_view() {
    let (_server, client) = start(Profile::Envtest);
    let roles: Api<ClusterRole> = Api::all(client);
    let mut summed = Vec::new();
    for name in ["admin", "edit", "view"] {
        let role = roles.get(name).await.unwrap();
        assert_eq!(role.rules, None, "no controller aggregates them in this profile");
        let selectors = role.aggregation_rule.unwrap().cluster_role_selectors.unwrap();
        let label = selectors[0].match_labels.as_ref().unwrap().keys().next().unwrap().clone();
        let parts = roles.list(&ListParams::default().labels(&format!("{label}=true"))).await.unwrap();
        let parts: Vec<String> = parts.iter().map(ResourceExt::name_any).collect();
        summed.push(format!("{name}: {}", parts.join(", ")));
    }
    assert_eq!(
        summed,
        [
            "admin: edit, system:aggregate-to-admin",
            "edit: system:aggregate-to-edit, view",
            "view: system:aggregate-to-view"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn in_profile_dev_every_namespace_has_a_service_account() {
    let (_server, client) = start(Profile::Dev);
    let namespace = Namespace {
        metadata: ObjectMeta { name: Some("shop".to_owned()), ..ObjectMeta::default() },
        ..Namespace::default()
    };
    Api::all(client.clone()).create(&PostParams::default(), &namespace).await.unwrap();
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "shop");
    let uid = async || loop {
        if let Some(account) = accounts.get_opt("default").await.unwrap() {
            break account.uid().unwrap();
        }
        tokio::task::yield_now().await;
    };
    let first = uid().await;
    accounts.delete("default", &DeleteParams::default()).await.unwrap();
    assert_ne!(uid().await, first, "it comes back");
    assert_eq!(names::<ServiceAccount>(&client).await.len(), 5);
    Api::<Namespace>::all(client.clone()).delete("shop", &DeleteParams::default()).await.unwrap();
    while names::<ServiceAccount>(&client).await.len() > 4 {
        tokio::task::yield_now().await;
    }
    assert_eq!(names::<Namespace>(&client).await.len(), 4, "and does not keep its namespace");
}

/// Returns the address in the Service, its Endpoints, its EndpointSlice and `/api`.
async fn places(client: &Client) -> [String; 4] {
    let service = Api::<Service>::default_namespaced(client.clone()).get("kubernetes").await.unwrap();
    let target = service.spec.unwrap().ports.unwrap().remove(0).target_port.unwrap();
    let endpoints = Api::<Endpoints>::default_namespaced(client.clone()).get("kubernetes").await.unwrap();
    let subset = endpoints.subsets.unwrap().remove(0);
    let slice = Api::<EndpointSlice>::default_namespaced(client.clone()).get("kubernetes").await.unwrap();
    let versions = client.list_core_api_versions().await.unwrap();
    [
        serde_json::to_string(&target).unwrap(),
        format!("{}:{}", subset.addresses.unwrap()[0].ip, subset.ports.unwrap()[0].port),
        format!(
            "{} {}:{}",
            slice.address_type,
            slice.endpoints.unwrap()[0].addresses[0],
            slice.ports.unwrap()[0].port.unwrap()
        ),
        versions.server_address_by_client_cidrs[0].server_address.clone(),
    ]
}

#[tokio::test]
async fn the_service_leads_to_the_listener_that_was_opened_last() {
    let (server, client) = start(Profile::Envtest);
    assert_eq!(
        places(&client).await,
        ["6443", "127.0.0.1:6443", "IPv4 127.0.0.1:6443", "127.0.0.1:6443"],
        "a server without a listener has to name something"
    );
    for address in ["127.0.0.1:0", "0.0.0.0:0"] {
        let address: SocketAddr = address.parse().unwrap();
        let admin = UserInfo::new("admin", "", ["system:masters"]);
        let server = if address.ip().is_loopback() {
            server.clone()
        } else {
            ApiServer::start(Options::default().tokens(Tokens::new().with("secret", admin)))
        };
        let client = Client::new(server.service(), "default");
        let listener = server.listen(address).await.unwrap();
        let port = listener.local_addr().port();
        let at = format!("127.0.0.1:{port}");
        assert_eq!(places(&client).await, [port.to_string(), at.clone(), format!("IPv4 {at}"), at]);
    }
    let before = Api::<EndpointSlice>::default_namespaced(client.clone()).get("kubernetes").await.unwrap();
    assert_eq!(before.metadata.generation, Some(2), "it was written anew once");
    let Ok(listener) = server.listen("[::1]:0".parse().unwrap()).await else {
        eprintln!("skipped: this machine has no IPv6");
        return;
    };
    let port = listener.local_addr().port();
    assert_eq!(
        places(&client).await,
        [port.to_string(), format!("::1:{port}"), format!("IPv6 ::1:{port}"), format!("[::1]:{port}")]
    );
    let after = Api::<EndpointSlice>::default_namespaced(client).get("kubernetes").await.unwrap();
    assert_ne!(after.uid(), before.uid(), "the type of a slice cannot be changed");
}
