//! Other clusters of a manager.

use std::time::Duration;

use controller_runtime::{
    Builder, Client, Kind, Manager, MapMeta, ObjectKey,
    cache::{self, Meta},
    leader_election,
    manager::{AddError, Options},
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_envtest::eventually;

use crate::{
    faults::{Fault, faulty},
    support::{Notes, Running, Widget, config_map, environment, key, manager, settle, widget},
};

fn same_name() -> MapMeta<impl Fn(&Meta) -> Option<ObjectKey<Widget>> + Send + Sync + 'static> {
    MapMeta(|meta: &Meta| Some(key(meta.name())))
}

#[tokio::test(start_paused = true)]
async fn another_cluster_is_watched_and_written_to_as_long_as_the_manager_runs() {
    let (home, away) = (environment().await, environment().await);
    let (manager, notes) = (manager(&home), Notes::done());
    let east = manager.add_cluster("east", away.client(), cache::Options::default()).unwrap();
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
    let refused = manager.add_cluster("west", away.client(), cache::Options::default()).unwrap_err();
    assert_eq!(refused, AddError::Stopping { name: "cluster west".to_owned() });
}

#[tokio::test(start_paused = true)]
async fn a_cluster_comes_and_goes_while_the_manager_runs() {
    let (home, away) = (environment().await, environment().await);
    let (manager, notes) = (manager(&home), Notes::done());
    let handle = Builder::managed_by(&manager).for_kind::<Widget>().complete(notes.clone()).unwrap();
    let running = Running::start(manager.clone()).await;
    let east = manager.add_cluster("east", away.client(), cache::Options::default()).unwrap();
    let maps = east.cached::<ConfigMap>();
    let watch = handle.watch(Kind::of(&maps, same_name()));
    watch.synced().await.unwrap();
    Client::new(away.client(), "test").create(&config_map("x")).await.unwrap();
    settle().await;
    assert_eq!(notes.names(), ["x"]);

    watch.remove().await;
    east.remove().await;
    Client::new(away.client(), "test").create(&config_map("y")).await.unwrap();
    settle().await;
    assert_eq!((notes.names().len(), maps.len().unwrap()), (1, 1), "nothing is told any more");
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_cannot_be_read_ends_the_manager_with_its_name() {
    let (home, away) = (environment().await, environment().await);
    let forbidden = faulty(away.client(), |seen| match seen.is_about("configmaps") {
        true => Fault::Refuse(403, "Forbidden"),
        false => Fault::Pass,
    });
    let manager = manager(&home);
    let east = manager.add_cluster("east", forbidden, cache::Options::default()).unwrap();
    let _maps = east.cached::<ConfigMap>();
    let error = manager.run(std::future::pending()).await.unwrap_err().to_string();
    assert!(error.contains("may not list and watch configmaps in cluster east: "), "{error}");
}

#[tokio::test(start_paused = true)]
async fn other_clusters_are_written_to_only_by_the_leader() {
    let (home, away) = (environment().await, environment().await);
    let election = leader_election::Options::new("the-lease").identity("one");
    let manager = Manager::new(home.client(), Options::new("test").seed(1).leader_election(election));
    let east = manager.add_cluster("east", away.client(), cache::Options::default()).unwrap();
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
