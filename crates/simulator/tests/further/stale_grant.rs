//! An upgrade asks an agent for a drained node, and waits for its consent: that of the upgrade before may still be there.
//!
//! Expected: same remotes. Minimum plan: the second upgrade begins before the agent has withdrawn its consent.

use crate::common::*;

/// A node of a database: whether it is drained, its version, and how often it was upgraded while it was in use.
#[derive(Default, Serialize)]
struct Node {
    drained: bool,
    version: String,
    interrupted: u32,
}

struct FakeNode(Remote<Node>);

impl FakeNode {
    async fn drain(&self, drained: bool) -> Result<(), Lost> {
        let name = if drained { "drain" } else { "undrain" };
        self.0.effect(name, "node", move |node| node.drained = drained).await
    }

    async fn upgrade(&self, version: &str) -> Result<(), Lost> {
        let version = version.to_owned();
        let upgrade = move |node: &mut Node| {
            if node.version != version {
                node.interrupted += u32::from(!node.drained);
                node.version = version;
            }
        };
        self.0.effect("upgrade", "node", upgrade).await
    }
}

/// Drains the node while the entry `wanted` is there, and answers with the entry `granted`.
struct Agent {
    maps: Cached<ConfigMap>,
    node: FakeNode,
}

fn entry(map: &ConfigMap, name: &str) -> Option<String> {
    map.data.as_ref()?.get(name).cloned()
}

impl Reconciler for Agent {
    type Request = ObjectKey<ConfigMap>;

    async fn reconcile(&self, key: &ObjectKey<ConfigMap>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(map) = self.maps.get(key)?.filter(|_| key.name() == "node") else {
            return Ok(Action::done());
        };
        let wanted = entry(&map, "wanted");
        if wanted != entry(&map, "granted") {
            self.node.drain(wanted.is_some()).await?;
            cx.client().merge_patch(key, &json!({"data": {"granted": wanted}})).await?;
        }
        Ok(Action::done())
    }
}

struct Upgrades {
    clusters: Cached<Cluster>,
    maps: Cached<ConfigMap>,
    node: FakeNode,
    variant: Variant,
}

impl Reconciler for Upgrades {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        let Some(map) = self.maps.get(&in_default("node"))? else { return Ok(Action::done()) };
        let version = &cluster.spec.version;
        let request = match self.variant {
            Variant::Buggy => "true",
            Variant::Twin => version,
        };
        let node = in_default::<ConfigMap>("node");
        if cluster.status().version.as_ref() == Some(version) {
            if entry(&map, "wanted").is_some() {
                cx.client().merge_patch(&node, &json!({"data": {"wanted": null}})).await?;
            }
            return Ok(Action::done());
        }
        if entry(&map, "wanted").as_deref() != Some(request) {
            cx.client().merge_patch(&node, &json!({"data": {"wanted": request}})).await?;
        }
        if entry(&map, "granted").as_deref() != Some(request) {
            return Ok(Action::done());
        }
        self.node.upgrade(version).await?;
        let status = ClusterStatus { version: Some(version.clone()), ..ClusterStatus::default() };
        cx.client().apply_status(key, &status).await?;
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let node = FakeNode(Remote::of_this_run());
        let upgrades = Upgrades { clusters: manager.cached(), maps: manager.cached(), node, variant };
        let to_cluster = |map: &ConfigMap| (map.name_any() == "node").then(|| in_default::<Cluster>("db"));
        Builder::managed_by(manager)
            .for_kind::<Cluster>()
            .watches(Kind::new(MapFn(to_cluster)))
            .complete(upgrades)?;
        Ok(())
    };
    let agent = |manager: &Manager| -> Result<(), AddError> {
        let agent = Agent { maps: manager.cached(), node: FakeNode(Remote::of_this_run()) };
        Builder::managed_by(manager).for_kind::<ConfigMap>().complete(agent)?;
        Ok(())
    };
    Simulation::new("upgrades", add)
        .also("agent", agent)
        .crd::<Cluster>()
        .remote("node", Node::default)
        .applies("there is a node", "{apiVersion: v1, kind: ConfigMap, metadata: {name: node}}")
        .cluster("a version is asked for", "{version: '1'}")
        .cluster("another version is asked for", "{version: '2'}")
}

#[test]
fn an_upgrade_with_an_old_consent_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::SameRemotes, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
