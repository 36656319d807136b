//! One node at a time is rebooted, under a lock that its holder renews. A lock that was not renewed for a while is
//! taken over, although it may be the operator itself that could not renew it: the node of the holder is still
//! down. The corrected operator takes a lock over when the reboot of its holder has ended.
//!
//! Expected: same remotes (two nodes were down at once). Minimum plan: a crash while the first node is down, with
//! the restart after the next step.

use std::collections::{BTreeMap, BTreeSet};

use controller_runtime::client::Patch;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::common::*;

/// Time after which a lock that is not renewed counts as left behind.
const EXPIRY: SignedDuration = SignedDuration::from_secs(15);

/// Interval at which the holder looks at its node, and renews the lock.
const INTERVAL: Duration = Duration::from_secs(5);

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "further.dev", version = "v1", kind = "Reboot", namespaced, status = "RebootStatus")]
#[serde(default)]
struct RebootSpec {
    reason: String,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[serde(default)]
struct RebootStatus {
    ended: bool,
}

impl Reboot {
    fn has_ended(&self) -> bool {
        self.status.as_ref().is_some_and(|status| status.ended)
    }
}

/// Nodes that are down, with the number of times that they will still be seen so, nodes that were rebooted, and the
/// number of reboots that began while another node was down.
#[derive(Default, Serialize)]
struct Rack {
    down: BTreeMap<String, u32>,
    rebooted: BTreeSet<String>,
    outages: u32,
}

struct FakeRack(Remote<Rack>);

impl FakeRack {
    async fn reboot(&self, node: &str) -> Result<(), Lost> {
        let name = node.to_owned();
        let reboot = move |rack: &mut Rack| {
            if !rack.rebooted.contains(&name) && !rack.down.contains_key(&name) {
                rack.outages += u32::from(!rack.down.is_empty());
                rack.down.insert(name, 3);
            }
        };
        self.0.effect("reboot", node, reboot).await
    }

    /// Returns whether the node is up again.
    async fn is_up(&self, node: &str) -> Result<bool, Lost> {
        let name = node.to_owned();
        let look = move |rack: &mut Rack| {
            if let Some(left) = rack.down.get_mut(&name) {
                *left -= 1;
                if *left == 0 {
                    rack.down.remove(&name);
                    rack.rebooted.insert(name.clone());
                }
            }
            rack.rebooted.contains(&name)
        };
        self.0.effect("look at", node, look).await
    }
}

struct Reboots {
    rack: FakeRack,
    variant: Variant,
}

fn entry<'m>(lock: &'m ConfigMap, name: &str) -> Option<&'m str> {
    lock.data.as_ref()?.get(name).map(String::as_str)
}

async fn current_lock(cx: &Context) -> Result<ConfigMap, ReconcileError> {
    let lock = cx.client().get(&in_default::<ConfigMap>("reboot-lock")).await?;
    lock.ok_or_else(|| ReconcileError::new("there is no lock"))
}

/// Gives the lock to this node or to none, unless it has changed since it was read.
async fn change(lock: &ConfigMap, holder: Option<&str>, cx: &Context) -> Result<(), ReconcileError> {
    let renewed = holder.map(|_| cx.wall_time().to_string());
    let change = Patch::merge(&json!({"data": {"holder": holder, "renewed": renewed}}));
    cx.client().patch(&in_default::<ConfigMap>("reboot-lock"), change.with_version_of(lock)).await?;
    Ok(())
}

async fn unlock(node: &str, cx: &Context) -> Result<(), ReconcileError> {
    let lock = current_lock(cx).await?;
    if entry(&lock, "holder") == Some(node) {
        change(&lock, None, cx).await?;
    }
    Ok(())
}

impl Reboots {
    /// Whether the holder of the lock does not need it any more.
    async fn is_left_behind(
        &self,
        lock: &ConfigMap,
        holder: &str,
        cx: &Context,
    ) -> Result<bool, ReconcileError> {
        if self.variant == Variant::Twin {
            let holder = cx.client().get(&in_default::<Reboot>(holder)).await?;
            return Ok(holder.is_none_or(|holder| holder.has_ended()));
        }
        let renewed = entry(lock, "renewed").and_then(|time| time.parse::<Timestamp>().ok());
        Ok(renewed.is_none_or(|renewed| cx.wall_time().duration_since(renewed) > EXPIRY))
    }

    /// Takes or renews the lock for a node, and returns whether the node has it.
    async fn lock(&self, node: &str, cx: &Context) -> Result<bool, ReconcileError> {
        let lock = current_lock(cx).await?;
        let is_free = match entry(&lock, "holder") {
            Some(holder) if holder != node => self.is_left_behind(&lock, holder, cx).await?,
            _ => true,
        };
        if is_free {
            change(&lock, Some(node), cx).await?;
        }
        Ok(is_free)
    }
}

impl Reconciler for Reboots {
    type Request = ObjectKey<Reboot>;

    async fn reconcile(&self, key: &ObjectKey<Reboot>, cx: &Context) -> Result<Action, ReconcileError> {
        // A reboot has the name of its node.
        let node = key.name();
        let Some(reboot) = cx.client().get(key).await? else { return Ok(Action::done()) };
        if !reboot.has_ended() {
            if !self.lock(node, cx).await? {
                return Ok(Action::requeue_after(INTERVAL));
            }
            self.rack.reboot(node).await?;
            if !self.rack.is_up(node).await? {
                return Ok(Action::requeue_after(INTERVAL));
            }
            cx.client().apply_status(key, &RebootStatus { ended: true }).await?;
        }
        // Also if the process before has ended before it came to this.
        unlock(node, cx).await?;
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let reboots = Reboots { rack: FakeRack(Remote::of_this_run()), variant };
        Builder::managed_by(manager).for_kind::<Reboot>().complete(reboots)?;
        Ok(())
    };
    let reboot = |node: &str| {
        format!(
            "{{apiVersion: further.dev/v1, kind: Reboot, metadata: {{name: {node}}}, spec: {{reason: kernel}}}}"
        )
    };
    Simulation::new("reboots", add)
        .crd::<Reboot>()
        .remote("rack", Rack::default)
        .applies(
            "there is a lock",
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: reboot-lock}, data: {of: reboots}}",
        )
        .applies("a node is to be rebooted", &reboot("west"))
        .applies("another node is to be rebooted", &reboot("east"))
}

#[test]
fn a_lock_that_is_taken_from_a_living_holder_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::SameRemotes, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
