//! A migration takes a lock in the name of the process. The next leader waits for a process that is gone.
//!
//! Expected: same objects. Minimum plan: a crash after the lock is taken.

use crate::common::*;

struct Migrations {
    /// Name of this process in the lock.
    identity: String,
    variant: Variant,
}

impl Reconciler for Migrations {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let lock = in_default::<ConfigMap>("migration-lock");
        // The cache may not show yet what an earlier leader has migrated.
        let Some(cluster) = cx.client().get(key).await? else { return Ok(Action::done()) };
        let version = &cluster.spec.version;
        if cluster.status().version.as_ref() == Some(version) {
            // The migration is done, and perhaps its process ended before it gave the lock back.
            cx.client().delete_key(&lock).await?;
            return Ok(Action::done());
        }
        let held = match cx.client().get(&lock).await? {
            Some(held) => held,
            None => {
                let mut lock = map("default", "migration-lock", "holder", &self.identity);
                set_controller_reference(&cluster, &mut lock)?;
                cx.client().create(&lock).await?
            }
        };
        let holder = held.data.as_ref().and_then(|data| data.get("holder"));
        if holder != Some(&self.identity) && self.variant == Variant::Buggy {
            return Ok(Action::requeue_after(Duration::from_secs(15)));
        }
        // Only the leader is here, so the lock of another process is one that it left behind.
        cx.client().apply(&map("default", "schema", "version", version)).await?;
        let status = ClusterStatus { version: Some(version.clone()), ..ClusterStatus::default() };
        cx.client().apply_status(key, &status).await?;
        cx.client().delete_key(&lock).await?;
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let identity = format!("{:08x}", fastrand::u32(..));
        let migrations = Migrations { identity, variant };
        Builder::managed_by(manager).for_kind::<Cluster>().owns::<ConfigMap>().complete(migrations)?;
        Ok(())
    };
    Simulation::new("migrations", add)
        .crd::<Cluster>()
        .replicas(2)
        .cluster("a cluster is created", "{version: '1'}")
        .cluster("it is migrated", "{version: '2'}")
}

#[test]
fn the_lock_of_a_dead_process_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert!(matches!(finding.oracle(), Oracle::SameObjects | Oracle::Quiet), "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
