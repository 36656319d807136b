//! Completes Jobs, and deletes them after `ttlSecondsAfterFinished`.

use controller_runtime::{
    Action, Builder, Cached, Context, Manager, ObjectKey, ReconcileError, Reconciler, manager::AddError,
};
use k8s_openapi::{api::batch::v1::Job, apimachinery::pkg::apis::meta::v1::Time};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
};
use serde_json::json;
use tokio::time::Duration;

use super::{MANAGER, unless_gone};

/// Time from the creation of a Job to its completion.
const RUN_TIME: Duration = Duration::from_secs(5);

/// Adds a controller that completes each Job five seconds after its creation, unless it is suspended, and deletes it after
/// its `ttlSecondsAfterFinished`. The controller creates no pods.
///
/// # Errors
///
/// The manager already has a controller of this name.
pub fn jobs(manager: &Manager) -> Result<(), AddError> {
    let jobs = Jobs { jobs: manager.cached() };
    Builder::managed_by(manager).for_kind::<Job>().named("jobs").complete(jobs)?;
    Ok(())
}

struct Jobs {
    jobs: Cached<Job>,
}

impl Reconciler for Jobs {
    type Request = ObjectKey<Job>;

    async fn reconcile(&self, key: &ObjectKey<Job>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(job) = self.jobs.get(key)? else { return Ok(Action::done()) };
        let (spec, status) = (job.spec.clone().unwrap_or_default(), job.status.clone().unwrap_or_default());
        let (Some(created), None) = (&job.metadata.creation_timestamp, &job.metadata.deletion_timestamp)
        else {
            return Ok(Action::done());
        };
        let left = |since: &Time, duration: Duration| {
            let passed = Duration::try_from(cx.wall_time().duration_since(since.0)).unwrap_or_default();
            // `None` if the time is over.
            duration.checked_sub(passed).filter(|left| !left.is_zero())
        };
        let api = Api::<Job>::namespaced(cx.client().kube().clone(), key.namespace().unwrap_or_default());
        let Some(completed) = &status.completion_time else {
            if spec.suspend == Some(true) {
                return Ok(Action::done());
            }
            if let Some(left) = left(created, RUN_TIME) {
                return Ok(Action::requeue_after(left));
            }
            let now = cx.wall_time();
            let condition = |name: &str| {
                json!({
                    "type": name, "status": "True", "reason": "CompletionsReached",
                    "lastProbeTime": now, "lastTransitionTime": now,
                })
            };
            let done = json!({"status": {
                "startTime": created, "completionTime": now, "succeeded": spec.completions.unwrap_or(1),
                "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
            }});
            let patched =
                api.patch_status(key.name(), &PatchParams::apply(MANAGER), &Patch::Merge(&done)).await;
            unless_gone(patched)?;
            return Ok(Action::done());
        };
        let Some(ttl) = spec.ttl_seconds_after_finished.and_then(|seconds| u64::try_from(seconds).ok())
        else {
            return Ok(Action::done());
        };
        if let Some(left) = left(completed, Duration::from_secs(ttl)) {
            return Ok(Action::requeue_after(left));
        }
        // The cache may be late: a new Job of this name must not be deleted for the old one.
        let preconditions = Preconditions { uid: job.metadata.uid.clone(), resource_version: None };
        let delete = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::background() };
        unless_gone(api.delete(key.name(), &delete).await)?;
        Ok(Action::done())
    }
}
