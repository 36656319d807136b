//! Own writes that overlay the watched state.

use expect_test::expect;

use super::*;

#[test]
fn an_own_write_is_visible_at_once_and_its_events_come_from_the_watch() {
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
fn a_late_answer_does_not_restore_a_deleted_object() {
    check(
        "list a@1; put b@3; del b@4; wrote b@3; wrote a@2; list @9; wrote c@8",
        &expect![[r#"
            list a@1: initial a@1 -> a@1
            put b@3: create b@3 -> a@1 b@3
            del b@4: delete b@4 -> a@1
            wrote b@3: create b@3, vanished b@3 -> a@1
            wrote a@2: -> a@1
            list @9: vanished a@1 -> 
            wrote c@8: create c@8, vanished c@8 -> 
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
            pass 7: update a@1 a@7, update a@7 a@1 -> a@1
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
fn a_deselected_object_is_hidden_and_can_return() {
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
fn a_write_of_unknown_selection_changes_only_visible_objects() {
    check(
        "list a@1; unclear a@5 b@6; put a@5; unclear a@7; del a@8; put b@9; unclear b@8",
        &expect![[r#"
            list a@1: initial a@1 -> a@1
            unclear a@5 b@6: -> a@5
            put a@5: update a@1 a@5 -> a@5
            unclear a@7: -> a@7
            del a@8: delete a@8 -> 
            put b@9: create b@9 -> b@9
            unclear b@8: -> b@9
        "#]],
    );
    // An object that had the name before is hidden, whatever is known about the new one.
    check(
        "list a@1; unclear a!new@5; del a@4; put a!new@5",
        &expect![[r#"
        list a@1: initial a@1 -> a@1
        unclear a!new@5: -> 
        del a@4: delete a@4 -> 
        put a!new@5: create a!new@5 -> a!new@5
    "#]],
    );
    // An object that was hidden because it was not selected stays hidden until the watch delivers it.
    check(
        "list a@1; unselected a@5; unclear a@6; del a@5; put a@6",
        &expect![[r#"
        list a@1: initial a@1 -> a@1
        unselected a@5: -> 
        unclear a@6: -> 
        del a@5: delete a@5 -> 
        put a@6: create a@6 -> a@6
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
            list @7: vanished a@5, create b@6, vanished b@6 -> 
        "#]],
    );
}

#[test]
fn own_writes_are_dropped_when_a_restored_server_has_lost_them() {
    check(
        "list a@5; wrote a@9; list @3 a@2",
        &expect![[r#"
            list a@5: initial a@5 -> a@5
            wrote a@9: -> a@9
            list @3 a@2: update a@5 a@9, update a@9 a@5, update a@5 a@2 -> a@2
        "#]],
    );
}

#[test]
fn the_oldest_writes_go_first_when_there_are_too_many() {
    let mut store: Store<ConfigMap> = Store::default();
    let _ = store.replace(&None, [], Some(1));
    for n in 2..=Store::<ConfigMap>::WRITES + 4 {
        let _ = store.record_write(object(&format!("n{n}@{n}")), Some(true), Instant::now());
    }
    assert_eq!(store.len(), Store::<ConfigMap>::WRITES);
    assert!(store.get(&key("n4")).is_none() && store.get(&key("n5")).is_some());
    let all = Store::<ConfigMap>::WRITES + 4;
    let _ = store.advance(&None, u64::try_from(all).ok());
    assert!(store.visible.is_empty() && store.writes.is_empty() && store.watched.is_empty());
}

#[test]
fn an_own_object_that_was_deleted_while_no_watch_was_open_has_both_events() {
    check(
        "list a@1; wrote b@5; list a@1 @9; wrote c@8; list a@1 @9",
        &expect![[r#"
            list a@1: initial a@1 -> a@1
            wrote b@5: -> a@1 b@5
            list a@1 @9: create b@5, vanished b@5 -> a@1
            wrote c@8: create c@8, vanished c@8 -> a@1
            list a@1 @9: -> a@1
        "#]],
    );
    check(
        "list a@1; wrote a!new@5; list @9",
        &expect![[r#"
            list a@1: initial a@1 -> a@1
            wrote a!new@5: -> a!new@5
            list @9: vanished a@1, create a!new@5, vanished a!new@5 -> 
        "#]],
    );
}

#[test]
fn a_write_that_a_restored_server_has_lost_has_events() {
    check(
        "list a@1 @9; wrote a@12 b@13; list a@1 @4",
        &expect![[r#"
            list a@1 @9: initial a@1 -> a@1
            wrote a@12 b@13: -> a@12 b@13
            list a@1 @4: update a@1 a@12, update a@12 a@1, create b@13, vanished b@13 -> a@1
        "#]],
    );
}

#[test]
fn the_api_server_has_reached_the_version_of_the_watch_and_of_own_writes() {
    let mut store = Store::default();
    assert_eq!(store.reached(&key("a")), None);
    step(&mut store, "wrote a@5");
    assert_eq!((store.reached(&key("a")), store.reached(&key("b"))), (Some(5), None));
    step(&mut store, "list @3");
    assert_eq!((store.reached(&key("a")), store.reached(&key("b"))), (Some(5), Some(3)));
    step(&mut store, "pass 4");
    assert_eq!((store.reached(&key("a")), store.reached(&key("b"))), (Some(5), Some(4)));
    step(&mut store, "pass 7");
    assert_eq!((store.reached(&key("a")), store.reached(&key("b"))), (Some(7), Some(7)));
}

/// The watch may deliver that an object is not selected any more, and later that it is again.
#[test]
fn a_written_object_has_no_missed_events_if_the_watch_has_delivered_an_earlier_state_of_it() {
    check(
        "list a@1; wrote a@5; del a@3; wrote a@7; pass 9",
        &expect![[r#"
            list a@1: initial a@1 -> a@1
            wrote a@5: -> a@5
            del a@3: delete a@3 -> a@5
            wrote a@7: -> a@7
            pass 9: -> 
        "#]],
    );
    check(
        "list a@1; wrote a@5; del a@3; wrote a!new@7; pass 9",
        &expect![[r#"
            list a@1: initial a@1 -> a@1
            wrote a@5: -> a@5
            del a@3: delete a@3 -> a@5
            wrote a!new@7: -> a!new@7
            pass 9: create a!new@7, vanished a!new@7 -> 
        "#]],
    );
}

#[test]
fn a_write_that_the_watch_has_passed_changes_nothing_if_the_watched_state_is_visible() {
    let mut store = Store::default();
    step(&mut store, "list a@1");
    step(&mut store, "unselected a@5");
    let changes = carry_out(&mut store, "put a!new@6").changes;
    assert_eq!((changes.len(), seen(&store)), (1, "a!new@6".to_owned()));
    assert!(store.writes.is_empty());
}
