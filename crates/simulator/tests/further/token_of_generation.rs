//! The token that makes the creation of a volume repeatable contains the generation of the object: after an edit it is another one.
//!
//! Expected: same remotes. Minimum plan: a crash before the id is recorded, with the restart after an edit.

use std::collections::BTreeMap;

use crate::common::*;

const FINALIZER: &str = "further.dev/volume";

#[derive(Default, Serialize)]
struct Storage {
    volumes: BTreeMap<u64, i32>,
    #[serde(skip)]
    tokens: BTreeMap<String, u64>,
}

struct FakeStorage(Remote<Storage>);

impl FakeStorage {
    async fn create(&self, token: String) -> Result<u64, Lost> {
        let create = move |storage: &mut Storage| {
            let new = fastrand::u64(..);
            let id = *storage.tokens.entry(token).or_insert(new);
            storage.volumes.entry(id).or_default();
            id
        };
        self.0.effect("create volume", "db", create).await
    }

    async fn resize(&self, id: u64, size: i32) -> Result<(), Lost> {
        let resize = move |storage: &mut Storage| {
            storage.volumes.entry(id).and_modify(|known| *known = size);
        };
        self.0.effect("resize volume", "db", resize).await
    }

    async fn delete(&self, id: u64) -> Result<(), Lost> {
        let delete = move |storage: &mut Storage| {
            storage.volumes.remove(&id);
            storage.tokens.retain(|_, known| *known != id);
        };
        self.0.effect("delete volume", "db", delete).await
    }
}

struct Volumes {
    clusters: Cached<Cluster>,
    storage: FakeStorage,
    variant: Variant,
}

impl Reconciler for Volumes {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        let recorded = cluster.status().message.and_then(|id| id.parse().ok());
        if cluster.is_terminating() && !has_finalizer(&*cluster, FINALIZER) {
            return Ok(Action::done());
        }
        cx.client().add_finalizer(&*cluster, FINALIZER).await?;
        let id = match recorded {
            Some(id) => id,
            None => {
                let uid = cluster.uid().unwrap_or_default();
                let token = match self.variant {
                    Variant::Buggy => format!("{uid}-{}", cluster.metadata.generation.unwrap_or_default()),
                    Variant::Twin => uid,
                };
                self.storage.create(token).await?
            }
        };
        if cluster.is_terminating() {
            self.storage.delete(id).await?;
            cx.client().remove_finalizer(&*cluster, FINALIZER).await?;
            return Ok(Action::done());
        }
        if recorded.is_none() {
            let status = ClusterStatus { message: Some(id.to_string()), ..ClusterStatus::default() };
            cx.client().apply_status(key, &status).await?;
        }
        self.storage.resize(id, cluster.spec.size).await?;
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let storage = FakeStorage(Remote::of_this_run());
        let volumes = Volumes { clusters: manager.cached(), storage, variant };
        Builder::managed_by(manager).for_kind::<Cluster>().complete(volumes)?;
        Ok(())
    };
    Simulation::new("volumes", add)
        .crd::<Cluster>()
        .remote("storage", Storage::default)
        .cluster("a volume is asked for", "{size: 1}")
        .cluster("it grows", "{size: 2}")
        .deletes_cluster("it is deleted")
}

#[test]
fn a_volume_that_is_created_again_after_an_edit_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::SameRemotes, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
