//! A restore loads the latest backup. Before, it saves the present state as a further backup, so that the user can go
//! back. If it begins again after that, the latest backup is the one that it has made itself: it loads the state that
//! the user wanted to be rid of. The corrected operator selects the backup once, and notes it before it makes its own.
//!
//! Expected: same remotes. Minimum plan: a crash after the present state is saved, or the answer to that is lost.

use crate::common::*;

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "further.dev", version = "v1", kind = "Restore", namespaced, status = "RestoreStatus")]
#[serde(default)]
struct RestoreSpec {
    reason: String,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[serde(default)]
struct RestoreStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    selected: Option<String>,
    done: bool,
}

/// Rows, the backup from which they were loaded, and all backups with their rows, the oldest one first.
#[derive(Serialize)]
struct Ledger {
    rows: String,
    loaded: Option<String>,
    backups: Vec<(String, String)>,
}

struct FakeLedger(Remote<Ledger>);

impl FakeLedger {
    async fn latest(&self) -> Result<Option<String>, Lost> {
        let look = |ledger: &mut Ledger| ledger.backups.last().map(|(backup, _)| backup.clone());
        self.0.effect("find", "latest backup", look).await
    }

    /// Saves the present rows, unless there is a backup of this name.
    async fn save(&self, backup: String) -> Result<(), Lost> {
        let save = move |ledger: &mut Ledger| {
            if ledger.backups.iter().all(|(known, _)| *known != backup) {
                ledger.backups.push((backup, ledger.rows.clone()));
            }
        };
        self.0.effect("save", "backup", save).await
    }

    async fn load(&self, backup: String) -> Result<(), Lost> {
        let load = move |ledger: &mut Ledger| {
            if let Some((_, rows)) = ledger.backups.iter().find(|(known, _)| *known == backup) {
                ledger.rows = rows.clone();
                ledger.loaded = Some(backup);
            }
        };
        self.0.effect("load", "backup", load).await
    }
}

struct Restores {
    ledger: FakeLedger,
    variant: Variant,
}

impl Reconciler for Restores {
    type Request = ObjectKey<Restore>;

    async fn reconcile(&self, key: &ObjectKey<Restore>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(restore) = cx.client().get(key).await? else { return Ok(Action::done()) };
        let mut status = restore.status.unwrap_or_default();
        if status.done {
            return Ok(Action::done());
        }
        let backup = match status.selected.clone() {
            Some(noted) => noted,
            None => {
                let latest = self.ledger.latest().await?;
                latest.ok_or_else(|| ReconcileError::new("there is no backup"))?
            }
        };
        if self.variant == Variant::Twin && status.selected.is_none() {
            status.selected = Some(backup.clone());
            cx.client().apply_status(key, &status).await?;
        }
        self.ledger.save(format!("before-{}", key.name())).await?;
        self.ledger.load(backup).await?;
        status.done = true;
        cx.client().apply_status(key, &status).await?;
        Ok(Action::done())
    }
}

/// Rows that a faulty release has ruined, and the backup of the day before.
fn ruined() -> Ledger {
    let backups = vec![("sunday".to_owned(), "good".to_owned())];
    Ledger { rows: "ruined".to_owned(), loaded: None, backups }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let restores = Restores { ledger: FakeLedger(Remote::of_this_run()), variant };
        Builder::managed_by(manager).for_kind::<Restore>().complete(restores)?;
        Ok(())
    };
    let head = "apiVersion: further.dev/v1, kind: Restore, metadata: {name: monday}";
    let restore = |reason: &str| format!("{{{head}, spec: {{reason: {reason}}}}}");
    Simulation::new("restores", add)
        .crd::<Restore>()
        .remote("ledger", ruined)
        .applies("a restore is asked for", &restore("unknown"))
        .applies("its reason is known", &restore("release"))
}

#[test]
fn a_state_that_is_restored_from_itself_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::SameRemotes, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
