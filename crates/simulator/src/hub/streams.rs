//! Watches: lines from their arrival to the process, and what a plan does to a stream of them.

use std::{
    collections::VecDeque,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use tokio::{
    task::AbortHandle,
    time::{Duration, Instant},
};

use super::{Hub, HubState, Line};
use crate::names::{Actor, CallName, is_masked_resource};

/// Delay of the lines of a stream that is kept late.
pub(super) const LATE: Duration = Duration::from_secs(1);

/// A watch of a process, from the lines that the server sends to the chunks that the process reads.
pub(super) struct Watch {
    pub(super) actor: Actor,
    pub(super) name: Arc<CallName>,
    pub(super) stream: Arc<str>,
    /// Lines that the driver has not delivered.
    pub(super) unread: VecDeque<Unread>,
    /// Chunks that were delivered and that the process has not read.
    pub(super) delivered: VecDeque<Bytes>,
    pub(super) end: StreamEnd,
    pub(super) reader: Option<Waker>,
    /// Task that reads from the server.
    pub(super) pump: Option<AbortHandle>,
}

/// A line that has arrived and that the driver has not delivered.
pub(super) struct Unread {
    pub(super) number: u64,
    pub(super) arrived: Instant,
    pub(super) line: Line,
}

/// Lines that a process reads at once.
pub(super) struct Chunk {
    pub(super) text: Bytes,
    /// Whether no other chunk has been delivered.
    pub(super) is_last: bool,
}

/// Progress of the end of a watch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamEnd {
    /// The server has not ended the watch.
    NotYet,
    /// The server has ended the watch. The number orders the end among the lines.
    Unread(u64),
    /// The process reads the end after the delivered chunks.
    Delivered,
}

impl Hub {
    /// Returns the time at which the next line of a late stream is delivered.
    pub(crate) fn next_late(&self) -> Option<Instant> {
        let state = self.0.lock();
        let late = state.watches.values().filter(|watch| state.late.contains(&watch.stream));
        late.filter_map(|watch| Some(watch.unread.front()?.arrived + LATE)).min()
    }

    /// Adds a watch without lines, and returns its id.
    pub(crate) fn open(&self, actor: Actor, name: impl Into<Arc<CallName>>) -> u64 {
        let name = name.into();
        let mut state = self.0.lock();
        let id = state.number();
        let watch = Watch {
            actor,
            stream: actor.stream(&name.target).into(),
            name,
            unread: VecDeque::new(),
            delivered: VecDeque::new(),
            end: StreamEnd::NotYet,
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
        let resource = &*watch.name.target;
        // Only these lines have names in plans. Bookmarks depend on time, and Events and leases are not
        // compared.
        let is_counted = watch.actor.is_operator() && line.is_change() && !is_masked_resource(resource);
        let name = is_counted.then(|| watch.actor.stream(&format!("{resource} {}", line.label)));
        watch.unread.push_back(Unread { number, arrived: Instant::now(), line });
        let Some(name) = name else { return };
        let stream = Arc::clone(&watch.stream);
        let count = match state.counts.get_mut(&name) {
            Some(count) => {
                *count += 1;
                *count
            }
            None => *state.counts.entry(name.clone()).or_insert(1),
        };
        // The hold begins with the arrival, before the driver can deliver the line.
        if state.armed.iter().any(|(line, number)| *line == name && *number == count) {
            state.held.insert(stream);
        }
        state.arrived.push((name, count));
    }

    /// Returns the lines that have arrived at processes under test since the last call, by name and count.
    pub(crate) fn take_arrived(&self) -> Vec<(String, u32)> {
        std::mem::take(&mut self.0.lock().arrived)
    }

    /// Holds the stream of a line back, from that line on.
    pub(crate) fn hold_from(&self, line: &str, number: u32) {
        self.0.lock().armed.push((line.to_owned(), number));
    }

    /// Holds a stream back from now on.
    pub(crate) fn hold(&self, stream: &str) {
        self.0.lock().held.insert(stream.into());
    }

    /// Delivers the lines of a stream one by one.
    pub(crate) fn keep_apart(&self, stream: &str) {
        self.0.lock().apart.insert(stream.into());
    }

    /// Delivers each line of a stream a second after its arrival.
    pub(crate) fn keep_late(&self, stream: &str) {
        self.0.lock().late.insert(stream.into());
    }

    /// Ends the hold of a stream.
    pub(crate) fn release(&self, stream: &str) {
        self.0.lock().held.remove(stream);
    }

    /// Ends the watches of a stream with 410, in place of their unread lines.
    pub(crate) fn expire(&self, stream: &str) {
        let mut state = self.0.lock();
        let ids: Vec<u64> =
            state.watches.iter().filter(|(_, watch)| *watch.stream == *stream).map(|(id, _)| *id).collect();
        for id in ids {
            let (number, last) = (state.number(), state.number());
            let Some(watch) = state.watches.get_mut(&id) else { continue };
            watch.unread.clear();
            watch.unread.push_back(Unread { number, arrived: Instant::now(), line: Line::gone() });
            watch.end = StreamEnd::Unread(last);
            // No line of the server may follow the 410.
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
            watch.end = StreamEnd::Unread(number);
        }
    }

    /// Delivers all unread lines of a watch, and its end if there is one. Returns the labels of the lines.
    ///
    /// The first line is a chunk, and the others are another one: the first line wakes the process before the others arrive.
    pub(crate) fn deliver(&self, id: u64) -> Arc<[String]> {
        let (labels, reader) = {
            let mut state = self.0.lock();
            let HubState { watches, apart, late, .. } = &mut *state;
            let Some(watch) = watches.get_mut(&id) else { return Arc::default() };
            let (is_apart, is_late) = (apart.contains(&watch.stream), late.contains(&watch.stream));
            let count = match (is_apart, is_late) {
                (true, _) => watch.unread.len().min(1),
                (_, true) => {
                    watch.unread.iter().take_while(|unread| unread.arrived.elapsed() >= LATE).count()
                }
                _ => watch.unread.len(),
            };
            let mut lines: Vec<Line> = watch.unread.drain(..count).map(|unread| unread.line).collect();
            let mut texts = lines.iter_mut().map(|line| std::mem::take(&mut line.text));
            watch.delivered.extend(texts.next());
            if let Some(second) = texts.next() {
                let rest = texts.fold(second.to_vec(), |mut rest, line| {
                    rest.extend_from_slice(&line);
                    rest
                });
                watch.delivered.push_back(rest.into());
            }
            let mut labels: Vec<String> = lines.into_iter().map(|line| line.label).collect();
            // Lines that are still late or kept apart must reach the process before the end of the stream.
            if matches!(watch.end, StreamEnd::Unread(_)) && watch.unread.is_empty() {
                watch.end = StreamEnd::Delivered;
                labels.push("end".to_owned());
            }
            (labels, watch.reader.take())
        };
        if let Some(reader) = reader {
            reader.wake();
        }
        labels.into()
    }

    /// Reads a chunk of the lines that were delivered to the process. `None` is the end.
    pub(super) fn poll_read(&self, id: u64, context: &Context<'_>) -> Poll<Option<Chunk>> {
        let mut state = self.0.lock();
        // The watch is only missing if its process is dead.
        let Some(watch) = state.watches.get_mut(&id) else { return Poll::Pending };
        match (watch.delivered.pop_front(), watch.end) {
            (Some(text), _) => Poll::Ready(Some(Chunk { text, is_last: watch.delivered.is_empty() })),
            (None, StreamEnd::Delivered) => Poll::Ready(None),
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

impl Watch {
    /// Number of the oldest line, or of the end, that is not delivered.
    pub(super) fn oldest(&self) -> Option<u64> {
        let end = if let StreamEnd::Unread(number) = self.end { Some(number) } else { None };
        self.unread.front().map(|unread| unread.number).or(end)
    }
}
