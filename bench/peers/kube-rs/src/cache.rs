//! A reflector's store of pods, with a controller that a predicate on the generation keeps idle.

use std::time::Duration;

use anyhow::Context as _;
use bench_peer::{Ask, Reply, once, per};
use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::reflector::{ObjectRef, Store, store};
use kube::runtime::watcher::Event;
use kube::runtime::{Controller, PredicateConfig, WatchStreamExt as _, predicates, watcher};
use kube::{Api, Client, ResourceExt as _};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::controllers::run;

pub(crate) struct PodCache {
    pods: Store<Pod>,
}

impl PodCache {
    /// Runs a controller and waits until its store holds all pods.
    pub(crate) async fn start(client: Client, running: &mut JoinSet<()>) -> anyhow::Result<(Self, Reply)> {
        let started = Instant::now();
        let (pods, writer) = store();
        // `Store::wait_until_ready` wakes only the last task that polled it (kube-runtime 5.0.0, `utils/delayed_init.rs`),
        // and the controller waits for it, too: a second waiter could block either of them forever. The peer therefore waits
        // for the event that makes the store ready.
        let (note, mut ready) = watch::channel(false);
        let changes = watcher(Api::<Pod>::all(client), watcher::Config::default())
            .default_backoff()
            .reflect(writer)
            .inspect_ok(move |event| {
                if matches!(event, Event::InitDone) {
                    note.send_replace(true);
                }
            })
            .applied_objects()
            .predicate_filter(predicates::generation, PredicateConfig::default());
        run(Controller::for_stream(changes, pods.clone()), running, |_| async { Ok(()) });
        ready.wait_for(|ready| *ready).await?;
        let seconds = started.elapsed().as_secs_f64();
        Ok((Self { pods }, Reply::figures([("synced_s", seconds)])))
    }

    pub(crate) fn read(&self) -> anyhow::Result<Reply> {
        let mut keys: Vec<_> = self.pods.state().iter().map(|pod| ObjectRef::from_obj(&**pod)).collect();
        keys.sort_by(|one, other| (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name)));
        let at = |number: usize| &keys[number * 7919 % keys.len()];
        let get = |key: &ObjectRef<Pod>| self.pods.get(key).context("it was listed").map(drop);
        let cold = per(20_000.min(keys.len()), |number| get(at(number)))?;
        per(200, |number| get(at(number % 200)))?;
        let hot = per(50_000, |number| get(at(number % 200)))?;
        let front =
            || self.pods.state_filter(|pod| pod.labels().get("slice").is_some_and(|slice| slice == "front"));
        let listed = front().len();
        let index = once(|| Ok(front()))?;
        let list = once(|| Ok(self.pods.state()))?;
        Ok(Reply::figures([
            ("cold_get_ns", cold),
            ("hot_get_ns", hot),
            ("index_ns", index),
            ("indexed", listed as f64),
            ("list_ns", list / keys.len() as f64),
        ]))
    }

    pub(crate) async fn wait(&self, ask: &Ask) -> anyhow::Result<Reply> {
        let key = ObjectRef::new(ask.text("name")?).within(ask.text("namespace")?);
        let version = ask.text("resource_version")?;
        while self.pods.get(&key).and_then(|pod| pod.resource_version()).is_none_or(|has| has != version) {
            sleep(Duration::from_millis(5)).await;
        }
        Ok(Reply::done())
    }
}
