//! Webhook configurations as manifests.

use kube::core::DynamicObject;
use serde::Serialize;
use serde_json::{Value, json};

use super::Configurations;

impl Configurations {
    /// The configurations as manifests, in the form of YAML files: MutatingWebhookConfiguration and
    /// ValidatingWebhookConfiguration, and of each CustomResourceDefinition its name and `spec.conversion`. kube-envtest installs
    /// them.
    ///
    /// ```
    /// use controller_runtime::webhook::{RegisterError, Rule, WebhookService, Webhooks};
    /// use k8s_openapi::api::core::v1::Pod;
    ///
    /// fn kinds(webhooks: &Webhooks) -> Result<Vec<String>, RegisterError> {
    ///     webhooks.validating(Rule::of::<Pod>(), async |_| Ok(()))?;
    ///     let manifests = webhooks.configurations(&WebhookService::new("system", "webhooks")).manifests();
    ///     Ok(manifests.into_iter().filter_map(|manifest| Some(manifest.types?.kind)).collect())
    /// }
    /// ```
    #[must_use]
    pub fn manifests(&self) -> Vec<DynamicObject> {
        let mut manifests = Vec::new();
        manifests.extend(self.mutating.as_ref().map(manifest));
        manifests.extend(self.validating.as_ref().map(manifest));
        manifests.extend(self.conversions.iter().map(|(name, conversion)| {
            let definition: Value = json!({
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": { "name": name },
                "spec": { "conversion": conversion },
            });
            manifest(&definition)
        }));
        manifests
    }
}

/// Converts an object of any type of Kubernetes to a dynamic one.
fn manifest<K: Serialize>(object: &K) -> DynamicObject {
    let value = serde_json::to_value(object).expect("types of Kubernetes have a JSON form");
    serde_json::from_value(value).expect("an object with kind and metadata is a dynamic object")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::{
        api::admissionregistration::v1::ValidatingWebhookConfiguration,
        apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceConversion,
    };

    use super::*;

    #[test]
    fn manifests_name_their_kinds() {
        let mut validating = ValidatingWebhookConfiguration::default();
        validating.metadata.name = Some("system-webhooks".to_owned());
        let conversion = CustomResourceConversion { strategy: "Webhook".to_owned(), webhook: None };
        let conversions = BTreeMap::from([("carts.example.com".to_owned(), conversion)]);
        let configurations = Configurations { mutating: None, validating: Some(validating), conversions };
        let manifests = json!(configurations.manifests());
        let expected = json!([
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "ValidatingWebhookConfiguration",
                "metadata": { "name": "system-webhooks" },
            },
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": { "name": "carts.example.com" },
                "spec": { "conversion": { "strategy": "Webhook" } },
            },
        ]);
        assert_eq!(manifests, expected);
    }
}
