//! Two controllers of one manager apply one ConfigMap. Each copies the entry of the other one from its cache, before its own
//! write has to wait.
//!
//! Expected: same objects. Minimum plan: the write of one controller is delayed until the other one has written.

use crate::common::*;

struct Half {
    clusters: Cached<Cluster>,
    maps: Cached<ConfigMap>,
    /// Entry that this controller maintains.
    own: &'static str,
    variant: Variant,
}

impl Half {
    /// The content of the entry: from the Cluster, or from the plugins.
    fn content(&self, cluster: &Cluster) -> Result<Option<String>, ReconcileError> {
        if self.own == "main" {
            return Ok(Some(cluster.spec.version.clone()));
        }
        let plugins = self.maps.get(&in_default("plugins"))?;
        Ok(plugins.and_then(|plugins| plugins.data.clone()?.remove("list")))
    }
}

impl Reconciler for Half {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        let Some(content) = self.content(&cluster)? else { return Ok(Action::done()) };
        let mut child = map("default", "db-config", self.own, &content);
        set_controller_reference(&*cluster, &mut child)?;
        if self.variant == Variant::Twin {
            cx.client().apply(&child).field_manager(format!("clusters-{}", self.own)).await?;
            return Ok(Action::done());
        }
        if let Some(known) = self.maps.get(&in_default("db-config"))? {
            let mut data = known.data.clone().unwrap_or_default();
            data.insert(self.own.to_owned(), content);
            child.data = Some(data);
        }
        cx.client().apply(&child).await?;
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let half = |own| Half { clusters: manager.cached(), maps: manager.cached(), own, variant };
        Builder::managed_by(manager).for_kind::<Cluster>().named("settings").complete(half("main"))?;
        let to_cluster = |map: &ConfigMap| (map.name_any() == "plugins").then(|| in_default::<Cluster>("db"));
        let mut plugins =
            Builder::managed_by(manager).for_requests("plugins").watches(Kind::new(MapFn(to_cluster)));
        if variant == Variant::Twin {
            // The event of the Cluster may come after those of the plugins.
            let itself = |cluster: &Cluster| ObjectKey::of(cluster);
            plugins = plugins.watches(Kind::new(MapFn(itself)));
        }
        plugins.complete(half("plugins"))?;
        Ok(())
    };
    Simulation::new("clusters", add)
        .crd::<Cluster>()
        .cluster("a cluster is created", "{version: '1'}")
        .applies(
            "plugins are listed",
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: plugins}, data: {list: 'a'}}",
        )
        .cluster("its version changes", "{version: '2'}")
        .applies(
            "plugins change",
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: plugins}, data: {list: 'a,b'}}",
        )
}

#[test]
fn an_entry_of_the_other_controller_that_is_reverted_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::SameObjects, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
