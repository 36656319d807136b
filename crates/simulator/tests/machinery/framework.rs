//! Guarantees of the framework on which operators rest.

use std::time::Duration;

use controller_runtime::{
    Action, BoxError, Builder, Cached, Client, Context, Manager, ObjectKey, ReconcileError, Reconciler,
    controller::ControllerHandle,
    manager::{AddError, RunContext, Runnable},
};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::ResourceExt;
use kube_simulator::{Explore, Simulation};
use serde_json::json;
use tokio::sync::watch;

use super::{LONG, map};

/// Creates a ConfigMap with a generated name for each namespace that the cache shows without one. That is right only if a cache shows the
/// writes of its own process before the watch has reported them.
struct OneEach {
    namespaces: Cached<Namespace>,
    maps: Cached<ConfigMap>,
}

impl Reconciler for OneEach {
    type Request = ObjectKey<Namespace>;

    async fn reconcile(&self, key: &ObjectKey<Namespace>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(namespace) = self.namespaces.get(key)? else { return Ok(Action::done()) };
        let has_map = |map: &ConfigMap| map.labels().get("for").is_some_and(|name| name == key.name());
        if !self.maps.list()?.iter().any(|map| has_map(map)) {
            let mut map = map("");
            (map.metadata.name, map.metadata.generate_name) = (None, Some(format!("{}-", key.name())));
            map.metadata.labels = Some([("for".to_owned(), key.name().to_owned())].into());
            cx.client().create(&map).await?;
        }
        if !namespace.annotations().contains_key("seen") {
            // Leads to another reconcile, which may come before the event of the map.
            cx.client().merge_patch(key, &json!({"metadata": {"annotations": {"seen": "yes"}}})).await?;
        }
        Ok(Action::done())
    }
}

#[test]
fn a_cache_shows_own_writes_before_the_watch_reports_them() {
    let add = |manager: &Manager| -> Result<(), AddError> {
        let each = OneEach { namespaces: manager.cached(), maps: manager.cached() };
        Builder::managed_by(manager).for_kind::<Namespace>().complete(each)?;
        Ok(())
    };
    let simulation = Simulation::new("one-each", add).step("a namespace is created", async |user| {
        user.apply_yaml("{apiVersion: v1, kind: Namespace, metadata: {name: red}}").await
    });
    let report = simulation.explore(Explore::staleness().budget(LONG));
    assert!(report.is_complete(), "{report}");
}

/// Writes each second after its process has become the leader. It never looks again, and relies on the client, which refuses writes
/// without the lease.
struct Beats {
    client: Client,
    leads: watch::Receiver<bool>,
}

/// Number of writes: they go on for longer than any plan keeps a process away from the API server.
const BEATS: usize = 180;

impl Runnable for Beats {
    async fn start(&self, _: RunContext) -> Result<(), BoxError> {
        // Fails if the manager is gone.
        let _ = self.leads.clone().wait_for(|leads| *leads).await;
        for _ in 0..BEATS {
            // Refused when the lease is lost.
            let _ = self.client.apply(&map("heart")).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        Ok(())
    }

    fn needs_leader_election(&self) -> bool {
        false
    }
}

#[test]
fn a_process_that_has_lost_its_lease_writes_no_more() {
    let add = |manager: &Manager| -> Result<(), AddError> {
        manager.add(Beats { client: manager.client(), leads: manager.leads() })?;
        Ok(())
    };
    let simulation = Simulation::new("beats", add).replicas(2).step("a namespace is created", async |user| {
        user.apply_yaml("{apiVersion: v1, kind: Namespace, metadata: {name: red}}").await
    });
    let report = simulation.explore(Explore::failovers().budget(LONG));
    assert!(report.is_complete(), "{report}");
}

/// Takes three seconds for each ConfigMap, and marks it.
struct Slow {
    maps: Cached<ConfigMap>,
}

impl Reconciler for Slow {
    type Request = ObjectKey<ConfigMap>;

    async fn reconcile(&self, key: &ObjectKey<ConfigMap>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(map) = self.maps.get(key)?.filter(|map| map.labels().contains_key("slow")) else {
            return Ok(Action::done());
        };
        if !map.annotations().contains_key("seen") {
            tokio::time::sleep(Duration::from_secs(3)).await;
            cx.client().merge_patch(key, &json!({"metadata": {"annotations": {"seen": "yes"}}})).await?;
        }
        Ok(Action::done())
    }
}

/// Halves the number of workers of a controller and doubles it again, every two seconds.
struct Resizes(ControllerHandle<ObjectKey<ConfigMap>>);

/// Largest number of workers, number of changes of it, and number of objects: enough for several rounds of all workers.
const WORKERS: usize = 8;
const CHANGES: usize = 60;
const SLOW: usize = 40;

impl Runnable for Resizes {
    async fn start(&self, _: RunContext) -> Result<(), BoxError> {
        for change in 0..CHANGES {
            self.0.set_max_concurrent_reconciles(WORKERS / (1 + change % 2))?;
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        Ok(())
    }
}

/// When a reconcile ends, its worker may be surplus while further requests wait. Which of both a worker sees first decides which reconciles
/// run at once, so without an order two equal runs differ.
#[test]
fn a_surplus_worker_stops_although_requests_wait() {
    let add = |manager: &Manager| -> Result<(), AddError> {
        let slow = Slow { maps: manager.cached() };
        manager.add(Resizes(Builder::managed_by(manager).for_kind::<ConfigMap>().complete(slow)?))?;
        Ok(())
    };
    let maps = (0..SLOW).map(|number| {
        format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: m{number}, labels: {{slow: ''}}}}}}")
    });
    let yaml = maps.collect::<Vec<_>>().join("\n---\n");
    let simulation = Simulation::new("slow", add)
        .step("many maps are created", async move |user| user.apply_yaml(&yaml).await);
    let report = simulation.explore(Explore::random(1).runs(1).budget(LONG));
    assert!(report.is_complete(), "{report}");
}
