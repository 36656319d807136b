//! The 422 for a patch with a result that cannot be decoded: it shows the patch or the patched object as Go prints it.

use kube_apimachinery::go;
use kube_apimachinery::go::quote;
use kube_apimachinery::go_struct;
use kube_apimachinery::status::{ApiError, FieldError};
use serde_json::{Map, Value, json};

use super::parsed_patch::Patch;
use crate::kind::registry::ServedKind;

/// Builds the 422 for a patch with an undecodable result.
pub(super) fn refusal(served: &ServedKind, patch: &Patch, new: &Value, why: &str) -> ApiError {
    let shown = match patch {
        Patch::Strategic(patch, _) => go::value(&without_replace(patch)),
        _ => patched_text(served, patch, new).unwrap_or_default(),
    };
    ApiError::invalid("", "", "", vec![FieldError::invalid("patch", &quote(&shown), why)])
}

/// Returns the text of the patched object `new`, which Go decodes. `None` for a strategic merge patch, whose result is not a text.
pub(super) fn patched_text(served: &ServedKind, patch: &Patch, new: &Value) -> Option<String> {
    Some(match patch {
        Patch::Strategic(..) => return None,
        Patch::Json(sent, ..) => go_struct::patched_text(served.message, new, &entered_by(sent)),
        Patch::Merge(_, patch, _) => match patch.as_object() {
            Some(patch) => go_struct::patched_text(served.message, new, patch),
            None => new.to_string(),
        },
    })
}

/// Returns the objects and lists on the paths of a JSON patch, as nested objects. A list has the indexes of its elements as keys.
fn entered_by(sent: &[u8]) -> Map<String, Value> {
    let operations: Vec<Value> = serde_json::from_slice(sent).unwrap_or_default();
    let mut entered = Map::new();
    let paths = operations.iter().flat_map(|operation| ["path", "from"].map(|field| &operation[field]));
    for path in paths.filter_map(Value::as_str) {
        let names = path.split('/').skip(1).map(|name| name.replace("~1", "/").replace("~0", "~"));
        let mut names: Vec<String> = names.collect();
        let Some(last) = names.pop() else { continue };
        let parent = names.into_iter().try_fold(&mut entered, |object, name| {
            object.entry(name).or_insert_with(|| json!({})).as_object_mut()
        });
        if let Some(parent) = parent {
            parent.entry(last).or_insert(Value::Null);
        }
    }
    entered
}

/// Returns a strategic merge patch as it is after its application, which removes the directive `$patch: replace` from its objects.
fn without_replace(patch: &Value) -> Value {
    let Value::Object(fields) = patch else { return patch.clone() };
    let kept = fields.iter().filter(|(name, value)| *name != "$patch" || **value != "replace");
    Value::Object(kept.map(|(name, value)| (name.clone(), without_replace(value))).collect())
}
