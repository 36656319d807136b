//! A reconcile notes in memory that it runs. When its timeout ends it, the note stays, and later reconciles wait for it.
//!
//! Expected: same objects or remotes. Minimum plan: a call takes longer than the timeout.

use std::{collections::BTreeSet, sync::Arc};

use controller_runtime::controller::ControllerOptions;

use crate::common::*;

#[derive(Default, Serialize)]
struct Registry {
    version: String,
}

type Running = Arc<Mutex<BTreeSet<String>>>;

/// Note that ends when it is dropped.
struct Note(Running, String);

impl Drop for Note {
    fn drop(&mut self) {
        self.0.lock().remove(&self.1);
    }
}

struct Registrations {
    clusters: Cached<Cluster>,
    registry: Remote<Registry>,
    /// Registrations under way, which a second controller would not disturb.
    running: Running,
    variant: Variant,
}

impl Reconciler for Registrations {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        if !self.running.lock().insert(key.name().to_owned()) {
            return Ok(Action::done());
        }
        let _note = match self.variant {
            Variant::Buggy => None,
            Variant::Twin => Some(Note(Arc::clone(&self.running), key.name().to_owned())),
        };
        let version = cluster.spec.version.clone();
        let registered =
            self.registry.effect("register", "db", move |registry| registry.version = version).await;
        let status =
            ClusterStatus { version: Some(cluster.spec.version.clone()), ..ClusterStatus::default() };
        let reported = match registered {
            Ok(()) => cx.client().apply_status(key, &status).await.map(drop).map_err(Into::into),
            Err(lost) => Err(ReconcileError::from(lost)),
        };
        self.running.lock().remove(key.name());
        reported?;
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let registrations = Registrations {
            clusters: manager.cached(),
            registry: Remote::of_this_run(),
            running: Running::default(),
            variant,
        };
        Builder::managed_by(manager)
            .for_kind::<Cluster>()
            .with_options(ControllerOptions::default().reconciliation_timeout(Duration::from_secs(30)))
            .complete(registrations)?;
        Ok(())
    };
    Simulation::new("registrations", add)
        .crd::<Cluster>()
        .remote("registry", Registry::default)
        .cluster("a cluster is created", "{version: '1'}")
        .cluster("its version changes", "{version: '2'}")
}

#[test]
fn a_note_that_stays_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert!(matches!(finding.oracle(), Oracle::SameObjects | Oracle::SameRemotes), "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
