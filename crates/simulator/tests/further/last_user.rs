//! A network is closed with its last user. Whether there is another user is looked up before the network is closed, and a new user may
//! find it open in between: the network is closed under it. The corrected operator has one worker, so that nothing happens in between.
//!
//! Expected: same objects. Minimum plan: the next user comes before the network is closed, and the write that closes it is carried out
//! when the operator has reacted to the new user.

use controller_runtime::controller::ControllerOptions;

use crate::common::*;

const FINALIZER: &str = "further.dev/network";

struct Networks {
    clusters: Cached<Cluster>,
}

impl Reconciler for Networks {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        let router = in_default::<ConfigMap>("router");
        // The version of a cluster is the network that it uses.
        let network = &cluster.spec.version;
        let entry = |state: Option<&str>| json!({"data": {network: state}});
        if cluster.is_terminating() {
            if has_finalizer(&*cluster, FINALIZER) {
                let all = self.clusters.list()?;
                let is_used =
                    all.iter().any(|other| !other.is_terminating() && other.spec.version == *network);
                if !is_used {
                    cx.client().merge_patch(&router, &entry(None)).await?;
                }
                cx.client().remove_finalizer(&*cluster, FINALIZER).await?;
            }
            return Ok(Action::done());
        }
        if cluster.phase() == "Connected" {
            return Ok(Action::done());
        }
        cx.client().add_finalizer(&*cluster, FINALIZER).await?;
        cx.client().merge_patch(&router, &entry(Some("open"))).await?;
        let status = ClusterStatus { phase: Some("Connected".to_owned()), ..ClusterStatus::default() };
        cx.client().apply_status(key, &status).await?;
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let workers = if variant == Variant::Twin { 1 } else { 4 };
        Builder::managed_by(manager)
            .for_kind::<Cluster>()
            .with_options(ControllerOptions::default().max_concurrent_reconciles(workers))
            .complete(Networks { clusters: manager.cached() })?;
        Ok(())
    };
    let named = |name: &str| {
        format!(
            "{{apiVersion: further.dev/v1, kind: Cluster, metadata: {{name: {name}}}, spec: {{version: blue}}}}"
        )
    };
    Simulation::new("networks", add)
        .crd::<Cluster>()
        .applies(
            "there is a router",
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: router}, data: {default: open}}",
        )
        .applies("a cluster uses a network", &named("web"))
        .step("it is deleted", async |user| user.delete_key(&in_default::<Cluster>("web")).await)
        .applies("another one uses the network", &named("api"))
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
