//! Two operators migrate a site together: one shows a maintenance page and says for which generation it does, the
//! other one then migrates and says so. The page goes away when the migration for which it is there has ended. If
//! the user edits the site in between, that migration never runs: one operator waits for the page of the new
//! generation, and the other one for the end of the old one. The corrected operator lets the page stand for the new
//! generation as well.
//!
//! Expected: same objects. Minimum plan: the user edits the site before the page is reported, or a crash of the
//! operator that migrates, with the restart after the edit.

use controller_runtime::conditions_schema;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::common::*;

const SHIELDED: &str = "Shielded";
const MIGRATED: &str = "Migrated";

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "further.dev", version = "v1", kind = "Site", namespaced, status = "SiteStatus")]
#[serde(default)]
struct SiteSpec {
    schema: String,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
struct SiteStatus {
    #[serde(default)]
    #[schemars(schema_with = "conditions_schema")]
    conditions: Vec<Condition>,
}

impl Site {
    /// Generation for which a condition holds, if it does.
    fn generation_of(&self, condition: &str) -> Option<i64> {
        let mut conditions = self.status.iter().flat_map(|status| &status.conditions);
        let known = conditions.find(|known| known.type_ == condition && known.status == "True");
        known.and_then(|known| known.observed_generation)
    }
}

/// Reports one condition of a site. Each operator owns that which it reports.
async fn report(
    key: &ObjectKey<Site>,
    site: &Site,
    name: &str,
    holds: bool,
    cx: &Context,
) -> Result<(), ReconcileError> {
    let condition = Condition {
        type_: name.to_owned(),
        status: if holds { "True" } else { "False" }.to_owned(),
        reason: "AsPlanned".to_owned(),
        message: String::new(),
        observed_generation: site.metadata.generation,
        last_transition_time: Time(cx.wall_time()),
    };
    cx.client().apply_status(key, &SiteStatus { conditions: vec![condition] }).await?;
    Ok(())
}

/// Migrates sites while the maintenance page is there.
struct Migrations(Cached<Site>);

impl Reconciler for Migrations {
    type Request = ObjectKey<Site>;

    async fn reconcile(&self, key: &ObjectKey<Site>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(site) = self.0.get(key)? else { return Ok(Action::done()) };
        let generation = site.metadata.generation;
        let is_due = site.generation_of(MIGRATED) != generation;
        if is_due && site.generation_of(SHIELDED) == generation {
            cx.client().apply(&map("default", "database", "schema", &site.spec.schema)).await?;
            report(key, &site, MIGRATED, true, cx).await?;
        }
        Ok(Action::done())
    }
}

/// Shows the maintenance page.
struct Shields {
    sites: Cached<Site>,
    variant: Variant,
}

impl Shields {
    async fn show(
        &self,
        key: &ObjectKey<Site>,
        site: &Site,
        page: &str,
        cx: &Context,
    ) -> Result<(), ReconcileError> {
        let change = json!({"data": {"page": page}});
        cx.client().merge_patch(&in_default::<ConfigMap>("edge"), &change).await?;
        report(key, site, SHIELDED, page == "maintenance", cx).await
    }
}

impl Reconciler for Shields {
    type Request = ObjectKey<Site>;

    async fn reconcile(&self, key: &ObjectKey<Site>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(site) = self.sites.get(key)? else { return Ok(Action::done()) };
        let (migrated, shielded) = (site.generation_of(MIGRATED), site.generation_of(SHIELDED));
        let awaited = match self.variant {
            // The generation for which the page was put up.
            Variant::Buggy => shielded.or(site.metadata.generation),
            Variant::Twin => site.metadata.generation,
        };
        if migrated != awaited && shielded != awaited {
            self.show(key, &site, "maintenance", cx).await?;
        } else if migrated == awaited && shielded.is_some() {
            self.show(key, &site, "home", cx).await?;
        }
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let migrations = |manager: &Manager| -> Result<(), AddError> {
        Builder::managed_by(manager).for_kind::<Site>().complete(Migrations(manager.cached()))?;
        Ok(())
    };
    let shields = move |manager: &Manager| -> Result<(), AddError> {
        let shields = Shields { sites: manager.cached(), variant };
        Builder::managed_by(manager).for_kind::<Site>().complete(shields)?;
        Ok(())
    };
    let site = |schema: &str| {
        format!(
            "{{apiVersion: further.dev/v1, kind: Site, metadata: {{name: shop}}, spec: {{schema: {schema}}}}}"
        )
    };
    Simulation::new("migrations", migrations)
        .also("shields", shields)
        .crd::<Site>()
        .applies(
            "there is a reverse proxy",
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: edge}, data: {page: home}}",
        )
        .applies("a site is created", &site("one"))
        .applies("its schema changes", &site("two"))
        .applies("its schema changes again", &site("three"))
}

#[test]
fn a_page_for_a_migration_that_never_runs_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::SameObjects, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
