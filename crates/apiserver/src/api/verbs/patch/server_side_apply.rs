//! Server-side apply: reads a configuration, merges it into the object, and creates the object if it does not exist.

use bytes::Bytes;
use kube_apimachinery::go;
use kube_apimachinery::managed_fields::{self, OnConflict, Writer};
use kube_apimachinery::metadata;
use kube_apimachinery::status::ApiError;
use kube_apimachinery::yaml;
use serde_json::{Map, Value, json};

use crate::api::verbs::empty_parts::EmptyParts;
use crate::api::verbs::reply::Reply;
use crate::api::verbs::update::{self, Ownership, RequestedState, UpdateReview};
use crate::api::verbs::{Call, RETRIES, create, object_meta, require_name};
use crate::request::query::{FieldValidation, WriteOptions};

/// Runs a server-side apply.
pub(super) async fn apply(call: &Call, bytes: &Bytes, options: &WriteOptions) -> Result<Reply, ApiError> {
    require_name(&call.path.name)?;
    // Errors about the configuration come after that of a webhook that fails to convert the object.
    let configuration = read_applied(call, bytes);
    let manager = call.manager(options);
    let on_conflict = options.on_conflict;
    // Like a PUT, an apply to `/status` creates objects of some kinds.
    let creates = match call.path.subresource.as_str() {
        "" => true,
        "status" => {
            let rules = &call.served.resource.rules;
            rules.create_on_update || rules.create_on_status_apply
        }
        _ => false,
    };
    for _ in 0..RETRIES {
        let exists = call.cluster.read(|store| store.get(call.served.storage(), &call.key()).is_some());
        let outcome = if exists {
            let changed = update::change(call, options, UpdateReview::Object, |call, old| {
                let (applied, strict) = configuration.as_ref().map_err(Clone::clone)?;
                let mut object = merge(call, Some(old), applied, &manager, on_conflict)?;
                check_conversion(call, applied, &object)?;
                strict.report(call, options.field_validation)?;
                check_place(call, &mut object)?;
                let empty = EmptyParts::of(&call.served, &object);
                // An apply without changes adds no defaults, not even those of a version that the stored object does not have.
                if !are_equal_beside_entries(old, &object) {
                    call.served.conform_applied(&mut object);
                }
                Ok(RequestedState { object, ownership: Ownership::Applied, empty })
            })
            .await;
            changed.and_then(|changed| changed.reply(call))
        } else if creates {
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
    let empty = EmptyParts::of(&call.served, &object);
    call.served.conform_applied(&mut object);
    let wanted = RequestedState { object, ownership: Ownership::Applied, empty };
    create::create(call, wanted, options).await?.reply(call, 201)
}

/// Whether two objects differ in `metadata.managedFields` at most.
fn are_equal_beside_entries(one: &Value, other: &Value) -> bool {
    let (Some(one), Some(other)) = (one.as_object(), other.as_object()) else { return false };
    are_equal_without(one, other, "metadata")
        && match (one.get("metadata"), other.get("metadata")) {
            (Some(Value::Object(one)), Some(Value::Object(other))) => {
                are_equal_without(one, other, "managedFields")
            }
            (one, other) => one == other,
        }
}

fn are_equal_without(one: &Map<String, Value>, other: &Map<String, Value>, left_out: &str) -> bool {
    let count = |fields: &Map<String, Value>| fields.len() - usize::from(fields.contains_key(left_out));
    let mut fields = one.iter().filter(|(name, _)| *name != left_out);
    count(one) == count(other) && fields.all(|(name, value)| other.get(name) == Some(value))
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
pub(in crate::api::verbs) struct StrictErrors(Vec<String>);

impl StrictErrors {
    /// Reports the errors as `fieldValidation` asks. kube-apiserver does so after the merge, which may fail for another reason.
    pub(in crate::api::verbs) fn report(
        &self,
        call: &Call,
        validation: FieldValidation,
    ) -> Result<(), ApiError> {
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
pub(in crate::api::verbs) fn read_configuration(
    call: &Call,
    bytes: &Bytes,
) -> Result<(Value, StrictErrors), ApiError> {
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
        None => match call.served.version_schemas() {
            Some(schemas) => {
                managed_fields::apply_across(schemas, live, applied, &writer, on_conflict, reset)
            }
            None => managed_fields::apply(&call.served.schema, live, applied, &writer, on_conflict, reset),
        },
    }
}
