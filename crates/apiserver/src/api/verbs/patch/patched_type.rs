//! Type of a patched object, which a patch must not change, and fields that its type does not have.

use kube_apimachinery::go;
use kube_apimachinery::go::quote;
use kube_apimachinery::go_struct;
use kube_apimachinery::schema;
use kube_apimachinery::status::ApiError;
use serde_json::{Value, json};

use super::parsed_patch::Patch;
use super::patch_refusal::refusal;
use crate::api::verbs::{Call, body_type, update};
use crate::kind::registry::ServedKind;
use crate::request::query::FieldValidation;

/// Checks that a patch does not change the type of the object. Go declares its internal type in `package`; `None` stands for scales of
/// custom objects, which Go decodes without all other types.
pub(in crate::api::verbs) fn check_type(
    call: &Call,
    new: &Value,
    patch: &Patch,
    package: Option<&str>,
    validation: FieldValidation,
) -> Result<(), ApiError> {
    const HEAD: &str = "struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \
                        \"json:\\\"kind,omitempty\\\"\" }";
    let served = &call.served;
    let text = |field: &str| new.get(field).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let of_other_type = ["apiVersion", "kind"].into_iter().find_map(|field| {
        Some((field, new.get(field).filter(|value| !value.is_string() && !value.is_null())?))
    });
    if let Patch::Strategic(..) = patch {
        // The types of the decoded object are fixed, and those of the patch are replaced.
        return match of_other_type {
            Some((_, Value::Number(number))) if !number.is_f64() => {
                Err(refusal(served, patch, new, "cannot convert int64 to string"))
            }
            Some(_) => Err(refusal(served, patch, new, "unrecognized type: string")),
            None => Ok(()),
        };
    }
    let unreadable = |found: &Value, into: &str| {
        let found = go::json_type(found);
        let why = format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go {into}"
        );
        Err(refusal(served, patch, new, &why))
    };
    if !new.is_object() {
        return unreadable(new, &format!("value of type {HEAD}"));
    }
    if let Some((field, value)) = of_other_type {
        return unreadable(value, &format!("struct field .{field} of type string"));
    }
    if let Err(why) = body_type::check_version(api_version) {
        return Err(refusal(served, patch, new, &why));
    }
    if served.is_custom() && package.is_some() {
        // Another type is an error of validation.
        return check_custom_kind(served, new, patch, kind);
    }
    if let Some(package) = package.filter(|_| api_version.is_empty()) {
        return check_internal_type(call, new, patch, package, validation);
    }
    let (api_version, kind) = (
        if api_version.is_empty() { &*served.kind.api_version } else { api_version },
        if kind.is_empty() { &*served.kind.kind } else { kind },
    );
    // Go converts an object of the same kind in another version.
    if kind == served.kind.kind
        && (api_version == served.kind.api_version
            || body_type::has_equal_kind(&served.resource.group, api_version, kind))
    {
        return Ok(());
    }
    let is_known = schema::schema_of_kind(api_version, kind).is_some();
    let why = if let Some(package) = package.filter(|_| is_known) {
        let version = api_version.rsplit('/').next().unwrap_or_default();
        format!("converting ({version}.{kind}) to ({package}.{}): unknown conversion", served.kind.kind)
    } else {
        format!(
            "no kind {} is registered for version {} in scheme \"pkg/runtime/scheme.go:111\"",
            quote(kind),
            quote(api_version)
        )
    };
    Err(refusal(served, patch, new, &why))
}

/// Returns the error of a patch that empties `apiVersion`: Go then decodes the internal type, which has other fields in JSON.
fn check_internal_type(
    call: &Call,
    new: &Value,
    patch: &Patch,
    package: &str,
    validation: FieldValidation,
) -> Result<(), ApiError> {
    let own = &call.served.kind;
    let kind = new.get("kind").and_then(Value::as_str).unwrap_or_default();
    if !kind.is_empty() && *kind != *own.kind {
        let why = if schema::schema_of_kind(&own.api_version, kind).is_some() {
            format!("converting ({package}.{kind}) to ({package}.{}): unknown conversion", own.kind)
        } else {
            let group = quote(&call.served.resource.group);
            format!(
                "no kind {} is registered for the internal version of group {group} in scheme \"pkg/runtime/scheme.go:111\"",
                quote(kind)
            )
        };
        return Err(refusal(&call.served, patch, new, &why));
    }
    let fields = new.as_object().into_iter().flatten().map(|(field, _)| field.clone());
    // In Go's internal type, the fields of the metadata are at the top level.
    let unknown = fields.filter(|field| !is_internal(field)).collect();
    report_strict(call, || new.clone(), patch, unknown, validation)?;
    update::check_name(call, &json!({"metadata": {}}))
}

/// Whether Go's internal types have a field of this name in JSON. They have the fields of the metadata at the top level.
fn is_internal(field: &str) -> bool {
    let is_meta = || go_struct::message("meta.v1.ObjectMeta").is_some_and(|meta| meta.slot(field).is_some());
    matches!(field, "apiVersion" | "kind") || is_meta()
}

fn check_custom_kind(served: &ServedKind, new: &Value, patch: &Patch, kind: &str) -> Result<(), ApiError> {
    if kind.is_empty() {
        return Err(refusal(served, patch, new, &format!("Object 'Kind' is missing in '{new}'")));
    }
    Ok(())
}

/// Checks that a patched custom object has a version. Errors about its metadata come first, and those about the revision of `old`.
pub(super) fn require_custom_version(call: &Call, old: &Value, new: &Value) -> Result<(), ApiError> {
    let api_version = new.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    if call.served.is_custom() && api_version.is_empty() {
        update::check_revision(call, update::wanted_revision(old)?, new)?;
        let why = "Object 'apiVersion' is missing in 'object has no apiVersion field'";
        return Err(ApiError::internal_error(why));
    }
    Ok(())
}

/// Refuses unknown and duplicate fields, or warns of them.
pub(super) fn report_strict(
    call: &Call,
    sent: impl FnOnce() -> Value,
    patch: &Patch,
    unknown: Vec<String>,
    validation: FieldValidation,
) -> Result<(), ApiError> {
    if validation == FieldValidation::Ignore {
        return Ok(());
    }
    let mut strict = patch.strict();
    strict.extend(unknown.into_iter().map(|path| format!("unknown field \"{path}\"")));
    if validation == FieldValidation::Strict && !strict.is_empty() {
        let why = format!("strict decoding error: {}", strict.join(", "));
        return Err(refusal(&call.served, patch, &sent(), &why));
    }
    for text in strict {
        call.warn(text);
    }
    Ok(())
}
