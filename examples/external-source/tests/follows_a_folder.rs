//! The controller against an API server in this process, in paused time.

use std::{fs, time::Duration};

use controller_runtime::{
    Client, Manager, ManagerOptions, ObjectKey, leader_election::LeaderElectionOptions,
};
use external_source::{NAMESPACE, add_to};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_envtest::{Environment, Rights};

/// Permissions that no request uses here: an API server checks `create` when an applied object does not exist; `list` is
/// needed on servers that do not stream lists, and `patch` of events when an event repeats.
const UNUSED: [&str; 3] = ["create configmaps", "list configmaps", "patch events.events.k8s.io"];

/// The text of a ConfigMap, if there is one.
fn text(map: Option<&ConfigMap>) -> Option<&str> {
    Some(map?.data.as_ref()?.get("text")?)
}

#[tokio::test(start_paused = true)]
async fn config_maps_follow_files_and_other_changes_are_reverted() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("welcome.txt");
    fs::write(&file, "hello").expect("a file");
    for unusable in ["-a", "a-", "a.", ".a", "a..b", "a.-b", "a-.b", "A", "a_b", "é"] {
        fs::write(folder.path().join(unusable), "no ConfigMap can have this name").expect("a file");
    }
    let env = Environment::builder().start().await.expect("an API server starts");
    let manifests = include_str!("../manifests/rbac.yaml");
    let rights = Rights::of_manifests(manifests, "default").expect("manifests");
    let options = ManagerOptions::new("external-source").leader_election(LeaderElectionOptions::new("lease"));
    let manager = Manager::new(rights.client(env.client()), options);
    add_to(&manager, folder.path()).expect("it is the only controller");
    let declared =
        manager.declarations().roles("external-source", "default").manifest("external-source", "default");
    let declared = Rights::of_manifests(&declared, "default").expect("manifests");
    assert_eq!(declared.unused(), rights.unused(), "the manifests grant what the registrations need");

    let (client, maps) = (Client::new(env.client(), "test"), manager.cached::<ConfigMap>());
    let key = ObjectKey::new(NAMESPACE, "welcome.txt");
    let until = async |wanted: Option<&str>| {
        let is_so = |map: Option<&ConfigMap>| text(map) == wanted;
        maps.until(&key, is_so, Duration::from_secs(10)).await.expect("it follows")
    };
    let play = async {
        let map = until(Some("hello")).await.expect("a ConfigMap");
        fs::write(&file, "hello again").expect("a change");
        until(Some("hello again")).await;
        client.delete(&*map).any_version().await.expect("it can be deleted");
        let anew =
            |found: Option<&ConfigMap>| found.is_some_and(|found| found.metadata.uid != map.metadata.uid);
        maps.until(&key, anew, Duration::from_secs(10)).await.expect("it is created again");
        until(Some("hello again")).await;
        fs::remove_file(&file).expect("the file goes");
        until(None).await;
        let overview = manager.overview();
        assert!(overview.iter().all(|controller| controller.failing.is_empty()), "{overview:?}");
    };
    manager.clone().run(play).await.expect("the manager stops when the play is over");
    assert_eq!(rights.unused(), UNUSED);
}

#[tokio::test(start_paused = true)]
async fn a_missing_folder_ends_the_operator_with_an_error_that_names_it() {
    let env = Environment::builder().start().await.expect("an API server starts");
    let manager = Manager::new(env.client(), ManagerOptions::new("external-source"));
    let folder = tempfile::tempdir().expect("a folder").path().join("missing");
    add_to(&manager, &folder).expect("it is the only controller");
    let error = manager.run(std::future::pending::<()>()).await.expect_err("there is no folder");
    let text = format!("{error:?}");
    assert!(text.contains(&format!("cannot list the files of {}", folder.display())), "{text}");
}
