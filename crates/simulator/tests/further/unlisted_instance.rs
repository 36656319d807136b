//! An instance that the cloud does not list any more is replaced. A new instance is not listed for some seconds: an
//! operator that looks for it within this time takes it for one that is gone, and launches a second one. The
//! corrected operator waits until the instance must be listed.
//!
//! Expected: same remotes. Minimum plan: a crash after the id of the instance is recorded, or the answer is lost; or
//! the user edits the object at once.

use std::collections::BTreeMap;

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::common::*;

/// Time until the cloud lists a new instance.
const UNLISTED: SignedDuration = SignedDuration::from_secs(10);

/// Time after which an instance that is not listed counts as gone.
const GRACE: SignedDuration = SignedDuration::from_secs(60);

/// Interval at which an instance is looked for.
const INTERVAL: Duration = Duration::from_secs(60);

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "further.dev", version = "v1", kind = "Machine", namespaced, status = "MachineStatus")]
#[serde(default)]
struct MachineSpec {
    size: i32,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[serde(default)]
struct MachineStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    instance: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    launched: Option<String>,
}

#[derive(Serialize)]
struct Instance {
    size: i32,
    #[serde(skip)]
    launched: Timestamp,
}

#[derive(Default, Serialize)]
struct Cloud {
    instances: BTreeMap<u64, Instance>,
    #[serde(skip)]
    tokens: BTreeMap<String, u64>,
}

struct FakeCloud(Remote<Cloud>);

impl FakeCloud {
    /// Launches an instance, or returns the one that was launched with the token.
    async fn launch(&self, name: &str, token: String, size: i32, now: Timestamp) -> Result<u64, Lost> {
        let launch = move |cloud: &mut Cloud| {
            let new = fastrand::u64(..1 << 40);
            let id = *cloud.tokens.entry(token).or_insert(new);
            cloud.instances.entry(id).or_insert(Instance { size, launched: now });
            id
        };
        self.0.effect("launch", name, launch).await
    }

    /// Resizes an instance, if it is listed. Returns whether it is.
    async fn resize(&self, name: &str, id: u64, size: i32, now: Timestamp) -> Result<bool, Lost> {
        let resize = move |cloud: &mut Cloud| match cloud.instances.get_mut(&id) {
            Some(instance) if instance.launched + UNLISTED <= now => {
                instance.size = size;
                true
            }
            _ => false,
        };
        self.0.effect("resize", name, resize).await
    }
}

struct Machines {
    cloud: FakeCloud,
    variant: Variant,
}

impl Reconciler for Machines {
    type Request = ObjectKey<Machine>;

    async fn reconcile(&self, key: &ObjectKey<Machine>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(machine) = cx.client().get(key).await? else { return Ok(Action::done()) };
        let (size, now) = (machine.spec.size, cx.wall_time());
        let MachineStatus { instance, launched } = machine.status.clone().unwrap_or_default();
        if let Some(id) = instance {
            if self.cloud.resize(key.name(), id, size, now).await? {
                return Ok(Action::done());
            }
            let launched = launched.and_then(|time| time.parse::<Timestamp>().ok());
            let is_new = launched.is_some_and(|launched| now.duration_since(launched) < GRACE);
            if self.variant == Variant::Twin && is_new {
                return Ok(Action::requeue_after(INTERVAL));
            }
        }
        // The first instance, or one in place of `instance`. The token makes the launch repeatable.
        let token = format!("{}-{}", machine.uid().unwrap_or_default(), instance.unwrap_or_default());
        let id = self.cloud.launch(key.name(), token, size, now).await?;
        let launched = Some(cx.wall_time().to_string());
        cx.client().apply_status(key, &MachineStatus { instance: Some(id), launched }).await?;
        Ok(Action::requeue_after(INTERVAL))
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let machines = Machines { cloud: FakeCloud(Remote::of_this_run()), variant };
        // Its own status needs no reconcile.
        Builder::managed_by(manager)
            .for_kind::<Machine>()
            .with_predicate(GenerationChanged)
            .complete(machines)?;
        Ok(())
    };
    let head = "apiVersion: further.dev/v1, kind: Machine, metadata: {name: web}";
    let machine = |size: i32| format!("{{{head}, spec: {{size: {size}}}}}");
    Simulation::new("machines", add)
        .crd::<Machine>()
        .remote("cloud", Cloud::default)
        .applies("a machine is asked for", &machine(1))
        .applies("it grows", &machine(2))
}

#[test]
fn an_instance_that_is_not_listed_yet_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::SameRemotes, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
