//! A proxy follows the primary of a database. A predicate passes only the moment at which the primary becomes ready: a primary that was
//! down and is back at another address, all in one event, has been ready all the time.
//!
//! Expected: same objects. Minimum plan: the event that it is down is skipped.

use controller_runtime::{Lazy, predicate::PredicateFuncs};

use crate::common::*;

struct Proxies {
    clusters: Cached<Cluster>,
    maps: Cached<ConfigMap>,
}

fn entry<'m>(map: &'m ConfigMap, field: &str) -> Option<&'m str> {
    map.data.as_ref()?.get(field).map(String::as_str)
}

fn is_ready(primary: &ConfigMap) -> bool {
    entry(primary, "ready") == Some("true")
}

fn was_ready(state: &Lazy<ConfigMap>) -> bool {
    state.object().is_ok_and(|primary| is_ready(&primary))
}

impl Reconciler for Proxies {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        let Some(primary) = self.maps.get(&in_default("primary"))? else { return Ok(Action::done()) };
        let Some(address) = entry(&primary, "address").filter(|_| is_ready(&primary)) else {
            return Ok(Action::done()); // the proxy keeps its target until there is another one
        };
        let mut proxy = map("default", &format!("{}-proxy", key.name()), "upstream", address);
        set_controller_reference(&*cluster, &mut proxy)?;
        cx.client().apply(&proxy).await?;
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let proxies = Proxies { clusters: manager.cached(), maps: manager.cached() };
        let to_cluster = |map: &ConfigMap| (map.name_any() == "primary").then(|| in_default::<Cluster>("db"));
        let became_ready = PredicateFuncs::<ConfigMap>::new()
            .on_update(move |old, new| was_ready(new) && (variant == Variant::Twin || !was_ready(old)));
        Builder::managed_by(manager)
            .for_kind::<Cluster>()
            .watches(Kind::new(MapFn(to_cluster)).with_predicate(became_ready))
            .complete(proxies)?;
        Ok(())
    };
    Simulation::new("proxies", add)
        .crd::<Cluster>()
        .applies(
            "there is a primary",
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: primary}, data: {ready: 'true', address: 10.0.0.1}}",
        )
        .cluster("a cluster is created", "{}")
        .step("the primary fails, and another one takes over", async |user| {
            let primary = in_default::<ConfigMap>("primary");
            user.merge_patch(&primary, &json!({"data": {"ready": "false"}})).await?;
            tokio::time::sleep(Duration::from_secs(2)).await;
            user.merge_patch(&primary, &json!({"data": {"ready": "true", "address": "10.0.0.2"}})).await
        })
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
