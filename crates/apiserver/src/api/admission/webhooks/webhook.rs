//! A parsed webhook of a configuration.

use std::sync::Arc;

use serde_json::Value;
use tokio::time::Duration;

use super::admission_review::AdmissionReviewVersion;
use crate::api::admission::match_conditions::MatchConditions;
use crate::api::admission::matching::MatchCriteria;
use crate::webhook_client::ClientConfig;

/// Name and settings of a webhook.
#[derive(Debug)]
pub(super) struct Webhook {
    /// Name such as `pods.example.com`.
    pub(super) name: String,
    pub(super) client: Arc<ClientConfig>,
    /// Rules and selectors.
    pub(super) criteria: MatchCriteria,
    pub(super) ignores_failure: bool,
    /// Whether the webhook has no side effects in a dry run (`sideEffects`).
    pub(super) supports_dry_run: bool,
    pub(super) reinvoked_if_needed: bool,
    pub(super) timeout: Duration,
    /// First version of the list that the server knows.
    pub(super) review_version: Option<AdmissionReviewVersion>,
    pub(super) conditions: MatchConditions,
}

impl Webhook {
    /// Reads a valid webhook. It takes over the connections of its `former` state if it is still reached in the same way.
    pub(super) fn read(hook: &Value, former: Option<&Self>) -> Self {
        let client = Arc::new(ClientConfig::read(&hook["clientConfig"]));
        let client = match former {
            Some(former) if former.client == client => Arc::clone(&former.client),
            _ => client,
        };
        let versions = hook["admissionReviewVersions"].as_array().into_iter().flatten();
        Self {
            name: hook["name"].as_str().unwrap_or_default().to_owned(),
            client,
            criteria: MatchCriteria::of_webhook(hook),
            ignores_failure: hook["failurePolicy"] == "Ignore",
            supports_dry_run: ["None", "NoneOnDryRun"].iter().any(|class| hook["sideEffects"] == *class),
            reinvoked_if_needed: hook["reinvocationPolicy"] == "IfNeeded",
            timeout: Duration::from_secs(hook["timeoutSeconds"].as_u64().unwrap_or(10).min(30)),
            conditions: MatchConditions::of_webhook(hook),
            review_version: versions
                .filter_map(|version| AdmissionReviewVersion::named(version.as_str()?))
                .next(),
        }
    }
}
