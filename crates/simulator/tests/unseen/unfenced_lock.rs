//! A database is locked while its schema is migrated. A request of a leader that was cut off arrives after its successor has finished,
//! and locks the database for good.
//!
//! Expected: same remotes. Minimum plan: the leader is cut off when it locks the database, and another one leads.

use crate::common::*;

#[derive(Default, Serialize)]
struct Database {
    version: String,
    /// Generation of the object for whose migration the database is locked.
    locked_by: Option<i64>,
    /// Generation of the object whose migration was the last to end.
    #[serde(skip)]
    ended: i64,
}

/// A database which, in the corrected version, ignores requests of migrations that are over or do not hold the lock.
struct FakeDatabase {
    database: Remote<Database>,
    is_fenced: bool,
}

impl FakeDatabase {
    async fn lock(&self, generation: i64) -> Result<(), Lost> {
        let is_fenced = self.is_fenced;
        let lock = move |database: &mut Database| {
            let is_late = generation <= database.ended || database.locked_by > Some(generation);
            if !is_fenced || !is_late {
                database.locked_by = Some(generation);
            }
        };
        self.database.effect("lock", "db", lock).await
    }

    async fn migrate(&self, generation: i64, version: &str) -> Result<(), Lost> {
        let (is_fenced, version) = (self.is_fenced, version.to_owned());
        let migrate = move |database: &mut Database| {
            if !is_fenced || database.locked_by == Some(generation) {
                database.version = version;
            }
        };
        self.database.effect("migrate", "db", migrate).await
    }

    async fn unlock(&self, generation: i64) -> Result<(), Lost> {
        let is_fenced = self.is_fenced;
        let unlock = move |database: &mut Database| {
            if !is_fenced || database.locked_by == Some(generation) {
                (database.locked_by, database.ended) = (None, generation);
            }
        };
        self.database.effect("unlock", "db", unlock).await
    }
}

struct Migrations {
    clusters: Cached<Cluster>,
    database: FakeDatabase,
}

impl Reconciler for Migrations {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        let version = &cluster.spec.version;
        if cluster.status().version.as_ref() == Some(version) {
            return Ok(Action::done());
        }
        let generation = cluster.metadata.generation.unwrap_or_default();
        self.database.lock(generation).await?;
        self.database.migrate(generation, version).await?;
        self.database.unlock(generation).await?;
        let status = ClusterStatus { version: Some(version.clone()), ..ClusterStatus::default() };
        cx.client().apply_status(key, &status).await?;
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let is_fenced = variant == Variant::Twin;
        let database = FakeDatabase { database: Remote::of_this_run(), is_fenced };
        let migrations = Migrations { clusters: manager.cached(), database };
        Builder::managed_by(manager).for_kind::<Cluster>().complete(migrations)?;
        Ok(())
    };
    Simulation::new("migrations", add)
        .crd::<Cluster>()
        .replicas(2)
        .remote("database", Database::default)
        .cluster("a database is created", "{version: '1'}")
        .cluster("it is upgraded", "{version: '2'}")
}

#[test]
fn the_bug_is_found() {
    find(simulation(Variant::Buggy));
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
