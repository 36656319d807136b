//! A sweeper deletes the credentials of clusters that its cache does not contain: such a cluster may not have arrived yet.
//!
//! Expected: same objects. Minimum plan: the event of the Cluster is held back until that of the Secret has come.

use crate::common::*;

struct Sweeper {
    clusters: Cached<Cluster>,
    secrets: Cached<Secret>,
    variant: Variant,
}

impl Reconciler for Sweeper {
    type Request = ObjectKey<Secret>;

    async fn reconcile(&self, key: &ObjectKey<Secret>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(secret) = self.secrets.get(key)? else { return Ok(Action::done()) };
        let Some(cluster) = secret.labels().get("cluster") else { return Ok(Action::done()) };
        let cluster = in_default::<Cluster>(cluster);
        if self.clusters.get(&cluster)?.is_some() {
            return Ok(Action::done());
        }
        if self.variant == Variant::Twin && cx.client().get(&cluster).await?.is_some() {
            // Looks again, because the cache never reports the deletion of a cluster that it never contained.
            return Ok(Action::requeue_after(Duration::from_secs(10)));
        }
        cx.client().delete(&*secret).await?;
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let secrets: Cached<Secret> = manager.cached();
        let sweeper = Sweeper { clusters: manager.cached(), secrets: secrets.clone(), variant };
        let of_cluster = move |cluster: &Cluster| {
            let mut secrets = secrets.list().unwrap_or_default();
            secrets.retain(|secret| secret.labels().get("cluster") == Some(&cluster.name_any()));
            secrets.iter().map(|secret| in_default::<Secret>(&secret.name_any())).collect::<Vec<_>>()
        };
        Builder::managed_by(manager)
            .for_kind::<Secret>()
            .watches(Kind::new(MapFn(of_cluster)))
            .complete(sweeper)?;
        Ok(())
    };
    let both = format!(
        "{}\n---\n{{apiVersion: v1, kind: Secret, metadata: {{name: admin, labels: {{cluster: db}}}}, stringData: {{user: root}}}}",
        cluster("{}")
    );
    Simulation::new("sweeper", add)
        .crd::<Cluster>()
        .applies("a cluster and its credentials are created", &both)
        .deletes_cluster("the cluster is deleted")
}

#[test]
fn credentials_of_an_unseen_cluster_are_found() {
    let finding = find(simulation(Variant::Buggy));
    assert!(matches!(finding.oracle(), Oracle::SameObjects | Oracle::SameCounts), "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
