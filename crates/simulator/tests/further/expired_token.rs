//! A new node joins a cluster with a token, which the operator creates and notes before it boots the node. A
//! token is valid for a while only. If the operator cannot boot the node within this time, it boots the node
//! with the noted token all the same, and waits forever for the node to join. The corrected operator replaces
//! such a node and its token.
//!
//! Expected: same objects or remotes. Minimum plan: a crash after the token is noted, with the restart after
//! the next step; or no node can be booted for a minute.

use std::collections::BTreeMap;

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::common::*;

/// Time for which a token is valid.
const LIFETIME: SignedDuration = SignedDuration::from_secs(20);

/// Interval at which the operator looks whether a node has joined.
const INTERVAL: Duration = Duration::from_secs(30);

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "further.dev", version = "v1", kind = "Machine", namespaced, status = "MachineStatus")]
#[serde(default)]
struct MachineSpec {
    owner: String,
}

/// Whether the node has joined, and its token until then.
#[derive(Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[serde(default)]
struct MachineStatus {
    joined: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
}

/// Nodes with whether they have joined, and tokens with their ends.
#[derive(Default, Serialize)]
struct Nodes {
    nodes: BTreeMap<String, bool>,
    #[serde(skip)]
    tokens: BTreeMap<String, Timestamp>,
}

struct FakeNodes(Remote<Nodes>);

impl FakeNodes {
    async fn create_token(&self, node: &str, token: &str, now: Timestamp) -> Result<(), Lost> {
        let token = token.to_owned();
        let create = move |nodes: &mut Nodes| {
            nodes.tokens.insert(token, now + LIFETIME);
        };
        self.0.effect("create token", node, create).await
    }

    /// Boots a node with a token, unless it has been booted before. Returns whether it has joined.
    async fn boot(&self, node: &str, token: &str, now: Timestamp) -> Result<bool, Lost> {
        let (name, token) = (node.to_owned(), token.to_owned());
        let boot = move |nodes: &mut Nodes| {
            let is_valid = nodes.tokens.get(&token).is_some_and(|end| now < *end);
            *nodes.nodes.entry(name).or_insert(is_valid)
        };
        self.0.effect("boot", node, boot).await
    }

    async fn remove(&self, node: &str) -> Result<(), Lost> {
        let name = node.to_owned();
        let remove = move |nodes: &mut Nodes| {
            nodes.nodes.remove(&name);
        };
        self.0.effect("remove", node, remove).await
    }
}

struct Machines {
    nodes: FakeNodes,
    variant: Variant,
}

impl Reconciler for Machines {
    type Request = ObjectKey<Machine>;

    async fn reconcile(&self, key: &ObjectKey<Machine>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(machine) = cx.client().get(key).await? else { return Ok(Action::done()) };
        let MachineStatus { joined, token } = machine.status.unwrap_or_default();
        if joined {
            return Ok(Action::done());
        }
        let token = match token {
            Some(token) => token,
            None => {
                let token: String = std::iter::repeat_with(fastrand::alphanumeric).take(16).collect();
                self.nodes.create_token(key.name(), &token, cx.wall_time()).await?;
                let status = MachineStatus { joined: false, token: Some(token.clone()) };
                cx.client().apply_status(key, &status).await?;
                token
            }
        };
        if self.nodes.boot(key.name(), &token, cx.wall_time()).await? {
            cx.client().apply_status(key, &MachineStatus { joined: true, token: None }).await?;
            return Ok(Action::done());
        }
        if self.variant == Variant::Twin {
            // The node was booted with a token that is not valid any more: it will never join.
            self.nodes.remove(key.name()).await?;
            cx.client().apply_status(key, &MachineStatus::default()).await?;
        }
        Ok(Action::requeue_after(INTERVAL))
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let machines = Machines { nodes: FakeNodes(Remote::of_this_run()), variant };
        Builder::managed_by(manager).for_kind::<Machine>().complete(machines)?;
        Ok(())
    };
    let head = "apiVersion: further.dev/v1, kind: Machine, metadata: {name: web}";
    let machine = |owner: &str| format!("{{{head}, spec: {{owner: {owner}}}}}");
    Simulation::new("machines", add)
        .crd::<Machine>()
        .remote("nodes", Nodes::default)
        .applies("a machine is asked for", &machine("red"))
        .applies("it gets another owner", &machine("blue"))
}

#[test]
fn a_node_that_comes_too_late_for_its_token_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert!(matches!(finding.oracle(), Oracle::SameObjects | Oracle::SameRemotes), "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
