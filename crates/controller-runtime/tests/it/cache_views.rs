//! Views of the same objects: as other types, as metadata, as results of a function, and by owner.

use controller_runtime::{Cached, Client, Manager, ManagerOptions, Object, ObjectKey, cache::CacheOptions};
use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::OwnerReference};
use kube::{Resource, ResourceExt};
use serde::Deserialize;
use serde_json::json;

use crate::support::{Running, Widget, config_map, environment, key, manager, settle, widget};

/// The fields of a widget that a reader needs.
#[derive(Debug, PartialEq, Deserialize)]
struct Slim {
    spec: SlimSpec,
}

#[derive(Debug, PartialEq, Deserialize)]
struct SlimSpec {
    size: u8,
}

#[tokio::test(start_paused = true)]
async fn a_view_converts_the_cached_objects_and_decodes_nothing_else() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    for (name, size) in [("b", 2), ("a", 1)] {
        let mut widget = widget(name, size);
        widget.metadata.annotations = Some([("note".to_owned(), name.to_owned())].into());
        client.create(&widget).await.unwrap();
    }
    let manager = manager(&env);
    let (widgets, own) = (manager.cached::<Widget>(), manager.client());
    let (slim, metadata) = (widgets.view::<Slim>(), widgets.metadata());
    let tenfold = widgets.transformed(|widget| widget.spec.size * 10);
    let _running = Running::start(manager).await;
    let of_size = |size: u8| Slim { spec: SlimSpec { size } };

    assert_eq!(slim.get(&key("a")).unwrap(), Some(of_size(1)));
    assert_eq!(slim.get(&key("c")).unwrap(), None);
    assert_eq!(slim.list().unwrap(), [of_size(1), of_size(2)]);
    let note = |name: &str| Some(metadata.get(&key(name)).unwrap()?.annotations()["note"].clone());
    assert_eq!((note("a").as_deref(), note("c")), (Some("a"), None));
    let names: Vec<_> = metadata.list().unwrap().iter().map(ResourceExt::name_any).collect();
    assert_eq!((names, widgets.stats().decodes), (vec!["a".to_owned(), "b".to_owned()], 0));
    assert_eq!((tenfold.get(&key("b")).unwrap(), tenfold.get(&key("c")).unwrap()), (Some(20), None));
    assert_eq!((tenfold.list().unwrap(), widgets.stats().decodes), (vec![10, 20], 3), "it takes them whole");

    own.merge_patch(&key("a"), &json!({ "spec": { "size": 7 } })).await.unwrap();
    assert_eq!(slim.clone().list().unwrap(), [of_size(7), of_size(2)], "our own write");
    client.delete_key(&key("b")).await.unwrap();
    settle().await;
    assert_eq!((slim.get(&key("b")).unwrap(), tenfold.list().unwrap()), (None, vec![70]));

    own.merge_patch(&key("a"), &json!({ "spec": { "size": 700 } })).await.unwrap();
    let error = slim.get(&key("a")).expect_err("that is no u8");
    assert_eq!(error.decode_error().unwrap().path(), "spec.size");
    assert!(slim.list().is_err() && widgets.list().is_ok(), "it fits its own type");
    assert_eq!(widgets.stats().unreadable, 0);
}

fn owner(owner: &Widget) -> OwnerReference {
    owner.owner_ref(&()).expect("the server gave it a name and a uid")
}

fn owned(name: &str, owners: &[&Widget]) -> ConfigMap {
    let mut map = config_map(name);
    map.metadata.owner_references = Some(owners.iter().map(|widget| owner(widget)).collect());
    map
}

/// Returns the names of the config maps that a widget owns.
fn names<O: Object>(maps: &Cached<ConfigMap>, owner: &O) -> Vec<String> {
    let lazy: Vec<_> =
        maps.owned_by_lazy(owner).unwrap().iter().map(|map| map.meta().name().to_owned()).collect();
    let decoded: Vec<_> = maps.owned_by(owner).unwrap().iter().map(|map| map.name_any()).collect();
    assert_eq!(lazy, decoded);
    lazy
}

#[tokio::test(start_paused = true)]
async fn owned_objects_are_found_by_uid_and_follow_every_change() {
    let env = environment().await;
    let client = Client::new(env.client(), "other-client");
    let one = client.create(&widget("one", 1)).await.unwrap();
    let two = client.create(&widget("two", 1)).await.unwrap();
    for map in [owned("b", &[&one]), owned("a", &[&one, &two]), owned("c", &[&two]), config_map("free")] {
        client.create(&map).await.unwrap();
    }
    let manager = manager(&env);
    let (maps, own) = (manager.cached::<ConfigMap>(), manager.client());
    let _running = Running::start(manager).await;
    assert_eq!(maps.owned_by_lazy(&one).unwrap().len(), 2);
    assert_eq!(maps.stats().decodes, 0, "metadata tell");
    assert_eq!(names(&maps, &one), ["a", "b"]);
    assert_eq!(names(&maps, &two), ["a", "c"]);
    assert_eq!(names(&maps, &widget("one", 1)), [""; 0], "an owner without a uid owns nothing");
    let mut namesake = one.clone();
    namesake.metadata.uid = Some("another".to_owned());
    assert_eq!(names(&maps, &namesake), [""; 0]);

    own.create(&owned("d", &[&one])).await.unwrap();
    let key = |name: &str| ObjectKey::<ConfigMap>::new("default", name);
    own.merge_patch(&key("b"), &json!({ "metadata": { "ownerReferences": [owner(&two)] } })).await.unwrap();
    assert_eq!(names(&maps, &one), ["a", "d"]);
    assert_eq!(names(&maps, &two), ["a", "b", "c"]);
    client.delete_key(&key("a")).await.unwrap();
    client.delete_key(&key("d")).await.unwrap();
    settle().await;
    assert_eq!(names(&maps, &one), [""; 0]);
    assert_eq!(names(&maps, &two), ["b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn managed_fields_are_cached_only_on_request() {
    let env = environment().await;
    let other = Client::new(env.client(), "other-client");
    other.apply(&widget("watched", 1)).await.unwrap();
    other.create(&config_map("watched")).await.unwrap();
    let cache = CacheOptions::default().keep_managed_fields::<Widget>();
    let manager = Manager::new(env.client(), ManagerOptions::new("test").seed(1).cache(cache));
    let (widgets, maps) = (manager.cached::<Widget>(), manager.cached::<ConfigMap>());
    let own = manager.client();
    let _running = Running::start(manager).await;
    own.apply(&widget("written", 1)).await.unwrap();
    own.create(&config_map("written")).await.unwrap();
    for _ in 0..2 {
        for (name, by) in [("watched", "other-client"), ("written", "test")] {
            let widget = widgets.get(&key(name)).unwrap().unwrap();
            let managers: Vec<_> =
                widget.managed_fields().iter().filter_map(|entry| entry.manager.as_deref()).collect();
            assert_eq!(managers, [by], "{name}");
            let map = maps.get(&ObjectKey::new("default", name)).unwrap().unwrap();
            assert!(map.managed_fields().is_empty(), "{name}");
        }
        settle().await; // the watch delivers the write
    }
    assert_eq!(widgets.metadata().list().unwrap()[0].managed_fields().len(), 1);
}
