//! Conversions inside a computation that cannot wait, such as the merge of an apply.
//!
//! The computation runs with the conversions that are known so far. If one is missing, the computation records the object and the version,
//! and fails. The caller then calls the webhook and starts the computation again. Each round adds the conversions that the previous round
//! recorded. The computation is a pure function of them, so an apply takes at most as many rounds as it needs different conversions.

use kube_apimachinery::managed_fields::{Schemas, Versions};
use kube_apimachinery::schema::Schema;
use kube_apimachinery::status::ApiError;
use parking_lot::Mutex;
use serde_json::Value;

use super::Converter;
use crate::kind::registry::ServedKind;
use crate::kind::webhook_conversion::WebhookConversion;
use crate::state::ClusterState;

/// Maximum number of conversions for one write. The entries in `managedFields` determine how many versions are compared.
const CONVERSIONS: usize = 256;

/// Conversions of one write.
#[derive(Debug, Default)]
pub(crate) struct Memo(Mutex<MemoState>);

#[derive(Debug, Default)]
struct MemoState {
    known: Vec<(Wanted, Result<Value, ApiError>)>,
    wanted: Vec<Wanted>,
}

/// An object, and the apiVersion to which it must be converted.
#[derive(Debug, PartialEq)]
struct Wanted {
    object: Value,
    api_version: String,
}

/// Versions of a kind with a webhook, and the conversions that are known.
pub(crate) struct KnownVersions<'a> {
    webhook: &'a WebhookConversion,
    memo: &'a Memo,
}

impl Memo {
    /// Returns access to the other versions of a kind with a webhook.
    pub(crate) fn versions<'a>(&'a self, served: &'a ServedKind) -> Option<KnownVersions<'a>> {
        served.webhook.as_deref().map(|webhook| KnownVersions { webhook, memo: self })
    }

    /// Performs the conversions that a computation recorded as missing. Returns `false` if there are none, or too many.
    pub(crate) async fn fill(&self, cluster: &ClusterState, served: &ServedKind) -> bool {
        let wanted = std::mem::take(&mut self.0.lock().wanted);
        let Some(webhook) = &served.webhook else { return false };
        if wanted.is_empty() || self.0.lock().known.len() + wanted.len() > CONVERSIONS {
            return false;
        }
        for wanted in wanted {
            // Only versions of the kind are recorded.
            let Some(version) = webhook.version_of(&wanted.api_version) else { return false };
            // As in kube-apiserver, each object has its own call, so that the webhook can refuse one without the others.
            let sent = [Ok(wanted.object.clone())].into_iter();
            let result = match Converter::call(cluster, webhook, version, sent, |converted| converted).await {
                // The review has checked that the webhook returned as many objects as it received.
                Ok(mut converted) => converted.pop().ok_or_else(|| ApiError::internal("no converted object")),
                Err(error) => Err(error),
            };
            self.0.lock().known.push((wanted, result));
        }
        true
    }
}

impl<'a> KnownVersions<'a> {
    /// Returns the schemas for a write in the version of `served`.
    pub(crate) fn schemas(&'a self, served: &'a ServedKind) -> Schemas<'a> {
        Schemas { own: &served.schema, others: Some(self), versions: &[] }
    }
}

impl Versions for KnownVersions<'_> {
    fn schema(&self, api_version: &str) -> Option<&Schema> {
        self.webhook.version_of(api_version).map(|version| &*version.schema)
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, ApiError> {
        if self.webhook.version_of(api_version).is_none() {
            let why = format!("request to convert CR to an invalid group/version: {api_version}");
            return Err(ApiError::internal(why));
        }
        // An empty object is empty in every version, and needs no call.
        let is_type = |name: &String| name == "apiVersion" || name == "kind";
        if object.as_object().is_some_and(|fields| fields.keys().all(is_type)) {
            let mut object = object.clone();
            object["apiVersion"] = api_version.into();
            return Ok(object);
        }
        let mut state = self.memo.0.lock();
        let found = state
            .known
            .iter()
            .find(|(wanted, _)| wanted.api_version == api_version && wanted.object == *object);
        if let Some((_, result)) = found {
            return result.clone();
        }
        let wanted = Wanted { object: object.clone(), api_version: api_version.to_owned() };
        if !state.wanted.contains(&wanted) {
            state.wanted.push(wanted);
        }
        // The caller calls `fill` and computes the write again, so a client sees this error only at the
        // limit.
        Err(ApiError::internal(format!(
            "the managed fields of the object need more than {CONVERSIONS} conversions: remove old entries"
        )))
    }
}
