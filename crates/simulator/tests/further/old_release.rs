//! A database has three shards, each a StatefulSet, and all of them run the release that the user asks for. The
//! operator reads it from its cache. A standby that has not seen the last edit yet, and becomes the leader, takes the
//! new release back until the edit arrives: the old one cannot read what the new one has written. The corrected
//! operator reads the shards first and the release after them, so that no shard is newer than the release, and changes
//! a shard only if it is still the one that was read.
//!
//! Expected: the check. Minimum plan: a standby that has missed the event of the last edit becomes the leader.

use controller_runtime::client::Patch;
use k8s_openapi::api::apps::v1::StatefulSet;
use kube_simulator::Now;

use crate::common::*;

const SHARDS: [&str; 3] = ["shard-a", "shard-b", "shard-c"];

struct Shards {
    clusters: Cached<Cluster>,
    variant: Variant,
}

fn image(cluster: &Cluster) -> String {
    format!("db:{}", cluster.spec.version)
}

fn set_of(cluster: &Cluster, shard: &str) -> Result<StatefulSet, ReconcileError> {
    let labels = json!({"shard": shard});
    let mut set: StatefulSet = serde_json::from_value(json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": shard, "namespace": "default"},
        "spec": {"replicas": 1, "serviceName": shard, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels}, "spec": {"containers": [{"name": "db", "image": image(cluster)}]},
        }},
    }))?;
    set_controller_reference(cluster, &mut set)?;
    Ok(set)
}

fn image_of(set: &StatefulSet) -> Option<&str> {
    let template = &set.spec.as_ref()?.template;
    template.spec.as_ref()?.containers.first()?.image.as_deref()
}

/// Gives a shard, in the state that was read, the release of the cluster.
async fn upgrade(
    cluster: &Cluster,
    shard: &str,
    known: Option<StatefulSet>,
    cx: &Context,
) -> Result<(), ReconcileError> {
    let image = image(cluster);
    let Some(known) = known else {
        cx.client().create(&set_of(cluster, shard)?).await?;
        return Ok(());
    };
    if image_of(&known) != Some(image.as_str()) {
        let containers = json!([{"name": "db", "image": image}]);
        let change = Patch::merge(&json!({"spec": {"template": {"spec": {"containers": containers}}}}));
        cx.client().patch(&in_default::<StatefulSet>(shard), change.with_version_of(&known)).await?;
    }
    Ok(())
}

impl Reconciler for Shards {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        if self.variant == Variant::Buggy {
            let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
            for shard in SHARDS {
                cx.client().apply(&set_of(&cluster, shard)?).await?;
            }
            return Ok(Action::done());
        }
        let mut all = Vec::new();
        for shard in SHARDS {
            all.push((shard, cx.client().get(&in_default::<StatefulSet>(shard)).await?));
        }
        let Some(cluster) = cx.client().get(key).await? else { return Ok(Action::done()) };
        for (shard, known) in all {
            upgrade(&cluster, shard, known, cx).await?;
        }
        Ok(Action::done())
    }
}

/// Whether all shards run one of these releases.
fn all_run(now: &Now<'_>, images: &[&str]) -> bool {
    let sets = now.all::<StatefulSet>();
    let runs = |set: &StatefulSet| image_of(set).is_some_and(|image| images.contains(&image));
    sets.len() == SHARDS.len() && sets.iter().all(runs)
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let shards = Shards { clusters: manager.cached(), variant };
        Builder::managed_by(manager).for_kind::<Cluster>().owns::<StatefulSet>().complete(shards)?;
        Ok(())
    };
    Simulation::new("shards", add)
        .crd::<Cluster>()
        .replicas(2)
        .cluster("a database is created", "{version: '1'}")
        .cluster("the second release is asked for", "{version: '2'}")
        .cluster("the third release is asked for", "{version: '3'}")
        .lasting("the second release is not taken back", |now| all_run(now, &["db:2", "db:3"]))
        .lasting("the third release is not taken back", |now| all_run(now, &["db:3"]))
}

#[test]
fn a_release_that_is_taken_back_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::Check, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
