//! Random histories: handlers and readers end up with the state of the server.

use proptest::prelude::*;

use super::*;

/// State that a handler derives from events alone.
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
        let watched: Vec<_> = store.watched_objects().map(|object| version(&object)).collect();
        prop_assert_eq!(watched, self.0.values().map(version).collect::<Vec<_>>());
        Ok(())
    }
}

/// Applies changes of visible states to the state of a reader that receives nothing else.
fn follow(seen: &mut BTreeMap<ObjectKey<ConfigMap>, Lazy<ConfigMap>>, changes: Vec<StateChange<ConfigMap>>) {
    for StateChange { key, old, new } in changes {
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

/// A change of one of three names: a deletion, or a write of the object or a new one.
#[derive(Debug, Clone)]
struct RandomChange {
    name: usize,
    delete: bool,
    by: DeletedBy,
    /// For an own change: number of steps until its answer arrives.
    ours: Option<usize>,
}

/// Facts that the answer to a deletion reports.
#[derive(Debug, Clone, Copy, PartialEq)]
enum DeletedBy {
    /// UID and version of the object.
    Version,
    /// The UID alone: the deletion was requested by name.
    Name,
    /// A bulk deletion. Its answer does not report single objects, so the deletion is presumed.
    Bulk,
}

/// Input of the store between two changes.
#[derive(Debug, Clone, Copy)]
enum Delivery {
    /// The watch delivers the next change.
    Next,
    /// The watch repeats an old change.
    Again(usize),
    /// The watch delivers the next two changes in reverse order.
    Swapped,
    /// The watch delivers a bookmark.
    Bookmark,
    /// A new list.
    List,
    /// The watch delivers nothing.
    Nothing,
}

fn random_histories() -> impl Strategy<Value = Vec<(RandomChange, Delivery)>> {
    let by = prop_oneof![Just(DeletedBy::Version), Just(DeletedBy::Name), Just(DeletedBy::Bulk)];
    let change = (0..3usize, any::<bool>(), by, prop::option::of(0..6usize));
    let change = change.prop_map(|(name, delete, by, ours)| RandomChange { name, delete, by, ours });
    let delivery = prop_oneof![
        4 => Just(Delivery::Next),
        1 => (0..9usize).prop_map(Delivery::Again),
        1 => Just(Delivery::Swapped),
        1 => Just(Delivery::Bookmark),
        1 => Just(Delivery::List),
        4 => Just(Delivery::Nothing),
    ];
    prop::collection::vec((change, delivery), 1..60)
}

proptest! {
    /// A handler that applies events has the watched state, for any input.
    #[test]
    fn events_fold_to_the_store(
        commands in prop::collection::vec((0..8u8, prop::collection::btree_map(0..4u8, (0..2u8, 0..9u8), 0..4)), 1..40),
    ) {
        let (mut store, mut folded, mut readers) = (Store::default(), Folded::default(), BTreeMap::new());
        step(&mut store, "list");
        for (command, objects) in commands {
            let words = ["list", "put", "del", "wrote", "unselected", "unclear", "deleted", "presumed"];
            let word = words[usize::from(command)];
            let text = objects.iter().fold(word.to_owned(), |text, (name, (uid, version))| {
                format!("{text} n{name}!u{uid}@{version}")
            });
            let CarriedOut { events, changes, .. } = carry_out(&mut store, &text);
            folded.take(events)?;
            folded.is(&store)?;
            follow(&mut readers, changes);
            prop_assert_eq!(seen(&store), readers.values().map(version).collect::<Vec<_>>().join(" "));
        }
    }

    /// A server, and a watch that lags, repeats and swaps events and is replaced by a list when required and at random.
    /// Own writes are mixed with those of others, and their answers arrive late and in any order. Readers always see
    /// the watched state with newer own writes, and in the end the state of the server. An object deleted by name is
    /// never visible; another object of this name may be, until the watch has delivered the deletion.
    #[test]
    fn readers_see_watched_states_with_newer_own_writes(history in random_histories()) {
        let (mut store, mut folded) = (Store::default(), Folded::default());
        folded.take(step(&mut store, "list @1"))?;
        // The server's objects by name, and all changes in the order in which the watch delivers them.
        let mut server: [Option<String>; 3] = Default::default();
        let mut changes: Vec<(bool, String)> = Vec::new();
        let (mut delivered, mut version, mut uids) = (0, 1, 0);
        let mut answers: Vec<(usize, u64, usize, String)> = Vec::new();
        // Last answered own write to each name.
        let mut ours: [Option<(u64, String)>; 3] = Default::default();
        // Last deletion by each name, whether its answer has arrived or not, and the uids in the answers.
        let (mut by_name, mut ended): ([u64; 3], Vec<String>) = Default::default();
        for (at, (RandomChange { name, delete, by, ours: answer }, delivery)) in history.into_iter().enumerate() {
            // Change an object.
            version += 1;
            let uid = server[name].as_deref().map(|object| object.split(['!', '@']).nth(1).expect("a uid").to_owned());
            let (command, object) = match (uid, delete) {
                (Some(uid), true) => {
                    let last = server[name].take().expect("it is there");
                    changes.push((false, format!("n{name}!{uid}@{version}")));
                    match by {
                        DeletedBy::Version => ("deleted", last),
                        DeletedBy::Bulk => ("presumed", last),
                        DeletedBy::Name => ("deleted", format!("n{name}!{uid}>{}", store.reached(&key(&format!("n{name}"))).unwrap_or(0))),
                    }
                }
                (uid, _) => {
                    let uid = uid.unwrap_or_else(|| { uids += 1; format!("u{uids}") });
                    let object = format!("n{name}!{uid}@{version}");
                    server[name] = Some(object.clone());
                    changes.push((true, object.clone()));
                    ("wrote", object)
                }
            };
            if let Some(later) = answer {
                if object.contains('>') {
                    by_name[name] = version;
                }
                answers.push((at + later, version, name, format!("{command} {object}")));
            }
            // Deliver answers.
            for (_, version, name, answer) in answers.extract_if(.., |(when, ..)| *when <= at) {
                folded.take(step(&mut store, &answer))?;
                ended.extend(answer.strip_prefix("deleted ").and_then(|object| Some(object.split_once('>')?.0.to_owned())));
                if ours[name].as_ref().is_none_or(|(last, _)| *last < version) {
                    ours[name] = Some((version, answer));
                }
            }
            // Deliver watch events.
            let indexes = match delivery {
                Delivery::Next if delivered < changes.len() => vec![delivered],
                Delivery::Swapped if delivered + 1 < changes.len() => vec![delivered + 1, delivered],
                Delivery::Again(back) if delivered > back => vec![delivered - 1 - back],
                _ => vec![],
            };
            let mut list = matches!(delivery, Delivery::List);
            for change in indexes {
                let (applied, object) = &changes[change];
                let command = format!("{} {object}", if *applied { "put" } else { "del" });
                let CarriedOut { events, out_of_order, .. } = carry_out(&mut store, &command);
                prop_assert!(events.is_empty() || !out_of_order && !matches!(delivery, Delivery::Again(_)));
                folded.take(events)?;
                list |= out_of_order;
            }
            match delivery {
                Delivery::Next if delivered < changes.len() => delivered += 1,
                Delivery::Swapped if delivered + 1 < changes.len() => delivered += 2,
                Delivery::Bookmark => folded.take(step(&mut store, &format!("pass {}", delivered + 1)))?,
                _ => {}
            }
            if list {
                delivered = changes.len();
                let objects = server.iter().flatten().cloned().collect::<Vec<_>>().join(" ");
                folded.take(step(&mut store, &format!("list @{version} {objects}")))?;
            }
            folded.is(&store)?;
            // Expected: the watched state with the known own writes.
            let mut expected: [Option<String>; 3] = Default::default();
            for (applied, object) in &changes[..delivered] {
                let name: usize = object[1..2].parse().expect("a digit");
                expected[name] = applied.then(|| object.clone());
            }
            for (name, ours) in ours.iter().enumerate() {
                if let Some((_, answer)) = ours.as_ref().filter(|(version, _)| *version > delivered as u64 + 1) {
                    expected[name] = answer.strip_prefix("wrote ").map(str::to_owned);
                }
            }
            for (name, expected) in expected.into_iter().enumerate() {
                let seen = store.get(&key(&format!("n{name}"))).map(self::version);
                if by_name[name] <= delivered as u64 + 1 {
                    prop_assert_eq!(seen, expected);
                } else if let Some(seen) = seen {
                    prop_assert!(!ended.iter().any(|gone| seen.starts_with(&format!("{gone}@"))), "{}", seen);
                }
            }
        }
        // Finally the watch delivers everything.
        for (applied, object) in &changes[delivered..] {
            folded.take(step(&mut store, &format!("{} {object}", if *applied { "put" } else { "del" })))?;
        }
        prop_assert_eq!(seen(&store), server.iter().flatten().cloned().collect::<Vec<_>>().join(" "));
        for (_, _, _, answer) in answers {
            step(&mut store, &answer);
        }
        prop_assert_eq!(seen(&store), server.iter().flatten().cloned().collect::<Vec<_>>().join(" "));
        prop_assert!(store.writes.is_empty() && store.watched.is_empty() && store.order.is_empty());
    }
}
