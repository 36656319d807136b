//! Order and delivery of calls and watches.

use std::{
    future::ready,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use tokio::time::Instant;

use super::{streams::LATE, *};
use crate::names::{OPERATOR, ProcessName};

const FIRST: Actor =
    Actor::Process { process: ProcessName { program: OPERATOR, replica: 0, is_tested: true }, life: 0 };

fn call(hub: &Hub, actor: Actor, verb: &str) -> Arc<()> {
    let caller = Arc::new(());
    let answer: Answer = Box::new(|_| {});
    hub.add(
        actor,
        CallName::of_effect("cloud", verb, ""),
        &caller,
        Box::new(|_| -> Working { Box::pin(ready(answer)) }),
    );
    caller
}

fn next(hub: &Hub) -> String {
    match hub.next() {
        None => "nothing".to_owned(),
        Some(Possible::CarryOut(seen)) => format!("carry out {}", seen.name.verb),
        Some(Possible::Answer(seen)) => format!("answer {}", seen.name.verb),
        Some(Possible::Deliver { name, .. }) => format!("deliver {}", name.verb),
    }
}

#[test]
fn answers_precede_calls_and_calls_precede_lines() {
    let hub = Hub::default();
    assert_eq!(next(&hub), "nothing");
    let watch = hub.open(Actor::User, CallName::of_effect("", "watch", ""));
    hub.push(watch, Line::new(Bytes::from_static(b"{}\n")));
    assert_eq!(next(&hub), "deliver watch");
    let _callers = [call(&hub, Actor::User, "a"), call(&hub, Actor::User, "b")];
    assert_eq!(next(&hub), "carry out a");
    let Some(Possible::CarryOut(seen)) = hub.next() else { panic!("a call waits") };
    assert!(hub.take(seen.id).is_some() && hub.take(seen.id).is_none());
    assert_eq!(next(&hub), "carry out b", "the server works on the other one");
    hub.carried_out(seen.id, Box::new(|_| {}));
    assert_eq!(next(&hub), "answer a");
    hub.answer(seen.id, CallResult::Answered);
    assert_eq!(next(&hub), "carry out b");
}

#[test]
fn a_preferred_user_precedes_answers_to_others() {
    let hub = Hub::default();
    hub.prefer_user();
    let _of_operator = call(&hub, FIRST, "a");
    let Some(Possible::CarryOut(seen)) = hub.next() else { panic!("a call waits") };
    hub.take(seen.id);
    hub.carried_out(seen.id, Box::new(|_| {}));
    let _of_user = call(&hub, Actor::User, "b");
    assert_eq!(next(&hub), "carry out b");
    let Some(Possible::CarryOut(seen)) = hub.next() else { panic!("a call waits") };
    hub.take(seen.id);
    assert_eq!(next(&hub), "answer a", "the server works on the user's call");
    hub.carried_out(seen.id, Box::new(|_| {}));
    assert_eq!(next(&hub), "answer b");
}

#[test]
fn calls_of_dead_or_departed_callers_are_dropped() {
    let hub = Hub::default();
    let operator = FIRST;
    let caller = call(&hub, operator, "a");
    drop(call(&hub, Actor::User, "b"));
    assert_eq!(next(&hub), "carry out a");
    hub.cut(operator);
    assert_eq!(next(&hub), "nothing");
    drop(caller);
    let _late = call(&hub, operator, "c");
    assert_eq!(next(&hub), "nothing");
}

#[test]
fn the_watch_with_the_oldest_line_delivers_all_its_lines_first() {
    let (hub, context) = (Hub::default(), Context::from_waker(Waker::noop()));
    let names = ["one", "other"].map(|name| CallName::of_effect("", name, ""));
    let [one, other] = names.map(|name| hub.open(Actor::User, name));
    let line = |name: &str| {
        let text = format!("{{\"type\":\"ADDED\",\"object\":{{\"metadata\":{{\"name\":\"{name}\"}}}}}}\n");
        Line::new(Bytes::from(text))
    };
    hub.push(other, line("x"));
    hub.push(one, line("y"));
    hub.push(other, line("z"));
    hub.end(other);
    assert_eq!(next(&hub), "deliver other");
    assert!(hub.poll_read(other, &context).is_pending(), "nothing is delivered yet");
    assert_eq!(*hub.deliver(other), ["ADDED x", "ADDED z", "end"]);
    for is_last in [false, true] {
        let Poll::Ready(Some(chunk)) = hub.poll_read(other, &context) else { panic!("a line was delivered") };
        assert!(chunk.text.ends_with(b"\n"));
        assert_eq!(chunk.is_last, is_last, "the first line arrives alone");
    }
    assert!(matches!(hub.poll_read(other, &context), Poll::Ready(None)));
    assert_eq!(next(&hub), "deliver one");
    hub.close(one);
    assert_eq!(next(&hub), "nothing");
}

#[test]
fn a_held_resource_is_handed_over_as_one_chunk_after_its_release_or_one_by_one() {
    let hub = Hub::default();
    let operator = FIRST;
    let request = http::Request::get("/api/v1/pods?watch=true").body(()).unwrap();
    let watch = hub.open(operator, CallName::of_request(&request, b""));
    let line = |kind: &str| {
        let text = format!("{{\"type\":\"{kind}\",\"object\":{{\"metadata\":{{\"name\":\"x\"}}}}}}\n");
        Line::new(Bytes::from(text))
    };
    hub.hold_from("pods MODIFIED x", 2);
    for kind in ["ADDED", "MODIFIED", "BOOKMARK"] {
        hub.push(watch, line(kind));
    }
    assert_eq!(*hub.deliver(watch), ["ADDED x", "MODIFIED x", "BOOKMARK x"]);
    hub.push(watch, line("MODIFIED"));
    hub.push(watch, line("DELETED"));
    assert_eq!(next(&hub), "nothing");
    let counted =
        ["ADDED x #1", "MODIFIED x #1", "MODIFIED x #2", "DELETED x #1"].map(|line| format!("pods {line}"));
    let arrived: Vec<String> =
        hub.take_arrived().into_iter().map(|(line, count)| format!("{line} #{count}")).collect();
    assert_eq!(arrived, counted);
    hub.release("pods");
    assert_eq!(next(&hub), "deliver watch");
    hub.keep_apart("pods");
    assert_eq!(*hub.deliver(watch), ["MODIFIED x"]);
    assert_eq!(*hub.deliver(watch), ["DELETED x"]);
    assert_eq!(next(&hub), "nothing");
}

fn pods(hub: &Hub) -> (u64, impl Fn(&str) -> Line) {
    let request = http::Request::get("/api/v1/pods?watch=true").body(()).unwrap();
    let watch = hub.open(FIRST, CallName::of_request(&request, b""));
    let line = |kind: &str| {
        let text = format!("{{\"type\":\"{kind}\",\"object\":{{\"metadata\":{{\"name\":\"x\"}}}}}}\n");
        Line::new(Bytes::from(text))
    };
    (watch, line)
}

#[tokio::test(start_paused = true)]
async fn a_late_stream_is_a_second_behind() {
    let hub = Hub::default();
    let (watch, line) = pods(&hub);
    hub.keep_late("pods");
    hub.push(watch, line("ADDED"));
    assert_eq!((next(&hub), hub.next_late()), ("nothing".to_owned(), Some(Instant::now() + LATE)));
    tokio::time::advance(LATE).await;
    hub.push(watch, line("MODIFIED"));
    assert_eq!(next(&hub), "deliver watch");
    assert_eq!(*hub.deliver(watch), ["ADDED x"]);
    assert_eq!(next(&hub), "nothing");
}

#[test]
fn an_expired_watch_ends_with_410_in_place_of_its_lines() {
    let hub = Hub::default();
    let (watch, line) = pods(&hub);
    hub.push(watch, line("ADDED"));
    hub.expire("pods");
    assert_eq!(*hub.deliver(watch), ["ERROR 410", "end"]);
}

#[test]
fn a_paused_actor_is_cut_off_and_a_zombie_outlives_its_caller() {
    let hub = Hub::default();
    let caller = call(&hub, FIRST, "a");
    hub.pause(FIRST);
    assert_eq!(next(&hub), "nothing");
    let mut state = hub.0.lock();
    let id = *state.calls.keys().next().unwrap();
    state.paused.clear();
    drop(state);
    hub.make_zombie(id);
    drop(caller);
    hub.cut(FIRST);
    assert_eq!(next(&hub), "carry out a");
}

#[test]
fn a_shuffled_order_repeats_and_has_all_actions() {
    let order = |seed| {
        let hub = Hub::default();
        hub.shuffle(seed);
        let names = ["one", "other", "third"].map(|name| CallName::of_effect("", name, ""));
        for name in names {
            hub.push(hub.open(Actor::User, name), Line::new(Bytes::from_static(b"{}\n")));
        }
        let mut order = Vec::new();
        while let Some(Possible::Deliver { watch, name, .. }) = hub.next() {
            hub.deliver(watch);
            order.push(name.verb.clone());
        }
        order
    };
    assert!((0..20).all(|seed| order(seed) == order(seed) && order(seed).len() == 3));
    assert!((0..20).any(|seed| order(seed) != order(0)));
}
