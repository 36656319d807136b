//! The cleanup before a deletion needs a Secret that the user deletes together with the object.
//!
//! Expected: the object is never deleted, in the run without faults. Minimum plan: none.

use crate::common::*;

const FINALIZER: &str = "further.dev/external";

struct Clusters {
    clusters: Cached<Cluster>,
    variant: Variant,
}

impl Reconciler for Clusters {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        let secret = in_default::<Secret>("admin");
        let credentials = cx.client().get(&secret).await?;
        if cluster.is_terminating() {
            if credentials.is_none() && self.variant == Variant::Buggy {
                return Err(ReconcileError::new("the Secret admin does not exist"));
            }
            cx.client().delete_key(&in_default::<ConfigMap>("db-external")).await?;
            if let (Some(credentials), Variant::Twin) = (credentials, self.variant) {
                cx.client().remove_finalizer(&credentials, FINALIZER).await?;
            }
            cx.client().remove_finalizer(&*cluster, FINALIZER).await?;
            return Ok(Action::done());
        }
        cx.client().add_finalizer(&*cluster, FINALIZER).await?;
        let Some(credentials) = credentials else {
            return Err(ReconcileError::new("the Secret admin does not exist"));
        };
        if self.variant == Variant::Twin && credentials.metadata.deletion_timestamp.is_none() {
            cx.client().add_finalizer(&credentials, FINALIZER).await?;
        }
        cx.client().apply(&map("default", "db-external", "size", &cluster.spec.size.to_string())).await?;
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let clusters = Clusters { clusters: manager.cached(), variant };
        Builder::managed_by(manager).for_kind::<Cluster>().complete(clusters)?;
        Ok(())
    };
    Simulation::new("clusters", add)
        .crd::<Cluster>()
        .applies("there are credentials", "{apiVersion: v1, kind: Secret, metadata: {name: admin}}")
        .cluster("a cluster is created", "{size: 1}")
        .step("both are deleted", async |user| {
            user.delete_key(&in_default::<Cluster>("db")).await?;
            user.delete_key(&in_default::<Secret>("admin")).await
        })
}

#[test]
fn an_object_that_is_never_deleted_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::Succeeds, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
