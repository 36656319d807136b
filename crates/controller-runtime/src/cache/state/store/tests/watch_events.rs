//! Events that follow from lists and watches.

use expect_test::expect;

use super::*;

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
fn an_event_repeated_after_a_delete_does_not_restore_the_object() {
    check(
        "list a@1; del a@2; put a@1; list b@5; del b@6; put b@5; put b@7; list @3; put b@5",
        &expect![[r#"
            list a@1: initial a@1 -> a@1
            del a@2: delete a@2 -> 
            put a@1: out of order -> 
            list b@5: create b@5 -> b@5
            del b@6: delete b@6 -> 
            put b@5: out of order -> 
            put b@7: create b@7 -> b@7
            list @3: vanished b@7 -> 
            put b@5: create b@5 -> b@5
        "#]],
    );
}

#[test]
fn a_late_event_requires_a_list_unless_it_is_newer_than_the_stored_state() {
    check(
        "list a@1 b@9; put c@5; put a@4; put a@3; put a!new@6; del a!new@2; list a!new@6 b@9 c@5 @9; put c@5; put d@8",
        &expect![[r#"
            list a@1 b@9: initial a@1, initial b@9 -> a@1 b@9
            put c@5: out of order -> a@1 b@9
            put a@4: update a@1 a@4 -> a@4 b@9
            put a@3: -> a@4 b@9
            put a!new@6: vanished a@4, create a!new@6 -> a!new@6 b@9
            del a!new@2: -> a!new@6 b@9
            list a!new@6 b@9 c@5 @9: create c@5 -> a!new@6 b@9 c@5
            put c@5: -> a!new@6 b@9 c@5
            put d@8: out of order -> a!new@6 b@9 c@5
        "#]],
    );
}

#[test]
fn an_event_at_the_version_of_the_list_is_not_late() {
    check(
        "list a@1 @5; put b@5; put c@4",
        &expect![[r#"
            list a@1 @5: initial a@1 -> a@1
            put b@5: create b@5 -> a@1 b@5
            put c@4: out of order -> a@1 b@5
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
fn scopes_are_replaced_and_withdrawn_independently() {
    let mut store = Store::default();
    let in_namespace = |text: &str, namespace: &str| {
        let mut object = (*object(text).object().expect("it fits")).clone();
        object.metadata.namespace = Some(namespace.to_owned());
        Lazy::of(object).expect("it has a key")
    };
    let (one, two): (WatchScope, WatchScope) = (Some("one".into()), Some("two".into()));
    let _ = (store.replace(&two, [], Some(9)), store.replace(&one, [], Some(1)));
    let put = |store: &mut Store<ConfigMap>, text| store.upsert(&one, in_namespace(text, "one"));
    assert_eq!(describe_all(put(&mut store, "c@5").expect("the other scope is further")), ["create c@5"]);
    assert_eq!(describe_all(store.remove(&one, in_namespace("c@6", "one"))), ["delete c@6"]);
    assert_eq!(put(&mut store, "c@5").err(), Some(OutOfOrder), "it is repeated");
    let _ = (store.withdraw(&one), store.withdraw(&two));
    let _ = store.replace(&one, [in_namespace("a@1", "one")], Some(1));
    let _ = store.replace(&two, [in_namespace("b@2", "two")], Some(2));
    assert_eq!(seen(&store), "a@1 b@2");
    assert_eq!(describe_all(store.replace(&one, [], Some(3))), ["vanished a@1"]);
    assert_eq!(describe_all(store.withdraw(&two)), ["vanished b@2"]);
    assert!(store.knows(&one) && !store.knows(&two));
}

#[test]
fn a_relist_keeps_the_stored_states_of_unchanged_objects() {
    let mut store = Store::default();
    step(&mut store, "list a@1");
    let before = store.get(&key("a")).expect("a").clone();
    step(&mut store, "list a@1 b@2");
    assert!(before.ptr_eq(store.get(&key("a")).expect("a")));
}
