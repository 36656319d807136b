//! Users see a maintenance page while a schema is migrated. The leader switches to that page without regard to the state that it has read: if
//! it loses the lease before its write arrives, the next leader migrates and switches back, and then the late write shows the page for
//! ever.
//!
//! Expected: same objects. Minimum plan: the leader is cut off at the patch that switches to the page, which is carried out when the other
//! replica has finished the migration.

use controller_runtime::client::Patch;

use crate::common::*;

struct Migrations {
    variant: Variant,
}

impl Migrations {
    /// Changes an entry of a ConfigMap of the user.
    async fn set(&self, name: &str, field: &str, value: &str, cx: &Context) -> Result<(), ReconcileError> {
        let key = in_default::<ConfigMap>(name);
        let Some(current) = cx.client().get(&key).await? else {
            return Err(ReconcileError::new(format!("the ConfigMap {name} does not exist yet")));
        };
        let mut patch = Patch::merge(&json!({"data": {field: value}}));
        if self.variant == Variant::Twin {
            // Refused if another leader has changed it since.
            patch = patch.with_version_of(&current);
        }
        cx.client().patch(&key, patch).await?;
        Ok(())
    }
}

impl Reconciler for Migrations {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        // The cache may not show yet what an earlier leader has migrated.
        let Some(cluster) = cx.client().get(key).await? else { return Ok(Action::done()) };
        let version = &cluster.spec.version;
        if cluster.status().version.as_ref() == Some(version) {
            return Ok(Action::done());
        }
        self.set("traffic", "backend", "maintenance", cx).await?;
        self.set("schema", "version", version, cx).await?;
        self.set("traffic", "backend", "web", cx).await?;
        let status = ClusterStatus { version: Some(version.clone()), ..ClusterStatus::default() };
        cx.client().apply_status(key, &status).await?;
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        Builder::managed_by(manager).for_kind::<Cluster>().complete(Migrations { variant })?;
        Ok(())
    };
    let site = "{apiVersion: v1, kind: ConfigMap, metadata: {name: traffic}, data: {backend: web}}\n---\n\
                {apiVersion: v1, kind: ConfigMap, metadata: {name: schema}, data: {version: '0'}}";
    Simulation::new("migrations", add)
        .crd::<Cluster>()
        .replicas(2)
        .applies("there is a site", site)
        .cluster("a cluster is created", "{version: '1'}")
        .cluster("its version changes", "{version: '2'}")
}

#[test]
fn the_bug_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::SameObjects, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
