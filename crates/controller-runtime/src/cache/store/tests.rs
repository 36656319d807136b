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
    let object: ConfigMap = serde_json::from_value(json!({ "metadata": metadata })).expect("a config map");
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

fn key(name: &str) -> ObjectKey<ConfigMap> {
    ObjectKey::new("ns", name)
}

/// Carries out a command; `list` is as of the greatest version in it, or as of a version it begins with (`@9`).
fn step(store: &mut Store<ConfigMap>, command: &str) -> Vec<Event<ConfigMap>> {
    let mut words = command.split_whitespace();
    let (part, now) = (None, Instant::now());
    match words.next().expect("a command") {
        "list" => {
            let (mut list, mut version) = (Vec::new(), Some(0));
            for word in words {
                match word.strip_prefix('@') {
                    Some(as_of) => version = as_of.parse().ok(),
                    None => {
                        list.push(object(word));
                        version = version.max(list.last().and_then(|object| number(object.meta())));
                    }
                }
            }
            store.replace(&part, list, version)
        }
        "put" => words.map(object).flat_map(|object| store.upsert(&part, object)).collect(),
        "del" => words.map(object).flat_map(|object| store.remove(&part, object)).collect(),
        "pass" => {
            words.for_each(|version| store.passed(&part, version.parse().ok()));
            Vec::new()
        }
        "wrote" => {
            words.map(object).for_each(|object| store.wrote(object, true, now));
            Vec::new()
        }
        "unselected" => {
            words.map(object).for_each(|object| store.wrote(object, false, now));
            Vec::new()
        }
        "deleted" => {
            for last in words.map(object) {
                let uid = last.meta().uid().cloned().expect("a uid");
                store.deleted(&last.key(), uid, now);
            }
            Vec::new()
        }
        "presumed" => {
            for last in words.map(object) {
                let (uid, version) = (last.meta().uid().cloned(), number(last.meta()));
                store.presumed_deleted(&last.key(), uid.expect("a uid"), version.expect("a version"), now);
            }
            Vec::new()
        }
        other => panic!("unknown command {other}"),
    }
}

fn seen(store: &Store<ConfigMap>) -> String {
    store.snapshot().values().map(version).collect::<Vec<_>>().join(" ")
}

fn check(commands: &str, expected: &Expect) {
    let mut store = Store::default();
    let mut lines = String::new();
    for command in commands.split(';') {
        let events: Vec<String> = step(&mut store, command).iter().map(describe).collect();
        let events = if events.is_empty() { String::new() } else { format!(" {}", events.join(", ")) };
        lines += &format!("{}:{events} -> {}\n", command.trim(), seen(&store));
    }
    assert!(store.order.len() == store.writes.len() && store.told.len() == store.writes.len());
    expected.assert_eq(&lines);
}

#[test]
fn first_list_is_initial_and_later_lists_are_differences() {
    check(
        "list a@1 b@1; list a@1 b@2 c@3; list b@2",
        &expect![[r#"
        list a@1 b@1: initial a@1, initial b@1 -> a@1 b@1
        list a@1 b@2 c@3: update b@1 b@2, create c@3 -> a@1 b@2 c@3
        list b@2: vanished a@1, vanished c@3 -> b@2
    "#]],
    );
}

#[test]
fn watch_events_carry_old_and_new_and_old_ones_are_dropped() {
    check(
        "list; put a@1; put a@1; put a@3; put a@2; del a@2; del a@4; del a@4",
        &expect![[r#"
        list: -> 
        put a@1: create a@1 -> a@1
        put a@1: -> a@1
        put a@3: update a@1 a@3 -> a@3
        put a@2: -> a@3
        del a@2: -> a@3
        del a@4: delete a@4 -> 
        del a@4: -> 
    "#]],
    );
}

#[test]
fn an_object_recreated_under_its_name_is_a_delete_and_a_create() {
    check(
        "list a@1; list a!new@5; put a!newer@9; put a!new@7; del a!other@10",
        &expect![[r#"
        list a@1: initial a@1 -> a@1
        list a!new@5: vanished a@1, create a!new@5 -> a!new@5
        put a!newer@9: vanished a!new@5, create a!newer@9 -> a!newer@9
        put a!new@7: -> a!newer@9
        del a!other@10: vanished a!newer@9 -> 
    "#]],
    );
}

#[test]
fn parts_are_replaced_and_withdrawn_by_themselves() {
    let mut store = Store::default();
    let in_namespace = |text: &str, namespace: &str| {
        let mut object = (*object(text).object().expect("it fits")).clone();
        object.metadata.namespace = Some(namespace.to_owned());
        Lazy::of(object).expect("it has a key")
    };
    let (one, two): (Part, Part) = (Some("one".into()), Some("two".into()));
    store.replace(&one, [in_namespace("a@1", "one")], Some(1));
    store.replace(&two, [in_namespace("b@2", "two")], Some(2));
    assert_eq!(seen(&store), "a@1 b@2");
    assert_eq!(store.replace(&one, [], Some(3)).iter().map(describe).collect::<Vec<_>>(), ["vanished a@1"]);
    assert_eq!(store.withdraw(&two).iter().map(describe).collect::<Vec<_>>(), ["vanished b@2"]);
    assert!(store.knows(&one) && !store.knows(&two));
}

#[test]
fn a_write_is_seen_until_the_watch_has_passed_it_and_events_come_from_the_watch() {
    check(
        "list a@1; wrote a@5; put a@3; put a@5; wrote b@6; put b@6; del b@8",
        &expect![[r#"
        list a@1: initial a@1 -> a@1
        wrote a@5: -> a@5
        put a@3: update a@1 a@3 -> a@5
        put a@5: update a@3 a@5 -> a@5
        wrote b@6: -> a@5 b@6
        put b@6: create b@6 -> a@5 b@6
        del b@8: delete b@8 -> a@5
    "#]],
    );
}

#[test]
fn a_late_answer_brings_nothing_back() {
    check(
        "list a@1; put b@3; del b@4; wrote b@3; wrote a@2; list @9; wrote c@8",
        &expect![[r#"
        list a@1: initial a@1 -> a@1
        put b@3: create b@3 -> a@1 b@3
        del b@4: delete b@4 -> a@1
        wrote b@3: -> a@1
        wrote a@2: -> a@1
        list @9: vanished a@1 -> 
        wrote c@8: -> 
    "#]],
    );
}

#[test]
fn an_answer_that_overtook_a_newer_one_changes_nothing() {
    check(
        "list a@1; wrote a@7; wrote a@5; pass 6; pass 7",
        &expect![[r#"
        list a@1: initial a@1 -> a@1
        wrote a@7: -> a@7
        wrote a@5: -> a@7
        pass 6: -> a@7
        pass 7: -> a@1
    "#]],
    );
}

#[test]
fn what_is_gone_stays_hidden_until_the_watch_tells_it() {
    check(
        "list a@1; deleted a@1; put a@2; del a@3",
        &expect![[r#"
        list a@1: initial a@1 -> a@1
        deleted a@1: -> 
        put a@2: update a@1 a@2 -> 
        del a@3: delete a@3 -> 
    "#]],
    );
    check(
        "list a@1; wrote b@5; deleted b@5; pass 4; put b@5; put b@6; del b@7",
        &expect![[r#"
        list a@1: initial a@1 -> a@1
        wrote b@5: -> a@1 b@5
        deleted b@5: -> a@1
        pass 4: -> a@1
        put b@5: create b@5 -> a@1
        put b@6: update b@5 b@6 -> a@1
        del b@7: delete b@7 -> a@1
    "#]],
    );
    check(
        "list a@1; deleted a@0; list a@1; list @9",
        &expect![[r#"
        list a@1: initial a@1 -> a@1
        deleted a@0: -> 
        list a@1: -> 
        list @9: vanished a@1 -> 
    "#]],
    );
    check(
        "list; put a@1; del a@2; deleted a@1; put b@3",
        &expect![[r#"
        list: -> 
        put a@1: create a@1 -> a@1
        del a@2: delete a@2 -> 
        deleted a@1: -> 
        put b@3: create b@3 -> b@3
    "#]],
    );
}

#[test]
fn what_is_presumed_gone_stays_hidden_unless_a_newer_version_tells_otherwise() {
    check(
        "list a@1 b@2; presumed a@1 b@2; del a@3; put b@4; del b@5",
        &expect![[r#"
        list a@1 b@2: initial a@1, initial b@2 -> a@1 b@2
        presumed a@1 b@2: -> 
        del a@3: delete a@3 -> 
        put b@4: update b@2 b@4 -> b@4
        del b@5: delete b@5 -> 
    "#]],
    );
    // It had changed before it was deleted, and the watch is behind.
    check(
        "list a@1; presumed a@2; put a@2; pass 3; del a@4",
        &expect![[r#"
        list a@1: initial a@1 -> a@1
        presumed a@2: -> 
        put a@2: update a@1 a@2 -> 
        pass 3: -> 
        del a@4: delete a@4 -> 
    "#]],
    );
    // It was made and deleted before the watch told of it.
    check(
        "list; presumed a@2; put a@2; del a@3",
        &expect![[r#"
        list: -> 
        presumed a@2: -> 
        put a@2: create a@2 -> 
        del a@3: delete a@3 -> 
    "#]],
    );
    // The watch knows more.
    check(
        "list a@5; presumed a@4; list @9; presumed a@5",
        &expect![[r#"
        list a@5: initial a@5 -> a@5
        presumed a@4: -> a@5
        list @9: vanished a@5 -> 
        presumed a@5: -> 
    "#]],
    );
    // We know more.
    check(
        "list a@1; wrote a@3; presumed a@1; deleted a@3; presumed a@3; del a@4",
        &expect![[r#"
        list a@1: initial a@1 -> a@1
        wrote a@3: -> a@3
        presumed a@1: -> a@3
        deleted a@3: -> 
        presumed a@3: -> 
        del a@4: delete a@4 -> 
    "#]],
    );
    // Another one has taken the name.
    check(
        "list a@1; presumed a@1; put a!new@5; wrote a!new@6; presumed a!new@5",
        &expect![[r#"
        list a@1: initial a@1 -> a@1
        presumed a@1: -> 
        put a!new@5: vanished a@1, create a!new@5 -> a!new@5
        wrote a!new@6: -> a!new@6
        presumed a!new@5: -> a!new@6
    "#]],
    );
}

#[test]
fn an_object_recreated_under_its_name_is_seen_at_once() {
    check(
        "list a@1; deleted a@1; wrote a!new@5; del a@4; put a!new@5",
        &expect![[r#"
        list a@1: initial a@1 -> a@1
        deleted a@1: -> 
        wrote a!new@5: -> a!new@5
        del a@4: delete a@4 -> a!new@5
        put a!new@5: create a!new@5 -> a!new@5
    "#]],
    );
    check(
        "list a@1; wrote a!new@5; deleted a@1; deleted a!new@5; del a@4; put a!new@5; del a!new@6",
        &expect![[r#"
            list a@1: initial a@1 -> a@1
            wrote a!new@5: -> a!new@5
            deleted a@1: -> a!new@5
            deleted a!new@5: -> 
            del a@4: delete a@4 -> 
            put a!new@5: create a!new@5 -> 
            del a!new@6: delete a!new@6 -> 
        "#]],
    );
}

#[test]
fn what_is_not_selected_any_more_is_hidden_and_may_come_back() {
    check(
        "list a@1; unselected a@5; put a@3; wrote a@7; del a@5; put a@7",
        &expect![[r#"
        list a@1: initial a@1 -> a@1
        unselected a@5: -> 
        put a@3: update a@1 a@3 -> 
        wrote a@7: -> a@7
        del a@5: delete a@5 -> a@7
        put a@7: create a@7 -> a@7
    "#]],
    );
    check(
        "list a@1; unselected b@5; unselected a!new@6; pass 6",
        &expect![[r#"
        list a@1: initial a@1 -> a@1
        unselected b@5: -> a@1
        unselected a!new@6: -> 
        pass 6: -> a@1
    "#]],
    );
}

#[test]
fn a_list_covers_the_writes_before_it() {
    check(
        "wrote a@5 b@6; list a@5; list @7",
        &expect![[r#"
        wrote a@5 b@6: -> a@5 b@6
        list a@5: initial a@5 -> a@5 b@6
        list @7: vanished a@5 -> 
    "#]],
    );
}

#[test]
fn a_server_that_has_lost_its_past_takes_the_writes_with_it() {
    check(
        "list a@5; wrote a@9; list @3 a@2",
        &expect![[r#"
        list a@5: initial a@5 -> a@5
        wrote a@9: -> a@9
        list @3 a@2: update a@5 a@2 -> a@2
    "#]],
    );
}

#[test]
fn the_oldest_writes_go_first_when_there_are_too_many() {
    let mut store: Store<ConfigMap> = Store::default();
    store.replace(&None, [], Some(1));
    for n in 2..=Store::<ConfigMap>::WRITES + 4 {
        store.wrote(object(&format!("n{n}@{n}")), true, Instant::now());
    }
    assert_eq!(store.len(), Store::<ConfigMap>::WRITES);
    assert!(store.get(&key("n4")).is_none() && store.get(&key("n5")).is_some());
    let all = Store::<ConfigMap>::WRITES + 4;
    store.passed(&None, u64::try_from(all).ok());
    assert!(store.visible.is_empty() && store.writes.is_empty() && store.told.is_empty());
}

#[test]
fn unchanged_objects_stay_the_ones_held_across_a_relist() {
    let mut store = Store::default();
    step(&mut store, "list a@1");
    let before = store.get(&key("a")).expect("a").clone();
    step(&mut store, "list a@1 b@2");
    assert!(before.ptr_eq(store.get(&key("a")).expect("a")));
}

/// What a handler knows that knows only the events.
#[derive(Default)]
struct Folded(BTreeMap<ObjectKey<ConfigMap>, Lazy<ConfigMap>>);

impl Folded {
    fn take(&mut self, events: Vec<Event<ConfigMap>>) -> Result<(), TestCaseError> {
        for event in events {
            let key = event.key();
            match event {
                Event::Create { object, .. } => prop_assert!(self.0.insert(key, object).is_none()),
                Event::Update { old, new } => {
                    let before = self.0.insert(key, new).expect("updated objects exist");
                    prop_assert!(before.ptr_eq(&old));
                }
                Event::Delete { .. } => prop_assert!(self.0.remove(&key).is_some()),
                Event::Generic { .. } => unreachable!("a store makes no generic events"),
            }
        }
        Ok(())
    }

    fn is(&self, store: &Store<ConfigMap>) -> Result<(), TestCaseError> {
        let told: Vec<_> = store.told().map(|object| version(&object)).collect();
        prop_assert_eq!(told, self.0.values().map(version).collect::<Vec<_>>());
        Ok(())
    }
}

/// A reader that knows only the changes of what readers see.
fn follow(seen: &mut BTreeMap<ObjectKey<ConfigMap>, Lazy<ConfigMap>>, store: &mut Store<ConfigMap>) {
    for Change { key, old, new } in store.take_changes() {
        let before = match new {
            Some(new) => seen.insert(key, new),
            None => seen.remove(&key),
        };
        assert!(match (&before, &old) {
            (Some(before), Some(old)) => before.ptr_eq(old),
            (before, old) => before.is_none() && old.is_none(),
        });
    }
}

/// What somebody did to one of three names: nothing is left, or an object of some uid.
#[derive(Debug, Clone)]
struct Deed {
    name: usize,
    delete: bool,
    /// With others, so that its end is presumed.
    with_others: bool,
    /// Through our client, whose answer is told after this many more steps of the store.
    ours: Option<usize>,
}

/// What becomes of the store between deeds.
#[derive(Debug, Clone, Copy)]
enum Told {
    /// The watch tells the next change.
    Next,
    /// The watch tells an old change again.
    Again(usize),
    /// A bookmark.
    Bookmark,
    /// A list of what is.
    List,
    /// The watch says nothing.
    Nothing,
}

fn deeds() -> impl Strategy<Value = Vec<(Deed, Told)>> {
    let deed = (0..3usize, any::<bool>(), any::<bool>(), prop::option::of(0..6usize));
    let deed = deed.prop_map(|(name, delete, with_others, ours)| Deed { name, delete, with_others, ours });
    let told = prop_oneof![
        4 => Just(Told::Next),
        1 => (0..9usize).prop_map(Told::Again),
        1 => Just(Told::Bookmark),
        1 => Just(Told::List),
        4 => Just(Told::Nothing),
    ];
    prop::collection::vec((deed, told), 1..60)
}

proptest! {
    /// A handler that knows only the events knows what the watch told, whatever that is.
    #[test]
    fn events_fold_to_the_store(
        commands in prop::collection::vec((0..6u8, prop::collection::btree_map(0..4u8, (0..2u8, 0..9u8), 0..4)), 1..40),
    ) {
        let (mut store, mut folded, mut readers) = (Store::default(), Folded::default(), BTreeMap::new());
        step(&mut store, "list");
        for (command, objects) in commands {
            let word = ["list", "put", "del", "wrote", "deleted", "presumed"][usize::from(command)];
            let text = objects.iter().fold(word.to_owned(), |text, (name, (uid, version))| {
                format!("{text} n{name}!u{uid}@{version}")
            });
            folded.take(step(&mut store, &text))?;
            folded.is(&store)?;
            follow(&mut readers, &mut store);
            prop_assert_eq!(seen(&store), readers.values().map(version).collect::<Vec<_>>().join(" "));
        }
    }

    /// A server, a watch that lags behind it, says things twice and is sometimes replaced by a list, and our own writes
    /// among those of others, whose answers come late and in any order: readers always see what the watch has told with
    /// our own newer writes over it, and in the end what is.
    #[test]
    fn readers_see_the_server_as_it_was_with_our_own_writes_over_it(history in deeds()) {
        let (mut store, mut folded) = (Store::default(), Folded::default());
        folded.take(step(&mut store, "list @1"))?;
        // By name: the object, if there is one. Then every change, as the watch will tell it.
        let mut server: [Option<String>; 3] = Default::default();
        let mut changes: Vec<(bool, String)> = Vec::new();
        let (mut told, mut version, mut uids) = (0, 1, 0);
        let mut answers: Vec<(usize, u64, usize, String)> = Vec::new();
        // The last write of ours to each name whose answer has come in.
        let mut ours: [Option<(u64, String)>; 3] = Default::default();
        for (at, (Deed { name, delete, with_others, ours: answer }, tells)) in history.into_iter().enumerate() {
            // Something happens.
            version += 1;
            let uid = server[name].as_deref().map(|object| object.split(['!', '@']).nth(1).expect("a uid").to_owned());
            let (command, object) = match (uid, delete) {
                (Some(uid), true) => {
                    let last = server[name].take().expect("it is there");
                    changes.push((false, format!("n{name}!{uid}@{version}")));
                    (if with_others { "presumed" } else { "deleted" }, last)
                }
                (uid, _) => {
                    let uid = uid.unwrap_or_else(|| { uids += 1; format!("u{uids}") });
                    let object = format!("n{name}!{uid}@{version}");
                    server[name] = Some(object.clone());
                    changes.push((true, object.clone()));
                    ("wrote", object)
                }
            };
            // We delete what we see, unless we delete whatever there is.
            let seen_by_us = command != "deleted" || seen(&store).contains(&format!("{}@", object.split('@').next().expect("an object")));
            if let Some(later) = answer.filter(|_| seen_by_us) {
                answers.push((at + later, version, name, format!("{command} {object}")));
            }
            // An answer comes in.
            for (_, version, name, answer) in answers.extract_if(.., |(when, ..)| *when <= at) {
                step(&mut store, &answer);
                if ours[name].as_ref().is_none_or(|(last, _)| *last < version) {
                    ours[name] = Some((version, answer));
                }
            }
            // The watch says something.
            match tells {
                Told::Next if told < changes.len() => {
                    let (applied, object) = &changes[told];
                    told += 1;
                    folded.take(step(&mut store, &format!("{} {object}", if *applied { "put" } else { "del" })))?;
                }
                Told::Again(back) if told > back && changes[told - 1 - back].0 && store.told().any(|held| {
                    held.key().name() == &changes[told - 1 - back].1[..2]
                }) => {
                    folded.take(step(&mut store, &format!("put {}", changes[told - 1 - back].1)))?;
                }
                Told::Bookmark => {
                    step(&mut store, &format!("pass {}", told + 1));
                }
                Told::List => {
                    told = changes.len();
                    let objects = server.iter().flatten().cloned().collect::<Vec<_>>().join(" ");
                    folded.take(step(&mut store, &format!("list @{version} {objects}")))?;
                }
                _ => {}
            }
            folded.is(&store)?;
            // What the watch has told, with what we know to have done since.
            let mut expected: [Option<String>; 3] = Default::default();
            for (applied, object) in &changes[..told] {
                let name: usize = object[1..2].parse().expect("a digit");
                expected[name] = applied.then(|| object.clone());
            }
            for (name, ours) in ours.iter().enumerate() {
                if let Some((_, answer)) = ours.as_ref().filter(|(version, _)| *version > told as u64 + 1) {
                    expected[name] = answer.strip_prefix("wrote ").map(str::to_owned);
                }
            }
            prop_assert_eq!(seen(&store), expected.iter().flatten().cloned().collect::<Vec<_>>().join(" "));
        }
        // Everything is told in the end.
        for (applied, object) in &changes[told..] {
            folded.take(step(&mut store, &format!("{} {object}", if *applied { "put" } else { "del" })))?;
        }
        prop_assert_eq!(seen(&store), server.iter().flatten().cloned().collect::<Vec<_>>().join(" "));
        for (_, _, _, answer) in answers {
            step(&mut store, &answer);
        }
        prop_assert_eq!(seen(&store), server.iter().flatten().cloned().collect::<Vec<_>>().join(" "));
        prop_assert!(store.writes.is_empty() && store.told.is_empty() && store.order.is_empty());
    }
}
