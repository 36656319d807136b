//! `/scale`: the number of replicas of an object, as an `autoscaling/v1` `Scale`.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use super::reply::{self, Reply};
use super::update::{self, Changed, Ownership};
use super::{Call, metadata, patch};
use crate::builtin;
use crate::managed_fields::{self, Writer};
use crate::request::query::WriteOptions;
use crate::resource::ScalePaths;
use crate::status::{ApiError, FieldError};

const API_VERSION: &str = "autoscaling/v1";
const KIND: &str = "Scale";

/// Answers the scale of an object.
pub(crate) fn get(call: &Call) -> Result<Reply, ApiError> {
    let stored = call.server.read(|store| store.get(call.served.storage(), &call.key()).cloned());
    let stored = stored.ok_or_else(|| call.not_found())?;
    let scale = view(call, &call.served.value(&stored))?;
    reply::object(call, 200, scale)
}

/// Replaces the scale of an object.
pub(crate) async fn put(call: &mut Call, bytes: &Bytes) -> Result<Reply, ApiError> {
    let options = WriteOptions::read(&call.query, "UpdateOptions", false)?;
    let mut scale = as_scale(call, |call| call.decode(bytes, options.field_validation))?;
    check_identity(call, &mut scale)?;
    write(call, &options, |call, old| {
        update::check_uid(call, &scale, old)?;
        Ok(scale.clone())
    })
    .await
}

/// Patches the scale of an object.
pub(crate) async fn patch(call: &mut Call, bytes: &Bytes) -> Result<Reply, ApiError> {
    let kind = patch::Kind::of(call)?;
    let options = WriteOptions::read(&call.query, "PatchOptions", kind == patch::Kind::Apply)?;
    if kind == patch::Kind::Apply {
        return apply(call, bytes, &options).await;
    }
    let patch = patch::Patch::read(kind, bytes)?;
    write(call, &options, |call, old| {
        let old = view_or_zero(call, old)?;
        let mut scale = as_scale(call, |call| {
            let mut scale = patch.apply(&call.served, &old)?;
            patch::conform(call, &mut scale, &patch, options.field_validation)?;
            Ok(scale)
        })?;
        check_identity(call, &mut scale)?;
        Ok(scale)
    })
    .await
}

/// Does something as if the path were one of scales.
fn as_scale<R>(call: &mut Call, act: impl FnOnce(&mut Call) -> Result<R, ApiError>) -> Result<R, ApiError> {
    let schema = builtin::schema_of_kind(API_VERSION, KIND);
    let schema = schema.ok_or_else(|| ApiError::internal("no schema of scales"))?;
    call.as_another(API_VERSION, KIND, schema, act)
}

/// The name and the namespace in the body against those in the URL.
fn check_identity(call: &Call, scale: &mut Value) -> Result<(), ApiError> {
    update::check_name(call, scale)?;
    metadata::reconcile_namespace(&call.served, &call.path.namespace, scale)
}

/// Applies a scale: the replicas of the object belong to the applier from then on.
async fn apply(call: &mut Call, bytes: &Bytes, options: &WriteOptions) -> Result<Reply, ApiError> {
    let applied = as_scale(call, |call| patch::read_applied(call, bytes, options.field_validation))?;
    let manager = call.manager(options);
    let force = options.force.unwrap_or(false);
    let paths = paths(call)?;
    let changed = update::change(call, options, |call, old| {
        as_scale(call, |call| managed_fields::check_applied(&call.served.schema, &applied))?;
        let mut configuration = json!({
            "apiVersion": call.served.kind.api_version, "kind": call.served.kind.kind,
            "metadata": {"name": call.path.name},
        });
        if let Some(replicas) = applied.get("spec").and_then(|spec| spec.get("replicas")) {
            set(&mut configuration, &paths.spec_replicas, replicas.clone());
        }
        let now = call.server.clock.now_seconds();
        let writer = Writer {
            manager: &manager,
            subresource: "scale",
            api_version: &call.served.kind.api_version,
            now: &now,
        };
        let mut new =
            managed_fields::apply(&call.served.schema, Some(old), &configuration, &writer, force, &[])?;
        if call.served.is_custom() {
            if find(old, &paths.spec_replicas) != find(&new, &paths.spec_replicas) {
                // kube-apiserver cannot turn what it merged back into an object of the definition.
                return Err(ApiError::internal(format!(
                    "failed to convert new object ({}) to proper version: request to convert CR to an invalid \
                     group/version: autoscaling/v1",
                    managed_fields::describe(&applied)
                )));
            }
            require_revision(&mut new, &applied);
            return Ok((new, Ownership::Applied));
        }
        // The scale that comes of it is a value of Go's: replicas that nobody gives any more are none.
        let replicas = find(&new, &paths.spec_replicas).and_then(Value::as_i64).unwrap_or(0);
        write_scale(call, &paths, &applied, &json!(replicas), old, &mut new)?;
        Ok((new, Ownership::Applied))
    })
    .await?;
    answer(call, &changed)
}

async fn write(
    call: &mut Call,
    options: &WriteOptions,
    mut wanted: impl FnMut(&mut Call, &Value) -> Result<Value, ApiError>,
) -> Result<Reply, ApiError> {
    let paths = paths(call)?;
    let changed = update::change(call, options, |call, old| {
        let scale = wanted(call, old)?;
        // It was decoded, and zero is left out.
        let replicas = scale["spec"].get("replicas").cloned().unwrap_or_else(|| json!(0));
        let mut new = old.clone();
        write_scale(call, &paths, &scale, &replicas, old, &mut new)?;
        Ok((new, Ownership::Tracked))
    })
    .await?;
    answer(call, &changed)
}

/// Writes what a scale says into the object, after checking it.
fn write_scale(
    call: &Call,
    paths: &ScalePaths,
    scale: &Value,
    replicas: &Value,
    old: &Value,
    new: &mut Value,
) -> Result<(), ApiError> {
    if replicas.as_i64().is_some_and(|replicas| replicas < 0) {
        return Err(negative(call, replicas));
    }
    let (uid, actual) = (metadata::text(scale, "uid"), metadata::text(old, "uid"));
    if !call.served.is_custom() && !uid.is_empty() && uid != actual {
        let resource = &call.served.resource;
        let what = format!("{}/scale", resource.plural);
        let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {actual}");
        return Err(ApiError::conflict(&resource.group, &what, &call.path.name, &why));
    }
    set(new, &paths.spec_replicas, replicas.clone());
    require_revision(new, scale);
    Ok(())
}

/// A revision in the scale is a precondition of the write.
fn require_revision(new: &mut Value, scale: &Value) {
    let version = metadata::text(scale, "resourceVersion");
    if !version.is_empty() {
        metadata::of(new).insert("resourceVersion".to_owned(), json!(version));
    }
}

fn negative(call: &Call, replicas: &Value) -> ApiError {
    if call.served.is_custom() {
        let field =
            format!(".{}", paths(call).map(|paths| paths.spec_replicas.join(".")).unwrap_or_default());
        let error = FieldError::invalid(field, &replicas.to_string(), "should be a non-negative integer");
        return call.invalid(&call.path.name.clone(), vec![error]);
    }
    let error =
        FieldError::invalid("spec.replicas", &replicas.to_string(), "must be greater than or equal to 0");
    ApiError::invalid("autoscaling", "Scale", &call.path.name, vec![error])
}

fn answer(call: &Call, changed: &Changed) -> Result<Reply, ApiError> {
    let object = match changed {
        Changed::Stored(stored) => call.served.value(stored),
        Changed::Value(value) => value.clone(),
    };
    reply::object(call, 200, view(call, &object)?)
}

fn paths(call: &Call) -> Result<Arc<ScalePaths>, ApiError> {
    call.served.resource.scale.clone().map(Arc::new).ok_or_else(|| call.not_found())
}

/// The object as a `Scale`.
fn view(call: &Call, object: &Value) -> Result<Value, ApiError> {
    let paths = paths(call)?;
    if call.served.is_custom() && find(object, &paths.spec_replicas).is_none() {
        let path = paths.spec_replicas.join(".");
        return Err(ApiError::internal_error(&format!("the spec replicas field \".{path}\" does not exist")));
    }
    view_or_zero(call, object)
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
        Some(labels) if call.served.kind.kind == "ReplicationController" => {
            crate::selector::label_selector_text(&json!({"matchLabels": labels}))
        }
        Some(selector) => crate::selector::label_selector_text(selector),
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
