//! Event handlers: from an event to requests.
//!
//! A handler runs in the task of its source, so it must not block. No lock is held: it may call every method of every cache. It
//! adds requests to the queue, which holds each of them once however often it is added.

pub(crate) mod event_handler;
pub(crate) mod for_owner;
mod handler_funcs;
pub(crate) mod map;

use std::collections::BTreeSet;

pub use self::handler_funcs::HandlerFuncs;
pub(crate) use self::{
    event_handler::{EventHandler, ForObject},
    for_owner::ForOwner,
};
use crate::{
    cache::{Event, Lazy},
    object::Object,
    reconcile::Request,
    request_queue::Enqueue,
};

/// Enqueues the requests that `collect` finds from the states of the event, each once.
fn add_each<K: Object, R: Request>(
    event: &Event<K>,
    queue: &Enqueue<'_, R>,
    collect: impl Fn(&Lazy<K>, &mut BTreeSet<R>),
) {
    let mut requests = BTreeSet::new();
    for state in event.old().into_iter().chain([event.latest()]) {
        collect(state, &mut requests);
    }
    for request in requests {
        queue.add(request);
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
    use kube_workqueue::Queue;
    use serde_json::{Value, json};

    use super::*;
    use crate::object::ObjectKey;

    /// A ConfigMap with owners given as kind and name; the first is the controller.
    fn map(name: &str, owners: &[(&str, &str)]) -> Lazy<ConfigMap> {
        let reference = |(place, (kind, owner)): (usize, &(&str, &str))| {
            json!({
                "apiVersion": "apps/v1beta9", "kind": kind, "name": owner, "uid": owner, "controller": place == 0,
            })
        };
        let owners: Vec<Value> = owners.iter().enumerate().map(reference).collect();
        let map = json!({ "metadata": { "namespace": "a", "name": name, "ownerReferences": owners } });
        Lazy::of(serde_json::from_value::<ConfigMap>(map).expect("a ConfigMap")).expect("it has a name")
    }

    /// Names of the requests that `handler` enqueues.
    fn enqueued<O: Object>(
        handler: &impl EventHandler<ConfigMap, ObjectKey<O>>,
        event: &Event<ConfigMap>,
    ) -> Vec<String> {
        let queue = Queue::default();
        handler.handle(event, &Enqueue::to(&queue));
        let mut names: Vec<_> = queue.snapshot().map(|seen| seen.key.to_string()).collect();
        names.sort();
        names
    }

    #[test]
    fn an_update_enqueues_the_old_and_the_new_owner() {
        let old = map("x", &[("Deployment", "one"), ("Deployment", "other")]);
        let new = map("x", &[("Deployment", "two"), ("ReplicaSet", "three")]);
        let update = Event::Update { old, new };
        assert_eq!(enqueued(&ForOwner::<Deployment>::controller(), &update), ["a/one", "a/two"]);
        assert_eq!(enqueued(&ForOwner::<Deployment>::every(), &update), ["a/one", "a/other", "a/two"]);
        assert_eq!(enqueued(&ForObject, &update), ["a/x"]);
    }

    #[test]
    fn each_event_type_has_its_function_or_enqueues_nothing() {
        let handler = HandlerFuncs::new()
            .on_update(|old: &Lazy<ConfigMap>, _, queue| queue.add(old.key()))
            .on_delete(|_, queue| queue.add(ObjectKey::<ConfigMap>::new("a", "deleted")));
        let object = map("x", &[]);
        let create = Event::Create { object: object.clone(), in_initial_list: false };
        let update = Event::Update { old: map("old", &[]), new: object.clone() };
        let delete = Event::Delete { object: object.clone(), state_unknown: false };
        assert!(enqueued(&handler, &create).is_empty());
        assert_eq!(enqueued(&handler, &update), ["a/old"]);
        assert_eq!(enqueued(&handler, &delete), ["a/deleted"]);
        assert!(enqueued(&handler, &Event::Generic { object }).is_empty());
    }

    #[test]
    fn a_function_is_a_handler() {
        let handler = |event: &Event<ConfigMap>, queue: &Enqueue<'_, ObjectKey<ConfigMap>>| {
            queue.add(ObjectKey::new("b", event.meta().name()));
        };
        assert_eq!(enqueued(&handler, &Event::Generic { object: map("x", &[]) }), ["b/x"]);
    }
}
