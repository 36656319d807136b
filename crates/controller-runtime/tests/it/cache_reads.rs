//! Reads of a cache: by key, selection and index, as other types, and of unreadable objects.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use controller_runtime::{
    Action, Builder, Cached, Client, Context, Event, Manager, ObjectKey,
    cache::{self, UntilError},
    predicate::Changed,
    reconcile,
};
use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::support::{Running, Widget, config_map, environment, key, manager, settle, widget};

/// Creates config maps with kinds of flowers.
#[derive(kube::Resource, Debug, Clone, Serialize, Deserialize)]
#[resource(inherit = ConfigMap)]
struct Flowers {
    metadata: ObjectMeta,
    data: Option<BTreeMap<String, Flower>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Flower {
    Roses,
    Tulips,
}

fn planted(name: &str, flower: &str) -> ConfigMap {
    ConfigMap { data: Some([("bed".to_owned(), flower.to_owned())].into()), ..config_map(name) }
}

fn metric(manager: &Manager, name: &str) -> Option<String> {
    let text = manager.metrics().encode();
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.rsplit_once(' ').map(|(_, value)| value.to_owned())
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_object_is_an_error_for_its_readers_alone() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    client.create(&planted("a", "roses")).await.unwrap();
    client.create(&planted("b", "cactus")).await.unwrap();
    let manager = manager(&env);
    let flowers = manager.cache().of::<Flowers>().fields("metadata.name!=kube-root-ca.crt").build().unwrap();
    let _running = Running::start(manager.clone()).await;
    let key = |name: &str| ObjectKey::<Flowers>::new("default", name);
    let bed = |name: &str| flowers.get(&key(name)).map(|map| map.unwrap().data.as_ref().unwrap()["bed"]);
    assert_eq!(bed("a").unwrap(), Flower::Roses);
    let error = bed("b").unwrap_err();
    assert_eq!(error.decode_error().unwrap().path(), "data.bed");
    assert!(error.to_string().starts_with("configmaps default/b (version "), "{error}");
    assert!(flowers.list().is_err(), "leaving it out would look as if it did not exist");
    assert_eq!(flowers.list_lazy().unwrap().len(), 2);
    let selector = "metadata.name!=kube-root-ca.crt";
    let unreadable =
        format!("controller_runtime_cache_unreadable_total{{resource=\"configmaps where {selector}\"}}");
    assert_eq!(metric(&manager, &unreadable).as_deref(), Some("1"));

    client.create(&planted("c", "tulips")).await.unwrap();
    let name = ObjectKey::<ConfigMap>::new("default", "b");
    client.merge_patch(&name, &json!({ "data": { "bed": "tulips" } })).await.unwrap();
    settle().await;
    assert_eq!((bed("b").unwrap(), bed("c").unwrap()), (Flower::Tulips, Flower::Tulips));
    assert_eq!(flowers.list().unwrap().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_change_passes_predicates_and_fails_its_reconcile() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    let manager = manager(&env);
    let flowers = manager.cached::<Flowers>();
    type State = (Cached<Flowers>, Arc<Mutex<Vec<String>>>);
    let look = async |(flowers, seen): &State, key: &ObjectKey<Flowers>, _: &Context| {
        let read = flowers.get(key);
        let flower = read.map(|map| map.map(|map| map.data.as_ref().unwrap()["bed"]));
        seen.lock().unwrap().push(flower.as_ref().map_or("error".to_owned(), |flower| format!("{flower:?}")));
        Ok(Action::done())
    };
    let seen = Arc::<Mutex<Vec<String>>>::default();
    Builder::managed_by(&manager)
        .for_kind::<Flowers>()
        .with_predicate(|event: &Event<Flowers>| event.meta().name() == "a")
        .with_predicate(Changed::of(|map: &Flowers| &map.data))
        .complete(reconcile::from_fn_with((flowers, Arc::clone(&seen)), look))
        .unwrap();
    let _running = Running::start(manager).await;
    client.create(&planted("a", "roses")).await.unwrap();
    settle().await;
    let key = ObjectKey::<ConfigMap>::new("default", "a");
    let mut patches = vec![json!({ "metadata": { "labels": { "a": "b" } } })];
    patches.extend(["cactus", "thistle", "tulips"].map(|flower| json!({ "data": { "bed": flower } })));
    patches.push(json!({ "metadata": { "labels": { "a": "c" } } }));
    for patch in patches {
        client.merge_patch(&key, &patch).await.unwrap();
        settle().await;
    }
    let roses_and_tulips = ["Some(Roses)", "error", "error", "Some(Tulips)"];
    assert_eq!(
        *seen.lock().unwrap(),
        roses_and_tulips,
        "neither change of the labels is a change of the data"
    );
}

#[tokio::test(start_paused = true)]
async fn objects_are_found_by_namespace_and_labels_in_the_order_of_their_keys() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    for (namespace, name, tier) in [
        ("kube-system", "a", "front"),
        ("default", "b", "front"),
        ("default", "a", "back"),
        ("default", "c", "middle"),
    ] {
        let mut widget = widget(name, 1);
        widget.metadata.namespace = Some(namespace.to_owned());
        widget.metadata.labels = Some([("tier".to_owned(), tier.to_owned())].into());
        client.create(&widget).await.unwrap();
    }
    let manager = manager(&env);
    let widgets = manager.cached::<Widget>();
    let _running = Running::start(manager).await;
    let found = |selector: &str, namespace: Option<&str>| -> String {
        let selection = widgets.select().labels(&selector.parse().unwrap());
        let selection = match namespace {
            Some(namespace) => selection.namespace(namespace),
            None => selection,
        };
        assert_eq!(selection.list().unwrap().len(), selection.keys().unwrap().len());
        selection.keys().unwrap().iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(found("", None), "default/a default/b default/c kube-system/a");
    assert_eq!(found("", Some("default")), "default/a default/b default/c");
    assert_eq!(found("tier=front", None), "default/b kube-system/a");
    assert_eq!(found("tier in (front,back)", Some("default")), "default/a default/b");
    assert_eq!(found("tier,tier!=front", None), "default/a default/c");
    assert_eq!(found("", Some("nowhere")), "");
    let first = |selection: cache::Selection<'_, Widget>| {
        selection.limit(2).keys().unwrap().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(first(widgets.select()), ["default/a", "default/b"]);
    assert_eq!(first(widgets.select().namespace("kube-system")), ["kube-system/a"]);
    assert_eq!(widgets.stats().decodes, 8, "twice each, however often they are read");
}

#[tokio::test(start_paused = true)]
async fn an_index_follows_every_change_and_visits_only_matches() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    for number in 0..50 {
        client.create(&widget(&format!("w{number:02}"), number % 5)).await.unwrap();
    }
    let manager = manager(&env);
    let (widgets, own) = (manager.cached::<Widget>(), manager.client());
    let looked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&looked);
    let by_size = widgets.index(move |widget| {
        counted.fetch_add(1, SeqCst);
        Some(widget.spec.size)
    });
    let _running = Running::start(manager).await;
    assert_eq!((by_size.get(&3).unwrap().len(), looked.swap(0, SeqCst)), (10, 50));
    assert_eq!(by_size.values().unwrap(), [0, 1, 2, 3, 4]);
    let sizes = |range: (Bound<i32>, Bound<i32>)| {
        by_size.range(range).unwrap().iter().map(|widget| widget.spec.size).collect::<BTreeSet<_>>()
    };
    assert_eq!(sizes((Bound::Included(1), Bound::Excluded(3))), [1, 2].into());
    assert_eq!(sizes((Bound::Excluded(3), Bound::Unbounded)), [4].into());
    assert_eq!(
        sizes((Bound::Included(3), Bound::Included(2))),
        [].into(),
        "from after to before there is nothing"
    );
    assert_eq!(by_size.range_lazy(..=1).unwrap().len(), 20);

    let size = |size: i32| json!({ "spec": { "size": size } });
    client.merge_patch(&key("w03"), &size(9)).await.unwrap();
    settle().await;
    let names = |size: &i32| -> Vec<String> {
        by_size.keys(size).unwrap().iter().map(|key| key.name().to_owned()).collect()
    };
    assert_eq!((names(&3).len(), names(&9), looked.swap(0, SeqCst)), (9, vec!["w03".to_owned()], 1));
    own.merge_patch(&key("w08"), &size(9)).await.unwrap();
    assert_eq!(names(&9), ["w03", "w08"], "our own writes are indexed at once");
    client.delete_key(&key("w03")).await.unwrap();
    client.delete_key(&key("w08")).await.unwrap();
    settle().await;
    assert!(names(&9).is_empty() && !by_size.values().unwrap().contains(&9));

    let late = widgets.index_by_meta(|meta| Some(meta.name().len()));
    assert_eq!(
        (late.values().unwrap(), late.get_lazy(&3).unwrap().len()),
        (vec![3], 48),
        "it knows the present at once"
    );
}

#[tokio::test(start_paused = true)]
async fn indexes_combine_with_each_other_namespace_labels_and_limit() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    for (namespace, name, tier, size) in [
        ("default", "a", "front", 1),
        ("default", "b", "back", 1),
        ("default", "c", "front", 2),
        ("default", "d", "front", 1),
        ("kube-system", "a", "front", 1),
        ("kube-system", "b", "back", 2),
    ] {
        let mut widget = widget(name, size);
        widget.metadata.namespace = Some(namespace.to_owned());
        widget.metadata.labels = Some([("tier".to_owned(), tier.to_owned())].into());
        client.create(&widget).await.unwrap();
    }
    let manager = manager(&env);
    let (widgets, own) = (manager.cached::<Widget>(), manager.client());
    let by_size = widgets.index(|widget| Some(widget.spec.size));
    let by_name = widgets.index_by_meta(|meta| Some(meta.name().to_owned()));
    let _running = Running::start(manager).await;
    let shown = |selection: &cache::Selection<'_, Widget>| {
        selection.keys().unwrap().iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    let front = "tier=front".parse().unwrap();
    let decodes = widgets.stats().decodes;
    let ones = by_size.select(&1);
    assert_eq!(shown(&ones), "default/a default/b default/d kube-system/a");
    assert_eq!(shown(&widgets.select().matching(&by_size, &1)), shown(&ones));
    assert_eq!(shown(&ones.clone().namespace("default").labels(&front)), "default/a default/d");
    assert_eq!(shown(&ones.clone().namespace("default").labels(&front).limit(1)), "default/a");
    assert_eq!(shown(&ones.clone().namespace("nowhere")), "");
    assert_eq!(shown(&ones.clone().matching(&by_name, "b")), "default/b");
    assert_eq!(shown(&by_name.select("b").matching(&by_size, &2)), "kube-system/b");
    assert_eq!(shown(&by_name.select("b").matching(&by_size, &2).namespace("default")), "");
    assert_eq!(shown(&ones.clone().matching(&by_size, &2)), "", "none has both");
    assert_eq!(shown(&by_size.select(&3)), "");
    assert_eq!(widgets.stats().decodes, decodes, "none of this looks into an object");
    let first = ones.clone().namespace("default").limit(1).list().unwrap();
    assert_eq!((first[0].spec.size, widgets.stats().decodes - decodes), (1, 1));

    // A selection is evaluated again at each read.
    let grown = by_size.select(&9).matching(&by_name, "d");
    assert_eq!(shown(&grown), "");
    own.merge_patch(&key("d"), &json!({ "spec": { "size": 9 } })).await.unwrap();
    assert_eq!(shown(&grown), "default/d");
    assert_eq!(shown(&ones), "default/a default/b kube-system/a");
}

#[tokio::test(start_paused = true)]
async fn a_change_becomes_visible_in_all_indexes_at_once() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    client.create(&widget("a", 1)).await.unwrap();
    let manager = manager(&env);
    let widgets = manager.cached::<Widget>();
    let by_size = widgets.index(|widget| Some(widget.spec.size));
    let (first, seen) = (by_size.clone(), Arc::new(Mutex::new(Vec::new())));
    let noted = Arc::clone(&seen);
    let second = widgets.index(move |widget| {
        noted.lock().unwrap().push(first.values().unwrap());
        Some(-widget.spec.size)
    });
    let _running = Running::start(manager).await;
    client.merge_patch(&key("a"), &json!({ "spec": { "size": 2 } })).await.unwrap();
    settle().await;
    assert_eq!((by_size.values().unwrap(), second.values().unwrap()), (vec![2], vec![-2]));
    assert_eq!(*seen.lock().unwrap(), [vec![], vec![1]], "what it said while the other one looked");
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "it belongs to another cache")]
async fn an_index_cannot_select_objects_of_another_cache() {
    let env = environment().await;
    let manager = manager(&env);
    let all = manager.cached::<Widget>();
    let some = manager.cache().of::<Widget>().namespaces(["default"]).build().unwrap();
    let by_size = some.index(|widget| Some(widget.spec.size));
    drop(all.select().matching(&by_size, &1).list());
}

#[tokio::test(start_paused = true)]
async fn until_returns_the_awaited_state_or_times_out() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    client.create(&widget("a", 1)).await.unwrap();
    let manager = manager(&env);
    let widgets = manager.cached::<Widget>();
    let _running = Running::start(manager).await;
    let minute = Duration::from_secs(60);

    let begun = Instant::now();
    let name = key("a");
    let grown = widgets.until(&name, |widget| widget.is_some_and(|widget| widget.spec.size > 1), minute);
    let grow = async {
        sleep(Duration::from_secs(20)).await;
        client.merge_patch(&name, &json!({ "spec": { "size": 2 } })).await.unwrap();
    };
    let (grown, ()) = tokio::join!(grown, grow);
    assert_eq!((grown.unwrap().unwrap().spec.size, begun.elapsed()), (2, Duration::from_secs(20)));
    assert!(
        widgets.until(&key("b"), |widget| widget.is_none(), minute).await.unwrap().is_none(),
        "it is so already"
    );

    let begun = Instant::now();
    let late = widgets.until(&key("a"), |widget| widget.is_none(), minute).await.unwrap_err();
    assert_eq!(begun.elapsed(), minute);
    let version =
        widgets.get_lazy(&key("a")).unwrap().unwrap().meta().resource_version().unwrap().to_string();
    assert_eq!(
        late.to_string(),
        format!(
            "widgets.example.com default/a did not meet the condition within 60 s; its last state in the cache: at version {version}"
        )
    );
    assert!(matches!(late, UntilError::TimedOut { within, .. } if within == minute));
}
