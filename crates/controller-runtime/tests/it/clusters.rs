//! Additional clusters of a manager.

use std::{
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use controller_runtime::{
    Builder, Client, Kind, Manager, ManagerOptions, MapMeta, ObjectKey, ReconcileError,
    cache::{CacheOptions, Meta},
    client::ErrorKind,
    leader_election::LeaderElectionOptions,
    manager::{AddError, Cluster},
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_envtest::{Environment, eventually};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::{
    faults::{Fault, faulty},
    support::{NoteAll, Notes, Running, Widget, config_map, environment, key, manager, settle, widget},
};

/// A request that names its cluster. Its `Debug` form is `east/a`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct InCluster {
    cluster: &'static str,
    name: String,
}

impl fmt::Debug for InCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.cluster, self.name)
    }
}

/// Requests an object of `cluster` in namespace `default` by its name.
fn of(cluster: &'static str) -> MapMeta<impl Fn(&Meta) -> Option<InCluster> + Send + Sync + 'static> {
    MapMeta(move |meta: &Meta| is_ours(meta).then(|| InCluster { cluster, name: meta.name().to_owned() }))
}

/// Whether the test made the object, and not the API server for itself.
fn is_ours(meta: &Meta) -> bool {
    meta.namespace() == Some("default")
}

/// Adds a controller that notes the ConfigMaps of the home cluster and of two others.
fn watch_maps(manager: &Manager, east: &Cluster, west: &Cluster, notes: &NoteAll<InCluster>) {
    Builder::managed_by(manager)
        .for_requests::<InCluster>("maps")
        .watches(Kind::<ConfigMap, _>::new(of("home")))
        .watches(Kind::of(&east.cached::<ConfigMap>(), of("east")))
        .watches(Kind::of(&west.cached::<ConfigMap>(), of("west")))
        .complete(notes.clone())
        .unwrap();
}

/// The network to a cluster. While it is down requests get no answer, and open watches receive nothing more.
#[derive(Clone)]
struct Network {
    went_down: Arc<Mutex<CancellationToken>>,
}

impl Network {
    fn new() -> Self {
        Self { went_down: Arc::default() }
    }

    fn down(&self) {
        self.went_down.lock().unwrap().cancel();
    }

    fn up(&self) {
        *self.went_down.lock().unwrap() = CancellationToken::new();
    }

    fn to(&self, env: &Environment) -> kube::Client {
        let went_down = Arc::clone(&self.went_down);
        faulty(env.client(), move |seen| {
            let went_down = went_down.lock().unwrap().clone();
            match went_down.is_cancelled() {
                true => Fault::Hang,
                false if seen.is_watch() => Fault::SilentFrom(went_down),
                false => Fault::Pass,
            }
        })
    }
}

async fn create(env: &Environment, name: &str) {
    Client::new(env.client(), "other-client").create(&config_map(name)).await.unwrap();
}

/// Takes the notes, in order.
fn sorted(notes: &NoteAll<InCluster>) -> Vec<String> {
    let mut taken = notes.take();
    taken.sort();
    taken
}

fn same_name() -> MapMeta<impl Fn(&Meta) -> Option<ObjectKey<Widget>> + Send + Sync + 'static> {
    MapMeta(|meta: &Meta| is_ours(meta).then(|| key(meta.name())))
}

#[tokio::test(start_paused = true)]
async fn another_cluster_is_watched_and_written_to_as_long_as_the_manager_runs() {
    let (home, away) = (environment().await, environment().await);
    let (manager, notes) = (manager(&home), Notes::done());
    let east = manager.add_cluster("east", away.client(), CacheOptions::default()).unwrap();
    let widgets = east.cached::<Widget>();
    Builder::managed_by(&manager)
        .for_kind::<Widget>()
        .watches(Kind::of(&east.cached::<ConfigMap>(), same_name()))
        .complete(notes.clone())
        .unwrap();
    Client::new(away.client(), "test").create(&config_map("before")).await.unwrap();
    Client::new(home.client(), "test").create(&config_map("not-there")).await.unwrap();
    let running = Running::start(manager.clone()).await;
    settle().await;
    assert_eq!((east.name(), notes.names()), ("east", vec!["before".to_owned()]), "ready means complete");

    let stored = east.client().create(&widget("a", 1)).await.unwrap();
    let seen = widgets.get(&key("a")).unwrap().expect("an own write is seen at once");
    assert_eq!(seen.metadata.uid, stored.metadata.uid);
    assert!(manager.client().get(&key("a")).await.unwrap().is_none(), "it is in the other cluster");
    let metrics = manager.metrics().encode();
    for sample in ["cache_objects{resource=\"east/widgets.example.com\"} 1", "host=\"east\"} 1"] {
        assert!(metrics.contains(sample), "{sample} is not in {metrics}");
    }

    running.stop().await.unwrap();
    notes.clear();
    Client::new(away.client(), "test").create(&config_map("after")).await.unwrap();
    settle().await;
    assert!(notes.names().is_empty());
    let refused = manager.add_cluster("west", away.client(), CacheOptions::default()).unwrap_err();
    assert_eq!(refused, AddError::Stopping { name: "cluster west".to_owned() });
}

#[tokio::test(start_paused = true)]
async fn the_name_of_a_cluster_is_free_again_once_it_was_removed() {
    let (home, away) = (environment().await, environment().await);
    let manager = manager(&home);
    let add = || manager.add_cluster("east", away.client(), CacheOptions::default());
    let east = add().unwrap();
    assert_eq!(add().unwrap_err(), AddError::DuplicateCluster { name: "east".to_owned() });
    east.remove().await;
    add().unwrap();
}

/// One is down from the start on, one goes down later.
#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_down_affects_no_other_and_its_events_arrive_later() {
    let (home, in_east, in_west) = (environment().await, environment().await, environment().await);
    let (to_east, to_west) = (Network::new(), Network::new());
    to_east.down();
    let (manager, notes) = (manager(&home), NoteAll::<InCluster>::new());
    let east = manager.add_cluster("east", to_east.to(&in_east), CacheOptions::default()).unwrap();
    let west = manager.add_cluster("west", to_west.to(&in_west), CacheOptions::default()).unwrap();
    watch_maps(&manager, &east, &west, &notes);
    for env in [&home, &in_east, &in_west] {
        create(env, "first").await;
    }
    let running = Running::start(manager.clone()).await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(sorted(&notes), ["home/first", "west/first"]);

    sleep(Duration::from_secs(3600)).await;
    create(&home, "second").await;
    create(&in_west, "second").await;
    settle().await;
    assert_eq!(sorted(&notes), ["home/second", "west/second"], "the manager goes on");
    let trouble = east.trouble().expect("it is down");
    assert_eq!(trouble, "east/configmaps: list: the API server did not answer within 45 s");
    assert_eq!(west.trouble(), None);

    to_west.down();
    sleep(Duration::from_secs(3600)).await;
    create(&home, "third").await;
    create(&in_west, "third").await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!(sorted(&notes), ["home/third"]);

    to_east.up();
    sleep(Duration::from_secs(120)).await;
    assert_eq!(sorted(&notes), ["east/first"]);
    assert!(west.trouble().is_some());
    to_west.up();
    sleep(Duration::from_secs(120)).await;
    assert_eq!(sorted(&notes), ["west/third"]);
    assert_eq!((east.trouble(), west.trouble()), (None, None));
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn objects_of_a_cluster_that_is_removed_are_deleted_for_handlers_and_others_stay() {
    let (home, in_east, in_west) = (environment().await, environment().await, environment().await);
    let (manager, notes) = (manager(&home), NoteAll::<InCluster>::new());
    let [east, west] = [("east", &in_east), ("west", &in_west)]
        .map(|(name, env)| manager.add_cluster(name, env.client(), CacheOptions::default()).unwrap());
    watch_maps(&manager, &east, &west, &notes);
    for env in [&home, &in_east, &in_west] {
        create(env, "a").await;
        create(env, "b").await;
    }
    let running = Running::start(manager.clone()).await;
    settle().await;
    assert_eq!(notes.take().len(), 6);

    east.remove().await;
    settle().await;
    assert_eq!(sorted(&notes), ["east/a", "east/b"]);
    for env in [&home, &in_east, &in_west] {
        create(env, "c").await;
    }
    settle().await;
    assert_eq!(sorted(&notes), ["home/c", "west/c"]);
    assert!(!manager.metrics().encode().contains("cache_objects{resource=\"east/configmaps\"}"));
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn reads_and_writes_of_a_removed_cluster_fail_with_its_name() {
    let (home, away) = (environment().await, environment().await);
    let unanswered = faulty(away.client(), |seen| match seen.method {
        http::Method::POST => Fault::Hang,
        _ => Fault::Pass,
    });
    let manager = manager(&home);
    let east = manager.add_cluster("east", unanswered, CacheOptions::default()).unwrap();
    let (maps, client, other) = (east.cached::<ConfigMap>(), east.client(), east.ungated_client());
    let running = Running::start(manager.clone()).await;
    maps.synced().await;
    let widget = widget("a", 1);
    let (in_flight, ()) = tokio::join!(client.create(&widget), async {
        settle().await;
        east.clone().remove().await;
    });
    let cut = in_flight.unwrap_err();
    assert!(matches!(cut.kind(), ErrorKind::Interrupted(_)), "{cut:?}");
    for error in [cut, other.create(&widget).await.unwrap_err()] {
        let text = error.to_string();
        assert!(text.contains("cluster east was removed from the manager"), "{text}");
    }
    for error in [
        maps.get(&ObjectKey::new("default", "a")).unwrap_err(),
        maps.list().unwrap_err(),
        east.cached::<Widget>().get(&key("a")).unwrap_err(),
    ] {
        assert!(error.is_cluster_removed(), "{error}");
        assert!(ReconcileError::from(error).is_terminal());
    }
    maps.synced().await;
    assert!(!maps.has_synced());

    // Another cluster may have the name then.
    let again = manager.add_cluster("east", away.client(), CacheOptions::default()).unwrap();
    let maps = again.cached::<ConfigMap>();
    maps.synced().await;
    assert!(maps.get(&ObjectKey::new("default", "a")).unwrap().is_none());
    running.stop().await.unwrap();
}

/// A controller that begins later, or again, has not missed the deletions.
#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_removed_before_the_manager_runs_leaves_nothing_to_wait_for() {
    let (home, away) = (environment().await, environment().await);
    create(&away, "a").await;
    let (manager, notes) = (manager(&home), NoteAll::<InCluster>::new());
    let east = manager.add_cluster("east", away.client(), CacheOptions::default()).unwrap();
    let maps = east.cached::<ConfigMap>();
    Builder::managed_by(&manager)
        .for_requests::<InCluster>("maps")
        .watches(Kind::<ConfigMap, _>::new(of("home")))
        .watches(Kind::of(&maps, of("east")))
        .complete(notes.clone())
        .unwrap();
    let running = Running::start(manager.clone()).await;
    maps.synced().await;
    settle().await;
    running.stop().await.unwrap();
    assert_eq!(sorted(&notes), ["east/a"]);
    assert!(maps.get(&ObjectKey::new("default", "a")).unwrap().is_some(), "a stop is no removal");

    east.remove().await;
    let running = Running::start(manager).await;
    create(&home, "b").await;
    sleep(Duration::from_secs(3600)).await;
    assert_eq!((sorted(&notes), maps.stats().objects), (vec!["home/b".to_owned()], 0));
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_cluster_without_permission_is_reported_and_ends_nothing() {
    let (home, away) = (environment().await, environment().await);
    let forbidden = faulty(away.client(), |seen| match seen.is_about("configmaps") {
        true => Fault::Refuse(403, "Forbidden"),
        false => Fault::Pass,
    });
    let manager = manager(&home);
    let east = manager.add_cluster("east", forbidden, CacheOptions::default()).unwrap();
    let maps = east.cached::<ConfigMap>();
    let running = Running::start(manager.clone()).await;
    sleep(Duration::from_secs(3600)).await;
    assert!(east.trouble().expect("it must not be read").starts_with("east/configmaps: list: "));
    let error = maps.list().unwrap_err().to_string();
    assert!(
        error.contains("east/configmaps is not complete yet (list: a fault of the test (403); "),
        "{error}"
    );
    assert!(manager.metrics().encode().contains("cache_failures_total{resource=\"east/configmaps\"} "));
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_cluster_is_added_and_removed_while_the_manager_runs() {
    let (home, away) = (environment().await, environment().await);
    let (manager, notes) = (manager(&home), Notes::done());
    let handle = Builder::managed_by(&manager).for_kind::<Widget>().complete(notes.clone()).unwrap();
    let running = Running::start(manager.clone()).await;
    let east = manager.add_cluster("east", away.client(), CacheOptions::default()).unwrap();
    let maps = east.cached::<ConfigMap>();
    let watch = handle.watch(Kind::of(&maps, same_name()));
    watch.synced().await.unwrap();
    create(&away, "x").await;
    settle().await;
    assert_eq!(notes.names(), ["x"]);

    watch.remove().await;
    east.remove().await;
    create(&away, "y").await;
    settle().await;
    assert_eq!(notes.names(), ["x"], "nothing is delivered to a source that went before");
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn other_clusters_are_written_to_only_by_the_leader() {
    let (home, away) = (environment().await, environment().await);
    let election = LeaderElectionOptions::new("the-lease").identity("one");
    let manager = Manager::new(home.client(), ManagerOptions::new("test").seed(1).leader_election(election));
    let east = manager.add_cluster("east", away.client(), CacheOptions::default()).unwrap();
    let refused = east.client().create(&widget("a", 1)).await.unwrap_err();
    assert!(refused.to_string().contains("does not hold the lease"), "{refused}");
    east.ungated_client().create(&widget("a", 1)).await.unwrap();
    let _running = Running::start(manager).await;
    let written = eventually(Duration::from_secs(10), async || {
        let written = east.client().create(&widget("b", 1)).await;
        written.map_err(|error| error.to_string())
    });
    written.await.unwrap();
}
