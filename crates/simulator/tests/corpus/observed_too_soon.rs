//! The status reports the new generation before the work is done. After a crash between the two, nothing does the work.

use controller_runtime::{
    Action, Builder, Cached, Context, Manager, ObjectKey, ReconcileError, Reconciler, manager::AddError,
    set_controller_reference,
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{CustomResource, ResourceExt};
use kube_simulator::{Explore, Oracle, Simulation};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{Variant, find, find_nothing};

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(group = "corpus.dev", version = "v1", kind = "Site", namespaced, status = "SiteStatus")]
pub(crate) struct SiteSpec {
    text: String,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SiteStatus {
    observed_generation: Option<i64>,
}

struct Sites {
    sites: Cached<Site>,
    variant: Variant,
}

impl Sites {
    async fn report(&self, site: &Site, key: &ObjectKey<Site>, cx: &Context) -> Result<(), ReconcileError> {
        let status = SiteStatus { observed_generation: site.metadata.generation };
        cx.client().apply_status(key, &status).await?;
        Ok(())
    }
}

impl Reconciler for Sites {
    type Request = ObjectKey<Site>;

    async fn reconcile(&self, key: &ObjectKey<Site>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(site) = self.sites.get(key)? else { return Ok(Action::done()) };
        let observed = site.status.as_ref().and_then(|status| status.observed_generation);
        let is_observed = observed == site.metadata.generation;
        if self.variant == Variant::Buggy {
            if is_observed {
                return Ok(Action::done());
            }
            self.report(&site, key, cx).await?;
        }
        let mut child = ConfigMap::default();
        child.metadata.namespace = site.namespace();
        child.metadata.name = Some(site.name_any());
        child.data = Some([("text".to_owned(), site.spec.text.clone())].into());
        set_controller_reference(&*site, &mut child)?;
        cx.client().apply(&child).await?;
        if self.variant == Variant::Twin && !is_observed {
            self.report(&site, key, cx).await?;
        }
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let sites = Sites { sites: manager.cached(), variant };
        Builder::managed_by(manager).for_kind::<Site>().owns::<ConfigMap>().complete(sites)?;
        Ok(())
    };
    let key = ObjectKey::<Site>::new("default", "home");
    Simulation::new("sites", add)
        .crd::<Site>()
        .step("a site is asked for", async |user| {
            user.apply_yaml(
                "{apiVersion: corpus.dev/v1, kind: Site, metadata: {name: home}, spec: {text: hello}}",
            )
            .await
        })
        .step("its text changes", async move |user| {
            user.merge_patch(&key, &json!({"spec": {"text": "good bye"}})).await
        })
}

#[test]
fn a_crash_between_report_and_work_is_found() {
    let finding = find(simulation(Variant::Buggy), Explore::crashes());
    assert_eq!(finding.oracle(), Oracle::SameObjects);
    assert!(
        finding.plan().to_string().starts_with("crash after apply sites.corpus.dev/status default/home"),
        "{finding}"
    );
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin), Explore::all());
}
