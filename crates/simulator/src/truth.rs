//! State of the API server, followed commit by commit.

use std::{
    cell::Cell,
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use kube_apiserver_embedded::Commit;
use serde_json::Value;
use tokio::time::Instant;

use crate::{
    names::{Actor, ObjectId, is_masked_resource},
    similar::{Masks, Objects, without_volatile_fields},
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
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) actor: Actor,
    pub(crate) verb: Verb,
    pub(crate) id: ObjectId,
    /// The id, with a generated name as `prefix*`.
    pub(crate) family: ObjectId,
    pub(crate) revision: u64,
    /// The object after the commit; `None` if it was deleted.
    pub(crate) after: Option<Arc<Value>>,
    /// Whether anything changed other than times and fields that change with every write.
    pub(crate) is_visible: bool,
    /// Fields that differ, for messages; at most three.
    pub(crate) paths: Vec<String>,
    /// A field of another writer that the commit removed, and that writer.
    pub(crate) trespass: Option<(String, Actor)>,
}

/// Number of writes of an object or family.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) created: u32,
    pub(crate) deleted: u32,
    /// Changes by processes under test, also invisible ones.
    pub(crate) changed: u32,
}

/// State that commits have led to.
#[derive(Debug)]
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
        let id = ObjectId::new(&commit.group, &commit.resource, &commit.namespace, &commit.name);
        let is_masked = is_masked_resource(&id.resource);
        let verb = match (&commit.before, &commit.after) {
            (None, _) => Verb::Created,
            (Some(_), Some(_)) => Verb::Changed,
            (Some(_), None) => Verb::Deleted,
        };
        let some = commit.after.as_ref().or(commit.before.as_ref());
        let family = some.map_or_else(|| id.clone(), |object| id.family(object));
        let visible = |object: &Option<Value>| {
            object.as_ref().map(|object| without_volatile_fields(&id.resource, object, &self.masks))
        };
        let (before, after) = (visible(&commit.before), visible(&commit.after));
        let is_visible = !is_masked && before != after;
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
        let trespass = if is_visible { self.writers.record(&id, origin, &before, &after) } else { None };
        let mut paths = Vec::new();
        if let (Some(before), Some(after)) = (&before, &after) {
            differing_paths(before, after, "", &mut paths);
        }
        let objects = if is_masked { &mut self.uncompared } else { &mut self.objects };
        let after = commit.after.clone().map(Arc::new);
        match &after {
            Some(after) => drop(objects.insert(id.clone(), Arc::clone(after))),
            None => drop(objects.remove(&id)),
        }
        let (actor, revision) = (origin.actor, commit.revision);
        self.news.push(Change { actor, verb, id, family, revision, after, is_visible, paths, trespass });
    }
}

/// Writers of the objects, and of their labels, annotations, data and specifications.
#[derive(Debug, Default)]
struct Writers(BTreeMap<ObjectId, ObjectWriters>);

#[derive(Debug)]
struct ObjectWriters {
    creator: Actor,
    /// Last writer of each field, by path.
    fields: BTreeMap<String, Actor>,
}

impl Writers {
    /// Records a commit. Returns a field that the commit removed although another writer set it, if that is a trespass: a process
    /// under test replaces a whole object that it has created, and drops a label or annotation, or any field of another program.
    /// A removal by a patch is intended, and data that a user adds to an operator's object may be removed.
    fn record(
        &mut self,
        id: &ObjectId,
        origin: Origin,
        before: &Option<Value>,
        after: &Option<Value>,
    ) -> Option<(String, Actor)> {
        let Some(after) = after else {
            self.0.remove(id);
            return None;
        };
        let program = |actor: Actor| actor.process().map(|process| process.program);
        let (old, new) = (fields(before.as_ref().unwrap_or(&Value::Null)), fields(after));
        let writers = self
            .0
            .entry(id.clone())
            .or_insert_with(|| ObjectWriters { creator: origin.actor, fields: BTreeMap::new() });
        let judged = origin.is_update
            && origin.actor.is_operator()
            && program(writers.creator) == program(origin.actor);
        let removed = old.keys().filter(|path| !new.contains_key(*path));
        let mut trespass = None;
        for path in removed {
            let Some(writer) = writers.fields.remove(path) else { continue };
            let is_foreign = match writer {
                Actor::Server => false,
                Actor::User => path.starts_with(".metadata"),
                Actor::Process { .. } => program(writer) != program(origin.actor),
            };
            if judged && is_foreign && trespass.is_none() {
                trespass = Some((path.clone(), writer));
            }
        }
        for (path, value) in new {
            if old.get(&path) != Some(&value) {
                writers.fields.insert(path, origin.actor);
            }
        }
        trespass
    }
}

/// Returns the values of an object that have a recorded writer, by path.
fn fields(object: &Value) -> BTreeMap<String, &Value> {
    let mut fields = BTreeMap::new();
    let parts = [
        (".metadata.labels", &object["metadata"]["labels"]),
        (".metadata.annotations", &object["metadata"]["annotations"]),
        (".data", &object["data"]),
        (".spec", &object["spec"]),
    ];
    for (path, part) in parts {
        add_leaves(part, path, &mut fields);
    }
    fields
}

fn add_leaves<'v>(value: &'v Value, path: &str, leaves: &mut BTreeMap<String, &'v Value>) {
    match value {
        Value::Null => {}
        Value::Object(fields) => {
            for (name, field) in fields {
                add_leaves(field, &format!("{path}.{name}"), leaves);
            }
        }
        leaf => drop(leaves.insert(path.to_owned(), leaf)),
    }
}

/// Adds the paths at which two values differ, at most three.
fn differing_paths(before: &Value, after: &Value, path: &str, found: &mut Vec<String>) {
    if found.len() == 3 || before == after {
        return;
    }
    let (Value::Object(old), Value::Object(new)) = (before, after) else {
        found.push(path.to_owned());
        return;
    };
    let keys: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    for key in keys {
        let (old, new) = (old.get(key).unwrap_or(&Value::Null), new.get(key).unwrap_or(&Value::Null));
        differing_paths(old, new, &format!("{path}.{key}"), found);
    }
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
            differing_paths(&before, &after, "", &mut found);
            assert_eq!(found, expected, "{before} {after}");
        };
        check(json!({"a": 1}), json!({"a": 1}), &[]);
        check(json!({"a": 1, "b": {"c": 2}}), json!({"a": 1, "b": {"c": 3, "d": 4}}), &[".b.c", ".b.d"]);
        check(json!({"a": [1]}), json!({"a": [2]}), &[".a"]);
    }

    #[test]
    fn a_replaced_object_without_the_annotation_of_another_writer_is_a_trespass() {
        let process = |program| ProcessName { program, replica: 0, is_tested: program == OPERATOR };
        let actor = |program| Actor::Process { process: process(program), life: 0 };
        let with =
            |annotations: Value| Some(json!({"metadata": {"annotations": annotations}, "data": {"a": "b"}}));
        let check = |creator: Actor, writer: Actor, is_update: bool, expected: Option<&str>| {
            let (mut writers, id) = (Writers::default(), ObjectId::new("", "services", "a", "x"));
            let mut record = |actor, is_update, before: &Option<Value>, after: &Option<Value>| {
                writers.record(&id, Origin { actor, is_update }, before, after)
            };
            let (plain, annotated) = (with(json!({})), with(json!({"lb": "1"})));
            assert!(record(creator, false, &None, &plain).is_none());
            assert!(record(writer, false, &plain, &annotated).is_none());
            let found = record(actor(OPERATOR), is_update, &annotated, &plain);
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
