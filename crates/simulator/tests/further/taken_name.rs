//! If another object has the name of a child, the cluster says so, and waits for its user. An own child whose creation was carried out
//! without an answer has the name as well, and is taken for another object.
//!
//! Expected: same objects. Minimum plan: the answer to the creation is lost, and the retry comes before the watch reports the child.

use controller_runtime::is_controlled_by;

use crate::common::*;

struct Configs {
    clusters: Cached<Cluster>,
    maps: Cached<ConfigMap>,
    variant: Variant,
}

impl Configs {
    /// Creates the child if it does not exist, and returns whether an object of another owner has its name.
    async fn is_taken(
        &self,
        cluster: &Cluster,
        child: &ConfigMap,
        cx: &Context,
    ) -> Result<bool, ReconcileError> {
        let key = in_default::<ConfigMap>(&child.name_any());
        if let Some(known) = self.maps.get(&key)? {
            return Ok(!is_controlled_by(&*known, cluster));
        }
        match cx.client().create(child).await {
            Err(error) if error.is_already_exists() && self.variant == Variant::Buggy => Ok(true),
            Err(error) if error.is_already_exists() => {
                let stored = cx.client().get(&key).await?;
                Ok(stored.is_some_and(|stored| !is_controlled_by(&stored, cluster)))
            }
            created => {
                created?;
                Ok(false)
            }
        }
    }
}

impl Reconciler for Configs {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        if cluster.phase() == "NameTaken" {
            return Ok(Action::done()); // the user has to choose another name
        }
        let name = format!("{}-config", key.name());
        let mut child = map("default", &name, "version", &cluster.spec.version);
        set_controller_reference(&*cluster, &mut child)?;
        let phase = if self.is_taken(&cluster, &child, cx).await? {
            "NameTaken"
        } else {
            cx.client().apply(&child).await?;
            "Ready"
        };
        let status = ClusterStatus { phase: Some(phase.to_owned()), ..ClusterStatus::default() };
        cx.client().apply_status(key, &status).await?;
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let configs = Configs { clusters: manager.cached(), maps: manager.cached(), variant };
        Builder::managed_by(manager).for_kind::<Cluster>().owns::<ConfigMap>().complete(configs)?;
        Ok(())
    };
    Simulation::new("configs", add)
        .crd::<Cluster>()
        .cluster("a cluster is created", "{version: '1'}")
        .cluster("its version changes", "{version: '2'}")
}

#[test]
fn the_bug_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::SameObjects, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
