//! Objects that a webhook or an admission policy has changed.

use kube_apimachinery::decode;
use kube_apimachinery::go::quote;
use kube_apimachinery::metadata;
use kube_apimachinery::status::{ApiError, FieldError};
use serde_json::{Value, json};

use super::{Attributes, ObjectKind};
use crate::kind::registry::ServedKind;

/// Returns a copy of a custom object with the kind of its endpoint, if the object has another kind. Webhooks and admission policies receive
/// the copy. If one of them patches it, the object has the right kind from then on; otherwise validation refuses the object for its kind.
///
/// # Errors
/// 500 if the object has another version.
pub(super) fn with_type(attributes: &Attributes<'_>, object: &Value) -> Result<Option<Value>, ApiError> {
    let expected = &attributes.served.kind;
    if !attributes.served.is_custom() || !attributes.is_of_resource() || attributes.served.is_of_kind(object)
    {
        return Ok(None);
    }
    if object["apiVersion"] != *expected.api_version {
        return Err(unsuitable(object, &expected.api_version));
    }
    let mut typed = object.clone();
    typed["kind"] = json!(expected.kind);
    Ok(Some(typed))
}

/// Checks that a custom object can be converted to the version of `to`: a patch may have given it another group.
///
/// # Errors
/// 500 if the object has another group.
pub(super) fn check_group(object: &Value, to: &ServedKind) -> Result<(), ApiError> {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let group = version.split_once('/').map_or("", |(group, _)| group);
    if group == to.resource.group { Ok(()) } else { Err(unsuitable(object, &to.resource.api_version())) }
}

fn unsuitable(object: &Value, target: &str) -> ApiError {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let (version, kind) = (text("apiVersion"), text("kind"));
    let slash = if version.contains('/') { "" } else { "/" };
    ApiError::internal(format!(
        "{slash}{version}, Kind={kind} is unstructured and is not suitable for converting to {}",
        quote(target)
    ))
}

/// Author of a change, on which the checks of the decoder depend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChangedBy {
    /// Fields that a builtin kind does not declare are dropped. A custom object must keep its type.
    Webhook,
    /// Fields that a builtin kind does not declare are refused. The type of a custom object is checked by its validation.
    Policy,
}

/// Decodes a patched object of `served`, and completes it. Custom objects keep unknown fields: another version may know them, and their
/// metadata are checked when they are stored.
///
/// # Errors
/// 500 if the object cannot be decoded, 422 if a custom object changed its type.
pub(super) fn decoded(
    attributes: &Attributes<'_>,
    served: &ServedKind,
    mut object: Value,
    author: ChangedBy,
) -> Result<Value, ApiError> {
    let kind = if attributes.is_of_resource() { ObjectKind::of(served) } else { attributes.kind };
    check_type(attributes, served, kind, &mut object, author)?;
    if !attributes.is_of_resource() {
        // Between two webhooks, kube-apiserver holds the Scale of a custom kind as it is written, without its Go type.
        if served.is_custom() && author == ChangedBy::Webhook {
            decode::normalize_numbers(&mut object);
        } else {
            attributes.conform(&mut object)?;
        }
        return Ok(object);
    }
    if served.is_custom() {
        decode::normalize_numbers(&mut object);
        served.schema.default_applied(&mut object);
        return Ok(object);
    }
    served.decode_errors(&mut object, &[]).map_err(|why| ApiError::internal_error(&why))?;
    if author == ChangedBy::Policy {
        let unknown = served.unknown_fields(&object);
        if !unknown.is_empty() {
            let unknown: Vec<String> =
                unknown.iter().map(|path| format!("unknown field {}", quote(path))).collect();
            return Err(ApiError::internal_error(&format!("strict decoding error: {}", unknown.join(", "))));
        }
    }
    // Annotations that stand for fields of Go's internal type are not set before the object is converted to it.
    let given = object["metadata"]["annotations"].clone();
    served.conform(&mut object);
    served.retain_version_annotations(&given, &mut object);
    Ok(object)
}

/// Checks that a patched object still has its kind. A missing type is restored.
fn check_type(
    attributes: &Attributes<'_>,
    served: &ServedKind,
    kind: ObjectKind<'_>,
    object: &mut Value,
    author: ChangedBy,
) -> Result<(), ApiError> {
    let expected = kind.api_version();
    let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
    let (found_version, found_kind) = (text("apiVersion"), text("kind"));
    if (&*found_version, &*found_kind) == (&*expected, kind.kind) {
        return Ok(());
    }
    let internal = |why: String| Err(ApiError::internal_error(&why));
    if served.is_custom() && attributes.is_of_resource() {
        if found_kind.is_empty() {
            return internal(format!("Object 'Kind' is missing in '{object}'"));
        }
        if author == ChangedBy::Policy {
            return Ok(());
        }
        let wrong = [("kind", &found_kind, kind.kind), ("apiVersion", &found_version, &expected)];
        let wrong = wrong.into_iter().filter(|(_, found, expected)| found != expected);
        let errors = wrong.map(|(field, found, expected)| {
            FieldError::invalid(field, &quote(found), &format!("must be {expected}"))
        });
        let name = metadata::text(object, "name");
        return Err(ApiError::invalid(kind.group, kind.kind, name, errors.collect()));
    }
    let found_version = if found_version.is_empty() { expected.clone() } else { found_version };
    let found_kind = if found_kind.is_empty() { kind.kind.to_owned() } else { found_kind };
    if (&*found_version, &*found_kind) != (&*expected, kind.kind) {
        let (group, version) = found_version.split_once('/').unwrap_or(("", &found_version));
        let registry = attributes.cluster.registry();
        let Some(other) = registry.by_kind(group, version, &found_kind).filter(|other| !other.is_custom())
        else {
            return internal(format!(
                "no kind {} is registered for version {} in scheme \"pkg/runtime/scheme.go:111\"",
                quote(&found_kind),
                quote(&found_version)
            ));
        };
        // Go decodes an object as the kind that it names before it converts it, so this error comes first.
        if let Err(why) = other.decode_errors(object, &[]) {
            return internal(why);
        }
        let package = kind.group.split('.').next().filter(|name| !name.is_empty()).unwrap_or("core");
        return Err(ApiError::internal(format!(
            "converting ({version}.{found_kind}) to ({package}.{}): unknown conversion",
            kind.kind
        )));
    }
    object["apiVersion"] = found_version.into();
    object["kind"] = found_kind.into();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, DEFINITIONS, THINGS};

    /// Observed with kube-apiserver v1.36.3.
    #[tokio::test]
    async fn an_object_of_another_group_is_not_converted() {
        let server = testing::server();
        testing::create(&server, DEFINITIONS, &testing::definition()).unwrap();
        let things = testing::call(&server, THINGS).served;
        let check = |version: &str| check_group(&json!({"apiVersion": version, "kind": "Thing"}), &things);
        check("example.com/v2").unwrap();
        for (version, shown) in [("example.org/v1", "example.org/v1"), ("v1", "/v1"), ("", "/")] {
            assert_eq!(
                check(version).unwrap_err().message(),
                format!(
                    "{shown}, Kind=Thing is unstructured and is not suitable for converting to \"example.com/v1\""
                )
            );
        }
    }
}
