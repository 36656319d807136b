//! Classes and ageing.

use std::num::NonZeroU32;

use expect_test::expect;

use super::*;
use crate::Ageing;

#[test]
fn a_higher_class_goes_first_and_within_a_class_it_is_first_come_first_served() {
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
fn a_retry_keeps_the_class_of_its_run() {
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
fn aged_keys_get_their_share_and_no_more() {
    let script = "add low a; add low b; at 1s; add p; add q; add r; add s; add t; add u; add v; add w";
    check(
        script,
        &expect![[r#"
        ready: p q r a s t u b v w  waiting: -  processing: -
    "#]],
    );
}

#[test]
fn before_it_has_aged_a_lower_class_waits() {
    check(
        "add low a; at 0.999s; add p; add q; add r; add s; add t",
        &expect![[r#"
        ready: p q r s t a  waiting: -  processing: -
    "#]],
    );
}

/// The bound that [`Ageing`] promises, with both higher classes never empty: a low key before which `p` keys of the lower
/// classes became ready is among the first `(p + 1) × every` after it has aged.
#[test]
fn no_key_waits_longer_than_ageing_allows() {
    for every in 1..6_u32 {
        let ageing = Ageing { after: seconds("1s"), every: NonZeroU32::new(every).unwrap() };
        let mut script = Script::new(options().ageing(ageing));
        let earlier = 10;
        for key in 0..earlier {
            script.add(&format!("early{key}"), AddOptions::default().priority(Priority::ALL[1 + key % 2]));
        }
        script.add("low", AddOptions::default().priority(Priority::Low));
        script.now = script.now.after(seconds("1s"));
        let mut hand_outs = 0;
        loop {
            for class in [Priority::High, Priority::Normal] {
                script.add(&format!("{class:?}{hand_outs}"), AddOptions::default().priority(class));
            }
            let Taken::Key(id, key, _) = script.core.take(|| script.now) else {
                unreachable!("there are ready keys")
            };
            script.core.done(id, || script.now);
            hand_outs += 1;
            if key == "low" {
                break;
            }
        }
        let bound = (earlier + 1) * every as usize;
        assert!(hand_outs <= bound, "one in {every}: {hand_outs} hand-outs, not {bound}");
    }
}
