//! Events that wait for one subscriber.
//!
//! The informer appends to mailboxes while it holds its lock. Predicates and handlers run in the task of the
//! subscriber, which takes events while no lock is held. So user code may call every method of every cache.
//!
//! Bounds: if [`Mailbox::MOST`] events wait in a queue, the watch pauses until the subscriber has taken them. None may
//! be dropped, because a handler must see each state that readers could see: the requests may depend on a state between
//! two others. The mailbox of a stream never pauses the watch, since its user may never read it, and stores at most one
//! event per object ([`Coalesced`]). The initial list is a snapshot that shares its memory with the store.

use std::{
    collections::VecDeque,
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::AcqRel, Ordering::Acquire},
    },
    task::{Context, Poll},
    vec,
};

use futures::task::AtomicWaker;
use parking_lot::Mutex;
use tokio::sync::{Notify, futures::OwnedNotified};

use super::{coalesced::Coalesced, informer::Informer, store::WatchedSnapshot};
use crate::{
    cache::objects::{event::Event, lazy::Lazy},
    object::{Object, ObjectKey},
};

/// Events that one subscriber has not taken.
pub(in crate::cache) struct Mailbox<K: Object> {
    contents: Mutex<Contents<K>>,
    waker: AtomicWaker,
    room: Arc<Room>,
}

struct Contents<K: Object> {
    waiting: WaitingEvents<K>,
    /// Whether it is counted in [`Room::full`].
    is_full: bool,
}

/// Waiting events.
pub(in crate::cache) enum WaitingEvents<K: Object> {
    /// Every event, in order.
    Queue(VecDeque<Event<K>>),
    /// At most one event per object.
    Coalesced(Box<Coalesced<K>>),
}

impl<K: Object> Mailbox<K> {
    /// Number of waiting events at which the watch pauses.
    pub(in crate::cache) const MOST: usize = 1024;

    pub(in crate::cache) fn new(waiting: WaitingEvents<K>, room: &Arc<Room>) -> Self {
        let contents = Mutex::new(Contents { waiting, is_full: false });
        Self { contents, waker: AtomicWaker::new(), room: Arc::clone(room) }
    }

    /// Appends an event and wakes the subscriber. Replaced states are appended to `retired`, because dropping the last
    /// handle of a state runs user code.
    pub(in crate::cache) fn push(&self, event: Event<K>, retired: &mut Vec<Event<K>>) {
        let mut contents = self.contents.lock();
        match &mut contents.waiting {
            WaitingEvents::Queue(queue) => {
                queue.push_back(event);
                // Counted once, until the subscriber has made room.
                if queue.len() >= Self::MOST && !contents.is_full {
                    contents.is_full = true;
                    self.room.full.fetch_add(1, AcqRel);
                }
            }
            WaitingEvents::Coalesced(coalesced) => {
                // `coalesced` drops states of this event or older ones, which the clone in `retired` keeps alive.
                retired.push(event.clone());
                coalesced.push(event);
            }
        }
        // Unlocked first, because the woken task takes the lock.
        drop(contents);
        self.waker.wake();
    }

    /// Returns the next event, or registers the waker.
    pub(in crate::cache) fn poll_pop(&self, cx: &mut Context<'_>) -> Poll<Event<K>> {
        // Registered before the check, so that an event right after it wakes the task.
        self.waker.register(cx.waker());
        let mut contents = self.contents.lock();
        let (event, delivered) = match &mut contents.waiting {
            WaitingEvents::Queue(queue) => (queue.pop_front(), None),
            WaitingEvents::Coalesced(coalesced) => (coalesced.pop(), coalesced.take_delivered()),
        };
        self.make_room(&mut contents);
        drop(contents);
        drop(delivered); // may be the last handles of objects
        event.map_or(Poll::Pending, Poll::Ready)
    }

    /// Moves all events of a queue into `taken`, which is empty, or registers the waker.
    fn poll_take(&self, taken: &mut VecDeque<Event<K>>, cx: &mut Context<'_>) -> Poll<()> {
        // Registered before the check, as in `poll_pop`.
        self.waker.register(cx.waker());
        let mut contents = self.contents.lock();
        if let WaitingEvents::Queue(queue) = &mut contents.waiting {
            std::mem::swap(queue, taken);
        }
        self.make_room(&mut contents);
        if taken.is_empty() { Poll::Pending } else { Poll::Ready(()) }
    }

    fn make_room(&self, contents: &mut Contents<K>) {
        let has_room = match &contents.waiting {
            WaitingEvents::Queue(queue) => queue.len() < Self::MOST,
            // Never full: it has at most one event per object, so a slow reader need not pause the watch.
            WaitingEvents::Coalesced(_) => true,
        };
        if contents.is_full && has_room {
            contents.is_full = false;
            self.room.full.fetch_sub(1, AcqRel);
            self.room.notify.notify_waiters();
        }
    }

    /// Empties the mailbox when its subscriber ends, so that it no longer pauses the watch. No event may be appended
    /// afterwards.
    pub(in crate::cache) fn close(&self) {
        let mut contents = self.contents.lock();
        let emptied = std::mem::replace(&mut contents.waiting, WaitingEvents::Queue(VecDeque::new()));
        self.make_room(&mut contents);
        drop(contents);
        drop(emptied); // may be the last handles of objects
    }

    pub(in crate::cache) fn len(&self) -> usize {
        match &self.contents.lock().waiting {
            WaitingEvents::Queue(queue) => queue.len(),
            WaitingEvents::Coalesced(coalesced) => coalesced.len(),
        }
    }
}

/// Counts the full mailboxes of an informer; its watch pauses while there are any.
#[derive(Default)]
pub(in crate::cache) struct Room {
    full: AtomicUsize,
    notify: Arc<Notify>,
}

impl Room {
    /// Returns a future to wait for before events are appended, or `None` if no mailbox is full. Must be called again
    /// after the wait.
    pub(in crate::cache) fn lacking(&self) -> Option<OwnedNotified> {
        if self.full.load(Acquire) == 0 {
            return None;
        }
        // Created before the second check, so that it is notified of any change after that.
        let notified = Arc::clone(&self.notify).notified_owned();
        (self.full.load(Acquire) > 0).then_some(notified)
    }
}

/// The objects of an initial list, in key order, from a snapshot of the store.
pub(in crate::cache) struct InitialList<K: Object> {
    watched: WatchedSnapshot<K>,
    /// Objects that were looked up but not returned.
    piece: vec::IntoIter<Lazy<K>>,
    at_once: usize,
    /// Last key that was looked up.
    reached: Option<ObjectKey<K>>,
}

impl<K: Object> InitialList<K> {
    /// Number of objects that are looked up at a time.
    const AT_ONCE: usize = 64;

    pub(in crate::cache) fn new(watched: WatchedSnapshot<K>) -> Self {
        Self { watched, piece: Vec::new().into_iter(), at_once: Self::AT_ONCE, reached: None }
    }

    /// Creates a list of objects that can be [superseded](Self::supersede) until they are returned.
    pub(in crate::cache) fn superseded(watched: WatchedSnapshot<K>) -> Self {
        Self { at_once: 1, ..Self::new(watched) }
    }

    /// Replaces or removes an object of the list. Returns `false` if the object was already returned or is not in the
    /// list.
    pub(in crate::cache) fn supersede(&mut self, key: &ObjectKey<K>, object: Option<Lazy<K>>) -> bool {
        self.reached.as_ref().is_none_or(|reached| key > reached) && self.watched.set(key, object)
    }
}

impl<K: Object> Iterator for InitialList<K> {
    type Item = Event<K>;

    fn next(&mut self) -> Option<Event<K>> {
        if self.piece.len() == 0 {
            let piece = self.watched.after(self.reached.as_ref(), self.at_once);
            if let Some(last) = piece.last() {
                self.reached = Some(last.key());
            }
            self.piece = piece.into_iter();
        }
        self.piece.next().map(|object| Event::Create { object, in_initial_list: true })
    }
}

/// Item of a [`Subscription`].
pub(crate) enum Delivered<K: Object> {
    Event(Event<K>),
    /// The initial list has been delivered. Delivered once.
    Synced,
}

/// The events of an informer for a controller: recent deletions, the initial list, then every event. Dropping it ends the
/// subscription.
#[must_use = "dropping it ends the subscription"]
pub(crate) struct Subscription<K: Object> {
    /// Deletions before the subscription.
    deletions: vec::IntoIter<Event<K>>,
    initial: Option<InitialList<K>>,
    /// Events taken from the mailbox, all at once to lock it less often.
    taken: VecDeque<Event<K>>,
    handle: MailboxHandle<K>,
}

impl<K: Object> Subscription<K> {
    pub(in crate::cache) fn new(
        deletions: Vec<Event<K>>,
        initial: InitialList<K>,
        handle: MailboxHandle<K>,
    ) -> Self {
        let (deletions, initial) = (deletions.into_iter(), Some(initial));
        Self { deletions, initial, taken: VecDeque::new(), handle }
    }

    /// Waits for the next event.
    ///
    /// # Cancellation
    ///
    /// Dropping the future loses no event.
    pub(crate) async fn next(&mut self) -> Delivered<K> {
        if let Some(initial) = &mut self.initial {
            if let Some(event) = self.deletions.next().or_else(|| initial.next()) {
                return Delivered::Event(event);
            }
            self.initial = None;
            return Delivered::Synced;
        }
        loop {
            if let Some(event) = self.taken.pop_front() {
                return Delivered::Event(event);
            }
            let (mailbox, taken) = (&self.handle.mailbox, &mut self.taken);
            poll_fn(|cx| mailbox.poll_take(taken, cx)).await;
        }
    }
}

/// Registration of a subscriber at an informer, removed when dropped.
pub(in crate::cache) struct MailboxHandle<K: Object> {
    pub(in crate::cache) informer: Arc<Informer<K>>,
    pub(in crate::cache) id: u64,
    pub(in crate::cache) mailbox: Arc<Mailbox<K>>,
}

impl<K: Object> Drop for MailboxHandle<K> {
    fn drop(&mut self) {
        // Unsubscribed first: afterwards no event is appended, as `close` requires.
        self.informer.unsubscribe(self.id);
        self.mailbox.close();
    }
}
