//! Versions of a builtin kind with different fields, such as those of HorizontalPodAutoscalers. Each manager owns fields in the version of its
//! writes.

use kube_apimachinery::go_struct;
use kube_apimachinery::managed_fields::Versions;
use kube_apimachinery::schema::Schema;
use kube_apimachinery::status::ApiError;
use serde_json::Value;

use super::registry::ServedKind;

/// All versions of a kind in one group.
#[derive(Debug)]
pub(crate) struct BuiltinVersions(pub(crate) Vec<ServedKind>);

impl BuiltinVersions {
    fn version_of(&self, api_version: &str) -> Option<&ServedKind> {
        self.0.iter().find(|version| version.kind.api_version == api_version)
    }
}

impl Versions for BuiltinVersions {
    fn schema(&self, api_version: &str) -> Option<&Schema> {
        self.version_of(api_version).map(|version| &*version.schema)
    }

    fn knows(&self, api_version: &str) -> bool {
        self.version_of(api_version).is_some()
    }

    /// Converts an object without setting defaults.
    ///
    /// # Errors
    /// 500 if Go cannot decode the object. An apply may merge values that have not been decoded.
    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, ApiError> {
        let from = self.version_of(object["apiVersion"].as_str().unwrap_or_default());
        let mut object = object.clone();
        let (Some(from), Some(to)) = (from, self.version_of(api_version)) else { return Ok(object) };
        from.schema.restore(&mut object).map_err(|why| {
            let (version, kind) = (&from.kind.api_version, &from.resource.kind);
            ApiError::internal(format!(
                "unable to convert unstructured object to {version}, Kind={kind}: {why}"
            ))
        })?;
        from.strategy.convert_to_storage(from, &mut object);
        to.strategy.convert_from_storage(to, &mut object);
        object["apiVersion"] = api_version.into();
        // One version writes some fields as zero that the other omits.
        if let Some(message) = to.message {
            go_struct::complete(message, &mut object);
        }
        Ok(object)
    }
}
