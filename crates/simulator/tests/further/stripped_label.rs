//! The cache contains only objects with the operator's label. A child without the label counts as missing, but its name is taken.
//!
//! Expected: a request fails forever, in the run without faults. Minimum plan: none.

use controller_runtime::BoxError;

use crate::common::*;

const LABEL: &str = "app.kubernetes.io/managed-by";

struct Children {
    clusters: Cached<Cluster>,
    maps: Cached<ConfigMap>,
    variant: Variant,
}

impl Reconciler for Children {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        let mut child = map("default", "db-config", "version", &cluster.spec.version);
        child.metadata.labels = Some([(LABEL.to_owned(), "clusters".to_owned())].into());
        set_controller_reference(&*cluster, &mut child)?;
        match self.maps.get(&in_default("db-config"))? {
            None if self.variant == Variant::Buggy => cx.client().create(&child).await?,
            _ => cx.client().apply(&child).await?,
        };
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), BoxError> {
        let maps = manager
            .cache()
            .of::<ConfigMap>()
            .labels("app.kubernetes.io/managed-by=clusters")
            .as_default()
            .build()?;
        let children = Children { clusters: manager.cached(), maps, variant };
        Builder::managed_by(manager).for_kind::<Cluster>().owns::<ConfigMap>().complete(children)?;
        Ok(())
    };
    Simulation::new("children", add)
        .crd::<Cluster>()
        .cluster("a cluster is created", "{version: '1'}")
        .step("a label of its child is removed", async |user| {
            let patch = json!({"metadata": {"labels": {LABEL: null}}});
            user.merge_patch(&in_default::<ConfigMap>("db-config"), &patch).await
        })
        .cluster("its version changes", "{version: '2'}")
}

#[test]
fn a_child_that_exists_already_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::Succeeds, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
