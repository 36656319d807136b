//! The trait for the rules of one builtin kind, and the steps that writes of all builtin kinds share.

use std::fmt;

use kube_apimachinery::go_struct;
use kube_apimachinery::status::{ApiError, FieldError};
use serde_json::Value;

use super::shared::pod_spec;
use crate::kind::registry::ServedKind;
use crate::kind::resource::Resource;
use crate::kind::{Allocator, Strategy, WriteContext};

/// Rules in which a builtin kind differs from a plain one. The default methods add no rule.
///
/// A blanket implementation makes every implementor a [`Strategy`] and adds the shared steps. A kind with other steps for deletions, such
/// as the namespace, implements `Strategy` itself.
pub(super) trait BuiltinKind: fmt::Debug + Send + Sync {
    /// Sets defaults in an object that already has all fields of its Go type. Idempotent.
    fn default(&self, object: &mut Value) {
        let _ = object;
    }

    /// Returns the error of the conversion to Go's internal type. Some conversions parse annotations and fail on invalid ones.
    fn conversion_error(&self, object: &Value) -> Option<String> {
        let _ = object;
        None
    }

    /// Returns a sent object in the form of which its empty lists and maps are compared, if that differs from the object.
    fn converted_form(&self, object: &Value) -> Option<Value> {
        let _ = object;
        None
    }

    /// Sets the defaults that kube-apiserver first sets when it reads the stored object. A new object gets them just before it is stored,
    /// after it was prepared and validated. Returns whether the object lacked any of them.
    fn default_stored(&self, object: &mut Value) -> bool {
        let _ = object;
        false
    }

    /// Converts an object from the version of `resource` to the stored version.
    fn convert_to_storage(&self, resource: &Resource, object: &mut Value) {
        let _ = (resource, object);
    }

    /// Reverses [`convert_to_storage`](Self::convert_to_storage).
    fn convert_from_storage(&self, resource: &Resource, object: &mut Value) {
        let _ = (resource, object);
    }

    /// Whether the kind needs [`allocate`](Self::allocate).
    fn allocates(&self) -> bool {
        false
    }

    /// Allocates the addresses and ports that an object needs, before the object is prepared. `old` is `None` for a new object.
    fn allocate(
        &self,
        allocator: &mut dyn Allocator,
        old: Option<&Value>,
        object: &mut Value,
    ) -> Result<(), ApiError> {
        let _ = (allocator, old, object);
        Ok(())
    }

    /// Sets the fields of a new object that only the server sets. The status has been reset before, unless the kind keeps it.
    fn prepare_create(&self, context: &WriteContext<'_>, object: &mut Value) {
        let _ = (context, object);
    }

    /// Sets the fields of an object's new state that only the server sets, and restores fields that may not change.
    fn prepare_update(&self, context: &WriteContext<'_>, old: &Value, new: &mut Value) {
        let _ = (context, old, new);
    }

    /// Like [`prepare_update`](Self::prepare_update), but for an update through a subresource.
    fn prepare_subresource(
        &self,
        context: &WriteContext<'_>,
        subresource: &str,
        old: &Value,
        new: &mut Value,
    ) {
        let _ = (context, subresource, old, new);
    }

    /// Returns the path of the pod spec in objects of the kind.
    fn pod_spec(&self) -> Option<&'static str> {
        None
    }

    /// Validates the parts of a new object whose errors come before those of its metadata.
    fn validate_before_metadata(&self, resource: &Resource, object: &Value) -> Vec<FieldError> {
        let _ = (resource, object);
        Vec::new()
    }

    /// Whether metadata of a new object are validated only if the rest of the object is valid.
    fn validates_metadata_last(&self, resource: &Resource) -> bool {
        let _ = resource;
        false
    }

    /// Validates a new object, or the new state of `old`.
    fn validate(&self, resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let _ = (resource, new, old);
        Vec::new()
    }

    /// Validates the new state of an object after an update through a subresource.
    fn validate_subresource(&self, subresource: &str, old: &Value, new: &Value) -> Vec<FieldError> {
        let _ = (subresource, old, new);
        Vec::new()
    }

    /// Returns the warnings for an accepted object; `old` is its previous state, `None` for a new object.
    fn warnings(&self, resource: &Resource, object: &Value, old: Option<&Value>) -> Vec<String> {
        let _ = (resource, object, old);
        Vec::new()
    }

    /// Returns the warnings for the new state of an object after a write of `/status`.
    fn status_warnings(&self, object: &Value) -> Vec<String> {
        let _ = object;
        Vec::new()
    }

    /// Returns the warning for every request to a deprecated kind.
    fn deprecation(&self) -> Option<&'static str> {
        None
    }

    /// Whether a new object keeps the status that the client sent.
    fn keeps_new_status(&self) -> bool {
        false
    }

    /// Returns the metadata that a write of `/status` cannot change.
    fn status_keeps(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns the fields that a write through this endpoint leaves as they are. `None` stands for the usual ones: `status` for the object
    /// itself, `spec` for `/status`.
    fn resets(&self, subresource: &str) -> Option<&'static [&'static str]> {
        let _ = subresource;
        None
    }

    /// Returns the annotations that carry fields of Go's internal type which this version of the API lacks.
    fn version_annotations(&self, resource: &Resource) -> &'static [&'static str] {
        let _ = resource;
        &[]
    }

    /// Returns the API version of the stored form if table cells are computed from that form instead of the requested version.
    fn printed_version(&self, resource: &Resource) -> Option<&'static str> {
        let _ = resource;
        None
    }

    /// Returns the sort key of table rows; `None` keeps the order of the list.
    fn row_order(&self) -> Option<fn(&Value) -> i64> {
        None
    }

    /// Whether creates and updates record the managers of fields.
    fn tracks_fields(&self) -> bool {
        true
    }

    /// Whether comparisons of two states distinguish an empty list or map from an absent one. kube-apiserver compares a few kinds with
    /// `reflect.DeepEqual`, which does.
    fn compares_empty(&self) -> bool {
        false
    }

    /// Returns the grace period of a deletion in seconds; `None` for kinds without one.
    fn grace_period(&self, object: &Value, asked: Option<i64>) -> Option<i64> {
        let _ = (object, asked);
        None
    }

    /// Refuses to delete an object by its name, before it is read.
    fn admit_delete_by_name(&self, name: &str) -> Result<(), ApiError> {
        let _ = name;
        Ok(())
    }

    /// Whether objects of the kind can have dependents. Deletions of others have no propagation policy, and drop its finalizers.
    fn has_dependents(&self) -> bool {
        true
    }

    /// Whether dependents are orphaned by default when their owner is deleted.
    fn orphans_by_default(&self) -> bool {
        false
    }
}

/// A kind without rules of its own.
#[derive(Debug)]
pub(crate) struct Plain;

impl BuiltinKind for Plain {}

impl<K: BuiltinKind> Strategy for K {
    fn default(&self, served: &ServedKind, object: &mut Value) {
        conform(self, served, object);
    }

    fn conversion_error(&self, object: &Value) -> Option<String> {
        BuiltinKind::conversion_error(self, object)
    }

    fn converted_form(&self, object: &Value) -> Option<Value> {
        BuiltinKind::converted_form(self, object)
    }

    fn default_stored(&self, _served: &ServedKind, object: &mut Value) -> bool {
        BuiltinKind::default_stored(self, object)
    }

    fn convert_to_storage(&self, served: &ServedKind, object: &mut Value) {
        BuiltinKind::convert_to_storage(self, &served.resource, object);
    }

    fn convert_from_storage(&self, served: &ServedKind, object: &mut Value) {
        BuiltinKind::convert_from_storage(self, &served.resource, object);
    }

    fn allocates(&self, _served: &ServedKind) -> bool {
        BuiltinKind::allocates(self)
    }

    fn allocate(
        &self,
        allocator: &mut dyn Allocator,
        old: Option<&Value>,
        object: &mut Value,
    ) -> Result<(), ApiError> {
        BuiltinKind::allocate(self, allocator, old, object)
    }

    fn prepare_create(&self, served: &ServedKind, context: &WriteContext<'_>, object: &mut Value) {
        if served.resource.status
            && !self.keeps_new_status()
            && let Some(fields) = object.as_object_mut()
        {
            // Clients cannot set the status of a new object. The status becomes that of Go's zero value, with defaults.
            fields.remove("status");
            conform(self, served, object);
        }
        BuiltinKind::prepare_create(self, context, object);
        if let Some(path) = self.pod_spec() {
            // Like kube-apiserver's strategies, this comes before validation: a disabled field is dropped, not refused.
            pod_spec::drop_disabled(object, None, path);
        }
    }

    fn prepare_storage(&self, served: &ServedKind, object: &mut Value) {
        forget_empty(served, object);
    }

    fn prepare_update(
        &self,
        served: &ServedKind,
        context: &WriteContext<'_>,
        old: &Value,
        new: &mut Value,
        subresource: &str,
    ) {
        if subresource.is_empty() {
            // The kind's own rules compare the states. A field of a disabled feature must not count as a change there, for example of a
            // DaemonSet's template.
            if let Some(path) = self.pod_spec() {
                pod_spec::drop_disabled(new, Some(old), path);
            }
            BuiltinKind::prepare_update(self, context, old, new);
        } else {
            self.prepare_subresource(context, subresource, old, new);
        }
        // kube-apiserver stores builtin kinds as protobuf, which does not distinguish an empty list from an absent one. Empty lists are
        // removed before the comparison with the stored state, so an update that only adds one changes nothing.
        forget_empty(served, new);
    }

    fn validate_before_metadata(&self, served: &ServedKind, object: &Value) -> Vec<FieldError> {
        BuiltinKind::validate_before_metadata(self, &served.resource, object)
    }

    fn validates_metadata_last(&self, served: &ServedKind) -> bool {
        BuiltinKind::validates_metadata_last(self, &served.resource)
    }

    fn validate_create(&self, served: &ServedKind, object: &Value) -> Vec<FieldError> {
        self.validate(&served.resource, object, None)
    }

    fn validate_update(
        &self,
        served: &ServedKind,
        old: &Value,
        new: &Value,
        subresource: &str,
    ) -> Vec<FieldError> {
        if subresource.is_empty() {
            self.validate(&served.resource, new, Some(old))
        } else {
            self.validate_subresource(subresource, old, new)
        }
    }

    fn warnings(
        &self,
        served: &ServedKind,
        object: &Value,
        old: Option<&Value>,
        subresource: &str,
    ) -> Vec<String> {
        match subresource {
            // kube-apiserver handles a write of `/scale` as an update of the object itself.
            "" | "scale" => BuiltinKind::warnings(self, &served.resource, object, old),
            "status" => self.status_warnings(object),
            _ => Vec::new(),
        }
    }

    fn deprecation(&self, _served: &ServedKind) -> Option<&'static str> {
        BuiltinKind::deprecation(self)
    }

    fn status_keeps(&self, _served: &ServedKind) -> &'static [&'static str] {
        BuiltinKind::status_keeps(self)
    }

    fn resets(&self, _served: &ServedKind, subresource: &str) -> Option<&'static [&'static str]> {
        BuiltinKind::resets(self, subresource)
    }

    fn printed_version(&self, served: &ServedKind) -> Option<&'static str> {
        BuiltinKind::printed_version(self, &served.resource)
    }

    fn row_order(&self) -> Option<fn(&Value) -> i64> {
        BuiltinKind::row_order(self)
    }

    fn version_annotations(&self, served: &ServedKind) -> &'static [&'static str] {
        BuiltinKind::version_annotations(self, &served.resource)
    }

    fn tracks_fields(&self) -> bool {
        BuiltinKind::tracks_fields(self)
    }

    fn compares_empty(&self) -> bool {
        BuiltinKind::compares_empty(self)
    }

    fn grace_period(&self, _served: &ServedKind, object: &Value, asked: Option<i64>) -> Option<i64> {
        BuiltinKind::grace_period(self, object, asked)
    }

    fn admit_delete_by_name(&self, _served: &ServedKind, name: &str) -> Result<(), ApiError> {
        BuiltinKind::admit_delete_by_name(self, name)
    }

    fn has_dependents(&self) -> bool {
        BuiltinKind::has_dependents(self)
    }

    fn orphans_by_default(&self, _served: &ServedKind) -> bool {
        BuiltinKind::orphans_by_default(self)
    }
}

/// Converts a decoded object to the form of the kind's Go type in JSON, with defaults. Idempotent.
fn conform<K: BuiltinKind + ?Sized>(kind: &K, served: &ServedKind, object: &mut Value) {
    if let Some(message) = served.message {
        go_struct::complete(message, object);
        BuiltinKind::default(kind, object);
    }
}

/// Turns empty lists into null, except in metadata, as storage in protobuf does.
fn forget_empty(served: &ServedKind, object: &mut Value) {
    let metadata = object.get_mut("metadata").map(Value::take);
    if let Some(message) = served.message {
        go_struct::forget_empty(message, object);
    }
    if let (Some(metadata), Some(fields)) = (metadata, object.as_object_mut()) {
        fields.insert("metadata".to_owned(), metadata);
    }
}
