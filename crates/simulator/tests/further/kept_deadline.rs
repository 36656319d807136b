//! A blue-green rollout moves the traffic, and gives the other side half a minute before it is scaled to zero. The end is noted at the
//! Deployment. If the user goes back within that time, the note stays, and the side that serves the traffic is scaled to zero.
//!
//! Expected: the check. Minimum plan: the user goes back before the end of the other side is noted.

use controller_runtime::client::Patch;
use k8s_openapi::{api::apps::v1::Deployment, jiff::Timestamp};
use kube_simulator::Now;

use crate::common::*;

/// Annotation with the time at which a Deployment is scaled to zero.
const END: &str = "further.dev/scale-down-at";
const DELAY: Duration = Duration::from_secs(30);
const SIDES: [&str; 2] = ["blue", "green"];

fn end_of(deployment: &Deployment) -> Option<Timestamp> {
    deployment.annotations().get(END)?.parse().ok()
}

fn replicas(deployment: &Deployment) -> i32 {
    deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

/// Scales Deployments to zero at their ends, unless they have changed since.
struct Reaper(Cached<Deployment>);

impl Reconciler for Reaper {
    type Request = ObjectKey<Deployment>;

    async fn reconcile(&self, key: &ObjectKey<Deployment>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(deployment) = self.0.get(key)? else { return Ok(Action::done()) };
        let Some(end) = end_of(&deployment) else { return Ok(Action::done()) };
        let left = Duration::try_from(end.duration_since(cx.wall_time())).unwrap_or_default();
        if !left.is_zero() {
            return Ok(Action::requeue_after(left));
        }
        let down = json!({"metadata": {"annotations": {END: null}}, "spec": {"replicas": 0}});
        cx.client().patch(key, Patch::merge(&down).with_version_of(&*deployment)).await?;
        Ok(Action::done())
    }
}

struct Rollouts {
    clusters: Cached<Cluster>,
    variant: Variant,
}

fn deployment(cluster: &Cluster, name: &str, replicas: i32) -> Result<Deployment, ReconcileError> {
    let labels = json!({"app": name});
    let mut deployment: Deployment = serde_json::from_value(json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default", "annotations": {"further.dev/side": name}},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "web"}]},
        }},
    }))?;
    set_controller_reference(cluster, &mut deployment)?;
    Ok(deployment)
}

impl Reconciler for Rollouts {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        // The version of a cluster is the side that serves the traffic.
        let active = &cluster.spec.version;
        for side in SIDES {
            let name = format!("{}-{side}", key.name());
            let side_key = in_default::<Deployment>(&name);
            if cx.client().get(&side_key).await?.is_none() {
                let replicas = if side == active.as_str() { 2 } else { 0 };
                cx.client().apply(&deployment(&cluster, &name, replicas)?).await?;
            } else if side == active.as_str() {
                let mut up = json!({"spec": {"replicas": 2}});
                if self.variant == Variant::Twin {
                    // In one write with the replicas: a reaper that is about to act meets a conflict.
                    up["metadata"] = json!({"annotations": {END: null}});
                }
                cx.client().merge_patch(&side_key, &up).await?;
            }
        }
        let to = format!("{}-{active}", key.name());
        cx.client().apply(&map("default", "traffic", "to", &to)).await?;
        for side in SIDES.into_iter().filter(|side| *side != active.as_str()) {
            let side_key = in_default::<Deployment>(&format!("{}-{side}", key.name()));
            let Some(other) = cx.client().get(&side_key).await? else { continue };
            if replicas(&other) > 0 && end_of(&other).is_none() {
                let end = (cx.wall_time() + DELAY).to_string();
                let note = Patch::merge(&json!({"metadata": {"annotations": {END: end}}}));
                cx.client().patch(&side_key, note.with_version_of(&other)).await?;
            }
        }
        Ok(Action::done())
    }
}

/// Whether the side that receives the traffic has pods.
fn traffic_goes_to_pods(now: &Now<'_>) -> bool {
    let maps = now.all::<ConfigMap>();
    let Some(traffic) = maps.iter().find(|map| map.name_any() == "traffic") else { return true };
    let to = traffic.data.as_ref().and_then(|data| data.get("to"));
    let deployments = now.all::<Deployment>();
    deployments.iter().any(|side| Some(&side.name_any()) == to && replicas(side) > 0)
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let reaper = Reaper(manager.cached());
        Builder::managed_by(manager).for_kind::<Deployment>().named("reaper").complete(reaper)?;
        let rollouts = Rollouts { clusters: manager.cached(), variant };
        Builder::managed_by(manager).for_kind::<Cluster>().owns::<Deployment>().complete(rollouts)?;
        Ok(())
    };
    Simulation::new("rollouts", add)
        .crd::<Cluster>()
        .cluster("blue is asked for", "{version: blue}")
        .cluster("green is asked for", "{version: green}")
        .cluster("the user goes back to blue", "{version: blue}")
        .always("the traffic goes to pods", traffic_goes_to_pods)
}

#[test]
fn the_bug_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::Check, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
