//! A copy between two volumes locks both, the source first. Two copies in opposite directions lock one volume each,
//! and wait for the other one forever. The corrected operator locks volumes in the order of their names.
//!
//! Expected: same objects. Minimum plan: a crash between the two locks of the first copy, with the restart after
//! the second one is asked for; or the second one is asked for, and handled, before the second lock of the first
//! one.

use std::collections::BTreeMap;

use controller_runtime::client::Patch;

use crate::common::*;

/// Annotation of a volume with the name of the copy that has locked it.
const LOCK: &str = "further.dev/locked-by";

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "further.dev", version = "v1", kind = "Volume")]
#[serde(default)]
struct VolumeSpec {
    /// The copies that the volume has received, and where each came from.
    received: BTreeMap<String, String>,
}

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "further.dev", version = "v1", kind = "VolumeCopy", namespaced, status = "VolumeCopyStatus")]
#[serde(default)]
struct VolumeCopySpec {
    from: String,
    to: String,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[serde(default)]
struct VolumeCopyStatus {
    done: bool,
}

struct Copies(Variant);

fn volume(name: &str) -> ObjectKey<Volume> {
    ObjectKey::new((), name)
}

fn locked_by(copy: Option<&str>) -> serde_json::Value {
    json!({"metadata": {"annotations": {LOCK: copy}}})
}

/// Locks a volume for a copy, and returns whether it has the lock.
async fn lock(name: &str, copy: &str, cx: &Context) -> Result<bool, ReconcileError> {
    let Some(known) = cx.client().get(&volume(name)).await? else {
        return Err(ReconcileError::new(format!("the volume {name} does not exist")));
    };
    if let Some(holder) = known.annotations().get(LOCK) {
        return Ok(holder == copy);
    }
    let patch = Patch::merge(&locked_by(Some(copy))).with_version_of(&known);
    cx.client().patch(&volume(name), patch).await?;
    Ok(true)
}

/// Gives the lock of a copy back, if it still has it.
async fn unlock(name: &str, copy: &str, cx: &Context) -> Result<(), ReconcileError> {
    let Some(known) = cx.client().get(&volume(name)).await? else { return Ok(()) };
    if known.annotations().get(LOCK).is_some_and(|holder| holder == copy) {
        let patch = Patch::merge(&locked_by(None)).with_version_of(&known);
        cx.client().patch(&volume(name), patch).await?;
    }
    Ok(())
}

impl Reconciler for Copies {
    type Request = ObjectKey<VolumeCopy>;

    async fn reconcile(&self, key: &ObjectKey<VolumeCopy>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(copy) = cx.client().get(key).await? else { return Ok(Action::done()) };
        let VolumeCopySpec { from, to } = &copy.spec;
        let mut volumes = [from, to];
        if self.0 == Variant::Twin {
            volumes.sort();
        }
        if copy.status.is_none_or(|status| !status.done) {
            for name in volumes {
                if !lock(name, key.name(), cx).await? {
                    return Ok(Action::requeue_after(Duration::from_secs(10)));
                }
            }
            let received = json!({"spec": {"received": {key.name(): from}}});
            cx.client().merge_patch(&volume(to), &received).await?;
            cx.client().apply_status(key, &VolumeCopyStatus { done: true }).await?;
        }
        // Also if the process before has ended before it came to this.
        for name in volumes {
            unlock(name, key.name(), cx).await?;
        }
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        Builder::managed_by(manager).for_kind::<VolumeCopy>().complete(Copies(variant))?;
        Ok(())
    };
    let volumes = "{apiVersion: further.dev/v1, kind: Volume, metadata: {name: blue}, spec: {}}\n---\n\
                   {apiVersion: further.dev/v1, kind: Volume, metadata: {name: red}, spec: {}}";
    let copy = |name: &str, from: &str, to: &str| {
        let head = format!("apiVersion: further.dev/v1, kind: VolumeCopy, metadata: {{name: {name}}}");
        format!("{{{head}, spec: {{from: {from}, to: {to}}}}}")
    };
    Simulation::new("copies", add)
        .crd::<Volume>()
        .crd::<VolumeCopy>()
        .applies("there are two volumes", volumes)
        .applies("one is copied to the other", &copy("there", "red", "blue"))
        .applies("it is copied back", &copy("back", "blue", "red"))
}

#[test]
fn two_copies_that_wait_for_each_other_are_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::SameObjects, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
