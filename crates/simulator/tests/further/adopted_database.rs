//! The operator keeps a database that it has not created itself when the object is deleted. It takes any database that already exists
//! for such a one, but after a crash that may be its own.
//!
//! Expected: same objects or remotes. Minimum plan: a crash after the creation of the database, or its answer is lost.

use std::collections::BTreeMap;

use crate::common::*;

const FINALIZER: &str = "further.dev/database";

/// Databases, with the uid of the object for which each was created.
#[derive(Serialize)]
struct Server {
    databases: BTreeMap<String, Option<String>>,
}

struct FakeServer(Remote<Server>);

impl FakeServer {
    /// Creates the database unless there is one. Returns whether it is new, and whether it was created for `owner`.
    async fn create(&self, name: &str, owner: &str) -> Result<(bool, bool), Lost> {
        let (database, owner) = (name.to_owned(), owner.to_owned());
        let create = move |server: &mut Server| {
            let is_new = !server.databases.contains_key(&database);
            let known = server.databases.entry(database).or_insert_with(|| Some(owner.clone()));
            (is_new, known.as_ref() == Some(&owner))
        };
        self.0.effect("create database", name, create).await
    }

    /// Drops the database; with an owner, only if it was created for this one.
    async fn remove(&self, name: &str, owner: Option<String>) -> Result<(), Lost> {
        let database = name.to_owned();
        let remove = move |server: &mut Server| {
            if owner.is_none() || server.databases.get(&database) == Some(&owner) {
                server.databases.remove(&database);
            }
        };
        self.0.effect("drop database", name, remove).await
    }
}

struct Databases {
    clusters: Cached<Cluster>,
    server: FakeServer,
    variant: Variant,
}

impl Reconciler for Databases {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        let (name, uid) = (key.name(), cluster.uid().unwrap_or_default());
        if cluster.is_terminating() {
            if has_finalizer(&*cluster, FINALIZER) {
                match self.variant {
                    Variant::Buggy if cluster.phase() == "Created" => self.server.remove(name, None).await?,
                    // "We must not drop what we have not created."
                    Variant::Buggy => {}
                    Variant::Twin => self.server.remove(name, Some(uid)).await?,
                }
                cx.client().remove_finalizer(&*cluster, FINALIZER).await?;
            }
            return Ok(Action::done());
        }
        cx.client().add_finalizer(&*cluster, FINALIZER).await?;
        if cluster.phase().is_empty() {
            let (is_new, is_own) = self.server.create(name, &uid).await?;
            let is_created = if self.variant == Variant::Buggy { is_new } else { is_own };
            let phase = if is_created { "Created" } else { "Adopted" };
            let status = ClusterStatus { phase: Some(phase.to_owned()), ..ClusterStatus::default() };
            cx.client().apply_status(key, &status).await?;
        }
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let server = FakeServer(Remote::of_this_run());
        let databases = Databases { clusters: manager.cached(), server, variant };
        Builder::managed_by(manager).for_kind::<Cluster>().complete(databases)?;
        Ok(())
    };
    Simulation::new("databases", add)
        .crd::<Cluster>()
        .remote("server", || Server { databases: [("legacy".to_owned(), None)].into() })
        .cluster("a database is asked for", "{}")
        .applies(
            "a database that exists is adopted",
            "{apiVersion: further.dev/v1, kind: Cluster, metadata: {name: legacy}, spec: {}}",
        )
        .deletes_cluster("the first one is deleted")
        .step("the other one is released", async |user| {
            user.delete_key(&in_default::<Cluster>("legacy")).await
        })
}

#[test]
fn the_bug_is_found() {
    find(simulation(Variant::Buggy));
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
