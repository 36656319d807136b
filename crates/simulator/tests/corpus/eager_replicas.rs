//! Missing members are counted in a cache and created around it. A reconcile before the cache has them creates them again.

use controller_runtime::{
    Action, Builder, Cached, Context, Manager, ObjectKey, ReconcileError, Reconciler, manager::AddError,
    set_controller_reference,
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, CustomResource, ResourceExt,
    api::{DeleteParams, PostParams},
};
use kube_simulator::{Explore, Oracle, Simulation};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{Variant, find, find_nothing};

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(group = "corpus.dev", version = "v1", kind = "Fleet", namespaced)]
pub(crate) struct FleetSpec {
    replicas: usize,
}

struct Fleets {
    fleets: Cached<Fleet>,
    maps: Cached<ConfigMap>,
    variant: Variant,
}

impl Fleets {
    fn member(fleet: &Fleet) -> Result<ConfigMap, ReconcileError> {
        let mut member = ConfigMap::default();
        member.metadata.namespace = fleet.namespace();
        member.metadata.labels = Some([("fleet".to_owned(), fleet.name_any())].into());
        set_controller_reference(fleet, &mut member)?;
        Ok(member)
    }
}

impl Reconciler for Fleets {
    type Request = ObjectKey<Fleet>;

    async fn reconcile(&self, key: &ObjectKey<Fleet>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(fleet) = self.fleets.get(key)? else { return Ok(Action::done()) };
        if self.variant == Variant::Twin {
            for index in 0..fleet.spec.replicas {
                let mut member = Self::member(&fleet)?;
                member.metadata.name = Some(format!("{}-{index}", key.name()));
                cx.client().apply(&member).await?;
            }
            return Ok(Action::done());
        }
        // Around the client, as code that comes from kube-rs writes: own writes are not in the cache at once.
        let api = Api::<ConfigMap>::namespaced(cx.client().kube().clone(), "default");
        let mut members = self.maps.list()?;
        members.retain(|member| member.labels().get("fleet").is_some_and(|fleet| fleet == key.name()));
        for _ in members.len()..fleet.spec.replicas {
            let mut member = Self::member(&fleet)?;
            member.metadata.generate_name = Some(format!("{}-", key.name()));
            api.create(&PostParams::default(), &member).await?;
        }
        for member in members.iter().skip(fleet.spec.replicas) {
            api.delete(&member.name_any(), &DeleteParams::default()).await?;
        }
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let fleets = Fleets { fleets: manager.cached(), maps: manager.cached(), variant };
        Builder::managed_by(manager).for_kind::<Fleet>().owns::<ConfigMap>().complete(fleets)?;
        Ok(())
    };
    let key = ObjectKey::<Fleet>::new("default", "f");
    Simulation::new("fleets", add)
        .crd::<Fleet>()
        .step("a fleet is asked for", async |user| {
            user.apply_yaml(
                "{apiVersion: corpus.dev/v1, kind: Fleet, metadata: {name: f}, spec: {replicas: 3}}",
            )
            .await
        })
        .step("it is annotated", async move |user| {
            user.merge_patch(&key, &json!({"metadata": {"annotations": {"a": "b"}}})).await
        })
}

#[test]
fn a_reconcile_before_the_cache_has_the_members_is_found() {
    let finding = find(simulation(Variant::Buggy), Explore::staleness());
    assert!(matches!(finding.oracle(), Oracle::SameCounts | Oracle::SameObjects), "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin), Explore::all());
}
