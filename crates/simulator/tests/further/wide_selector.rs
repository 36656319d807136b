//! The cleanup deletes by a label that the children of all clusters have.
//!
//! Expected: same counts. Minimum plan: a crash after which the cleanup is repeated.

use crate::common::*;

const FINALIZER: &str = "further.dev/children";

struct Children {
    clusters: Cached<Cluster>,
    variant: Variant,
}

impl Reconciler for Children {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        if cluster.is_terminating() {
            let selector = match self.variant {
                Variant::Buggy => "app=db".to_owned(),
                Variant::Twin => format!("app=db,cluster={}", key.name()),
            };
            cx.client().delete_all::<ConfigMap>().in_namespace("default").labels(selector).await?;
            cx.client().remove_finalizer(&*cluster, FINALIZER).await?;
            return Ok(Action::done());
        }
        cx.client().add_finalizer(&*cluster, FINALIZER).await?;
        for member in 0..cluster.spec.size {
            let mut child =
                map("default", &format!("{}-{member}", key.name()), "version", &cluster.spec.version);
            let labels = [("app".to_owned(), "db".to_owned()), ("cluster".to_owned(), key.name().to_owned())];
            child.metadata.labels = Some(labels.into());
            set_controller_reference(&*cluster, &mut child)?;
            cx.client().apply(&child).await?;
        }
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let children = Children { clusters: manager.cached(), variant };
        Builder::managed_by(manager).for_kind::<Cluster>().owns::<ConfigMap>().complete(children)?;
        Ok(())
    };
    Simulation::new("children", add)
        .crd::<Cluster>()
        .cluster("a cluster is created", "{size: 1}")
        .applies(
            "another cluster is created",
            "{apiVersion: further.dev/v1, kind: Cluster, metadata: {name: other}, spec: {size: 1}}",
        )
        .deletes_cluster("the first one is deleted")
}

#[test]
fn a_deletion_of_the_children_of_others_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert!(matches!(finding.oracle(), Oracle::SameObjects | Oracle::SameCounts), "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
