//! A Job is applied with a new image, although the template of a Job cannot change.
//!
//! Expected: a request fails forever, in the run without faults. Minimum plan: none.

use k8s_openapi::api::batch::v1::Job;

use crate::common::*;

struct Migrations {
    clusters: Cached<Cluster>,
    jobs: Cached<Job>,
    variant: Variant,
}

impl Reconciler for Migrations {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        let name = match self.variant {
            Variant::Buggy => "db-migrate".to_owned(),
            Variant::Twin => format!("db-migrate-{}", cluster.spec.version),
        };
        for job in self.jobs.owned_by(&*cluster)?.iter().filter(|job| job.name_any() != name) {
            cx.client().delete(&**job).await?;
        }
        let container = json!({"name": "migrate", "image": format!("db:{}", cluster.spec.version)});
        let mut job: Job = serde_json::from_value(json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": key.namespace()},
            "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
        }))?;
        set_controller_reference(&*cluster, &mut job)?;
        cx.client().apply(&job).await?;
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let migrations = Migrations { clusters: manager.cached(), jobs: manager.cached(), variant };
        Builder::managed_by(manager).for_kind::<Cluster>().owns::<Job>().complete(migrations)?;
        Ok(())
    };
    Simulation::new("migrations", add)
        .crd::<Cluster>()
        .actor("jobs", actors::jobs)
        .cluster("a cluster is created", "{version: '1'}")
        .cluster("its version changes", "{version: '2'}")
}

#[test]
fn a_job_that_cannot_change_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::Succeeds, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
