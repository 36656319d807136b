//! Calls and watches that wait at the border between processes and the world, and the driver's choices among them.
//!
//! Every request, every remote effect and every line of a watch stops here until the driver lets it pass. The hub decides nothing;
//! it lists the possible choices, the oldest first.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    future::Future,
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use kube_apiserver_embedded::ResponseBody;
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::task::AbortHandle;

use crate::names::{Actor, CallName, is_masked_resource};

/// All calls and watches at the border. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Hub(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// Number of the next call, watch or line.
    next: u64,
    calls: BTreeMap<u64, Call>,
    watches: BTreeMap<u64, Watch>,
    /// Actors that are dead: their calls are dropped.
    cut: BTreeSet<Actor>,
    /// Lines that the operator's watches have received, by resource and label.
    counts: BTreeMap<String, u32>,
    /// Lines that no trace has taken yet: name and count.
    arrived: Vec<(String, u32)>,
    /// Resources with lines that are withheld from the operator.
    held: BTreeSet<String>,
    /// Lines from which on a resource is held.
    armed: BTreeSet<(String, u32)>,
    /// Resources with lines that are handed over one by one.
    apart: BTreeSet<String>,
}

struct Call {
    actor: Actor,
    name: CallName,
    phase: Phase,
    /// Is gone when the caller has given up.
    caller: Weak<()>,
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
    /// Lines that the driver has not handed over, with their numbers.
    unread: VecDeque<(u64, Line)>,
    /// Chunks that were handed over and that the process has not read.
    delivered: VecDeque<Bytes>,
    /// Whether the server has ended the watch, and the driver has handed that over.
    end: End,
    reader: Option<Waker>,
    /// Task that reads from the server.
    pump: Option<AbortHandle>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    NotYet,
    /// Number of the end among the lines.
    Unread(u64),
    Delivered,
}

/// A line of a watch: an event.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    text: Bytes,
    /// Type and key of the object, such as `MODIFIED default/web`.
    pub(crate) label: String,
}

impl Line {
    pub(crate) fn new(text: Bytes) -> Self {
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Event {
            r#type: String,
            object: Object,
        }
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Object {
            metadata: Meta,
        }
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Meta {
            namespace: String,
            name: String,
        }
        let event: Event = serde_json::from_slice(&text).unwrap_or_default();
        let Meta { namespace, name } = event.object.metadata;
        let label = match (&*namespace, &*name) {
            (_, "") => event.r#type,
            ("", name) => format!("{} {name}", event.r#type),
            (namespace, name) => format!("{} {namespace}/{name}", event.r#type),
        };
        Self { text, label }
    }

    /// Whether the line reports a change of an object.
    fn is_change(&self) -> bool {
        ["ADDED ", "MODIFIED ", "DELETED "].iter().any(|kind| self.label.starts_with(kind))
    }
}

impl Hub {
    /// Adds a call. It is dropped when `caller` is.
    pub(crate) fn add(&self, actor: Actor, name: CallName, caller: &Arc<()>, work: Work) {
        let mut state = self.0.lock();
        if state.cut.contains(&actor) {
            return;
        }
        let (id, caller) = (state.number(), Arc::downgrade(caller));
        state.calls.insert(id, Call { actor, name, phase: Phase::Waiting(work), caller });
    }

    /// Disconnects an actor: its calls and watches are dropped, and later ones as well.
    pub(crate) fn cut(&self, actor: Actor) {
        let dropped = {
            let mut state = self.0.lock();
            state.cut.insert(actor);
            let calls: Vec<Call> =
                state.calls.extract_if(.., |_, call| call.actor == actor).map(|(_, call)| call).collect();
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

    /// Returns the next action of the run without faults: the oldest answer, the oldest call, then the watch with the oldest unread
    /// line.
    pub(crate) fn next(&self) -> Option<Possible> {
        self.drop_abandoned();
        let state = self.0.lock();
        let seen = |(id, call): (&u64, &Call)| Seen { id: *id, actor: call.actor, name: call.name.clone() };
        let carried = state.calls.iter().find(|(_, call)| matches!(call.phase, Phase::Carried(_)));
        let waiting = || state.calls.iter().find(|(_, call)| matches!(call.phase, Phase::Waiting(_)));
        let unread = || {
            let free = state.watches.iter().filter(|(_, watch)| !state.is_held(watch));
            let oldest = free.filter_map(|(id, watch)| Some((watch.oldest()?, id, watch)));
            oldest.min_by_key(|(oldest, ..)| *oldest)
        };
        if let Some(call) = carried {
            return Some(Possible::Answer(seen(call)));
        }
        if let Some(call) = waiting() {
            return Some(Possible::CarryOut(seen(call)));
        }
        let (_, id, watch) = unread()?;
        Some(Possible::Deliver { watch: *id, actor: watch.actor, name: watch.name.clone() })
    }

    /// Drops calls that their callers have given up before execution, and answers without a caller.
    fn drop_abandoned(&self) {
        let abandoned: Vec<Call> = {
            let mut state = self.0.lock();
            let is_abandoned =
                |call: &Call| call.caller.strong_count() == 0 && !matches!(call.phase, Phase::Running);
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
        let name = format!("{resource} {}", line.label);
        watch.unread.push_back((number, line));
        if is_counted {
            let count = state.counts.entry(name.clone()).or_default();
            *count += 1;
            let count = *count;
            if state.armed.contains(&(name.clone(), count)) {
                state.held.insert(resource);
            }
            state.arrived.push((name, count));
        }
    }

    /// Returns the lines that have arrived at the operator since the last call, by name and count.
    pub(crate) fn take_arrived(&self) -> Vec<(String, u32)> {
        std::mem::take(&mut self.0.lock().arrived)
    }

    /// Holds the lines about the resource of a line back from the operator, from that line on.
    pub(crate) fn hold_from(&self, line: &str, number: u32) {
        self.0.lock().armed.insert((line.to_owned(), number));
    }

    /// Hands the lines about a resource over one by one.
    pub(crate) fn keep_apart(&self, resource: &str) {
        self.0.lock().apart.insert(resource.to_owned());
    }

    /// Ends the hold of a resource.
    pub(crate) fn release(&self, resource: &str) {
        self.0.lock().held.remove(resource);
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
            let apart = state.apart.clone();
            let Some(watch) = state.watches.get_mut(&id) else { return Vec::new() };
            let is_apart = watch.actor.is_operator() && apart.contains(&watch.name.target);
            let count = if is_apart { watch.unread.len().min(1) } else { watch.unread.len() };
            let lines: Vec<Line> = watch.unread.drain(..count).map(|(_, line)| line).collect();
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

    fn is_held(&self, watch: &Watch) -> bool {
        watch.actor.is_operator() && self.held.contains(&watch.name.target)
    }
}

impl Watch {
    /// Number of the oldest line, or of the end, that is not handed over.
    fn oldest(&self) -> Option<u64> {
        let end = if let End::Unread(number) = self.end { Some(number) } else { None };
        self.unread.front().map(|(number, _)| *number).or(end)
    }
}

/// Splits the body of a watch into lines.
#[derive(Default)]
pub(crate) struct Lines {
    /// Beginning of an incomplete line.
    rest: Vec<u8>,
}

impl Lines {
    /// Returns the lines that end in `chunk`.
    pub(crate) fn split(&mut self, chunk: &Bytes) -> Vec<Line> {
        let mut lines = Vec::new();
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            self.rest.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                lines.push(Line::new(Bytes::from(std::mem::take(&mut self.rest))));
            }
        }
        lines
    }
}

/// Body of a response, as a process reads it.
pub(crate) enum GateBody {
    /// A response that is complete or generated while it is read.
    Whole(ResponseBody),
    Watch(WatchBody),
}

/// Body of a watch, which ends with the process.
pub(crate) struct WatchBody {
    pub(crate) hub: Hub,
    pub(crate) id: u64,
}

impl Drop for WatchBody {
    fn drop(&mut self) {
        self.hub.close(self.id);
    }
}

impl http_body::Body for GateBody {
    type Data = Bytes;
    type Error = kube_apiserver_embedded::faults::ConnectionReset;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        match self.get_mut() {
            Self::Whole(body) => Pin::new(body).poll_frame(context),
            Self::Watch(watch) => watch
                .hub
                .poll_read(watch.id, context)
                .map(|chunk| chunk.map(|chunk| Ok(http_body::Frame::data(chunk)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body) => body.is_end_stream(),
            Self::Watch(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;

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
        let operator = Actor::Operator { life: 0 };
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
        let operator = Actor::Operator { life: 0 };
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

    #[test]
    fn lines_are_put_together_from_chunks() {
        let mut lines = Lines::default();
        let labels = |lines: Vec<Line>| lines.into_iter().map(|line| line.label).collect::<Vec<_>>();
        assert_eq!(labels(lines.split(&Bytes::from_static(b"{\"type\":\"A\"}\n{\"type\""))), ["A"]);
        assert_eq!(labels(lines.split(&Bytes::from_static(b":\"B\"}"))), [""; 0]);
        assert_eq!(labels(lines.split(&Bytes::from_static(b"\n"))), ["B"]);
    }
}
