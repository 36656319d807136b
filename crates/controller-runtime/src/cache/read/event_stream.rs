//! The changes of a cache as a stream that never stores more than one event per object.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures::Stream;

use crate::{
    cache::{
        objects::event::Event,
        state::{informer::Informer, mailbox::MailboxHandle},
    },
    object::Object,
};

/// Stream of the changes of a cache, returned by [`Cached::events`](crate::Cached::events). It never ends.
#[must_use = "streams do nothing unless polled"]
pub struct EventStream<K: Object> {
    handle: MailboxHandle<K>,
}

impl<K: Object> EventStream<K> {
    pub(in crate::cache) fn new(informer: &Arc<Informer<K>>) -> Self {
        Self { handle: informer.subscribe() }
    }
}

impl<K: Object> Stream for EventStream<K> {
    type Item = Event<K>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event<K>>> {
        self.handle.mailbox.poll_pop(cx).map(Some)
    }
}

impl<K: Object> fmt::Debug for EventStream<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventStream").field("waiting", &self.handle.mailbox.len()).finish()
    }
}
