//! The name of a created object is recorded in the status. A crash between the two leaves an object that nothing names.

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
#[kube(group = "corpus.dev", version = "v1", kind = "Page", namespaced, status = "PageStatus")]
pub(crate) struct PageSpec {
    text: String,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
pub(crate) struct PageStatus {
    page: Option<String>,
}

struct Pages {
    pages: Cached<Page>,
    maps: Cached<ConfigMap>,
    variant: Variant,
}

impl Reconciler for Pages {
    type Request = ObjectKey<Page>;

    async fn reconcile(&self, key: &ObjectKey<Page>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(page) = self.pages.get(key)? else { return Ok(Action::done()) };
        let mut child = ConfigMap::default();
        child.metadata.namespace = page.namespace();
        child.data = Some([("text".to_owned(), page.spec.text.clone())].into());
        set_controller_reference(&*page, &mut child)?;
        let recorded = page.status.as_ref().and_then(|status| status.page.clone());
        match (self.variant, recorded) {
            (Variant::Buggy, None) => {
                child.metadata.generate_name = Some(format!("{}-page-", key.name()));
                let created = cx.client().create(&child).await?;
                cx.client().apply_status(key, &PageStatus { page: Some(created.name_any()) }).await?;
            }
            (Variant::Buggy, Some(name)) => {
                let known = ObjectKey::<ConfigMap>::new(&*page.namespace().unwrap_or_default(), &*name);
                if self.maps.get(&known)?.is_none_or(|known| known.data != child.data) {
                    child.metadata.name = Some(name);
                    cx.client().apply(&child).await?;
                }
            }
            (Variant::Twin, recorded) => {
                let name = format!("{}-page", key.name());
                child.metadata.name = Some(name.clone());
                cx.client().apply(&child).await?;
                if recorded.as_ref() != Some(&name) {
                    cx.client().apply_status(key, &PageStatus { page: Some(name) }).await?;
                }
            }
        }
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let pages = Pages { pages: manager.cached(), maps: manager.cached(), variant };
        Builder::managed_by(manager).for_kind::<Page>().owns::<ConfigMap>().complete(pages)?;
        Ok(())
    };
    let key = ObjectKey::<Page>::new("default", "welcome");
    Simulation::new("pages", add)
        .crd::<Page>()
        .step("a page is asked for", async |user| {
            user.apply_yaml(
                "{apiVersion: corpus.dev/v1, kind: Page, metadata: {name: welcome}, spec: {text: hello}}",
            )
            .await
        })
        .step("its text changes", async move |user| {
            user.merge_patch(&key, &json!({"spec": {"text": "good bye"}})).await
        })
}

#[test]
fn a_crash_between_create_and_record_is_found() {
    let finding = find(simulation(Variant::Buggy), Explore::crashes());
    assert!(matches!(finding.oracle(), Oracle::SameObjects | Oracle::SameCounts), "{finding}");
    assert_eq!(finding.plan().to_string(), "crash after create configmaps default/welcome-page-* #1\n");
    let story = finding.to_string();
    let guilty = story.lines().find(|line| line.contains("←")).expect("a guilty write");
    assert!(guilty.contains("creates configmaps default/welcome-page-"), "{story}");
    assert!(story.lines().count() <= 15, "{story}");
}

#[test]
fn a_lost_answer_has_the_effect_of_the_crash() {
    let finding = find(simulation(Variant::Buggy), Explore::lost_answers());
    assert_eq!(
        finding.plan().to_string(),
        "lose the answer of create configmaps default/welcome-page-* #1\n"
    );
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin), Explore::all());
}
