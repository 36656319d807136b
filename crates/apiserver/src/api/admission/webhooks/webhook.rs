//! A parsed webhook of a configuration.

use std::sync::Arc;

use kube_apimachinery::selector::LabelSelector;
use serde_json::Value;
use tokio::time::Duration;

use super::admission_review::AdmissionReviewVersion;
use super::match_conditions::Condition;
use super::matching::WebhookRule;
use crate::webhook_client::ClientConfig;

/// Name and settings of a webhook.
#[derive(Debug)]
pub(super) struct Webhook {
    /// Name such as `pods.example.com`.
    pub(super) name: String,
    pub(super) client: Arc<ClientConfig>,
    pub(super) rules: Vec<WebhookRule>,
    pub(super) matches_equivalent: bool,
    pub(super) ignores_failure: bool,
    /// Whether the webhook has no side effects in a dry run (`sideEffects`).
    pub(super) supports_dry_run: bool,
    pub(super) reinvoked_if_needed: bool,
    pub(super) timeout: Duration,
    /// Namespaces of the objects to review; `None` selects none, because the stored selector is invalid.
    pub(super) namespace_selector: Option<LabelSelector>,
    pub(super) object_selector: Option<LabelSelector>,
    /// First version of the list that the server knows.
    pub(super) review_version: Option<AdmissionReviewVersion>,
    pub(super) conditions: Vec<Condition>,
}

impl Webhook {
    /// Reads a valid webhook. It takes over the connections of its `former` state if it is still reached in the same way.
    pub(super) fn read(hook: &Value, former: Option<&Self>) -> Self {
        let client = Arc::new(ClientConfig::read(&hook["clientConfig"]));
        let client = match former {
            Some(former) if former.client == client => Arc::clone(&former.client),
            _ => client,
        };
        let rules = hook["rules"].as_array().into_iter().flatten().map(WebhookRule::read).collect();
        let versions = hook["admissionReviewVersions"].as_array().into_iter().flatten();
        Self {
            name: hook["name"].as_str().unwrap_or_default().to_owned(),
            client,
            rules,
            matches_equivalent: hook["matchPolicy"] != "Exact",
            ignores_failure: hook["failurePolicy"] == "Ignore",
            supports_dry_run: ["None", "NoneOnDryRun"].iter().any(|class| hook["sideEffects"] == *class),
            reinvoked_if_needed: hook["reinvocationPolicy"] == "IfNeeded",
            timeout: Duration::from_secs(hook["timeoutSeconds"].as_u64().unwrap_or(10).min(30)),
            namespace_selector: LabelSelector::from_object(&hook["namespaceSelector"]),
            object_selector: LabelSelector::from_object(&hook["objectSelector"]),
            conditions: hook["matchConditions"]
                .as_array()
                .into_iter()
                .flatten()
                .map(Condition::read)
                .collect(),
            review_version: versions
                .filter_map(|version| AdmissionReviewVersion::named(version.as_str()?))
                .next(),
        }
    }
}
