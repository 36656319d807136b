//! DELETE of one object, or of every object in a collection.

use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use kube_apimachinery::decode;
use kube_apimachinery::metadata;
use kube_apimachinery::protobuf;
use kube_apimachinery::status::ApiError;
use kube_apimachinery::yaml;
use serde_json::{Value, json};

use super::items::Items;
use super::reply::{self, Reply};
use super::{Call, RETRIES, body_type, list_reply, read};
use crate::api::admission::{Attributes, OperationOptions};
use crate::api::selection::Selection;
use crate::kinds::builtin;
use crate::request::query::{DeleteOptions, ListOptions, Propagation, RevisionMatch};
use crate::request::request_body;
use crate::state::Refused;
use crate::state::deletion::{self, FOREGROUND, Grace, ORPHAN, Removal};
use crate::store::Document;

/// Deletes the object in the URL.
pub(crate) async fn run(call: &Call, bytes: &Bytes) -> Result<Reply, ApiError> {
    let options = read_options(call, bytes)?;
    warn_of_orphans(call, &options);
    call.served.strategy.admit_delete_by_name(&call.served, &call.path.name)?;
    delete(call, &options, DeletionReview::ByName).await
}

/// Deletes the objects of a list with these options, one at a time. Returns the list as it was before.
pub(crate) async fn run_collection(call: &Call, bytes: &Bytes) -> Result<Reply, ApiError> {
    let listed = ListOptions::of_list(&call.query)?;
    let selection = Selection::parse(&call.served, &call.path.name, &listed)?;
    let options = read_options(call, bytes)?;
    warn_of_orphans(call, &options);
    let listed = in_pages(listed);
    let page = read::ListPage::read(call, &listed)?.converted(call, &listed, &selection).await?;
    let (mut items, meta) = page.select(call, &listed, selection).await;
    let mut selected = Vec::new();
    items.each(|key, stored| {
        selected.push((key.clone(), Arc::clone(stored)));
        ControlFlow::Continue(())
    });
    let mut deleted = Vec::new();
    let mut item = call.clone();
    for (key, stored) in selected {
        key.namespace().clone_into(&mut item.path.namespace);
        key.name().clone_into(&mut item.path.name);
        match delete(&item, &options, DeletionReview::InCollection).await {
            Ok(_) => {}
            // The object was deleted after the state that the list shows.
            Err(error) if error.code() == 404 => {}
            Err(error) => return Err(error),
        }
        deleted.push((key, stored));
    }
    list_reply::answer(call, &meta, Items::new(deleted, None)).await
}

/// Returns the options with which kube-apiserver reads a collection to delete it: in pages, so that a revision is exact unless the client
/// requests another match.
fn in_pages(mut options: ListOptions) -> ListOptions {
    let names_revision = !matches!(options.resource_version.as_str(), "" | "0");
    if names_revision && options.revision_match.is_none() {
        options.revision_match = Some(RevisionMatch::Exact);
    }
    options
}

/// Warns that the pods of a job stay, unless the request names a propagation policy.
fn warn_of_orphans(call: &Call, options: &DeleteOptions) {
    let is_silent = options.propagation.is_none() && options.orphan_dependents.is_none();
    if is_silent
        && call.served.storage().group == "batch"
        && call.served.strategy.orphans_by_default(&call.served)
    {
        call.warn(
            "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set \
             propagationPolicy=Orphan to suppress this warning",
        );
    }
}

fn read_options(call: &Call, bytes: &Bytes) -> Result<DeleteOptions, ApiError> {
    if bytes.is_empty() {
        return DeleteOptions::read(&call.query, None);
    }
    let malformed =
        |why: String| ApiError::bad_request(format!("couldn't get version/kind; json parse error: {why}"));
    let value = match request_body::Format::of(call.content_type.as_deref())? {
        request_body::Format::Json => decode::json(bytes).map_err(malformed)?.value,
        request_body::Format::Yaml => {
            let read = yaml::read(bytes);
            read.map_err(|why| {
                ApiError::bad_request(why.strip_prefix(yaml::CONVERSION).unwrap_or(&why).to_owned())
            })?
            .value
        }
        request_body::Format::Protobuf => {
            protobuf::check_prefix(bytes).map_err(ApiError::bad_request)?;
            protobuf::decode(bytes)?
        }
    };
    // A null body means options without fields.
    let value = if value.is_null() { json!({}) } else { value };
    let [api_version, kind] = body_type::type_of(&value).map_err(ApiError::bad_request)?;
    // DeleteOptions are accepted in any group and version.
    body_type::check_version(&api_version).map_err(ApiError::bad_request)?;
    if ["CreateOptions", "UpdateOptions"].contains(&kind.as_str()) {
        return Err(ApiError::bad_request(format!(
            "converting (v1.{kind}) to (v1.DeleteOptions): unknown conversion"
        )));
    }
    if !["", "DeleteOptions"].contains(&kind.as_str()) {
        let api_version = if api_version.is_empty() { "meta.k8s.io/v1" } else { &api_version };
        return Err(ApiError::bad_request(format!(
            "no kind \"{kind}\" is registered for version \"{api_version}\" in scheme \"pkg/runtime/scheme.go:111\""
        )));
    }
    let schema = builtin::delete_options();
    if let Some(why) = schema.as_ref().and_then(|schema| schema.decode_error(&value, bytes)) {
        let is_json = request_body::Format::of(call.content_type.as_deref())? == request_body::Format::Json;
        let first = schema.filter(|_| is_json).and_then(|schema| schema.text_decode_error(bytes, bytes));
        return Err(ApiError::bad_request(first.unwrap_or(why)));
    }
    DeleteOptions::read(&call.query, Some(&value))
}

/// Form in which admission plugins receive a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeletionReview {
    /// With the name of the object: a deletion of one object.
    ByName,
    /// Without a name, because the request for a collection has none.
    InCollection,
    /// Not reviewed: the deletion carries out a request that has been reviewed.
    Before,
}

/// Deletes the object at the call's path.
pub(crate) async fn delete(
    call: &Call,
    options: &DeleteOptions,
    reviewed: DeletionReview,
) -> Result<Reply, ApiError> {
    let served = &call.served;
    let key = call.key();
    for _ in 0..RETRIES {
        let stored = call.cluster.read(|store| store.get(served.storage(), &key).cloned());
        let stored = stored.ok_or_else(|| call.not_found())?;
        let shown = call.converted_now(Arc::clone(&stored)).await?;
        let old = served.value(&shown);
        // Checked in each round, because another object may have the name by now.
        check_preconditions(call, options, &old)?;
        if served.strategy.is_finalizing(&old) {
            // The kind itself completes the deletion.
            return reply::stored(call, 200, &shown);
        }
        let grace = deletion::grace_period(served, options.grace_period(), &old);
        if grace == Grace::Pending {
            // An earlier deletion is in progress, and this one does not shorten its grace period.
            return reply::stored(call, 200, &shown);
        }
        if !options.dry_run {
            call.convert_cached(&old).await?;
        }
        review(call, options, &grace, reviewed, &old).await?;
        let finalizers = wanted_finalizers(call, options, &old);
        let (new, removal) = deletion::begin(&call.cluster, served, &old, &finalizers, &grace);
        let is_held = removal == Removal::Later;
        // As in kube-apiserver, only the deprecated field `orphanDependents` leads to 202. Other clients expect 200.
        let code = if is_held && options.orphan_dependents == Some(false) { 202 } else { 200 };
        let is_marked = is_held || grace != Grace::None;
        // An object that is removed at once is shown as it is stored, with its finalizers.
        let last = if is_marked { &new } else { &old };
        if options.dry_run {
            // The mark is a write, which may have to be converted.
            let marked = if is_marked { Some(call.dry_run(new.clone()).await?) } else { None };
            return answer(call, code, removal, marked.as_ref().unwrap_or(last), stored.revision);
        }
        let document = if is_marked { Some(call.document(&new).await?) } else { None };
        // As in kube-apiserver, texts are compared: a repeated deletion changes nothing, unless the object was stored in another form.
        let is_same = |document: &Document| document.same(&stored.document);
        if is_held && document.as_ref().is_some_and(is_same) && served.is_stored_as_wanted(&stored) {
            return reply::stored(call, code, &shown);
        }
        let (mut revision, mut marking) = (stored.revision, grace);
        if let Some(document) = &document
            && !is_held
            && reviewed != DeletionReview::Before
        {
            let marked = deletion::mark_only(&call.cluster, served, &key, revision, document.clone());
            let Ok(marked) = marked else { continue };
            // kube-apiserver calls the plugins twice for such an object: when it is marked as deleted, and when it is removed.
            (revision, marking) = (marked.revision, Grace::None);
            let marked = with_revision(&new, revision);
            review(call, options, &Grace::Seconds(0), reviewed, &marked).await?;
        }
        let marked = || document.unwrap_or_else(|| served.document_with_metadata(&stored, &new));
        match deletion::carry_out(&call.cluster, served, &key, revision, marked, removal, &marking) {
            Ok(event) => {
                return answer(call, code, removal, last, event.revision);
            }
            Err(Refused::Conflict) => {}
            Err(Refused::Because(never)) => match never {},
        }
    }
    Err(call.modified())
}

/// Asks the admission plugins about the deletion of an object.
async fn review(
    call: &Call,
    options: &DeleteOptions,
    grace: &Grace,
    reviewed: DeletionReview,
    old: &Value,
) -> Result<(), ApiError> {
    if reviewed == DeletionReview::Before {
        return Ok(());
    }
    let complete = completed(call, options, grace, reviewed, old);
    let attributes = call.attributes(OperationOptions::Delete(&complete), Some(old));
    let attributes = match reviewed {
        DeletionReview::InCollection => Attributes { name: "", ..attributes },
        DeletionReview::ByName | DeletionReview::Before => attributes,
    };
    let admission = &call.context.admission;
    admission.mutate(&attributes, None).await?;
    admission.validate(&attributes, None).await
}

/// Returns the options of a deletion as admission plugins see them. Those of a collection are the options of the request. Those of one object
/// have its grace period, and for a namespace or a definition its UID, so that the deletion never continues with another object of that
/// name; the first deletion of these two kinds leaves the grace period as it was sent.
fn completed(
    call: &Call,
    options: &DeleteOptions,
    grace: &Grace,
    reviewed: DeletionReview,
    old: &Value,
) -> DeleteOptions {
    let mut complete = options.clone();
    if reviewed == DeletionReview::InCollection {
        return complete;
    }
    let strategy = call.served.strategy;
    if metadata::is_terminating(old) || !strategy.marks_itself() {
        complete.grace_period_seconds = match grace {
            Grace::Seconds(seconds) => Some(*seconds),
            Grace::None | Grace::Pending => options.grace_period(),
        };
    }
    if strategy.pins_deleted_uid() && complete.uid.is_none() {
        complete.uid = Some(metadata::text(old, "uid").to_owned());
    }
    complete
}

/// Responds with the object if it still exists or if its kind requires that, otherwise with a `Status`.
fn answer(call: &Call, code: u16, removal: Removal, new: &Value, revision: u64) -> Result<Reply, ApiError> {
    if removal == Removal::AtOnce && !call.served.resource.rules.returns_deleted_object {
        return Ok(reply::deleted(call, &call.path.name, metadata::text(new, "uid")));
    }
    reply::object(call, code, with_revision(new, revision))
}

/// Returns the object with this revision.
fn with_revision(object: &Value, revision: u64) -> Value {
    let mut object = object.clone();
    metadata::of(&mut object).insert("resourceVersion".to_owned(), json!(revision.to_string()));
    object
}

/// Checks that the object has the UID and the revision that the options name.
pub(super) fn check_preconditions(call: &Call, options: &DeleteOptions, old: &Value) -> Result<(), ApiError> {
    let resource = &call.served.resource;
    if call.served.strategy.pins_deleted_uid() {
        return check_preconditions_first(call, options, old);
    }
    let refuse =
        |why: String| Err(ApiError::conflict(&resource.storage.group, &resource.kind, &call.path.name, &why));
    let actual = metadata::text(old, "uid");
    if let Some(uid) = options.uid.as_deref().filter(|uid| *uid != actual) {
        return refuse(format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({actual}). The object might have been \
             deleted and then recreated"
        ));
    }
    let actual = metadata::text(old, "resourceVersion");
    if let Some(version) = options.resource_version.as_deref().filter(|version| *version != actual) {
        return refuse(format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({actual}). \
             The object might have been modified"
        ));
    }
    Ok(())
}

/// Checks the preconditions for deleting a namespace or a definition. kube-apiserver checks them before the storage does, with other
/// messages.
fn check_preconditions_first(call: &Call, options: &DeleteOptions, old: &Value) -> Result<(), ApiError> {
    for (name, field, wanted) in
        [("UID", "uid", &options.uid), ("ResourceVersion", "resourceVersion", &options.resource_version)]
    {
        let actual = metadata::text(old, field);
        if let Some(wanted) = wanted.as_deref().filter(|wanted| *wanted != actual) {
            return Err(call.conflict(&format!(
                "Precondition failed: {name} in precondition: {wanted}, {name} in object meta: {actual}"
            )));
        }
    }
    Ok(())
}

/// Returns the finalizers that the propagation policy requires. If the options have no policy, finalizers of the object determine it, or
/// else the default of the kind.
fn wanted_finalizers(call: &Call, options: &DeleteOptions, old: &Value) -> Vec<String> {
    let existing = metadata::finalizers(old);
    if !call.served.strategy.propagates(&call.served, old) {
        return existing.into_iter().map(str::to_owned).collect();
    }
    // The order of kube-apiserver: the options, then the finalizers of an earlier request, then the kind.
    let policy = match (options.orphan_dependents, options.propagation) {
        _ if !call.served.strategy.has_dependents() => Propagation::Background,
        (Some(true), _) => Propagation::Orphan,
        (Some(false), _) => Propagation::Background,
        (None, Some(policy)) => policy,
        (None, None) if existing.contains(&ORPHAN) => Propagation::Orphan,
        (None, None) if existing.contains(&FOREGROUND) => Propagation::Foreground,
        (None, None) if call.served.strategy.orphans_by_default(&call.served) => Propagation::Orphan,
        (None, None) => Propagation::Background,
    };
    let wanted = match policy {
        Propagation::Orphan => Some(ORPHAN),
        Propagation::Foreground => Some(FOREGROUND),
        Propagation::Background => None,
    };
    let mut finalizers: Vec<String> = existing
        .iter()
        .filter(|finalizer| ![ORPHAN, FOREGROUND].contains(finalizer) || Some(**finalizer) == wanted)
        .map(|finalizer| (*finalizer).to_owned())
        .collect();
    if let Some(wanted) = wanted
        && !existing.contains(&wanted)
    {
        finalizers.push(wanted.to_owned());
    }
    finalizers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::resource::StorageKey;
    use crate::state::ClusterState;
    use crate::store::{StoreEvent, TypeMeta};
    use crate::testing;

    const PODS: &str = "/api/v1/namespaces/default/pods";

    /// Returns the events of pods: type, number, grace period and generation.
    fn events(server: &ClusterState, from: u64) -> Vec<(&'static str, u64, Value, Value)> {
        let table = StorageKey::core("pods");
        let events = server.read(|store| store.events_after(&table, from, usize::MAX)).unwrap();
        let shown = |event: &Arc<StoreEvent>| {
            let (what, stored) = match &event.after {
                Some(after) => ("MODIFIED", after),
                None => ("DELETED", event.before.as_ref().unwrap()),
            };
            let object = stored.document.to_value(&TypeMeta::new("v1", "Pod"), event.revision);
            let metadata = &object["metadata"];
            assert!(metadata["deletionTimestamp"].is_string(), "{what}: {metadata}");
            (
                what,
                event.revision - from,
                metadata["deletionGracePeriodSeconds"].clone(),
                metadata["generation"].clone(),
            )
        };
        events.iter().map(shown).collect()
    }

    #[tokio::test]
    async fn a_pod_without_grace_period_is_marked_before_it_is_removed() {
        let server = testing::server();
        let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        testing::create(&server, PODS, &pod).unwrap();
        let from = server.read(crate::store::Store::revision);
        let path = format!("{PODS}/p");
        let answer = testing::now(run(&testing::call(&server, &path), &Bytes::new())).unwrap();
        assert_eq!(answer.code, 200);
        assert_eq!(
            events(&server, from),
            [("MODIFIED", 1, json!(0), json!(2)), ("DELETED", 2, json!(0), json!(2))]
        );
    }

    #[tokio::test]
    async fn a_running_pod_is_marked_again_when_its_grace_period_is_shortened() {
        let server = testing::server();
        let pod = json!({
            "metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
        });
        testing::create(&server, PODS, &pod).unwrap();
        let from = server.read(crate::store::Store::revision);
        let path = format!("{PODS}/p");
        testing::delete(&server, &path).unwrap();
        let now = Bytes::from_static(br#"{"gracePeriodSeconds":0}"#);
        testing::now(run(&testing::call(&server, &path), &now)).unwrap();
        assert_eq!(
            events(&server, from),
            [
                ("MODIFIED", 1, json!(30), json!(2)),
                ("MODIFIED", 2, json!(0), json!(2)),
                ("DELETED", 3, json!(0), json!(2)),
            ]
        );
    }
}
