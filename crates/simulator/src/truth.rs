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
    similar::{Objects, without_volatile_fields},
};

thread_local! {
    /// Sender of the request that the server is executing.
    static ACTOR: Cell<Actor> = const { Cell::new(Actor::Server) };
}

/// A future that attributes its commits to an actor.
pub(crate) struct Attributed<F> {
    actor: Actor,
    future: Pin<Box<F>>,
}

impl<F: Future> Attributed<F> {
    pub(crate) fn new(actor: Actor, future: F) -> Self {
        Self { actor, future: Box::pin(future) }
    }
}

impl<F: Future> Future for Attributed<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let before = ACTOR.replace(self.actor);
        let polled = self.future.as_mut().poll(context);
        ACTOR.set(before);
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
    /// Whether anything changed besides fields that change with every write, and times.
    pub(crate) is_visible: bool,
    /// Fields that differ, for messages; at most three.
    pub(crate) paths: Vec<String>,
}

/// Number of creations and deletions of an object or family.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) created: u32,
    pub(crate) deleted: u32,
}

/// State that commits have led to.
#[derive(Debug)]
pub(crate) struct Truth {
    pub(crate) objects: Objects,
    pub(crate) counts: BTreeMap<ObjectId, Counts>,
    /// Commits that no trace has taken yet.
    pub(crate) news: Vec<Change>,
    /// Time of the last visible change.
    pub(crate) last_visible: Instant,
}

impl Truth {
    pub(crate) fn new() -> Self {
        Self {
            objects: Objects::new(),
            counts: BTreeMap::new(),
            news: Vec::new(),
            last_visible: Instant::now(),
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
        let visible = |object: &Option<Value>| object.as_ref().map(without_volatile_fields);
        let (before, after) = (visible(&commit.before), visible(&commit.after));
        let is_visible = !is_masked && before != after;
        if is_visible {
            self.last_visible = Instant::now();
        }
        if !is_masked && verb != Verb::Changed {
            let counts = self.counts.entry(family.clone()).or_default();
            counts.created += u32::from(verb == Verb::Created);
            counts.deleted += u32::from(verb == Verb::Deleted);
        }
        let mut paths = Vec::new();
        if let (Some(before), Some(after)) = (&before, &after) {
            differing_paths(before, after, "", &mut paths);
        }
        match (&commit.after, is_masked) {
            (_, true) => {}
            (Some(after), false) => {
                self.objects.insert(id.clone(), Arc::new(after.clone()));
            }
            (None, false) => {
                self.objects.remove(&id);
            }
        }
        let (actor, revision) = (ACTOR.get(), commit.revision);
        self.news.push(Change { actor, verb, id, family, revision, is_visible, paths });
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
}
