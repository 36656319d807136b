//! The controller against an API server in this process, in paused time: a day takes milliseconds, and delays are exact.

use std::time::Duration;

use controller_runtime::{
    Client, Manager, ManagerOptions, ObjectKey, leader_election::LeaderElectionOptions,
};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube_envtest::{Environment, Rights};
use metadata_watcher::{EXPIRES, add_to};
use tokio::time::Instant;

const HOUR: Duration = Duration::from_secs(3600);

/// Permissions that no request uses here: `list` is needed on servers that do not stream lists, `patch` of events when one
/// repeats.
const UNUSED: [&str; 2] = ["list secrets", "patch events.events.k8s.io"];

/// Creates a secret with an optional time of expiry.
async fn create(client: &Client, name: &str, expires: Option<&str>) -> Secret {
    let mut secret = Secret::default();
    secret.metadata.namespace = Some("default".to_owned());
    secret.metadata.name = Some(name.to_owned());
    secret.metadata.annotations = expires.map(|time| [(EXPIRES.to_owned(), time.to_owned())].into());
    client.create(&secret).await.expect("a new secret")
}

#[tokio::test(start_paused = true)]
async fn only_expired_secrets_are_deleted() {
    let env = Environment::builder().start().await.expect("an API server starts");
    let manifests = include_str!("../manifests/rbac.yaml");
    let rights = Rights::of_manifests(manifests, "default").expect("manifests");
    let options =
        ManagerOptions::new("metadata-watcher").leader_election(LeaderElectionOptions::new("lease"));
    let manager = Manager::new(rights.client(env.client()), options);
    add_to(&manager).expect("it is the only controller");
    let declared =
        manager.declarations().roles("metadata-watcher", "default").manifest("metadata-watcher", "default");
    let declared = Rights::of_manifests(&declared, "default").expect("manifests");
    assert_eq!(declared.unused(), rights.unused(), "the manifests grant what the registrations need");
    let (client, secrets) = (Client::new(env.client(), "test"), manager.cached::<Secret>());
    let play = async {
        let kept = create(&client, "kept", None).await;
        create(&client, "broken", Some("soon")).await;
        let now = kept.creation_timestamp().expect("it was created").0;
        let in_an_hour = now.checked_add(HOUR).expect("a time").to_string();
        create(&client, "goes", Some(&in_an_hour)).await;
        let began = Instant::now();
        let key = ObjectKey::new("default", "goes");
        secrets.until(&key, |secret| secret.is_some(), HOUR).await.expect("it is seen");
        let gone = |secret: Option<&Secret>| secret.is_none();
        secrets.until(&key, gone, 2 * HOUR).await.expect("it goes");
        // Timestamps of objects have whole seconds.
        assert!(began.elapsed().abs_diff(HOUR) <= Duration::from_secs(1), "{:?}", began.elapsed());
        let names: Vec<_> = secrets
            .list_lazy()
            .expect("it is complete")
            .iter()
            .map(|secret| secret.meta().name().to_owned())
            .collect();
        assert_eq!(names, ["broken", "kept"]);
    };
    manager.clone().run(play).await.expect("the manager stops when the play is over");
    assert_eq!(rights.unused(), UNUSED);
}
