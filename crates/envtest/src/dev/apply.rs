//! Applies the objects in files.

use std::{
    fmt::Display,
    io,
    path::{Path, PathBuf},
};

use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams, ValidationDirective},
    core::{ApiResource, DynamicObject, GroupVersionKind, TypeMeta},
    discovery::{Scope, pinned_kind},
};
use serde_json::Value;

use crate::documents::{DocumentError, documents_of, files_of};

/// Failure to apply objects.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// A file or folder could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Path of the file or folder.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// A file does not contain objects, or the API server refused one.
    #[error("{}: {reason}", path.display())]
    Refused {
        /// Path of the file.
        path: PathBuf,
        /// Object and message of the API server, or description of the problem.
        reason: String,
    },
}

/// Applies the objects in a YAML or JSON file, or in all such files of a folder, as field manager `manager`. Namespaced objects
/// without a namespace belong to `default`. Returns their number.
///
/// # Errors
///
/// A file cannot be read, or the API server refuses an object; earlier objects have been applied.
pub(crate) async fn apply_files(
    client: &kube::Client,
    path: &Path,
    manager: &str,
) -> Result<usize, ApplyError> {
    let mut applied = 0;
    for file in files_of(path)? {
        for document in documents_of(&file)?.into_iter().filter(|document| !document.is_null()) {
            let refused = |reason: String| ApplyError::Refused { path: file.clone(), reason };
            apply(client, document, manager).await.map_err(refused)?;
            applied += 1;
        }
    }
    Ok(applied)
}

/// An applied object.
#[derive(Debug, Clone)]
pub(super) struct ObjectRef {
    resource: ApiResource,
    namespace: Option<String>,
    name: String,
}

impl ObjectRef {
    /// Deletes the object, if it still exists.
    pub(super) async fn delete(&self, client: &kube::Client) -> Result<(), String> {
        match self.api(client).delete(&self.name, &DeleteParams::default()).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(format!("{} {}: {error}", self.resource.kind, self.name)),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whether both are the same object, whatever version of its kind they name.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let kind = |object: &Self| (object.resource.group.clone(), object.resource.kind.clone());
        kind(self) == kind(other) && self.namespace == other.namespace && self.name == other.name
    }

    fn api(&self, client: &kube::Client) -> Api<DynamicObject> {
        match &self.namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &self.resource),
            None => Api::all_with(client.clone(), &self.resource),
        }
    }
}

/// Applies an object, whoever owns its fields. The error names the object.
pub(super) async fn apply(
    client: &kube::Client,
    document: Value,
    manager: &str,
) -> Result<ObjectRef, String> {
    let object: DynamicObject =
        serde_json::from_value(document).map_err(|error| format!("not a Kubernetes object: {error}"))?;
    let types = object.types.as_ref().ok_or("an object lacks apiVersion and kind")?;
    let name = object.metadata.name.clone().ok_or_else(|| format!("a {} lacks metadata.name", types.kind))?;
    let failed = |error: &dyn Display| format!("{} {name}: {error}", types.kind);
    let gvk = GroupVersionKind::try_from(types).map_err(|error| failed(&error))?;
    let (resource, capabilities) = pinned_kind(client, &gvk).await.map_err(|_| {
        let TypeMeta { api_version, kind } = types;
        failed(&format!("the API server does not serve kind {kind} of {api_version}"))
    })?;
    let namespace = match capabilities.scope {
        Scope::Cluster => None,
        Scope::Namespaced => Some(object.metadata.namespace.clone().unwrap_or_else(|| "default".to_owned())),
    };
    let applied = ObjectRef { resource, namespace, name: name.clone() };
    let mut parameters = PatchParams::apply(manager).force();
    // A misspelt field would otherwise be dropped without an error.
    parameters.field_validation = Some(ValidationDirective::Strict);
    match applied.api(client).patch(&name, &parameters, &Patch::Apply(&object)).await {
        Ok(_) => Ok(applied),
        Err(kube::Error::Api(status)) => Err(failed(&status.message)),
        Err(error) => Err(failed(&error)),
    }
}

/// Returns all objects of these kinds that `manager` has applied.
pub(super) async fn applied_by(
    client: &kube::Client,
    manager: &str,
    kinds: &[ApiResource],
) -> Result<Vec<ObjectRef>, kube::Error> {
    let mut found = Vec::new();
    for resource in kinds {
        let objects = Api::<DynamicObject>::all_with(client.clone(), resource);
        for object in objects.list_metadata(&ListParams::default()).await? {
            let metadata = object.metadata;
            let is_applied = metadata.managed_fields.iter().flatten().any(|fields| {
                // An update by a client of this name is not an apply of the session.
                fields.manager.as_deref() == Some(manager) && fields.operation.as_deref() == Some("Apply")
            });
            if let (true, Some(name)) = (is_applied, metadata.name) {
                found.push(ObjectRef { resource: resource.clone(), namespace: metadata.namespace, name });
            }
        }
    }
    Ok(found)
}

impl From<DocumentError> for ApplyError {
    fn from(error: DocumentError) -> Self {
        match error {
            DocumentError::Read { path, source } => Self::Read { path, source },
            DocumentError::Parse { path, reason } => Self::Refused { path, reason },
        }
    }
}
