//! `/scale`: the replicas of an object as a `Scale` of `autoscaling/v1`.

use std::sync::Arc;

use bytes::Bytes;
use kube_apimachinery::managed_fields::scale::API_VERSION;
use kube_apimachinery::managed_fields::{self, Writer};
use kube_apimachinery::metadata;
use kube_apimachinery::schema;
use kube_apimachinery::selector;
use kube_apimachinery::status::{ApiError, FieldError};
use serde_json::{Value, json};

use super::reply::{self, Reply};
use super::update::{self, Changed, Ownership, Part, RequestedState, UpdateReview};
use super::{Call, object_meta, patch, read};
use crate::api::admission::ObjectKind;
use crate::kind::resource::{Resource, ScalePaths, SelectorForm};
use crate::kinds::builtin;
use crate::request::accept::View;
use crate::request::query::{WriteKind, WriteOptions};

const SUBRESOURCE: &str = "scale";
const KIND: &str = "Scale";

/// Returns the scale of an object.
pub(crate) async fn get(call: &Call) -> Result<Reply, ApiError> {
    read::get_options(call)?;
    let stored = call.cluster.read(|store| store.get(call.served.storage(), &call.key()).cloned());
    let stored = call.converted_now(stored.ok_or_else(|| call.not_found())?).await?;
    show(call, view(call, &call.served.value(&stored))?)
}

/// The scale as the part of an object that admission reviews.
struct Scale;

impl Part for Scale {
    fn kind(&self) -> ObjectKind<'static> {
        ObjectKind::new(API_VERSION, KIND)
    }

    fn tracked(&self, call: &Call, object: &Value) -> Result<Value, ApiError> {
        tracked_view(call, object)
    }

    fn shown(&self, call: &Call, object: &Value) -> Result<Value, ApiError> {
        view_or_zero(call, object)
    }

    fn put_into(&self, call: &Call, scale: &Value, old: &Value) -> Result<Value, ApiError> {
        scaled(call, scale, old)
    }
}

/// Replaces the scale of an object.
pub(crate) async fn put(call: &Call, bytes: &Bytes) -> Result<Reply, ApiError> {
    let options = WriteOptions::read(&call.query, WriteKind::Update)?;
    let is_custom = call.served.is_custom();
    let decoded = as_scale(call)?.decode(bytes, options.field_validation);
    let mut scale = decoded.map_err(|error| if is_custom { undecodable(error) } else { error })?;
    check_identity(call, &mut scale)?;
    write(call, &options, |call, _, old| {
        update::check_uid(call, &scale, old)?;
        Ok(scale.clone())
    })
    .await
}

/// Patches the scale of an object.
pub(crate) async fn patch(call: &Call, bytes: &Bytes) -> Result<Reply, ApiError> {
    let kind = patch::PatchType::of(call)?;
    let options = WriteOptions::read(&call.query, kind.write())?;
    if kind == patch::PatchType::Apply {
        return apply(call, bytes, &options).await;
    }
    // A missing object is reported before an unreadable patch.
    let patch = patch::Patch::read(kind, bytes, options.field_validation);
    let of_scale = as_scale(call)?;
    write(call, &options, |call, before, _| {
        let patch = patch.as_ref().map_err(Clone::clone)?;
        let mut scale = patch.apply(&of_scale.served, before)?;
        let package = (!call.served.is_custom()).then_some("autoscaling");
        patch::check_type(&of_scale, &scale, patch, package, options.field_validation)?;
        patch::conform(&of_scale, before, &mut scale, patch, options.field_validation)?;
        check_identity(call, &mut scale)?;
        Ok(scale)
    })
    .await
}

/// Returns the request as if its path belonged to `Scale`.
fn as_scale(call: &Call) -> Result<Call, ApiError> {
    let schema = schema::schema_of_kind(API_VERSION, KIND);
    let schema = schema.ok_or_else(|| ApiError::internal("no schema of scales"))?;
    Ok(call.of_kind(API_VERSION, KIND, schema))
}

/// Compares namespace and name in the body with those in the URL.
fn check_identity(call: &Call, scale: &mut Value) -> Result<(), ApiError> {
    object_meta::reconcile_namespace(&call.served, &call.path.namespace, scale)?;
    update::check_name(call, scale)
}

/// Replaces decoding errors for scales of custom objects by kube-apiserver's message, which does not name the expected type.
fn undecodable(error: ApiError) -> ApiError {
    let is_of_decoder = ["cannot be handled as a", "the object provided is unrecognized"]
        .iter()
        .any(|words| error.message().contains(words));
    if !is_of_decoder {
        return error;
    }
    let why = "no kind is registered for the type v1.Scale in scheme \"pkg/runtime/scheme.go:111\"";
    ApiError::bad_request(why)
}

/// Applies a scale. The applier then owns the replicas of the object.
async fn apply(call: &Call, bytes: &Bytes, options: &WriteOptions) -> Result<Reply, ApiError> {
    let of_scale = as_scale(call)?;
    // A missing object is reported before an unreadable configuration.
    let configuration = patch::read_configuration(&of_scale, bytes);
    let manager = call.manager(options);
    let on_conflict = options.on_conflict;
    let is_custom = call.served.is_custom();
    let changed = update::change(call, options, UpdateReview::Part(&Scale), |call, old| {
        let (applied, strict) = configuration.as_ref().map_err(Clone::clone)?;
        let before = tracked_view(call, old)?;
        if is_custom && before["metadata"].get("managedFields").is_none() {
            let what = "failed to create manager for existing fields: failed to convert live object";
            return Err(not_converted(what, "/; autoscaling/v1, Kind=Scale"));
        }
        let now = call.cluster.clock.now_seconds();
        let (schema, live) = (&of_scale.served.schema, Some(&before));
        let writer =
            Writer { manager: &manager, subresource: SUBRESOURCE, api_version: API_VERSION, now: &now };
        let mut scale = if is_custom {
            let convert = |merged: &mut Value| convert_custom(applied, &before, merged);
            managed_fields::apply_and(schema, live, applied, &writer, on_conflict, &[], convert)
        } else {
            managed_fields::apply(schema, live, applied, &writer, on_conflict, &[])
        }?;
        if !is_custom {
            // Webhooks receive Go's form: no replicas are an absent field.
            of_scale.served.conform(&mut scale);
        }
        strict.report(call, options.field_validation)?;
        check_identity(call, &mut scale)?;
        Ok(RequestedState::new(scale, Ownership::Applied))
    })
    .await?;
    answer(call, &changed)
}

/// Accepts a merged scale only if the merge changed nothing.
fn convert_custom(applied: &Value, before: &Value, merged: &Value) -> Result<(), ApiError> {
    let mut untracked = before.clone();
    metadata::of(&mut untracked).remove("managedFields");
    if *merged == untracked {
        return Ok(());
    }
    Err(not_converted("failed to convert new object", &managed_fields::describe(applied)))
}

/// Builds kube-apiserver's error for custom objects: it cannot convert a merged value to a scale.
fn not_converted(what: &str, object: &str) -> ApiError {
    ApiError::internal(format!(
        "{what} ({object}) to proper version: request to convert CR to an invalid group/version: autoscaling/v1"
    ))
}

/// Writes the scale that `wanted` computes from the current scale and the object.
async fn write(
    call: &Call,
    options: &WriteOptions,
    mut wanted: impl FnMut(&Call, &Value, &Value) -> Result<Value, ApiError>,
) -> Result<Reply, ApiError> {
    let manager = call.manager(options);
    let of_scale = as_scale(call)?;
    let changed = update::change(call, options, UpdateReview::Part(&Scale), |call, old| {
        let before = tracked_view(call, old)?;
        let mut scale = wanted(call, &before, old)?;
        let now = call.cluster.clock.now_seconds();
        let writer =
            Writer { manager: &manager, subresource: SUBRESOURCE, api_version: API_VERSION, now: &now };
        managed_fields::track_update(&of_scale.served.schema, Some(&before), &mut scale, &writer, &[]);
        // The ownership of the object follows from that of the scale.
        Ok(RequestedState::new(scale, Ownership::Applied))
    })
    .await?;
    answer(call, &changed)
}

/// Validates a new scale and returns the object with its replicas.
fn scaled(call: &Call, scale: &Value, old: &Value) -> Result<Value, ApiError> {
    let paths = paths(call)?;
    // Absent replicas are zero in Go.
    let replicas = scale["spec"].get("replicas").and_then(Value::as_i64).unwrap_or(0);
    validate(call, scale, replicas)?;
    let (uid, actual) = (metadata::text(scale, "uid"), metadata::text(old, "uid"));
    if !call.served.is_custom() && !uid.is_empty() && uid != actual {
        let resource = &call.served.resource;
        let what = format!("{}/scale", resource.plural);
        let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {actual}");
        return Err(ApiError::conflict(&resource.group, &what, &call.path.name, &why));
    }
    let mut new = old.clone();
    set(&mut new, &paths.spec_replicas, json!(replicas));
    let served = &call.served;
    if served.is_custom() && !served.converts_writes() && !served.is_stored_in_another_version() {
        // The path may have been absent, so that its parents have no defaults yet. A reader would set them, those of the stored version.
        served.schema.default_applied(&mut new);
    }
    managed_fields::scale::take_over(&mut new, &paths.spec_replicas, &call.served.kind.api_version, scale);
    // `new` still has the resource version of `old`, which requires nothing. The version in the scale replaces it.
    require_revision(&mut new, scale);
    Ok(new)
}

/// Validates a scale of a builtin object. A custom object is validated with its new number of replicas.
fn validate(call: &Call, scale: &Value, replicas: i64) -> Result<(), ApiError> {
    if call.served.is_custom() {
        return Ok(());
    }
    let mut errors = object_meta::validate(&as_scale(call)?.served, scale);
    if replicas < 0 {
        let why = "must be greater than or equal to 0";
        errors.push(FieldError::invalid("spec.replicas", &replicas.to_string(), why));
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid("autoscaling", KIND, &call.path.name, errors))
}

/// A resource version in the scale is a precondition of the write.
fn require_revision(new: &mut Value, scale: &Value) {
    let version = metadata::text(scale, "resourceVersion");
    if !version.is_empty() {
        metadata::of(new).insert("resourceVersion".to_owned(), json!(version));
    }
}

fn answer(call: &Call, changed: &Changed) -> Result<Reply, ApiError> {
    let object = match changed {
        Changed::Stored(stored) => call.served.value(stored),
        Changed::Value(value) => value.clone(),
    };
    show(call, view(call, &object)?)
}

/// Responds with a scale. As a table it has the columns of `Scale`, not those of the object.
fn show(call: &Call, scale: Value) -> Result<Reply, ApiError> {
    if call.accept.view == View::Table {
        let columns = builtin::scale_columns(call.served.is_custom());
        let resource = Resource { columns, ..Resource::clone(&call.served.resource) };
        return reply::table(call, &resource, &scale);
    }
    reply::object(call, 200, scale)
}

fn paths(call: &Call) -> Result<Arc<ScalePaths>, ApiError> {
    call.served.resource.scale.clone().map(Arc::new).ok_or_else(|| call.not_found())
}

/// Returns the object as a `Scale`.
fn view(call: &Call, object: &Value) -> Result<Value, ApiError> {
    let paths = paths(call)?;
    if call.served.is_custom() && find(object, &paths.spec_replicas).is_none() {
        let path = paths.spec_replicas.join(".");
        return Err(ApiError::internal_error(&format!("the spec replicas field \".{path}\" does not exist")));
    }
    view_or_zero(call, object)
}

/// Like [`view`], but with `managedFields`, for writes.
fn tracked_view(call: &Call, object: &Value) -> Result<Value, ApiError> {
    let mut scale = view_or_zero(call, object)?;
    let entries = managed_fields::scale::entries_of_scale(object, &paths(call)?.spec_replicas);
    if let Some(entries) = entries {
        metadata::of(&mut scale).insert("managedFields".to_owned(), entries);
    }
    Ok(scale)
}

fn view_or_zero(call: &Call, object: &Value) -> Result<Value, ApiError> {
    let paths = paths(call)?;
    let mut shown = serde_json::Map::new();
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object["metadata"].get(field) {
            shown.insert(field.to_owned(), value.clone());
        }
    }
    let number = |path: &[String]| find(object, path).and_then(Value::as_i64).unwrap_or(0);
    let replicas = number(&paths.spec_replicas);
    let mut spec = json!({});
    if replicas != 0 {
        spec["replicas"] = json!(replicas);
    }
    let mut status = json!({"replicas": number(&paths.status_replicas)});
    let selector = paths.selector.as_ref().and_then(|path| find(object, path));
    let selector = match selector {
        Some(Value::String(text)) => text.clone(),
        Some(labels) if paths.selector_form == SelectorForm::Labels => {
            selector::label_selector_text(&json!({"matchLabels": labels}))
        }
        Some(selector) => selector::label_selector_text(selector),
        None => String::new(),
    };
    if !selector.is_empty() {
        status["selector"] = json!(selector);
    }
    Ok(json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": shown, "spec": spec, "status": status,
    }))
}

fn find<'a>(object: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, key| value.get(key))
}

fn set(object: &mut Value, path: &[String], value: Value) {
    let Some((last, parents)) = path.split_last() else {
        return;
    };
    let mut place = object;
    for key in parents {
        if !place.get(key).is_some_and(Value::is_object) {
            match place.as_object_mut() {
                Some(fields) => fields.insert(key.clone(), json!({})),
                None => return,
            };
        }
        place = &mut place[key];
    }
    place[last] = value;
}
