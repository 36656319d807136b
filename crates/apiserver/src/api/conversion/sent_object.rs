//! Objects as a review contains them: in the version in which they are stored.

use std::sync::Arc;

use kube_apimachinery::metadata;
use kube_apimachinery::status::ApiError;
use serde_json::Value;

use crate::kind::registry::ServedKind;
use crate::kind::webhook_conversion::{ObjectVersion, WebhookConversion};
use crate::state::ClusterState;
use crate::store::Stored;

/// The storage version, if a review can contain the text of stored objects without parsing it.
pub(super) struct SentAsStored<'a> {
    pub(super) served: Arc<ServedKind>,
    pub(super) version: &'a ObjectVersion,
}

impl<'a> SentAsStored<'a> {
    /// Returns the storage version, if it is served with the schema that the webhook's conversion uses.
    pub(super) fn of(
        cluster: &ClusterState,
        served: &ServedKind,
        webhook: &'a WebhookConversion,
    ) -> Option<Self> {
        let version = webhook.version(&webhook.storage)?;
        let (group, plural) = (&served.resource.group, &served.resource.plural);
        let served = cluster.registry().get(group, &version.name, plural).map(Arc::clone)?;
        Arc::ptr_eq(&served.schema, &version.schema).then_some(Self { served, version })
    }

    /// Whether pruning and defaults would not change the stored object, because it was written with the same schema.
    pub(super) fn applies_to(&self, stored: &Stored) -> bool {
        self.served.reads_as_stored(stored)
    }
}

/// Returns an object as a review contains it: in the version in which it is stored, with the defaults of that version, without a revision.
pub(super) fn original(webhook: &WebhookConversion, stored: &Stored) -> Result<Value, ApiError> {
    let version = webhook.version_of_stored(stored).ok_or_else(|| {
        ApiError::internal(
            "request to convert CR from an invalid group/version: the definition no longer has it",
        )
    })?;
    let mut object = stored.document.to_value(&version.kind, stored.revision);
    metadata::of(&mut object).remove("resourceVersion");
    version.schema.prune(&mut object);
    version.schema.default(&mut object);
    Ok(object)
}
