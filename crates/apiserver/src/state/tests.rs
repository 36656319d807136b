//! Commits, their observers and their side changes.

use serde_json::json;

use super::*;
use crate::kinds::builtin::service::pool::ServiceRange;
use crate::store::HistoryLimits;
use crate::testing;

#[tokio::test]
async fn observers_see_each_commit_and_may_commit_as_well() {
    struct Mirror;
    impl CommitObserver for Mirror {
        fn committed(&self, cluster: &ClusterState, storage: &StorageKey, _key: &Key) {
            if storage.plural == "originals" {
                put(cluster, "copies");
            }
        }
    }
    fn put(cluster: &ClusterState, plural: &str) {
        let storage = StorageKey::core(plural);
        cluster.open(&storage);
        let change = Change::Put(Document::new(&json!({"metadata": {"name": "a"}}), 0, 0));
        let done = cluster.commit_unguarded(&storage, &Key::new("", "a"), None, change);
        assert!(done.is_ok());
    }
    let contents = InitialState::of(Store::new(HistoryLimits::default()), None);
    let cluster = ClusterState::new(
        0,
        Clock::new(None),
        Registry::default(),
        contents,
        vec![Box::new(Mirror)],
        WebhookClient::new(None),
        Arc::new(Services::new(ServiceRange::default(), 0, BTreeMap::new())),
    );
    put(&cluster, "originals");
    let copies = StorageKey::core("copies");
    assert_eq!(cluster.read(|store| store.snapshot(&copies).len()), 1);
}

#[tokio::test]
async fn a_commit_changes_other_objects_too_or_nothing() {
    const MAPS: &str = "/api/v1/namespaces/default/configmaps";
    let server = testing::server();
    for name in ["a", "b"] {
        testing::create(&server, MAPS, &json!({"metadata": {"name": name}})).unwrap();
    }
    let served = testing::call(&server, MAPS).served;
    let storage = served.storage();
    let key = |name: &str| Key::new("default", name);
    let stored = |name: &str| server.read(|store| store.get(storage, &key(name)).cloned()).unwrap();
    let changed = |name: &str| {
        let mut map = served.value(&stored(name));
        map["data"] = json!({"changed": "yes"});
        served.document(&map)
    };
    let commit = |expected: u64| {
        let other = SideChange { storage: storage.clone(), key: key("b"), object: changed("b") };
        let change = Change::Put(changed("a"));
        let guard = |_: &Store<StorageKey>| Ok::<_, Infallible>(vec![other]);
        server.commit_with(storage, &key("a"), Some(expected), change, guard)
    };
    let seen = Arc::new(Mutex::new(Vec::new()));
    let tapped = Arc::clone(&seen);
    assert!(
        server.set_tap(Box::new(move |commit| tapped.lock().push((commit.name.clone(), commit.revision))))
    );
    let (a, b) = (stored("a").revision, stored("b").revision);
    assert!(matches!(commit(a + 100), Err(Refused::Conflict)));
    assert_eq!(stored("b").revision, b, "a conflict changes nothing");
    let revision = commit(a).unwrap().revision;
    assert_eq!(stored("b").revision, revision - 1, "the other object changes first");
    assert_eq!(*seen.lock(), [("b".to_owned(), revision - 1), ("a".to_owned(), revision)]);
}
