//! An import runs as a Job, and must end within twenty seconds. Whether the time is over is looked at before the
//! Job: one that ended in time, while the operator could not look, counts as failed forever.
//!
//! Expected: same objects. Minimum plan: a crash after the Job is created, with the restart after the next step; or
//! the event of its completion is held back until the timer of the operator fires.

use k8s_openapi::api::batch::v1::Job;

use crate::common::*;

/// Time that a Job may take.
const LIMIT: Duration = Duration::from_secs(20);

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "further.dev", version = "v1", kind = "Import", namespaced, status = "ImportStatus")]
#[serde(default)]
struct ImportSpec {
    source: String,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[serde(default)]
struct ImportStatus {
    result: String,
}

struct Imports {
    imports: Cached<Import>,
    variant: Variant,
}

fn job(import: &Import, name: &str) -> Result<Job, ReconcileError> {
    let mut job: Job = serde_json::from_value(json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": import.namespace()},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [
            {"name": "import", "image": "import", "args": [import.spec.source]},
        ]}}},
    }))?;
    set_controller_reference(import, &mut job)?;
    Ok(job)
}

impl Reconciler for Imports {
    type Request = ObjectKey<Import>;

    async fn reconcile(&self, key: &ObjectKey<Import>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(import) = self.imports.get(key)? else { return Ok(Action::done()) };
        if import.status.as_ref().is_some_and(|status| !status.result.is_empty()) {
            return Ok(Action::done());
        }
        let job_key = ObjectKey::<Job>::new(key.namespace().unwrap_or_default(), key.name());
        let Some(known) = cx.client().get(&job_key).await? else {
            cx.client().apply(&job(&import, job_key.name())?).await?;
            return Ok(Action::requeue_after(LIMIT));
        };
        let created = known.metadata.creation_timestamp.as_ref().expect("a stored object").0;
        let age = Duration::try_from(cx.wall_time().duration_since(created)).unwrap_or_default();
        let left = LIMIT.checked_sub(age).filter(|left| !left.is_zero());
        let is_complete = known.status.is_some_and(|status| status.completion_time.is_some());
        let result = match (self.variant, left, is_complete) {
            (Variant::Buggy, None, _) | (Variant::Twin, None, false) => "TimedOut",
            (_, _, true) => "Imported",
            (_, Some(left), false) => return Ok(Action::requeue_after(left)),
        };
        cx.client().apply_status(key, &ImportStatus { result: result.to_owned() }).await?;
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let imports = Imports { imports: manager.cached(), variant };
        Builder::managed_by(manager).for_kind::<Import>().owns::<Job>().complete(imports)?;
        Ok(())
    };
    let import = |month: &str| {
        let metadata = format!("{{name: {month}, namespace: ledger}}");
        format!(
            "{{apiVersion: further.dev/v1, kind: Import, metadata: {metadata}, spec: {{source: {month}.csv}}}}"
        )
    };
    Simulation::new("imports", add)
        .crd::<Import>()
        .actor("jobs", actors::jobs)
        .applies("there is a namespace", "{apiVersion: v1, kind: Namespace, metadata: {name: ledger}}")
        .applies("an import is asked for", &import("january"))
        .applies("another import is asked for", &import("february"))
}

#[test]
fn a_job_that_ended_in_time_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::SameObjects, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
