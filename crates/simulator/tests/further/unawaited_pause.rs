//! One operator launches an instance for each machine, and a second operator moves machines to other
//! namespaces. The second marks a machine as paused, copies the machine with its instance, and deletes the
//! original. It does not wait for a launch that has begun before the mark: the launched instance then belongs
//! to no machine, and the copy gets another instance. The corrected operator waits until the first operator
//! has reported the pause.
//!
//! Expected: same remotes. Minimum plan: a crash after the launch, with the restart after the move; or the
//! move is asked for before the launch, which is carried out when the machine has been moved.

use std::collections::BTreeMap;

use crate::common::*;

/// Annotation of machines that are paused.
const PAUSED: &str = "further.dev/paused";

/// Interval at which the operator that moves machines looks again.
const INTERVAL: Duration = Duration::from_secs(5);

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "further.dev", version = "v1", kind = "Machine", namespaced, status = "MachineStatus")]
#[serde(default)]
struct MachineSpec {
    size: i32,
}

/// The instance of a machine, and whether the launching operator has paused.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, JsonSchema)]
#[serde(default)]
struct MachineStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    instance: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    paused: Option<bool>,
}

impl Machine {
    fn status(&self) -> MachineStatus {
        self.status.clone().unwrap_or_default()
    }

    fn is_to_pause(&self) -> bool {
        self.annotations().contains_key(PAUSED)
    }
}

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "further.dev", version = "v1", kind = "Move", status = "MoveStatus")]
#[serde(default)]
struct MoveSpec {
    machine: String,
    /// Namespaces.
    from: String,
    to: String,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[serde(default)]
struct MoveStatus {
    done: bool,
}

/// Sizes of instances, and the instances that were launched with tokens.
#[derive(Default, Serialize)]
struct Cloud {
    instances: BTreeMap<u64, i32>,
    #[serde(skip)]
    tokens: BTreeMap<String, u64>,
}

struct FakeCloud(Remote<Cloud>);

impl FakeCloud {
    /// Launches an instance, or returns the one that was launched with the token.
    async fn launch(&self, machine: &str, token: String, size: i32) -> Result<u64, Lost> {
        let launch = move |cloud: &mut Cloud| {
            let new = fastrand::u64(..1 << 40);
            let id = *cloud.tokens.entry(token).or_insert(new);
            cloud.instances.entry(id).or_insert(size);
            id
        };
        self.0.effect("launch", machine, launch).await
    }

    /// Finds the instance that was launched with the token.
    async fn find(&self, machine: &str, token: String) -> Result<Option<u64>, Lost> {
        self.0.effect("find", machine, move |cloud| cloud.tokens.get(&token).copied()).await
    }

    async fn resize(&self, machine: &str, id: u64, size: i32) -> Result<(), Lost> {
        let resize = move |cloud: &mut Cloud| {
            if let Some(known) = cloud.instances.get_mut(&id) {
                *known = size;
            }
        };
        self.0.effect("resize", machine, resize).await
    }
}

/// Launches instances.
struct Machines {
    cloud: FakeCloud,
}

impl Reconciler for Machines {
    type Request = ObjectKey<Machine>;

    async fn reconcile(&self, key: &ObjectKey<Machine>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(machine) = cx.client().get(key).await? else { return Ok(Action::done()) };
        let (name, token) = (key.to_string(), machine.uid().unwrap_or_default());
        let (size, is_to_pause) = (machine.spec.size, machine.is_to_pause());
        let instance = match machine.status().instance {
            Some(id) => {
                if !is_to_pause {
                    self.cloud.resize(&name, id, size).await?;
                }
                Some(id)
            }
            // An earlier process may have launched it, and not come to report it.
            None if is_to_pause => self.cloud.find(&name, token).await?,
            None => Some(self.cloud.launch(&name, token, size).await?),
        };
        let status = MachineStatus { instance, paused: is_to_pause.then_some(true) };
        if machine.status() != status {
            cx.client().apply_status(key, &status).await?;
        }
        Ok(Action::done())
    }
}

/// Moves machines.
struct Moves {
    variant: Variant,
}

/// Copies a machine, unless its copy exists, and then its status. The copy is paused as well.
async fn copy_to(to: &ObjectKey<Machine>, original: &Machine, cx: &Context) -> Result<(), ReconcileError> {
    if cx.client().get(to).await?.is_none() {
        let mut copy = Machine::new(to.name(), original.spec.clone());
        copy.metadata.namespace = to.namespace().map(str::to_owned);
        copy.metadata.annotations = Some([(PAUSED.to_owned(), "true".to_owned())].into());
        cx.client().create(&copy).await?;
    }
    let status = MachineStatus { instance: original.status().instance, paused: None };
    cx.client().apply_status(to, &status).await?;
    Ok(())
}

async fn pause(
    key: &ObjectKey<Machine>,
    value: Option<&str>,
    cx: &Context,
) -> Result<Machine, ReconcileError> {
    let change = json!({"metadata": {"annotations": {PAUSED: value}}});
    Ok(cx.client().merge_patch(key, &change).await?)
}

impl Reconciler for Moves {
    type Request = ObjectKey<Move>;

    async fn reconcile(&self, key: &ObjectKey<Move>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(wanted) = cx.client().get(key).await? else { return Ok(Action::done()) };
        if wanted.status.is_some_and(|status| status.done) {
            return Ok(Action::done());
        }
        let MoveSpec { machine, from, to } = &wanted.spec;
        let (from, to) = (machine_in(from, machine), machine_in(to, machine));
        if let Some(mut original) = cx.client().get(&from).await? {
            if !original.is_to_pause() {
                original = pause(&from, Some("true"), cx).await?;
            }
            if self.variant == Variant::Twin && original.status().paused.is_none() {
                return Ok(Action::requeue_after(INTERVAL));
            }
            copy_to(&to, &original, cx).await?;
            cx.client().delete(&original).any_version().await?;
        }
        // The original is gone, and the copy is complete.
        match cx.client().get(&to).await? {
            None => return Err(ReconcileError::new("there is no such machine")),
            Some(copy) if copy.is_to_pause() => drop(pause(&to, None, cx).await?),
            Some(_) => {}
        }
        cx.client().apply_status(key, &MoveStatus { done: true }).await?;
        Ok(Action::done())
    }
}

fn machine_in(namespace: &str, name: &str) -> ObjectKey<Machine> {
    ObjectKey::new(namespace, name)
}

fn simulation(variant: Variant) -> Simulation {
    let machines = |manager: &Manager| -> Result<(), AddError> {
        let machines = Machines { cloud: FakeCloud(Remote::of_this_run()) };
        Builder::managed_by(manager).for_kind::<Machine>().complete(machines)?;
        Ok(())
    };
    let moves = move |manager: &Manager| -> Result<(), AddError> {
        Builder::managed_by(manager).for_kind::<Move>().complete(Moves { variant })?;
        Ok(())
    };
    let namespaces = "{apiVersion: v1, kind: Namespace, metadata: {name: blue}}\n---\n\
                      {apiVersion: v1, kind: Namespace, metadata: {name: red}}";
    Simulation::new("machines", machines)
        .also("moves", moves)
        .crd::<Machine>()
        .crd::<Move>()
        .remote("cloud", Cloud::default)
        .applies("there are two namespaces", namespaces)
        .applies(
            "a machine is asked for",
            "{apiVersion: further.dev/v1, kind: Machine, metadata: {name: web, namespace: blue}, \
             spec: {size: 1}}",
        )
        .applies(
            "it is to be moved",
            "{apiVersion: further.dev/v1, kind: Move, metadata: {name: web}, \
             spec: {machine: web, from: blue, to: red}}",
        )
        .step("it grows", async |user| {
            user.merge_patch(&machine_in("red", "web"), &json!({"spec": {"size": 2}})).await
        })
}

#[test]
fn an_instance_that_is_launched_during_a_move_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::SameRemotes, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
