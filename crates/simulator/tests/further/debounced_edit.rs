//! The operator waits ten seconds after an edit, and rolls out the edits of that time together. It keeps the version of the first edit in
//! memory, and rolls out that one in place of the last.
//!
//! Expected: same objects. Minimum plan: the next edit comes before the phase `Pending` is written.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;

use crate::common::*;

/// Time in which further edits may come.
const PAUSE: Duration = Duration::from_secs(10);

struct Configs {
    clusters: Cached<Cluster>,
    /// Edits that wait, by cluster: when they are rolled out, and the version that was asked for first.
    edits: Mutex<BTreeMap<String, (Timestamp, String)>>,
    variant: Variant,
}

impl Reconciler for Configs {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        let wanted = &cluster.spec.version;
        if cluster.status().version.as_ref() == Some(wanted) {
            self.edits.lock().remove(key.name());
            return Ok(Action::done());
        }
        let edit = self.edits.lock().get(key.name()).cloned();
        let Some((due, first)) = edit else {
            let status = ClusterStatus { phase: Some("Pending".to_owned()), ..ClusterStatus::default() };
            cx.client().apply_status(key, &status).await?;
            let edit = (cx.wall_time() + PAUSE, wanted.clone());
            self.edits.lock().insert(key.name().to_owned(), edit);
            return Ok(Action::requeue_after(PAUSE));
        };
        let now = cx.wall_time();
        if now < due {
            let left = Duration::try_from(due.duration_since(now)).unwrap_or_default();
            return Ok(Action::requeue_after(left));
        }
        let version = match self.variant {
            Variant::Buggy => &first,
            Variant::Twin => wanted,
        };
        let mut config = map("default", "db-config", "version", version);
        set_controller_reference(&*cluster, &mut config)?;
        cx.client().apply(&config).await?;
        let phase = Some("Ready".to_owned());
        let status = ClusterStatus { phase, version: Some(version.clone()), ..ClusterStatus::default() };
        cx.client().apply_status(key, &status).await?;
        self.edits.lock().remove(key.name());
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let configs = Configs { clusters: manager.cached(), edits: Mutex::default(), variant };
        // Its own writes of the status lead to no reconcile.
        Builder::managed_by(manager)
            .for_kind::<Cluster>()
            .with_predicate(GenerationChanged)
            .complete(configs)?;
        Ok(())
    };
    Simulation::new("configs", add)
        .crd::<Cluster>()
        .cluster("a cluster is created", "{version: '1'}")
        .cluster("its version changes", "{version: '2'}")
        .cluster("its version changes again", "{version: '3'}")
}

#[test]
fn the_bug_is_found() {
    find(simulation(Variant::Buggy));
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
