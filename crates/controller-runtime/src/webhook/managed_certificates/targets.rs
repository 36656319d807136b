//! Webhook configurations and CustomResourceDefinitions in the cluster: applying them, and their `caBundle`s.

use std::{collections::BTreeSet, sync::Arc};

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use kube::core::DynamicObject;
use serde_json::{Value, json};

use super::{
    authority::Material,
    bundle::{BundleChange, add_authorities, with_authorities},
    rotation::{Generation, UnixTime},
};
use crate::{
    client::{Client, ClientError, DynamicClient, Patch},
    error::BoxError,
    object::{DynamicKind, ObjectKey},
    webhook::{WebhookService, Webhooks, configurations::Configurations},
};

/// JSON pointer to the `clientConfig` of a CustomResourceDefinition.
const CONVERSION_CONFIG: &str = "/spec/conversion/webhook/clientConfig";

/// Objects that name the Service of the webhook server.
pub(super) struct Targets {
    mutating: DynamicClient,
    validating: DynamicClient,
    definitions: DynamicClient,
    webhooks: Webhooks,
    namespace: String,
    service: String,
    /// The Service by which configurations are to be applied.
    apply: Option<WebhookService>,
    /// Owner of the applied fields.
    field_manager: Arc<str>,
}

/// Result of [`Targets::publish`].
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Published {
    /// Generations with an authority that was missing in an object.
    pub(super) lacked: BTreeSet<String>,
    pub(super) writes: u64,
}

/// An object whose `caBundle`s are to be kept up to date.
struct TargetObject<'t> {
    client: &'t DynamicClient,
    object: DynamicObject,
    /// JSON pointers to its `clientConfig`s for the Service.
    configs: Vec<String>,
}

impl Targets {
    pub(super) fn new(
        client: &Client,
        webhooks: &Webhooks,
        (namespace, service): (String, String),
        apply: Option<WebhookService>,
        name: &str,
    ) -> Self {
        let admission = |kind: &str, plural: &str| {
            client.of(DynamicKind::cluster("admissionregistration.k8s.io", "v1", kind, plural))
        };
        Self {
            mutating: admission("MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
            validating: admission("ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
            definitions: client.of(DynamicKind::cluster(
                "apiextensions.k8s.io",
                "v1",
                "CustomResourceDefinition",
                "customresourcedefinitions",
            )),
            webhooks: webhooks.clone(),
            namespace,
            service,
            apply,
            field_manager: format!("{name}-webhooks").into(),
        }
    }

    /// Kinds to watch, each with the name of the only object to watch, if there is one.
    pub(super) fn watched(&self) -> Vec<(DynamicClient, Option<String>)> {
        let configuration = self.apply.as_ref().map(WebhookService::configuration_name);
        let admission =
            [&self.mutating, &self.validating].map(|client| (client.clone(), configuration.clone()));
        let definitions =
            self.webhooks.converted().into_iter().map(|name| (self.definitions.clone(), Some(name)));
        admission.into_iter().chain(definitions).collect()
    }

    /// Applies the configurations of the registered webhooks, with the authorities of `generations` if there are any. Entries for the
    /// Service that are not registered any more are removed. Returns the number of writes.
    pub(super) async fn apply(
        &self,
        generations: &[Generation<Material>],
        now: UnixTime,
    ) -> Result<u64, BoxError> {
        let Some(service) = &self.apply else { return Ok(0) };
        let Configurations { mutating, validating, conversions } = self.webhooks.configurations(service);
        let mut writes = 0;
        let admission = [
            (&self.mutating, mutating.map(|wanted| json!(wanted.webhooks))),
            (&self.validating, validating.map(|wanted| json!(wanted.webhooks))),
        ];
        for (client, wanted) in admission {
            let key = ObjectKey::<DynamicObject>::new((), service.configuration_name());
            let present = client.get(&key).await?;
            if wanted.is_none() && present.is_none() {
                continue;
            }
            // A configuration that an earlier version of the program applied becomes empty.
            let mut wanted = wanted.unwrap_or_else(|| json!([]));
            for entry in wanted.as_array_mut().into_iter().flatten() {
                let bundle = present.as_ref().and_then(|present| self.bundle_of(present, &entry["name"]));
                if let Some(bundle) = with_authorities(bundle, generations, now) {
                    entry["clientConfig"]["caBundle"] = json!(BASE64.encode(bundle));
                }
            }
            if let Some(present) = &present {
                writes += self.remove_unregistered(client, &key, present, &wanted).await?;
            }
            let mut object = DynamicObject::new(&service.configuration_name(), client.kind().resource());
            object.data = json!({ "webhooks": wanted });
            client.apply(&object).field_manager(Arc::clone(&self.field_manager)).await?;
            writes += 1;
        }
        for (name, conversion) in conversions {
            let key = ObjectKey::<DynamicObject>::new((), &*name);
            let present = self.definitions.get(&key).await?;
            let present = present.ok_or_else(|| {
                format!(
                    "CustomResourceDefinition {name}, which the operator converts, does not exist: install it"
                )
            })?;
            let mut conversion = json!(conversion);
            if let Some(bundle) =
                with_authorities(bundle_at(&present.data, CONVERSION_CONFIG), generations, now)
            {
                conversion["webhook"]["clientConfig"]["caBundle"] = json!(BASE64.encode(bundle));
            }
            let mut object = DynamicObject::new(&name, self.definitions.kind().resource());
            // An apply must not create a definition that has been deleted meanwhile.
            object.metadata.uid = present.metadata.uid;
            object.data = json!({ "spec": { "conversion": conversion } });
            self.definitions.apply(&object).field_manager(Arc::clone(&self.field_manager)).await?;
            writes += 1;
        }
        Ok(writes)
    }

    /// Removes entries for the Service that are not in `wanted`. An apply alone would leave those whose `caBundle` another manager
    /// has set, as entries without their required fields.
    async fn remove_unregistered(
        &self,
        client: &DynamicClient,
        key: &ObjectKey<DynamicObject>,
        present: &DynamicObject,
        wanted: &Value,
    ) -> Result<u64, ClientError> {
        let is_wanted = |entry: &Value| {
            wanted.as_array().into_iter().flatten().any(|wanted| wanted["name"] == entry["name"])
        };
        let entries = present.data["webhooks"].as_array().into_iter().flatten().enumerate();
        let unregistered: Vec<usize> = entries
            .filter(|(_, entry)| self.is_ours(&entry["clientConfig"]) && !is_wanted(entry))
            .map(|(index, _)| index)
            .collect();
        if unregistered.is_empty() {
            return Ok(0);
        }
        let mut operations = vec![precondition(present)];
        // Removed from the end, so that the indexes stay valid.
        operations.extend(
            unregistered
                .iter()
                .rev()
                .map(|index| json!({ "op": "remove", "path": format!("/webhooks/{index}") })),
        );
        client.patch(key, Patch::json(&operations)).field_manager(Arc::clone(&self.field_manager)).await?;
        Ok(1)
    }

    /// Returns whether a webhook configuration that was applied does not exist any more, or a definition has lost the conversion that was
    /// applied, for example because its manifest replaced it.
    pub(super) async fn is_apply_needed(&self) -> Result<bool, ClientError> {
        let Some(service) = &self.apply else { return Ok(false) };
        let Configurations { mutating, validating, conversions } = self.webhooks.configurations(service);
        for (client, is_wanted) in
            [(&self.mutating, mutating.is_some()), (&self.validating, validating.is_some())]
        {
            let key = ObjectKey::<DynamicObject>::new((), service.configuration_name());
            if is_wanted && client.get_metadata(&key).await?.is_none() {
                return Ok(true);
            }
        }
        for (name, _) in conversions {
            let key = ObjectKey::<DynamicObject>::new((), &*name);
            // A deleted definition has no objects to convert. Its conversion is applied when it exists again.
            let present = self.definitions.get(&key).await?;
            let is_lost = |definition: &DynamicObject| {
                !definition.data.pointer(CONVERSION_CONFIG).is_some_and(|config| self.is_ours(config))
            };
            if present.as_ref().is_some_and(is_lost) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Adds the authorities of `generations` to every `caBundle` that lacks one. After an error, the objects that were patched
    /// before it stay patched.
    pub(super) async fn publish(
        &self,
        generations: &[Generation<Material>],
        now: UnixTime,
    ) -> Result<Published, BoxError> {
        let mut published = Published::default();
        for TargetObject { client, object, configs } in self.targets().await? {
            let mut operations = vec![precondition(&object)];
            for config in configs {
                let bundle = bundle_at(&object.data, &config).unwrap_or_default();
                if let Some(BundleChange { pem, lacked }) = add_authorities(&bundle, generations, now) {
                    published.lacked.extend(lacked);
                    let path = format!("{config}/caBundle");
                    operations.push(json!({ "op": "add", "path": path, "value": BASE64.encode(pem) }));
                }
            }
            if operations.len() == 1 {
                continue; // only the precondition: no `caBundle` has to change
            }
            let name = object.metadata.name.clone().unwrap_or_default();
            let key = ObjectKey::<DynamicObject>::new((), &*name);
            client
                .patch(&key, Patch::json(&operations))
                .field_manager(Arc::clone(&self.field_manager))
                .await?;
            published.writes += 1;
            let kind = &client.kind().resource().kind;
            tracing::info!(
                kind,
                name,
                "published the authorities of the webhook certificates in the caBundle"
            );
        }
        Ok(published)
    }

    /// Reads all objects that name the Service.
    async fn targets(&self) -> Result<Vec<TargetObject<'_>>, BoxError> {
        let mut targets = Vec::new();
        for client in [&self.mutating, &self.validating] {
            let objects = match &self.apply {
                // The operator has rights on the configuration that it applies, by its name. Configurations from other sources may have any
                // name, so all are searched for the Service.
                Some(service) => {
                    let key = ObjectKey::<DynamicObject>::new((), service.configuration_name());
                    client.get(&key).await?.into_iter().collect()
                }
                None => client.list().await?.items,
            };
            for object in objects {
                let entries = object.data["webhooks"].as_array().into_iter().flatten().enumerate();
                let ours = entries.filter(|(_, entry)| self.is_ours(&entry["clientConfig"]));
                let configs: Vec<_> =
                    ours.map(|(index, _)| format!("/webhooks/{index}/clientConfig")).collect();
                if !configs.is_empty() {
                    targets.push(TargetObject { client, object, configs });
                }
            }
        }
        for name in self.webhooks.converted() {
            let Some(object) = self.definitions.get(&ObjectKey::<DynamicObject>::new((), &*name)).await?
            else {
                continue;
            };
            if object.data.pointer(CONVERSION_CONFIG).is_some_and(|config| self.is_ours(config)) {
                targets.push(TargetObject {
                    client: &self.definitions,
                    object,
                    configs: vec![CONVERSION_CONFIG.to_owned()],
                });
            }
        }
        Ok(targets)
    }

    /// The `caBundle` of the entry with this name, or of another one for the Service, so that a new entry begins with the
    /// authorities that clients of the Service trust already.
    fn bundle_of(&self, present: &DynamicObject, name: &Value) -> Option<Vec<u8>> {
        let entries = || present.data["webhooks"].as_array().into_iter().flatten();
        let ours = || entries().filter(|entry| self.is_ours(&entry["clientConfig"]));
        let entry = ours().find(|entry| entry["name"] == *name).or_else(|| ours().next())?;
        bundle_at(entry, "/clientConfig")
    }

    /// Returns whether a `clientConfig` names the Service.
    fn is_ours(&self, client_config: &Value) -> bool {
        let service = &client_config["service"];
        service["namespace"] == *self.namespace && service["name"] == *self.service
    }
}

/// JSON patch operation that fails if the object has changed since it was read.
fn precondition(object: &DynamicObject) -> Value {
    json!({ "op": "test", "path": "/metadata/resourceVersion", "value": object.metadata.resource_version })
}

/// The `caBundle` of the `clientConfig` at a JSON pointer.
fn bundle_at(object: &Value, config: &str) -> Option<Vec<u8>> {
    BASE64.decode(object.pointer(config)?["caBundle"].as_str()?).ok()
}
