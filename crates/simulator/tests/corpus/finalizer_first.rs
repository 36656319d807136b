//! The finalizer is removed before the clean-up. A crash or refusal between the two leaves a bucket, and no object as a reminder.

use std::sync::Arc;

use controller_runtime::{
    Action, Builder, Cached, Context, Manager, ObjectKey, ReconcileError, Reconciler, has_finalizer,
    manager::AddError,
};
use kube::{CustomResource, ResourceExt};
use kube_simulator::{Explore, Oracle, Simulation};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Variant, find, find_nothing,
    two_buckets::{Cloud, FakeCloud},
};

const FINALIZER: &str = "corpus.dev/store";

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(group = "corpus.dev", version = "v1", kind = "Store", namespaced)]
pub(crate) struct StoreSpec {}

struct Stores {
    stores: Cached<Store>,
    cloud: Arc<FakeCloud>,
    variant: Variant,
}

impl Reconciler for Stores {
    type Request = ObjectKey<Store>;

    async fn reconcile(&self, key: &ObjectKey<Store>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(store) = self.stores.get(key)? else { return Ok(Action::done()) };
        let (name, token) = (store.name_any(), store.uid().unwrap_or_default());
        if store.metadata.deletion_timestamp.is_none() {
            cx.client().add_finalizer(&*store, FINALIZER).await?;
            self.cloud.create_with_token(&name, token).await?;
            return Ok(Action::done());
        }
        if has_finalizer(&*store, FINALIZER) {
            if self.variant == Variant::Buggy {
                cx.client().remove_finalizer(&*store, FINALIZER).await?;
            }
            self.cloud.delete_by_token(&name, token).await?;
            if self.variant == Variant::Twin {
                cx.client().remove_finalizer(&*store, FINALIZER).await?;
            }
        }
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let cloud = Arc::new(FakeCloud::of_this_run());
        let stores = Stores { stores: manager.cached(), cloud, variant };
        Builder::managed_by(manager).for_kind::<Store>().complete(stores)?;
        Ok(())
    };
    let key = ObjectKey::<Store>::new("default", "photos");
    Simulation::new("stores", add)
        .crd::<Store>()
        .remote("cloud", Cloud::default)
        .step("a store is asked for", async |user| {
            user.apply_yaml("{apiVersion: corpus.dev/v1, kind: Store, metadata: {name: photos}, spec: {}}")
                .await
        })
        .step("it goes", async move |user| user.delete_key(&key).await)
}

#[test]
fn a_crash_after_the_finalizers_removal_is_found() {
    let finding = find(simulation(Variant::Buggy), Explore::crashes());
    assert_eq!(finding.oracle(), Oracle::SameRemotes);
}

#[test]
fn a_refusal_of_the_clean_up_is_found() {
    let finding = find(simulation(Variant::Buggy), Explore::refusals());
    assert_eq!(finding.oracle(), Oracle::SameRemotes);
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin), Explore::all());
}
