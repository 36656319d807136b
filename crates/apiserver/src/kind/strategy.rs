//! Strategy of a kind: its own rules for writes, which the request pipeline calls at fixed stages.
//!
//! The interface is that of Go's `rest.Strategy`. Each method defaults to the behavior of a plain kind, so that a kind only states the
//! rules in which it differs.

use std::cell::RefCell;
use std::fmt;
use std::net::Ipv4Addr;

use jiff::Timestamp;
use kube_apimachinery::go;
use kube_apimachinery::status::{ApiError, FieldError};
use serde_json::Value;

use super::registry::ServedKind;
use crate::user::UserInfo;

/// Context of a write: facts about the request on which a strategy may depend.
#[derive(Debug)]
pub(crate) struct WriteContext<'a> {
    /// User of the request.
    pub(crate) user: &'a UserInfo,
    /// Current time.
    pub(crate) now: Timestamp,
    /// Warnings about an object that its preparation changed.
    pub(crate) warnings: RefCell<Vec<String>>,
}

impl WriteContext<'_> {
    /// Returns the current time in the format of `metadata.creationTimestamp`.
    pub(crate) fn now_seconds(&self) -> String {
        go::format_seconds(self.now)
    }
}

/// Source of cluster IPs and node ports. It keeps what it gave until the write is committed or has failed.
pub(crate) trait Allocator {
    /// Takes an address: `wanted`, or a free one.
    fn address(&mut self, wanted: Option<Ipv4Addr>) -> Result<Ipv4Addr, Unallocated>;

    /// Takes a port: `wanted`, which may be any number of a request, or a free one.
    fn port(&mut self, wanted: Option<i64>) -> Result<i64, Unallocated>;
}

/// Reason why an address or a port is not available.
#[derive(Debug)]
pub(crate) struct Unallocated(pub(crate) String);

/// Metadata that a write of `/status` cannot change for kinds that use Go's `ResetObjectMetaForStatus`. Other changes are validated.
pub(crate) const STATUS_METADATA: [&str; 6] =
    ["labels", "annotations", "finalizers", "ownerReferences", "deletionTimestamp", "selfLink"];

/// Metadata that a write of `/status` cannot change, for kinds with a status that is separate from everything else.
pub(crate) const WHOLE_METADATA: [&str; 9] = [
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
    "generateName",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "uid",
    "selfLink",
];

/// Rules of a kind. `served` describes the kind in the version of the request; `subresource` is empty for the object itself.
pub(crate) trait Strategy: fmt::Debug + Send + Sync {
    /// Sets defaults beyond those of the schema. Idempotent.
    fn default(&self, served: &ServedKind, object: &mut Value) {
        let _ = (served, object);
    }

    /// Sets the defaults that a new object gets just before it is stored, after it was prepared and validated. kube-apiserver sets them
    /// when it reads the stored object. Returns whether the object lacked any of them.
    fn default_stored(&self, served: &ServedKind, object: &mut Value) -> bool {
        let _ = (served, object);
        false
    }

    /// Whether the kind itself is finalizing a deleted object, so that another deletion changes nothing.
    fn is_finalizing(&self, object: &Value) -> bool {
        let _ = object;
        false
    }

    /// Returns the error of the conversion of an object to Go's internal type, which reads some annotations.
    fn conversion_error(&self, object: &Value) -> Option<String> {
        let _ = object;
        None
    }

    /// Changes a sent object to the form that it has after Go's conversion to the internal type and back, of which its empty lists and maps
    /// are compared. Returns `None` if the form is that of the object.
    fn converted_form(&self, object: &Value) -> Option<Value> {
        let _ = object;
        None
    }

    /// Converts an object from the version of `served` to the stored version.
    fn convert_to_storage(&self, served: &ServedKind, object: &mut Value) {
        let _ = (served, object);
    }

    /// Reverses [`convert_to_storage`](Self::convert_to_storage). Neither changes `apiVersion` and `kind`.
    fn convert_from_storage(&self, served: &ServedKind, object: &mut Value) {
        let _ = (served, object);
    }

    /// Whether the kind needs [`allocate`](Self::allocate).
    fn allocates(&self, served: &ServedKind) -> bool {
        let _ = served;
        false
    }

    /// Gives an object the addresses and ports that it needs, before it is prepared; `old` is its former state, `None` for a new
    /// object. `managedFields` records no manager for them.
    fn allocate(
        &self,
        allocator: &mut dyn Allocator,
        old: Option<&Value>,
        object: &mut Value,
    ) -> Result<(), ApiError> {
        let _ = (allocator, old, object);
        Ok(())
    }

    /// Sets the fields of a new object that only the server sets. `managedFields` records no manager for them.
    fn prepare_create(&self, served: &ServedKind, context: &WriteContext<'_>, object: &mut Value) {
        let _ = (served, context, object);
    }

    /// Sets the fields of an object's new state that only the server sets, and restores fields that may not change.
    fn prepare_update(
        &self,
        served: &ServedKind,
        context: &WriteContext<'_>,
        old: &Value,
        new: &mut Value,
        subresource: &str,
    ) {
        let _ = (served, context, old, new, subresource);
    }

    /// Removes from an accepted new object, before its commit, parts that its stored form does not have.
    fn prepare_storage(&self, served: &ServedKind, object: &mut Value) {
        let _ = (served, object);
    }

    /// Validates the parts of a new object whose errors come before those of its metadata.
    fn validate_before_metadata(&self, served: &ServedKind, object: &Value) -> Vec<FieldError> {
        let _ = (served, object);
        Vec::new()
    }

    /// Whether the metadata of a new object are validated only if the rest of it is valid.
    fn validates_metadata_last(&self, served: &ServedKind) -> bool {
        let _ = served;
        false
    }

    /// Validates a new object, except for its metadata.
    fn validate_create(&self, served: &ServedKind, object: &Value) -> Vec<FieldError> {
        let _ = (served, object);
        Vec::new()
    }

    /// Validates the new state of an object, except for its metadata.
    fn validate_update(
        &self,
        served: &ServedKind,
        old: &Value,
        new: &Value,
        subresource: &str,
    ) -> Vec<FieldError> {
        let _ = (served, old, new, subresource);
        Vec::new()
    }

    /// Like [`validate_update`](Self::validate_update), but also reports warnings: errors about values that the update leaves unchanged.
    fn validate_change(
        &self,
        served: &ServedKind,
        old: &Value,
        new: &Value,
        subresource: &str,
        warn: &mut dyn FnMut(String),
    ) -> Vec<FieldError> {
        let _ = warn;
        self.validate_update(served, old, new, subresource)
    }

    /// Returns the warnings for an accepted object; `old` is its former state, `None` for a new object.
    fn warnings(
        &self,
        served: &ServedKind,
        object: &Value,
        old: Option<&Value>,
        subresource: &str,
    ) -> Vec<String> {
        let _ = (served, object, old, subresource);
        Vec::new()
    }

    /// Returns the warning for every request to a deprecated kind.
    fn deprecation(&self, served: &ServedKind) -> Option<&'static str> {
        let _ = served;
        None
    }

    /// Returns the fields of `metadata` that a write of `/status` cannot change; for most kinds there are none.
    fn status_keeps(&self, served: &ServedKind) -> &'static [&'static str] {
        let _ = served;
        &[]
    }

    /// Returns the fields that a write through this endpoint leaves as they are; `None` for those of [`ServedKind::reset_fields`].
    fn resets(&self, served: &ServedKind, subresource: &str) -> Option<&'static [&'static str]> {
        let _ = (served, subresource);
        None
    }

    /// Returns the annotations that stand for fields of Go's internal type. kube-apiserver derives responses with only the metadata from
    /// that type, so they lack these annotations.
    fn version_annotations(&self, served: &ServedKind) -> &'static [&'static str] {
        let _ = served;
        &[]
    }

    /// Returns the API version of the stored form if the cells of tables are computed from it, because this version lacks some fields.
    fn printed_version(&self, served: &ServedKind) -> Option<&'static str> {
        let _ = served;
        None
    }

    /// Returns the number by which the rows of a list are sorted; rows with equal numbers are sorted by name.
    fn row_order(&self) -> Option<fn(&Value) -> i64> {
        None
    }

    /// Whether creates and updates record the managers of fields.
    fn tracks_fields(&self) -> bool {
        true
    }

    /// Whether comparisons of two states distinguish empty lists and maps from absent ones, in validation and for the generation.
    fn compares_empty(&self) -> bool {
        false
    }

    /// Refuses to delete protected objects.
    fn admit_delete(&self, name: &str) -> Result<(), ApiError> {
        let _ = name;
        Ok(())
    }

    /// Refuses to delete an object by its name, before the object is read. Deleting its collection may still delete it.
    fn admit_delete_by_name(&self, served: &ServedKind, name: &str) -> Result<(), ApiError> {
        let _ = (served, name);
        Ok(())
    }

    /// Whether a deletion gets the UID of its object as a precondition. Kinds with a deletion of several writes need that: a later
    /// write must not delete a new object of the same name.
    fn pins_deleted_uid(&self) -> bool {
        false
    }

    /// Returns the grace period of a deletion in seconds; `None` for kinds without one.
    fn grace_period(&self, served: &ServedKind, object: &Value, asked: Option<i64>) -> Option<i64> {
        let _ = (served, object, asked);
        None
    }

    /// Whether a deleted object with empty `metadata.finalizers` can be removed now.
    fn deletable(&self, object: &Value) -> bool {
        let _ = object;
        true
    }

    /// Whether a deleted object is kept for a reason other than its finalizers.
    fn held(&self, object: &Value) -> bool {
        let _ = object;
        false
    }

    /// Whether [`mark_deleted`](Self::mark_deleted) writes all fields of the deletion when it begins.
    fn marks_itself(&self) -> bool {
        false
    }

    /// Sets the kind's own fields when a deletion begins; `first` is whether no earlier deletion began. `now` is the current time
    /// in the format of `metadata.deletionTimestamp`.
    fn mark_deleted(&self, now: &str, object: &mut Value, first: bool) {
        let _ = (now, object, first);
    }

    /// Whether objects of the kind can have dependents. Deletions of others have no propagation policy, and drop its finalizers.
    fn has_dependents(&self) -> bool {
        true
    }

    /// Whether a deletion of the object in its present state has a propagation policy. Without one, the object keeps its finalizers.
    fn propagates(&self, served: &ServedKind, object: &Value) -> bool {
        let _ = (served, object);
        true
    }

    /// Whether dependents are orphaned by default when their owner is deleted.
    fn orphans_by_default(&self, served: &ServedKind) -> bool {
        let _ = served;
        false
    }
}
