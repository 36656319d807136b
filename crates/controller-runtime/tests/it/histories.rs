//! Random histories of several kinds on a server with unreliable lists and watches. Every visible state of a cache was
//! a state of the server, no cache goes back, and finally all show the latest state. The events that handlers received
//! add up to it.
//!
//! A seed determines a history. `HISTORIES=5000` runs as many (`just histories`), `HISTORY=17` runs the one that
//! failed.

use std::{
    collections::BTreeMap,
    fmt::Write,
    sync::{Arc, Mutex},
    time::Duration,
};

use controller_runtime::{
    Builder, Cached, Client, DynamicKind, Event, Lazy, Manager, ManagerOptions, Object, ObjectKey,
    StaticObject,
    cache::{EventStream, InNamespace},
};
use futures::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::core::{DynamicObject, PartialObjectMeta};
use kube_apiserver_embedded::faults::{Action, Failure, Rule, Verb, WatchFault, When};
use kube_envtest::{Environment, eventually};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    faults::{Fault, faulty},
    support::{Notes, Running, Widget, environment},
};

/// Key, uid and version of each object.
type State = BTreeMap<String, (String, u64)>;

/// Own writes are visible before the watch delivers them, so this object is checked separately.
const OWN: &str = "own";

#[tokio::test(start_paused = true)]
async fn a_cache_shows_only_states_of_the_server_and_finally_the_latest() {
    let number = |name: &str| std::env::var(name).ok().map(|value| value.parse::<u64>().expect("a number"));
    match number("HISTORY") {
        Some(seed) => play(seed).await,
        None => {
            for seed in 0..number("HISTORIES").unwrap_or(12) {
                play(seed).await;
                if seed % 50 == 49 {
                    println!("{} histories", seed + 1);
                }
            }
        }
    }
}

async fn play(seed: u64) {
    let env = environment().await;
    let mut history = History::begin(seed, &env).await;
    for _ in 0..60 {
        history.inject_fault();
        history.change_objects().await;
        history.time_passes().await;
        history.look();
    }
    history.end().await;
}

/// If a watch changes the order of events, intermediate states may never have existed on the server.
#[tokio::test(start_paused = true)]
async fn a_cache_shows_the_latest_state_after_duplicate_and_reordered_events() {
    for seed in 0..20 {
        let env = environment().await;
        let (other, faults) = (Client::new(env.client(), "other-client"), env.server().faults());
        let now_and_then = When::Probability(0.3);
        for fault in [WatchFault::Reorder(now_and_then), WatchFault::Duplicate(now_and_then)] {
            let rule = Rule::new(Action::Watch(fault)).verb(Verb::Watch).resource("example.com", "widgets");
            faults.add(rule.when(When::Probability(0.5)));
        }
        let manager = Manager::new(env.client(), ManagerOptions::new("test").seed(seed));
        let mut widgets = Reader::<Widget>::new(manager.cached());
        let metadata = Reader::<PartialObjectMeta<Widget>>::new(manager.cached());
        let _running = Running::start(manager).await;
        let (mut rng, mut is) = (fastrand::Rng::with_seed(seed), State::new());
        for _ in 0..60 {
            let name = ["a", "b", "c", "d", "e", "f"][rng.usize(..6)];
            let key = ObjectKey::<Widget>::new("default", name);
            match rng.bool() {
                true => drop(take(&other, &key).await.or_else(|| is.remove(&key.to_string()))),
                false => {
                    let metadata = json!({ "name": name, "namespace": "default" });
                    let body = json!({
                        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata,
                        "spec": { "size": rng.u8(..) },
                    });
                    is.insert(key.to_string(), put(&other, &key, body).await);
                }
            }
            sleep(Duration::from_millis(rng.u64(..5000))).await;
        }
        faults.clear();
        let story = format!("history {seed}:\n{}", faults.journal());
        let met = eventually(Duration::from_secs(3600), async || {
            widgets.drain(&story);
            let seen = [widgets.seen(""), metadata.seen(""), widgets.folded.is.clone()];
            if seen.iter().all(|seen| *seen == is) {
                Ok(())
            } else {
                Err(format!("{is:?} is seen as {seen:?}"))
            }
        });
        let met = met.await;
        assert!(met.is_ok(), "{story}{}", met.unwrap_err());
    }
}

/// A server, its past states, and the readers.
struct History<'e> {
    seed: u64,
    rng: fastrand::Rng,
    env: &'e Environment,
    other: Client,
    own: Client,
    widgets: Reader<Widget>,
    metadata: Reader<PartialObjectMeta<Widget>>,
    dynamic: Reader<DynamicObject>,
    /// Caches of two namespaces with a watch each.
    parts: Vec<(&'static str, Reader<Widget>)>,
    /// Caches of all namespaces, one of which is watched separately.
    apart: Vec<(&'static str, Reader<Widget>)>,
    web: Reader<ConfigMap>,
    received: Arc<Mutex<Folded>>,
    /// Every state of the server, by kind: widgets, and config maps with `app=web`.
    been: [Vec<State>; 2],
    _running: Running,
}

impl<'e> History<'e> {
    async fn begin(seed: u64, env: &'e Environment) -> Self {
        let other = Client::new(env.client(), "other-client");
        let mut red = Namespace::default();
        red.metadata.name = Some("red".to_owned());
        other.create(&red).await.unwrap();
        // Some of the watches deliver every line twice.
        let mut twice = fastrand::Rng::with_seed(seed);
        let client = faulty(env.client(), move |seen| match seen.is_watch() && twice.u8(..3) == 0 {
            true => Fault::Twice,
            false => Fault::Pass,
        });
        let manager = Manager::new(client, ManagerOptions::new("test").seed(seed));
        let received = Arc::new(Mutex::new(Folded::default()));
        let fold = Arc::clone(&received);
        // The runtime recovers panics of predicates, so violations are recorded.
        let note = move |event: &Event<Widget>| {
            fold.lock().unwrap().take(event);
            false
        };
        Builder::managed_by(&manager)
            .for_kind::<Widget>()
            .with_predicate(note)
            .complete(Notes::done())
            .unwrap();
        let caches = manager.cache();
        let part = |name: &'static str| {
            (name, Reader::new(caches.of().namespaces(["default", "red"]).build().unwrap()))
        };
        let apart = |name: &'static str| {
            let red = InNamespace::default().fields("metadata.name!=nobody".parse().unwrap());
            (name, Reader::new(caches.of().in_namespace("red", red).build().unwrap()))
        };
        Self {
            seed,
            rng: fastrand::Rng::with_seed(seed),
            env,
            own: manager.client(),
            widgets: Reader::new(manager.cached()),
            metadata: Reader::new(manager.cached()),
            dynamic: Reader::new(caches.of_dynamic(&DynamicKind::of::<Widget>()).build().unwrap()),
            parts: vec![part("default"), part("red")],
            apart: vec![apart("default"), apart("red")],
            web: Reader::new(caches.of().labels("app=web").build().unwrap()),
            received,
            been: [vec![State::new()], vec![State::new()]],
            other,
            _running: Running::start(manager).await,
        }
    }

    /// Injects a random fault into lists and watches.
    fn inject_fault(&mut self) {
        let rng = &mut self.rng;
        let faults = self.env.server().faults();
        let events = rng.u64(..4);
        let time = Duration::from_millis(rng.u64(..20_000));
        let action = match rng.u8(..24) {
            0 => Action::Watch(WatchFault::CloseAfterEvents(events)),
            1 => Action::Watch(WatchFault::CloseAfter(time)),
            2 => Action::Watch(WatchFault::ExpireAfterEvents(events)),
            3 => Action::Watch(WatchFault::StallAfterEvents(events)),
            4 => Action::Watch(WatchFault::Late(time)),
            5 => Action::Watch(WatchFault::NoBookmarks),
            6 => Action::DelayBefore(time),
            7 => Action::DelayAfter(time),
            8 => Action::Reset,
            9 => Action::LoseResponse,
            10 => Action::Fail(Failure::Expired),
            11 => Action::Fail(Failure::TooManyRequests { retry_after: time }),
            12 => Action::Fail(Failure::Unavailable),
            13 => Action::Fail(Failure::Internal),
            14 => return faults.compact(),
            15 => {
                faults.evict_history("example.com", "widgets");
                return;
            }
            _ => return, // most of the time there is no fault
        };
        let rule = Rule::new(action).verb(Verb::Watch).when(When::Probability(0.5)).at_most(rng.u64(1..4));
        let rule = if rng.bool() { rule.verb(Verb::List) } else { rule };
        faults.add(match rng.u8(..3) {
            0 => rule.resource("", "configmaps"),
            1 => rule.resource("example.com", "widgets"),
            _ => rule,
        });
    }

    /// Creates, changes or deletes an object of one of the kinds.
    async fn change_objects(&mut self) {
        let rng = &mut self.rng;
        let namespace = ["default", "red"][rng.usize(..2)];
        let app = ["web", "db"][rng.usize(..2)];
        let mut name = ["a", "b", "c", "d"][rng.usize(..4)];
        let delete = rng.u8(..3) == 0;
        let client = if rng.u8(..6) == 0 {
            name = OWN;
            &self.own
        } else {
            &self.other
        };
        let labels = json!({ "app": app });
        let metadata = json!({ "name": name, "namespace": namespace, "labels": labels });
        let mut body = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata });
        let (kind, is) = if rng.bool() {
            body["apiVersion"] = json!("example.com/v1");
            body["kind"] = json!("Widget");
            body["spec"] = json!({ "size": rng.u8(..) });
            let key = ObjectKey::<Widget>::new(namespace, name);
            let is = if delete { take(client, &key).await } else { Some(put(client, &key, body).await) };
            if name == OWN {
                let seen = self.widgets.cached.get_lazy(&key).unwrap().map(|widget| entry(&widget).1);
                assert_eq!(seen, is, "{}what we wrote is read at once", self.story());
            }
            (0, is)
        } else {
            body["data"] = json!({ "x": rng.u8(..).to_string() });
            let key = ObjectKey::<ConfigMap>::new(namespace, name);
            let is = if delete { take(client, &key).await } else { Some(put(client, &key, body).await) };
            (1, is.filter(|_| app == "web"))
        };
        let mut state = self.been[kind].last().expect("there is always a state").clone();
        let key = format!("{namespace}/{name}");
        match is {
            Some(is) => drop(state.insert(key, is)),
            None => drop(state.remove(&key)),
        }
        self.been[kind].push(state);
    }

    async fn time_passes(&mut self) {
        match self.rng.u8(..8) {
            0..4 => {}
            4..7 => sleep(Duration::from_millis(self.rng.u64(..5000))).await,
            _ => sleep(Duration::from_millis(self.rng.u64(..900_000))).await,
        }
        for _ in 0..self.rng.u8(..40) {
            tokio::task::yield_now().await;
        }
    }

    /// Checks that every reader sees a state that existed, and no older one than before.
    fn look(&mut self) {
        let story = self.story();
        let Self { widgets, metadata, dynamic, web, parts, apart, been: [of_widgets, of_web], rng, .. } =
            self;
        widgets.look(of_widgets, "", &story);
        metadata.look(of_widgets, "", &story);
        dynamic.look(of_widgets, "", &story);
        web.look(of_web, "", &story);
        for (namespace, part) in parts.iter_mut().chain(apart) {
            part.look(of_widgets, namespace, &story);
        }
        if rng.bool() {
            widgets.drain(&story);
            web.drain(&story);
        }
        assert_eq!(
            self.received.lock().unwrap().wrong,
            None,
            "{story}a handler received an impossible event"
        );
    }

    /// Checks that all readers reach the latest state after the faults end.
    async fn end(mut self) {
        self.env.server().faults().clear();
        let [widgets, web] = [&self.been[0], &self.been[1]].map(|been| been.last().expect("a state").clone());
        let story = self.story();
        let met = eventually(Duration::from_secs(3600), async || {
            self.widgets.drain(&story);
            self.web.drain(&story);
            let mut of_widgets = vec![
                ("seen", self.widgets.seen("")),
                ("seen as metadata", self.metadata.seen("")),
                ("seen as dynamic", self.dynamic.seen("")),
                // Own writes are visible before the watch delivers them.
                ("received by a handler", self.received.lock().unwrap().is.clone()),
                ("received by a slow reader", self.widgets.folded.is.clone()),
            ];
            for (how, parts) in [("seen by namespace", &self.parts), ("seen apart", &self.apart)] {
                let parts = parts.iter().flat_map(|(namespace, part)| part.seen(namespace));
                of_widgets.push((how, parts.collect()));
            }
            let of_web =
                [("seen", self.web.seen("")), ("received by a slow reader", self.web.folded.is.clone())];
            let all = of_widgets.iter().map(|of| (of, &widgets)).chain(of_web.iter().map(|of| (of, &web)));
            for ((how, state), is) in all {
                if state != is {
                    return Err(format!("{is:?} is {how} as {state:?}"));
                }
            }
            Ok(())
        });
        let met = met.await;
        assert!(met.is_ok(), "{story}{}", met.unwrap_err());
        self.look();
    }

    /// Returns the injected faults, as a prefix of failure messages.
    fn story(&self) -> String {
        let mut story = format!("history {}:\n", self.seed);
        let _ = write!(story, "{}", self.env.server().faults().journal());
        story
    }
}

/// Creates or changes an object.
async fn put<K: StaticObject>(client: &Client, key: &ObjectKey<K>, body: Value) -> (String, u64) {
    let stored = if client.get(key).await.unwrap().is_some() {
        client.merge_patch(key, &body).await.unwrap()
    } else {
        client.create(&serde_json::from_value::<K>(body).unwrap()).await.unwrap()
    };
    entry(&Lazy::of(stored).expect("it has a key")).1
}

async fn take<K: StaticObject>(client: &Client, key: &ObjectKey<K>) -> Option<(String, u64)> {
    client.delete_key(key).await.unwrap();
    None
}

fn entry<K: Object>(state: &Lazy<K>) -> (String, (String, u64)) {
    let meta = state.meta();
    let uid = meta.uid().expect("a uid").to_string();
    let version = meta.resource_version().expect("a version").to_string();
    (state.key().to_string(), (uid, version.parse().expect("a number")))
}

/// A cache, and the state it showed last.
struct Reader<K: Object> {
    cached: Cached<K>,
    events: EventStream<K>,
    folded: Folded,
    /// Index of the first server state that equals the last visible state.
    at: usize,
}

impl<K: Object> Reader<K> {
    fn new(cached: Cached<K>) -> Self {
        Self { events: cached.events(), cached, folded: Folded::default(), at: 0 }
    }

    fn seen(&self, namespace: &str) -> State {
        let here = |(key, _): &(String, (String, u64))| {
            namespace.is_empty() || key.starts_with(&format!("{namespace}/"))
        };
        self.cached.list_lazy().unwrap().iter().map(entry).filter(here).collect()
    }

    fn look(&mut self, been: &[State], namespace: &str, story: &str) {
        let others = |state: State| -> State {
            let is_own = |key: &str| key.ends_with(&format!("/{OWN}"));
            state.into_iter().filter(|(key, _)| !is_own(key)).collect()
        };
        let seen = others(self.seen(namespace));
        let here = |state: &State| -> State {
            let prefix = format!("{namespace}/");
            let here =
                state.clone().into_iter().filter(|(key, _)| namespace.is_empty() || key.starts_with(&prefix));
            others(here.collect())
        };
        let found = been[self.at..].iter().position(|state| here(state) == seen);
        let Some(further) = found else {
            let was = been[..self.at].iter().any(|state| here(state) == seen);
            panic!(
                "{story}{seen:?} {}",
                if was { "is older than what was seen before" } else { "has never been" }
            );
        };
        self.at += further;
    }

    /// Applies all events that are available.
    fn drain(&mut self, story: &str) {
        while let Some(Some(event)) = self.events.next().now_or_never() {
            self.folded.take(&event);
        }
        assert_eq!(self.folded.wrong, None, "{story}a stream delivered an impossible event");
    }
}

/// State derived from events alone.
#[derive(Default)]
struct Folded {
    is: State,
    wrong: Option<String>,
}

impl Folded {
    fn take<K: Object>(&mut self, event: &Event<K>) {
        let (key, latest) = entry(event.latest());
        let before = match event {
            Event::Delete { .. } => self.is.remove(&key),
            _ => self.is.insert(key, latest.clone()),
        };
        let fits = match event {
            Event::Create { .. } => before.is_none(),
            Event::Update { old, .. } => before.as_ref() == Some(&entry(old).1) && entry(old).1.0 == latest.0,
            Event::Delete { .. } => {
                before.as_ref().is_some_and(|before| before.0 == latest.0 && before.1 <= latest.1)
            }
            _ => false,
        };
        if !fits && self.wrong.is_none() {
            self.wrong = Some(format!("{event:?} after {before:?}"));
        }
    }
}
