//! A cache of pods, with a controller that a predicate on metadata keeps idle.

use std::sync::Arc;

use anyhow::Context as _;
use bench_peer::{Ask, Reply, once, per};
use controller_runtime::{
    Action, Builder, Cached, Context, Lazy, ObjectKey, ReconcileError, Reconciler,
    cache::{CacheOptions, Index, Retain},
    predicate::GenerationChanged,
};
use k8s_openapi::api::core::v1::Pod;
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant, sleep};

use crate::manager::{Unstarted, run};

/// Pods in a manager's cache, and an index of them by the label `slice`.
pub(crate) struct PodCache {
    pods: Cached<Pod>,
    by_slice: Index<Pod, Arc<str>>,
}

/// Does nothing, because the measurement ends before the reconciler.
struct Idle;

impl Reconciler for Idle {
    type Request = ObjectKey<Pod>;

    async fn reconcile(&self, _: &ObjectKey<Pod>, _: &Context) -> Result<Action, ReconcileError> {
        Ok(Action::done())
    }
}

impl PodCache {
    /// Runs a manager, waits until its cache holds all pods, and returns the seconds that this took.
    pub(crate) async fn start(
        manager: Unstarted,
        ask: &Ask,
        running: &mut JoinSet<()>,
    ) -> anyhow::Result<(Self, Reply)> {
        let retain = match ask.text("variant")? {
            "budget" => Retain::default(),
            "compact" => Retain::Compact,
            "decoded" => Retain::Decoded,
            other => anyhow::bail!("unknown variant {other}: use budget, compact or decoded"),
        };
        let manager = manager.with(|options| options.cache(CacheOptions::default().retain(retain)));
        let pods = manager.cached::<Pod>();
        let by_slice = pods.index_by_meta(|meta| meta.labels().get("slice").map(Arc::from));
        Builder::managed_by(&manager).for_kind::<Pod>().with_predicate(GenerationChanged).complete(Idle)?;
        let started = Instant::now();
        run(manager, running);
        pods.synced().await;
        let seconds = started.elapsed().as_secs_f64();
        Ok((Self { pods, by_slice }, Reply::figures([("synced_s", seconds)])))
    }

    /// Measures reads in nanoseconds: one object, all objects, and objects with one value of the index.
    pub(crate) fn read(&self) -> anyhow::Result<Reply> {
        let keys: Vec<_> = self.pods.list_lazy()?.iter().map(Lazy::key).collect();
        let at = |number: usize| &keys[number * 7919 % keys.len()];
        let get = |key: &ObjectKey<Pod>| anyhow::Ok(self.pods.get(key)?.context("it was listed")?);
        // Each pod is read for the first time in a while.
        let cold = per(20_000.min(keys.len()), |number| get(at(number)).map(drop))?;
        let hot = |number: usize| get(at(number % 200)).map(drop);
        per(200, hot)?;
        let hot = per(50_000, hot)?;
        let listed = self.by_slice.get("front")?.len();
        let index = once(|| Ok(self.by_slice.get("front")?))?;
        let list = once(|| Ok(self.pods.list()?))?;
        Ok(Reply::figures([
            ("cold_get_ns", cold),
            ("hot_get_ns", hot),
            ("index_ns", index),
            ("indexed", listed as f64),
            ("list_ns", list / keys.len() as f64),
        ]))
    }

    /// Waits until the cache holds this version of a pod.
    pub(crate) async fn wait(&self, ask: &Ask) -> anyhow::Result<Reply> {
        let key = ObjectKey::new(ask.text("namespace")?, ask.text("name")?);
        let version = ask.text("resource_version")?;
        let has_it =
            |pod: &Lazy<Pod>| pod.meta().resource_version().is_some_and(|has| has.to_string() == version);
        while !self.pods.get_lazy(&key)?.as_ref().is_some_and(has_it) {
            sleep(Duration::from_millis(5)).await;
        }
        Ok(Reply::done())
    }
}
