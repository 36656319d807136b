//! Whether the volumes of a cluster are deleted with it is for the user to decide. If so, the claims name the cluster
//! as their owner, and the garbage collector deletes them. The user decides to keep them, and deletes the cluster
//! before the operator has removed the owner.
//!
//! Expected: same objects. Minimum plan: the cluster is deleted after the first claim has changed and before the second
//! one has.

use controller_runtime::client::Patch;
use k8s_openapi::api::{apps::v1::StatefulSet, core::v1::PersistentVolumeClaim};

use crate::common::*;

const FINALIZER: &str = "further.dev/claims";
const CLAIMS: [&str; 2] = ["data-es-0", "data-es-1"];

/// Claims are either to `delete` or to `keep`.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "further.dev", version = "v1", kind = "Elastic", namespaced)]
#[serde(default)]
struct ElasticSpec {
    claims: String,
}

struct Elastics {
    elastics: Cached<Elastic>,
    variant: Variant,
}

fn claim_of(elastic: &Elastic, name: &str) -> Result<PersistentVolumeClaim, ReconcileError> {
    let mut claim: PersistentVolumeClaim = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }))?;
    if elastic.spec.claims == "delete" {
        set_controller_reference(elastic, &mut claim)?;
    }
    Ok(claim)
}

fn set_of(elastic: &Elastic) -> Result<StatefulSet, ReconcileError> {
    let (name, labels) = (elastic.name_any(), json!({"elastic": elastic.name_any()}));
    let mut set: StatefulSet = serde_json::from_value(json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": 2, "serviceName": name, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels}, "spec": {"containers": [{"name": "es", "image": "elastic"}]},
        }},
    }))?;
    set_controller_reference(elastic, &mut set)?;
    Ok(set)
}

/// Gives the claim the owner that it is to have. Creates it, unless the cluster is being deleted.
async fn settle_claim(elastic: &Elastic, name: &str, cx: &Context) -> Result<(), ReconcileError> {
    let wanted = claim_of(elastic, name)?;
    let key = in_default::<PersistentVolumeClaim>(name);
    let Some(known) = cx.client().get(&key).await? else {
        if elastic.metadata.deletion_timestamp.is_none() {
            cx.client().create(&wanted).await?;
        }
        return Ok(());
    };
    let owners = &wanted.metadata.owner_references;
    if known.metadata.owner_references != *owners {
        let patch = Patch::merge(&json!({"metadata": {"ownerReferences": owners}}));
        cx.client().patch(&key, patch.with_version_of(&known)).await?;
    }
    Ok(())
}

impl Reconciler for Elastics {
    type Request = ObjectKey<Elastic>;

    async fn reconcile(&self, key: &ObjectKey<Elastic>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(elastic) = self.elastics.get(key)? else { return Ok(Action::done()) };
        let is_terminating = elastic.metadata.deletion_timestamp.is_some();
        if is_terminating && !has_finalizer(&*elastic, FINALIZER) {
            return Ok(Action::done());
        }
        if !is_terminating && self.variant == Variant::Twin {
            cx.client().add_finalizer(&*elastic, FINALIZER).await?;
        }
        for name in CLAIMS {
            settle_claim(&elastic, name, cx).await?;
        }
        if is_terminating {
            cx.client().remove_finalizer(&*elastic, FINALIZER).await?;
        } else {
            cx.client().apply(&set_of(&elastic)?).await?;
        }
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let elastics = Elastics { elastics: manager.cached(), variant };
        Builder::managed_by(manager).for_kind::<Elastic>().owns::<StatefulSet>().complete(elastics)?;
        Ok(())
    };
    let head = "apiVersion: further.dev/v1, kind: Elastic, metadata: {name: es}";
    let elastic = |claims: &str| format!("{{{head}, spec: {{claims: {claims}}}}}");
    Simulation::new("elastics", add)
        .crd::<Elastic>()
        .applies("a cluster is created", &elastic("delete"))
        .applies("its data are to be kept", &elastic("keep"))
        .step("it is deleted", async |user| user.delete_key(&in_default::<Elastic>("es")).await)
}

#[test]
fn a_claim_that_is_collected_with_its_former_owner_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::SameObjects, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
