//! A rule of a shared Ingress is removed by its index in the cached list: another rule may stand there by then.
//!
//! Expected: same objects. Minimum plan: the event of the Ingress is held back until the Cluster is reconciled.

use controller_runtime::client::Patch;
use k8s_openapi::api::networking::v1::Ingress;

use crate::common::*;

const FINALIZER: &str = "further.dev/rule";

struct Gateways {
    clusters: Cached<Cluster>,
    ingresses: Cached<Ingress>,
    variant: Variant,
}

fn hosts(ingress: &Ingress) -> Vec<&str> {
    let rules = ingress.spec.as_ref().and_then(|spec| spec.rules.as_ref());
    rules.into_iter().flatten().map(|rule| rule.host.as_deref().unwrap_or_default()).collect()
}

impl Reconciler for Gateways {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        let gateway = in_default::<Ingress>("gateway");
        let Some(ingress) = self.ingresses.get(&gateway)? else { return Ok(Action::done()) };
        let host = format!("{}.example.com", key.name());
        let index = hosts(&ingress).iter().position(|known| *known == host);
        if cluster.is_terminating() {
            if let Some(index) = index {
                let path = format!("/spec/rules/{index}");
                let mut patch = Patch::json(&json!([{"op": "remove", "path": path}]));
                if self.variant == Variant::Twin {
                    patch = patch.with_version_of(&*ingress);
                }
                cx.client().patch(&gateway, patch).await?;
            }
            cx.client().remove_finalizer(&*cluster, FINALIZER).await?;
            return Ok(Action::done());
        }
        cx.client().add_finalizer(&*cluster, FINALIZER).await?;
        if index.is_none() {
            let add = json!([{"op": "add", "path": "/spec/rules/-", "value": {"host": host}}]);
            cx.client().patch(&gateway, Patch::json(&add).with_version_of(&*ingress)).await?;
        }
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let gateways = Gateways { clusters: manager.cached(), ingresses: manager.cached(), variant };
        let to_cluster =
            |ingress: &Ingress| (ingress.name_any() == "gateway").then(|| in_default::<Cluster>("db"));
        Builder::managed_by(manager)
            .for_kind::<Cluster>()
            .watches(Kind::new(MapFn(to_cluster)))
            .complete(gateways)?;
        Ok(())
    };
    Simulation::new("gateways", add)
        .crd::<Cluster>()
        .applies(
            "there is a gateway",
            "{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: gateway}, spec: {rules: [{host: a.io}, {host: b.io}]}}",
        )
        .cluster("a cluster is created", "{}")
        .step("a rule goes, and the cluster", async |user| {
            let remove = Patch::json(&json!([{"op": "remove", "path": "/spec/rules/0"}]));
            user.patch(&in_default::<Ingress>("gateway"), remove).await?;
            let add = Patch::json(&json!([{"op": "add", "path": "/spec/rules/-", "value": {"host": "c.io"}}]));
            user.patch(&in_default::<Ingress>("gateway"), add).await?;
            user.delete_key(&in_default::<Cluster>("db")).await
        })
}

#[test]
fn a_rule_that_is_removed_instead_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::SameObjects, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
