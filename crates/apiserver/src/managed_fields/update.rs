//! Ownership after a create, update or patch.

use serde_json::{Map, Value};

use super::Writer;
use super::compare::{Comparison, compare};
use super::managers::{Id, Managers, Operation, Owned};
use super::remove::reconcile;
use super::set::FieldSet;
use super::typed::Ty;
use crate::schema::Schema;

/// Fields that no manager owns.
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

/// Gives the writer what differs between `old` (`None` on create) and `new`, and rewrites `new.metadata.managedFields`.
///
/// Entries that `new` brings itself are believed, except through a subresource; if they are missing or malformed, those
/// of `old` count. `[{}]` and `[]` discard all entries: from then on nothing is tracked until the next apply.
///
/// `reset` names fields that this endpoint ignores, such as `status` or `metadata.labels`: they are not tracked.
pub(crate) fn track_update(
    schema: &Schema,
    old: Option<&Value>,
    new: &mut Value,
    writer: &Writer<'_>,
    reset: &[&str],
) {
    let mut managers = entries_before(old, new, writer);
    remove_entries(new);
    if old.is_some() && managers.is_empty() {
        return;
    }
    let empty;
    let old = match old {
        Some(old) => old,
        None => {
            empty = schema.empty_object();
            &empty
        }
    };
    let ty = Ty::Schema(schema.root());
    managers.adjust(|_, set| reconcile(ty, set));
    record(&mut managers, ty, old, new, &Id::new(writer, Operation::Update), writer, reset);
    managers.encode(new);
}

/// Gives `id` what differs between `old` and `new`, and takes it from all others.
pub(super) fn record(
    managers: &mut Managers,
    ty: Ty<'_>,
    old: &Value,
    new: &Value,
    id: &Id,
    writer: &Writer<'_>,
    reset: &[&str],
) {
    let mut comparison = compare(ty, old, new);
    comparison.ignore(reset);
    take(managers, &comparison, None);
    let mut set = comparison.changed();
    strip(&mut set);
    if !set.is_empty() {
        if let Some(previous) = managers.get(id) {
            set.merge(previous.set.clone());
        }
        let owned =
            Owned { set, api_version: writer.api_version.to_owned(), time: Some(writer.now.to_owned()) };
        managers.put(id.clone(), owned);
    }
    managers.cap();
}

/// Takes from everybody but `except` what was changed or removed.
pub(super) fn take(managers: &mut Managers, comparison: &Comparison, except: Option<&Id>) {
    managers.adjust(|id, set| {
        if Some(id) != except {
            set.subtract(&comparison.modified);
            set.subtract(&comparison.added);
            set.subtract(&comparison.removed);
        }
    });
}

/// Removes what nobody owns.
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
    let of_old = || old.and_then(Managers::decode).unwrap_or_default();
    if !writer.subresource.is_empty() {
        return of_old();
    }
    if is_reset(&new["metadata"]["managedFields"]) {
        return Managers::default();
    }
    match Managers::decode(new) {
        Some(brought) if !brought.is_empty() => brought,
        _ => of_old(),
    }
}

fn is_reset(entries: &Value) -> bool {
    match entries.as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([Value::Object(entry)]) => entry.is_empty(),
        _ => false,
    }
}

/// Removes `metadata.managedFields`.
pub(super) fn remove_entries(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

/// Where `new` is `old` but for times of `managedFields`, takes those of `old`: the write changes nothing.
pub(crate) fn keep_times_of_no_op(old: &Value, new: &mut Value) {
    let entries = |object: &Value| match &object["metadata"]["managedFields"] {
        Value::Array(entries) => {
            let mut entries = entries.clone();
            for entry in entries.iter_mut().filter_map(Value::as_object_mut) {
                entry.remove("time");
            }
            // The order follows the times.
            entries.sort_by_cached_key(ToString::to_string);
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
    if same_metadata && same_fields(old_fields, new_fields, "metadata") && entries(old) == entries(new) {
        new.clone_from(old);
    }
}
