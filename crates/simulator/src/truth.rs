//! State of the API server, followed commit by commit.

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use kube_apiserver_embedded::{Commit, CommittedObject};
use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::{
    names::{Actor, ObjectId, is_masked_resource},
    similar::{Masks, ObjectState, Objects},
};

thread_local! {
    /// Origin of the request that the server is executing.
    static ORIGIN: Cell<Origin> = const { Cell::new(Origin { actor: Actor::Server, is_update: false }) };
}

/// Origin of commits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin {
    pub(crate) actor: Actor,
    /// Whether the request replaces a whole object.
    pub(crate) is_update: bool,
}

/// A future that attributes its commits to an actor.
pub(crate) struct Attributed<F> {
    origin: Origin,
    future: Pin<Box<F>>,
}

impl<F: Future> Attributed<F> {
    pub(crate) fn new(origin: Origin, future: F) -> Self {
        Self { origin, future: Box::pin(future) }
    }
}

impl<F: Future> Future for Attributed<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // The origin is set only during a poll, because other tasks commit between two polls.
        let before = ORIGIN.replace(self.origin);
        let polled = self.future.as_mut().poll(context);
        ORIGIN.set(before);
        polled
    }
}

/// Effect of a commit on an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verb {
    Created,
    Changed,
    Deleted,
}

/// A commit, as traces show it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Change {
    pub(crate) actor: Actor,
    pub(crate) verb: Verb,
    pub(crate) id: ObjectId,
    /// The id, with a generated name as `prefix*`.
    pub(crate) family: ObjectId,
    pub(crate) revision: u64,
    /// The object before the commit; `None` if it was created.
    pub(crate) before: Option<Arc<ObjectState>>,
    /// The object after the commit; `None` if it was deleted.
    pub(crate) after: Option<Arc<ObjectState>>,
    /// Whether anything changed other than times and fields that change with every write.
    pub(crate) is_visible: bool,
    /// A field of another writer that the commit removed, and that writer.
    pub(crate) trespass: Option<(String, Actor)>,
}

impl Change {
    /// Fields that differ, for messages; at most three.
    pub(crate) fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        if let (Some(before), Some(after)) = (&self.before, &self.after) {
            differing_paths(&before.compared, &after.compared, "", MOST_PATHS, &mut paths);
        }
        paths
    }
}

/// Number of writes of an object or family.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) created: u32,
    pub(crate) deleted: u32,
    /// Changes by processes under test, also invisible ones.
    pub(crate) changed: u32,
}

/// Whether creations and deletions are equal.
pub(crate) fn has_equal_counts(one: &BTreeMap<ObjectId, Counts>, other: &BTreeMap<ObjectId, Counts>) -> bool {
    let of = |counts: &BTreeMap<ObjectId, Counts>, id: &ObjectId| {
        counts.get(id).map_or((0, 0), |counts| (counts.created, counts.deleted))
    };
    one.keys().chain(other.keys()).all(|id| of(one, id) == of(other, id))
}

/// State that commits have led to.
#[derive(Debug, Clone)]
pub(crate) struct Truth {
    pub(crate) objects: Objects,
    /// Objects that are not compared.
    pub(crate) uncompared: Objects,
    pub(crate) counts: BTreeMap<ObjectId, Counts>,
    /// Commits that no trace has taken yet.
    pub(crate) news: Vec<Change>,
    /// Time of the last visible change.
    pub(crate) last_visible: Instant,
    writers: Writers,
    masks: Masks,
}

impl Truth {
    pub(crate) fn new(masks: Masks) -> Self {
        Self {
            objects: Objects::new(),
            uncompared: Objects::new(),
            counts: BTreeMap::new(),
            news: Vec::new(),
            last_visible: Instant::now(),
            writers: Writers::default(),
            masks,
        }
    }

    /// Records a commit.
    pub(crate) fn record(&mut self, commit: &Commit) {
        // The API server itself writes these objects, together with their Services.
        if commit.resource == "ipaddresses" {
            return;
        }
        let id = ObjectId::new(&commit.group, &commit.resource, &commit.namespace, &commit.name);
        let is_masked = is_masked_resource(&id.resource);
        let objects = if is_masked { &mut self.uncompared } else { &mut self.objects };
        let state = |object: &CommittedObject| {
            let object = object.clone();
            Arc::new(if is_masked {
                ObjectState::uncompared(object)
            } else {
                ObjectState::new(&id.resource, object, &self.masks)
            })
        };
        let after = commit.object_after().map(state);
        let known = match &after {
            Some(after) => objects.insert(id.clone(), Arc::clone(after)),
            None => objects.remove(&id),
        };
        // An object that existed before the run is unknown until its first commit.
        let before = known.or_else(|| commit.object_before().map(state));
        let verb = match (&before, &after) {
            (None, _) => Verb::Created,
            (Some(_), Some(_)) => Verb::Changed,
            (Some(_), None) => Verb::Deleted,
        };
        let some = after.as_ref().or(before.as_ref());
        let family =
            some.map_or_else(|| id.clone(), |object| id.family(object.metadata_text("generateName")));
        let is_visible = !is_masked
            && before.as_ref().map(|state| &state.compared) != after.as_ref().map(|state| &state.compared);
        if is_visible {
            self.last_visible = Instant::now();
        }
        let origin = ORIGIN.get();
        if !is_masked {
            let counts = self.counts.entry(family.clone()).or_default();
            counts.created += u32::from(verb == Verb::Created);
            counts.deleted += u32::from(verb == Verb::Deleted);
            counts.changed += u32::from(verb == Verb::Changed && origin.actor.is_operator());
        }
        let (old, new) = (before.as_deref(), after.as_deref());
        let trespass = if is_visible { self.writers.record(&id, origin, old, new) } else { None };
        let (actor, revision) = (origin.actor, commit.revision);
        self.news.push(Change { actor, verb, id, family, revision, before, after, is_visible, trespass });
    }
}

/// Writers of the objects, and of their labels, annotations, data and specifications.
#[derive(Debug, Clone, Default)]
struct Writers(BTreeMap<ObjectId, ObjectWriters>);

#[derive(Debug, Clone)]
struct ObjectWriters {
    /// Actor of the first commit, and whether that created the object.
    first: Actor,
    is_creator: bool,
    /// Last writer of each field that was written after the first commit, by path.
    fields: BTreeMap<String, Actor>,
}

impl Writers {
    /// Records a commit. Returns a field that the commit removed although another writer set it, if that is a trespass: a process
    /// under test replaces a whole object that it has created, and drops a label or annotation, or any field of another program.
    /// A removal by a patch is intended, and data that a user adds to an operator's object may be removed.
    fn record<'o>(
        &mut self,
        id: &ObjectId,
        origin: Origin,
        before: Option<&'o ObjectState>,
        after: Option<&'o ObjectState>,
    ) -> Option<(String, Actor)> {
        // Whoever creates an object of this name again is its writer from then on.
        let Some(after) = after else {
            self.0.remove(id);
            return None;
        };
        let is_known = self.0.contains_key(id);
        let writers = self.0.entry(id.clone()).or_insert_with(|| ObjectWriters {
            first: origin.actor,
            is_creator: before.is_none(),
            fields: BTreeMap::new(),
        });
        if !is_known && writers.is_creator {
            // All fields are of the creator.
            return None;
        }
        let program = |actor: Actor| actor.process().map(|process| process.program);
        let judged =
            origin.is_update && origin.actor.is_operator() && program(writers.first) == program(origin.actor);
        let mut trespass = None;
        let mut differs = |path: &str, is_removed: bool| {
            if !is_removed {
                writers.fields.insert(path.to_owned(), origin.actor);
                return;
            }
            // A field without a recorded writer has been there since the first commit.
            let creator = writers.is_creator.then_some(writers.first);
            let Some(writer) = writers.fields.remove(path).or(creator) else { return };
            let is_foreign = match writer {
                // The server's defaults may be removed: the server sets them again.
                Actor::Server => false,
                Actor::User => path.starts_with(".metadata"),
                Actor::Process { .. } => program(writer) != program(origin.actor),
            };
            if judged && is_foreign && trespass.is_none() {
                trespass = Some((path.to_owned(), writer));
            }
        };
        let old = before.map_or(&Value::Null, |before| &before.compared);
        for (names, path) in WRITTEN {
            let part = |object: &'o Value| {
                let part = names.iter().try_fold(object, |value, name| value.get(name));
                part.unwrap_or(&Value::Null)
            };
            each_difference(part(old), part(&after.compared), &mut path.to_owned(), &mut differs);
        }
        trespass
    }
}

/// Parts of an object that have recorded writers: as names of fields, and as path in messages.
const WRITTEN: [(&[&str], &str); 4] = [
    (&["data"], ".data"),
    (&["metadata", "annotations"], ".metadata.annotations"),
    (&["metadata", "labels"], ".metadata.labels"),
    (&["spec"], ".spec"),
];

/// Calls `differs` with the path of each value that is not an object and that differs, and with whether it was removed.
fn each_difference(old: &Value, new: &Value, path: &mut String, differs: &mut dyn FnMut(&str, bool)) {
    let (none, length) = (Map::new(), path.len());
    let (olds, news) = (old.as_object().unwrap_or(&none), new.as_object().unwrap_or(&none));
    for (name, old) in olds {
        path.push('.');
        path.push_str(name);
        each_difference(old, news.get(name).unwrap_or(&Value::Null), path, differs);
        path.truncate(length);
    }
    for (name, new) in news.iter().filter(|(name, _)| !olds.contains_key(*name)) {
        path.push('.');
        path.push_str(name);
        each_difference(&Value::Null, new, path, differs);
        path.truncate(length);
    }
    let is_leaf = |value: &Value| !value.is_object() && !value.is_null();
    match (is_leaf(old), is_leaf(new)) {
        (_, true) if old != new => differs(path, false),
        (true, false) => differs(path, true),
        _ => {}
    }
}

/// Number of paths of a change, for messages.
const MOST_PATHS: usize = 3;

/// Adds the paths at which two values differ, up to this number of paths.
pub(crate) fn differing_paths(
    before: &Value,
    after: &Value,
    path: &str,
    most: usize,
    found: &mut Vec<String>,
) {
    if found.len() == most || before == after {
        return;
    }
    let (Value::Object(old), Value::Object(new)) = (before, after) else {
        found.push(path.to_owned());
        return;
    };
    let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    for key in keys {
        let (old, new) = (old.get(key).unwrap_or(&Value::Null), new.get(key).unwrap_or(&Value::Null));
        differing_paths(old, new, &format!("{path}.{key}"), most, found);
    }
}

/// Returns the path of the first field that differs, and its values. Fields that are missing are `null`.
pub(crate) fn first_different_field(one: &Value, other: &Value) -> Option<(String, Value, Value)> {
    if one == other {
        return None;
    }
    let (none, whole) = (Map::new(), (String::new(), one.clone(), other.clone()));
    let (fields, others) = match (one, other) {
        (Value::Object(fields), Value::Object(others)) => (fields, others),
        // Goes into an object that one side lacks, so that the path names a field with a value.
        (Value::Object(fields), Value::Null) => (fields, &none),
        (Value::Null, Value::Object(others)) => (&none, others),
        _ => return Some(whole),
    };
    let names: BTreeSet<&String> = fields.keys().chain(others.keys()).collect();
    let inner = names.into_iter().find_map(|name| {
        let of = |fields: &'_ Map<String, Value>| fields.get(name).cloned().unwrap_or_default();
        let (path, one, other) = first_different_field(&of(fields), &of(others))?;
        Some((format!(".{name}{path}"), one, other))
    });
    Some(inner.unwrap_or(whole))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::names::{OPERATOR, ProcessName};

    #[test]
    fn differing_paths_name_the_fields_that_changed() {
        let check = |before: Value, after: Value, expected: &[&str]| {
            let mut found = Vec::new();
            differing_paths(&before, &after, "", MOST_PATHS, &mut found);
            assert_eq!(found, expected, "{before} {after}");
        };
        check(json!({"a": 1}), json!({"a": 1}), &[]);
        check(json!({"a": 1, "b": {"c": 2}}), json!({"a": 1, "b": {"c": 3, "d": 4}}), &[".b.c", ".b.d"]);
        check(json!({"a": [1]}), json!({"a": [2]}), &[".a"]);
    }

    #[test]
    fn the_first_different_field_has_its_values_even_if_its_name_contains_dots() {
        let check = |one: Value, other: Value, expected: Option<(&str, Value, Value)>| {
            let expected = expected.map(|(path, one, other)| (path.to_owned(), one, other));
            assert_eq!(first_different_field(&one, &other), expected, "{one} {other}");
        };
        let dotted = |value: Value| json!({"metadata": {"annotations": {"a.b/c": value}}});
        check(
            dotted(json!("1")),
            dotted(json!("2")),
            Some((".metadata.annotations.a.b/c", json!("1"), json!("2"))),
        );
        check(json!({}), json!({"a": {"b": 1}}), Some((".a.b", Value::Null, json!(1))));
        check(json!({"a": {}}), json!({"b": 1}), Some((".a", json!({}), Value::Null)));
        check(
            json!({"a": [1], "b": 1}),
            json!({"a": [1], "b": {"c": 1}}),
            Some((".b", json!(1), json!({"c": 1}))),
        );
        check(json!({"a": 1}), json!({"a": 1}), None);
    }

    #[test]
    fn a_replaced_object_without_the_annotation_of_another_writer_is_a_trespass() {
        let process = |program| ProcessName { program, replica: 0, is_tested: program == OPERATOR };
        let actor = |program| Actor::Process { process: process(program), life: 0 };
        let with = |annotations: Value| {
            let object = json!({"metadata": {"annotations": annotations}, "data": {"a": "b"}});
            ObjectState::new("services", object, &Masks::default())
        };
        let check = |creator: Actor, writer: Actor, is_update: bool, expected: Option<&str>| {
            let (mut writers, id) = (Writers::default(), ObjectId::new("", "services", "a", "x"));
            let mut record = |actor, is_update, before: Option<&ObjectState>, after: &ObjectState| {
                writers.record(&id, Origin { actor, is_update }, before, Some(after))
            };
            let (plain, annotated) = (with(json!({})), with(json!({"lb": "1"})));
            assert!(record(creator, false, None, &plain).is_none());
            assert!(record(writer, false, Some(&plain), &annotated).is_none());
            let found = record(actor(OPERATOR), is_update, Some(&annotated), &plain);
            assert_eq!(found.as_ref().map(|(path, _)| &**path), expected, "{creator} {writer} {is_update}");
        };
        let operator = actor(OPERATOR);
        let lb = Some(".metadata.annotations.lb");
        check(operator, actor("balancer"), true, lb);
        check(operator, Actor::User, true, lb);
        check(operator, operator, true, None);
        check(operator, Actor::User, false, None);
        check(Actor::User, Actor::User, true, None);
    }
}
