//! Attributes of an operation, on which plugins base their decisions.

use kube_apimachinery::decode;
use kube_apimachinery::schema;
use kube_apimachinery::status::ApiError;
use serde_json::Value;

use crate::api::authorization::Permissions;
use crate::kind::registry::ServedKind;
use crate::request::query::{DeleteOptions, WriteOptions};
use crate::response::Warnings;
use crate::state::ClusterState;
use crate::user::UserInfo;

/// Operation on an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
    /// A connection to a node, a pod or a service, such as `pods/exec`.
    Connect,
}

/// Group, version and kind of the object under review.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ObjectKind<'a> {
    /// API group; empty for the core group.
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) kind: &'a str,
}

impl<'a> ObjectKind<'a> {
    /// Returns the kind of a resource.
    pub(crate) fn of(served: &'a ServedKind) -> Self {
        let resource = &served.resource;
        Self { group: &resource.group, version: &resource.version, kind: &resource.kind }
    }

    /// Splits an `apiVersion`, such as `apps/v1`.
    pub(crate) fn new(api_version: &'a str, kind: &'a str) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self { group, version, kind }
    }

    /// Returns the kind's `apiVersion`, such as `v1` or `apps/v1`.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

/// Whether this is the resource `namespaces`. For admission, a namespace object is in the namespace of its own name.
pub(crate) fn is_namespace(served: &ServedKind) -> bool {
    let storage = served.storage();
    storage.group.is_empty() && storage.plural == "namespaces"
}

/// Options of the operation. A patch has the options of an update, or of a create if it creates the object.
#[derive(Debug, Clone, Copy)]
pub(crate) enum OperationOptions<'a> {
    Create(&'a WriteOptions),
    Update(&'a WriteOptions),
    Delete(&'a DeleteOptions),
    /// A connection has no options: its parameters are the object under review.
    Connect,
}

impl OperationOptions<'_> {
    pub(crate) fn operation(&self) -> Operation {
        match self {
            Self::Create(_) => Operation::Create,
            Self::Update(_) => Operation::Update,
            Self::Delete(_) => Operation::Delete,
            Self::Connect => Operation::Connect,
        }
    }

    pub(crate) fn dry_run(&self) -> bool {
        match self {
            Self::Create(options) | Self::Update(options) => options.dry_run,
            Self::Delete(options) => options.dry_run,
            Self::Connect => false,
        }
    }
}

/// Attributes of an operation.
#[derive(Clone, Copy)]
pub(crate) struct Attributes<'a> {
    pub(crate) cluster: &'a ClusterState,
    pub(crate) operation: Operation,
    /// Kind and resource in the version of the request.
    pub(crate) served: &'a ServedKind,
    /// Subresource of the request; empty for the object itself.
    pub(crate) subresource: &'a str,
    /// Kind of the object under review. It differs from the kind of the resource for a `Scale`, a `Binding`, an `Eviction`, a
    /// `TokenRequest` and the parameters of a connection.
    pub(crate) kind: ObjectKind<'a>,
    /// Namespace of the object; for a namespace its own name.
    pub(crate) namespace: &'a str,
    /// Name of the object. Empty in mutating admission of a create with a generated name, and for the objects of a deleted collection.
    pub(crate) name: &'a str,
    /// User of the request.
    pub(crate) user: &'a UserInfo,
    /// Whether the write is a dry run, which is not committed.
    pub(crate) dry_run: bool,
    /// Options of the request; [`options`](Self::options) returns them in the form that webhooks receive.
    pub(crate) operation_options: OperationOptions<'a>,
    /// The object before an update or a deletion, of the kind of the object under review.
    pub(crate) old: Option<&'a Value>,
    /// Answers whether the user may perform actions other than the request.
    pub(crate) permissions: &'a Permissions,
    /// Warnings of the request; see [`warn`](Self::warn).
    pub(crate) warnings: &'a Warnings,
}

impl<'a> Attributes<'a> {
    /// Returns the attributes for an object of this name.
    pub(crate) fn named<'b>(self, name: &'b str) -> Attributes<'b>
    where
        'a: 'b,
    {
        let namespace = if is_namespace(self.served) { name } else { self.namespace };
        Attributes { namespace, name, ..self }
    }

    /// Returns `CreateOptions`, `UpdateOptions` or `DeleteOptions`; `None` for a connection.
    pub(crate) fn options(&self) -> Option<Value> {
        match self.operation_options {
            OperationOptions::Create(options) => Some(options.to_value("CreateOptions")),
            OperationOptions::Update(options) => Some(options.to_value("UpdateOptions")),
            OperationOptions::Delete(options) => Some(options.to_value()),
            OperationOptions::Connect => None,
        }
    }

    /// Adds a warning, which the client receives even if the request is refused.
    pub(crate) fn warn(&self, text: impl Into<String>) {
        self.warnings.add(text.into());
    }

    /// Adds an annotation to the audit event of the request. As in kube-apiserver, the first value of a key counts.
    pub(crate) fn annotate(&self, key: &str, value: &str) {
        self.permissions.record_annotation(key, value);
    }

    /// Whether the object under review has the kind of the resource.
    pub(crate) fn is_of_resource(&self) -> bool {
        self.kind == ObjectKind::of(self.served)
    }

    /// Completes an object that a webhook has changed: checks that it can be decoded, removes unknown fields, and sets defaults. Custom
    /// objects keep unknown fields until their commit.
    ///
    /// # Errors
    /// 500 with the decoder's message.
    pub(crate) fn conform(&self, object: &mut Value) -> Result<(), ApiError> {
        let refused = |why: String| ApiError::internal_error(&why);
        if self.is_of_resource() {
            if self.served.is_custom() {
                // Metadata and nulls stay as the webhook wrote them. Validation refuses a null that is not allowed, and readers see metadata
                // with the types of ObjectMeta.
                decode::normalize_numbers(object);
                self.served.schema.default_applied(object);
            } else {
                self.served.decode_errors(object, &[]).map_err(refused)?;
                self.served.conform(object);
                // Go omits the list if it is empty.
                if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut)
                    && metadata.get("managedFields").and_then(Value::as_array).is_some_and(Vec::is_empty)
                {
                    metadata.remove("managedFields");
                }
            }
            return Ok(());
        }
        let (api_version, kind) = (self.kind.api_version(), self.kind.kind);
        let Some(schema) = schema::schema_of_kind(&api_version, kind) else {
            // The parameters of a connection have no schema. Their readers ignore fields of another type.
            decode::normalize_numbers(object);
            return Ok(());
        };
        if let Some(why) = schema.decode_error(object, &[]) {
            return Err(refused(why));
        }
        decode::normalize_numbers(object);
        schema.prune(object);
        schema.default(object);
        Ok(())
    }

    /// Logs why a plugin refused the operation.
    pub(super) fn log_refusal(&self, error: &ApiError) {
        tracing::debug!(
            operation = ?self.operation,
            resource = self.served.resource.plural,
            subresource = self.subresource,
            name = self.name,
            user = self.user.name,
            dry_run = self.dry_run,
            reason = error.message(),
            "request refused by admission"
        );
    }
}
