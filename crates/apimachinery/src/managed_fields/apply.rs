//! Server-side apply.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Writer;
use super::extract::fields_of;
use super::last_applied;
use super::managers::{ManagerId, Managers, Operation, Owned};
use super::merge_applied::merge;
use super::remove::reconcile;
use super::schema_check::{check, check_written};
use super::set::FieldSet;
use super::typed::Ty;
use super::unapplied::{prune, prune_across};
use super::update::{are_readable, created_form, record, remove_entries, strip, take};
use super::versions::{Comparisons, Schemas};
use crate::schema::Schema;
use crate::status::{ApiError, Cause};

/// Manager that owns the existing fields of an object without entries, after the first apply to it.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Treatment of applied fields that other managers own with another value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnConflict {
    /// The apply fails with 409, which lists the fields and their owners.
    Refuse,
    /// The applier becomes the owner, and the other managers lose the fields.
    Force,
}

/// Merges `applied` into `live` (`None`: a new object) and returns the result with its `managedFields`.
///
/// The result equals `live` if nothing changes. See [`track_update`](super::track_update) for `reset`.
///
/// # Errors
/// 400 if `applied` has `managedFields`. 409 if it changes fields that other managers own, unless `on_conflict` is
/// [`OnConflict::Force`]. 500 if it does not fit the schema: undeclared fields, duplicate keys, bytes that are not base64, and the like.
pub fn apply(
    schema: &Schema,
    live: Option<&Value>,
    applied: &Value,
    writer: &Writer<'_>,
    on_conflict: OnConflict,
    reset: &[&str],
) -> Result<Value, ApiError> {
    apply_and(schema, live, applied, writer, on_conflict, reset, |object| restore(schema, applied, object))
}

/// Like [`apply`], for a kind with different fields in its versions.
///
/// # Errors
/// Like [`apply`], and 500 if the object cannot be converted to the version of an entry.
pub fn apply_across(
    schemas: Schemas<'_>,
    live: Option<&Value>,
    applied: &Value,
    writer: &Writer<'_>,
    on_conflict: OnConflict,
    reset: &[&str],
) -> Result<Value, ApiError> {
    apply_in(schemas, live, applied, writer, on_conflict, reset, |object| {
        restore(schemas.own, applied, object)
    })
}

/// Like [`apply`]; `convert` turns the merged value, still without `managedFields`, into an object of the kind.
///
/// # Errors
/// Like [`apply`], and those of `convert`.
pub fn apply_and(
    schema: &Schema,
    live: Option<&Value>,
    applied: &Value,
    writer: &Writer<'_>,
    on_conflict: OnConflict,
    reset: &[&str],
    convert: impl FnOnce(&mut Value) -> Result<(), ApiError>,
) -> Result<Value, ApiError> {
    apply_in(Schemas::alike(schema), live, applied, writer, on_conflict, reset, convert)
}

fn apply_in(
    schemas: Schemas<'_>,
    live: Option<&Value>,
    applied: &Value,
    writer: &Writer<'_>,
    on_conflict: OnConflict,
    reset: &[&str],
    convert: impl FnOnce(&mut Value) -> Result<(), ApiError>,
) -> Result<Value, ApiError> {
    // kube-apiserver compares the decoded list with nil, so an unreadable value passes like an absent one.
    if are_readable(&applied["metadata"]["managedFields"]) {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    let ty = schemas.ty();
    let is_new = live.is_none();
    let mut base = live.cloned().unwrap_or_else(|| schemas.own.empty_object());
    let mut managers = Managers::decode(&base).unwrap_or_default();
    // Entries are no content: they would appear in the comparison as fields that changed.
    remove_entries(&mut base);
    if managers.is_empty() && !is_new {
        adopt_existing_fields(&mut managers, schemas, &base, writer, reset)?;
    }
    check_types(ty, applied)?;
    if let Some(why) = check_written(ty, &base).filter(|_| !is_new) {
        let live = describe(&base);
        return Err(ApiError::internal(format!("failed to create typed live object ({live}): {why}")));
    }
    let id = ManagerId::new(writer, Operation::Apply);
    let attempt = Attempt { schemas, base: &base, applied, id, writer, reset };
    // Only `kubectl` may get a second attempt, with force (see `last_applied`).
    let again = (writer.manager == last_applied::MANAGER).then(|| managers.clone());
    let outcome = match (attempt.run(managers, on_conflict)?, again) {
        (ApplyOutcome::Conflict(mut conflicts), Some(managers)) => {
            // Conflicts are reported without the fields that the annotation allows.
            let allowed = last_applied::agreed_fields(ty, &base, writer.api_version);
            conflicts.retain(|_, set| {
                set.subtract(&allowed);
                !set.is_empty()
            });
            if conflicts.is_empty() {
                attempt.run(managers, OnConflict::Force)?
            } else {
                ApplyOutcome::Conflict(conflicts)
            }
        }
        (outcome, _) => outcome,
    };
    let (mut object, managers) = match outcome {
        ApplyOutcome::Applied(object, managers) => (object, managers),
        ApplyOutcome::Conflict(conflicts) => return Err(conflict(&conflicts)),
    };
    convert(&mut object)?;
    if writer.manager == last_applied::MANAGER {
        last_applied::renew(&mut object, applied);
    }
    // The entries come last, so that neither the conversion nor the annotation touches them.
    managers.encode(&mut object);
    Ok(object)
}

/// Makes [`BEFORE_FIRST_APPLY`] the owner of all fields of an object without entries.
fn adopt_existing_fields(
    managers: &mut Managers,
    schemas: Schemas<'_>,
    live: &Value,
    writer: &Writer<'_>,
    reset: &[&str],
) -> Result<(), ApiError> {
    let writer = Writer { manager: BEFORE_FIRST_APPLY, ..*writer };
    let id = ManagerId::new(&writer, Operation::Update);
    if let Some(why) = check_written(schemas.ty(), live) {
        return Err(ApiError::internal(format!(
            "failed to create manager for existing fields: failed to convert new object ({}) to smd typed: {why}",
            describe(live)
        )));
    }
    // The form of a created object is compared with an empty one, so that all its fields appear as added.
    let empty = schemas.own.empty_object();
    let given = created_form(schemas.own, &empty, live);
    record(managers, schemas, &empty, &given, &id, &writer, reset)
}

fn check_types(ty: Ty<'_>, applied: &Value) -> Result<(), ApiError> {
    match check(ty, applied) {
        None => Ok(()),
        Some(error) => Err(ApiError::internal(format!(
            "failed to create typed patch object ({}): {error}",
            describe(applied)
        ))),
    }
}

/// Converts the merged object to the form of a builtin kind's Go type. Errors name `applied`.
fn restore(schema: &Schema, applied: &Value, object: &mut Value) -> Result<(), ApiError> {
    if schema.is_custom() {
        return Ok(());
    }
    schema.restore(object).map_err(|why| {
        let what = describe(applied);
        let kind = what.split_once("; ").map_or("", |(_, kind)| kind);
        ApiError::internal(format!(
            "failed to convert new object ({what}) to proper version: unable to convert unstructured object to {kind}: {why}"
        ))
    })
}

/// Conflicting fields by their owner.
type Conflicts = BTreeMap<ManagerId, FieldSet>;

/// Result of an apply.
enum ApplyOutcome {
    /// The new object, and the entries that it gets.
    Applied(Value, Managers),
    /// Other managers own applied fields with another value.
    Conflict(Conflicts),
}

/// An apply that may be repeated with other entries.
struct Attempt<'a> {
    schemas: Schemas<'a>,
    base: &'a Value,
    applied: &'a Value,
    id: ManagerId,
    writer: &'a Writer<'a>,
    reset: &'a [&'a str],
}

impl Attempt<'_> {
    fn run(&self, mut managers: Managers, on_conflict: OnConflict) -> Result<ApplyOutcome, ApiError> {
        let ty = self.schemas.ty();
        // Entries may have been written under another schema.
        managers.adjust(|_, owned| reconcile(self.schemas.ty_in(&owned.api_version), &mut owned.set));
        let mut merged = self.base.clone();
        merge(ty, &mut merged, self.applied)
            .map_err(|error| ApiError::internal(format!("failed to merge config: {error}")))?;

        let mut set = fields_of(ty, self.applied);
        // This endpoint does not write these fields, so the applier does not own them.
        set.remove_paths(self.reset);
        // The old time stays until the end of the call, so that an apply without changes keeps it.
        let last = managers.get(&self.id).cloned();
        let owned = Owned {
            set,
            api_version: self.writer.api_version.to_owned(),
            time: last.as_ref().and_then(|last| last.time.clone()),
        };
        managers.put(self.id.clone(), owned);
        // Pruning comes before the comparison, so that pruned fields count as removed.
        let mut new = self.without_unapplied(merged, last.as_ref(), &managers)?;

        let version = self.writer.api_version;
        self.schemas.drop_unknown(&mut managers, &self.id, version)?;
        let comparisons = Comparisons::new(self.schemas, self.base, &new, &managers, version, self.reset)?;
        let conflicts = self.conflicts(&comparisons, &managers);
        if on_conflict == OnConflict::Refuse && !conflicts.is_empty() {
            return Ok(ApplyOutcome::Conflict(conflicts));
        }
        // If the apply is forced, the other managers lose the changed fields.
        take(&mut managers, &comparisons, Some(&self.id));
        if let Some(owned) = managers.get_mut(&self.id) {
            // As in kube-apiserver, only the entry of the writer is stripped.
            strip(&mut owned.set);
            if new != *self.base {
                owned.time = Some(self.writer.now.to_owned());
            }
        }
        managers.drop_empty();
        // Objects and lists that lost their last entry are null now. A custom object keeps these nulls, but readers see its metadata with the
        // types of ObjectMeta, thus without nulls.
        if !self.schemas.own.is_custom() {
            drop_emptied(&mut new, self.base);
        }
        Ok(ApplyOutcome::Applied(new, managers))
    }

    /// Removes the fields from the merged object that the applier applied the last time, does not apply now, and that no manager owns.
    fn without_unapplied(
        &self,
        merged: Value,
        last: Option<&Owned>,
        managers: &Managers,
    ) -> Result<Value, ApiError> {
        match last {
            Some(last) if self.are_alike(last, managers) => {
                let own = managers.get(&self.id).map(|owned| &owned.set);
                Ok(prune(self.schemas.ty(), merged, &last.set, own, managers))
            }
            // Fields of an unknown version stay.
            Some(last)
                if !last.set.is_empty() && self.schemas.knows(&last.api_version, self.writer.api_version) =>
            {
                prune_across(self.schemas, &merged, last, managers)
            }
            _ => Ok(merged),
        }
    }

    /// Returns the changed fields that other managers own.
    fn conflicts(&self, comparisons: &Comparisons, managers: &Managers) -> Conflicts {
        let changed = comparisons.own.changed();
        let disputed = |owned: &Owned| match comparisons.other(&owned.api_version) {
            Some(other) => owned.set.intersection(&other.changed()),
            None => owned.set.intersection(&changed),
        };
        let others = managers.iter().filter(|(id, _)| **id != self.id);
        others.map(|(id, owned)| (id.clone(), disputed(owned))).filter(|(_, set)| !set.is_empty()).collect()
    }

    /// Whether fields can be pruned without conversions: all entries have the written version, or all versions have the same fields.
    fn are_alike(&self, last: &Owned, managers: &Managers) -> bool {
        let is_own = |owned: &Owned| owned.api_version == self.writer.api_version;
        self.schemas.others.is_none() || is_own(last) && managers.iter().all(|(_, owned)| is_own(owned))
    }
}

/// Drops objects and lists that became null because their last entry was removed.
fn drop_emptied(new: &mut Value, base: &Value) {
    let (Value::Object(new), Value::Object(base)) = (new, base) else {
        return;
    };
    new.retain(|name, value| {
        let before = base.get(name);
        let emptied = value.is_null() && before.is_some_and(|before| before.is_object() || before.is_array());
        if let Some(before) = before {
            drop_emptied(value, before);
        }
        !emptied
    });
}

fn conflict(conflicts: &Conflicts) -> ApiError {
    let mut causes = Vec::new();
    let mut lines = Vec::new();
    for (id, set) in conflicts {
        let manager = id.describe();
        lines.push(format!("conflicts with {manager}:"));
        for path in set.paths() {
            lines.push(format!("- {path}"));
            causes.push(Cause {
                reason: "FieldManagerConflict",
                message: format!("conflict with {manager}"),
                field: path,
            });
        }
    }
    let text = match &*causes {
        [one] => format!("Apply failed with 1 conflict: {}: {}", one.message, one.field),
        many => format!("Apply failed with {} conflicts: {}", many.len(), lines.join("\n")),
    };
    ApiError::new(409, "Conflict", text).with_causes(causes)
}

/// Formats as `ns/name; apps/v1, Kind=Deployment`.
#[must_use]
pub fn describe(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (namespace, name) = (text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"]));
    let api_version = text(&object["apiVersion"]);
    // Go prints the group and the version with a slash between them. The group of the core API is empty.
    let slash = if api_version.contains('/') { "" } else { "/" };
    format!("{namespace}/{name}; {slash}{api_version}, Kind={}", text(&object["kind"]))
}
