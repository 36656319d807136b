//! DELETE: one object, or every object of a collection.

use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::items::Items;
use super::reply::{self, Reply};
use super::{Call, RETRIES, list, metadata, options, read};
use crate::admission::Operation;
use crate::builtin;
use crate::registry::Served;
use crate::request::query::{DeleteOptions, ListOptions, Propagation};
use crate::request::{body, yaml};
use crate::selection::Selection;
use crate::server::{Refused, Server};
use crate::status::ApiError;
use crate::store::{Change, Key};

/// The finalizer that keeps an object until its dependents lost their references to it.
pub(crate) const ORPHAN: &str = "orphan";
/// The finalizer that keeps an object until its blocking dependents are gone.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";

/// Deletes the object named by the URL.
pub(crate) async fn run(call: &mut Call, bytes: &Bytes) -> Result<Reply, ApiError> {
    let options = read_options(call, bytes)?;
    delete(call, &options).await
}

/// Deletes what a list with these options would show, one object at a time, and answers that list as it was before.
pub(crate) async fn run_collection(call: &mut Call, bytes: &Bytes) -> Result<Reply, ApiError> {
    let options = read_options(call, bytes)?;
    let listed = ListOptions::read(&call.query, false)?;
    let selection = Selection::parse(call, &listed)?;
    let page = read::Page::read(call, &listed)?;
    let (mut items, meta) = page.select(call, &listed, selection);
    let mut selected = Vec::new();
    items.each(|key, stored| {
        selected.push((key.clone(), Arc::clone(stored)));
        ControlFlow::Continue(())
    });
    let mut deleted = Vec::new();
    for (key, stored) in selected {
        let path = call.path.clone();
        call.path.namespace = key.namespace().to_owned();
        call.path.name = key.name().to_owned();
        let outcome = delete(call, &options).await;
        call.path = path;
        match outcome {
            Ok(_) => deleted.push((key, stored)),
            // Somebody else deleted it: it is gone, as asked for.
            Err(error) if error.code() == 404 => {}
            Err(error) => return Err(error),
        }
    }
    list::answer(call, &meta, Items::new(deleted, None)).await
}

fn read_options(call: &Call, bytes: &Bytes) -> Result<DeleteOptions, ApiError> {
    if bytes.is_empty() {
        return DeleteOptions::read(&call.query, None);
    }
    let malformed =
        |why: String| ApiError::bad_request(format!("couldn't get version/kind; json parse error: {why}"));
    let value = match body::Format::of(call.content_type.as_deref())? {
        body::Format::Json => body::json(bytes).map_err(malformed)?.value,
        body::Format::Yaml => yaml::read(bytes).map_err(malformed)?.value,
        body::Format::Protobuf => crate::protobuf::decode(bytes)?,
    };
    // Nothing is options that say nothing.
    let value = if value.is_null() { json!({}) } else { value };
    let [api_version, kind] = options::type_of(&value).map_err(ApiError::bad_request)?;
    // Options are of every group and version.
    options::check_version(&api_version).map_err(ApiError::bad_request)?;
    if ["CreateOptions", "UpdateOptions"].contains(&kind.as_str()) {
        return Err(ApiError::bad_request(format!(
            "converting (v1.{kind}) to (v1.DeleteOptions): unknown conversion"
        )));
    }
    if !["", "DeleteOptions"].contains(&kind.as_str()) {
        return Err(ApiError::bad_request(format!(
            "no kind \"{kind}\" is registered for version \"{api_version}\" in scheme \"pkg/runtime/scheme.go:111\""
        )));
    }
    if let Some(why) = builtin::delete_options().and_then(|schema| schema.decode_error(&value, bytes)) {
        return Err(ApiError::bad_request(why));
    }
    DeleteOptions::read(&call.query, Some(&value))
}

/// Deletes the object of the call's path.
pub(crate) async fn delete(call: &mut Call, options: &DeleteOptions) -> Result<Reply, ApiError> {
    let (server, served) = (Arc::clone(&call.server), Arc::clone(&call.served));
    let key = call.key();
    for _ in 0..RETRIES {
        let stored = call.server.read(|store| store.get(served.storage(), &key).cloned());
        let stored = stored.ok_or_else(|| call.not_found())?;
        let old = served.value(&stored);
        check_preconditions(call, options, &old)?;
        server.admission.mutate(call, Operation::Delete, None).await?;
        server.admission.validate(call, Operation::Delete, None).await?;
        let grace = grace_period(&served, options, &old);
        if grace == Grace::Pending {
            return reply::stored(call, 200, &stored);
        }
        let finalizers = wanted_finalizers(call, options, &old);
        let (new, held) = begin(&call.server, &served, &old, &finalizers, &grace);
        let (change, code) = if held {
            (
                Change::Put(served.document(&new)),
                if options.orphan_dependents == Some(false) { 202 } else { 200 },
            )
        } else {
            (Change::Delete, 200)
        };
        if new == old && matches!(change, Change::Put(_)) {
            return reply::stored(call, code, &stored);
        }
        if options.dry_run {
            return answer(call, code, &change, &new, stored.revision);
        }
        let commit =
            call.server.commit(served.storage(), &key, Some(stored.revision), clone(&change), |_| {
                Ok::<_, ApiError>(())
            });
        match commit {
            Ok(event) => {
                crate::crd::after_write(&call.server, served.storage());
                return answer(call, code, &change, &new, event.revision);
            }
            Err(Refused::Conflict) => {}
            Err(Refused::Because(error)) => return Err(error),
        }
    }
    Err(call.conflict(
        "the object has been modified; please apply your changes to the latest version and try again",
    ))
}

/// How an object fares that the server deletes on its own account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deletion {
    Gone,
    /// It is marked, now or since earlier, and something holds it.
    Held,
    /// It is not what was read: nothing was done.
    Changed,
}

/// Deletes an object on the server's own account, as a client would that leaves everything open: it goes at once, or is marked
/// if its kind, the time that it has to end by itself, or `finalizers`, which are those it has from now on, hold it.
pub(crate) fn begin_deletion(
    server: &Server,
    served: &Served,
    key: &Key,
    revision: u64,
    object: &Value,
    finalizers: &[String],
) -> Deletion {
    let grace = grace_period(served, &DeleteOptions::default(), object);
    if grace == Grace::Pending {
        return Deletion::Held;
    }
    let (marked, held) = begin(server, served, object, finalizers, &grace);
    if held && marked == *object {
        return Deletion::Held;
    }
    let change = if held { Change::Put(served.document(&marked)) } else { Change::Delete };
    let done = server
        .commit(served.storage(), key, Some(revision), change, |_| Ok::<(), std::convert::Infallible>(()));
    match done {
        Err(Refused::Conflict) => Deletion::Changed,
        _ if held => Deletion::Held,
        _ => Deletion::Gone,
    }
}

/// The object with these finalizers as its deletion begins, and whether anything keeps it for now.
fn begin(
    server: &Server,
    served: &Served,
    old: &Value,
    finalizers: &[String],
    grace: &Grace,
) -> (Value, bool) {
    let mut new = old.clone();
    metadata::set_finalizers(&mut new, finalizers);
    let held = !finalizers.is_empty() || served.held(old) || matches!(grace, Grace::Seconds(1..));
    if held || *grace != Grace::None {
        if !served.marks_itself() {
            mark(server, &mut new, grace);
        }
        served.mark_deleted(server, &mut new, !metadata::is_terminating(old));
    }
    (new, held)
}

fn clone(change: &Change) -> Change {
    match change {
        Change::Put(document) => Change::Put(document.clone()),
        Change::Delete => Change::Delete,
    }
}

/// The object if it stays or if its kind answers so, else a `Status`.
fn answer(call: &Call, code: u16, change: &Change, new: &Value, revision: u64) -> Result<Reply, ApiError> {
    let done = matches!(change, Change::Delete);
    if done && !call.served.resource.rules.returns_deleted_object {
        return Ok(reply::deleted(call, &call.path.name, metadata::text(new, "uid")));
    }
    let mut shown = new.clone();
    metadata::of(&mut shown).insert("resourceVersion".to_owned(), json!(revision.to_string()));
    reply::object(call, code, shown)
}

fn check_preconditions(call: &Call, options: &DeleteOptions, old: &Value) -> Result<(), ApiError> {
    let resource = &call.served.resource;
    let refuse =
        |why: String| Err(ApiError::conflict(&resource.group, &resource.kind, &call.path.name, &why));
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

/// The finalizers with those that the propagation policy adds or takes away. What the options leave open, finalizers on
/// the object decide, and then the default of the kind.
fn wanted_finalizers(call: &Call, options: &DeleteOptions, old: &Value) -> Vec<String> {
    let existing = metadata::finalizers(old);
    let policy = match (options.orphan_dependents, options.propagation) {
        (Some(true), _) => Propagation::Orphan,
        (Some(false), _) => Propagation::Background,
        (None, Some(policy)) => policy,
        (None, None) if existing.contains(&ORPHAN) => Propagation::Orphan,
        (None, None) if existing.contains(&FOREGROUND) => Propagation::Foreground,
        (None, None) if call.served.orphans_by_default() => Propagation::Orphan,
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

/// The time an object has to end by itself.
#[derive(Debug, PartialEq, Eq)]
enum Grace {
    /// The kind knows no such time.
    None,
    /// This many seconds from the beginning of its deletion.
    Seconds(i64),
    /// It is being deleted already, and no earlier than before.
    Pending,
}

/// A second deletion can only shorten what the first has granted.
fn grace_period(served: &Served, options: &DeleteOptions, old: &Value) -> Grace {
    let asked = options.grace_period_seconds;
    let Some(seconds) = builtin::grace_period(&served.resource, old, asked) else {
        return Grace::None;
    };
    if !metadata::is_terminating(old) {
        return Grace::Seconds(seconds);
    }
    match (asked, old["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or_default()) {
        // There is nothing left to wait for.
        (_, ..=0) => Grace::None,
        (Some(asked), granted) if asked < granted => Grace::Seconds(asked),
        _ => Grace::Pending,
    }
}

/// Begins the deletion of an object that stays for now, or brings its end forward.
fn mark(server: &Server, object: &mut Value, grace: &Grace) {
    let seconds = if let Grace::Seconds(seconds) = grace { *seconds } else { 0 };
    let first = !metadata::is_terminating(object);
    if !first && *grace == Grace::None {
        return;
    }
    let granted = object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or_default();
    let begun: Option<Timestamp> = metadata::text(object, "deletionTimestamp")
        .parse()
        .ok()
        .map(|end: Timestamp| end.checked_sub(SignedDuration::from_secs(granted)).unwrap_or(end));
    let begun = begun.unwrap_or_else(|| server.clock.now());
    let end = begun.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(begun);
    let fields = metadata::of(object);
    fields.insert("deletionTimestamp".to_owned(), json!(crate::clock::format_seconds(end)));
    fields.insert("deletionGracePeriodSeconds".to_owned(), json!(seconds));
    if first {
        metadata::raise_generation(object);
    }
}
