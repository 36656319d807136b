//! Tests of the store in text form: commands, the resulting events, and the visible states.

mod deletes;
mod histories;
mod scopes;
mod watch_events;
mod writes;

use expect_test::Expect;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use tokio::time::Instant;

use super::*;
use crate::cache::{objects::event::Event, watch::subscriber::OutOfOrder};

/// Returns an object in namespace `ns`: `a@1` has name and uid `a` and version 1, `a!x@1` has uid `x`.
fn object(text: &str) -> Lazy<ConfigMap> {
    object_in("ns", text)
}

fn object_in(namespace: &str, text: &str) -> Lazy<ConfigMap> {
    let (name, version) = text.split_once('@').expect("name@version");
    let (name, uid) = name.split_once('!').unwrap_or((name, name));
    let metadata = json!({ "namespace": namespace, "name": name, "uid": uid, "resourceVersion": version });
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

/// Results of a command.
#[derive(Default)]
struct CarriedOut {
    events: Vec<Event<ConfigMap>>,
    changes: Vec<StateChange<ConfigMap>>,
    /// Whether an object was out of order.
    out_of_order: bool,
}

impl CarriedOut {
    fn add(&mut self, delta: Delta<ConfigMap>) {
        let Delta { events, changes, .. } = delta.joined();
        self.events.extend(events);
        self.changes.extend(changes);
    }
}

/// Executes a command. A `list` has the highest version of its objects, or the version at its start (`@9`). `deleted
/// a@1` is a deletion with last version 1, `deleted a>1` one with an unknown version after the API server had reached
/// version 1.
fn carry_out(store: &mut Store<ConfigMap>, command: &str) -> CarriedOut {
    let mut carried_out = CarriedOut::default();
    let mut words = command.split_whitespace();
    let (scope, now) = (None, Instant::now());
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
            carried_out.add(store.replace(&scope, list, version));
        }
        "put" => {
            for object in words.map(object) {
                match store.upsert(&scope, object) {
                    Ok(delta) => carried_out.add(delta),
                    Err(OutOfOrder) => carried_out.out_of_order = true,
                }
            }
        }
        "del" => words.map(object).for_each(|object| carried_out.add(store.remove(&scope, object))),
        "pass" => words.for_each(|version| carried_out.add(store.advance(&scope, version.parse().ok()))),
        word @ ("wrote" | "unselected" | "unclear") => {
            let selected = (word != "unclear").then_some(word == "wrote");
            words.map(object).for_each(|object| carried_out.add(store.record_write(object, selected, now)));
        }
        "deleted" => {
            for word in words {
                let last = object(&word.replace('>', "@"));
                let (uid, number) = (last.meta().uid().cloned().expect("a uid"), number(last.meta()));
                let deletion = match word.contains('>') {
                    true => OwnDeletion { uid, version: None, after: number },
                    false => OwnDeletion { uid, version: number, after: None },
                };
                carried_out.add(store.record_deletion(&last.key(), deletion, now));
            }
        }
        "presumed" => {
            for last in words.map(object) {
                let (uid, version) = (last.meta().uid().cloned(), number(last.meta()));
                let (uid, version) = (uid.expect("a uid"), version.expect("a version"));
                carried_out.add(store.record_presumed_deletion(&last.key(), uid, version, now));
            }
        }
        other => panic!("unknown command {other}"),
    }
    carried_out
}

/// Executes a command in which no object is out of order.
fn step(store: &mut Store<ConfigMap>, command: &str) -> Vec<Event<ConfigMap>> {
    let CarriedOut { events, out_of_order, .. } = carry_out(store, command);
    assert!(!out_of_order, "{command}");
    events
}

/// Returns the events of an operation as text.
fn describe_all(delta: Delta<ConfigMap>) -> Vec<String> {
    delta.joined().events.iter().map(describe).collect()
}

fn seen(store: &Store<ConfigMap>) -> String {
    store.snapshot().values().map(version).collect::<Vec<_>>().join(" ")
}

fn check(commands: &str, expected: &Expect) {
    let mut store = Store::default();
    let mut lines = String::new();
    for command in commands.split(';') {
        let CarriedOut { events, out_of_order, .. } = carry_out(&mut store, command);
        let out_of_order = out_of_order.then(|| "out of order".to_owned());
        let events: Vec<String> = events.iter().map(describe).chain(out_of_order).collect();
        let events = if events.is_empty() { String::new() } else { format!(" {}", events.join(", ")) };
        lines += &format!("{}:{events} -> {}\n", command.trim(), seen(&store));
    }
    assert!(store.order.len() == store.writes.len() && store.watched.len() == store.writes.len());
    expected.assert_eq(&lines);
}
