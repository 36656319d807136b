//! User code that calls back into the caches: predicates, handlers, index functions, conditions, decoders and destructors.
//!
//! Each test runs its operator on a thread of its own, so that a deadlock fails the test instead of hanging it.

use std::{
    fmt,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    time::Duration,
};

use controller_runtime::{
    Builder, Cached, Client, Event, Kind, Manager, ManagerOptions, ObjectKey, ReadError,
    cache::{Index, Meta},
};
use futures::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{CustomResource, Resource, core::NamespaceResourceScope};
use kube_envtest::Environment;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use tokio::runtime;

use crate::support::{NoteAll, Running, Widget, config_map, widget};

/// Limit for an operator that takes less than a second. Only a deadlock reaches it.
const DEADLOCK: Duration = Duration::from_secs(60);

/// Runs the operator on one thread and on four, and panics if either does not end.
fn on_one_thread_and_on_many<F: Future<Output = ()> + 'static>(operator: fn() -> F) {
    for threads in [1, 4] {
        let (done, ended) = mpsc::channel();
        // Not joined: a thread that is in a deadlock never ends.
        std::thread::spawn(move || {
            let mut builder = match threads {
                1 => runtime::Builder::new_current_thread(),
                _ => runtime::Builder::new_multi_thread(),
            };
            builder.worker_threads(threads).enable_all().build().unwrap().block_on(operator());
            let _ = done.send(());
        });
        match ended.recv_timeout(DEADLOCK) {
            Ok(()) => {}
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("deadlock on {threads} threads"),
            Err(mpsc::RecvTimeoutError::Disconnected) => panic!("the operator panicked on {threads} threads"),
        }
    }
}

/// Calls every public method of a cache that does not decode an object, and of its indexes, streams and selections.
fn read_undecoded<K>(cached: &Cached<K>)
where
    K: controller_runtime::Object + Resource<Scope = NamespaceResourceScope>,
{
    let key = ObjectKey::<K>::new("default", "one");
    let owner = config_map("owner");
    let _ = (cached.get_lazy(&key), cached.list_lazy(), cached.owned_by_lazy(&owner));
    let _ = (cached.len(), cached.is_empty(), cached.stats(), cached.trouble(), cached.has_synced());
    let _ = (cached.resource_version(), cached.resource_versions(), cached.synced().now_or_never());
    let by_name: Index<K, String> = cached.index_by_meta(|meta: &Meta| [meta.name().to_owned()]);
    let _ = (
        by_name.get_lazy("one"),
        by_name.range_lazy("a".to_owned()..),
        by_name.keys("one"),
        by_name.values(),
    );
    let everything = "a in (b),!c".parse().unwrap();
    let selection =
        cached.select().matching(&by_name, "one").namespace("default").labels(&everything).limit(3);
    let _ = (selection.list_lazy(), selection.keys(), by_name.select("one").list_lazy());
    let mut events = cached.events();
    let _ = events.next().now_or_never();
    let shown = format!("{cached:?} {by_name:?} {selection:?} {events:?} {:?}", cached.metadata());
    assert!(shown.contains("Cached"));
    drop((events, by_name.clone()));
}

/// Index functions run before the cache is complete.
fn known_or_not_synced<T>(read: Result<T, ReadError>) {
    if let Err(error) = read {
        assert!(error.is_not_synced(), "{error}");
    }
}

/// Calls every public method of a cache, and of its indexes, views, streams and selections.
fn read_everything<K>(cached: &Cached<K>)
where
    K: controller_runtime::Object + Resource<Scope = NamespaceResourceScope>,
{
    read_undecoded(cached);
    let key = ObjectKey::<K>::new("default", "one");
    known_or_not_synced(cached.get(&key));
    known_or_not_synced(cached.list());
    known_or_not_synced(cached.owned_by(&config_map("owner")));
    known_or_not_synced(cached.select().list());
    known_or_not_synced(cached.metadata().get(&key));
    known_or_not_synced(cached.view::<serde_json::Value>().list());
    known_or_not_synced(cached.transformed(|object| object.meta().name.clone()).list());
    let by_name: Index<K, Option<String>> = cached.index(|object: &K| [object.meta().name.clone()]);
    known_or_not_synced(by_name.get(&None));
    known_or_not_synced(by_name.range(..));
    known_or_not_synced(by_name.select(&Some("one".to_owned())).list());
    let condition = |object: Option<&K>| {
        read_undecoded(cached);
        object.is_some()
    };
    let _ = cached.until(&key, condition, Duration::from_secs(1)).now_or_never();
}

async fn start() -> (Environment, Client, Manager) {
    let env = Environment::builder().crd::<Widget>().crd::<Gadget>().start().await.unwrap();
    let (client, manager) =
        (Client::new(env.client(), "test"), Manager::new(env.client(), ManagerOptions::new("test").seed(1)));
    (env, client, manager)
}

async fn change_objects(client: &Client) {
    for name in ["one", "two", "three"] {
        let map = async { client.create(&config_map(name)).await.unwrap() };
        let (map, widget) = tokio::join!(map, async { client.create(&widget(name, 1)).await.unwrap() });
        let patch = serde_json::json!({ "metadata": { "labels": { "a": "b" } } });
        let (map, widget) = (ObjectKey::of(&map).unwrap(), ObjectKey::of(&widget).unwrap());
        let widget_changes = async { client.merge_patch::<Widget>(&widget, &patch).await.unwrap() };
        let _ = tokio::join!(
            async { client.merge_patch::<ConfigMap>(&map, &patch).await.unwrap() },
            widget_changes
        );
        client.delete_key::<ConfigMap>(&map).await.unwrap();
    }
}

#[test]
fn predicates_and_handlers_may_call_every_method_of_every_cache() {
    async fn operator() {
        let (_env, client, manager) = start().await;
        client.create(&widget("zero", 1)).await.unwrap();
        let (widgets, maps) = (manager.cached::<Widget>(), manager.cached::<ConfigMap>());
        let calls = Arc::new(AtomicUsize::new(0));
        let read = {
            let calls = Arc::clone(&calls);
            move || {
                read_everything(&widgets);
                read_everything(&maps);
                calls.fetch_add(1, SeqCst);
            }
        };
        let (filter, predicate, handler) = (read.clone(), read.clone(), read.clone());
        let notes = NoteAll::<String>::new();
        let handle = move |event: &Event<ConfigMap>, queue: &controller_runtime::Enqueue<'_, String>| {
            handler();
            queue.add(event.meta().name().to_owned());
        };
        let passes = move |_: &Event<ConfigMap>| {
            predicate();
            true
        };
        Builder::managed_by(&manager)
            .for_requests::<String>("names")
            .watches(Kind::new(handle).with_predicate(passes))
            .with_event_filter(move |_: &controller_runtime::MetaEvent<'_>| {
                filter();
                true
            })
            .complete(notes.clone())
            .unwrap();
        let map = move |widget: &Widget| {
            read();
            widget.metadata.name.clone()
        };
        Builder::managed_by(&manager)
            .for_requests::<String>("widgets")
            .watches(Kind::new(controller_runtime::MapFn(map)))
            .complete(notes.clone())
            .unwrap();
        let running = Running::start(manager).await;
        change_objects(&client).await;
        while !["one", "two", "three", "zero"]
            .iter()
            .all(|name| notes.seen.lock().unwrap().contains(&format!("{name:?}")))
        {
            tokio::task::yield_now().await;
        }
        running.stop().await.unwrap();
        assert!(calls.load(SeqCst) > 6, "user code ran");
    }
    on_one_thread_and_on_many(operator);
}

#[test]
fn index_functions_may_call_every_method_of_every_cache() {
    async fn operator() {
        let (_env, client, manager) = start().await;
        client.create(&widget("zero", 1)).await.unwrap();
        let (widgets, maps) = (manager.cached::<Widget>(), manager.cached::<ConfigMap>());
        let read = |widgets: &Cached<Widget>, maps: &Cached<ConfigMap>| {
            let (widgets, maps) = (widgets.clone(), maps.clone());
            move || {
                read_everything(&widgets);
                read_everything(&maps);
            }
        };
        let (of_widgets, of_maps, of_meta) =
            (read(&widgets, &maps), read(&widgets, &maps), read(&widgets, &maps));
        let widgets_by_name: Index<Widget, String> = widgets.index(move |widget| {
            of_widgets();
            widget.metadata.name.clone()
        });
        let maps_by_name: Index<ConfigMap, String> = maps.index(move |map| {
            of_maps();
            map.metadata.name.clone()
        });
        let widgets_by_meta: Index<Widget, String> = widgets.index_by_meta(move |meta| {
            of_meta();
            [meta.name().to_owned()]
        });
        let running = Running::start(manager).await;
        change_objects(&client).await;
        while widgets.len().unwrap() < 4 || !maps.is_empty().unwrap() {
            tokio::task::yield_now().await;
        }
        while !maps_by_name.values().unwrap().is_empty() || widgets_by_name.values().unwrap().len() < 4 {
            tokio::task::yield_now().await;
        }
        assert_eq!(widgets_by_name.values().unwrap(), ["one", "three", "two", "zero"]);
        assert_eq!(widgets_by_meta.values().unwrap(), ["one", "three", "two", "zero"]);
        running.stop().await.unwrap();
    }
    on_one_thread_and_on_many(operator);
}

/// A kind with user code in its decoder and destructor.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Gadget", namespaced)]
pub(crate) struct GadgetSpec {
    #[serde(default)]
    size: Probe,
}

#[derive(Clone, Default, PartialEq, Serialize, JsonSchema)]
#[serde(transparent)]
struct Probe(i32);

/// Calls made by the decoder and the destructor of [`Probe`].
static PROBED: Mutex<Option<Arc<dyn Fn() + Send + Sync>>> = Mutex::new(None);

fn probe() {
    let probed = PROBED.lock().unwrap().clone();
    if let Some(probed) = probed {
        probed();
    }
}

impl fmt::Debug for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl<'de> Deserialize<'de> for Probe {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        probe();
        i32::deserialize(deserializer).map(Self)
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        probe();
    }
}

fn gadget(name: &str) -> Gadget {
    let mut gadget = Gadget::new(name, GadgetSpec { size: Probe(1) });
    gadget.metadata.namespace = Some("default".to_owned());
    gadget
}

/// The two forms of storage decode and drop at different times.
#[test]
fn decoders_and_destructors_may_call_every_method_that_decodes_nothing() {
    async fn operator() {
        for retain in
            [controller_runtime::cache::Retain::Decoded, controller_runtime::cache::Retain::Budget(20_000)]
        {
            let env = Environment::builder().crd::<Gadget>().start().await.unwrap();
            let client = Client::new(env.client(), "test");
            let cache = controller_runtime::cache::CacheOptions::default().retain(retain);
            let manager = Manager::new(env.client(), ManagerOptions::new("test").seed(1).cache(cache));
            let gadgets = manager.cached::<Gadget>();
            // Weak, so that the probe does not keep the cache alive. Calls may nest; one level is enough to show a
            // deadlock.
            let calls = Arc::new(AtomicUsize::new(0));
            let (held, counted) = (Arc::new(gadgets.clone()), Arc::clone(&calls));
            let probed: Weak<Cached<Gadget>> = Arc::downgrade(&held);
            let nested = AtomicUsize::new(0);
            *PROBED.lock().unwrap() = Some(Arc::new(move || {
                if nested.fetch_add(1, SeqCst) < 4
                    && let Some(gadgets) = probed.upgrade()
                {
                    read_undecoded(&gadgets);
                    counted.fetch_add(1, SeqCst);
                }
                nested.fetch_sub(1, SeqCst);
            }));
            let by_size: Index<Gadget, i32> = gadgets.index(|gadget| [gadget.spec.size.0]);
            let running = Running::start(manager).await;
            for number in 0..20 {
                let name = format!("gadget-{number}");
                client.create(&gadget(&name)).await.unwrap();
                let key = ObjectKey::new("default", &*name);
                gadgets.get(&key).unwrap();
                let patch = serde_json::json!({ "spec": { "size": number } });
                client.merge_patch::<Gadget>(&key, &patch).await.unwrap();
                gadgets.list().unwrap();
                gadgets.list().unwrap();
            }
            for number in 0..20 {
                client
                    .delete_key::<Gadget>(&ObjectKey::new("default", format!("gadget-{number}")))
                    .await
                    .unwrap();
            }
            while !gadgets.is_empty().unwrap() || !by_size.values().unwrap().is_empty() {
                tokio::task::yield_now().await;
            }
            running.stop().await.unwrap();
            assert!(calls.load(SeqCst) > 20, "user code ran");
            *PROBED.lock().unwrap() = None;
            drop(held);
        }
    }
    on_one_thread_and_on_many(operator);
}
