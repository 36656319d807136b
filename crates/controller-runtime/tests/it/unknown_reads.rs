//! Reads of a cache that cannot know whether an object exists.

use std::{
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

use controller_runtime::{
    Action, Builder, Cached, Client, Context, Manager, ManagerOptions, ObjectKey, ReadError, ReconcileError,
    Reconciler,
    cache::{Index, Namespaces, UntilError},
};
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::{
    faults::{Fault, faulty},
    support::{Notes, Running, Widget, config_map, environment, key, manager, settle, widget},
};

/// A reconciler that records the config maps without a widget of the same name, using a cache that its first run
/// creates.
struct Orphans {
    manager: Manager,
    widgets: OnceLock<Cached<Widget>>,
    found: Arc<Mutex<Vec<String>>>,
}

impl Reconciler for Orphans {
    type Request = ObjectKey<ConfigMap>;

    async fn reconcile(&self, key: &ObjectKey<ConfigMap>, _: &Context) -> Result<Action, ReconcileError> {
        let widgets = self.widgets.get_or_init(|| self.manager.cached());
        if widgets.get(&ObjectKey::new("default", key.name()))?.is_none() {
            self.found.lock().unwrap().push(key.name().to_owned());
        }
        Ok(Action::done())
    }
}

#[tokio::test(start_paused = true)]
async fn a_cache_created_within_a_reconcile_does_not_show_objects_as_absent() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    client.create(&widget("owned", 1)).await.unwrap();
    client.create(&config_map("owned")).await.unwrap();
    client.create(&config_map("orphan")).await.unwrap();
    let manager = manager(&env);
    let found = Arc::new(Mutex::new(Vec::new()));
    let orphans = Orphans { manager: manager.clone(), widgets: OnceLock::new(), found: Arc::clone(&found) };
    Builder::managed_by(&manager).for_kind::<ConfigMap>().complete(orphans).unwrap();
    let _running = Running::start(manager).await;
    sleep(Duration::from_secs(5)).await;
    let found = found.lock().unwrap();
    assert!(found.contains(&"orphan".to_owned()) && !found.contains(&"owned".to_owned()), "{found:?}");
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_the_absence_of_an_object_waits_for_the_list() {
    let env = environment().await;
    Client::new(env.client(), "test").create(&widget("there", 1)).await.unwrap();
    let manager = manager(&env);
    let widgets = manager.cached::<Widget>();
    let (there, gone) = (key("there"), key("gone"));
    let is_absent = |widget: Option<&Widget>| widget.is_none();
    let within = Duration::from_secs(5);
    let error = widgets.until(&there, is_absent, within).await.unwrap_err();
    assert!(error.to_string().ends_with("its last state in the cache: not listed yet"), "{error}");
    let play = async {
        let error = widgets.until(&there, is_absent, within).await.unwrap_err();
        assert!(error.to_string().contains("its last state in the cache: at version"), "{error}");
        assert!(widgets.until(&gone, is_absent, within).await.unwrap().is_none());
    };
    manager.clone().run(play).await.unwrap();
}

type Read = fn(&Cached<Widget>, &Index<Widget, String>) -> Result<usize, ReadError>;

/// Returns the number of objects that each type of read of a cache finds.
const READS: [(&str, Read); 17] = [
    ("get", |widgets, _| Ok(widgets.get(&key("a"))?.into_iter().count())),
    ("get_lazy", |widgets, _| Ok(widgets.get_lazy(&key("a"))?.into_iter().count())),
    ("list", |widgets, _| Ok(widgets.list()?.len())),
    ("list_lazy", |widgets, _| Ok(widgets.list_lazy()?.len())),
    ("len", |widgets, _| widgets.len()),
    ("is_empty", |widgets, _| Ok(usize::from(!widgets.is_empty()?))),
    ("select", |widgets, _| Ok(widgets.select().keys()?.len())),
    ("select in a namespace", |widgets, _| Ok(widgets.select().namespace("default").list()?.len())),
    ("owned_by", |widgets, _| Ok(widgets.owned_by(&config_map("x"))?.len() + 1)),
    ("owned_by_lazy", |widgets, _| Ok(widgets.owned_by_lazy(&config_map("x"))?.len() + 1)),
    ("view", |widgets, _| Ok(widgets.metadata().list()?.len())),
    ("view of one", |widgets, _| Ok(widgets.transformed(|_| ()).get(&key("a"))?.into_iter().count())),
    ("index", |_, by_name| Ok(by_name.get("a")?.len())),
    ("index, lazy", |_, by_name| Ok(by_name.get_lazy("a")?.len())),
    ("range", |_, by_name| Ok(by_name.range("a".to_owned()..)?.len())),
    ("keys", |_, by_name| Ok(by_name.keys("a")?.len())),
    ("values", |_, by_name| Ok(by_name.values()?.len())),
];

#[tokio::test(start_paused = true)]
async fn every_read_before_the_objects_are_listed_is_an_error_and_afterwards_none_is() {
    let env = environment().await;
    Client::new(env.client(), "test").create(&widget("a", 1)).await.unwrap();
    let manager = manager(&env);
    let widgets = manager.cached::<Widget>();
    let by_name = widgets.index_by_meta(|meta| Some(meta.name().to_owned()));
    for (name, read) in READS {
        let error = read(&widgets, &by_name).expect_err(name);
        assert!(error.is_not_synced(), "{name}: {error}");
        assert_eq!(
            error.to_string(),
            "the cache of widgets.example.com is not complete yet: await Cached::synced before reading, or return the \
             error from the reconcile to have it retried"
        );
    }
    let _running = Running::start(manager).await;
    for (name, read) in READS {
        assert_eq!(read(&widgets, &by_name).expect(name), 1, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_cannot_be_listed_reports_the_reason() {
    let env = environment().await;
    let connection = faulty(env.client(), |seen| match seen.is_about("widgets") {
        true => Fault::Refuse(503, "ServiceUnavailable"),
        false => Fault::Pass,
    });
    let manager = Manager::new(connection, ManagerOptions::new("test").seed(1));
    let widgets = manager.cached::<Widget>();
    let _running = Running::begin(manager);
    sleep(Duration::from_secs(5)).await;
    let error = widgets.list().unwrap_err().to_string();
    assert!(
        error.starts_with("the cache of widgets.example.com is not complete yet (list: a fault of the test"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn reads_outside_the_namespaces_of_a_cache_are_errors_that_name_the_namespace() {
    let env = environment().await;
    let manager = manager(&env);
    let widgets = manager.cache().of::<Widget>().namespaces(["default"]).build().unwrap();
    let elsewhere = ObjectKey::<Widget>::new("elsewhere", "a");
    let mut owner = config_map("owner");
    owner.metadata.namespace = Some("elsewhere".to_owned());
    owner.metadata.uid = Some("u".to_owned());
    let _running = Running::start(manager).await;
    let errors = [
        widgets.get(&elsewhere).unwrap_err(),
        widgets.get_lazy(&elsewhere).unwrap_err(),
        widgets.select().namespace("elsewhere").list().unwrap_err(),
        widgets.select().namespace("elsewhere").keys().unwrap_err(),
        widgets.owned_by(&owner).unwrap_err(),
        widgets.metadata().get(&elsewhere).unwrap_err(),
    ];
    for error in errors {
        assert!(error.is_outside_namespaces());
        assert_eq!(
            error.to_string(),
            "the cache of widgets.example.com in default does not hold namespace elsewhere: add the namespace to the cache \
             (CacheOptions::namespaces, CacheBuilder::namespaces or cache::Namespaces::add), or read with \
             Client::get or Client::list"
        );
    }
    let awaited = widgets.until(&elsewhere, |_| true, Duration::from_secs(5)).await;
    assert!(matches!(awaited, Err(UntilError::Unreadable(error)) if error.is_outside_namespaces()));
    assert_eq!((widgets.get(&key("a")).unwrap().is_none(), widgets.len().unwrap()), (true, 0));
}

#[tokio::test(start_paused = true)]
async fn reads_of_an_added_namespace_are_errors_until_it_is_listed() {
    let env = environment().await;
    Client::new(env.client(), "test").create(&widget("a", 1)).await.unwrap();
    let arrives = CancellationToken::new();
    let arrived = arrives.clone();
    let connection = faulty(env.client(), move |seen| {
        match seen.is_about("namespaces/green/widgets") && !arrived.is_cancelled() {
            true => Fault::Hang,
            false => Fault::Pass,
        }
    });
    let manager = Manager::new(connection, ManagerOptions::new("test").seed(1));
    let namespaces = Namespaces::new(["default"]);
    let widgets = manager.cache().of::<Widget>().namespace_set(&namespaces).build().unwrap();
    let green = ObjectKey::<Widget>::new("green", "a");
    let _running = Running::start(manager).await;
    assert!(widgets.get(&green).unwrap_err().is_outside_namespaces());

    namespaces.add("green");
    settle().await;
    assert!(widgets.get(&green).unwrap_err().is_not_synced());
    assert!(widgets.list().unwrap_err().is_not_synced());
    assert!(widgets.get(&key("a")).unwrap().is_some() && widgets.get(&key("b")).unwrap().is_none());
    assert_eq!(widgets.select().namespace("default").keys().unwrap().len(), 1);

    arrives.cancel();
    widgets.synced().await;
    assert_eq!((widgets.get(&green).unwrap().is_none(), widgets.len().unwrap()), (true, 1));
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_outside_fixed_namespaces_is_not_retried_and_one_outside_a_set_is() {
    for (fixed, runs) in [(true, 1), (false, 2)] {
        let env = environment().await;
        Client::new(env.client(), "test").create(&widget("a", 1)).await.unwrap();
        let manager = manager(&env);
        let builder = manager.cache().of::<ConfigMap>();
        let namespaces = Namespaces::new(["other"]);
        let maps = match fixed {
            true => builder.namespaces(["other"]),
            false => builder.namespace_set(&namespaces),
        };
        let maps = maps.build().unwrap();
        let notes = Notes::new(move |key, _| {
            maps.get(&ObjectKey::new("default", key.name()))?;
            Ok(Action::done())
        });
        Builder::managed_by(&manager).for_kind::<Widget>().complete(notes.clone()).unwrap();
        let _running = Running::start(manager).await;
        settle().await;
        namespaces.add("default");
        sleep(Duration::from_secs(60)).await;
        assert!(
            (runs..runs + 5).contains(&notes.names().len()),
            "fixed: {fixed}, {} runs",
            notes.names().len()
        );
        assert!(!fixed || notes.names().len() == 1);
    }
}
