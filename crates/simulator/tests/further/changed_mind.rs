//! A node leaves a ring in two steps that cannot be undone: its data move to other nodes, and then it is removed. If the
//! user grows the ring again in between, the operator sees the wanted number of nodes, and stops the removal. The node
//! stays, without data.
//!
//! Expected: same remotes. Minimum plan: the user grows the ring again while a node leaves.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::StatefulSet;

use crate::common::*;

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "further.dev", version = "v1", kind = "Ring", namespaced, status = "RingStatus")]
#[serde(default)]
struct RingSpec {
    nodes: i32,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[serde(default)]
struct RingStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    ready: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    leaving: Option<i32>,
}

#[derive(Clone, Copy, PartialEq, Serialize)]
enum State {
    Normal,
    Leaving,
    Left,
}

/// Nodes as their neighbours see them. One that has left never joins again, unless its disk is wiped.
#[derive(Default, Serialize)]
struct Gossip {
    nodes: BTreeMap<i32, State>,
}

struct FakeGossip(Remote<Gossip>);

impl FakeGossip {
    async fn bootstrap(&self, node: i32) -> Result<(), Lost> {
        let join = move |gossip: &mut Gossip| {
            gossip.nodes.entry(node).or_insert(State::Normal);
        };
        self.0.effect("bootstrap", &format!("node {node}"), join).await
    }

    /// Begins or continues to move the data of a node, and returns whether it has none any more.
    async fn decommission(&self, node: i32) -> Result<bool, Lost> {
        let leave = move |gossip: &mut Gossip| {
            let Some(state) = gossip.nodes.get_mut(&node) else { return true };
            *state = if *state == State::Normal { State::Leaving } else { State::Left };
            *state == State::Left
        };
        self.0.effect("decommission", &format!("node {node}"), leave).await
    }

    async fn wipe(&self, node: i32) -> Result<(), Lost> {
        let wipe = move |gossip: &mut Gossip| {
            gossip.nodes.remove(&node);
        };
        self.0.effect("wipe", &format!("node {node}"), wipe).await
    }
}

struct Rings {
    gossip: FakeGossip,
    variant: Variant,
}

async fn resize(ring: &Ring, nodes: i32, cx: &Context) -> Result<(), ReconcileError> {
    let (name, labels) = (ring.name_any(), json!({"ring": ring.name_any()}));
    let mut set: StatefulSet = serde_json::from_value(json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": nodes, "serviceName": name, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels}, "spec": {"containers": [{"name": "scylla", "image": "scylla"}]},
        }},
    }))?;
    set_controller_reference(ring, &mut set)?;
    cx.client().apply(&set).await?;
    Ok(())
}

async fn report(
    key: &ObjectKey<Ring>,
    ready: i32,
    leaving: Option<i32>,
    cx: &Context,
) -> Result<(), ReconcileError> {
    cx.client().apply_status(key, &RingStatus { ready: Some(ready), leaving }).await?;
    Ok(())
}

impl Reconciler for Rings {
    type Request = ObjectKey<Ring>;

    async fn reconcile(&self, key: &ObjectKey<Ring>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(ring) = cx.client().get(key).await? else { return Ok(Action::done()) };
        let set = cx.client().get(&in_default::<StatefulSet>(key.name())).await?;
        let running = set.and_then(|set| set.spec?.replicas).unwrap_or_default();
        let (wanted, leaving) = (ring.spec.nodes, ring.status.as_ref().and_then(|status| status.leaving));
        let surplus = (wanted < running).then(|| running - 1);
        let victim = match self.variant {
            Variant::Buggy => surplus,
            Variant::Twin => leaving.or(surplus),
        };
        let Some(victim) = victim else {
            resize(&ring, wanted, cx).await?;
            for node in 0..wanted {
                self.gossip.bootstrap(node).await?;
            }
            report(key, wanted, None, cx).await?;
            return Ok(Action::done());
        };
        if leaving != Some(victim) {
            report(key, victim, Some(victim), cx).await?;
        }
        if !self.gossip.decommission(victim).await? {
            return Ok(Action::requeue_after(Duration::from_secs(10)));
        }
        resize(&ring, victim, cx).await?;
        self.gossip.wipe(victim).await?;
        report(key, victim, None, cx).await?;
        Ok(Action::requeue())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let rings = Rings { gossip: FakeGossip(Remote::of_this_run()), variant };
        Builder::managed_by(manager).for_kind::<Ring>().owns::<StatefulSet>().complete(rings)?;
        Ok(())
    };
    let head = "apiVersion: further.dev/v1, kind: Ring, metadata: {name: db}";
    let ring = |nodes: i32| format!("{{{head}, spec: {{nodes: {nodes}}}}}");
    Simulation::new("rings", add)
        .crd::<Ring>()
        .remote("gossip", Gossip::default)
        .applies("a ring of three is created", &ring(3))
        .applies("it shrinks", &ring(2))
        .applies("it grows again", &ring(3))
}

#[test]
fn a_node_that_left_and_stays_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::SameRemotes, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
