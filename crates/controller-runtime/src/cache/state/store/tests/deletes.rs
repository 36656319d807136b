//! Own deletions that the watch has not delivered yet.

use expect_test::expect;

use super::*;

#[test]
fn a_deleted_object_stays_hidden_until_the_watch_delivers_the_deletion() {
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
fn a_deleted_object_is_never_shown_if_the_watch_has_yet_to_deliver_it() {
    check(
        "list; deleted a@1; put a@1; del a@2; put a!new@3",
        &expect![[r#"
        list: -> 
        deleted a@1: -> 
        put a@1: create a@1 -> 
        del a@2: delete a@2 -> 
        put a!new@3: create a!new@3 -> a!new@3
    "#]],
    );
    // Another object had the name before.
    check(
        "list a@1; deleted a!new@5; del a@3; put a!new@4; put a!new@5; del a!new@6",
        &expect![[r#"
        list a@1: initial a@1 -> a@1
        deleted a!new@5: -> 
        del a@3: delete a@3 -> 
        put a!new@4: create a!new@4 -> 
        put a!new@5: update a!new@4 a!new@5 -> 
        del a!new@6: delete a!new@6 -> 
    "#]],
    );
    check(
        "list a@1; wrote a@2; deleted a!new@5; pass 9",
        &expect![[r#"
        list a@1: initial a@1 -> a@1
        wrote a@2: -> a@2
        deleted a!new@5: -> 
        pass 9: -> 
    "#]],
    );
    // The answer to a later write of the object arrives after the answer to the deletion.
    check(
        "list a@1; deleted a@1; wrote a@3; presumed a@3; put a@3; put a@4; del a@5",
        &expect![[r#"
            list a@1: initial a@1 -> a@1
            deleted a@1: -> 
            wrote a@3: -> 
            presumed a@3: -> 
            put a@3: update a@1 a@3 -> 
            put a@4: update a@3 a@4 -> 
            del a@5: delete a@5 -> 
        "#]],
    );
    // The watch is ahead of the answer.
    check(
        "list; put a@1; del a@2; put a!new@3; deleted a@1; del a!new@4; deleted a!new@3",
        &expect![[r#"
            list: -> 
            put a@1: create a@1 -> a@1
            del a@2: delete a@2 -> 
            put a!new@3: create a!new@3 -> a!new@3
            deleted a@1: -> a!new@3
            del a!new@4: delete a!new@4 -> 
            deleted a!new@3: -> 
        "#]],
    );
}

#[test]
fn a_deleted_object_of_unknown_version_is_never_shown() {
    check(
        "list; deleted a>0; put a@1; put a@2; del a@3; put a!new@4",
        &expect![[r#"
        list: -> 
        deleted a>0: -> 
        put a@1: create a@1 -> 
        put a@2: update a@1 a@2 -> 
        del a@3: delete a@3 -> 
        put a!new@4: create a!new@4 -> a!new@4
    "#]],
    );
    check(
        "list; deleted a>0; wrote a@1; list a@2; list @3",
        &expect![[r#"
        list: -> 
        deleted a>0: -> 
        wrote a@1: -> 
        list a@2: create a@2 -> 
        list @3: vanished a@2 -> 
    "#]],
    );
    // Objects that had the name before are deleted as well.
    check(
        "list a@1; deleted a!new>1; del a@3; put a!new@4; del a!new@6",
        &expect![[r#"
        list a@1: initial a@1 -> a@1
        deleted a!new>1: -> 
        del a@3: delete a@3 -> 
        put a!new@4: create a!new@4 -> 
        del a!new@6: delete a!new@6 -> 
    "#]],
    );
    check(
        "list a@1; wrote a@2; deleted a!new>2; put a@2; del a@3; put a!new@4; del a!new@6",
        &expect![[r#"
            list a@1: initial a@1 -> a@1
            wrote a@2: -> a@2
            deleted a!new>2: -> 
            put a@2: update a@1 a@2 -> 
            del a@3: delete a@3 -> 
            put a!new@4: create a!new@4 -> 
            del a!new@6: delete a!new@6 -> 
        "#]],
    );
    // The answer to a write of an object that had the name before arrives last.
    check(
        "list; deleted a!new>1; wrote a@3; put a!new@5; del a!new@6",
        &expect![[r#"
            list: -> 
            deleted a!new>1: -> 
            wrote a@3: -> a@3
            put a!new@5: create a!new@5 -> 
            del a!new@6: delete a!new@6 -> 
        "#]],
    );
    // The object that has the name now may be older or newer than the deleted one.
    check(
        "list a@1; deleted a!new>0; wrote a!newer@10; put a!new@8; del a!new@9; put a!newer@10",
        &expect![[r#"
            list a@1: initial a@1 -> a@1
            deleted a!new>0: -> a@1
            wrote a!newer@10: -> a!newer@10
            put a!new@8: vanished a@1, create a!new@8 -> a!newer@10
            del a!new@9: delete a!new@9 -> a!newer@10
            put a!newer@10: create a!newer@10 -> a!newer@10
        "#]],
    );
}

#[test]
fn a_deletion_that_the_watch_may_have_delivered_does_not_wait_for_it() {
    let mut store = Store::default();
    let (waits, scope) = (|store: &Store<ConfigMap>| store.waiting_since(&None).is_some(), None);
    step(&mut store, "list b@1");
    for command in ["deleted a@5", "deleted a!x>3", "presumed c@4"] {
        step(&mut store, command);
        assert!(!waits(&store), "{command}");
    }
    step(&mut store, "deleted b@1");
    assert!(waits(&store));
    step(&mut store, "del b@2");
    assert!(!waits(&store));
    let _ = store.advance(&scope, Some(5));
    assert!(store.writes.is_empty() && store.watched.is_empty() && store.order.is_empty());
}

#[test]
fn deletions_of_unknown_version_are_dropped_when_delivered_or_too_many() {
    let mut store = Store::default();
    step(&mut store, "list @1");
    for n in 0..=Store::<ConfigMap>::WRITES {
        step(&mut store, &format!("deleted n{n}>1"));
    }
    step(&mut store, "put n0@2 n1@3");
    assert_eq!(seen(&store), "n0@2", "the oldest deletion is forgotten");
    step(&mut store, "del n1@4");
    assert!(
        store.deleted_uids.since(&Uid::from("n1")).is_none()
            && store.deleted_uids.since(&Uid::from("n2")).is_some()
    );
    step(&mut store, "list @0");
    assert!(store.deleted_uids.is_empty(), "the server was restored from a backup");
}

#[test]
fn a_presumed_deletion_hides_the_object_until_a_newer_version() {
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
    // It changed before it was deleted, and the watch is behind.
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
    // It was created and deleted before the watch delivered it.
    check(
        "list; presumed a@2; put a@2; del a@3",
        &expect![[r#"
        list: -> 
        presumed a@2: -> 
        put a@2: create a@2 -> 
        del a@3: delete a@3 -> 
    "#]],
    );
    // The watch is ahead of the answer.
    check(
        "list a@5; presumed a@4; list @9; presumed a@5",
        &expect![[r#"
        list a@5: initial a@5 -> a@5
        presumed a@4: -> a@5
        list @9: vanished a@5 -> 
        presumed a@5: -> 
    "#]],
    );
    // Own writes are ahead of the answer.
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
    // Another object has the name now.
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
