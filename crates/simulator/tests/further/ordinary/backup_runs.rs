//! No bug: a Backup runs once, as a snapshot of remote storage that has the uid of the Backup, and its status notes each phase
//! before the next one begins. The two newest that are complete are kept for each database, and those with a label. Before one is
//! deleted, all are listed from the API server, not from the cache. A finalizer deletes the snapshot.

use std::collections::BTreeMap;

use controller_runtime::BoxError;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::common::*;

const FINALIZER: &str = "backup.example.com/snapshot";
/// Label of a Backup that is kept for ever.
const KEEP: &str = "backup.example.com/keep";
/// Number of complete Backups of a database that are kept.
const NEWEST: usize = 2;
const POLL: Duration = Duration::from_secs(10);
const DATABASES: [&str; 2] = ["orders", "users"];

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "backup.example.com", version = "v1", kind = "Backup", namespaced, status = "BackupStatus")]
#[serde(default)]
struct BackupSpec {
    database: String,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
struct BackupStatus {
    phase: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    completion_time: Option<Time>,
}

impl Backup {
    fn phase(&self) -> &str {
        self.status.as_ref().map(|status| &*status.phase).unwrap_or_default()
    }
}

#[derive(Serialize)]
struct Snapshot {
    database: String,
    is_complete: bool,
    /// How often it is still seen incomplete.
    #[serde(skip)]
    left: u32,
}

/// Snapshots by the uids of their Backups.
#[derive(Default, Serialize)]
struct Storage {
    snapshots: BTreeMap<String, Snapshot>,
}

struct FakeStorage(Remote<Storage>);

impl FakeStorage {
    /// Begins the snapshot unless there is one, and returns whether the database exists.
    async fn begin(&self, backup: &Backup) -> Result<bool, Lost> {
        let (uid, database) = (backup.uid().unwrap_or_default(), backup.spec.database.clone());
        let begin = move |storage: &mut Storage| {
            let is_known = DATABASES.contains(&&*database);
            if is_known {
                let snapshot = || Snapshot { database, is_complete: false, left: 2 };
                storage.snapshots.entry(uid).or_insert_with(snapshot);
            }
            is_known
        };
        self.0.effect("begin snapshot", &backup.name_any(), begin).await
    }

    async fn is_complete(&self, backup: &Backup) -> Result<bool, Lost> {
        let uid = backup.uid().unwrap_or_default();
        let look = move |storage: &mut Storage| {
            let Some(snapshot) = storage.snapshots.get_mut(&uid) else { return false };
            snapshot.left = snapshot.left.saturating_sub(1);
            snapshot.is_complete = snapshot.left == 0;
            snapshot.is_complete
        };
        self.0.effect("look at snapshot", &backup.name_any(), look).await
    }

    /// Succeeds if there is no such snapshot.
    async fn delete(&self, backup: &Backup) -> Result<(), Lost> {
        let uid = backup.uid().unwrap_or_default();
        let delete = move |storage: &mut Storage| {
            storage.snapshots.remove(&uid);
        };
        self.0.effect("delete snapshot", &backup.name_any(), delete).await
    }
}

struct Backups {
    backups: Cached<Backup>,
    storage: FakeStorage,
}

async fn enter(backup: &Backup, phase: &str, cx: &Context) -> Result<Action, ReconcileError> {
    let mut changed = backup.clone();
    let completion_time = (phase == "Complete").then(|| Time(cx.wall_time()));
    changed.status = Some(BackupStatus { phase: phase.to_owned(), completion_time });
    cx.client().update_status(&changed).await?;
    Ok(Action::done()) // goes on with the event of this change
}

/// Deletes the oldest of the complete Backups of a database.
async fn prune(database: &str, cx: &Context) -> Result<Action, ReconcileError> {
    let mut complete = cx.client().list::<Backup>().in_namespace("default").await?.items;
    complete.retain(|backup| {
        backup.spec.database == database
            && backup.phase() == "Complete"
            && backup.metadata.deletion_timestamp.is_none()
            && !backup.labels().contains_key(KEEP)
    });
    complete.sort_by_key(|backup| (backup.creation_timestamp(), backup.name_any()));
    let surplus = complete.len().saturating_sub(NEWEST);
    for backup in &complete[..surplus] {
        cx.client().delete(backup).await?;
    }
    Ok(Action::done())
}

impl Backups {
    async fn run(&self, backup: &Backup, cx: &Context) -> Result<Action, ReconcileError> {
        if !self.storage.begin(backup).await? {
            return enter(backup, "Failed", cx).await;
        }
        if !self.storage.is_complete(backup).await? {
            return Ok(Action::requeue_after(POLL));
        }
        enter(backup, "Complete", cx).await
    }
}

impl Reconciler for Backups {
    type Request = ObjectKey<Backup>;

    async fn reconcile(&self, key: &ObjectKey<Backup>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(backup) = self.backups.get(key)? else { return Ok(Action::done()) };
        if backup.metadata.deletion_timestamp.is_some() {
            if has_finalizer(&*backup, FINALIZER) {
                self.storage.delete(&backup).await?;
                cx.client().remove_finalizer(&*backup, FINALIZER).await?;
            }
            return Ok(Action::done());
        }
        if cx.client().add_finalizer(&*backup, FINALIZER).await? {
            return Ok(Action::done()); // goes on with the event of this change
        }
        match backup.phase() {
            "" => enter(&backup, "Running", cx).await,
            "Running" => self.run(&backup, cx).await,
            "Complete" => prune(&backup.spec.database, cx).await,
            _ => Ok(Action::done()),
        }
    }
}

fn backup(name: &str, database: &str) -> String {
    let head = format!("apiVersion: backup.example.com/v1, kind: Backup, metadata: {{name: {name}}}");
    format!("{{{head}, spec: {{database: {database}}}}}")
}

/// Patch that sets or removes the label.
fn keep(value: Option<&str>) -> serde_json::Value {
    json!({"metadata": {"labels": {KEEP: value}}})
}

fn key(name: &str) -> ObjectKey<Backup> {
    in_default(name)
}

pub(crate) fn simulation() -> Simulation {
    let add = |manager: &Manager| -> Result<(), AddError> {
        let backups = Backups { backups: manager.cached(), storage: FakeStorage(Remote::of_this_run()) };
        Builder::managed_by(manager).for_kind::<Backup>().with_finalizer(FINALIZER).complete(backups)?;
        Ok(())
    };
    Simulation::new("backups", add)
        .crd::<Backup>()
        .remote("storage", Storage::default)
        .step("three backups are made", async |user| {
            user.apply_yaml(&backup("orders-1", "orders")).await?;
            user.apply_yaml(&backup("orders-2", "orders")).await?;
            user.apply_yaml(&backup("users-1", "users")).await
        })
        .applies("a backup of a database is made that does not exist", &backup("none-1", "none"))
        .step("one is kept", async |user| user.merge_patch(&key("orders-1"), &keep(Some("yes"))).await)
        .step("two more are made, and one that is deleted at once", async |user| {
            user.apply_yaml(&backup("orders-3", "orders")).await?;
            user.apply_yaml(&backup("orders-4", "orders")).await?;
            user.apply_yaml(&backup("users-2", "users")).await?;
            user.delete_key(&key("users-2")).await?;
            Ok::<_, BoxError>(())
        })
        .step("one is no longer kept", async |user| user.merge_patch(&key("orders-1"), &keep(None)).await)
        // An apply to an object that is being deleted would be lost with it, so the user waits.
        .step("the last one is deleted and made again", async |user| {
            let known = user.get(&key("orders-4")).await?;
            if known.is_some_and(|known| !known.labels().contains_key("again")) {
                user.delete_key(&key("orders-4")).await?;
                return Err(BoxError::from("it is not gone yet"));
            }
            let metadata = "{name: orders-4, labels: {again: 'yes'}}";
            let head = format!("apiVersion: backup.example.com/v1, kind: Backup, metadata: {metadata}");
            user.apply_yaml(&format!("{{{head}, spec: {{database: orders}}}}")).await
        })
        .step("all backups of a database are deleted", async |user| {
            let backups = user.list::<Backup>().in_namespace("default").await?;
            for backup in backups.items.iter().filter(|backup| backup.spec.database == "orders") {
                user.delete_key(&key(&backup.name_any())).await?;
            }
            Ok::<_, BoxError>(())
        })
}

#[test]
fn the_operator_has_no_finding() {
    find_nothing(simulation());
}
