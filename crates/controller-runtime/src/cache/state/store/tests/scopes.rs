//! Several scopes in one store: one for most namespaces, and some of their own.

use super::*;

/// A store that watches the namespace `apart` separately.
fn store() -> Store<ConfigMap> {
    Store::with_separate_namespaces(BTreeSet::from(["apart".into()]))
}

fn apart() -> WatchScope {
    Some("apart".into())
}

/// Keys and versions of all visible objects.
fn shown(store: &Store<ConfigMap>) -> Vec<String> {
    store
        .snapshot()
        .values()
        .map(|object| format!("{}/{}", object.meta().namespace().unwrap_or("-"), version(object)))
        .collect()
}

#[test]
fn the_list_of_a_scope_leaves_the_objects_of_another() {
    let mut store = store();
    let listed = store.replace(&None, [object("a@1")], Some(1));
    assert_eq!(describe_all(listed), ["initial a@1"]);
    let listed = store.replace(&apart(), [object_in("apart", "b@2"), object_in("apart", "c@3")], Some(3));
    assert_eq!(describe_all(listed), ["initial b@2", "initial c@3"]);
    let listed = store.replace(&None, [], Some(4));
    assert_eq!(describe_all(listed), ["vanished a@1"]);
    assert_eq!(shown(&store), ["apart/b@2", "apart/c@3"]);
    assert_eq!(describe_all(store.replace(&None, [object("z@5")], Some(5))), ["create z@5"]);
    assert_eq!(describe_all(store.withdraw(&apart())), ["vanished b@2", "vanished c@3"]);
    assert_eq!(shown(&store), ["ns/z@5"]);
}

#[test]
fn a_write_waits_for_the_watch_of_its_own_scope() {
    let mut store = store();
    assert_eq!(describe_all(store.replace(&None, [], Some(5))), [""; 0]);
    assert_eq!(describe_all(store.replace(&apart(), [], Some(5))), [""; 0]);
    for object in [object("a@7"), object_in("apart", "b@8")] {
        assert_eq!(describe_all(store.record_write(object, Some(true), Instant::now())), [""; 0]);
    }
    assert!(store.waiting_since(&None).is_some() && store.waiting_since(&apart()).is_some());
    assert_eq!(describe_all(store.advance(&None, Some(9))), ["create a@7", "vanished a@7"]);
    assert_eq!(shown(&store), ["apart/b@8"], "the other watch has not passed it");
    assert!(store.waiting_since(&None).is_none() && store.waiting_since(&apart()).is_some());
    assert_eq!(describe_all(store.advance(&apart(), Some(9))), ["create b@8", "vanished b@8"]);
    assert_eq!(shown(&store), [""; 0]);
}

#[test]
fn the_version_of_a_store_is_the_lowest_of_its_scopes() {
    let mut store = store();
    assert_eq!(store.version(), None);
    drop(store.replace(&None, [], Some(9)));
    assert_eq!(store.version(), Some(9));
    drop(store.replace(&apart(), [], Some(5)));
    assert_eq!(store.version(), Some(5));
    assert_eq!(store.versions().map(|(_, version)| version).collect::<Vec<_>>(), [9, 5]);
    drop(store.advance(&apart(), Some(12)));
    assert_eq!(store.version(), Some(9));
    drop(store.replace(&apart(), [], None));
    assert_eq!(store.version(), None, "the position of one scope is unknown");
    assert_eq!(store.versions().count(), 1);
    assert_eq!(store.scopes().count(), 2);
}

#[test]
fn watched_states_are_returned_in_pieces_in_key_order() {
    let mut store = Store::default();
    step(&mut store, "list a@1 b@2 c@3 e@4");
    step(&mut store, "wrote b@9 d@10");
    step(&mut store, "deleted c@11");
    assert_eq!(seen(&store), "a@1 b@9 d@10 e@4");
    let piece = |store: &Store<ConfigMap>, after: Option<&str>, limit| {
        let key = after.map(key);
        store.watched_after(key.as_ref(), limit).iter().map(version).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(piece(&store, None, 10), "a@1 b@2 c@3 e@4");
    assert_eq!(piece(&store, None, 2), "a@1 b@2");
    assert_eq!(piece(&store, Some("b"), 2), "c@3 e@4");
    assert_eq!(piece(&store, Some("e"), 2), "");
}

#[test]
fn a_list_that_fits_into_one_piece_is_complete_after_it() {
    for (held, list, limit, pieces) in [
        ("list", "a@1 b@2", 2, 1),
        ("list", "a@1", 2, 1),
        ("list", "a@1 b@2 c@3", 2, 2),
        ("list a@1", "a@1 b@2", 2, 1),
        ("list a@1 b@2 c@3", "", 4, 1),
        ("list a@1 b@2", "a@2 c@3", 3, 1),
    ] {
        let mut store = Store::default();
        step(&mut store, held);
        let list = list.split_whitespace().map(object).map(|object| (object.key(), object)).collect();
        let mut list = ListInTransit::new(list);
        let number = (1..).find(|_| store.replace_some(&None, &mut list, Some(9), limit).0);
        assert_eq!(number, Some(pieces), "{held}, limit {limit}");
    }
}

#[test]
fn a_copy_of_the_watched_states_changes_only_objects_that_it_has() {
    let mut store = Store::default();
    step(&mut store, "list a@1 b@2 c@3");
    step(&mut store, "wrote b@9 d@10");
    let mut copy = store.watched_snapshot();
    assert!(copy.set(&key("a"), Some(object("a@4"))));
    assert!(copy.set(&key("b"), Some(object("b@5"))));
    assert!(copy.set(&key("c"), None));
    assert!(!copy.set(&key("c"), Some(object("c@6"))), "it was removed");
    assert!(!copy.set(&key("d"), Some(object("d@7"))), "only an own write knows it");
    assert!(!copy.set(&key("e"), None));
    assert_eq!(copy.after(None, 9).iter().map(version).collect::<Vec<_>>(), ["a@4", "b@5"]);
    assert_eq!(seen(&store), "a@1 b@9 c@3 d@10", "the store is as before");
}
