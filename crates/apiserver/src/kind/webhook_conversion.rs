//! Conversion of custom objects by a webhook, as data: the parts of a definition that its versions need for calls.

use std::sync::Arc;

use kube_apimachinery::managed_fields::{Schemas, Versions};
use kube_apimachinery::schema::Schema;
use kube_apimachinery::status::ApiError;
use serde_json::Value;

use super::storage_version::version_number;
use crate::store::{Stored, TypeMeta};
use crate::webhook_client::ClientConfig;

/// Conversion of the objects of a definition with `conversion.strategy: Webhook`. All served versions share it.
#[derive(Debug)]
pub(crate) struct WebhookConversion {
    /// `spec.conversion.webhook.clientConfig` of the definition.
    pub(crate) client: ClientConfig,
    /// Version of the reviews that are sent.
    pub(crate) review: ConversionReviewVersion,
    /// Name of the storage version.
    pub(crate) storage: String,
    /// All versions of the definition, served or not.
    pub(crate) versions: Vec<ObjectVersion>,
}

/// A version of `ConversionReview`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConversionReviewVersion {
    V1,
    V1Beta1,
}

impl ConversionReviewVersion {
    /// Returns the first supported version in `conversionReviewVersions`. A valid definition has at least one.
    pub(crate) fn first_supported(versions: &Value) -> Self {
        let versions = versions.as_array().into_iter().flatten();
        let mut known = versions.filter_map(|version| match version.as_str()? {
            "v1" => Some(Self::V1),
            "v1beta1" => Some(Self::V1Beta1),
            _ => None,
        });
        known.next().unwrap_or(Self::V1)
    }

    /// Returns the apiVersion of the reviews.
    pub(crate) fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "apiextensions.k8s.io/v1",
            Self::V1Beta1 => "apiextensions.k8s.io/v1beta1",
        }
    }
}

/// A version of the objects of a definition.
#[derive(Debug)]
pub(crate) struct ObjectVersion {
    pub(crate) name: String,
    pub(crate) kind: TypeMeta,
    pub(crate) schema: Arc<Schema>,
}

/// All versions of a definition with `conversion.strategy: None`: a conversion changes only the `apiVersion`.
#[derive(Debug)]
pub(crate) struct EqualVersions(pub(crate) Vec<ObjectVersion>);

impl EqualVersions {
    /// Returns the schemas for a write in the version of `own`.
    pub(crate) fn schemas<'a>(&'a self, own: &'a Schema) -> Schemas<'a> {
        Schemas { own, others: Some(self), versions: &[] }
    }

    fn version_of(&self, api_version: &str) -> Option<&ObjectVersion> {
        self.0.iter().find(|version| version.kind.api_version == api_version)
    }
}

impl Versions for EqualVersions {
    fn schema(&self, api_version: &str) -> Option<&Schema> {
        self.version_of(api_version).map(|version| &*version.schema)
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, ApiError> {
        if self.version_of(api_version).is_none() {
            let why = format!("request to convert CR to an invalid group/version: {api_version}");
            return Err(ApiError::internal(why));
        }
        let mut object = object.clone();
        object["apiVersion"] = api_version.into();
        Ok(object)
    }
}

impl WebhookConversion {
    /// Returns the version with this name.
    pub(crate) fn version(&self, name: &str) -> Option<&ObjectVersion> {
        self.versions.iter().find(|version| version.name == name)
    }

    /// Returns the version with this apiVersion, such as `example.com/v1`.
    pub(crate) fn version_of(&self, api_version: &str) -> Option<&ObjectVersion> {
        self.versions.iter().find(|version| version.kind.api_version == api_version)
    }

    /// Returns the version in which an object is stored; `None` if the definition no longer has it.
    pub(crate) fn version_of_stored(&self, stored: &Stored) -> Option<&ObjectVersion> {
        self.versions.iter().find(|version| version_number(&version.name) == stored.document.stored_in())
    }
}
