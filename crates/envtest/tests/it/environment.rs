//! Features of an environment, and its cleanup.

use std::time::Duration;

use k8s_openapi::api::{
    authentication::v1::SelfSubjectReview,
    core::v1::{ConfigMap, Namespace, ServiceAccount},
    rbac::v1::RoleBinding,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api,
    api::{ListParams, PostParams},
};
use kube_envtest::{
    Assets, Builder, Cluster, Environment, StartError, Transport, consistently_object, eventually_gone,
    eventually_list, eventually_object, eventually_update, eventually_update_status, install_crds, read_crds,
    uninstall_crds,
};
use tokio::{runtime::Handle, time::Instant};

fn config_map(name: &str, theme: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map.data = Some([("theme".to_owned(), theme.to_owned())].into());
    map
}

fn widgets() -> Vec<CustomResourceDefinition> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("widgets.yaml");
    let yaml = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
        metadata: {name: widgets.example.com}\nspec:\n  group: example.com\n  scope: Namespaced\n\
        \x20 names: {kind: Widget, plural: widgets, singular: widget, listKind: WidgetList}\n  versions:\n\
        \x20 - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}\n";
    std::fs::write(&file, yaml).unwrap();
    read_crds(&file).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_failed_expectation_has_its_last_error_and_prints_the_object() {
    let env = Environment::builder().start().await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(env.client(), "default");
    let blue = |map: &ConfigMap| match map.data.as_ref().and_then(|data| data.get("theme")) {
        Some(theme) if theme == "blue" => Ok(()),
        theme => Err(format!("the theme is {theme:?}")),
    };
    let within = Duration::from_secs(1);
    let unmet = eventually_object(&maps, "settings", within, blue).await.unwrap_err();
    assert_eq!(unmet.last, "there is no settings at /api/v1/namespaces/default/configmaps");
    assert_eq!(unmet.object, None);

    maps.create(&PostParams::default(), &config_map("settings", "roses")).await.unwrap();
    let unmet = eventually_object(&maps, "settings", within, blue).await.unwrap_err();
    let text = unmet.to_string();
    assert!(text.starts_with("condition not met after 1s: the theme is Some(\"roses\")\n"), "{text}");
    assert!(text.contains("\n  theme: roses\n") && !text.contains("managedFields"), "{text}");

    let unmet = consistently_object(&maps, "settings", within, blue).await.unwrap_err();
    assert!(unmet.object.is_some_and(|object| object.contains("theme: roses")));
    let unmet = eventually_gone(&maps, "settings", within).await.unwrap_err();
    assert_eq!((unmet.last.as_str(), unmet.object.is_some()), ("settings is still there", true));
    maps.delete("settings", &kube::api::DeleteParams::default()).await.unwrap();
    eventually_gone(&maps, "settings", within).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_update_is_retried_until_the_api_server_accepts_it() {
    let env = Environment::builder().start().await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(env.client(), "default");
    let (within, set) = (Duration::from_secs(5), |map: &mut ConfigMap, theme: &str| {
        map.data.get_or_insert_default().insert("theme".to_owned(), theme.to_owned());
    });
    let unmet = eventually_update(&maps, "settings", within, |map| set(map, "blue")).await.unwrap_err();
    assert_eq!(unmet.last, "there is no settings at /api/v1/namespaces/default/configmaps");

    // The object is created late, and another client changes it between a read and its update, twice.
    let waits = eventually_update(&maps, "settings", within, |map| set(map, "blue"));
    let comes = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        maps.create(&PostParams::default(), &config_map("settings", "roses")).await.unwrap();
    };
    assert_eq!(tokio::join!(waits, comes).0.unwrap().data.unwrap()["theme"], "blue");
    let mut stale = maps.get("settings").await.unwrap();
    stale.metadata.resource_version = Some("1".to_owned());
    let mut tries = 0;
    let stored = eventually_update(&maps, "settings", within, |map| {
        tries += 1;
        if tries < 3 {
            map.metadata.resource_version.clone_from(&stale.metadata.resource_version);
        }
        set(map, "green");
    });
    assert_eq!(stored.await.unwrap().data.unwrap()["theme"], "green");
    assert_eq!(tries, 3);
    let never = eventually_update(&maps, "settings", within, |map| {
        map.metadata.resource_version.clone_from(&stale.metadata.resource_version);
        set(map, "red");
    });
    let unmet = never.await.unwrap_err();
    assert!(
        unmet.last.starts_with("settings cannot be written: ")
            && unmet.object.unwrap().contains("theme: red")
    );
}

#[tokio::test(start_paused = true)]
async fn a_status_is_updated_separately() {
    let env = Environment::builder().start().await.unwrap();
    let namespaces: Api<Namespace> = Api::all(env.client());
    let stored = eventually_update_status(&namespaces, "default", Duration::from_secs(5), |namespace| {
        namespace.metadata.labels = Some([("team".to_owned(), "red".to_owned())].into());
        let condition = serde_json::json!({ "type": "Tested", "status": "True" });
        namespace.status.get_or_insert_default().conditions =
            Some(vec![serde_json::from_value(condition).unwrap()]);
    });
    let status = stored.await.unwrap().status.unwrap();
    assert_eq!(status.conditions.unwrap()[0].type_, "Tested");
}

#[tokio::test(start_paused = true)]
async fn a_list_is_awaited_and_printed_if_it_differs() {
    let env = Environment::builder().crds(widgets()).start().await.unwrap();
    let definitions: Api<CustomResourceDefinition> = Api::all(env.client());
    let within = Duration::from_secs(1);
    let one = |found: &[CustomResourceDefinition]| {
        if found.len() == 1 { Ok(()) } else { Err("not one".to_owned()) }
    };
    eventually_list(&definitions, &ListParams::default(), within, one).await.unwrap();

    let maps: Api<ConfigMap> = Api::namespaced(env.client(), "default");
    for number in 0..12 {
        maps.create(&PostParams::default(), &config_map(&format!("map-{number}"), "roses")).await.unwrap();
    }
    let blue = ListParams::default().fields("metadata.name!=map-0");
    let unmet = eventually_list(&maps, &blue, within, |found| match found.len() {
        0 => Ok(()),
        count => Err(format!("there are {count}")),
    });
    let unmet = unmet.await.unwrap_err();
    let printed = unmet.object.unwrap();
    assert_eq!((unmet.last.as_str(), printed.matches("theme: roses").count()), ("there are 11", 10));
    assert!(printed.ends_with("---\n# and 1 more\n"), "{printed}");
}

#[tokio::test]
async fn each_test_has_a_namespace_that_is_deleted_with_its_contents() {
    let env = Environment::builder().start().await.unwrap();
    let (one, two) = tokio::join!(env.namespace("widgets"), env.namespace("widgets"));
    let (one, two) = (one.unwrap(), two.unwrap());
    assert_ne!(one.name(), two.name());
    assert!(one.name().starts_with("widgets-"));
    let maps: Api<ConfigMap> = Api::namespaced(env.client(), one.name());
    maps.create(&PostParams::default(), &config_map("settings", "roses")).await.unwrap();
    let name = one.name().to_owned();
    one.delete().await.unwrap();
    assert!(maps.get_opt("settings").await.unwrap().is_none());
    let namespaces: Api<Namespace> = Api::all(env.client());
    assert!(namespaces.get_opt(&name).await.unwrap().is_none());
    assert!(namespaces.get_opt(two.name()).await.unwrap().is_some());
}

#[tokio::test]
async fn definitions_are_installed_and_removed() {
    let env = Environment::builder().start().await.unwrap();
    let crds = widgets();
    install_crds(&env.client(), &crds).await.unwrap();
    let list = http::Request::get("/apis/example.com/v1/widgets").body(Vec::new()).unwrap();
    env.client().request_text(list.clone()).await.expect("they are served");
    uninstall_crds(&env.client(), &crds).await.unwrap();
    env.client().request_text(list).await.expect_err("they are gone");
    uninstall_crds(&env.client(), &crds).await.expect("what is not there need not go");
}

/// Returns the name and groups under which the API server authenticates a client.
async fn who_is(client: kube::Client) -> (String, Vec<String>) {
    let reviews: Api<SelfSubjectReview> = Api::all(client);
    let review = reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await.unwrap();
    let user = review.status.unwrap().user_info.unwrap();
    (user.username.unwrap(), user.groups.unwrap_or_default())
}

#[tokio::test(start_paused = true)]
async fn a_definition_must_be_served_within_the_time_limit() {
    let mut twin = widgets().remove(0); // claims the names of an installed kind
    twin.metadata.name = Some("gadgets.example.com".to_owned());
    (twin.spec.names.plural, twin.spec.names.singular) = ("gadgets".to_owned(), Some("gadget".to_owned()));
    let start = async |wait: Option<Duration>| {
        let builder = Environment::builder().crds(widgets()).crds([twin.clone()]);
        let (begun, builder) = (Instant::now(), wait.into_iter().fold(builder, Builder::crds_within));
        (builder.start().await.unwrap_err().to_string(), begun.elapsed().as_secs())
    };
    let (text, waited) = start(Some(Duration::from_secs(60))).await;
    let expected =
        "the CustomResourceDefinition gadgets.example.com is not served after 60s: NamesAccepted=False";
    assert!(text.starts_with(expected), "{text}");
    assert_eq!(waited, 60);
    assert_eq!(start(None).await.1, 10, "the limit of Go");
}

#[tokio::test]
async fn users_have_credentials_of_their_own_in_process_and_over_tcp() {
    for transport in [Transport::InProcess, Transport::Tcp("127.0.0.1:0".parse().unwrap())] {
        let env = Environment::builder()
            .transport(transport)
            .user("system:sa jane", ["devs"])
            .start()
            .await
            .unwrap();
        let jane = env.user("system:sa jane").await.unwrap();
        assert!(jane.rights().is_none(), "it has no manifests");
        assert_eq!(jane.kubeconfig().is_some(), env.kubeconfig().is_some());
        let (name, groups) = who_is(jane.client()).await;
        assert_eq!(name, "system:sa jane");
        assert!(groups.contains(&"devs".to_owned()) && !groups.contains(&"system:masters".to_owned()));
        let (name, groups) = who_is(env.client()).await;
        assert_ne!(name, "system:sa jane");
        assert!(groups.contains(&"system:masters".to_owned()), "{groups:?}");
    }
}

#[tokio::test]
async fn a_request_without_a_token_is_refused_if_there_are_users() {
    let tcp = Transport::Tcp("127.0.0.1:0".parse().unwrap());
    let env = Environment::builder().transport(tcp).user("jane", ["devs"]).start().await.unwrap();
    let url = env.listener().unwrap().url().parse().unwrap();
    let nobody = kube::Client::try_from(kube::Config::new(url)).unwrap();
    let refused = Api::<ServiceAccount>::all(nobody).list(&ListParams::default()).await.unwrap_err();
    assert!(matches!(&refused, kube::Error::Api(status) if status.code == 403), "{refused}");
}

#[tokio::test]
async fn an_existing_cluster_is_used_and_cleaned_up_when_asked() {
    let tcp = Transport::Tcp("127.0.0.1:0".parse().unwrap());
    let cluster = Environment::builder().transport(tcp).start().await.unwrap();
    let url: http::Uri = cluster.listener().unwrap().url().parse().unwrap();
    let existing = || Cluster::Existing(Box::new(kube::Config::new(url.clone())));

    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("crd.json"), serde_json::to_string(&widgets()[0]).unwrap()).unwrap();
    let env =
        Environment::builder().cluster(existing()).crds_from(folder.path()).clean_up().start().await.unwrap();
    assert!(env.embedded().is_none() && env.kubeconfig().is_none());
    let crds: Api<CustomResourceDefinition> = Api::all(cluster.client());
    assert!(crds.get_opt("widgets.example.com").await.unwrap().is_some());
    env.stop().await.unwrap();
    assert!(crds.get_opt("widgets.example.com").await.unwrap().is_none());

    let refused =
        Environment::builder().cluster(existing()).user("jane", ["devs"]).start().await.unwrap_err();
    assert!(matches!(&refused, StartError::UserOfExistingCluster { user } if user == "jane"), "{refused}");
}

#[tokio::test]
async fn nothing_is_left_of_an_environment() {
    let before = Handle::current().metrics().num_alive_tasks();
    let tcp = Transport::Tcp("127.0.0.1:0".parse().unwrap());
    let env = Environment::builder().transport(tcp).user("jane", ["devs"]).start().await.unwrap();
    let address = env.listener().unwrap().local_addr();
    env.namespace("left").await.unwrap();
    assert!(Handle::current().metrics().num_alive_tasks() > before);
    drop(env);
    // Cancelled tasks end when they are next polled.
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(Handle::current().metrics().num_alive_tasks(), before);
    std::net::TcpListener::bind(address).expect("the port is free again");
}

#[tokio::test]
async fn environments_are_independent() {
    let mut all = tokio::task::JoinSet::new();
    for number in 0..8 {
        all.spawn(async move {
            let env = Environment::builder().start().await.unwrap();
            let maps: Api<ConfigMap> = Api::namespaced(env.client(), "default");
            maps.create(&PostParams::default(), &config_map(&format!("map-{number}"), "x")).await.unwrap();
            maps.list(&ListParams::default()).await.unwrap().items.len()
        });
    }
    while let Some(count) = all.join_next().await {
        assert_eq!(count.unwrap(), 1);
    }
}

/// Skipped, with a message, if the binaries are not configured.
#[tokio::test(flavor = "multi_thread")]
async fn a_real_control_plane_starts_serves_and_leaves_nothing() {
    if !Assets::are_configured() {
        eprintln!("skipped: KUBEBUILDER_ASSETS is not set");
        return;
    }
    let assets = Assets::from_env().unwrap();
    let env = Environment::builder()
        .cluster(Cluster::Binaries(assets))
        .user("jane", ["devs"])
        .start()
        .await
        .unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(env.client(), "default");
    maps.create(&PostParams::default(), &config_map("settings", "roses")).await.unwrap();
    let forbidden = Api::<ConfigMap>::namespaced(env.user("jane").await.unwrap().client(), "default");
    let error = forbidden.get("settings").await.unwrap_err();
    assert!(matches!(&error, kube::Error::Api(status) if status.code == 403), "{error}");
    let (name, groups) = who_is(env.user("jane").await.unwrap().client()).await;
    assert_eq!((&*name, groups.contains(&"devs".to_owned())), ("jane", true), "{groups:?}");
    env.stop().await.unwrap();
}

#[tokio::test]
async fn a_client_for_another_user_has_the_permissions_that_roles_grant() {
    let env = Environment::builder().start().await.unwrap();
    let maps = |client: kube::Client| Api::<ConfigMap>::namespaced(client, "default");
    let jane = env.client_for("jane", ["devs"]);
    let (name, groups) = who_is(jane.clone()).await;
    assert_eq!((&*name, groups), ("jane", vec!["devs".to_owned(), "system:authenticated".to_owned()]));
    let refused = maps(jane.clone()).list(&ListParams::default()).await.unwrap_err();
    assert!(matches!(&refused, kube::Error::Api(status) if status.code == 403), "{refused}");
    let binding = serde_json::json!({
        "metadata": {"name": "devs"}, "subjects": [{"kind": "Group", "name": "devs", "apiGroup": "rbac.authorization.k8s.io"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:aggregate-to-edit"},
    });
    let binding: RoleBinding = serde_json::from_value(binding).unwrap();
    Api::namespaced(env.client(), "default").create(&PostParams::default(), &binding).await.unwrap();
    maps(jane.clone()).create(&PostParams::default(), &config_map("settings", "roses")).await.unwrap();
    let elsewhere = Api::<ConfigMap>::namespaced(jane, "kube-system");
    assert!(elsewhere.create(&PostParams::default(), &config_map("settings", "roses")).await.is_err());
}
