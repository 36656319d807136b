//! Removal of the fields that an applier no longer applies and that no other manager owns.

use std::collections::BTreeMap;

use serde_json::Value;

use super::extract::fields_of;
use super::managers::{Managers, Owned};
use super::remove::{remove, with_declared_parents};
use super::schema_check::check;
use super::set::FieldSet;
use super::typed::Ty;
use super::versions::{Schemas, failed};
use crate::status::ApiError;

/// Removes fields from `merged` that the applier applied `last` time, does not apply now (`own`), and that no manager owns. All entries
/// have the same version.
pub(super) fn prune(
    ty: Ty<'_>,
    merged: Value,
    last: &FieldSet,
    own: Option<&FieldSet>,
    managers: &Managers,
) -> Value {
    let mut dropped = last.clone();
    if let Some(own) = own {
        dropped.subtract(own);
    }
    // If every field of the last time is applied again, nothing can be pruned and the clones below are avoided.
    if dropped.is_empty() {
        return merged;
    }
    let last = with_declared_parents(ty, last);
    // Fields of all managers; the applier's entry is already the new one.
    let mut claimed = FieldSet::default();
    for (_, owned) in managers.iter() {
        claimed.merge(owned.set.clone());
    }
    let mut gone = last.clone();
    gone.subtract(&with_declared_parents(ty, &claimed));
    if gone.is_empty() {
        return merged;
    }
    // The result is that of structured-merge-diff's three steps: remove the last set, add back owned fields, add back dangling ones.
    let all = all_fields(ty, &merged);
    // Fields that disappear if all fields that were applied last time are removed, except those that a manager owns.
    let mut removed = all.clone();
    removed.subtract(&all_fields(ty, &without(ty, &merged, &last)));
    removed.subtract(&with_declared_parents(ty, &claimed));
    // These may include fields without an owner inside removed structures. Such fields stay, so the removal is limited to fields that were
    // applied last time.
    let mut dangling = all;
    dangling.subtract(&all_fields(ty, &without(ty, &merged, &removed)));
    without(ty, &merged, &dangling.intersection(&last))
}

/// Like [`prune`], for entries of several versions. The result has the version of `merged`.
///
/// # Errors
/// 500 if the object cannot be converted to the version of an entry.
pub(super) fn prune_across(
    schemas: Schemas<'_>,
    merged: &Value,
    last: &Owned,
    managers: &Managers,
) -> Result<Value, ApiError> {
    let written = merged["apiVersion"].as_str().unwrap_or_default();
    let convert = |step: String, object: &Value, version: &str| {
        let step = format!("failed to prune fields{step}");
        let converted = schemas.convert(object, version).map_err(|error| failed(&step, &error))?;
        // An object in another version must fit its schema.
        match check(schemas.ty_in(version), &converted).filter(|_| object["apiVersion"] != version) {
            Some(why) => Err(ApiError::internal(format!("{step}: {why}"))),
            None => Ok(converted),
        }
    };
    let version = last.api_version.as_str();
    let ty = schemas.ty_in(version);
    let applied = with_declared_parents(ty, &last.set);
    let step = ": failed to convert merged object to last applied version".to_owned();
    let then = convert(step, merged, version)?;
    let mut pruned = without(ty, &then, &applied);
    // Fields of all managers by version; the applier's entry is already the new one.
    let mut claimed: BTreeMap<&str, FieldSet> = BTreeMap::new();
    for (_, owned) in managers.iter() {
        claimed.entry(&owned.api_version).or_default().merge(owned.set.clone());
    }
    // The version of last time comes first: fields that managers own in this version are restored before a conversion to another version
    // may need them.
    let first = claimed.remove_entry(version);
    let mut merged = then.clone();
    for (version, claimed) in first.into_iter().chain(claimed) {
        let ty = schemas.ty_in(version);
        let step = |what: &str| {
            format!(": failed add back owned items: failed to convert {what} object at version {version}")
        };
        merged = convert(step("merged"), &merged, version)?;
        pruned = convert(step("pruned"), &pruned, version)?;
        let mut gone = all_fields(ty, &merged);
        gone.subtract(&all_fields(ty, &pruned));
        gone.subtract(&with_declared_parents(ty, &claimed));
        pruned = without(ty, &merged, &gone);
    }
    let step = ": failed add back dangling items: failed to convert pruned object to last applied version";
    pruned = convert(step.to_owned(), &pruned, version)?;
    let mut dangling = all_fields(ty, &then);
    dangling.subtract(&all_fields(ty, &pruned));
    convert(String::new(), &without(ty, &then, &dangling.intersection(&applied)), written)
}

fn all_fields(ty: Ty<'_>, value: &Value) -> FieldSet {
    with_declared_parents(ty, &fields_of(ty, value))
}

fn without(ty: Ty<'_>, value: &Value, set: &FieldSet) -> Value {
    let mut value = value.clone();
    remove(ty, &mut value, set);
    value
}
