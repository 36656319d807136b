//! The controller against an API server in this process, in paused time.

use std::time::Duration;

use controller_runtime::{
    Client, Manager, ManagerOptions, ObjectKey, leader_election::LeaderElectionOptions,
};
use k8s_openapi::{
    ByteString,
    api::core::v1::{Namespace, Secret},
};
use kube_envtest::{Environment, Rights};
use secret_sync::{REQUEST_LABEL, SOURCE_NAMESPACE, add_to};

async fn create_namespace(client: &Client, name: &str, wants: Option<&str>) {
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(name.to_owned());
    namespace.metadata.labels = wants.map(|secret| [(REQUEST_LABEL.to_owned(), secret.to_owned())].into());
    client.create(&namespace).await.expect("a new namespace");
}

fn secret(password: &str) -> Secret {
    let mut secret = Secret::default();
    secret.metadata.namespace = Some(SOURCE_NAMESPACE.to_owned());
    secret.metadata.name = Some("registry".to_owned());
    secret.data = Some([("password".to_owned(), ByteString(password.as_bytes().to_vec()))].into());
    secret
}

/// Permissions that no request uses here: an API server checks `create` when an applied object does not exist and `update` of
/// finalizers for owner references; `list` is needed on servers that do not stream lists, and `patch` of events when one repeats.
const UNUSED: [&str; 5] = [
    "create secrets",
    "list namespaces",
    "list secrets",
    "patch events.events.k8s.io",
    "update namespaces/finalizers",
];

fn password(secret: Option<&Secret>) -> Option<&[u8]> {
    Some(&secret?.data.as_ref()?.get("password")?.0)
}

#[tokio::test(start_paused = true)]
async fn a_secret_is_copied_to_requesting_namespaces_and_copies_follow_it() {
    let env = Environment::builder().start().await.expect("an API server starts");
    let manifests = include_str!("../manifests/rbac.yaml");
    let rights = Rights::of_manifests(manifests, "default").expect("manifests");
    let options = ManagerOptions::new("secret-sync").leader_election(LeaderElectionOptions::new("lease"));
    let manager = Manager::new(rights.client(env.client()), options);
    add_to(&manager).expect("it is the only controller");
    let declared = manager.declarations().roles("secret-sync", "default").manifest("secret-sync", "default");
    let declared = Rights::of_manifests(&declared, "default").expect("manifests");
    assert_eq!(declared.unused(), rights.unused(), "the manifests grant what the registrations need");
    let (client, secrets) = (Client::new(env.client(), "test"), manager.cached::<Secret>());
    create_namespace(&client, SOURCE_NAMESPACE, Some("registry")).await;
    create_namespace(&client, "red", Some("registry")).await;
    create_namespace(&client, "blue", None).await;

    let until = async |namespace: &str, wanted: &str| {
        let is_so = |secret: Option<&Secret>| password(secret) == Some(wanted.as_bytes());
        let key = ObjectKey::new(namespace, "registry");
        secrets.until(&key, is_so, Duration::from_secs(10)).await.expect("it is copied").expect("a secret")
    };
    let play = async {
        client.create(&secret("1234")).await.expect("a new secret");
        let copy = until("red", "1234").await;

        let mut changed = secret("5678");
        changed.metadata.resource_version = client
            .get(&ObjectKey::<Secret>::new(SOURCE_NAMESPACE, "registry"))
            .await
            .expect("an answer")
            .and_then(|secret| secret.metadata.resource_version);
        client.update(&changed).await.expect("the secret changes");
        until("red", "5678").await;

        client.delete(&*copy).any_version().await.expect("the copy can be deleted");
        let anew =
            |found: Option<&Secret>| found.is_some_and(|found| found.metadata.uid != copy.metadata.uid);
        let key = ObjectKey::new("red", "registry");
        secrets.until(&key, anew, Duration::from_secs(10)).await.expect("it is created again");
        until("red", "5678").await;

        create_namespace(&client, "green", Some("registry")).await;
        until("green", "5678").await;
        assert!(secrets.get(&ObjectKey::new("blue", "registry")).expect("it fits").is_none());
        let original = until(SOURCE_NAMESPACE, "5678").await;
        assert!(original.metadata.owner_references.is_none(), "the vault is left alone");
    };
    manager.clone().run(play).await.expect("the manager stops when the play is over");
    assert_eq!(rights.unused(), UNUSED);
}
