//! Replicas of an operator: one of them acts at a time.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use controller_runtime::{
    Action, Builder, Cached, Context, Manager, ManagerOptions, ObjectKey, ReconcileError, Reconciler,
    controller::ControllerOptions, manager::AddError,
};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube_simulator::{Explore, Now, Oracle, Simulation};
use tokio::sync::watch;

use super::{LONG, map};

struct Maps(Cached<Namespace>);

impl Reconciler for Maps {
    type Request = ObjectKey<Namespace>;

    async fn reconcile(&self, key: &ObjectKey<Namespace>, cx: &Context) -> Result<Action, ReconcileError> {
        if self.0.get(key)?.is_some() {
            cx.client().apply(&map(key.name())).await?;
        }
        Ok(Action::done())
    }
}

#[test]
fn replicas_without_leader_election_reconcile_one_object_at_once() {
    let simulation = Simulation::of("maps", |client| {
        let manager = Manager::new(client, ManagerOptions::new("maps"));
        let maps = Maps(manager.cached());
        Builder::managed_by(&manager).for_kind::<Namespace>().complete(maps).expect("a controller");
        manager
    });
    let simulation = simulation.replicas(2).step("a namespace is created", async |user| {
        user.apply_yaml("{apiVersion: v1, kind: Namespace, metadata: {name: red}}").await
    });
    let finding = simulation.find(Explore::pauses().budget(LONG)).expect("a finding");
    assert_eq!(finding.oracle(), Oracle::OneAtATime);
    assert!(finding.to_string().contains("two reconciles of "), "{finding}");
}

/// Applies a map for a namespace in each replica, on standby only a minute after it first sees it.
struct OnStandby {
    leads: watch::Receiver<bool>,
    has_waited: AtomicBool,
}

impl Reconciler for OnStandby {
    type Request = ObjectKey<Namespace>;

    async fn reconcile(&self, key: &ObjectKey<Namespace>, cx: &Context) -> Result<Action, ReconcileError> {
        if key.name() != "red" {
            return Ok(Action::done());
        }
        let leads = *self.leads.borrow();
        if !leads && !self.has_waited.swap(true, Ordering::Relaxed) {
            return Ok(Action::requeue_after(Duration::from_secs(60)));
        }
        cx.client().apply(&map(if leads { "of-the-leader" } else { "of-the-standby" })).await?;
        Ok(Action::done())
    }
}

/// Two replicas with a leader election, and a controller that does not need it.
fn on_standby() -> Simulation {
    let add = |manager: &Manager| -> Result<(), AddError> {
        let reconciler = OnStandby { leads: manager.leads(), has_waited: AtomicBool::new(false) };
        let namespaces = Builder::managed_by(manager).for_kind::<Namespace>();
        let everywhere = ControllerOptions::default().needs_leader_election(false);
        namespaces.with_options(everywhere).complete(reconciler)?;
        Ok(())
    };
    Simulation::new("on-standby", add).replicas(2).step("a namespace is created", async |user| {
        user.apply_yaml("{apiVersion: v1, kind: Namespace, metadata: {name: red}}").await
    })
}

#[test]
fn a_controller_without_leader_election_reconciles_in_each_replica() {
    let finding = on_standby().replay("").expect("a plan");
    assert!(finding.is_none(), "{}", finding.expect("a finding"));
}

#[test]
fn the_world_is_not_quiet_while_a_standby_has_work() {
    let has_both = |now: &Now<'_>| {
        let has_namespace =
            now.all::<Namespace>().iter().any(|namespace| namespace.metadata.name.as_deref() == Some("red"));
        !has_namespace || now.all::<ConfigMap>().len() == 2
    };
    let finding = on_standby().eventually("both have applied", has_both).replay("").expect("a plan");
    assert!(finding.is_none(), "{}", finding.expect("a finding"));
}
