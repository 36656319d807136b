//! Tests of the store in text form: commands, the resulting events, and the visible states.

mod deletes;
mod histories;
mod told;
mod writes;

use expect_test::Expect;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use super::*;

/// Returns an object: `a@1` has name and uid `a` and version 1, `a!x@1` has uid `x`.
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

/// Executes a command. A `list` has the highest version of its objects, or the version at its start (`@9`). `deleted
/// a@1` is a deletion with last version 1, `deleted a>1` one with an unknown version after the API server had reached
/// version 1.
///
/// Returns the events, and whether an object was out of order.
fn carry_out(store: &mut Store<ConfigMap>, command: &str) -> (Vec<Event<ConfigMap>>, bool) {
    let mut out_of_order = false;
    let mut words = command.split_whitespace();
    let (part, now) = (None, Instant::now());
    let mut events = match words.next().expect("a command") {
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
        "put" => {
            let mut events = Vec::new();
            for object in words.map(object) {
                match store.upsert(&part, object) {
                    Ok(new) => events.extend(new),
                    Err(OutOfOrder) => out_of_order = true,
                }
                events.extend(store.take_missed());
            }
            events
        }
        "del" => {
            let mut remove = |object| {
                let mut events = store.remove(&part, object);
                events.extend(store.take_missed());
                events
            };
            words.map(object).flat_map(&mut remove).collect()
        }
        "pass" => {
            words.for_each(|version| store.passed(&part, version.parse().ok()));
            Vec::new()
        }
        word @ ("wrote" | "unselected" | "unclear") => {
            let selected = (word != "unclear").then_some(word == "wrote");
            words.map(object).for_each(|object| store.wrote(object, selected, now));
            Vec::new()
        }
        "deleted" => {
            for word in words {
                let last = object(&word.replace('>', "@"));
                let (uid, number) = (last.meta().uid().cloned().expect("a uid"), number(last.meta()));
                let end = match word.contains('>') {
                    true => End { uid, version: None, after: number },
                    false => End { uid, version: number, after: None },
                };
                store.deleted(&last.key(), end, now);
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
    };
    events.extend(store.take_missed());
    (events, out_of_order)
}

/// Executes a command in which no object is out of order.
fn step(store: &mut Store<ConfigMap>, command: &str) -> Vec<Event<ConfigMap>> {
    let (events, out_of_order) = carry_out(store, command);
    assert!(!out_of_order, "{command}");
    events
}

fn seen(store: &Store<ConfigMap>) -> String {
    store.snapshot().values().map(version).collect::<Vec<_>>().join(" ")
}

fn check(commands: &str, expected: &Expect) {
    let mut store = Store::default();
    let mut lines = String::new();
    for command in commands.split(';') {
        let (events, out_of_order) = carry_out(&mut store, command);
        let out_of_order = out_of_order.then(|| "out of order".to_owned());
        let events: Vec<String> = events.iter().map(describe).chain(out_of_order).collect();
        let events = if events.is_empty() { String::new() } else { format!(" {}", events.join(", ")) };
        lines += &format!("{}:{events} -> {}\n", command.trim(), seen(&store));
    }
    assert!(store.order.len() == store.writes.len() && store.told.len() == store.writes.len());
    expected.assert_eq(&lines);
}
