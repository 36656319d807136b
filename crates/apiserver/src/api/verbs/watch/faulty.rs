//! Faults of a watch, as a stream around it.
//!
//! Every watch passes through here, because a command of a test can reach it at any time. A watch without
//! faults costs two atomic loads per poll.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::{Stream, StreamExt};
use kube_apimachinery::status::ApiError;
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use super::{Chunk, Watch};
use crate::faults::{Cut, CutEffect, Disorder, FaultyWatch, SeenCommands, WatchFault, late};
use crate::response::ResponseBody;

/// Fault of one watch; `None` if the fault rules select none.
#[derive(Clone, Copy)]
pub(super) struct Fault(Option<FaultyWatch>);

impl Fault {
    pub(super) fn new(faulty: Option<FaultyWatch>) -> Self {
        Self(faulty)
    }

    fn kind(self) -> Option<WatchFault> {
        self.0.map(|faulty| faulty.fault)
    }

    /// Whether the watch never sends a bookmark.
    pub(super) fn drops_bookmarks(self) -> bool {
        self.kind() == Some(WatchFault::NoBookmarks)
    }

    /// Whether the fault counts or rearranges events, so that each must be a separate chunk.
    pub(super) fn is_about_events(self) -> bool {
        self.0.is_some_and(|faulty| {
            Cut::of(faulty.fault).is_some() || Disorder::<Bytes>::of(faulty.fault, faulty.seed).is_some()
        })
    }

    /// Returns the end of a watch that would last from `start` to `deadline`.
    pub(super) fn end(self, start: Instant, deadline: Instant) -> Instant {
        match self.kind() {
            Some(WatchFault::CloseAfter(after)) => {
                start.checked_add(after).map_or(deadline, |end| end.min(deadline))
            }
            _ => deadline,
        }
    }

    /// Returns the body of the response.
    pub(super) fn body(self, stream: impl Stream<Item = Bytes> + Send + 'static) -> ResponseBody {
        match self.kind() {
            Some(WatchFault::Late(delay)) => ResponseBody::stream(late(stream, delay)),
            _ => ResponseBody::stream(stream),
        }
    }
}

/// A watch with its faults.
pub(super) struct FaultyStream {
    watch: Watch,
    /// Commands to the table's watches that this watch has seen.
    seen: SeenCommands,
    /// Whether a fault or a command has silenced the watch forever.
    stalled: bool,
    /// Fault of this watch alone. Boxed because rare.
    own: Option<Box<OwnFault>>,
}

#[derive(Default)]
struct OwnFault {
    /// Takes effect after a number of events.
    cut: Option<Cut>,
    /// Completes when the watch goes silent forever.
    stall: Option<Pin<Box<Sleep>>>,
    /// Runs while everything is held back.
    holding: Option<Pin<Box<Sleep>>>,
    /// Drops, duplicates or reorders events.
    disorder: Option<Disorder<Bytes>>,
}

impl OwnFault {
    fn of(faulty: FaultyWatch, start: Instant) -> Self {
        let stall = match faulty.fault {
            WatchFault::StallAfter(after) => start.checked_add(after),
            _ => None,
        };
        Self {
            cut: Cut::of(faulty.fault),
            stall: stall.map(|due| Box::pin(sleep_until(due))),
            holding: None,
            disorder: Disorder::of(faulty.fault, faulty.seed),
        }
    }

    /// Handles an event of the watch. Returns the bytes to send in its place, which may be empty.
    fn pass(&mut self, event: Bytes) -> Bytes {
        if let Some(cut) = &mut self.cut {
            cut.count();
        }
        let Some(disorder) = &mut self.disorder else {
            return event;
        };
        Bytes::from(disorder.pass(event).collect::<Vec<_>>().concat())
    }
}

/// Effect of faults before the next chunk of a watch.
enum Effect {
    None,
    /// The watch sends nothing more, and ends only when the server or the listener shuts down.
    Silence,
    /// The watch sends nothing for the time in `holding`.
    Pause,
    /// The watch sends nothing until the next command.
    Held,
    End,
}

impl FaultyStream {
    pub(super) fn new(watch: Watch, fault: Fault, start: Instant) -> Self {
        let seen = watch.call.context.injector.watch_commands.seen_by_new_watch(watch.call.served.storage());
        let own = fault.0.map(|faulty| Box::new(OwnFault::of(faulty, start)));
        Self { watch, seen, stalled: false, own }
    }

    /// Returns the stream of chunks, each delayed until its revision is persisted, so that no client sees a change that may be lost.
    pub(super) fn kept(self) -> impl Stream<Item = Bytes> + Send {
        futures::stream::unfold(self, |mut stream| async move {
            let chunk = stream.next().await?;
            stream.watch.cluster.kept(stream.watch.cursor).await.ok()?;
            Some((chunk, stream))
        })
    }

    /// Returns the effect of the watch's own fault and of commands. `latest` is the last change before this call.
    fn effect(&mut self, latest: u64, context: &mut Context<'_>) -> Effect {
        let own = self.own.as_deref_mut();
        if let Some(stall) = own.and_then(|own| own.stall.as_mut()) {
            self.stalled |= stall.as_mut().poll(context).is_ready();
        }
        if self.stalled {
            return Effect::Silence;
        }
        // An error that ends the watch comes first.
        if self.watch.pending.is_some() || self.watch.ended {
            return Effect::None;
        }
        if let Some(own) = self.own.as_deref_mut() {
            match own.cut.and_then(Cut::due) {
                None => {}
                Some(CutEffect::Close) => return Effect::End,
                Some(CutEffect::Stall) => return Effect::Silence,
                Some(CutEffect::Expire) => {
                    self.watch.fail(&ApiError::new(410, "Expired", "too old resource version: a fault"));
                    return Effect::None;
                }
                Some(CutEffect::Hold(time)) => {
                    own.cut = None;
                    own.holding = Some(Box::pin(sleep(time)));
                    return Effect::Pause;
                }
            }
        }
        if self.receive_commands() {
            return Effect::End;
        }
        if self.stalled {
            return Effect::Silence;
        }
        if self.seen.state.held {
            self.watch.changes.see(latest);
            return Effect::Held;
        }
        Effect::None
    }

    /// Receives new commands; returns whether the watch has to end.
    fn receive_commands(&mut self) -> bool {
        let commands = &self.watch.call.context.injector.watch_commands;
        let Some(before) = commands.receive(self.watch.call.served.storage(), &mut self.seen) else {
            return false;
        };
        self.watch.bookmark_now |= self.seen.state.bookmarks > before.bookmarks;
        self.stalled |= self.seen.state.stalls > before.stalls;
        self.seen.state.closes > before.closes
    }
}

impl Stream for FaultyStream {
    type Item = Bytes;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let stream = self.get_mut();
        loop {
            if let Some(own) = &mut stream.own
                && let Some(holding) = &mut own.holding
            {
                stream.watch.interrupts.poll(context);
                if stream.watch.interrupts.is_gone() {
                    return Poll::Ready(None);
                }
                ready!(holding.as_mut().poll(context));
                own.holding = None;
            }
            // Loaded before commands are received, so that a later one counts as a new change.
            let latest = stream.watch.changes.latest();
            match stream.effect(latest, context) {
                Effect::None => {}
                Effect::Pause => continue,
                Effect::End => return Poll::Ready(None),
                Effect::Silence => {
                    stream.watch.interrupts.poll(context);
                    return if stream.watch.interrupts.is_gone() { Poll::Ready(None) } else { Poll::Pending };
                }
                Effect::Held => {
                    stream.watch.interrupts.poll(context);
                    if stream.watch.interrupts.is_over() {
                        return Poll::Ready(None);
                    }
                    stream.watch.waited = true;
                    match ready!(stream.watch.changes.poll_news(context)) {
                        Some(()) => continue,
                        None => return Poll::Ready(None),
                    }
                }
            }
            let chunk = match ready!(stream.watch.poll_chunk(context)) {
                None => return Poll::Ready(None),
                Some(Chunk::Other(chunk)) => chunk,
                Some(Chunk::Events(events)) => match stream.own.as_deref_mut() {
                    None => events,
                    Some(own) => own.pass(events),
                },
            };
            // Empty if the fault has dropped the event.
            if !chunk.is_empty() {
                return Poll::Ready(Some(chunk));
            }
        }
    }
}
