//! Clusters that share a store are copied, and writes to the store are stopped meanwhile. There is one switch for all of them: the copy that
//! ends first lets writes through again while another one still runs. The corrected operator has a switch for each cluster.
//!
//! Expected: the check. Minimum plan: the second cluster is created before a write of the first one's copy, or a crash while the second one is
//! copied, after which the first one is reconciled again.

use std::collections::BTreeMap;

use kube_simulator::Now;

use crate::common::*;

const COPYING: &str = "Copying";

/// Time that a copy takes.
const COPY: Duration = Duration::from_secs(10);

struct Copies {
    clusters: Cached<Cluster>,
    variant: Variant,
}

/// Sets or removes an entry of the store. Writes are stopped while it has such an entry.
async fn stop_writes(entry: &str, stopped: Option<&str>, cx: &Context) -> Result<(), ReconcileError> {
    let change = json!({"data": {entry: stopped}});
    cx.client().merge_patch(&in_default::<ConfigMap>("store"), &change).await?;
    Ok(())
}

impl Reconciler for Copies {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        let entry = match self.variant {
            Variant::Buggy => "stopped".to_owned(),
            Variant::Twin => format!("stopped-for-{}", key.name()),
        };
        let status =
            |phase: &str| ClusterStatus { phase: Some(phase.to_owned()), ..ClusterStatus::default() };
        if cluster.phase().is_empty() {
            stop_writes(&entry, Some("true"), cx).await?;
            cx.client().apply_status(key, &status(COPYING)).await?;
            return Ok(Action::requeue_after(COPY));
        }
        if cluster.phase() == COPYING {
            cx.client().apply_status(key, &status("Copied")).await?;
        }
        // Also if the process before has ended before it came to this.
        stop_writes(&entry, None, cx).await?;
        Ok(Action::done())
    }
}

/// Whether writes are stopped while a cluster is copied.
fn copies_are_consistent(now: &Now<'_>) -> bool {
    let maps = now.all::<ConfigMap>();
    let mut entries = maps.iter().filter_map(|map| map.data.as_ref()).flat_map(BTreeMap::keys);
    let is_stopped = entries.any(|entry| entry.starts_with("stopped"));
    is_stopped || now.all::<Cluster>().iter().all(|cluster| cluster.phase() != COPYING)
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let copies = Copies { clusters: manager.cached(), variant };
        // Its own status must not end a copy.
        Builder::managed_by(manager)
            .for_kind::<Cluster>()
            .with_predicate(GenerationChanged)
            .complete(copies)?;
        Ok(())
    };
    Simulation::new("copies", add)
        .crd::<Cluster>()
        .applies(
            "there is a store",
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: store}, data: {size: '1'}}",
        )
        .cluster("a cluster is created", "{}")
        .applies(
            "another cluster is created",
            "{apiVersion: further.dev/v1, kind: Cluster, metadata: {name: other}, spec: {}}",
        )
        .always("no cluster is copied while others write", copies_are_consistent)
}

#[test]
fn the_bug_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::Check, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
