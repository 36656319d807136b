//! States of a key and the transitions between them, without priorities, flows or debouncing.

use expect_test::expect;

use super::*;

#[test]
fn keys_are_handed_out_in_the_order_in_which_they_were_added() {
    check(
        "add a; add b; add c; get; get",
        &expect![[r#"
        get: a
        get: b
        ready: c  waiting: -  processing: a b
    "#]],
    );
}

#[test]
fn a_ready_key_added_again_keeps_its_place() {
    check(
        "add a; add b; add a",
        &expect![[r#"
        ready: a b  waiting: -  processing: -
    "#]],
    );
}

#[test]
fn a_done_key_is_forgotten_and_can_be_added_again() {
    check(
        "add a; get; done a; get; add a",
        &expect![[r#"
        get: a
        get: nothing
        ready: a  waiting: -  processing: -
    "#]],
    );
}

#[test]
fn a_key_being_processed_is_not_handed_out_twice() {
    check(
        "add a; get; add a; get",
        &expect![[r#"
        get: a
        get: nothing
        ready: -  waiting: -  processing: a+again
    "#]],
    );
}

#[test]
fn any_number_of_adds_while_processing_is_one_more_run() {
    check(
        "add a; get; add a; add a; add a; done a; get; done a; get",
        &expect![[r#"
        get: a
        get: a
        get: nothing
        ready: -  waiting: -  processing: -
    "#]],
    );
}

#[test]
fn a_key_added_while_processing_goes_to_the_end_of_the_line() {
    check(
        "add a; get; add a; add b; done a",
        &expect![[r#"
        get: a
        ready: b a  waiting: -  processing: -
    "#]],
    );
}

#[test]
fn a_delayed_key_is_ready_at_its_time_and_not_before() {
    check(
        "after a 5s; at 4.999999999s; get; at 5s; get",
        &expect![[r#"
        get: nothing
        get: a
        ready: -  waiting: -  processing: a
    "#]],
    );
}

#[test]
fn a_delay_of_zero_is_over_at_once() {
    check(
        "after a 0s; add b",
        &expect![[r#"
        ready: a b  waiting: -  processing: -
    "#]],
    );
    let mut core = Core::new(Options::default(), Instant::now());
    core.add_at(Timestamp::START, "a", AddOptions::default().after(Duration::ZERO));
    assert_eq!(core.ready(), 1, "before any other operation");
}

#[test]
fn the_earliest_delay_wins_and_the_key_runs_once() {
    check(
        "after a 10s; after a 5s; after a 20s; when a; at 5s; get; done a; at 30s; get",
        &expect![[r#"
        when: 5s Delayed
        get: a
        get: nothing
        ready: -  waiting: -  processing: -
    "#]],
    );
}

#[test]
fn delayed_keys_are_handed_out_in_the_order_of_their_times() {
    check(
        "after a 3s; after b 1s; after c 2s; after d 2s; at 10s; add e; get",
        &expect![[r#"
        get: b
        ready: c d a e  waiting: -  processing: b
    "#]],
    );
}

#[test]
fn an_immediate_add_ends_the_waiting_without_a_second_run() {
    check(
        "after a 5s; add b; add a; get; get; done a; at 5s; get",
        &expect![[r#"
        get: b
        get: a
        get: nothing
        ready: -  waiting: -  processing: b
    "#]],
    );
}

#[test]
fn a_delayed_add_of_a_ready_key_changes_nothing() {
    check(
        "add a; after a 5s; get; done a; at 5s; get",
        &expect![[r#"
        get: a
        get: nothing
        ready: -  waiting: -  processing: -
    "#]],
    );
}

#[test]
fn a_key_that_came_due_is_ahead_of_one_added_later() {
    check(
        "after a 1s; at 2s; add b",
        &expect![[r#"
        ready: a b  waiting: -  processing: -
    "#]],
    );
}

#[test]
fn a_delay_asked_for_while_processing_counts_from_the_add() {
    check(
        "add a; get; after a 5s; when a; at 2s; done a; when a",
        &expect![[r#"
        get: a
        when: 5s Delayed
        when: 5s Delayed
        ready: -  waiting: a@5s  processing: -
    "#]],
    );
}

#[test]
fn a_delay_that_ran_out_while_processing_makes_the_key_ready_when_done() {
    check(
        "add a; get; after a 1s; at 2s; get; done a",
        &expect![[r#"
        get: a
        get: nothing
        ready: a  waiting: -  processing: -
    "#]],
    );
}

#[test]
fn while_processing_too_the_earliest_time_wins() {
    check(
        "add a; get; after a 5s; after a 3s; after a 4s; add b; get; after b 1s; add b; done a; done b",
        &expect![[r#"
        get: a
        get: b
        ready: b  waiting: a@3s  processing: -
    "#]],
    );
}

#[test]
fn failures_wait_longer_each_time_until_forgotten() {
    check(
        "limited a; at 0.1s; get; limited a; done a; at 0.3s; get; forget a; limited a; done a; when a",
        &expect![[r#"
        get: a
        get: a
        when: 400ms RateLimited
        ready: -  waiting: a@400ms  processing: -
    "#]],
    );
}

#[test]
fn a_rate_limited_add_of_a_ready_key_counts_nothing() {
    check(
        "add a; limited a; limited a; get; limited a; done a",
        &expect![[r#"
        get: a
        ready: -  waiting: a@100ms  processing: -
    "#]],
    );
}

#[test]
fn the_reason_is_that_of_the_time_that_won() {
    check(
        "after a 5s; limited a; when a; after a 3s; when a; add b; when b; when c",
        &expect![[r#"
        when: 100ms RateLimited
        when: 100ms RateLimited
        when: -
        when: -
        ready: b  waiting: a@100ms  processing: -
    "#]],
    );
}

#[test]
fn of_two_equal_times_the_first_gives_the_reason() {
    for (script, reason) in
        [("after a 0.1s; limited a", "Delayed"), ("limited a; after a 0.1s", "RateLimited")]
    {
        let output = Script::new(options()).run(&format!("add a; get; {script}; when a; done a; when a"));
        let when = format!("when: 100ms {reason}\n");
        assert_eq!(output, format!("get: a\n{when}{when}ready: -  waiting: a@100ms  processing: -\n"));
    }
}

#[test]
fn a_cancelled_key_is_removed_in_every_state() {
    check(
        "add a; add b; add c; cancel b; after d 5s; after e 6s; cancel d; cancel f",
        &expect![[r#"
        cancel: true
        cancel: true
        cancel: false
        ready: a c  waiting: e@6s  processing: -
    "#]],
    );
}

#[test]
fn cancelling_a_key_being_processed_takes_back_the_next_run_only() {
    check(
        "add a; get; cancel a; add a; cancel a; done a; get",
        &expect![[r#"
        get: a
        cancel: false
        cancel: true
        get: nothing
        ready: -  waiting: -  processing: -
    "#]],
    );
}

#[test]
fn after_shutdown_adds_are_ignored_and_ready_keys_are_still_handed_out() {
    check(
        "add a; add b; shut; add c; after d 1s; limited e; get; get; get",
        &expect![[r#"
        given up: []
        get: a
        get: b
        get: finished
        ready: -  waiting: -  processing: a b
    "#]],
    );
}

#[test]
fn a_key_added_again_before_shutdown_keeps_the_queue_open_for_its_last_run() {
    check(
        "add a; get; add a; shut; get; done a; get; get",
        &expect![[r#"
        get: a
        given up: []
        get: nothing
        get: a
        get: finished
        ready: -  waiting: -  processing: a
    "#]],
    );
}

#[test]
fn shutdown_returns_keys_that_are_not_due() {
    check(
        "add p; get; after p 9s; after a 5s; after b 3s; after c 1s; at 1s; shut; get; done p; shut; get",
        &expect![[r#"
        get: p
        given up: ["b", "a", "p"]
        get: c
        given up: []
        get: finished
        ready: -  waiting: -  processing: c
    "#]],
    );
}

#[test]
fn a_delay_without_end_is_never_due() {
    let epoch = Instant::now();
    let mut core = Core::new(Options::default(), epoch);
    let now = Timestamp::since(epoch, epoch + Duration::from_secs(1));
    core.add_at(now, "a", AddOptions::default().after(Duration::MAX));
    assert!(matches!(core.take_at(now.after(Duration::from_secs(100 * 365 * 24 * 60 * 60))), Taken::Nothing));
    assert!(core.when(&"a", core.hash(&"a"), now).is_some());
}

#[test]
fn a_snapshot_looks_at_no_more_than_64_keys_under_one_lock() {
    let mut core = Core::new(Options::default(), Instant::now());
    for key in 0..1000 {
        core.add_at(Timestamp::START, key, AddOptions::default());
    }
    let pages: Vec<usize> = (0..core.pages()).map(|page| core.page(page, Timestamp::START).len()).collect();
    assert!(pages.iter().all(|keys| *keys <= 64), "{pages:?}");
    assert_eq!(pages.iter().sum::<usize>(), 1000);
}

#[test]
fn a_million_keys_leave_no_memory_behind() {
    let epoch = Instant::now();
    let mut core = Core::new(Options::default(), epoch);
    let now = Timestamp::since(epoch, epoch);
    for key in 0..1_000_000_u32 {
        let delay = Duration::from_nanos(u64::from(key) * 7919 % 100_003);
        let how =
            if key.is_multiple_of(2) { AddOptions::default() } else { AddOptions::default().after(delay) };
        core.add_at(now, key, how);
    }
    let later = now.after(Duration::from_secs(1));
    let mut last = Timestamp::since(epoch, epoch);
    while let Some(due) = core.next_due() {
        assert!(due >= last, "the heap is in order");
        last = due;
        core.advance(&Now::new(|| due));
    }
    let mut seen = vec![false; 1_000_000];
    while let Taken::Key(loan) = core.take_at(later) {
        let key = *loan.key();
        assert!(!std::mem::replace(&mut seen[key as usize], true), "{key} came twice");
        core.done_at(later, loan);
    }
    assert!(seen.iter().all(|seen| *seen), "a key is lost");
    assert_eq!(core.index.len(), 0);
    assert_eq!((core.slab.places(), core.index.places()), (1024, 512), "the memory of a storm does not stay");
}

#[test]
fn keys_are_known_however_often_the_index_grows() {
    let mut core: Core<u32> = Core::new(Options::default(), Instant::now());
    let (mut added, mut lent) = (0_u32, Vec::new());
    // One key of three is done, and leaves a vacant place; one is being processed; one is ready.
    while added < 3000 {
        for _ in 0..3 {
            core.add_at(Timestamp::START, added, AddOptions::default());
            added += 1;
        }
        for is_done in [true, false] {
            let Taken::Key(loan) = core.take_at(Timestamp::START) else { panic!("keys are ready") };
            if is_done { core.done_at(Timestamp::START, loan) } else { lent.push(loan) }
        }
    }
    assert_eq!((core.ready(), core.processing, core.index.len()), (1000, 1000, 2000));
    let done = (0..added).filter(|key| core.find(key, core.hash(key)).is_none()).count();
    assert_eq!(done, 1000);
    for key in 0..added {
        core.add_at(Timestamp::START, key, AddOptions::default());
    }
    assert_eq!((core.ready(), core.again), (2000, 1000));
    assert!(core.index.places() <= 4096, "{}", core.index.places());
}

/// One key of a hundred waits for a long time, in whichever chunk it was placed; the others come and go.
#[test]
fn keys_that_wait_among_many_that_go_are_moved_together_and_keep_their_times() {
    let epoch = Instant::now();
    let mut core: Core<u32> = Core::new(Options::default(), epoch);
    for key in 0..100_000 {
        let how = AddOptions::default();
        // The times are in another order than the places.
        let delay = Duration::from_secs(1000 + u64::from(key) * 7919 % 100_003);
        core.add_at(Timestamp::START, key, if key % 100 == 0 { how.after(delay) } else { how });
    }
    while let Taken::Key(loan) = core.take_at(Timestamp::START) {
        core.done_at(Timestamp::START, loan);
    }
    assert_eq!((core.index.len(), core.ready(), core.processing), (1000, 0, 0));
    assert!(core.slab.places() <= 1000 * 8 / 7 + 64, "{}", core.slab.places());
    assert!(core.cancel(&5000, core.hash(&5000), &mut None));
    let (mut count, mut last) = (0, Timestamp::START);
    while let Some(due) = core.next_due() {
        assert!(due >= last);
        let Taken::Key(loan) = core.take_at(due) else { panic!("a key is due") };
        let expected = Duration::from_secs(1000 + u64::from(*loan.key()) * 7919 % 100_003);
        assert_eq!(due.elapsed_since(Timestamp::START), expected, "{}", loan.key());
        core.done_at(due, loan);
        (count, last) = (count + 1, due);
    }
    assert_eq!((count, core.index.len()), (999, 0));
}
