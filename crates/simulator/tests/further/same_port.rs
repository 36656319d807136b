//! Ports are allocated as the lowest that is free in the cache, by workers that do not wait for each other. The corrected operator has one
//! worker, which lists the objects, because a cache does not show a write with a lost response.
//!
//! Expected: the check, in the run without faults. Minimum plan: none. The port of an object is not compared, because it depends on the order of
//! requests.

use std::collections::BTreeSet;

use controller_runtime::controller::ControllerOptions;
use kube::{Api, api::ListParams};
use kube_simulator::Now;

use crate::common::*;

struct Ports {
    clusters: Cached<Cluster>,
    variant: Variant,
}

impl Reconciler for Ports {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        if cluster.status().replicas.is_some() {
            return Ok(Action::done());
        }
        let taken: Vec<i32> = match self.variant {
            Variant::Buggy => {
                self.clusters.list()?.iter().filter_map(|cluster| cluster.status().replicas).collect()
            }
            Variant::Twin => {
                let all = Api::<Cluster>::all(cx.client().kube().clone());
                let all = all.list(&ListParams::default()).await?;
                all.into_iter().filter_map(|cluster| cluster.status().replicas).collect()
            }
        };
        let port = (9000..9100).find(|port| !taken.contains(port));
        let phase = Some("Ready".to_owned());
        cx.client()
            .apply_status(key, &ClusterStatus { replicas: port, phase, ..ClusterStatus::default() })
            .await?;
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let workers = if variant == Variant::Twin { 1 } else { 16 };
        Builder::managed_by(manager)
            .for_kind::<Cluster>()
            .with_options(ControllerOptions::default().max_concurrent_reconciles(workers))
            .complete(Ports { clusters: manager.cached(), variant })?;
        Ok(())
    };
    let named = |name: &str| {
        format!("{{apiVersion: further.dev/v1, kind: Cluster, metadata: {{name: {name}}}, spec: {{}}}}")
    };
    let no_port_is_shared = |now: &Now<'_>| {
        let ports = now.all::<Cluster>().into_iter().filter_map(|cluster| cluster.status().replicas);
        let mut seen = BTreeSet::new();
        ports.into_iter().all(|port| seen.insert(port))
    };
    Simulation::new("ports", add)
        .crd::<Cluster>()
        .mask::<Cluster>("/status/replicas")
        .always("no port is allocated twice", no_port_is_shared)
        .applies("two clusters are created", &format!("{}\n---\n{}", named("blue"), named("green")))
        .applies("a third one is created", &named("red"))
}

#[test]
fn a_port_that_is_allocated_twice_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::Check, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
