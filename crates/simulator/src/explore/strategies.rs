//! Plans of each strategy, made from the run without faults. [`combined_plans`](super::combined_plans) has those of several deviations.

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::Duration;

use super::{
    Strategy,
    combined_plans::{pairs, random},
};
use crate::{
    names::{OPERATOR, is_replica, process_of, stream_of},
    plan::{ACTIONS, Deviation, DeviationKind, Place, Plan, Refusal, Restart, STEP, Until},
    run::{ArrivedLine, Outcome, Read, Write},
    trace::Action,
};

/// Number of plans with a drawn order of actions.
const ORDERS: u32 = 12;

/// Properties of a simulation that limit its plans.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    /// Number of steps.
    pub(super) steps: usize,
    /// Number of replicas of the operator.
    pub(super) replicas: u8,
    /// Number of deviations of a plan.
    pub(super) depth: usize,
}

/// Makes the plans of the strategies, in turn, so that none starves another; then those of two deviations, and random ones.
pub(super) fn plans(reference: &Outcome, extent: Extent, strategies: &[Strategy]) -> Vec<Plan> {
    let single = strategies.iter().map(|strategy| new_kinds_first(of_strategy(reference, extent, *strategy)));
    let mut plans = in_turn(single.collect());
    if extent.depth > 1 {
        plans.extend(pairs(reference, extent, strategies));
    }
    for strategy in strategies {
        if let Strategy::Random { seed, runs } = strategy {
            plans.extend(random(reference, extent, *seed, *runs));
        }
    }
    plans
}

/// Sorts plans so that the first of each kind come first, then the second of each kind, and so on: an operator has few kinds of writes, and
/// many bugs show at each write of one kind.
fn new_kinds_first(plans: Vec<Plan>) -> Vec<Plan> {
    let mut counts = BTreeMap::<String, usize>::new();
    let number = |plan: Plan| {
        let number = counts.entry(kind(&plan)).or_default();
        *number += 1;
        (*number, plan)
    };
    let mut numbered: Vec<(usize, Plan)> = plans.into_iter().map(number).collect();
    numbered.sort_by_key(|(number, _)| *number);
    numbered.into_iter().map(|(_, plan)| plan).collect()
}

/// The deviations of a plan and the sorts of their calls or lines: by verb and resource, without object and number.
fn kind(plan: &Plan) -> String {
    let place = |deviation: &Deviation| match deviation.what.place() {
        Place::Call | Place::Line => {
            let words: Vec<&str> = deviation.call.split(' ').collect();
            // An effect is named `create bucket at cloud photos`.
            let remote = words.iter().position(|word| *word == "at").map_or(1, |at| at + 1);
            words[..words.len().min(remote + 1)].join(" ")
        }
        Place::Stream | Place::Step | Place::Run => format!("{} {}", deviation.call, deviation.number),
    };
    plan.deviations.iter().map(|deviation| format!("{} {};", deviation.what, place(deviation))).collect()
}

fn in_turn(queues: Vec<Vec<Plan>>) -> Vec<Plan> {
    let mut queues: Vec<_> = queues.into_iter().map(Vec::into_iter).collect();
    let mut plans = Vec::new();
    loop {
        let before = plans.len();
        plans.extend(queues.iter_mut().filter_map(Iterator::next));
        if plans.len() == before {
            return plans;
        }
    }
}

pub(super) fn of_strategy(reference: &Outcome, extent: Extent, strategy: Strategy) -> Vec<Plan> {
    let Outcome { writes, reads, lines, .. } = reference;
    let single = |deviations: Vec<Deviation>| deviations.into_iter().map(Plan::of).collect();
    match strategy {
        Strategy::Crashes => single(crashes(writes, extent.steps)),
        Strategy::Staleness => single(staleness(lines, extent.steps)),
        Strategy::Unobserved => single(unobserved(lines, extent.steps)),
        Strategy::Order => single(order(reference)),
        Strategy::LostAnswers => single(lost_answers(writes)),
        Strategy::Refusals => single(refusals(writes, reads)),
        Strategy::EarlySteps => single(early_steps(reference, extent.steps)),
        Strategy::Pauses => single(pauses(writes, extent.replicas)),
        Strategy::Failovers if extent.replicas > 1 => failovers(reference, extent.steps),
        Strategy::Failovers | Strategy::Random { .. } => Vec::new(),
    }
}

fn at(write: &Write, what: DeviationKind) -> Deviation {
    Deviation { what, call: write.call.clone(), number: write.number }
}

fn from(line: &ArrivedLine, what: DeviationKind) -> Deviation {
    Deviation { what, call: line.line.clone(), number: line.number }
}

/// Crashes at each state of the world that the operator can leave behind: after each visible write; before a write if something else
/// has changed the world since the operator's last write; and while the world is quiet. Crashes with a restart at once come first.
pub(super) fn crashes(writes: &[Write], steps: usize) -> Vec<Deviation> {
    let slow = slow_steps(writes);
    let with = |restart: Restart| {
        let slow = &slow;
        writes.iter().enumerate().flat_map(move |(place, write)| {
            let has_restart = match restart {
                Restart::AtOnce => true,
                Restart::AfterNextStep => write.step < steps,
                // Where the operator waits for nothing, it makes no difference for how long it is down.
                Restart::LongAfterNextStep => write.step < steps && slow.contains(&write.step),
            };
            let before = (place == 0 || write.is_after_others) && has_restart;
            let after = write.is_visible && has_restart;
            let before = before.then(|| at(write, DeviationKind::CrashBefore(restart)));
            before.into_iter().chain(after.then(|| at(write, DeviationKind::CrashAfter(restart))))
        })
    };
    let at_rest = at_rest(steps).chain(down_during_a_step(writes, steps));
    let late = with(Restart::AfterNextStep).chain(with(Restart::LongAfterNextStep));
    with(Restart::AtOnce).chain(at_rest).chain(late).collect()
}

/// Steps in which the operator waits between writes.
fn slow_steps(writes: &[Write]) -> BTreeSet<usize> {
    let mut first: BTreeMap<usize, Duration> = BTreeMap::new();
    let waits =
        |write: &&Write| write.at - *first.entry(write.step).or_insert(write.at) >= Duration::from_secs(1);
    writes.iter().filter(waits).map(|write| write.step).collect()
}

/// Crashes at rest after a step, with the restart after the next step. Only steps without a visible write have one, because a crash after
/// such a write has the same effect.
fn down_during_a_step(writes: &[Write], steps: usize) -> impl Iterator<Item = Deviation> {
    let has_write = |step: usize| writes.iter().any(|write| write.is_visible && write.step == step);
    (1..steps).filter(move |step| !has_write(*step)).filter_map(|step| {
        let what = DeviationKind::CrashAtRest(Restart::AfterNextStep);
        Some(Deviation { what, call: STEP.to_owned(), number: step.try_into().ok()? })
    })
}

/// Crashes while the world is quiet after a step. Before the first step there is none, because the operator has nothing to remember.
fn at_rest(steps: usize) -> impl Iterator<Item = Deviation> {
    let steps = u32::try_from(steps).unwrap_or(u32::MAX);
    let what = DeviationKind::CrashAtRest(Restart::AtOnce);
    (1..=steps).map(move |number| Deviation { what, call: STEP.to_owned(), number })
}

/// Lines to processes that act in the run without faults, which replicas on standby do not.
fn of_active(lines: &[ArrivedLine]) -> Vec<&ArrivedLine> {
    lines.iter().filter(|line| !is_replica(process_of(&line.line))).collect()
}

/// Holds from each line on. A state can be skipped only if there is a later line about the object, and a hold until the next step needs
/// a next step.
pub(super) fn staleness(lines: &[ArrivedLine], steps: usize) -> Vec<Deviation> {
    let lines = of_active(lines);
    let streams: BTreeSet<String> = lines.iter().map(|line| stream_of(&line.line)).collect();
    // There are few streams and many lines, so a plan for a whole stream covers more than one for a line and
    // comes first.
    let of_streams = [DeviationKind::Apart, DeviationKind::Late].into_iter().flat_map(|what| {
        streams.iter().map(move |stream| Deviation { what, call: stream.clone(), number: 1 })
    });
    let has_others = streams.len() > 1;
    let with = |until: Until| {
        let lines = &lines;
        lines.iter().enumerate().filter_map(move |(place, line)| {
            let has_place = match until {
                Until::NextEvent => lines[place + 1..].iter().any(|later| later.object() == line.object()),
                Until::OtherEvents => has_others,
                Until::NextStep => line.step < steps,
                Until::Reconciles(_) | Until::Second => true,
                Until::Leading => false,
            };
            has_place.then(|| from(line, DeviationKind::Hold(until)))
        })
    };
    let untils = [
        Until::Reconciles(1),
        Until::NextEvent,
        Until::OtherEvents,
        Until::NextStep,
        Until::Second,
        Until::Reconciles(2),
        Until::Reconciles(3),
    ];
    of_streams.chain(untils.into_iter().flat_map(with)).collect()
}

/// Watches that end with 410, so that a list replaces lines: a single line, if a later one is about the same object, or all lines until
/// the next step is done.
fn unobserved(lines: &[ArrivedLine], steps: usize) -> Vec<Deviation> {
    let lines = of_active(lines);
    let has_later =
        |place: usize| lines[place + 1..].iter().any(|later| later.object() == lines[place].object());
    let one = (0..lines.len()).filter(|place| has_later(*place));
    let one = one.map(|place| from(lines[place], DeviationKind::Relist(Until::NextEvent)));
    let step = lines.iter().filter(|line| line.step < steps);
    one.chain(step.map(|line| from(line, DeviationKind::Relist(Until::NextStep)))).collect()
}

/// Garbage collections between a write and its answer: after deletions, and in steps in which the collector acts without faults. Then
/// drawn orders of actions, and each visible write after those of other reconciles of its step.
fn order(reference: &Outcome) -> Vec<Deviation> {
    let is_collected = |write: &&Write| {
        // In other cases the collector finds nothing to delete between the write and its answer.
        let may = write.call.starts_with("delete") || reference.collected.contains(&write.step);
        write.is_visible && !write.is_effect() && may
    };
    let collect =
        reference.writes.iter().filter(is_collected).map(|write| at(write, DeviationKind::CollectAfter));
    let shuffle = |number| Deviation { what: DeviationKind::Shuffle, call: ACTIONS.to_owned(), number };
    let labels = labels_by_step(reference);
    // A delay lets other reconciles write first. Without another reconcile in the step the delayed run would
    // equal the one without faults.
    let is_alone = |write: &&Write| labels.get(&write.step).is_none_or(|labels| labels.len() < 2);
    let overtaken = reference.writes.iter().filter(|write| write.is_visible && !is_alone(write));
    let delay = overtaken.map(|write| at(write, DeviationKind::Delay));
    collect.chain((1..=ORDERS).map(shuffle)).chain(delay).collect()
}

/// Reconciles of processes under test, by the step during or after which they began.
fn labels_by_step(reference: &Outcome) -> BTreeMap<usize, BTreeSet<&str>> {
    let (mut step, mut labels) = (0, BTreeMap::<usize, BTreeSet<&str>>::new());
    for entry in &reference.trace {
        match &entry.action {
            Action::Step(_) => step += 1,
            Action::ReconcileBegan { actor, label } if actor.is_operator() => {
                labels.entry(step).or_default().insert(label);
            }
            _ => {}
        }
    }
    labels
}

fn lost_answers(writes: &[Write]) -> Vec<Deviation> {
    let visible = || writes.iter().filter(|write| write.is_visible);
    // Remote systems have no watch, so no events can be held back.
    let with_news = visible().filter(|write| !write.is_effect());
    let lost = visible().map(|write| at(write, DeviationKind::LoseAnswer));
    lost.chain(with_news.map(|write| at(write, DeviationKind::LoseAnswerAndEvents))).collect()
}

fn refusals(writes: &[Write], reads: &[Read]) -> Vec<Deviation> {
    let all = [
        Refusal::Conflict,
        Refusal::InternalError,
        Refusal::Reset,
        Refusal::Unavailable,
        Refusal::TooManyRequests,
    ];
    // Remote systems have no status codes.
    let may = |write: &Write, refusal| refusal == Refusal::Reset || !write.is_effect();
    let of = |refusal| {
        let writes = writes.iter().filter(move |write| may(write, refusal));
        writes.map(move |write| at(write, DeviationKind::Refuse(refusal)))
    };
    // Conflicts, failed reads and outages come first, because a search with a short budget may not reach the
    // other refusals.
    let [first, rest @ ..] = all;
    of(first).chain(unread(reads)).chain(outages(writes)).chain(rest.into_iter().flat_map(of)).collect()
}

/// Reads that fail: the object is neither there nor absent.
fn unread(reads: &[Read]) -> impl Iterator<Item = Deviation> {
    [Refusal::InternalError, Refusal::Reset].into_iter().flat_map(move |refusal| {
        let what = DeviationKind::Refuse(refusal);
        reads.iter().map(move |read| Deviation { what, call: read.call.clone(), number: read.number })
    })
}

/// Outages of a resource or remote system, from the first write to it in each step on.
fn outages(writes: &[Write]) -> impl Iterator<Item = Deviation> {
    let mut seen = BTreeSet::new();
    let target = |write: &Write| write.call.split([' ', '/']).nth(1).unwrap_or_default().to_owned();
    let effect = |write: &Write| Some(write.call.split(" at ").nth(1)?.split(' ').next()?.to_owned());
    // An outage lasts a minute and covers all later calls to its target, so those of further writes of the
    // step would mostly repeat it.
    let first = writes.iter().filter(move |write| {
        write.is_visible && seen.insert((write.step, effect(write).unwrap_or_else(|| target(write))))
    });
    first.map(|write| at(write, DeviationKind::Outage))
}

/// The next step begins before a write; and if it leads to other reconciles, these end before the write.
fn early_steps(reference: &Outcome, steps: usize) -> Vec<Deviation> {
    let labels = labels_by_step(reference);
    let has_others = |write: &&Write| {
        let of = |step: usize| labels.get(&step).into_iter().flatten();
        let both: BTreeSet<&&str> = of(write.step).chain(of(write.step + 1)).collect();
        write.is_visible && both.len() > 1
    };
    let early = || reference.writes.iter().filter(|write| write.step > 0 && write.step < steps);
    let before = early().map(|write| at(write, DeviationKind::StepBefore));
    before.chain(early().filter(has_others).map(|write| at(write, DeviationKind::StepAround))).collect()
}

/// Pauses before each visible write: longer than requests last, and with other replicas shorter and longer than a lease.
fn pauses(writes: &[Write], replicas: u8) -> Vec<Deviation> {
    let visible = || writes.iter().filter(|write| write.is_visible);
    // With one replica no lease can be lost, so only the timeouts of requests matter.
    let seconds = if replicas > 1 { &[11, 16, 61][..] } else { &[61] };
    let of = |seconds: &u32| {
        let seconds = *seconds;
        visible().map(move |write| at(write, DeviationKind::Pause(seconds)))
    };
    seconds.iter().flat_map(of).collect()
}

/// Failovers of two kinds. A standby takes over with an old view: from one of its lines on it receives nothing, and the leader dies after a
/// later step. Or the leader is cut off at a write.
fn failovers(reference: &Outcome, steps: usize) -> Vec<Plan> {
    let visible = reference.writes.iter().filter(|write| write.is_visible && !write.is_effect());
    let cut_off = visible.map(|write| Plan::of(at(write, DeviationKind::CutOff)));
    // Only the second replica's view is held back: the replicas are alike, so those of others would lead to
    // similar states.
    let standby = format!("{OPERATOR}-2");
    let lines = reference.lines.iter().filter(|line| process_of(&line.line) == standby && line.step > 0);
    let old_views = lines.flat_map(|line| {
        at_rest(steps)
            // The leader dies in the step of the line or later. Before that step the standby's view is not
            // old yet.
            .skip(line.step.saturating_sub(1))
            .map(|crash| Plan { deviations: vec![from(line, DeviationKind::Hold(Until::Leading)), crash] })
    });
    let mut plans: Vec<Plan> = old_views.collect();
    plans.extend(cut_off);
    plans
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::{
        names::{Actor, ProcessName},
        trace::Entry,
    };

    /// A write that changes something, while no other request runs.
    pub(in crate::explore) fn write(call: &str, step: usize) -> Write {
        let (call, at) = (call.to_owned(), Duration::ZERO);
        Write { call, number: 1, step, at, is_visible: true, is_after_others: false }
    }

    pub(in crate::explore) fn line(line: &str, step: usize) -> ArrivedLine {
        ArrivedLine { line: line.to_owned(), number: 1, step }
    }

    pub(in crate::explore) fn texts(plans: &[Plan]) -> Vec<String> {
        plans.iter().map(|plan| plan.to_string().trim().replace('\n', "; ")).collect()
    }

    pub(in crate::explore) const EXTENT: Extent = Extent { steps: 1, replicas: 1, depth: 1 };

    #[test]
    fn crashes_are_tried_once_for_each_world() {
        let writes = [
            Write { is_after_others: true, ..write("create a x", 1) },
            Write { is_visible: false, ..write("apply b x", 1) },
            Write { is_after_others: true, ..write("apply c x", 2) },
        ];
        let plans: Vec<String> = crashes(&writes, 2).iter().map(ToString::to_string).collect();
        assert_eq!(
            plans,
            [
                "crash before create a x #1",
                "crash after create a x #1",
                "crash before apply c x #1",
                "crash after apply c x #1",
                "crash at rest after step #1",
                "crash at rest after step #2",
                "crash, restart after the next step, before create a x #1",
                "crash, restart after the next step, after create a x #1",
            ]
        );
    }

    #[test]
    fn an_operator_that_waits_may_be_down_for_long() {
        let at = |seconds| Write { at: Duration::from_secs(seconds), ..write("create a x", 1) };
        let late = |writes: &[Write]| {
            let plans = crashes(writes, 2);
            plans.iter().map(ToString::to_string).filter(|plan| plan.contains("a minute")).collect::<Vec<_>>()
        };
        assert_eq!(late(&[at(0), at(0)]), Vec::<String>::new());
        let expected = "crash, restart a minute after the next step, after create a x #1";
        assert_eq!(late(&[at(0), Write { number: 2, is_visible: false, ..at(5) }])[1..], [expected]);
    }

    #[test]
    fn an_operator_is_down_during_each_step() {
        let writes = [Write { is_after_others: true, ..write("create a x", 1) }];
        let plans: Vec<String> = down_during_a_step(&writes, 3).map(|crash| crash.to_string()).collect();
        assert_eq!(plans, ["crash at rest, restart after the next step, after step #2"]);
    }

    #[test]
    fn an_outage_is_tried_once_in_each_step_for_each_resource_and_remote_system() {
        let writes = [
            Write { is_visible: false, ..write("apply configmaps a/x", 1) },
            write("apply configmaps a/y", 1),
            write("apply configmaps/status a/y", 1),
            write("create bucket at cloud x", 1),
            write("apply configmaps a/x", 2),
        ];
        let plans: Vec<String> = outages(&writes).map(|outage| outage.to_string()).collect();
        assert_eq!(
            plans,
            [
                "refuse for a minute, from apply configmaps a/y #1",
                "refuse for a minute, from create bucket at cloud x #1",
                "refuse for a minute, from apply configmaps a/x #1",
            ]
        );
    }

    #[test]
    fn a_read_is_refused_in_two_ways() {
        let reads = [Read { call: "get a n/x".to_owned(), number: 2 }];
        let plans: Vec<String> = refusals(&[], &reads).iter().map(ToString::to_string).collect();
        assert_eq!(plans, ["refuse with 500 get a n/x #2", "refuse with reset get a n/x #2"]);
    }

    #[test]
    fn writes_are_overtaken_if_there_are_other_reconciles() {
        let process = ProcessName { program: OPERATOR, replica: 0, is_tested: true };
        let actor = Actor::Process { process, life: 0 };
        let step = Action::Step("a step".to_owned());
        let began = |label: &str| Action::ReconcileBegan { actor, label: label.into() };
        let with = |actions: &[&Action]| {
            let entry = |action: &&Action| Entry { at: Duration::ZERO, action: (*action).clone() };
            let writes = vec![write("apply a x", 1), write("apply b x", 2)];
            Outcome { writes, trace: actions.iter().map(entry).collect(), ..Outcome::default() }
        };
        let delays = |reference: &Outcome| {
            let all = order(reference).into_iter().chain(early_steps(reference, 2));
            let late = all.filter(|one| matches!(one.what, DeviationKind::Delay | DeviationKind::StepAround));
            late.map(|one| one.to_string()).collect::<Vec<_>>()
        };
        let (one, other) = (began("a x"), began("b x"));
        assert_eq!(delays(&with(&[&step, &one, &step, &one])), [""; 0]);
        assert_eq!(
            delays(&with(&[&step, &one, &step, &other])),
            ["let the next step pass before apply a x #1"]
        );
        assert_eq!(
            delays(&with(&[&step, &one, &step, &one, &other])),
            ["delay until nothing else happens: apply b x #1", "let the next step pass before apply a x #1"]
        );
    }

    #[test]
    fn strategies_take_turns() {
        let writes = vec![write("create a x", 1), write("apply b x", 1)];
        let reference = Outcome { writes, ..Outcome::default() };
        let plans = plans(&reference, EXTENT, &[Strategy::Crashes, Strategy::LostAnswers]);
        assert_eq!(
            texts(&plans),
            [
                "crash before create a x #1",
                "lose the answer of create a x #1",
                "crash after create a x #1",
                "lose the answer of apply b x #1",
                "crash after apply b x #1",
                "lose the answer and hold the events of create a x #1",
                "crash at rest after step #1",
                "lose the answer and hold the events of apply b x #1",
            ]
        );
    }

    #[test]
    fn old_views_of_the_standby_are_tried_with_a_failover_after_each_later_step() {
        let lines = vec![line("dbs ADDED a/x", 1), line("dbs ADDED a/x to operator-2", 1)];
        let reference = Outcome { lines, ..Outcome::default() };
        let plans = failovers(&reference, 2);
        assert_eq!(
            texts(&plans),
            [
                "hold until it leads, from dbs ADDED a/x to operator-2 #1; crash at rest after step #1",
                "hold until it leads, from dbs ADDED a/x to operator-2 #1; crash at rest after step #2",
            ]
        );
        let stale = staleness(&reference.lines, 2);
        assert!(stale.iter().all(|deviation| !deviation.call.contains("operator-2")), "{stale:?}");
    }

    #[test]
    fn the_first_plan_of_each_kind_precedes_the_second() {
        let calls = [
            "create a n/x",
            "create a n/y",
            "delete a n/x",
            "add at dns a x",
            "add at dns a y",
            "add at cloud a",
        ];
        let all = calls.map(|call| Plan { deviations: vec![at(&write(call, 1), DeviationKind::LoseAnswer)] });
        let texts = texts(&new_kinds_first(all.into()));
        let sorted = [
            "create a n/x",
            "delete a n/x",
            "add at dns a x",
            "add at cloud a",
            "create a n/y",
            "add at dns a y",
        ];
        assert_eq!(texts, sorted.map(|call| format!("lose the answer of {call} #1")));
        let steps: Vec<Plan> = at_rest(2).map(|step| Plan { deviations: vec![step] }).collect();
        assert_eq!(new_kinds_first(steps.clone()), steps);
    }

    #[test]
    fn lines_of_another_program_are_delayed_whatever_its_name() {
        let stale = staleness(&[line("dbs ADDED a/x to operator-x", 1)], 1);
        assert!(stale.iter().any(|deviation| deviation.call == "dbs ADDED a/x to operator-x"), "{stale:?}");
    }
}
