//! A Job that exists no more is created again, although it has run: the cluster deletes finished Jobs some minutes later.
//!
//! Expected: quiet, in the run without faults. Minimum plan: none.

use k8s_openapi::api::batch::v1::Job;

use crate::common::*;

/// Finishes Jobs after five seconds, and deletes finished ones after their `ttlSecondsAfterFinished`, as Kubernetes does.
struct Jobs(Cached<Job>);

impl Reconciler for Jobs {
    type Request = ObjectKey<Job>;

    async fn reconcile(&self, key: &ObjectKey<Job>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(job) = self.0.get(key)? else { return Ok(Action::done()) };
        let status = job.status.clone().unwrap_or_default();
        let since = |time: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Time| {
            cx.wall_time().as_second() - time.0.as_second()
        };
        let wait = |seconds: i64| Action::requeue_after(Duration::from_secs(seconds.unsigned_abs().max(1)));
        let (Some(created), None) = (&job.metadata.creation_timestamp, &job.metadata.deletion_timestamp)
        else {
            return Ok(Action::done());
        };
        let Some(completed) = status.completion_time else {
            if since(created) < 5 {
                return Ok(wait(5 - since(created)));
            }
            let now = cx.wall_time();
            let condition = |name: &str| {
                json!({
                    "type": name, "status": "True", "lastProbeTime": now, "lastTransitionTime": now, "reason": "CompletionsReached",
                })
            };
            let done = json!({"status": {
                "startTime": created, "completionTime": now, "succeeded": 1,
                "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
            }});
            let patch = controller_runtime::client::Patch::merge(&done);
            cx.client().subresource(key, "status").patch::<Job>(patch).await.optional()?;
            return Ok(Action::done());
        };
        let Some(ttl) = job.spec.as_ref().and_then(|spec| spec.ttl_seconds_after_finished) else {
            return Ok(Action::done());
        };
        if since(&completed) < i64::from(ttl) {
            return Ok(wait(i64::from(ttl) - since(&completed)));
        }
        cx.client().delete(&*job).await.optional()?;
        Ok(Action::done())
    }
}

struct Migrations {
    clusters: Cached<Cluster>,
    jobs: Cached<Job>,
    variant: Variant,
}

impl Reconciler for Migrations {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        let version = &cluster.spec.version;
        let is_migrated = cluster.status().version.as_ref() == Some(version);
        if is_migrated && self.variant == Variant::Twin {
            return Ok(Action::done());
        }
        let name = format!("{}-migrate-{version}", key.name());
        let Some(job) = self.jobs.get(&in_default::<Job>(&name))? else {
            let job = json!({
                "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "default"},
                "spec": {"ttlSecondsAfterFinished": 300, "template": {"spec": {
                    "restartPolicy": "Never", "containers": [{"name": "migrate", "image": "flyway"}],
                }}},
            });
            let mut job: Job = serde_json::from_value(job)?;
            set_controller_reference(&*cluster, &mut job)?;
            cx.client().apply(&job).await?;
            return Ok(Action::done());
        };
        let is_done = job.status.as_ref().is_some_and(|status| status.completion_time.is_some());
        if is_done && !is_migrated {
            let status = ClusterStatus { version: Some(version.clone()), ..ClusterStatus::default() };
            cx.client().apply_status(key, &status).await?;
        }
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let migrations = Migrations { clusters: manager.cached(), jobs: manager.cached(), variant };
        Builder::managed_by(manager).for_kind::<Cluster>().owns::<Job>().complete(migrations)?;
        Ok(())
    };
    let jobs = |manager: &Manager| -> Result<(), AddError> {
        Builder::managed_by(manager).for_kind::<Job>().named("jobs").complete(Jobs(manager.cached()))?;
        Ok(())
    };
    Simulation::new("migrations", add)
        .crd::<Cluster>()
        .actor("jobs", jobs)
        .cluster("a cluster is created", "{version: '1'}")
        .cluster("its version changes", "{version: '2'}")
}

#[test]
fn a_job_that_runs_again_and_again_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert!(matches!(finding.oracle(), Oracle::Quiet | Oracle::SameCounts), "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
