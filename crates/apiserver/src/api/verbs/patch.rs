//! PATCH: merge, JSON and strategic merge patches, and server-side apply.

use std::sync::Arc;

use bytes::Bytes;
use kube_apimachinery::decode;
use kube_apimachinery::go;
use kube_apimachinery::go::quote;
use kube_apimachinery::go_struct;
use kube_apimachinery::managed_fields::{self, Emptied, OnConflict, Writer};
use kube_apimachinery::metadata;
use kube_apimachinery::patch::{self, OperationForm};
use kube_apimachinery::schema;
use kube_apimachinery::status::{ApiError, FieldError};
use kube_apimachinery::yaml;
use serde_json::{Map, Value, json};

use super::reply::Reply;
use super::update::{self, Ownership, UpdateReview};
use super::{Call, RETRIES, body_type, create, object_meta, require_name};
use crate::kind::registry::ServedKind;
use crate::request::query::{FieldValidation, WriteKind, WriteOptions};
use crate::request::request_body;

const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub(crate) const APPLY: &str = "application/apply-patch+yaml";

/// Patch types of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PatchType {
    Json,
    Merge,
    Strategic,
    Apply,
}

impl PatchType {
    /// Returns the type of the request's body.
    ///
    /// # Errors
    /// 415 with the types that the resource supports.
    pub(super) fn of(call: &Call) -> Result<Self, ApiError> {
        let custom = call.served.is_custom();
        match request_body::media_type(call.content_type.as_deref()) {
            JSON => Ok(Self::Json),
            MERGE => Ok(Self::Merge),
            APPLY => Ok(Self::Apply),
            STRATEGIC if !custom => Ok(Self::Strategic),
            _ if custom => Err(request_body::unsupported(&[JSON, MERGE, APPLY])),
            // The router looks for a known type in a list of types, the handler does not.
            types if types.split(',').any(|one| [JSON, MERGE, STRATEGIC, APPLY].contains(&one.trim())) => {
                Err(request_body::unsupported(&[JSON, MERGE, STRATEGIC, APPLY]))
            }
            _ => Err(ApiError::new(415, "UnsupportedMediaType", "415: Unsupported Media Type")
                .with_details("", "", "")),
        }
    }
}

impl PatchType {
    /// Returns the write to which this patch leads.
    pub(super) fn write(self) -> WriteKind {
        if self == Self::Apply { WriteKind::Apply } else { WriteKind::Patch }
    }
}

/// Checks the type of the body.
///
/// # Errors
/// 415 with the types that the resource supports.
pub(crate) fn check_content_type(call: &Call) -> Result<(), ApiError> {
    PatchType::of(call).map(drop)
}

/// Patches the object in the URL. An apply creates the object if it does not exist.
pub(crate) async fn run(call: &Call, bytes: &Bytes) -> Result<Reply, ApiError> {
    let kind = PatchType::of(call)?;
    let options = WriteOptions::read(&call.query, kind.write())?;
    if kind == PatchType::Apply {
        return apply(call, bytes, &options).await;
    }
    // Errors about the patch come after those about the object: it may be missing, and a webhook may fail to convert it.
    let patch = Patch::read(kind, bytes, options.field_validation);
    let changed = update::change(call, &options, UpdateReview::Object, |call, old| {
        let patch = patch.as_ref().map_err(Clone::clone)?;
        let validation = options.field_validation;
        let (mut new, emptied) = match merge_beside_entries(call, old, patch, validation) {
            Some(patched) => patched,
            None => {
                let mut new = patch.apply(&call.served, old)?;
                let package = super::reply::go_package(&call.served.resource.storage.group);
                check_type(call, &new, patch, Some(package), validation)?;
                let emptied = conform(call, old, &mut new, patch, validation)?;
                (new, emptied)
            }
        };
        object_meta::reconcile_namespace(&call.served, &call.path.namespace, &mut new)?;
        update::check_name(call, &new)?;
        Ok((new, Ownership::Tracked(emptied)))
    })
    .await?;
    changed.reply(call)
}

/// A parsed patch, which can be applied to several states of an object.
pub(super) enum Patch {
    /// A JSON patch, the form in which it is decoded, and the errors of strict decoding.
    Json(Bytes, OperationForm, Vec<String>),
    /// A merge patch: its text and value, and the errors of strict decoding.
    Merge(Bytes, Value, Vec<String>),
    /// A strategic merge patch, and the errors of strict decoding.
    Strategic(Value, Vec<String>),
}

impl Patch {
    pub(super) fn read(
        kind: PatchType,
        bytes: &Bytes,
        validation: FieldValidation,
    ) -> Result<Self, ApiError> {
        let is_lenient = validation == FieldValidation::Ignore;
        if kind == PatchType::Json {
            return Ok(if is_lenient {
                Self::Json(bytes.clone(), OperationForm::Untyped, Vec::new())
            } else {
                Self::Json(bytes.clone(), OperationForm::Typed, patch::json_complaints(bytes))
            });
        }
        let malformed = || ApiError::bad_request("Invalid JSON Patch");
        let context = if kind == PatchType::Strategic { "" } else { "error decoding patch: " };
        let mut decoded = decode::json(bytes).map_err(|why| match kind {
            PatchType::Merge if is_lenient => malformed(),
            _ => ApiError::bad_request(format!("{context}{why}")),
        })?;
        if decoded.value.is_null() {
            if kind == PatchType::Merge {
                return Err(malformed());
            }
            // Go merges null like an empty map.
            decoded.value = json!({});
        }
        if kind == PatchType::Merge && is_lenient {
            // The library of merge patches lets a list replace the object.
            return match decoded.value {
                Value::Object(_) | Value::Array(_) => {
                    Ok(Self::Merge(bytes.clone(), decoded.value, Vec::new()))
                }
                _ => Err(malformed()),
            };
        }
        if !decoded.value.is_object() {
            return Err(ApiError::bad_request(format!(
                "{context}json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                go::json_type(&decoded.value)
            )));
        }
        Ok(match kind {
            PatchType::Strategic => {
                // Go merges decoded values here. The other kinds of patch keep numbers as they were sent.
                decode::normalize_numbers(&mut decoded.value);
                Self::Strategic(decoded.value, decoded.strict)
            }
            _ => Self::Merge(bytes.clone(), decoded.value, decoded.strict),
        })
    }

    /// Returns the patched object.
    pub(super) fn apply(&self, served: &ServedKind, old: &Value) -> Result<Value, ApiError> {
        match self {
            Self::Json(patch, form, _) => patch::json(old, patch, *form),
            Self::Merge(_, patch, _) => {
                // A list replaces the object, without the nulls in it.
                let mut new = if patch.is_array() { Value::Null } else { old.clone() };
                patch::merge(&mut new, patch);
                Ok(new)
            }
            Self::Strategic(patch, _) => patch::strategic(&served.schema, old, patch),
        }
    }

    fn strict(&self) -> Vec<String> {
        match self {
            Self::Json(_, _, strict) | Self::Merge(_, _, strict) | Self::Strategic(_, strict) => {
                strict.clone()
            }
        }
    }

    /// Returns the body, from which later errors quote numbers.
    fn sent(&self) -> &[u8] {
        match self {
            Self::Json(sent, ..) | Self::Merge(sent, ..) => sent,
            Self::Strategic(..) => &[],
        }
    }
}

/// Checks that a patch does not change the type of the object. Go declares its internal type in `package`; `None` stands for scales of
/// custom objects, which Go decodes without all other types.
pub(super) fn check_type(
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
        return check_custom_type(served, new, patch, api_version, kind);
    }
    if let Some(package) = package.filter(|_| api_version.is_empty()) {
        return check_internal_type(call, new, patch, package, validation);
    }
    let (api_version, kind) = (
        if api_version.is_empty() { &*served.kind.api_version } else { api_version },
        if kind.is_empty() { &*served.kind.kind } else { kind },
    );
    // Of an equal kind in another version, the object is converted.
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
    // Those of its metadata are at the top.
    let unknown = fields.filter(|field| !is_internal(field)).collect();
    report_strict(call, || new.clone(), patch, unknown, validation)?;
    update::check_name(call, &json!({"metadata": {}}))
}

/// Whether Go's internal types have a field of this name in JSON. They have those of the metadata at the top.
fn is_internal(field: &str) -> bool {
    let is_meta = || go_struct::message("meta.v1.ObjectMeta").is_some_and(|meta| meta.slot(field).is_some());
    matches!(field, "apiVersion" | "kind") || is_meta()
}

/// Refuses unknown and duplicate fields, or warns of them.
fn report_strict(
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

fn check_custom_type(
    served: &ServedKind,
    new: &Value,
    patch: &Patch,
    api_version: &str,
    kind: &str,
) -> Result<(), ApiError> {
    if kind.is_empty() {
        return Err(refusal(served, patch, new, &format!("Object 'Kind' is missing in '{new}'")));
    }
    if api_version.is_empty() {
        return Err(ApiError::internal_error(
            "Object 'apiVersion' is missing in 'object has no apiVersion field'",
        ));
    }
    Ok(())
}

/// Builds the 422 for a patch with an undecodable result.
fn refusal(served: &ServedKind, patch: &Patch, new: &Value, why: &str) -> ApiError {
    let shown = match patch {
        Patch::Strategic(patch, _) => go::value(&without_replace(patch)),
        Patch::Json(sent, ..) => go_struct::patched_text(served.message, new, &entered_by(sent)),
        Patch::Merge(_, patch, _) => match patch.as_object() {
            Some(patch) => go_struct::patched_text(served.message, new, patch),
            None => new.to_string(),
        },
    };
    ApiError::invalid("", "", "", vec![FieldError::invalid("patch", &quote(&shown), why)])
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

/// Applies and decodes a merge patch that names neither the type nor the managed fields of the object. The managed fields, which are most of
/// many objects, are neither decoded nor checked, because they stay as they are stored. `None` if the patch is another one, or is
/// refused: its application to the whole object has the error.
fn merge_beside_entries(
    call: &Call,
    old: &Value,
    patch: &Patch,
    validation: FieldValidation,
) -> Option<(Value, Emptied)> {
    let Patch::Merge(_, merged, _) = patch else { return None };
    let changes = merged.as_object()?;
    let metadata_changes = match changes.get("metadata") {
        None => None,
        Some(Value::Object(changes)) => Some(changes),
        Some(_) => return None,
    };
    let names_entries = metadata_changes.is_some_and(|changes| changes.contains_key("managedFields"));
    if names_entries || ["apiVersion", "kind"].iter().any(|field| changes.contains_key(*field)) {
        return None;
    }
    let (fields, metadata) = (old.as_object()?, old.get("metadata")?.as_object()?);
    let entries = metadata.get("managedFields")?;
    let others = metadata.iter().filter(|(name, _)| *name != "managedFields");
    let metadata: Map<String, Value> = others.map(|(name, value)| (name.clone(), value.clone())).collect();
    let others = fields.iter().filter(|(name, _)| *name != "metadata");
    let mut new: Map<String, Value> = others.map(|(name, value)| (name.clone(), value.clone())).collect();
    new.insert("metadata".to_owned(), Value::Object(metadata));
    let mut new = Value::Object(new);
    patch::merge(&mut new, merged);
    let emptied = conform(call, old, &mut new, patch, validation).ok()?;
    metadata::of(&mut new).insert("managedFields".to_owned(), entries.clone());
    Some((new, emptied))
}

/// Decodes the patched object like an object in a body. Errors are attributed to the patch. `new` is the result of the patch to `old`.
pub(super) fn conform(
    call: &Call,
    old: &Value,
    new: &mut Value,
    patch: &Patch,
    validation: FieldValidation,
) -> Result<Emptied, ApiError> {
    // Refusals show the object before it was decoded. They are rare, so they apply the patch again instead of a copy for each patch.
    let sent = || patch.apply(&call.served, old).unwrap_or_default();
    body_type::complete_type(&call.served, new);
    let refuse = |why: &str| refusal(&call.served, patch, &sent(), why);
    let served = Arc::clone(&call.served);
    if let Patch::Strategic(..) = patch
        && let Err(why) = served.schema.restore(new)
    {
        return Err(refuse(&why));
    }
    // Searched first, because decoding drops nulls from the metadata of custom objects.
    let is_of_kind = served.is_of_kind(new);
    let unknown = match validation {
        FieldValidation::Ignore => Vec::new(),
        _ => call.unknown_fields(new),
    };
    if let Err(why) = served.decode_errors(new, patch.sent()) {
        return Err(refuse(&why));
    }
    if let Some(why) = served.strategy.conversion_error(new) {
        // A strategic merge patch is converted after it was decoded.
        let is_strategic = matches!(patch, Patch::Strategic(..));
        return Err(if is_strategic { ApiError::internal(why) } else { refuse(&why) });
    }
    report_strict(call, sent, patch, unknown, validation)?;
    let emptied = Emptied::of(&served.schema, new);
    if is_of_kind {
        served.conform(new);
    }
    Ok(emptied)
}

/// Checks that the result of an apply can be converted to Go's internal type.
fn check_conversion(call: &Call, applied: &Value, merged: &Value) -> Result<(), ApiError> {
    match call.served.strategy.conversion_error(merged) {
        None => Ok(()),
        Some(why) => {
            let object = managed_fields::describe(applied);
            Err(ApiError::internal(format!("failed to convert to unversioned ({object}): {why}")))
        }
    }
}

/// Runs a server-side apply.
async fn apply(call: &Call, bytes: &Bytes, options: &WriteOptions) -> Result<Reply, ApiError> {
    require_name(&call.path.name)?;
    // Errors about the configuration come after that of a webhook that fails to convert the object.
    let configuration = read_applied(call, bytes);
    let manager = call.manager(options);
    let on_conflict = options.on_conflict;
    let subresource = call.path.subresource.clone();
    for _ in 0..RETRIES {
        let exists = call.cluster.read(|store| store.get(call.served.storage(), &call.key()).is_some());
        let outcome = if exists {
            let changed = update::change(call, options, UpdateReview::Object, |call, old| {
                let (applied, strict) = configuration.as_ref().map_err(Clone::clone)?;
                let mut new = merge(call, Some(old), applied, &manager, on_conflict)?;
                check_conversion(call, applied, &new)?;
                strict.report(call, options.field_validation)?;
                check_place(call, &mut new)?;
                call.served.conform_applied(&mut new);
                Ok((new, Ownership::Applied))
            })
            .await;
            changed.and_then(|changed| changed.reply(call))
        } else if subresource.is_empty() {
            match &configuration {
                Ok((applied, strict)) => {
                    create_applied(call, applied, strict, &manager, on_conflict, options).await
                }
                Err(error) => Err(error.clone()),
            }
        } else {
            return Err(call.not_found());
        };
        match outcome {
            // The object was created or deleted meanwhile: apply to the current state.
            Err(error) if error.reason() == if exists { "NotFound" } else { "AlreadyExists" } => {}
            outcome => return outcome,
        }
    }
    Err(call.modified())
}

/// Creates the applied object.
async fn create_applied(
    call: &Call,
    applied: &Value,
    strict: &StrictErrors,
    manager: &str,
    on_conflict: OnConflict,
    options: &WriteOptions,
) -> Result<Reply, ApiError> {
    let mut object = call.with_conversions(|| merge(call, None, applied, manager, on_conflict)).await?;
    check_conversion(call, applied, &object)?;
    strict.report(call, options.field_validation)?;
    let uid = metadata::text(applied, "uid");
    if !uid.is_empty() {
        return Err(call.conflict(&format!(
            "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        )));
    }
    check_place(call, &mut object)?;
    call.served.conform_applied(&mut object);
    create::create(call, object, options, Ownership::Applied).await?.reply(call, 201)
}

/// Checks the name and the namespace of a merged object against the URL. If the configuration omits them, the merge keeps those of
/// an existing object, so only a new object needs a name. Conflicts are reported before a wrong name.
fn check_place(call: &Call, merged: &mut Value) -> Result<(), ApiError> {
    object_meta::reconcile_namespace(&call.served, &call.path.namespace, merged)?;
    update::check_name(call, merged)
}

/// Reads the applied configuration from the body, and checks its type against the endpoint. Refuses `metadata.managedFields`.
fn read_applied(call: &Call, bytes: &Bytes) -> Result<(Value, StrictErrors), ApiError> {
    let (object, strict) = read_configuration(call, bytes)?;
    if managed_fields::are_readable(&object["metadata"]["managedFields"]) {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    Ok((object, strict))
}

/// Repeated keys of an applied configuration.
pub(super) struct StrictErrors(Vec<String>);

impl StrictErrors {
    /// Reports the errors as `fieldValidation` asks. kube-apiserver does so after the merge, which may fail for another reason.
    pub(super) fn report(&self, call: &Call, validation: FieldValidation) -> Result<(), ApiError> {
        if validation == FieldValidation::Strict && !self.0.is_empty() {
            return Err(ApiError::bad_request(format!(
                "error strict decoding YAML: error converting YAML to JSON: {}",
                yaml::strict_error(&self.0)
            )));
        }
        if validation == FieldValidation::Warn {
            self.0.iter().for_each(|text| call.warn(text));
        }
        Ok(())
    }
}

/// Like [`read_applied`], but accepts `metadata.managedFields`, which the merge refuses later.
pub(super) fn read_configuration(call: &Call, bytes: &Bytes) -> Result<(Value, StrictErrors), ApiError> {
    let decoded =
        yaml::read(bytes).map_err(|why| ApiError::bad_request(format!("error decoding YAML: {why}")))?;
    // A null body is an object without fields.
    let object = if decoded.value.is_null() { json!({}) } else { decoded.value };
    if !object.is_object() {
        return Err(ApiError::bad_request(format!(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go value \
             of type map[string]interface {{}}",
            go::json_type(&object)
        )));
    }
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if api_version != call.served.kind.api_version || kind != call.served.kind.kind {
        // A version with several slashes has neither a group nor a kind.
        let (api_version, kind) =
            if api_version.matches('/').count() > 1 { ("", "") } else { (api_version, kind) };
        // Go prints a slash between group and version, even if the group is empty.
        let slash = if api_version.contains('/') { "" } else { "/" };
        return Err(ApiError::bad_request(format!("invalid object type: {slash}{api_version}, Kind={kind}")));
    }
    Ok((object, StrictErrors(decoded.strict)))
}

fn merge(
    call: &Call,
    live: Option<&Value>,
    applied: &Value,
    manager: &str,
    on_conflict: OnConflict,
) -> Result<Value, ApiError> {
    let now = call.cluster.clock.now_seconds();
    let writer = Writer {
        manager,
        subresource: &call.path.subresource,
        api_version: &call.served.kind.api_version,
        now: &now,
    };
    let reset = call.served.reset_fields(&call.path.subresource);
    match call.conversions.versions(&call.served) {
        Some(versions) => {
            let schemas = versions.schemas(&call.served);
            managed_fields::apply_across(schemas, live, applied, &writer, on_conflict, reset)
        }
        None => match &call.served.equal_versions {
            Some(versions) => {
                let schemas = versions.schemas(&call.served.schema);
                managed_fields::apply_across(schemas, live, applied, &writer, on_conflict, reset)
            }
            None => managed_fields::apply(&call.served.schema, live, applied, &writer, on_conflict, reset),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::testing;

    /// Applies a ConfigMap with one entry.
    fn apply_map(server: &testing::Running, value: &str) -> Result<Reply, ApiError> {
        let mut call = testing::call(server, "/api/v1/namespaces/default/configmaps/a");
        call.query = crate::request::query::Query::parse("fieldManager=test&force=true");
        call.content_type = Some(APPLY.to_owned());
        let map =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": value}});
        testing::now(run(&call, &Bytes::from(map.to_string())))
    }

    #[tokio::test]
    async fn an_apply_succeeds_while_a_client_deletes_the_object_again_and_again() {
        let server = testing::server();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    // The object may not exist at the moment.
                    let _ = testing::delete(&server, "/api/v1/namespaces/default/configmaps/a");
                }
            });
            let failed = (0..2000).find_map(|n| apply_map(&server, &n.to_string()).err());
            done.store(true, Ordering::Relaxed);
            assert_eq!(failed, None);
        });
    }

    #[tokio::test]
    async fn a_merge_patch_beside_the_managed_fields_has_the_result_of_one_to_the_whole_object() {
        let server = testing::server();
        apply_map(&server, "v").unwrap();
        let call = testing::call(&server, "/api/v1/namespaces/default/configmaps/a");
        let stored = call.cluster.read(|store| store.get(call.served.storage(), &call.key()).cloned());
        let old = call.served.value(&stored.unwrap());
        assert!(!old["metadata"]["managedFields"].is_null());
        let patched = |changes: &Value| {
            let validation = FieldValidation::Strict;
            let patch = Patch::read(PatchType::Merge, &Bytes::from(changes.to_string()), validation).unwrap();
            let beside = merge_beside_entries(&call, &old, &patch, validation);
            let mut whole = patch.apply(&call.served, &old).unwrap();
            let emptied = conform(&call, &old, &mut whole, &patch, validation);
            (beside, emptied.ok().map(|emptied| (whole, emptied)))
        };
        for changes in [
            json!({"data": {"k": "w", "l": "x"}}),
            json!({"data": null, "immutable": true}),
            json!({"metadata": {"labels": {"a": "b"}, "uid": "other"}}),
            json!({}),
        ] {
            let (beside, whole) = patched(&changes);
            assert!(beside.is_some(), "{changes}");
            assert_eq!(beside, whole, "{changes}");
        }
        for left in [
            json!({"kind": "Secret"}),
            json!({"metadata": {"managedFields": []}}),
            json!({"metadata": null}),
            json!({"unknown": 1}),
            json!({"data": {"k": 1}}),
        ] {
            assert_eq!(patched(&left).0, None, "{left}");
        }
    }
}
