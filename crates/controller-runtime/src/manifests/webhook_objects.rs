//! Webhook configurations, and CustomResourceDefinitions with their conversions.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::Serialize;
use serde_json::Value;

use super::{ManifestObject, Part, RenderInput};
use crate::webhook::{Configurations, WebhookService};

/// The CustomResourceDefinitions, with the conversions of the registered webhooks.
pub(super) fn definitions(target: &RenderInput<'_>) -> Vec<ManifestObject> {
    let conversions = registered(target).conversions;
    let definitions = target.program.definitions.iter().map(|definition| {
        let mut definition = definition.clone();
        let name = definition.metadata.name.as_ref();
        if let Some(conversion) = name.and_then(|name| conversions.get(name)) {
            definition.spec.conversion = Some(conversion.clone());
        }
        self::definition(&definition)
    });
    definitions.collect()
}

/// A CustomResourceDefinition as it is.
pub(super) fn definition(definition: &CustomResourceDefinition) -> ManifestObject {
    object(Part::Definitions, definition)
}

/// The webhook configurations. They are rendered even if the program applies them itself, so that they are deleted
/// together with it.
pub(super) fn configurations(target: &RenderInput<'_>) -> Vec<ManifestObject> {
    let Configurations { mutating, validating, .. } = registered(target);
    let mutating = mutating.map(|configuration| object(Part::Webhooks, &configuration));
    let validating = validating.map(|configuration| object(Part::Webhooks, &configuration));
    mutating.into_iter().chain(validating).collect()
}

/// Configurations of the registered webhooks. None if other hosts cannot reach the server: it then has no Service, so the API server
/// could not call the webhooks and would refuse all objects of these kinds.
fn registered(target: &RenderInput<'_>) -> Configurations {
    if target.program.ports.webhooks.is_none() {
        return Configurations::default();
    }
    let service = WebhookService::new(target.namespace, target.webhook_service());
    target.program.webhooks.configurations(&service)
}

/// Renders an object of a type of Kubernetes.
fn object<K: Serialize>(part: Part, object: &K) -> ManifestObject {
    let value: Value = serde_json::to_value(object).expect("types of Kubernetes have a JSON form");
    ManifestObject::new(part, value)
}
