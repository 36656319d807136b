//! Rules of the server for `metadata`: the namespace, the generated name, the fields of a new object, and the generation.

use kube_apimachinery::metadata::{self, of, raise_generation, text};
use kube_apimachinery::names::NameRule;
use kube_apimachinery::status::{ApiError, FieldError};
use serde_json::{Value, json};

use super::Call;
use crate::kind::registry::ServedKind;
use crate::kind::resource::Generation;

/// Maximum length of the prefix from `generateName`, in bytes, so that generated names are not longer than a label.
const MAX_PREFIX: usize = 58;

/// Compares the namespace in the body with that in the URL. An empty one is set.
///
/// # Errors
/// 400 if they differ.
pub(crate) fn reconcile_namespace(
    served: &ServedKind,
    namespace: &str,
    object: &mut Value,
) -> Result<(), ApiError> {
    let metadata = of(object);
    if !served.resource.namespaced {
        // An empty one in the apply of a custom object is stored as it is.
        let is_empty = metadata.get("namespace").is_some_and(|namespace| namespace == "");
        if !(is_empty && served.is_custom()) {
            metadata.remove("namespace");
        }
        return Ok(());
    }
    match metadata.get("namespace").and_then(Value::as_str).unwrap_or_default() {
        "" => {
            // Clients may omit the namespace, because the URL contains it.
            metadata.insert("namespace".to_owned(), json!(namespace));
            Ok(())
        }
        given if given == namespace => Ok(()),
        _ => Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        )),
    }
}

/// Removes those fields of a new object that only the server sets.
pub(crate) fn wipe(object: &mut Value) {
    let metadata = of(object);
    for wiped in ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        metadata.remove(wiped);
    }
}

/// Sets the fields of a new object that only the server sets.
pub(crate) fn begin(call: &Call, object: &mut Value) {
    let metadata = of(object);
    metadata.insert("uid".to_owned(), json!(call.cluster.uid()));
    metadata.insert("creationTimestamp".to_owned(), json!(call.cluster.clock.now_seconds()));
    // Objects of kinds that do not count generations keep the generation that the client set.
    if call.served.resource.rules.generation.is_set_on_create() {
        metadata.insert("generation".to_owned(), json!(1));
    }
}

/// Generates a name from `generateName`; `None` if the object has a name or no prefix.
pub(crate) fn generated_name(call: &Call, object: &Value) -> Option<String> {
    let prefix = text(object, "generateName");
    if prefix.is_empty() || !text(object, "name").is_empty() {
        return None;
    }
    if call.served.resource.rules.name == NameRule::Address {
        // No random suffix, because the name must stay an address.
        return Some(prefix.to_owned());
    }
    let kept = &prefix[..prefix.floor_char_boundary(MAX_PREFIX)];
    Some(format!("{kept}{}", call.cluster.name_suffix()))
}

/// Increments the generation if the update changed a field that it counts. `compared` is the new state for this comparison, if it differs
/// from `new`.
pub(crate) fn bump_generation(served: &ServedKind, old: &Value, compared: Option<&Value>, new: &mut Value) {
    let outside = |object: &Value| {
        let mut rest = object.as_object().cloned().unwrap_or_default();
        for field in ["metadata", "apiVersion", "kind"] {
            rest.remove(field);
        }
        if served.resource.status {
            rest.remove("status");
        }
        rest
    };
    let now = compared.unwrap_or(new);
    let changed = match served.resource.rules.generation {
        Generation::Never | Generation::Fixed => false,
        Generation::Spec | Generation::LateSpec => old.get("spec") != now.get("spec"),
        Generation::SpecOrAnnotations => {
            old.get("spec") != now.get("spec")
                || old["metadata"].get("annotations") != now["metadata"].get("annotations")
        }
        Generation::OutsideMetadata => outside(old) != outside(now),
        Generation::LabelsOrContents => {
            outside(old) != outside(now) || old["metadata"].get("labels") != now["metadata"].get("labels")
        }
    };
    if changed {
        if served.resource.rules.generation == Generation::LateSpec {
            of(new).entry("generation").or_insert_with(|| json!(0));
        }
        raise_generation(new);
    }
}

/// Validates the `metadata` of a new object.
pub(crate) fn validate(served: &ServedKind, object: &Value) -> Vec<FieldError> {
    metadata::validate(served.metadata_rules(), object)
}

/// Validates the `metadata` of a new object that fulfils the rules of its kind.
pub(crate) fn validate_contained(served: &ServedKind, object: &Value) -> Vec<FieldError> {
    metadata::validate_contained(served.metadata_rules(), object)
}

/// Validates the `metadata` of an object's new state.
pub(crate) fn validate_new_state(
    served: &ServedKind,
    old: &Value,
    new: &Value,
    subresource: &str,
) -> Vec<FieldError> {
    metadata::validate_new_state(served.metadata_rules(), old, new, subresource)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn a_generated_name_has_at_most_58_bytes_of_its_prefix() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let _inside = runtime.enter();
        let server = testing::server();
        let call = testing::call(&server, "/api/v1/namespaces/default/configmaps");
        for (length, kept) in [(1, 1), (57, 57), (58, 58), (59, 58), (253, 58)] {
            let prefix = "p".repeat(length);
            let name = generated_name(&call, &json!({"metadata": {"generateName": prefix}})).unwrap();
            let (start, suffix) = name.split_at(kept);
            assert_eq!((start, suffix.len()), (&prefix[..kept], 5), "{name}");
            assert!(suffix.chars().all(|c| "bcdfghjklmnpqrstvwxz2456789".contains(c)), "{name}");
        }
        // Observed with kube-apiserver v1.36.3.
        let call = testing::call(&server, "/apis/networking.k8s.io/v1/ipaddresses");
        let name = generated_name(&call, &json!({"metadata": {"generateName": "10.7.0.1"}}));
        assert_eq!(name.as_deref(), Some("10.7.0.1"));
    }
}
