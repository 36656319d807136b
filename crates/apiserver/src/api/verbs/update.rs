//! PUT, and the retry loop for all changes of existing objects.

use std::sync::Arc;

use bytes::Bytes;
use kube_apimachinery::go_struct;
use kube_apimachinery::managed_fields::{self, Writer};
use kube_apimachinery::metadata::{self, OwnersFrom};
use kube_apimachinery::status::{ApiError, FieldError};
use serde_json::{Value, json};

use super::empty_parts::{self, EmptyParts};
use super::reply::{self, Reply};
use super::{Call, RETRIES, create, object_meta, require_name};
use crate::api::admission::{Attributes, ObjectKind, OperationOptions};
use crate::kind::registry::ServedKind;
use crate::kind::resource::StorageKey;
use crate::kinds::builtin::service::pool::AllocationMode;
use crate::request::query::{WriteKind, WriteOptions, parse_uint};
use crate::state::writer;
use crate::state::{Refused, Reservation};
use crate::store::{Change, Store, Stored};

/// New state of an object, as a request asks for it.
pub(crate) struct RequestedState {
    pub(crate) object: Value,
    pub(crate) ownership: Ownership,
    /// Empty lists and maps that the decoder of `object` removed.
    pub(crate) empty: EmptyParts,
}

impl RequestedState {
    /// Returns a state without empty lists and maps.
    pub(crate) fn new(object: Value, ownership: Ownership) -> Self {
        Self { object, ownership, empty: EmptyParts::default() }
    }
}

/// Ownership of the fields of the new object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ownership {
    /// The field manager of this request owns the fields that it changed, and the lists that [`EmptyParts`] names.
    Tracked,
    /// `managedFields` is complete: it was computed by server-side apply.
    Applied,
}

/// Result of [`change`].
pub(crate) enum Changed {
    /// The object is stored. The write has stored it, or has changed nothing.
    Stored(Arc<Stored>),
    /// The object is not stored: in a dry run, or because the change completed its deletion.
    Value(Value),
}

impl Changed {
    pub(crate) fn reply(&self, call: &Call) -> Result<Reply, ApiError> {
        match self {
            Self::Stored(stored) => reply::stored(call, 200, stored),
            Self::Value(value) => reply::object(call, 200, value.clone()),
        }
    }
}

/// Form in which admission plugins receive an update.
#[derive(Clone, Copy)]
pub(crate) enum UpdateReview<'a> {
    /// The object itself.
    Object,
    /// A part of the object that has a kind of its own: `Scale`.
    Part(&'a dyn Part),
    /// Not reviewed: the write carries out a request that has been reviewed.
    Before,
}

/// Part of an object that a subresource reads and writes as an object of another kind.
pub(crate) trait Part: Sync {
    /// Returns the kind of the part.
    fn kind(&self) -> ObjectKind<'static>;

    /// Returns the part before a write, with its `managedFields`.
    fn tracked(&self, call: &Call, object: &Value) -> Result<Value, ApiError>;

    /// Returns the part in the form that clients receive.
    fn shown(&self, call: &Call, object: &Value) -> Result<Value, ApiError>;

    /// Validates the part, and returns the object with the part written into it.
    fn put_into(&self, call: &Call, part: &Value, old: &Value) -> Result<Value, ApiError>;
}

/// Replaces an object by the object in the body.
pub(crate) async fn run(call: &Call, body: &Bytes) -> Result<Reply, ApiError> {
    let options = WriteOptions::read(&call.query, WriteKind::Update)?;
    let (mut object, empty) = call.decode_tracked(body, options.field_validation)?;
    let served = &call.served;
    object_meta::reconcile_namespace(served, &call.path.namespace, &mut object)?;
    check_name(call, &object)?;
    deduplicate_owners(call, &mut object, OwnersFrom::Request);
    let exists = call.cluster.read(|store| store.get(served.storage(), &call.key()).is_some());
    // `/status` has the rules of its kind, so that it creates objects too.
    let creates = served.resource.rules.create_on_update && ["", "status"].contains(&&*call.path.subresource);
    if !exists && creates {
        check_uid(call, &object, &Value::Null)?;
        require_name(&call.path.name)?;
        let wanted = RequestedState { object, ownership: Ownership::Tracked, empty };
        return create::create(call, wanted, &options).await?.reply(call, 201);
    }
    let changed = change(call, &options, UpdateReview::Object, |call, old| {
        check_uid(call, &object, old)?;
        Ok(RequestedState { object: object.clone(), ownership: Ownership::Tracked, empty: empty.clone() })
    })
    .await?;
    changed.reply(call)
}

/// Removes duplicate owner references, and warns about them.
pub(crate) fn deduplicate_owners(call: &Call, object: &mut Value, from: OwnersFrom) {
    if let Some(warning) = metadata::deduplicate_owners(object, from) {
        call.warn(warning);
    }
}

/// Checks the UID in the body of a PUT. It is a precondition.
pub(crate) fn check_uid(call: &Call, object: &Value, old: &Value) -> Result<(), ApiError> {
    let (uid, actual) = (metadata::text(object, "uid"), metadata::text(old, "uid"));
    if uid.is_empty() || uid == actual {
        return Ok(());
    }
    Err(failed_precondition(call, "UID", uid, actual))
}

/// Builds the error of the storage for a precondition that fails; `name` is that of the compared metadata.
pub(super) fn failed_precondition(call: &Call, name: &str, wanted: &str, actual: &str) -> ApiError {
    // A dry run ends before the storage adds its own prefix.
    let root = if call.query.text("dryRun").is_empty() { "/registry" } else { "" };
    call.conflict(&format!(
        "StorageError: invalid object, Code: 4, Key: {root}/{}/{}, ResourceVersion: 0, AdditionalErrorMsg: \
         Precondition failed: {name} in precondition: {wanted}, {name} in object meta: {actual}",
        storage_prefix(&call.served),
        call.key().as_str()
    ))
}

/// Returns the prefix of an object's key in etcd.
fn storage_prefix(served: &ServedKind) -> String {
    let StorageKey { group, plural } = served.storage();
    let (group, plural) = (&**group, &**plural);
    match (group, plural) {
        ("", "replicationcontrollers") => "controllers".to_owned(),
        ("", "endpoints") => "services/endpoints".to_owned(),
        ("", "nodes") => "minions".to_owned(),
        ("", "services") => "services/specs".to_owned(),
        ("networking.k8s.io", "ingresses") => "ingress".to_owned(),
        // These groups, and custom kinds, have storages of their own.
        ("apiextensions.k8s.io" | "apiregistration.k8s.io", _) => format!("{group}/{plural}"),
        _ if served.is_custom() => format!("{group}/{plural}"),
        _ => plural.to_owned(),
    }
}

/// Compares the name in the body with that in the URL.
pub(crate) fn check_name(call: &Call, object: &Value) -> Result<(), ApiError> {
    let (name, url) = (metadata::text(object, "name"), &call.path.name);
    if name.is_empty() {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({url} based on URL) was undeterminable: name must be provided"
        )));
    }
    if name != url {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({url})"
        )));
    }
    Ok(())
}

/// Reads the object and lets `transform` compute the new state, of the object or of its reviewed part. Then reviews, validates and stores
/// it. Starts again if the object changed meanwhile, at most [`RETRIES`] times.
pub(crate) async fn change(
    call: &Call,
    options: &WriteOptions,
    reviewed: UpdateReview<'_>,
    mut transform: impl FnMut(&Call, &Value) -> Result<RequestedState, ApiError>,
) -> Result<Changed, ApiError> {
    let (admission, served) = (&call.context.admission, &call.served);
    let key = call.key();
    for _ in 0..RETRIES {
        // The commit below requires this revision. After a concurrent write it fails, and the next round starts from the newer object.
        let stored = call.cluster.read(|store| store.get(served.storage(), &key).cloned());
        let stored = stored.ok_or_else(|| call.not_found())?;
        let shown = call.converted(Arc::clone(&stored)).await?;
        let old = call.cluster.recent.take(served, &key, &shown).unwrap_or_else(|| served.value(&shown));
        // A dry run starts from the storage.
        let cached = if options.dry_run { None } else { call.convert_cached(&old).await? };
        let wanted = call.with_conversions(|| transform(call, &old)).await?;
        let RequestedState { object: mut new, ownership, mut empty } = wanted;
        // Ownership is tracked before plugins and the kind set other fields, which have no owner.
        if ownership == Ownership::Tracked {
            track(call, Some(&old), &mut new, options, &call.path.subresource).await;
            track_emptied(call, &empty, &mut new, options);
        }
        let operation = OperationOptions::Update(options);
        mutate(call, operation, reviewed, &old, &mut new, &mut empty).await?;
        // Plugins may have changed the permissions that a role or binding grants.
        call.check_escalation(Some(&old), &new)?;
        // Checked only here, because a patch may set `resourceVersion`.
        check_revision(call, stored.revision, &new)?;
        let asks_validators = matches!(reviewed, UpdateReview::Object)
            && !served.is_custom()
            && admission.asks_validators(&call.attributes(operation, Some(&old)));
        // The response to a completed deletion has the empty lists of the request too: the object is not read back.
        let is_shown = !served.is_custom() && metadata::is_terminating(&old);
        let typed = (asks_validators || is_shown).then(|| new.clone());
        let mode = if options.dry_run { AllocationMode::DryRun } else { AllocationMode::Reserve };
        // Addresses and ports of a Service stay reserved until the commit, or the end of a dry run.
        let _reserved = prepare(call, &old, &mut new, empty, mode)?;
        // After `prepare`, because the comparison includes the fields that it restores.
        managed_fields::keep_times_of_no_op(&old, &mut new);
        review(call, operation, reviewed, &old, &new, typed.as_ref()).await?;
        // For builtin kinds `prepare` has done this, because its result is compared with the stored state.
        let differs = served.is_custom()
            && create::prepare_storage(call, &call.attributes(operation, Some(&old)), &mut new);
        let gone = completes_deletion(served, &new);
        if !options.dry_run && !gone {
            // The storage drops `selfLink`. Dry runs, webhooks and the response to a completed deletion contain it.
            metadata::of(&mut new).remove("selfLink");
        }
        let is_wanted = served.is_stored_as_wanted(&stored);
        let document = call.document(&new).await?;
        let document = if differs { document.differing() } else { document };
        // As in kube-apiserver, texts are compared, because the new text may have defaults that were not stored yet. The text of a custom
        // object must also equal that of its decoded former state, which lacks nulls and empty metadata.
        let is_unchanged = || {
            let encoded = || cached.unwrap_or_else(|| served.document(&old));
            !served.is_custom() || document.same(&encoded())
        };
        if !gone && document.same(&stored.document) && is_wanted && is_unchanged() {
            // Nothing was stored, so this is still the value of the stored object.
            call.cluster.recent.put(served, &key, &shown, old);
            return Ok(Changed::Stored(shown));
        }
        if gone && let Some(typed) = &typed {
            go_struct::recall_empty(typed, &mut new);
        }
        if options.dry_run {
            // A completed deletion responds with the object before it would be stored, as without a dry run.
            let shown = if gone { new } else { call.dry_run(new).await? };
            return Ok(Changed::Value(shown));
        }
        let change = if gone { Change::Delete } else { Change::Put(document) };
        let recheck = |store: &Store<StorageKey>| match reviewed {
            UpdateReview::Object => admission.recheck(&call.attributes(operation, Some(&old)), &new, store),
            UpdateReview::Part(_) | UpdateReview::Before => Ok(Vec::new()),
        };
        let commit = call.cluster.commit_with(served.storage(), &key, Some(stored.revision), change, recheck);
        match commit {
            Ok(event) => {
                return Ok(match &event.after {
                    Some(stored) => {
                        call.cluster.recent.put(served, &key, stored, new);
                        Changed::Stored(call.converted(Arc::clone(stored)).await?)
                    }
                    // The commit deleted the object: respond with its last state.
                    None => Changed::Value(new),
                });
            }
            Err(Refused::Conflict) => {}
            Err(Refused::Because(error)) => return Err(error),
        }
    }
    Err(call.modified())
}

/// Lets plugins change the new state of an object, or of its reviewed part.
async fn mutate(
    call: &Call,
    operation: OperationOptions<'_>,
    reviewed: UpdateReview<'_>,
    old: &Value,
    new: &mut Value,
    empty: &mut EmptyParts,
) -> Result<(), ApiError> {
    let admission = &call.context.admission;
    match reviewed {
        UpdateReview::Object => {
            if admission.mutate(&call.attributes(operation, Some(old)), Some(&mut *new)).await? {
                // The object was encoded for the webhook or policy and decoded again; the encoding omits most empty lists and maps.
                *empty = EmptyParts::of(&call.served, new);
            }
            deduplicate_owners(call, new, OwnersFrom::Admission);
        }
        UpdateReview::Part(part) => {
            let before = part.tracked(call, old)?;
            let attributes = Attributes { kind: part.kind(), ..call.attributes(operation, Some(&before)) };
            admission.mutate(&attributes, Some(&mut *new)).await?;
            *new = part.put_into(call, new, old)?;
        }
        UpdateReview::Before => {}
    }
    Ok(())
}

/// Lets plugins validate the new state of an object, or of its reviewed part. `typed` is the state with the empty lists of the request, if
/// validators or the response need it.
async fn review(
    call: &Call,
    operation: OperationOptions<'_>,
    reviewed: UpdateReview<'_>,
    old: &Value,
    new: &Value,
    typed: Option<&Value>,
) -> Result<(), ApiError> {
    let admission = &call.context.admission;
    match reviewed {
        UpdateReview::Object => {
            // Webhooks and policies see the empty lists, which are stored as null.
            let seen = typed.map(|typed| {
                let mut seen = new.clone();
                go_struct::recall_empty(typed, &mut seen);
                seen
            });
            let attributes = call.attributes(operation, Some(old));
            admission.validate(&attributes, Some(seen.as_ref().unwrap_or(new))).await
        }
        UpdateReview::Part(part) => {
            let (before, after) = (part.shown(call, old)?, part.shown(call, new)?);
            let attributes = Attributes { kind: part.kind(), ..call.attributes(operation, Some(&before)) };
            admission.validate(&attributes, Some(&after)).await
        }
        UpdateReview::Before => Ok(()),
    }
}

/// Whether a write completes a deletion: it removed the last finalizer, and the grace period is over.
fn completes_deletion(served: &ServedKind, new: &Value) -> bool {
    metadata::is_terminating(new)
        && metadata::finalizers(new).is_empty()
        && new["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) == 0
        && served.strategy.deletable(new)
}

/// Returns `metadata.resourceVersion` as a number; 0 if it is absent.
///
/// # Errors
/// 500 for a text that is not a number.
pub(crate) fn wanted_revision(object: &Value) -> Result<u64, ApiError> {
    let text = metadata::text(object, "resourceVersion");
    if text.is_empty() { Ok(0) } else { parse_uint(text).map_err(ApiError::internal) }
}

/// Checks `metadata.resourceVersion` of the new object. It is a precondition.
pub(super) fn check_revision(call: &Call, stored: u64, new: &Value) -> Result<(), ApiError> {
    match wanted_revision(new)? {
        wanted if wanted == stored => Ok(()),
        1.. => Err(call.modified()),
        // The request names no revision, so it may replace any.
        _ if call.served.resource.rules.unconditional_update => Ok(()),
        _ => {
            let resource = &call.served.resource;
            let error =
                FieldError::invalid("metadata.resourceVersion", "0", "must be specified for an update");
            Err(ApiError::invalid(&resource.storage.group, &resource.plural, &call.path.name, vec![error]))
        }
    }
}

/// Restores the parts that this request cannot write, sets the fields that the kind determines, and validates the new state.
fn prepare<'a>(
    call: &'a Call,
    old: &Value,
    new: &mut Value,
    mut empty: EmptyParts,
    mode: AllocationMode,
) -> Result<Option<Reservation<'a>>, ApiError> {
    let (served, path) = (&call.served, &call.path);
    let subresource = path.subresource.as_str();
    // Plugins may have changed the namespace.
    object_meta::reconcile_namespace(served, &path.namespace, new)?;
    // The caller has checked the precondition. From here on both states have the same revision.
    metadata::of(new).insert("resourceVersion".to_owned(), metadata::text(old, "resourceVersion").into());
    metadata::restore(old, new);
    // kube-apiserver names the type in errors that the object has before the status strategy restores it.
    let sent_type = (served.is_custom() && !subresource.is_empty())
        .then(|| json!({"apiVersion": new["apiVersion"], "kind": new["kind"]}));
    isolate(served, subresource, old, new);
    empty.collections.retain(|name| !is_restored(served, subresource, name));
    let reserved =
        if subresource.is_empty() { call.cluster.allocate(served, Some(old), new, mode)? } else { None };
    served.strategy.prepare_update(served, &call.write_context(), old, new, subresource);
    // A binding does not change the generation of its pod.
    if !["status", "binding"].contains(&subresource) {
        let compared = empty_parts::compared(served, new, &empty.collections);
        object_meta::bump_generation(served, old, compared.as_ref(), new);
    }
    let mut errors = object_meta::validate_new_state(served, old, new, subresource);
    // Unlike other warnings, these are also in the response of a refused update.
    let mut warn = |warning: String| call.warn(warning);
    errors.extend(empty_parts::validate(served, new, &empty.collections, |new| {
        served.strategy.validate_change(served, old, new, subresource, &mut warn)
    }));
    if !errors.is_empty() {
        return Err(call.invalid_object(sent_type.as_ref().unwrap_or(new), &path.name, errors));
    }
    for warning in served.strategy.warnings(served, new, Some(old), subresource) {
        call.warn(warning);
    }
    Ok(reserved)
}

/// Restores the parts that the endpoint does not write.
fn isolate(served: &ServedKind, subresource: &str, old: &Value, new: &mut Value) {
    let Some(fields) = new.as_object_mut() else { return };
    fields.retain(|name, _| !is_restored(served, subresource, name));
    for (name, value) in old.as_object().into_iter().flatten() {
        if is_restored(served, subresource, name) {
            fields.insert(name.clone(), value.clone());
        }
    }
    if subresource == "status" {
        keep_metadata(served, old, new);
    }
}

/// Whether the endpoint does not write the field `name` of the object.
fn is_restored(served: &ServedKind, subresource: &str, name: &str) -> bool {
    match subresource {
        "" => served.resource.status && name == "status",
        // A custom object keeps its type, whatever the body says.
        "status" if ["apiVersion", "kind"].contains(&name) => served.is_custom(),
        "status" => !["status", "metadata", "apiVersion"].contains(&name),
        _ => false,
    }
}

/// Restores metadata in a write of `/status`: for custom objects most of it, for builtin kinds the fields that their strategy names.
fn keep_metadata(served: &ServedKind, old: &Value, new: &mut Value) {
    let metadata = metadata::of(new);
    for field in served.strategy.status_keeps(served) {
        match old["metadata"].get(*field) {
            Some(value) => metadata.insert((*field).to_owned(), value.clone()),
            None => metadata.remove(*field),
        };
    }
}

/// Makes the manager of this request the owner of the changed fields.
pub(crate) async fn track(
    call: &Call,
    old: Option<&Value>,
    new: &mut Value,
    options: &WriteOptions,
    subresource: &str,
) {
    if !call.served.is_of_kind(new) {
        // Without a schema for the kind, no field has an owner.
        metadata::of(new).remove("managedFields");
        return;
    }
    let manager = call.manager(options);
    if call.served.webhook.is_some() {
        call.track_converted(old, new, &manager, subresource).await;
    } else {
        writer::track_as(&call.cluster, &call.served, &manager, subresource, old, new);
    }
}

/// Makes the manager of this request the owner of lists in which JSON shows no change, but Go does.
fn track_emptied(call: &Call, empty: &EmptyParts, new: &mut Value, options: &WriteOptions) {
    let (served, subresource) = (&call.served, call.path.subresource.as_str());
    if empty.owned.is_empty() || !served.strategy.tracks_fields() {
        return;
    }
    let (manager, now) = (call.manager(options), call.cluster.clock.now_seconds());
    let writer = Writer { manager: &manager, subresource, api_version: &served.kind.api_version, now: &now };
    empty.owned.track(new, &writer, served.reset_fields(subresource));
}

impl Call {
    /// Builds the 409 for an object that has another version than the request names, or that changes during each attempt.
    pub(crate) fn modified(&self) -> ApiError {
        let resource = &self.served.resource;
        ApiError::modified(&resource.group, &resource.plural, &self.path.name)
    }

    /// Builds the 409 for this object.
    pub(crate) fn conflict(&self, why: &str) -> ApiError {
        let resource = &self.served.resource;
        ApiError::conflict(&resource.group, &resource.plural, &self.path.name, why)
    }
}
