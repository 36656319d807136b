//! Calls and watches that wait at the border between processes and the world, and the driver's choices among them.
//!
//! Every request, every remote effect and every line of a watch stops here until the driver lets it pass. The hub decides nothing;
//! it lists the possible choices, the oldest first.

mod body;
mod line;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    future::Future,
    hash::{DefaultHasher, Hash, Hasher},
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::{
    task::AbortHandle,
    time::{Duration, Instant},
};

pub(crate) use self::{
    body::{GateBody, WatchBody},
    line::{Line, Lines},
};
use crate::names::{Actor, CallName, is_masked_resource};

/// Delay of the lines of a stream that is kept late.
const LATE: Duration = Duration::from_secs(1);

/// Number of actions after which a [shuffled](Hub::shuffle) order changes its priorities.
const SAME_PRIORITIES: u64 = 7;

/// All calls and watches at the border. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Hub(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// Number of the next call, watch or line.
    next: u64,
    calls: BTreeMap<u64, Call>,
    watches: BTreeMap<u64, Watch>,
    /// Writes of processes under test that were sent since the driver last asked.
    sent: Vec<(Actor, CallName)>,
    /// Actors that are dead: their calls are dropped.
    cut: BTreeSet<Actor>,
    /// Actors whose calls, answers and lines do not pass.
    paused: BTreeSet<Actor>,
    /// Lines that watches under test have received, by name.
    counts: BTreeMap<String, u32>,
    /// Lines that no trace has taken yet: name and count.
    arrived: Vec<(String, u32)>,
    /// Streams with lines that are withheld.
    held: BTreeSet<String>,
    /// Lines from which on a stream is held.
    armed: BTreeSet<(String, u32)>,
    /// Streams with lines that are handed over one by one.
    apart: BTreeSet<String>,
    /// Streams with lines that are handed over [`LATE`].
    late: BTreeSet<String>,
    /// Seed of the order of actions, and number of actions chosen; `None` for the fixed order.
    shuffled: Option<(u64, u64)>,
}

struct Call {
    actor: Actor,
    name: CallName,
    phase: Phase,
    /// Is gone when the caller has given up.
    caller: Weak<()>,
    /// Whether the driver withholds it.
    is_held: bool,
    /// Whether it is carried out without its caller, too.
    is_zombie: bool,
}

enum Phase {
    Waiting(Work),
    /// The server works on it.
    Running,
    Carried(Answer),
}

/// Carries a call out, or refuses it. The future completes with the function that hands the answer over.
pub(crate) type Work = Box<dyn FnOnce(Order) -> Working + Send>;

/// A call that is being carried out.
pub(crate) type Working = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// Decision about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    CarryOut,
    /// The connection breaks before the call is carried out.
    Refuse,
}

/// Hands an answer to the caller: the one of the server, or a failure instead.
pub(crate) type Answer = Box<dyn FnOnce(Told) + Send>;

/// Outcome that the caller of a call receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    Answer,
    /// The connection broke.
    Lost,
}

/// A call that the driver may act on.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) id: u64,
    pub(crate) actor: Actor,
    pub(crate) name: CallName,
}

/// A possible action, apart from time passing.
#[derive(Debug)]
pub(crate) enum Possible {
    /// A call can be carried out.
    CarryOut(Seen),
    /// An answer can be handed over.
    Answer(Seen),
    /// A watch has lines to hand over.
    Deliver { watch: u64, actor: Actor, name: CallName },
}

struct Watch {
    actor: Actor,
    name: CallName,
    stream: String,
    /// Lines that the driver has not handed over.
    unread: VecDeque<Unread>,
    /// Chunks that were handed over and that the process has not read.
    delivered: VecDeque<Bytes>,
    /// Whether the server has ended the watch, and the driver has handed that over.
    end: End,
    reader: Option<Waker>,
    /// Task that reads from the server.
    pump: Option<AbortHandle>,
}

struct Unread {
    number: u64,
    arrived: Instant,
    line: Line,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    NotYet,
    /// Number of the end among the lines.
    Unread(u64),
    Delivered,
}

impl Hub {
    /// Adds a call. It is dropped when `caller` is.
    pub(crate) fn add(&self, actor: Actor, name: CallName, caller: &Arc<()>, work: Work) {
        let mut state = self.0.lock();
        if state.cut.contains(&actor) {
            return;
        }
        if actor.is_operator() && name.is_write() {
            state.sent.push((actor, name.clone()));
        }
        let (id, caller) = (state.number(), Arc::downgrade(caller));
        state.calls.insert(
            id,
            Call { actor, name, phase: Phase::Waiting(work), caller, is_held: false, is_zombie: false },
        );
    }

    /// Returns the writes that processes under test have sent since the last call.
    pub(crate) fn take_sent(&self) -> Vec<(Actor, CallName)> {
        std::mem::take(&mut self.0.lock().sent)
    }

    /// Disconnects an actor: its calls and watches are dropped, and later ones as well. Zombies stay.
    pub(crate) fn cut(&self, actor: Actor) {
        let dropped = {
            let mut state = self.0.lock();
            state.cut.insert(actor);
            let is_dead = |_: &u64, call: &mut Call| call.actor == actor && !call.is_zombie;
            let calls: Vec<Call> = state.calls.extract_if(.., is_dead).map(|(_, call)| call).collect();
            let watches: Vec<Watch> = state
                .watches
                .extract_if(.., |_, watch| watch.actor == actor)
                .map(|(_, watch)| watch)
                .collect();
            (calls, watches)
        };
        // Dropped without the lock: a call may hold a body that takes it.
        dropped.1.iter().filter_map(|watch| watch.pump.as_ref()).for_each(AbortHandle::abort);
        drop(dropped);
    }

    /// Returns the next action: of the fixed order the oldest answer, the oldest call, then the watch with the oldest unread line;
    /// watches of processes under test come last.
    pub(crate) fn next(&self) -> Option<Possible> {
        self.drop_abandoned();
        let mut state = self.0.lock();
        if state.shuffled.is_some() {
            return state.shuffled_next();
        }
        let passes = |call: &Call| !call.is_held && !state.paused.contains(&call.actor);
        let mut calls = state.calls.iter().filter(|(_, call)| passes(call));
        if let Some(carried) = calls.clone().find(|(_, call)| matches!(call.phase, Phase::Carried(_))) {
            return Some(Possible::Answer(seen(carried)));
        }
        if let Some(waiting) = calls.find(|(_, call)| matches!(call.phase, Phase::Waiting(_))) {
            return Some(Possible::CarryOut(seen(waiting)));
        }
        // Actors of the world are fast: an operator then receives its change and theirs together.
        let is_tested = |deliver: &Possible| match deliver {
            Possible::Deliver { actor, .. } => actor.is_operator(),
            Possible::CarryOut(_) | Possible::Answer(_) => false,
        };
        let (_, deliver) = state.unread().min_by_key(|(oldest, deliver)| (is_tested(deliver), *oldest))?;
        Some(deliver)
    }

    /// Draws the order of actions from a seed from now on.
    pub(crate) fn shuffle(&self, seed: u64) {
        self.0.lock().shuffled = Some((seed, 0));
    }

    /// Stops everything between an actor and the world.
    pub(crate) fn pause(&self, actor: Actor) {
        self.0.lock().paused.insert(actor);
    }

    /// Ends a pause.
    pub(crate) fn resume(&self, actor: Actor) {
        self.0.lock().paused.remove(&actor);
    }

    /// Withholds a call that waits.
    pub(crate) fn hold_call(&self, id: u64) {
        if let Some(call) = self.0.lock().calls.get_mut(&id) {
            call.is_held = true;
        }
    }

    /// Ends [`hold_call`](Self::hold_call).
    pub(crate) fn release_call(&self, id: u64) {
        if let Some(call) = self.0.lock().calls.get_mut(&id) {
            call.is_held = false;
        }
    }

    /// Lets a call be carried out even when its caller has given up or is dead.
    pub(crate) fn make_zombie(&self, id: u64) {
        if let Some(call) = self.0.lock().calls.get_mut(&id) {
            call.is_zombie = true;
        }
    }

    /// Returns the time at which the next line of a late stream is handed over.
    pub(crate) fn next_late(&self) -> Option<Instant> {
        let state = self.0.lock();
        let late = state.watches.values().filter(|watch| state.late.contains(&watch.stream));
        late.filter_map(|watch| Some(watch.unread.front()?.arrived + LATE)).min()
    }

    /// Drops calls that their callers have given up before execution, and answers without a caller.
    fn drop_abandoned(&self) {
        let abandoned: Vec<Call> = {
            let mut state = self.0.lock();
            let is_abandoned = |call: &Call| match call.phase {
                Phase::Waiting(_) => call.caller.strong_count() == 0 && !call.is_zombie,
                Phase::Running => false,
                Phase::Carried(_) => call.caller.strong_count() == 0,
            };
            state.calls.extract_if(.., |_, call| is_abandoned(call)).map(|(_, call)| call).collect()
        };
        drop(abandoned);
    }

    /// Takes the work of a waiting call, for the driver to run.
    pub(crate) fn take(&self, id: u64) -> Option<Work> {
        let mut state = self.0.lock();
        let call = state.calls.get_mut(&id)?;
        match std::mem::replace(&mut call.phase, Phase::Running) {
            Phase::Waiting(work) => Some(work),
            other => {
                call.phase = other;
                None
            }
        }
    }

    /// Records that a call was carried out.
    pub(crate) fn carried_out(&self, id: u64, answer: Answer) {
        let unwanted = match self.0.lock().calls.get_mut(&id) {
            Some(call) => {
                call.phase = Phase::Carried(answer);
                None
            }
            // The caller died meanwhile.
            None => Some(answer),
        };
        drop(unwanted);
    }

    /// Removes a call and hands `told` to its caller.
    pub(crate) fn answer(&self, id: u64, told: Told) {
        let call = self.0.lock().calls.remove(&id);
        if let Some(Call { phase: Phase::Carried(answer), .. }) = call {
            answer(told);
        }
    }

    /// Removes a call that is not carried out. Its caller waits for ever, unless it is answered by other means.
    pub(crate) fn remove(&self, id: u64) {
        let call = self.0.lock().calls.remove(&id);
        drop(call);
    }

    /// Opens a watch that reads its lines from `body`.
    pub(crate) fn open(&self, actor: Actor, name: CallName) -> u64 {
        let mut state = self.0.lock();
        let id = state.number();
        let watch = Watch {
            actor,
            stream: actor.stream(&name.target),
            name,
            unread: VecDeque::new(),
            delivered: VecDeque::new(),
            end: End::NotYet,
            reader: None,
            pump: None,
        };
        state.watches.insert(id, watch);
        id
    }

    /// Sets the task that reads the watch from the server, and that ends with it.
    pub(crate) fn set_pump(&self, id: u64, pump: AbortHandle) {
        match self.0.lock().watches.get_mut(&id) {
            Some(watch) => watch.pump = Some(pump),
            None => pump.abort(),
        }
    }

    /// Adds a line that the server sent.
    pub(crate) fn push(&self, id: u64, line: Line) {
        let mut state = self.0.lock();
        let number = state.number();
        let Some(watch) = state.watches.get_mut(&id) else { return };
        let resource = watch.name.target.clone();
        let is_counted = watch.actor.is_operator() && line.is_change() && !is_masked_resource(&resource);
        let name = watch.actor.stream(&format!("{resource} {}", line.label));
        let stream = watch.stream.clone();
        watch.unread.push_back(Unread { number, arrived: Instant::now(), line });
        if is_counted {
            let count = state.counts.entry(name.clone()).or_default();
            *count += 1;
            let count = *count;
            if state.armed.contains(&(name.clone(), count)) {
                state.held.insert(stream);
            }
            state.arrived.push((name, count));
        }
    }

    /// Returns the lines that have arrived at processes under test since the last call, by name and count.
    pub(crate) fn take_arrived(&self) -> Vec<(String, u32)> {
        std::mem::take(&mut self.0.lock().arrived)
    }

    /// Holds the stream of a line back, from that line on.
    pub(crate) fn hold_from(&self, line: &str, number: u32) {
        self.0.lock().armed.insert((line.to_owned(), number));
    }

    /// Holds a stream back from now on.
    pub(crate) fn hold(&self, stream: &str) {
        self.0.lock().held.insert(stream.to_owned());
    }

    /// Hands the lines of a stream over one by one.
    pub(crate) fn keep_apart(&self, stream: &str) {
        self.0.lock().apart.insert(stream.to_owned());
    }

    /// Hands each line of a stream over a second after its arrival.
    pub(crate) fn keep_late(&self, stream: &str) {
        self.0.lock().late.insert(stream.to_owned());
    }

    /// Ends the hold of a stream.
    pub(crate) fn release(&self, stream: &str) {
        self.0.lock().held.remove(stream);
    }

    /// Ends the watches of a stream with 410, in place of their unread lines.
    pub(crate) fn expire(&self, stream: &str) {
        let mut state = self.0.lock();
        let ids: Vec<u64> =
            state.watches.iter().filter(|(_, watch)| watch.stream == stream).map(|(id, _)| *id).collect();
        for id in ids {
            let (number, last) = (state.number(), state.number());
            let Some(watch) = state.watches.get_mut(&id) else { continue };
            watch.unread.clear();
            watch.unread.push_back(Unread { number, arrived: Instant::now(), line: Line::gone() });
            watch.end = End::Unread(last);
            if let Some(pump) = watch.pump.take() {
                pump.abort();
            }
        }
    }

    /// Records that the server has ended a watch.
    pub(crate) fn end(&self, id: u64) {
        let mut state = self.0.lock();
        let number = state.number();
        if let Some(watch) = state.watches.get_mut(&id) {
            watch.end = End::Unread(number);
        }
    }

    /// Hands all unread lines of a watch over as one chunk, and its end if there is one. Returns the labels of the lines.
    pub(crate) fn deliver(&self, id: u64) -> Vec<String> {
        let (labels, reader) = {
            let mut state = self.0.lock();
            let stream = state.watches.get(&id).map(|watch| watch.stream.clone()).unwrap_or_default();
            let (is_apart, is_late) = (state.apart.contains(&stream), state.late.contains(&stream));
            let Some(watch) = state.watches.get_mut(&id) else { return Vec::new() };
            let count = match (is_apart, is_late) {
                (true, _) => watch.unread.len().min(1),
                (_, true) => {
                    watch.unread.iter().take_while(|unread| unread.arrived.elapsed() >= LATE).count()
                }
                _ => watch.unread.len(),
            };
            let lines: Vec<Line> = watch.unread.drain(..count).map(|unread| unread.line).collect();
            if !lines.is_empty() {
                let chunk: Vec<u8> = lines.iter().flat_map(|line| line.text.iter().copied()).collect();
                watch.delivered.push_back(Bytes::from(chunk));
            }
            let mut labels: Vec<String> = lines.into_iter().map(|line| line.label).collect();
            if matches!(watch.end, End::Unread(_)) && watch.unread.is_empty() {
                watch.end = End::Delivered;
                labels.push("end".to_owned());
            }
            (labels, watch.reader.take())
        };
        if let Some(reader) = reader {
            reader.wake();
        }
        labels
    }

    /// Reads the lines that were handed over to the process. `None` is the end.
    pub(crate) fn poll_read(&self, id: u64, context: &Context<'_>) -> Poll<Option<Bytes>> {
        let mut state = self.0.lock();
        // Without the watch, its process is dead.
        let Some(watch) = state.watches.get_mut(&id) else { return Poll::Pending };
        match (watch.delivered.pop_front(), watch.end) {
            (Some(chunk), _) => Poll::Ready(Some(chunk)),
            (None, End::Delivered) => Poll::Ready(None),
            (None, _) => {
                watch.reader = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Removes a watch that its process has dropped.
    pub(crate) fn close(&self, id: u64) {
        let watch = self.0.lock().watches.remove(&id);
        if let Some(pump) = watch.and_then(|watch| watch.pump) {
            pump.abort();
        }
    }
}

impl State {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Returns the watches with lines that may be handed over, and the number of the oldest line of each.
    fn unread(&self) -> impl Iterator<Item = (u64, Possible)> {
        self.watches.iter().filter_map(|(id, watch)| {
            let is_early = || {
                let oldest = watch.unread.front();
                self.late.contains(&watch.stream)
                    && oldest.is_some_and(|unread| unread.arrived.elapsed() < LATE)
            };
            let passes =
                !self.held.contains(&watch.stream) && !self.paused.contains(&watch.actor) && !is_early();
            let oldest = watch.oldest().filter(|_| passes)?;
            Some((oldest, Possible::Deliver { watch: *id, actor: watch.actor, name: watch.name.clone() }))
        })
    }

    /// Returns the possible action with the highest priority. Each direction of each actor and each stream has a priority, and
    /// these are drawn again from time to time.
    fn shuffled_next(&mut self) -> Option<Possible> {
        let (seed, chosen) = self.shuffled?;
        let priority = |of: &str| {
            let mut hasher = DefaultHasher::new();
            (seed, chosen / SAME_PRIORITIES, of).hash(&mut hasher);
            hasher.finish()
        };
        let passes = |call: &Call| !call.is_held && !self.paused.contains(&call.actor);
        let calls =
            self.calls.iter().filter(|(_, call)| passes(call)).filter_map(|entry| match entry.1.phase {
                Phase::Running => None,
                Phase::Waiting(_) => {
                    let of = format!("calls of {}", entry.1.actor);
                    Some((priority(&of), *entry.0, Possible::CarryOut(seen(entry))))
                }
                Phase::Carried(_) => {
                    let of = format!("answers to {}", entry.1.actor);
                    Some((priority(&of), *entry.0, Possible::Answer(seen(entry))))
                }
            });
        let lines = self.unread().map(|(oldest, deliver)| {
            let of = match &deliver {
                Possible::Deliver { actor, name, .. } => format!("lines of {name} to {actor}"),
                _ => String::new(),
            };
            (priority(&of), oldest, deliver)
        });
        let first = calls.chain(lines).min_by_key(|(priority, age, _)| (*priority, *age));
        let (_, _, action) = first?;
        self.shuffled = Some((seed, chosen + 1));
        Some(action)
    }
}

fn seen((id, call): (&u64, &Call)) -> Seen {
    Seen { id: *id, actor: call.actor, name: call.name.clone() }
}

impl Watch {
    /// Number of the oldest line, or of the end, that is not handed over.
    fn oldest(&self) -> Option<u64> {
        let end = if let End::Unread(number) = self.end { Some(number) } else { None };
        self.unread.front().map(|unread| unread.number).or(end)
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;
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
    fn answers_come_before_calls_and_these_before_lines() {
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
        hub.answer(seen.id, Told::Answer);
        assert_eq!(next(&hub), "carry out b");
    }

    #[test]
    fn the_calls_of_the_dead_and_of_those_who_gave_up_are_dropped() {
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
    fn the_watch_with_the_oldest_line_comes_first_and_gives_all_its_lines() {
        let (hub, context) = (Hub::default(), Context::from_waker(Waker::noop()));
        let names = ["one", "other"].map(|name| CallName::of_effect("", name, ""));
        let [one, other] = names.map(|name| hub.open(Actor::User, name));
        let line = |name: &str| {
            let text =
                format!("{{\"type\":\"ADDED\",\"object\":{{\"metadata\":{{\"name\":\"{name}\"}}}}}}\n");
            Line::new(Bytes::from(text))
        };
        hub.push(other, line("x"));
        hub.push(one, line("y"));
        hub.push(other, line("z"));
        hub.end(other);
        assert_eq!(next(&hub), "deliver other");
        assert!(hub.poll_read(other, &context).is_pending(), "nothing is handed over yet");
        assert_eq!(hub.deliver(other), ["ADDED x", "ADDED z", "end"]);
        assert!(matches!(hub.poll_read(other, &context), Poll::Ready(Some(chunk)) if chunk.ends_with(b"\n")));
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
        assert_eq!(hub.deliver(watch), ["ADDED x", "MODIFIED x", "BOOKMARK x"]);
        hub.push(watch, line("MODIFIED"));
        hub.push(watch, line("DELETED"));
        assert_eq!(next(&hub), "nothing");
        let counted = ["ADDED x #1", "MODIFIED x #1", "MODIFIED x #2", "DELETED x #1"]
            .map(|line| format!("pods {line}"));
        let arrived: Vec<String> =
            hub.take_arrived().into_iter().map(|(line, count)| format!("{line} #{count}")).collect();
        assert_eq!(arrived, counted);
        hub.release("pods");
        assert_eq!(next(&hub), "deliver watch");
        hub.keep_apart("pods");
        assert_eq!(hub.deliver(watch), ["MODIFIED x"]);
        assert_eq!(hub.deliver(watch), ["DELETED x"]);
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
        assert_eq!(hub.deliver(watch), ["ADDED x"]);
        assert_eq!(next(&hub), "nothing");
    }

    #[test]
    fn an_expired_watch_ends_with_410_in_place_of_its_lines() {
        let hub = Hub::default();
        let (watch, line) = pods(&hub);
        hub.push(watch, line("ADDED"));
        hub.expire("pods");
        assert_eq!(hub.deliver(watch), ["ERROR 410", "end"]);
    }

    #[test]
    fn nothing_of_a_paused_actor_passes_and_a_zombie_outlives_its_caller() {
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
                order.push(name.verb);
            }
            order
        };
        assert!((0..20).all(|seed| order(seed) == order(seed) && order(seed).len() == 3));
        assert!((0..20).any(|seed| order(seed) != order(0)));
    }
}
