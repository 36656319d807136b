//! Validation of the selectable fields of a version.

use std::collections::BTreeSet;

use kube_apimachinery::go::quote;
use kube_apimachinery::schema::{Brackets, find_field};
use kube_apimachinery::status::FieldError;
use serde_json::Value;

use super::super::{ERRORS, list, text};
use super::shared;

/// Maximum number of selectable fields.
const SELECTABLE: usize = 8;

/// Returns the old version with a name. It has no selectable fields of its own if they are the same in all old versions.
pub(super) fn old_version<'a>(before: &'a [Value], name: &str) -> Option<&'a Value> {
    let is_own = before.len() > 1 && !shared(before, "selectableFields").1;
    before.iter().find(|version| text(version, "name") == name).filter(|_| is_own)
}

/// Returns the maximum number of selectable fields of a version: none if it had too many before, and they stay the same.
pub(super) fn selectable_limit(version: &Value, before: Option<&Value>) -> usize {
    let fields = list(version, "selectableFields");
    let same = before.is_some_and(|before| list(before, "selectableFields") == fields);
    if same && fields.len() > SELECTABLE { usize::MAX } else { SELECTABLE }
}

/// Validates the selectable fields of a version, of which there are at most `limit`. `missing` is the error if there is no schema.
pub(super) fn check_selectable(
    version: &Value,
    schema: Option<&Value>,
    limit: usize,
    place: &str,
    missing: &str,
    errors: &mut Vec<FieldError>,
) {
    let fields = list(version, "selectableFields");
    if fields.is_empty() {
        return;
    }
    let Some(schema) = schema else {
        errors.push(FieldError::invalid(place, "\"\"", missing));
        return;
    };
    let mut seen = BTreeSet::new();
    for (index, path) in fields.iter().map(|field| text(field, "jsonPath")).enumerate() {
        if errors.len() >= ERRORS {
            return;
        }
        let field = format!("{place}[{index}].jsonPath");
        if path.is_empty() {
            errors.push(FieldError::required(field, ""));
            continue;
        }
        let mut invalid =
            |detail: &str| errors.push(FieldError::invalid(field.clone(), &quote(path), detail));
        let found = match find_field(path, schema, Brackets::Forbidden) {
            Ok(found) => found,
            Err(why) => {
                invalid(&format!("is an invalid path: {why}"));
                continue;
            }
        };
        // Name and namespace are selectable for all kinds, and labels have selectors of their own.
        if found.root == "metadata" {
            invalid("must not point to fields in metadata");
        }
        // Selectors compare texts, so values need a single form as text.
        let kind = found.schema.map_or("", |schema| text(schema, "type"));
        if !["string", "boolean", "integer"].contains(&kind) {
            invalid(
                "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are \
                 allowed.",
            );
        }
        if !seen.insert(found.path) {
            let message = format!("Duplicate value: {}", quote(path));
            errors.push(FieldError { reason: "FieldValueDuplicate", field, message });
        }
    }
    if seen.len() > limit {
        errors.push(FieldError {
            reason: "FieldValueTooMany",
            field: place.to_owned(),
            message: format!("Too many: {}: must have at most {SELECTABLE} items", seen.len()),
        });
    }
}
