//! Two controllers of one manager write one status. One of them merges the whole status as it read it, and so undoes a phase that
//! the other one has reached meanwhile.
//!
//! Expected: same objects. Minimum plan: the patch of one controller is delayed until the other one has written its phase.

use controller_runtime::client::Patch;

use crate::common::*;

struct Phases {
    clusters: Cached<Cluster>,
}

impl Reconciler for Phases {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        let version = &cluster.spec.version;
        let report = async |phase: &str| {
            let patch = Patch::merge(&json!({"status": {"phase": phase}}));
            cx.client().subresource(key, "status").patch::<Cluster>(patch).await
        };
        report("Upgrading").await?;
        cx.client().apply(&map("default", "db-config", "version", version)).await?;
        report(&format!("Running {version}")).await?;
        Ok(Action::done())
    }
}

struct Progress {
    clusters: Cached<Cluster>,
    maps: Cached<ConfigMap>,
    variant: Variant,
}

impl Reconciler for Progress {
    type Request = ObjectKey<ConfigMap>;

    async fn reconcile(&self, key: &ObjectKey<ConfigMap>, cx: &Context) -> Result<Action, ReconcileError> {
        let cluster = in_default::<Cluster>("db");
        let (Some(progress), Some(known)) = (self.maps.get(key)?, self.clusters.get(&cluster)?) else {
            return Ok(Action::done());
        };
        let percent = progress.data.as_ref().and_then(|data| data.get("percent")?.parse::<i32>().ok());
        let status = match self.variant {
            Variant::Buggy => json!(ClusterStatus { replicas: percent, ..known.status() }),
            Variant::Twin => json!({"replicas": percent}),
        };
        let patch = Patch::merge(&json!({"status": status}));
        cx.client().subresource(&cluster, "status").patch::<Cluster>(patch).await?;
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        Builder::managed_by(manager)
            .for_kind::<Cluster>()
            .with_predicate(GenerationChanged)
            .named("phases")
            .complete(Phases { clusters: manager.cached() })?;
        let progress = Progress { clusters: manager.cached(), maps: manager.cached(), variant };
        let reports =
            |map: &ConfigMap| (map.name_any() == "progress").then(|| in_default::<ConfigMap>("progress"));
        let mut reporting =
            Builder::managed_by(manager).for_requests("progress").watches(Kind::new(MapFn(reports)));
        if variant == Variant::Twin {
            // The event of the Cluster may come after those of the reports.
            let report_of = |_: &Cluster| Some(in_default::<ConfigMap>("progress"));
            reporting = reporting.watches(Kind::new(MapFn(report_of)));
        }
        reporting.complete(progress)?;
        Ok(())
    };
    let report = |percent: i32| {
        format!(
            "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: progress}}, data: {{percent: '{percent}'}}}}"
        )
    };
    Simulation::new("clusters", add)
        .crd::<Cluster>()
        .cluster("a cluster is created", "{version: '1'}")
        .applies("a tool reports progress", &report(10))
        .cluster("an upgrade is asked for", "{version: '2'}")
        .applies("the tool reports progress", &report(100))
}

#[test]
fn a_phase_that_is_undone_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::SameObjects, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
