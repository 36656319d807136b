//! An object that the cache shows as expired is deleted by its name, which may belong to a new object by then.

use controller_runtime::{
    Action, Builder, Cached, Context, Manager, ObjectKey, ReconcileError, Reconciler, manager::AddError,
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube_simulator::{Explore, Oracle, Simulation};
use serde_json::json;

use crate::{Variant, find, find_nothing};

struct Cleaner {
    maps: Cached<ConfigMap>,
    variant: Variant,
}

impl Reconciler for Cleaner {
    type Request = ObjectKey<ConfigMap>;

    async fn reconcile(&self, key: &ObjectKey<ConfigMap>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(map) = self.maps.get(key)? else { return Ok(Action::done()) };
        if map.labels().get("expired").is_some_and(|expired| expired == "true") {
            match self.variant {
                Variant::Buggy => cx.client().delete_key(key).await?,
                Variant::Twin => cx.client().delete(&*map).await?,
            };
        }
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let cleaner = Cleaner { maps: manager.cached(), variant };
        Builder::managed_by(manager).for_kind::<ConfigMap>().complete(cleaner)?;
        Ok(())
    };
    let create = "{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}";
    let key = ObjectKey::<ConfigMap>::new("default", "x");
    let replaced = key.clone();
    Simulation::new("cleaner", add)
        .step("x is built", async |user| user.apply_yaml(create).await)
        .step("x expires", async move |user| {
            user.merge_patch(&key, &json!({"metadata": {"labels": {"expired": "true"}}})).await
        })
        .step("x is replaced", async move |user| {
            if user.get(&replaced).await?.is_some() {
                user.delete_key(&replaced).await?;
            }
            user.apply_yaml(create).await
        })
}

#[test]
fn a_deletion_of_the_replaced_object_is_found() {
    let finding = find(simulation(Variant::Buggy), Explore::staleness());
    assert!(matches!(finding.oracle(), Oracle::SameCounts | Oracle::SameObjects), "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin), Explore::all());
}
