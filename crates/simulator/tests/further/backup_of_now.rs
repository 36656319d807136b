//! A backup is named after the time at which it is made, not the time at which it was due: repeated, it is another backup.
//!
//! Expected: same objects or counts. Minimum plan: a crash after the creation of a backup, with a later restart.

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::common::*;

struct Backups {
    clusters: Cached<Cluster>,
    variant: Variant,
}

impl Reconciler for Backups {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        if cluster.spec.version == "suspended" {
            return Ok(Action::done());
        }
        let created = cluster.metadata.creation_timestamp.as_ref().expect("a stored object").0;
        let last: Option<Timestamp> = cluster.status().message.and_then(|last| last.parse().ok());
        let due = last.unwrap_or(created) + SignedDuration::from_mins(cluster.spec.size.into());
        let now = cx.wall_time();
        if now < due {
            return Ok(Action::requeue_after(
                Duration::try_from(due.duration_since(now)).unwrap_or_default(),
            ));
        }
        let time = if self.variant == Variant::Buggy { now } else { due };
        let mut backup = map("default", &format!("db-{}", time.as_second()), "of", key.name());
        set_controller_reference(&*cluster, &mut backup)?;
        cx.client().create(&backup).await.ignore_already_exists()?;
        let status = ClusterStatus { message: Some(due.to_string()), ..ClusterStatus::default() };
        cx.client().apply_status(key, &status).await?;
        Ok(Action::requeue())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let backups = Backups { clusters: manager.cached(), variant };
        Builder::managed_by(manager).for_kind::<Cluster>().complete(backups)?;
        Ok(())
    };
    Simulation::new("backups", add).crd::<Cluster>().step("backups are made for 100 minutes", async |user| {
        user.apply_yaml(&cluster("{size: 30}")).await?;
        tokio::time::sleep(Duration::from_secs(6000)).await;
        user.apply_yaml(&cluster("{size: 30, version: suspended}")).await
    })
}

#[test]
fn a_backup_that_is_made_twice_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert!(matches!(finding.oracle(), Oracle::SameObjects | Oracle::SameCounts), "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
