//! The stages of a pipeline are Jobs, which are created suspended and then resumed one after the other. The cluster
//! deletes each Job ten seconds after its end. The operator waits until it sees the end of a Job: if it cannot look
//! within these seconds, it waits forever, and the next stages never run. For the corrected operator a Job that does
//! not exist any more has ended, because all of them exist before the first one runs.
//!
//! Expected: same objects. Minimum plan: a crash after a Job is resumed, with the restart after the next step; or the
//! events of the Job are held back until it is gone.

use k8s_openapi::api::batch::v1::Job;

use crate::common::*;

const STAGES: [&str; 3] = ["extract", "transform", "load"];

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "further.dev", version = "v1", kind = "Pipeline", namespaced, status = "PipelineStatus")]
#[serde(default)]
struct PipelineSpec {
    source: String,
}

/// Whether all Jobs exist or have existed, and the stages that have ended.
#[derive(Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[serde(default)]
struct PipelineStatus {
    prepared: bool,
    ended: Vec<String>,
}

struct Pipelines {
    variant: Variant,
}

fn job_of(pipeline: &Pipeline, stage: &str) -> Result<Job, ReconcileError> {
    let container = json!({"name": "etl", "image": "etl", "args": [stage, pipeline.spec.source]});
    let mut job: Job = serde_json::from_value(json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": format!("{}-{stage}", pipeline.name_any()), "namespace": "default"},
        "spec": {"suspend": true, "ttlSecondsAfterFinished": 10, "template": {"spec": {
            "restartPolicy": "Never", "containers": [container],
        }}},
    }))?;
    set_controller_reference(pipeline, &mut job)?;
    Ok(job)
}

impl Pipelines {
    /// Resumes the Job of a stage, and returns whether it has ended.
    async fn run(&self, job: &ObjectKey<Job>, cx: &Context) -> Result<bool, ReconcileError> {
        let Some(known) = cx.client().get(job).await? else {
            return Ok(self.variant == Variant::Twin);
        };
        if known.spec.is_some_and(|spec| spec.suspend == Some(true)) {
            cx.client().merge_patch(job, &json!({"spec": {"suspend": false}})).await?;
            return Ok(false);
        }
        Ok(known.status.is_some_and(|status| status.completion_time.is_some()))
    }
}

impl Reconciler for Pipelines {
    type Request = ObjectKey<Pipeline>;

    async fn reconcile(&self, key: &ObjectKey<Pipeline>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(pipeline) = cx.client().get(key).await? else { return Ok(Action::done()) };
        let mut status = pipeline.status.clone().unwrap_or_default();
        if !status.prepared {
            for stage in STAGES {
                cx.client().create(&job_of(&pipeline, stage)?).await.ignore_already_exists()?;
            }
            status.prepared = true;
            cx.client().apply_status(key, &status).await?;
        }
        let has_ended = |stage: &&str| status.ended.iter().any(|ended| ended == stage);
        let Some(stage) = STAGES.into_iter().find(|stage| !has_ended(stage)) else {
            return Ok(Action::done());
        };
        let job = in_default::<Job>(&format!("{}-{stage}", key.name()));
        if !self.run(&job, cx).await? {
            return Ok(Action::done()); // goes on when the Job changes
        }
        status.ended.push(stage.to_owned());
        cx.client().apply_status(key, &status).await?;
        Ok(Action::requeue())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        Builder::managed_by(manager).for_kind::<Pipeline>().owns::<Job>().complete(Pipelines { variant })?;
        Ok(())
    };
    let pipeline = |month: &str| {
        let head = format!("apiVersion: further.dev/v1, kind: Pipeline, metadata: {{name: {month}}}");
        format!("{{{head}, spec: {{source: {month}.csv}}}}")
    };
    Simulation::new("pipelines", add)
        .crd::<Pipeline>()
        .actor("jobs", actors::jobs)
        .applies("the figures of a month are asked for", &pipeline("june"))
        .applies("those of the next month are asked for", &pipeline("july"))
}

#[test]
fn a_job_that_nobody_saw_ending_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::SameObjects, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
