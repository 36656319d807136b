//! Comparison of `apiVersion` and `kind` in a body with those of the endpoint.

use kube_apimachinery::go;
use kube_apimachinery::go_struct;
use kube_apimachinery::status::ApiError;
use serde_json::{Value, json};

use crate::kind::registry::ServedKind;

/// Reason why the type of a body differs from the endpoint's.
pub(super) enum TypeMismatch {
    /// The type is not known; the response shows this message with the start of the body.
    Unrecognized(String),
    /// The body of a custom kind has no kind.
    NoKind,
    Error(ApiError),
}

/// Returns `apiVersion` and `kind` of a body; empty if absent. Errors are Go's.
pub(super) fn type_of(object: &Value) -> Result<[String; 2], String> {
    // Go decodes null into a struct without fields.
    if object.is_null() {
        return Ok([String::new(), String::new()]);
    }
    let Some(fields) = object.as_object() else {
        return Err(format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go value of type struct \
             {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \
             \"json:\\\"kind,omitempty\\\"\" }}",
            go::json_type(object)
        ));
    };
    let mut texts = [String::new(), String::new()];
    for (slot, name) in texts.iter_mut().zip(["apiVersion", "kind"]) {
        match fields.get(name) {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) => slot.clone_from(text),
            Some(other) => {
                return Err(format!(
                    "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go struct field \
                     .{name} of type string",
                    go::json_type(other)
                ));
            }
        }
    }
    Ok(texts)
}

/// Checks that a text is a version, with or without a group. Errors are Go's.
pub(super) fn check_version(api_version: &str) -> Result<(), String> {
    if api_version.matches('/').count() > 1 {
        return Err(format!("unexpected GroupVersion string: {api_version}"));
    }
    Ok(())
}

/// Checks the `apiVersion` of a decoded custom object. Errors about the rest of the object come first.
pub(super) fn check_custom_version(served: &ServedKind, object: &Value) -> Result<(), ApiError> {
    let given = object["apiVersion"].as_str().unwrap_or_default();
    let expected = &served.kind.api_version;
    if !served.is_custom() || given == expected {
        return Ok(());
    }
    Err(ApiError::bad_request(format!(
        "the API version in the data ({given}) does not match the expected API version ({expected})"
    )))
}

/// Checks `apiVersion` and `kind`. Builtin endpoints accept objects without them. Custom endpoints require a kind, which validation
/// compares with their own.
pub(super) fn check_type(served: &ServedKind, object: &Value) -> Result<(), TypeMismatch> {
    if object.is_null() && served.is_custom() {
        return Err(TypeMismatch::NoKind);
    }
    let [api_version, kind] = type_of(object).map_err(TypeMismatch::Unrecognized)?;
    let version = check_version(&api_version).map_err(TypeMismatch::Unrecognized);
    let expected = &served.kind;
    if served.is_custom() {
        if kind.is_empty() {
            return Err(TypeMismatch::NoKind);
        }
        return version;
    }
    version?;
    let api_version = if api_version.is_empty() { expected.api_version.clone() } else { api_version };
    let kind = if kind.is_empty() { expected.kind.clone() } else { kind };
    if api_version == expected.api_version && kind == expected.kind {
        return Ok(());
    }
    if kind == expected.kind && has_equal_kind(&served.resource.group, &api_version, &kind) {
        let expected = &expected.api_version;
        return Err(TypeMismatch::Error(ApiError::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({expected})"
        ))));
    }
    let version = api_version.rsplit('/').next().unwrap_or_default();
    let why = if go_struct::has_kind(&api_version, &kind) {
        format!(
            "converting ({version}.{kind}) to ({}.{}): unknown conversion",
            internal_package(&served.resource.group),
            expected.kind
        )
    } else {
        format!(
            "no kind \"{kind}\" is registered for version \"{api_version}\" in scheme \"pkg/runtime/scheme.go:111\""
        )
    };
    Err(TypeMismatch::Error(ApiError::bad_request(format!(
        "{kind} in version \"{version}\" cannot be handled as a {}: {why}",
        expected.kind
    ))))
}

/// Whether Go converts a kind of this version to the kind of the same name in `group`. Kinds have moved from group `extensions`, and Events
/// are in two groups.
pub(super) fn has_equal_kind(group: &str, api_version: &str, kind: &str) -> bool {
    let (other, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let is_moved = match (other, group) {
        ("extensions", "apps") => matches!(kind, "DaemonSet" | "Deployment" | "ReplicaSet"),
        ("extensions", "networking.k8s.io") => matches!(kind, "Ingress" | "NetworkPolicy"),
        ("", "events.k8s.io") | ("events.k8s.io", "") => kind == "Event",
        ("apps" | "extensions", "autoscaling") => kind == "Scale",
        _ => other == group,
    };
    // The tables of Go's structs do not contain CustomResourceDefinition.
    let is_definition = other == "apiextensions.k8s.io"
        && matches!(version, "v1" | "v1beta1")
        && kind == "CustomResourceDefinition";
    is_moved && (is_definition || go_struct::has_kind(api_version, kind))
}

/// Sets `apiVersion` and `kind`, which are optional at builtin endpoints.
pub(super) fn complete_type(served: &ServedKind, object: &mut Value) {
    if object.is_null() {
        *object = json!({});
    }
    if !served.is_custom()
        && let Some(fields) = object.as_object_mut()
    {
        fields.insert("apiVersion".to_owned(), json!(served.kind.api_version));
        fields.insert("kind".to_owned(), json!(served.kind.kind));
    }
}

/// Returns the name of the Go package with a group's internal types.
fn internal_package(group: &str) -> &str {
    if group.is_empty() { "core" } else { group.split('.').next().unwrap_or_default() }
}
