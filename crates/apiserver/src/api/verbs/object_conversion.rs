//! Conversion of the objects of a request by a webhook (see [`conversion`](crate::api::conversion)).

use std::sync::Arc;

use kube_apimachinery::managed_fields::{self, Writer};
use kube_apimachinery::status::ApiError;
use serde_json::Value;

use super::Call;
use crate::api::conversion::EarlierConversion;
use crate::store::{Document, Stored};

impl Call {
    /// Returns a stored object in the version of the request.
    ///
    /// # Errors
    /// 500 if a webhook has to convert it and fails.
    pub(crate) async fn converted(&self, stored: Arc<Stored>) -> Result<Arc<Stored>, ApiError> {
        self.converted_or(stored, EarlierConversion::Accepted).await
    }

    /// Like [`converted`](Self::converted), but always calls the webhook.
    ///
    /// # Errors
    /// Like [`converted`](Self::converted).
    pub(crate) async fn converted_now(&self, stored: Arc<Stored>) -> Result<Arc<Stored>, ApiError> {
        self.converted_or(stored, EarlierConversion::Ignored).await
    }

    async fn converted_or(
        &self,
        stored: Arc<Stored>,
        kept: EarlierConversion,
    ) -> Result<Arc<Stored>, ApiError> {
        self.context.converter.read_one(&self.cluster, &self.served, stored, kept).await
    }

    /// Returns stored objects in the version of the request.
    ///
    /// # Errors
    /// 500 if a webhook has to convert them and fails.
    pub(crate) async fn all_converted(&self, objects: &[Arc<Stored>]) -> Result<Vec<Arc<Stored>>, ApiError> {
        self.context.converter.read(&self.cluster, &self.served, objects).await
    }

    /// Returns the stored form of an object of the request.
    ///
    /// # Errors
    /// 500 if a webhook has to convert it and fails.
    pub(crate) async fn document(&self, object: &Value) -> Result<Document, ApiError> {
        self.context.converter.document(&self.cluster, &self.served, object).await
    }

    /// Converts the state of an object before a write to the stored version. kube-apiserver needs that form to compare it with its storage,
    /// because it starts from its watch cache, which holds the object in the version of the request. Returns the form if a webhook was
    /// called.
    ///
    /// # Errors
    /// 500 if a webhook has to convert the object and fails.
    pub(crate) async fn convert_cached(&self, old: &Value) -> Result<Option<Document>, ApiError> {
        if !self.served.converts_writes() {
            return Ok(None);
        }
        self.document(old).await.map(Some)
    }

    /// Returns the object that a write would have stored, for a dry run. It may lose fields, like an object that is stored in another
    /// version.
    ///
    /// # Errors
    /// 500 if a webhook has to convert the object and fails.
    pub(crate) async fn dry_run(&self, object: Value) -> Result<Value, ApiError> {
        let mut object = self.context.converter.round_trip(&self.cluster, &self.served, object).await?;
        let served = &self.served;
        if served.is_custom() {
            served.schema.prune(&mut object);
        }
        if served.resource.is_converted {
            served.strategy.convert_to_storage(served, &mut object);
            served.strategy.convert_from_storage(served, &mut object);
            served.conform(&mut object);
        }
        served.coerce_metadata(&mut object);
        Ok(object)
    }

    /// Runs a computation that needs objects in other versions, until all conversions are known (see
    /// [`Memo`](crate::api::conversion::Memo)).
    ///
    /// # Errors
    /// The errors of the computation.
    pub(crate) async fn with_conversions<T>(
        &self,
        mut compute: impl FnMut() -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        loop {
            let outcome = compute();
            // The loop ends, because the number of conversions per request is limited.
            if outcome.is_ok() || !self.conversions.fill(&self.cluster, &self.served).await {
                return outcome;
            }
        }
    }

    /// Makes the manager of a write the owner of the changed fields, for a kind with a webhook. If a conversion fails, no field has an
    /// owner afterwards, as in kube-apiserver.
    pub(crate) async fn track_converted(
        &self,
        old: Option<&Value>,
        new: &mut Value,
        manager: &str,
        subresource: &str,
    ) {
        let Some(versions) = self.conversions.versions(&self.served) else { return };
        let now = self.cluster.clock.now_seconds();
        let api_version = &self.served.kind.api_version;
        let writer = Writer { manager, subresource, api_version, now: &now };
        let reset = self.served.reset_fields(subresource);
        let schemas = versions.schemas(&self.served);
        let tracked = self.with_conversions(|| {
            let mut tracked = new.clone();
            managed_fields::track_update_across(schemas, old, &mut tracked, &writer, reset)?;
            Ok(tracked)
        });
        match tracked.await {
            Ok(tracked) => *new = tracked,
            Err(error) => {
                tracing::warn!(
                    resource = self.served.resource.plural,
                    group = self.served.resource.group,
                    name = self.path.name,
                    reason = error.message(),
                    "the managed fields of an object are discarded, because it cannot be converted to their versions"
                );
                kube_apimachinery::metadata::of(new).remove("managedFields");
            }
        }
    }
}
