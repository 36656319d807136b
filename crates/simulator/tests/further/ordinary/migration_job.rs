//! No bug: a Job with a fixed name runs once for each object, and the status is that of the Job. A Job of an earlier object of
//! the name does not count, because the Jobs are looked up by the uid of their owner. A Job that is deleted by hand runs again.

use k8s_openapi::{api::batch::v1::Job, apimachinery::pkg::apis::meta::v1::Time};

use crate::common::*;

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(
    group = "batch.example.com",
    version = "v1",
    kind = "Migration",
    namespaced,
    status = "MigrationStatus"
)]
#[serde(default)]
struct MigrationSpec {
    image: String,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
struct MigrationStatus {
    phase: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    completion_time: Option<Time>,
}

struct Migrations {
    migrations: Cached<Migration>,
    jobs: Cached<Job>,
}

fn job(migration: &Migration) -> Result<Job, ReconcileError> {
    let mut job: Job = serde_json::from_value(json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": format!("{}-job", migration.name_any()), "namespace": migration.namespace()},
        "spec": {"backoffLimit": 4, "template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "migrate", "image": migration.spec.image}],
        }}},
    }))?;
    set_controller_reference(migration, &mut job)?;
    Ok(job)
}

/// Whether the Job has a condition of this type.
fn has_condition(job: &Job, type_: &str) -> bool {
    let mut conditions = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|condition| condition.type_ == type_ && condition.status == "True")
}

impl Reconciler for Migrations {
    type Request = ObjectKey<Migration>;

    async fn reconcile(&self, key: &ObjectKey<Migration>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(migration) = self.migrations.get(key)? else { return Ok(Action::done()) };
        let jobs = self.jobs.owned_by(&*migration)?;
        let Some(job) = jobs.first() else {
            // Fails as long as a Job of this name exists that the cache does not show, or that belongs to an earlier object.
            cx.client().create(&job(&migration)?).await?;
            return Ok(Action::done()); // goes on when the Job changes
        };
        let phase = if has_condition(job, "Complete") {
            "Complete"
        } else if has_condition(job, "Failed") {
            "Failed"
        } else {
            "Running"
        };
        let completion_time = job.status.as_ref().and_then(|status| status.completion_time.clone());
        let status = MigrationStatus { phase: phase.to_owned(), completion_time };
        if migration.status.as_ref() != Some(&status) {
            cx.client().apply_status(key, &status).await?;
        }
        Ok(Action::done())
    }
}

fn migration(image: &str) -> String {
    let head = "apiVersion: batch.example.com/v1, kind: Migration, metadata: {name: orders}";
    format!("{{{head}, spec: {{image: '{image}'}}}}")
}

pub(crate) fn simulation() -> Simulation {
    let add = |manager: &Manager| -> Result<(), AddError> {
        let migrations = Migrations { migrations: manager.cached(), jobs: manager.cached() };
        Builder::managed_by(manager).for_kind::<Migration>().owns::<Job>().complete(migrations)?;
        Ok(())
    };
    Simulation::new("migrations", add)
        .crd::<Migration>()
        .actor("jobs", actors::jobs)
        .applies("a migration is created", &migration("migrate:1"))
        .step("it gets a label", async |user| {
            let label = json!({"metadata": {"labels": {"team": "orders"}}});
            user.merge_patch(&in_default::<Migration>("orders"), &label).await
        })
        .step("its Job is deleted", async |user| user.delete_key(&in_default::<Job>("orders-job")).await)
        .step("it is replaced", async |user| {
            user.delete_key(&in_default::<Migration>("orders")).await?;
            user.apply_yaml(&migration("migrate:2")).await
        })
        .step("it is deleted", async |user| user.delete_key(&in_default::<Migration>("orders")).await)
        .applies("it is created again", &migration("migrate:3"))
}

#[test]
fn the_operator_has_no_finding() {
    find_nothing(simulation());
}
