//! Applies the configurations of webhooks, and removes them from clusters that remain.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use serde_json::{Value, json};

use super::{InstallPlan, Manifest, WebhookError, WebhookHost};
use crate::crd::text_of;

/// Field manager of configurations.
const MANAGER: &str = "kube-envtest";

/// Objects that the environment has changed, for [`WebhookHost::uninstall`].
#[derive(Default)]
pub(super) struct Installed {
    configurations: Vec<Manifest>,
    /// Conversions of definitions as they were before.
    conversions: Vec<(Manifest, Value)>,
}

impl WebhookHost {
    /// Patches `spec.conversion` of definitions.
    pub(super) async fn install_conversions(&self, manifests: &[Manifest]) -> Result<(), WebhookError> {
        for manifest in manifests.iter().filter(|manifest| manifest.is_conversion()) {
            let before = self.conversion_of(manifest).await?;
            let mut conversion = manifest.object["spec"]["conversion"].clone();
            if conversion["strategy"] == "Webhook" {
                // A merge patch keeps absent fields, such as the Service of an earlier conversion. An explicit null removes them.
                let config = &mut conversion["webhook"]["clientConfig"];
                for field in ["caBundle", "service", "url"] {
                    if config[field].is_null() {
                        config[field] = Value::Null;
                    }
                }
            }
            // Recorded before the patch, which may fail after it has changed the definition.
            self.record_conversion(manifest, before);
            self.patch_conversion(manifest, &conversion).await?;
        }
        Ok(())
    }

    /// Waits until the webhooks answer, and applies the configurations of admission webhooks.
    pub(super) async fn when_answering(&self, plan: &InstallPlan) -> Result<(), WebhookError> {
        self.until_answering(&plan.references).await?;
        for manifest in plan.manifests.iter().filter(|manifest| !manifest.is_conversion()) {
            // Recorded before the apply, which may fail after it has stored the configuration.
            self.record_installed(manifest);
            if self.inner.loads_late {
                self.apply_and_load(manifest).await?;
            } else {
                self.apply(manifest).await?;
            }
        }
        Ok(())
    }

    /// Applies the configuration of admission webhooks.
    pub(super) async fn apply(&self, manifest: &Manifest) -> Result<(), WebhookError> {
        let params = PatchParams::apply(MANAGER).force();
        let patch = Patch::Apply(&manifest.object);
        let applied = self.configurations(manifest).patch(manifest.name(), &params, &patch).await;
        applied.map(drop).map_err(refused(manifest))
    }

    /// Removes configurations, and restores conversions. Goes on after a failure, and returns all failures.
    pub(crate) async fn uninstall(&self) -> Vec<WebhookError> {
        let Installed { configurations, conversions } = std::mem::take(&mut *self.installed());
        let mut failures = Vec::new();
        // Configurations first: a webhook that no server answers could refuse the changes that follow.
        for manifest in &configurations {
            match self.configurations(manifest).delete(manifest.name(), &DeleteParams::default()).await {
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                outcome => failures.extend(outcome.err().map(refused(manifest))),
            }
        }
        for (manifest, before) in &conversions {
            match self.patch_conversion(manifest, before).await {
                // The definition was deleted, and its conversion with it.
                Err(WebhookError::NoDefinition { .. }) => {}
                outcome => failures.extend(outcome.err()),
            }
        }
        failures
    }

    fn record_installed(&self, manifest: &Manifest) {
        let mut installed = self.installed();
        if !installed.configurations.iter().any(|known| known.title == manifest.title) {
            installed.configurations.push(manifest.clone());
        }
    }

    /// Records the conversion that a definition had before the first change by this environment.
    fn record_conversion(&self, manifest: &Manifest, before: Value) {
        let mut installed = self.installed();
        if !installed.conversions.iter().any(|(known, _)| known.name() == manifest.name()) {
            installed.conversions.push((manifest.clone(), before));
        }
    }

    fn configurations(&self, manifest: &Manifest) -> Api<DynamicObject> {
        let kind = manifest.object["kind"].as_str().unwrap_or_default();
        let kind = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind);
        let plural = format!("{}s", kind.kind.to_lowercase());
        Api::all_with(self.inner.client.clone(), &ApiResource::from_gvk_with_plural(&kind, &plural))
    }

    async fn conversion_of(&self, manifest: &Manifest) -> Result<Value, WebhookError> {
        let api: Api<CustomResourceDefinition> = Api::all(self.inner.client.clone());
        let crd = api.get(manifest.name()).await.map_err(definition_error(manifest))?;
        let conversion = crd.spec.conversion.map(|conversion| json!(conversion));
        let mut conversion = conversion.unwrap_or_else(|| json!({ "strategy": "None" }));
        // The merge patch that restores this conversion removes the webhook only by an explicit null.
        if conversion["strategy"] != "Webhook" {
            conversion["webhook"] = Value::Null;
        }
        Ok(conversion)
    }

    async fn patch_conversion(&self, manifest: &Manifest, conversion: &Value) -> Result<(), WebhookError> {
        let api: Api<CustomResourceDefinition> = Api::all(self.inner.client.clone());
        let patch = json!({ "spec": { "conversion": conversion } });
        let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        let patched = api.patch(manifest.name(), &params, &Patch::Merge(&patch)).await;
        patched.map(drop).map_err(definition_error(manifest))
    }
}

fn refused(manifest: &Manifest) -> impl FnOnce(kube::Error) -> WebhookError {
    |error| WebhookError::Refused { object: manifest.title.clone(), reason: text_of(&error) }
}

/// Converts an error about a definition: one that does not exist has a variant of its own.
fn definition_error(manifest: &Manifest) -> impl FnOnce(kube::Error) -> WebhookError {
    |error| match &error {
        kube::Error::Api(status) if status.code == 404 => {
            WebhookError::NoDefinition { object: manifest.title.clone() }
        }
        _ => refused(manifest)(error),
    }
}
