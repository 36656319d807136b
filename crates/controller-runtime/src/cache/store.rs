//! The objects of one kind, in key order, and what changes when they do. Pure: no lock, no clock.

use std::collections::BTreeMap;

use super::lazy::Lazy;
use crate::{
    event::Event,
    object::{Object, ObjectKey},
};

/// The objects of one kind as last seen.
#[derive(Debug)]
pub(crate) struct Store<K: Object> {
    objects: BTreeMap<ObjectKey<K>, Lazy<K>>,
    /// A first list has been taken over whole.
    filled: bool,
}

impl<K: Object> Default for Store<K> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), filled: false }
    }
}

impl<K: Object> Store<K> {
    pub(crate) fn get(&self, key: &ObjectKey<K>) -> Option<&Lazy<K>> {
        self.objects.get(key)
    }

    pub(crate) fn objects(&self) -> impl Iterator<Item = &Lazy<K>> {
        self.objects.values()
    }

    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    /// Takes over a complete list, and says what is different now.
    ///
    /// Objects that did not change stay the ones held. What the list lacks was deleted while nobody looked. An object
    /// under the same name with another uid is a delete and a create.
    pub(crate) fn replace(&mut self, list: impl IntoIterator<Item = Lazy<K>>) -> Vec<Event<K>> {
        let in_initial_list = !std::mem::replace(&mut self.filled, true);
        let mut before = std::mem::take(&mut self.objects);
        let mut events = Vec::new();
        for object in list {
            let key = object.key();
            let stored = match before.remove(&key) {
                Some(old) if old.meta().same_version(object.meta()) => old,
                old => Self::entered(&mut events, old, object, in_initial_list),
            };
            self.objects.insert(key, stored);
        }
        events.extend(before.into_values().map(|object| Event::Delete { object, state_unknown: true }));
        events
    }

    /// Takes over one object from the watch; no event if it is the version already held.
    pub(crate) fn upsert(&mut self, object: Lazy<K>) -> Vec<Event<K>> {
        let key = object.key();
        let old = self.objects.get(&key).cloned();
        if old.as_ref().is_some_and(|old| old.meta().same_version(object.meta())) {
            return Vec::new();
        }
        let mut events = Vec::with_capacity(1);
        let stored = Self::entered(&mut events, old, object, false);
        self.objects.insert(key, stored);
        events
    }

    /// Removes a deleted object, whose last state is `last`; no event if it was not held.
    pub(crate) fn remove(&mut self, last: Lazy<K>) -> Vec<Event<K>> {
        match self.objects.remove(&last.key()) {
            Some(_) => vec![Event::Delete { object: last, state_unknown: false }],
            None => Vec::new(),
        }
    }

    /// Notes how `new` came to stand where `old` stood.
    fn entered(
        events: &mut Vec<Event<K>>,
        old: Option<Lazy<K>>,
        new: Lazy<K>,
        in_initial_list: bool,
    ) -> Lazy<K> {
        match old {
            Some(old) if old.meta().uid() == new.meta().uid() => {
                events.push(Event::Update { old, new: new.clone() });
            }
            replaced => {
                events.extend(replaced.map(|object| Event::Delete { object, state_unknown: true }));
                events.push(Event::Create { object: new.clone(), in_initial_list });
            }
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use k8s_openapi::api::core::v1::ConfigMap;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// `a@1` is the object a of uid "a" at version 1; `a!x@1` has uid x.
    fn object(text: &str) -> Lazy<ConfigMap> {
        let (name, version) = text.split_once('@').expect("name@version");
        let (name, uid) = name.split_once('!').unwrap_or((name, name));
        let metadata = json!({ "namespace": "ns", "name": name, "uid": uid, "resourceVersion": version });
        let object: ConfigMap =
            serde_json::from_value(json!({ "metadata": metadata })).expect("a config map");
        Lazy::of(object).expect("it has a key")
    }

    fn version(object: &Lazy<ConfigMap>) -> String {
        let meta = object.meta();
        let (name, uid) = (meta.name(), meta.uid().expect("a uid"));
        let uid = if *uid == *name { String::new() } else { format!("!{uid}") };
        format!("{name}{uid}@{}", meta.resource_version().expect("a version"))
    }

    fn describe(event: &Event<ConfigMap>) -> String {
        match event {
            Event::Create { object, in_initial_list: true } => format!("initial {}", version(object)),
            Event::Create { object, .. } => format!("create {}", version(object)),
            Event::Update { old, new } => format!("update {} {}", version(old), version(new)),
            Event::Delete { object, state_unknown: true } => format!("vanished {}", version(object)),
            Event::Delete { object, .. } => format!("delete {}", version(object)),
            Event::Generic { .. } => unreachable!("a store makes no generic events"),
        }
    }

    fn step(store: &mut Store<ConfigMap>, command: &str) -> Vec<Event<ConfigMap>> {
        let mut words = command.split_whitespace();
        match words.next().expect("a command") {
            "list" => store.replace(words.map(object)),
            "put" => words.map(object).flat_map(|object| store.upsert(object)).collect(),
            "del" => words.map(object).flat_map(|object| store.remove(object)).collect(),
            other => panic!("unknown command {other}"),
        }
    }

    fn check(commands: &str, expected: &Expect) {
        let mut store = Store::default();
        let mut lines = String::new();
        for command in commands.split(';') {
            let events: Vec<String> = step(&mut store, command).iter().map(describe).collect();
            lines += &format!("{}: {}\n", command.trim(), events.join(", "));
        }
        expected.assert_eq(&lines);
    }

    #[test]
    fn first_list_is_initial_and_later_lists_are_differences() {
        check(
            "list a@1 b@1; list a@1 b@2 c@3; list b@2",
            &expect![[r#"
                list a@1 b@1: initial a@1, initial b@1
                list a@1 b@2 c@3: update b@1 b@2, create c@3
                list b@2: vanished a@1, vanished c@3
            "#]],
        );
    }

    #[test]
    fn watch_events_carry_old_and_new_and_duplicates_are_dropped() {
        check(
            "list; put a@1; put a@1; put a@2; del a@3; del a@3",
            &expect![[r#"
                list: 
                put a@1: create a@1
                put a@1: 
                put a@2: update a@1 a@2
                del a@3: delete a@3
                del a@3: 
            "#]],
        );
    }

    #[test]
    fn an_object_recreated_under_its_name_is_a_delete_and_a_create() {
        check(
            "list a@1; list a!new@5; put a!newer@9",
            &expect![[r#"
                list a@1: initial a@1
                list a!new@5: vanished a@1, create a!new@5
                put a!newer@9: vanished a!new@5, create a!newer@9
            "#]],
        );
    }

    #[test]
    fn unchanged_objects_stay_the_ones_held_across_a_relist() {
        let mut store = Store::default();
        step(&mut store, "list a@1");
        let before = store.get(&ObjectKey::new("ns", "a")).expect("a").clone();
        step(&mut store, "list a@1 b@2");
        assert!(before.ptr_eq(store.get(&ObjectKey::new("ns", "a")).expect("a")));
    }

    proptest! {
        /// A handler that knows only the events knows what the store holds.
        #[test]
        fn events_fold_to_the_store(
            commands in prop::collection::vec((0..3u8, prop::collection::btree_map(0..4u8, (0..2u8, 0..5u8), 0..4)), 1..40),
        ) {
            let mut store = Store::default();
            let mut folded: BTreeMap<ObjectKey<ConfigMap>, Lazy<ConfigMap>> = BTreeMap::new();
            for (command, objects) in commands {
                let word = ["list", "put", "del"][usize::from(command)];
                let text = objects.iter().fold(word.to_owned(), |text, (name, (uid, version))| {
                    format!("{text} n{name}!u{uid}@{version}")
                });
                for event in step(&mut store, &text) {
                    let key = event.key();
                    match &event {
                        Event::Create { object, .. } => prop_assert!(folded.insert(key, object.clone()).is_none()),
                        Event::Update { old, new } => {
                            let before = folded.insert(key, new.clone()).expect("updated objects exist");
                            prop_assert!(before.ptr_eq(old));
                        }
                        Event::Delete { .. } => prop_assert!(folded.remove(&key).is_some()),
                        Event::Generic { .. } => unreachable!(),
                    }
                }
                let held: Vec<_> = store.objects().map(version).collect();
                prop_assert_eq!(held, folded.values().map(version).collect::<Vec<_>>());
            }
        }
    }
}
