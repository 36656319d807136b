//! Our own deletes, of which the watch has not told yet.

use expect_test::expect;

use super::*;

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
