//! Waits until an API server calls the webhooks of a configuration.
//!
//! kube-apiserver loads configurations a moment after they are stored, and does not report when. To observe it, this module adds a
//! canary: a webhook at which no server listens and that matches only one object. It repeats a dry run of the object's creation until
//! the call of the canary fails.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, api::PostParams};
use serde_json::json;

use super::{Manifest, WebhookError, WebhookHost, unique_id};
use crate::{crd::text_of, eventually::poll};

/// Name of the canary.
const CANARY: &str = "canary.kube-envtest.io";

/// Label of the object that the canary matches.
const LABEL: &str = "kube-envtest/canary";

impl Manifest {
    /// Adds a canary for objects with this value of [`LABEL`].
    fn with_canary(&self, id: &str) -> Self {
        let mut manifest = self.clone();
        let canary = json!({
            "name": CANARY,
            "admissionReviewVersions": ["v1"],
            // A port that no server listens at.
            "clientConfig": { "url": "https://127.0.0.1:1/" },
            "failurePolicy": "Fail",
            "objectSelector": { "matchLabels": { LABEL: id } },
            "rules": [{ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"] }],
            "sideEffects": "None",
            "timeoutSeconds": 1,
        });
        if let Some(webhooks) = manifest.object["webhooks"].as_array_mut() {
            // The canary comes first: mutating webhooks are called in order, so no other webhook of the configuration is called
            // for the object.
            webhooks.insert(0, canary);
        }
        manifest
    }
}

impl WebhookHost {
    /// Applies a configuration, and waits until the API server calls its webhooks.
    pub(super) async fn apply_and_load(&self, manifest: &Manifest) -> Result<(), WebhookError> {
        let id = unique_id();
        // The canary refuses an object that no other program creates. Its refusal shows that the API server
        // has loaded the configuration.
        self.apply(&manifest.with_canary(&id)).await?;
        let loaded = poll(self.inner.within, || self.meets_canary(&id)).await;
        // Remove the canary even if loading failed.
        self.apply(manifest).await?;
        let object = manifest.title.clone();
        loaded.map_err(|unmet| WebhookError::NotCalled {
            object,
            within: self.inner.within,
            reason: unmet.last,
        })
    }

    /// Returns `Ok` if the API server has called the canary for a test object.
    async fn meets_canary(&self, id: &str) -> Result<(), String> {
        let mut object = ConfigMap::default();
        object.metadata.name = Some(format!("kube-envtest-canary-{id}"));
        object.metadata.labels = Some([(LABEL.to_owned(), id.to_owned())].into());
        let api: Api<ConfigMap> = Api::namespaced(self.inner.client.clone(), "default");
        // A dry run, because the object must not be created if the canary is not called yet.
        let params = PostParams { dry_run: true, ..PostParams::default() };
        match api.create(&params, &object).await {
            Ok(_) => Err("a dry run of a test object succeeded without a review".to_owned()),
            Err(error) if text_of(&error).contains(CANARY) => Ok(()),
            // A policy of the cluster refuses the object before the canary is called. Loading cannot be observed then, and is assumed.
            Err(kube::Error::Api(status)) if (400..500).contains(&status.code) && status.code != 429 => {
                Ok(())
            }
            Err(error) => Err(text_of(&error)),
        }
    }
}
