//! Priorities and ageing.

use std::num::NonZeroU32;

use expect_test::expect;

use super::*;
use crate::Ageing;

#[test]
fn a_higher_priority_is_served_first_and_equal_ones_in_order() {
    check(
        "add low a; add b; add high c; add low d; add e; add high f",
        &expect![[r#"
        ready: c f b e a d  waiting: -  processing: -
    "#]],
    );
}

#[test]
fn a_real_event_lifts_a_key_and_a_resync_never_lowers_it() {
    check(
        "add low a; add low b; add b; add low b; add high c; add c",
        &expect![[r#"
        ready: c b a  waiting: -  processing: -
    "#]],
    );
}

#[test]
fn a_key_that_waits_is_lifted_too() {
    check(
        "add low a; get; limited a; done a; add low b; add a; get",
        &expect![[r#"
        get: a
        get: a
        ready: b  waiting: -  processing: a
    "#]],
    );
}

#[test]
fn a_retry_keeps_the_priority_of_its_run() {
    check(
        "add low a; get; limited a; done a; at 0.1s; add b; get; get",
        &expect![[r#"
        get: a
        get: b
        get: a
        ready: -  waiting: -  processing: a b
    "#]],
    );
}

#[test]
fn a_key_does_not_stay_low_after_a_real_event_during_its_run() {
    check(
        "add low a; get; add a; limited a; done a; get; limited a; done a; at 0.1s; add low b; get",
        &expect![[r#"
        get: a
        get: a
        get: a
        ready: b  waiting: -  processing: a
    "#]],
    );
}

#[test]
fn the_clock_is_read_only_if_keys_of_several_priorities_are_ready() {
    let mut core = Core::new(Options::default(), Instant::now());
    let reads = std::cell::Cell::new(0);
    let take = |core: &mut Core<u32>| {
        let now = Now::new(|| {
            reads.set(reads.get() + 1);
            Timestamp::START
        });
        let Taken::Key(loan) = core.take(&now) else { panic!("a key is ready") };
        (*loan.key(), reads.take())
    };
    for (key, priority) in [(1, Priority::High), (2, Priority::Low), (3, Priority::Low)] {
        core.add_at(Timestamp::START, key, AddOptions::default().priority(priority));
    }
    assert_eq!([take(&mut core), take(&mut core), take(&mut core)], [(1, 1), (2, 0), (3, 0)]);
}

#[test]
fn aged_keys_get_their_share_and_no_more() {
    let script =
        "add low a; add low b; add o; get; at 1s; add p; add q; add r; add s; add t; add u; add v; add w";
    check(
        script,
        &expect![[r#"
        get: o
        ready: p q r a s t u b v w  waiting: -  processing: o
    "#]],
    );
}

#[test]
fn a_lower_priority_waits_until_it_has_aged() {
    check(
        "add low a; add o; get; at 0.999s; add p; add q; add r; add s; add t",
        &expect![[r#"
        get: o
        ready: p q r s t a  waiting: -  processing: o
    "#]],
    );
}

#[test]
fn a_priority_ages_from_the_first_time_that_it_is_passed_over() {
    check(
        "add low a; at 5s; add p; get; add q; add r; add s; at 5.999s; add t; get; get; get; get; at 6s; add u; add v; \
         add w; add x",
        &expect![[r#"
        get: p
        get: q
        get: r
        get: s
        get: t
        ready: u v w a x  waiting: -  processing: p q r s t
    "#]],
    );
}

#[test]
fn a_priority_whose_keys_are_all_handed_out_ages_from_the_start_again() {
    check(
        "add low a; add o; get; at 1s; get; add low b; add p; add q; add r; add s; add t",
        &expect![[r#"
        get: o
        get: a
        ready: p q r s t b  waiting: -  processing: a o
    "#]],
    );
}

#[test]
fn two_aged_priorities_take_turns() {
    let script = "add low a; add low b; add m; add n; add high o; get; at 1s; add high p; add high q; add high r; \
                  add high s; add high t; add high u; add high v";
    check(
        script,
        &expect![[r#"
        get: o
        ready: p q r m s t u a v n b  waiting: -  processing: o
    "#]],
    );
}

/// The bound in [`Ageing`], with both higher priorities never empty: a low key with `p` others of its priority ready
/// before it is among the first `2 × (p + 1) × every` hand-outs after its priority has aged.
#[test]
fn no_key_waits_longer_than_ageing_allows() {
    for every in 1..6_u32 {
        let ageing = Ageing { after: seconds("1s"), every: NonZeroU32::new(every).unwrap() };
        let mut script = Script::new(options().ageing(ageing));
        let earlier = 5;
        for key in 0..earlier {
            script.add(&format!("early{key}"), AddOptions::default().priority(Priority::Low));
        }
        script.add("low", AddOptions::default().priority(Priority::Low));
        let mut hand_outs = 0;
        let keys = std::iter::from_fn(|| {
            for class in [Priority::High, Priority::Normal] {
                script.add(&format!("{class:?}{hand_outs}"), AddOptions::default().priority(class));
            }
            let Taken::Key(loan) = script.core.take_at(script.now) else {
                unreachable!("there are ready keys")
            };
            let key = loan.key().clone();
            script.core.done_at(script.now, loan);
            hand_outs += 1;
            // The first time that the priority is passed over.
            if hand_outs == 1 {
                script.now = script.now.after(seconds("1s"));
            }
            Some(key)
        });
        let waited = keys.skip(1).position(|key| key == "low").expect("the others have no end") + 1;
        let bound = 2 * (earlier + 1) * every as usize;
        assert!(waited <= bound, "one in {every}: {waited} hand-outs, not {bound}");
    }
}
