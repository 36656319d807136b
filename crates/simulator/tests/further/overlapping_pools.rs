//! Each pool labels the members that its selector matches. A member that two selectors match belongs to each of them in turn, forever.
//!
//! Expected: quiet, in the run without faults. Minimum plan: none.

use controller_runtime::cache::LabelSelector;

use crate::common::*;

const POOL: &str = "further.dev/pool";

struct Pools {
    clusters: Cached<Cluster>,
    maps: Cached<ConfigMap>,
    variant: Variant,
}

/// The selector of a pool is its version.
fn selector(pool: &Cluster) -> Result<LabelSelector, ReconcileError> {
    pool.spec.version.parse().map_err(ReconcileError::terminal)
}

impl Reconciler for Pools {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(pool) = self.clusters.get(key)? else { return Ok(Action::done()) };
        let members = self.maps.select().namespace("default").labels(&selector(&pool)?).list()?;
        for member in members {
            let owner = member.labels().get(POOL);
            let has_other = owner.is_some_and(|owner| {
                owner.as_str() < key.name()
                    && self.clusters.get(&in_default(owner)).is_ok_and(|pool| pool.is_some())
            });
            if owner.is_some_and(|owner| owner == key.name()) || has_other && self.variant == Variant::Twin {
                continue;
            }
            let label = json!({"metadata": {"labels": {POOL: key.name()}}});
            cx.client()
                .merge_patch(&ObjectKey::of(&*member).expect("a stored object"), &label)
                .await
                .optional()?;
        }
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let pools = Pools { clusters: manager.cached(), maps: manager.cached(), variant };
        let all = |_: &ConfigMap| [in_default::<Cluster>("front"), in_default("web")];
        Builder::managed_by(manager).for_kind::<Cluster>().watches(Kind::new(MapFn(all))).complete(pools)?;
        Ok(())
    };
    let pool = |name: &str, selector: &str| {
        format!(
            "{{apiVersion: further.dev/v1, kind: Cluster, metadata: {{name: {name}}}, spec: {{version: '{selector}'}}}}"
        )
    };
    Simulation::new("pools", add)
        .crd::<Cluster>()
        .applies(
            "there is a member",
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: m, labels: {app: web, tier: front}}}",
        )
        .applies("a pool", &pool("web", "app=web"))
        .applies("another pool", &pool("front", "tier=front"))
}

#[test]
fn a_member_of_two_pools_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::Quiet, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
