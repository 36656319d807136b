//! An object with the user's data is renamed: deleted, and created again from memory. A crash between the two loses the data.

use controller_runtime::{
    Action, Builder, Cached, Context, Manager, ObjectKey, ReconcileError, Reconciler, manager::AddError,
    set_controller_reference,
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{CustomResource, ResourceExt};
use kube_simulator::{Explore, Oracle, Simulation};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{Variant, find, find_nothing};

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(group = "corpus.dev", version = "v1", kind = "House", namespaced, status = "HouseStatus")]
pub(crate) struct HouseSpec {
    room: String,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
pub(crate) struct HouseStatus {
    room: Option<String>,
}

struct Houses {
    houses: Cached<House>,
    variant: Variant,
}

impl Houses {
    fn child(house: &House, notes: Option<String>) -> Result<ConfigMap, ReconcileError> {
        let mut child = ConfigMap::default();
        child.metadata.namespace = house.namespace();
        child.metadata.name = Some(house.spec.room.clone());
        child.data = notes.map(|notes| [("notes".to_owned(), notes)].into());
        set_controller_reference(house, &mut child)?;
        Ok(child)
    }
}

impl Reconciler for Houses {
    type Request = ObjectKey<House>;

    async fn reconcile(&self, key: &ObjectKey<House>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(house) = self.houses.get(key)? else { return Ok(Action::done()) };
        let recorded = house.status.as_ref().and_then(|status| status.room.clone());
        if recorded.as_ref() == Some(&house.spec.room) {
            return Ok(Action::done());
        }
        let old = match &recorded {
            Some(room) => cx.client().get(&ObjectKey::<ConfigMap>::new("default", &**room)).await?,
            None => None,
        };
        let notes = old.as_ref().and_then(|old| old.data.as_ref()?.get("notes").cloned());
        let moved = HouseStatus { room: Some(house.spec.room.clone()) };
        let child = Self::child(&house, notes)?;
        match (self.variant, old) {
            (Variant::Buggy, Some(old)) => {
                cx.client().delete(&old).await?;
                cx.client().apply_status(key, &moved).await?;
                cx.client().create(&child).await?;
            }
            (Variant::Twin, Some(old)) => {
                cx.client().apply(&child).await?;
                cx.client().delete(&old).await?;
                cx.client().apply_status(key, &moved).await?;
            }
            (_, None) => {
                // Half moved: the child is there with its notes, which must stay.
                if cx
                    .client()
                    .get(&ObjectKey::<ConfigMap>::new("default", &*house.spec.room))
                    .await?
                    .is_none()
                {
                    cx.client().apply(&child).await?;
                }
                cx.client().apply_status(key, &moved).await?;
            }
        }
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let houses = Houses { houses: manager.cached(), variant };
        Builder::managed_by(manager).for_kind::<House>().complete(houses)?;
        Ok(())
    };
    let (key, child) =
        (ObjectKey::<House>::new("default", "h"), ObjectKey::<ConfigMap>::new("default", "attic"));
    Simulation::new("houses", add)
        .crd::<House>()
        .step("a house is asked for", async |user| {
            user.apply_yaml(
                "{apiVersion: corpus.dev/v1, kind: House, metadata: {name: h}, spec: {room: attic}}",
            )
            .await
        })
        .step("notes are written", async move |user| {
            user.merge_patch(&child, &json!({"data": {"notes": "remember"}})).await
        })
        .step("the room changes", async move |user| {
            user.merge_patch(&key, &json!({"spec": {"room": "cellar"}})).await
        })
}

#[test]
fn a_crash_after_the_deletion_is_found() {
    let finding = find(simulation(Variant::Buggy), Explore::crashes());
    assert_eq!(finding.oracle(), Oracle::SameObjects);
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin), Explore::all());
}
