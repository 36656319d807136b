//! Objects that belong together move to another namespace. Their owner references must name the uids of the copies,
//! which the operator knows from the answers to its creates. When it tries again, the copy of the owner exists already,
//! and its uid is not looked up: the copy of the owned object names the former owner, the garbage collector deletes it,
//! and the operator deletes the original.
//!
//! Expected: same objects. Minimum plan: a crash after the copy of the owner is created, or the answer is lost.

use std::collections::BTreeMap;

use controller_runtime::BoxError;

use crate::common::*;

/// The objects that belong together. Owners come first.
const FAMILY: [&str; 2] = ["cluster", "kubeconfig"];

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "further.dev", version = "v1", kind = "Relocation", status = "RelocationStatus")]
#[serde(default)]
struct RelocationSpec {
    /// Namespaces.
    from: String,
    to: String,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[serde(default)]
struct RelocationStatus {
    done: bool,
}

struct Relocations(Variant);

fn member(namespace: &str, name: &str) -> ObjectKey<ConfigMap> {
    ObjectKey::new(namespace, name)
}

impl Relocations {
    /// Copies an object, unless its copy exists. `uids` leads from the uids of originals to those of their copies.
    async fn copy(
        &self,
        original: &ConfigMap,
        to: &str,
        uids: &mut BTreeMap<String, String>,
        cx: &Context,
    ) -> Result<(), ReconcileError> {
        let name = original.name_any();
        let mut copy = ConfigMap { data: original.data.clone(), ..ConfigMap::default() };
        (copy.metadata.name, copy.metadata.namespace) = (Some(name.clone()), Some(to.to_owned()));
        let mut owners = original.metadata.owner_references.clone();
        for owner in owners.iter_mut().flatten() {
            if let Some(uid) = uids.get(&owner.uid) {
                owner.uid.clone_from(uid);
            }
        }
        copy.metadata.owner_references = owners;
        let mut stored = cx.client().create(&copy).await.ignore_already_exists()?;
        if stored.is_none() && self.0 == Variant::Twin {
            stored = cx.client().get(&member(to, &name)).await?;
            if stored.is_none() {
                return Err(ReconcileError::new(format!("the copy of {name} has vanished")));
            }
        }
        if let (Some(old), Some(new)) = (original.uid(), stored.and_then(|stored| stored.uid())) {
            uids.insert(old, new);
        }
        Ok(())
    }
}

impl Reconciler for Relocations {
    type Request = ObjectKey<Relocation>;

    async fn reconcile(&self, key: &ObjectKey<Relocation>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(relocation) = cx.client().get(key).await? else { return Ok(Action::done()) };
        if relocation.status.is_some_and(|status| status.done) {
            return Ok(Action::done());
        }
        let RelocationSpec { from, to } = &relocation.spec;
        let mut uids = BTreeMap::new();
        for name in FAMILY {
            // One that is gone was copied before.
            if let Some(original) = cx.client().get(&member(from, name)).await? {
                self.copy(&original, to, &mut uids, cx).await?;
            }
        }
        // Owners go last, so that none is missing when a process begins again.
        for name in FAMILY.into_iter().rev() {
            cx.client().delete_key(&member(from, name)).await?;
        }
        cx.client().apply_status(key, &RelocationStatus { done: true }).await?;
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        Builder::managed_by(manager).for_kind::<Relocation>().complete(Relocations(variant))?;
        Ok(())
    };
    let namespaces = "{apiVersion: v1, kind: Namespace, metadata: {name: blue}}\n---\n\
                      {apiVersion: v1, kind: Namespace, metadata: {name: red}}";
    Simulation::new("relocations", add)
        .crd::<Relocation>()
        .applies("there are two namespaces", namespaces)
        .step("there is a cluster, which owns its credentials", async |user| {
            let owner = user.apply(&map("blue", "cluster", "size", "3")).await?;
            let mut owned = map("blue", "kubeconfig", "user", "admin");
            set_controller_reference(&owner, &mut owned)?;
            user.apply(&owned).await?;
            Ok::<_, BoxError>(())
        })
        .applies(
            "both are to move",
            "{apiVersion: further.dev/v1, kind: Relocation, metadata: {name: db}, spec: {from: blue, to: red}}",
        )
}

#[test]
fn a_copy_that_names_the_former_owner_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert!(matches!(finding.oracle(), Oracle::SameObjects | Oracle::SameCounts), "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
