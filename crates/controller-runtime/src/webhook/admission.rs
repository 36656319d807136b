//! The request that handlers of an admission webhook receive.

use std::{collections::BTreeMap, fmt, sync::Arc};

use k8s_openapi::api::authentication::v1::UserInfo;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{rejection::Rejection, typed_change};
use crate::object::StaticObject;

/// Operation that an admission webhook reviews.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    /// A new object.
    Create,
    /// A change of an object, including patches and server-side apply.
    Update,
    /// The deletion of an object. The request has only the old object.
    Delete,
    /// A connection to an object, such as `kubectl exec`. The object of the request is the connection's options.
    Connect,
}

impl Operation {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// Group, version and kind of an admission request.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct AdmissionKind {
    /// Group; empty for the core group.
    pub group: String,
    /// Version.
    pub version: String,
    /// Kind.
    pub kind: String,
}

/// Group, version and plural of an admission request.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct AdmissionResource {
    /// Group; empty for the core group.
    pub group: String,
    /// Version.
    pub version: String,
    /// Plural name.
    pub resource: String,
}

/// The `request` of an AdmissionReview. `v1` and `v1beta1` have the same fields.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AdmissionRequest {
    pub(super) uid: String,
    #[serde(default)]
    kind: AdmissionKind,
    #[serde(default)]
    resource: AdmissionResource,
    sub_resource: Option<String>,
    name: Option<String>,
    namespace: Option<String>,
    operation: Operation,
    #[serde(default)]
    user_info: UserInfo,
    #[serde(default)]
    pub(super) object: Option<Value>,
    old_object: Option<Value>,
    dry_run: Option<bool>,
    options: Option<Value>,
}

/// Texts for the client and the audit log, which handlers add.
#[derive(Debug, Default)]
pub(super) struct Notes {
    pub(super) warnings: Vec<String>,
    pub(super) audit_annotations: BTreeMap<String, String>,
}

/// A request of the API server to admit an operation. A handle: its clones refer to the same request.
#[doc(alias = "admission.Request")]
#[derive(Clone)]
pub struct Admission {
    request: Arc<AdmissionRequest>,
    /// The object, with the changes of the handlers before this one.
    object: Option<Arc<Value>>,
    pub(super) notes: Arc<Mutex<Notes>>,
}

impl Admission {
    pub(super) fn new(mut request: AdmissionRequest) -> Self {
        let object = request.object.take().map(Arc::new);
        Self { request: Arc::new(request), object, notes: Arc::default() }
    }

    /// Returns the request with a changed object, for the next handler.
    pub(super) fn with_object(&self, object: Value) -> Self {
        Self { object: Some(Arc::new(object)), ..self.clone() }
    }

    /// UID of the request; not of the object.
    #[must_use]
    pub fn uid(&self) -> &str {
        &self.request.uid
    }

    /// The operation.
    #[must_use]
    pub fn operation(&self) -> Operation {
        self.request.operation
    }

    /// Kind of the object, in the version that the webhook is registered for.
    #[must_use]
    pub fn kind(&self) -> &AdmissionKind {
        &self.request.kind
    }

    /// Resource of the request, in the version that the webhook is registered for.
    #[must_use]
    pub fn resource(&self) -> &AdmissionResource {
        &self.request.resource
    }

    /// Subresource of the request, such as `status`.
    #[must_use]
    pub fn subresource(&self) -> Option<&str> {
        self.request.sub_resource.as_deref().filter(|name| !name.is_empty())
    }

    /// Name of the object; empty if the API server will generate it.
    #[must_use]
    pub fn name(&self) -> &str {
        self.request.name.as_deref().unwrap_or_default()
    }

    /// Namespace of the object; `None` for cluster-scoped kinds.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.request.namespace.as_deref().filter(|name| !name.is_empty())
    }

    /// User of the request to the API server.
    #[must_use]
    pub fn user(&self) -> &UserInfo {
        &self.request.user_info
    }

    /// Returns whether the request is a dry run, which stores nothing. A webhook must then cause no side effects.
    #[must_use]
    pub fn is_dry_run(&self) -> bool {
        self.request.dry_run.unwrap_or(false)
    }

    /// Options of the operation, such as `DeleteOptions`.
    #[must_use]
    pub fn options(&self) -> Option<&Value> {
        self.request.options.as_ref()
    }

    /// The object as the API server sent it, with the changes of mutating handlers that ran before. `None` for deletions.
    #[must_use]
    pub fn raw_object(&self) -> Option<&Value> {
        self.object.as_deref()
    }

    /// The existing object, for updates and deletions.
    #[must_use]
    pub fn raw_old_object(&self) -> Option<&Value> {
        self.request.old_object.as_ref()
    }

    /// Decodes the object.
    ///
    /// # Errors
    ///
    /// The request has no object, or one that is not a `K`. The client receives status 400.
    pub fn object<K: StaticObject>(&self) -> Result<K, Rejection> {
        decode(self.raw_object(), "object")
    }

    /// Decodes the existing object of an update or deletion.
    ///
    /// # Errors
    ///
    /// The request has no old object, or one that is not a `K`. The client receives status 400.
    pub fn old_object<K: StaticObject>(&self) -> Result<K, Rejection> {
        decode(self.raw_old_object(), "old object")
    }

    /// Returns the request's object with the difference between `before` and `after` applied to it, as the result of a mutating
    /// handler. Fields that `K` does not know are kept.
    ///
    /// # Errors
    ///
    /// One of the objects cannot be encoded as JSON.
    pub fn changed<K: StaticObject>(&self, before: &K, after: &K) -> Result<Option<Value>, Rejection> {
        let (before, after) = (serde_json::to_value(before)?, serde_json::to_value(after)?);
        Ok(self.raw_object().filter(|_| before != after).map(|raw| typed_change::apply(raw, &before, &after)))
    }

    /// Adds a warning to the response, which `kubectl` prints. Keep it below 120 characters: the API server cuts longer ones,
    /// and drops warnings beyond a total of 4 KiB.
    pub fn warn(&self, warning: impl Into<String>) {
        self.notes.lock().warnings.push(warning.into());
    }

    /// Adds an annotation to the audit event of the request. The API server prefixes the key with the webhook's name.
    pub fn audit_annotation(&self, key: impl Into<String>, value: impl Into<String>) {
        self.notes.lock().audit_annotations.insert(key.into(), value.into());
    }
}

fn decode<K: StaticObject>(object: Option<&Value>, role: &str) -> Result<K, Rejection> {
    let kind = K::kind(&());
    let object = object.ok_or_else(|| Rejection::bad_request(format!("the request has no {role}")))?;
    K::deserialize(object)
        .map_err(|error| Rejection::bad_request(format!("the {role} cannot be decoded as {kind}: {error}")))
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission")
            .field("uid", &self.request.uid)
            .field("operation", &self.request.operation)
            .field("kind", &self.request.kind)
            .field("namespace", &self.request.namespace)
            .field("name", &self.request.name)
            .finish_non_exhaustive()
    }
}
