//! Ownership after a create, update or patch.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::Writer;
use super::managers::{ManagerId, Managers, Operation};
use super::remove::reconcile;
use super::schema_check::check_written;
use super::set::{FieldSet, PathElement, SetNode};
use super::versions::{Comparisons, Schemas};
use crate::go::{self, Layout};
use crate::schema::Schema;
use crate::status::ApiError;

/// Metadata fields that no manager owns.
const NEVER_OWNED: [&str; 9] = [
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "clusterName",
    "generation",
    "managedFields",
    "resourceVersion",
];

/// Makes the writer the owner of the differences between `old` (`None` on create) and `new`, and rewrites
/// `new.metadata.managedFields`.
///
/// Entries that the client sends in `new` are accepted, except through a subresource; if they are missing or malformed,
/// those of `old` apply. `[{}]` and `[]` discard all entries: from then on nothing is tracked until the next apply.
///
/// `reset` names fields that this endpoint ignores, such as `status` or `metadata.labels`; they are not tracked.
///
/// If the object does not fit its schema, it has no `managedFields` afterwards.
pub fn track_update(
    schema: &Schema,
    old: Option<&Value>,
    new: &mut Value,
    writer: &Writer<'_>,
    reset: &[&str],
) {
    // After an error `new` has no entries, as documented.
    let _ = track_update_across(Schemas::alike(schema), old, new, writer, reset);
}

/// Like [`track_update`], for a kind with different fields in its versions.
///
/// # Errors
/// 500 if the object does not fit its schema, such as an element of a keyed list without its key, or cannot be converted to the version of
/// an entry. `new` has no `managedFields` then.
pub fn track_update_across(
    schemas: Schemas<'_>,
    old: Option<&Value>,
    new: &mut Value,
    writer: &Writer<'_>,
    reset: &[&str],
) -> Result<(), ApiError> {
    let schema = schemas.own;
    let mut managers = entries_before(old, new, writer);
    remove_entries(new);
    // kube-apiserver tracks updates only from the creation or the first apply on.
    if old.is_some() && managers.is_empty() {
        return Ok(());
    }
    let is_creation = old.is_none();
    let without_entries;
    let old = match old {
        // Converted to other versions without entries, like `new`.
        Some(old) if schemas.others.is_some() => {
            let mut old = old.clone();
            remove_entries(&mut old);
            without_entries = old;
            &without_entries
        }
        Some(old) => old,
        None => {
            without_entries = schema.empty_object();
            &without_entries
        }
    };
    // Sets may have been written under another schema.
    managers.adjust(|_, owned| reconcile(schemas.ty_in(&owned.api_version), &mut owned.set));
    let before = owned_form(schema, old);
    let given = if is_creation { created_form(schema, old, new) } else { owned_form(schema, new) };
    if let Some(why) = check_written(schemas.ty(), &given) {
        return Err(ApiError::internal(format!("failed to convert new object: {why}")));
    }
    if let Some(why) = check_written(schemas.ty(), &before) {
        return Err(ApiError::internal(format!("failed to convert live object: {why}")));
    }
    // A field that becomes null is a change, though, and the writer owns it.
    let became_null: Vec<&String> = new
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, value)| !schema.is_custom() && value.is_null() && !old[*name].is_null())
        .map(|(name, _)| name)
        .collect();
    let id = ManagerId::new(writer, Operation::Update);
    schemas.drop_unknown(&mut managers, &id, writer.api_version)?;
    let comparisons = Comparisons::new(schemas, &before, &given, &managers, writer.api_version, reset)?;
    record_changes(&mut managers, comparisons, &became_null, &id, writer);
    managers.encode(new);
    Ok(())
}

/// Returns the part of an object that can have owners. Builtin kinds write some absent fields as null, such as the times of an Event, and a
/// null has no owner.
fn owned_form<'a>(schema: &Schema, object: &'a Value) -> Cow<'a, Value> {
    let stripped = if schema.is_custom() { None } else { without_nulls(object) };
    stripped.map_or(Cow::Borrowed(object), Cow::Owned)
}

/// Like [`owned_form`], for a new object: the creator does not own nulls inside its structs either. `empty` is an object of the kind without
/// content.
pub(super) fn created_form<'a>(schema: &Schema, empty: &Value, object: &'a Value) -> Cow<'a, Value> {
    let owned = owned_form(schema, object);
    let stripped = if schema.is_custom() { None } else { without_new_nulls(empty, &owned) };
    stripped.map_or(owned, Cow::Owned)
}

/// Returns an object without its null fields; `None` if it has none.
fn without_nulls(object: &Value) -> Option<Value> {
    let fields = object.as_object().filter(|fields| fields.values().any(Value::is_null))?;
    let given = fields.iter().filter(|(_, value)| !value.is_null());
    Some(Value::Object(given.map(|(name, value)| (name.clone(), value.clone())).collect()))
}

/// Returns a new object without the null fields that `old`, an empty object, lacks; `None` if there are none. Go writes these fields even if
/// they are empty, so they do not count as a change. Elements of lists keep their nulls, and so do structs that an empty object lacks.
fn without_new_nulls(old: &Value, new: &Value) -> Option<Value> {
    let fields = new.as_object().filter(|_| has_new_nulls(old, new))?;
    let given = fields.iter().filter(|(name, value)| !value.is_null() || old.get(name).is_some());
    let stripped = given.map(|(name, value)| {
        let stripped =
            old.get(name).filter(|old| old.is_object()).and_then(|old| without_new_nulls(old, value));
        (name.clone(), stripped.unwrap_or_else(|| value.clone()))
    });
    Some(Value::Object(stripped.collect()))
}

fn has_new_nulls(old: &Value, new: &Value) -> bool {
    let is_new = |name: &str, value: &Value| match old.get(name) {
        None => value.is_null(),
        Some(old) => old.is_object() && has_new_nulls(old, value),
    };
    new.as_object().is_some_and(|fields| fields.iter().any(|(name, value)| is_new(name, value)))
}

/// Makes `id` the owner of the differences between `old` and `new`, and removes these from all other managers.
///
/// # Errors
/// 500 if the object cannot be converted to the version of an entry.
pub(super) fn record(
    managers: &mut Managers,
    schemas: Schemas<'_>,
    old: &Value,
    new: &Value,
    id: &ManagerId,
    writer: &Writer<'_>,
    reset: &[&str],
) -> Result<(), ApiError> {
    schemas.drop_unknown(managers, id, writer.api_version)?;
    let comparisons = Comparisons::new(schemas, old, new, managers, writer.api_version, reset)?;
    record_changes(managers, comparisons, &[], id, writer);
    Ok(())
}

fn record_changes(
    managers: &mut Managers,
    comparisons: Comparisons,
    became_null: &[&String],
    id: &ManagerId,
    writer: &Writer<'_>,
) {
    // The changes are removed from the writer's entry too, which gets them back below.
    take(managers, &comparisons, None);
    let mut set = comparisons.own.into_changed();
    for name in became_null {
        set.insert(PathElement::Field((*name).clone()), SetNode::member());
    }
    strip(&mut set);
    // A write without tracked changes neither adds an entry nor renews a time.
    if !set.is_empty() {
        // The entry is changed in place, because most writers have one already, which has many more fields than a change.
        let mut own = managers.remove(id).unwrap_or_default();
        own.set.merge(set);
        (own.api_version, own.time) = (writer.api_version.to_owned(), Some(writer.now.to_owned()));
        managers.put(id.clone(), own);
    }
    managers.cap();
}

/// Removes changed and removed fields from all managers but `except`.
pub(super) fn take(managers: &mut Managers, comparisons: &Comparisons, except: Option<&ManagerId>) {
    managers.adjust(|id, owned| {
        if Some(id) != except {
            let comparison = comparisons.of(&owned.api_version);
            owned.set.subtract(&comparison.modified);
            owned.set.subtract(&comparison.added);
            owned.set.subtract(&comparison.removed);
        }
    });
}

/// Removes fields that no manager owns.
pub(super) fn strip(set: &mut FieldSet) {
    use super::set::PathElement::Field;
    set.retain(|element, node| {
        let Field(name) = element else {
            return;
        };
        match name.as_str() {
            "apiVersion" | "kind" => node.member = false,
            "metadata" => {
                node.member = false;
                node.below.retain(|element, node| {
                    if let Field(name) = element
                        && NEVER_OWNED.contains(&name.as_str())
                    {
                        node.member = false;
                    }
                });
            }
            _ => {}
        }
    });
}

fn entries_before(old: Option<&Value>, new: &Value, writer: &Writer<'_>) -> Managers {
    let of_old = || old.and_then(|old| Managers::decode(old).ok()).unwrap_or_default();
    // Entries in the body count only at the main endpoint.
    if !writer.subresource.is_empty() {
        return of_old();
    }
    if is_reset(&new["metadata"]["managedFields"]) {
        return Managers::default();
    }
    match Managers::decode(new) {
        Ok(brought) if !brought.is_empty() => brought,
        // A client that does not know the field sends none. Its update must not discard the entries.
        _ => of_old(),
    }
}

fn is_reset(entries: &Value) -> bool {
    // Go compares the decoded entry with an empty struct.
    let is_zero = |field: &Value| field.is_null() || field == "";
    match entries.as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([Value::Object(entry)]) => entry.values().all(is_zero),
        _ => false,
    }
}

/// Checks that the entries of an object can be decoded.
///
/// # Errors
/// The reason why an entry is invalid.
pub fn validate(object: &Value) -> Result<(), String> {
    Managers::decode(object).map(drop)
}

/// Whether a value is a list of entries as Go reads them. It treats other values as absent.
#[must_use]
pub fn are_readable(entries: &Value) -> bool {
    let is_text = |value: &Value| value.is_null() || value.is_string();
    let is_entry = |entry: &Value| {
        let texts = ["manager", "operation", "apiVersion", "fieldsType", "subresource"];
        let time = &entry["time"];
        entry.is_object()
            && texts.iter().all(|field| is_text(&entry[*field]))
            && (time.is_null() || time.as_str().is_some_and(|time| go::time(time, Layout::Seconds).is_ok()))
    };
    entries.as_array().is_some_and(|entries| entries.iter().all(is_entry))
}

/// Removes `metadata.managedFields`.
pub(super) fn remove_entries(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

/// Restores `old` if `new` differs from it only in the times of `managedFields`, so that the write changes nothing. The entries are compared
/// in their order, which depends on their times.
pub fn keep_times_of_no_op(old: &Value, new: &mut Value) {
    let entries = |object: &Value| match &object["metadata"]["managedFields"] {
        Value::Array(entries) => {
            let mut entries = entries.clone();
            for entry in entries.iter_mut().filter_map(Value::as_object_mut) {
                entry.remove("time");
            }
            entries
        }
        _ => Vec::new(),
    };
    let same_fields = |a: &Map<String, Value>, b: &Map<String, Value>, except: &str| {
        a.iter().filter(|(name, _)| *name != except).eq(b.iter().filter(|(name, _)| *name != except))
    };
    let (Value::Object(old_fields), Value::Object(new_fields)) = (old, &*new) else {
        return;
    };
    let same_metadata = match (&old["metadata"], &new["metadata"]) {
        (Value::Object(a), Value::Object(b)) => same_fields(a, b, "managedFields"),
        (a, b) => a == b,
    };
    // The cheap comparisons come first; the entries have to be copied.
    if same_metadata && same_fields(old_fields, new_fields, "metadata") && entries(old) == entries(new) {
        new.clone_from(old);
    }
}
