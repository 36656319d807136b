//! Users that exist in a database are remembered by name. An object that replaces one of the same name is taken for it.
//!
//! Expected: same remotes. Minimum plan: the deletion and the creation arrive together.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::*;

#[derive(Default, Serialize)]
struct Database {
    /// Quotas by user.
    users: BTreeMap<String, i32>,
}

struct Users {
    clusters: Cached<Cluster>,
    database: Remote<Database>,
    known: Mutex<BTreeSet<String>>,
    variant: Variant,
}

impl Reconciler for Users {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else {
            self.known.lock().remove(key.name());
            return Ok(Action::done());
        };
        let identity = match self.variant {
            Variant::Buggy => key.name().to_owned(),
            Variant::Twin => cluster.uid().unwrap_or_default(),
        };
        if self.known.lock().contains(&identity) {
            return Ok(Action::done());
        }
        let (user, quota) = (key.name().to_owned(), cluster.spec.size);
        self.database
            .effect("create user", key.name(), move |database| {
                database.users.insert(user, quota);
            })
            .await?;
        let status = ClusterStatus { phase: Some("Ready".to_owned()), ..ClusterStatus::default() };
        cx.client().apply_status(key, &status).await?;
        self.known.lock().insert(identity);
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let users = Users {
            clusters: manager.cached(),
            database: Remote::of_this_run(),
            known: Mutex::default(),
            variant,
        };
        Builder::managed_by(manager).for_kind::<Cluster>().complete(users)?;
        Ok(())
    };
    Simulation::new("users", add)
        .crd::<Cluster>()
        .remote("database", Database::default)
        .cluster("a user is asked for", "{size: 1}")
        .deletes_cluster("it is deleted")
        .cluster("another one is asked for", "{size: 2}")
}

#[test]
fn a_user_of_the_same_name_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert!(matches!(finding.oracle(), Oracle::SameObjects | Oracle::SameRemotes), "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
