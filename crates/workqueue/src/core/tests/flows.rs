//! Turns of flows. The first letter of a key is its flow.

use expect_test::expect;

use super::*;

fn fair() -> Options<String> {
    options().fair_by(|key: &String| Flow::from(&key[..1]))
}

#[test]
fn flows_take_turns_whatever_their_number_of_keys() {
    check_with(
        fair(),
        "add a1; add a2; add a3; add b1; add c1; add c2",
        &expect![[r#"
        ready: a1 b1 c1 a2 c2 a3  waiting: -  processing: -
    "#]],
    );
}

#[test]
fn a_flow_that_joins_late_gets_the_next_round() {
    check_with(
        fair(),
        "add a1; add a2; add a3; get; add b1; get; get",
        &expect![[r#"
        get: a1
        get: a2
        get: b1
        ready: a3  waiting: -  processing: a1 a2 b1
    "#]],
    );
}

#[test]
fn a_flow_that_lost_its_ready_keys_does_not_hold_up_the_others() {
    check_with(
        fair(),
        "add a1; add b1; add b2; add c1; cancel b1; cancel b2; get; get; add b3; add c2; get",
        &expect![[r#"
        cancel: true
        cancel: true
        get: a1
        get: c1
        get: b3
        ready: c2  waiting: -  processing: a1 b3 c1
    "#]],
    );
}

#[test]
fn a_higher_priority_precedes_every_flow_of_a_lower_one() {
    check_with(
        fair(),
        "add low a1; add low b1; add b2; add b3; add a2",
        &expect![[r#"
        ready: b2 a2 b3 a1 b1  waiting: -  processing: -
    "#]],
    );
}

#[test]
fn no_active_flow_is_passed_over_twice_before_its_turn() {
    let mut script = Script::new(fair());
    for key in 0..1000 {
        script.add(&format!("a{key}"), AddOptions::default());
    }
    for flow in ["b", "c", "d"] {
        script.add(&format!("{flow}1"), AddOptions::default());
    }
    let handed_out = |script: &mut Script| match script.core.take_at(Timestamp::START) {
        Taken::Key(loan) => loan.key().clone(),
        Taken::Nothing | Taken::Finished => unreachable!("there are keys left"),
    };
    let mut first: Vec<String> = (0..4).map(|_| handed_out(&mut script)).collect();
    first.sort_unstable();
    assert_eq!(first, ["a0", "b1", "c1", "d1"], "four flows, four hand-outs");
}

/// The bound in [`Options::fair_by`], with runs of all lengths and one flow that has nearly all the keys.
#[test]
fn no_flow_waits_longer_than_its_share_of_the_workers_times_the_longest_run() {
    let mut random = fastrand::Rng::with_seed(1);
    for (flows, workers) in [(1, 1), (4, 1), (4, 3), (5, 2), (9, 4), (3, 8)] {
        let mut script = Script::new(fair());
        let names: Vec<String> = ('a'..).take(flows).map(String::from).collect();
        let longest = 100;
        let bound = seconds("1s") * u32::try_from(flows.div_ceil(workers)).unwrap() * longest;
        let mut free_at = vec![Timestamp::START; workers];
        let mut last_turn = vec![Timestamp::START; flows];
        for round in 0..2000 {
            // The first flow gets ten keys a round, each other flow one. A round takes one key, so no flow ever lacks keys.
            for (place, name) in names.iter().enumerate() {
                let keys = if place == 0 { 10 } else { 1 };
                (0..keys).for_each(|key| script.add(&format!("{name}{round}-{key}"), AddOptions::default()));
            }
            let worker = (0..workers).min_by_key(|worker| free_at[*worker]).unwrap();
            let now = free_at[worker];
            let Taken::Key(loan) = script.core.take_at(now) else { unreachable!("every flow has keys") };
            let flow = names.iter().position(|name| loan.key().starts_with(name)).unwrap();
            last_turn[flow] = now;
            let waited = last_turn.iter().map(|turn| now.elapsed_since(*turn)).max().unwrap();
            assert!(waited <= bound, "{flows} flows, {workers} workers: one waited {waited:?}");
            free_at[worker] = now.after(seconds("1s") * random.u32(1..=longest));
            script.core.done_at(now, loan);
        }
    }
}

#[test]
fn flows_without_keys_are_forgotten() {
    let mut script = Script::new(fair());
    for round in 0..10_u8 {
        for flow in 'a'..='z' {
            script.add(&format!("{flow}{round}"), AddOptions::default());
        }
        while let Taken::Key(loan) = script.core.take_at(Timestamp::START) {
            script.core.done_at(Timestamp::START, loan);
        }
    }
    assert_eq!(script.core.order.fifos.known(), 0);
}

#[test]
fn the_memory_of_many_flows_is_freed_when_they_have_no_keys() {
    let mut core: Core<u32> =
        Core::new(Options::default().fair_by(|key: &u32| Flow::from(key.to_string())), Instant::now());
    for key in 0..10_000 {
        core.add_at(Timestamp::START, key, AddOptions::default());
    }
    assert_eq!(core.order.fifos.places()[..2], [10_000, 0]);
    for count in (0..10_000).rev() {
        let Taken::Key(loan) = core.take_at(Timestamp::START) else { panic!("keys are ready") };
        core.done_at(Timestamp::START, loan);
        let [flows, vacant, turns] = core.order.fifos.places();
        assert!(
            flows <= 10_000
                && vacant <= 10_000
                && turns <= 64.max(4 * count + 4).max(16_384 * usize::from(count > 4000)),
            "{turns} turns of {count}"
        );
    }
    assert_eq!(core.order.fifos.places()[0], 0);
    assert!(core.order.fifos.places()[1] <= 64, "numbers beyond the last flow are meaningless");
    // Numbers of forgotten flows are used again, each for one flow.
    for key in 0..1000 {
        core.add_at(Timestamp::START, key, AddOptions::default());
    }
    assert_eq!((core.order.fifos.known(), core.order.fifos.places()[0]), (1000, 1000));
}
