//! GET with `watch`: the events of a collection as a stream.
//!
//! A watch is a cursor into the history of its table and holds no events. When the client reads on, the watch encodes the events after the
//! last revision that it has processed. If there are none, it waits for the next commit, the next bookmark or its deadline. If a client
//! does not read for too long, the history no longer reaches back to the cursor, and the stream ends.
//!
//! Bounds: for each client at most [`MAX_EVENTS`] events and about [`CHUNK`] bytes are held. If a webhook converts the objects, a batch of
//! converted objects is held as well.

mod event_conversion;
mod faulty;
mod interrupts;
mod lines;

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use kube_apimachinery::status::ApiError;
use kube_apimachinery::table::ColumnDefinitions;
use tokio::time::{Duration, Instant};

use super::Call;
use super::reply::Reply;
use crate::api::selection::Selection;
use crate::faults::FaultyWatch;
use crate::metrics::{Counter, Measurement};
use crate::request::accept::View;
use crate::request::origin::Closing;
use crate::request::query::{ListOptions, revision};
use crate::state::{ClusterState, Subscription};
use crate::store::{EventSide, Expired, Key, Snapshot, StoreEvent, Stored, TableId};
use event_conversion::Conversion;
use faulty::{Fault, FaultyStream};
use interrupts::Interrupts;

/// Maximum number of events per read of the history.
const MAX_EVENTS: usize = 128;
/// Size in bytes after which a chunk is sent.
const CHUNK: usize = 64 << 10;
/// Maximum work of one poll, in bytes of the objects that selectors read. Then the watch yields, so that other tasks run while few of many
/// objects match.
const MAX_POLL_WORK: usize = 512 << 10;
/// Work for an object, in addition to its content.
const OBJECT: usize = 1 << 10;
/// Interval of bookmarks.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);
/// Time before the deadline at which the last bookmark is sent.
const BOOKMARK_BEFORE_DEADLINE: Duration = Duration::from_secs(2);
/// Maximum duration of a watch, even if `timeoutSeconds` is longer.
const MAX_DURATION: Duration = Duration::from_secs(24 * 3600);
/// Minimum duration of a watch without `timeoutSeconds`; the maximum is twice this.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(1800);

/// Starts a watch of the call's collection. `closing` ends it when the listener shuts down; `faulty` contains the faults of the watch.
pub(crate) fn run(
    call: Call,
    closing: Option<Closing>,
    faulty: Option<FaultyWatch>,
    measurement: Option<Measurement>,
) -> Result<Reply, ApiError> {
    let fault = Fault::new(faulty);
    let mut options = ListOptions::of_watch(&call.query)?;
    options.bookmarks &= !fault.drops_bookmarks();
    let selection = Selection::parse(&call.served, &call.path.name, &options)?;
    let wanted = revision(&options.resource_version).map_err(ApiError::internal)?;
    call.accept.require_stream()?;
    // An invalid `includeObject` of a table.
    call.table_options()?;
    // Without a revision, or with 0, the watch begins with the current objects.
    let initial = options.send_initial_events.unwrap_or(matches!(wanted, None | Some(0)));
    let end_bookmark = options.bookmarks
        && (options.send_initial_events == Some(true) || (options.send_initial_events.is_none() && initial));
    let storage = call.served.storage();
    // The subscription begins before the state is read, so that every later commit wakes the watch.
    let changes = call.cluster.watch(storage);
    let start = Instant::now();
    let (table, state, oldest) =
        call.cluster.read(|store| (store.id(storage), call.any_state(store), store.oldest(storage, start)));
    let now = state.revision();
    let cursor = match wanted {
        Some(wanted) if !initial && wanted != 0 => wanted,
        _ => now,
    };
    // As in kube-apiserver, the default is random, so that many watches do not end together.
    let timeout = options.timeout_seconds.map_or_else(
        || DEFAULT_TIMEOUT + Duration::from_secs(call.cluster.random_below(DEFAULT_TIMEOUT.as_secs())),
        |seconds| Duration::from_secs(seconds).min(MAX_DURATION),
    );
    let deadline = start + timeout;
    let end = fault.end(start, deadline);
    let bookmark = options.bookmarks.then(|| next_bookmark(start, deadline));
    let cluster = Arc::clone(&call.cluster);
    let mut watch = Watch {
        cursor,
        start: if initial { now } else { cursor },
        sent: if initial { now } else { cursor },
        table,
        changes,
        registry_version: 0,
        interrupts: Interrupts::new(end, bookmark, closing, cluster.closed.subscribe()),
        namespace: Box::from(call.path.namespace.as_str()),
        everything: selection.is_everything(),
        waited: false,
        end_bookmark,
        column_definitions: ColumnDefinitions::Included,
        ended: false,
        one_by_one: fault.is_about_events(),
        bookmark_now: false,
        deadline,
        pending: None,
        conversion: call.served.webhook.is_some().then(Box::default),
        initial: initial.then(|| Box::new(Initial { snapshot: state.snapshot(), next: None })),
        selection: Box::new(selection),
        events: cluster.metrics.watch_events(&call.served.resource),
        measurement: measurement.map(OpenWatch),
        cluster,
        call: Box::new(call),
    };
    if !initial && cursor < oldest {
        let error = ApiError::new(410, "Expired", format!("too old resource version: {cursor} ({oldest})"));
        watch.fail(&error);
    }
    let content_type = watch.call.accept.encoding.watch_type();
    let is_kept = watch.cluster.is_kept();
    let stream = FaultyStream::new(watch, fault, start);
    let body = if is_kept { fault.body(stream.kept()) } else { fault.body(stream) };
    Ok(Reply { code: 200, content_type, body, retry_after: None })
}

/// Responds to a watch that requests initial events not older than a revision, if the store does not reach the revision in time: with a
/// stream that contains only the error.
///
/// # Errors
/// Errors of the options, which precede the wait in kube-apiserver.
pub(crate) fn ended_by(call: &Call, error: &ApiError) -> Result<Reply, ApiError> {
    let options = ListOptions::of_watch(&call.query)?;
    Selection::parse(&call.served, &call.path.name, &options)?;
    call.accept.require_stream()?;
    call.table_options()?;
    let encoding = call.accept.encoding;
    Ok(Reply::bytes(200, encoding.watch_type(), lines::encode(encoding, "ERROR", &error.to_json())))
}

/// Returns the time of the next bookmark: at the regular interval, or shortly before the deadline.
fn next_bookmark(now: Instant, deadline: Instant) -> Instant {
    let last = deadline.checked_sub(BOOKMARK_BEFORE_DEADLINE).unwrap_or(deadline);
    let regular = now + BOOKMARK_INTERVAL;
    if now < last { regular.min(last) } else { regular }
}

/// Initial objects that are still to be sent.
struct Initial {
    snapshot: Snapshot,
    /// Key at which to continue; `None` at the start.
    next: Option<Key>,
}

/// State of a watch.
///
/// A watch sends, in this order: the initial objects (`initial`), the bookmark that marks their end (`end_bookmark`), then events and
/// bookmarks. A `pending` error is sent instead of the next of these. After the error, or once the collection is no longer served, `ended`
/// is set.
struct Watch {
    /// All changes up to this revision were processed.
    cursor: u64,
    /// Revision at which the watch began.
    start: u64,
    /// Latest revision sent to the client.
    sent: u64,
    /// Watched table; `None` if it was closed when the watch began.
    table: Option<TableId>,
    changes: Subscription,
    cluster: Arc<ClusterState>,
    /// Latest version of the registry in which the collection was found to be served unchanged.
    registry_version: u64,
    interrupts: Interrupts,
    /// Namespace; empty for all.
    namespace: Box<str>,
    /// Whether all objects of the namespace match.
    everything: bool,
    /// Whether the last poll found nothing to send.
    waited: bool,
    /// Whether the bookmark after the initial objects is still to be sent.
    end_bookmark: bool,
    /// Presence of the column definitions in the next table: included in the first one.
    column_definitions: ColumnDefinitions,
    ended: bool,
    /// Whether each event is a separate chunk, because a fault counts or rearranges events.
    one_by_one: bool,
    /// Whether a test has ordered a bookmark that is still to be sent.
    bookmark_now: bool,
    deadline: Instant,
    /// Error that is still to be sent.
    pending: Option<Bytes>,
    initial: Option<Box<Initial>>,
    /// Conversion by a webhook, if the kind has one.
    conversion: Option<Box<Conversion>>,
    // Boxed because large and rarely used: the fields used for every event stay close together.
    selection: Box<Selection>,
    call: Box<Call>,
    /// Number of events that watches of the resource have sent.
    events: Arc<Counter>,
    #[expect(dead_code, reason = "counts the watch when it is dropped")]
    measurement: Option<OpenWatch>,
}

/// Records the metrics of a watch when it ends.
struct OpenWatch(Measurement);

impl Drop for OpenWatch {
    fn drop(&mut self) {
        self.0.answered(200);
    }
}

/// Next part of the response.
enum Chunk {
    /// One or more events; exactly one if the watch sends them one by one.
    Events(Bytes),
    /// A bookmark or an error.
    Other(Bytes),
}

impl Watch {
    /// Returns the next chunk; `None` at the end.
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Chunk>> {
        self.interrupts.poll(context);
        let waited = std::mem::take(&mut self.waited);
        loop {
            if self.conversion.is_some() && self.poll_conversion(context).is_pending() {
                // The end of the watch also ends the call of its conversion.
                if self.interrupts.is_over() {
                    self.end_conversion();
                    return Poll::Ready(None);
                }
                return Poll::Pending;
            }
            match self.chunk(waited) {
                Next::Chunk(Chunk::Events(_)) if self.call.accept.view == View::MetadataList => {
                    // An event is not a list. Like kube-apiserver, end the stream without an error.
                    return Poll::Ready(None);
                }
                Next::Chunk(chunk) => return Poll::Ready(Some(chunk)),
                Next::End => return Poll::Ready(None),
                Next::Again => {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Next::Nothing => {}
            }
            match self.changes.poll_news(context) {
                Poll::Ready(Some(())) => continue,
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => {}
            }
            if self.interrupts.bookmark_is_due() {
                // Events of the table are sent first; the bookmark stays due.
                let latest = self.changes.latest();
                match self.event_chunk(latest) {
                    Ok(WatchRead::Chunk(chunk)) => return Poll::Ready(Some(Chunk::Events(chunk))),
                    Ok(WatchRead::Unfinished) => {
                        context.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                    Ok(WatchRead::Finished) if !self.ended => {}
                    Ok(WatchRead::Finished) | Err(_) => return Poll::Ready(None),
                }
                self.interrupts.set_bookmark(next_bookmark(Instant::now(), self.deadline));
                self.interrupts.poll(context);
                // Commits since the start, also to other tables, may have raised the revision. Report it, unless an event did.
                if self.cursor > self.start {
                    return Poll::Ready(Some(Chunk::Other(self.bookmark_line(Bookmark::Progress))));
                }
            }
            if self.interrupts.is_over() {
                return Poll::Ready(None);
            }
            self.waited = true;
            return Poll::Pending;
        }
    }
}

/// Reason for a bookmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bookmark {
    /// All initial objects were sent.
    InitialEnd,
    /// The watch has processed all changes up to a revision.
    Progress,
}

/// Outcome of reading objects or events.
enum WatchRead {
    Chunk(Bytes),
    /// Nothing to send so far, but there is more to read.
    Unfinished,
    /// Nothing to send, and everything is read.
    Finished,
}

/// Next output of a watch.
enum Next {
    Chunk(Chunk),
    Nothing,
    /// Nothing so far. There is more to read after other tasks had their turn.
    Again,
    End,
}

impl Watch {
    /// Returns the output that needs no waiting. `waited` is whether the previous poll found nothing.
    fn chunk(&mut self, waited: bool) -> Next {
        if let Some(chunk) = self.pending.take() {
            return Next::Chunk(Chunk::Other(chunk));
        }
        // After a wait, events take precedence over a deadline at the same moment, so that none is lost. Otherwise the deadline takes
        // precedence, because a watch of a busy collection may never wait.
        if self.ended || (!waited && self.interrupts.is_over()) {
            return Next::End;
        }
        // The counter is loaded before reading, so that later changes count as new. Fault commands increment it too.
        let latest = self.changes.latest();
        let has_news = self.changes.has_news();
        match self.initial_chunk() {
            WatchRead::Chunk(chunk) => return Next::Chunk(Chunk::Events(chunk)),
            WatchRead::Unfinished => return Next::Again,
            WatchRead::Finished => {}
        }
        if std::mem::take(&mut self.end_bookmark) {
            return Next::Chunk(Chunk::Other(self.bookmark_line(Bookmark::InitialEnd)));
        }
        if has_news {
            match self.event_chunk(latest) {
                Ok(WatchRead::Chunk(chunk)) => return Next::Chunk(Chunk::Events(chunk)),
                Ok(WatchRead::Unfinished) => return Next::Again,
                Ok(WatchRead::Finished) => {}
                Err(_) => return Next::End,
            }
        }
        if std::mem::take(&mut self.bookmark_now) && self.interrupts.has_bookmarks() {
            return Next::Chunk(Chunk::Other(self.bookmark_line(Bookmark::Progress)));
        }
        if self.ended { Next::End } else { Next::Nothing }
    }

    /// Returns a chunk of the initial objects.
    fn initial_chunk(&mut self) -> WatchRead {
        let Some(initial) = self.initial.take() else {
            return WatchRead::Finished;
        };
        let mut out = Vec::new();
        let mut next = None;
        let mut work = 0;
        for (key, stored) in initial.snapshot.range(&self.call.path.namespace, initial.next.as_ref()) {
            let is_full = out.len() >= CHUNK || (self.one_by_one && !out.is_empty());
            if is_full || work >= MAX_POLL_WORK || !self.can_read_object(key, stored) {
                next = Some(key.clone());
                break;
            }
            work += OBJECT + stored.document.len();
            let converted = self.conversion.is_some().then(|| self.form(stored));
            let stored = converted.as_ref().unwrap_or(stored);
            if self.everything || self.selection.matches(&self.call.served, key, stored) {
                let line = self.line("ADDED", stored, stored.revision);
                out.extend_from_slice(&line);
                self.events.increment();
            }
        }
        let finished = next.is_none();
        if !finished {
            self.initial = Some(Box::new(Initial { snapshot: initial.snapshot, next }));
        }
        match (out.is_empty(), finished) {
            (false, _) => WatchRead::Chunk(Bytes::from(out)),
            (true, true) => WatchRead::Finished,
            (true, false) => WatchRead::Unfinished,
        }
    }

    /// Reads the events after the cursor, from the table or, if it is closed, from its last history. Also returns the current revision.
    fn read(&self) -> Result<(Vec<Arc<StoreEvent>>, u64), Expired> {
        let cursor = self.cursor;
        if let Some(table) = self.table
            && let (Ok(events), now) =
                self.cluster.read(|store| (store.events_in(table, cursor, MAX_EVENTS), store.revision()))
        {
            return Ok((events, now));
        }
        let closed = self.changes.closed().ok_or(Expired)?;
        Ok((closed.events_after(cursor, MAX_EVENTS)?, cursor))
    }

    /// Returns a chunk of the events after the cursor. Once all are read, changes up to `latest` count as seen.
    fn event_chunk(&mut self, latest: u64) -> Result<WatchRead, Expired> {
        let mut work = 0;
        loop {
            let (events, now) = self.read()?;
            let mut unread = events.len();
            let mut awaits_conversion = false;
            // A single event is sent without copying it: many watches share its bytes.
            let (mut one, mut many): (Option<Bytes>, Vec<u8>) = (None, Vec::new());
            for event in &events {
                if !self.can_read(event) {
                    awaits_conversion = true;
                    break;
                }
                unread -= 1;
                self.cursor = event.revision;
                let states = [&event.before, &event.after].into_iter().flatten();
                work += OBJECT + states.map(|stored| stored.document.len()).sum::<usize>();
                if let Some(line) = self.event_line(event) {
                    self.sent = event.revision;
                    self.events.increment();
                    let size = many.len() + line.len();
                    if many.is_empty() && one.is_none() {
                        one = Some(line);
                    } else {
                        many.extend_from_slice(&one.take().unwrap_or_default());
                        many.extend_from_slice(&line);
                    }
                    if size >= CHUNK || self.one_by_one {
                        break;
                    }
                }
                if work >= MAX_POLL_WORK {
                    break;
                }
            }
            let is_all = unread == 0 && events.len() < MAX_EVENTS;
            if is_all {
                self.cursor = self.cursor.max(now);
                self.changes.see(latest);
                self.check_served();
            }
            match one {
                _ if !many.is_empty() => return Ok(WatchRead::Chunk(Bytes::from(many))),
                Some(one) => return Ok(WatchRead::Chunk(one)),
                None if is_all => return Ok(WatchRead::Finished),
                None if work >= MAX_POLL_WORK || awaits_conversion => return Ok(WatchRead::Unfinished),
                None => {}
            }
        }
    }

    /// Ends the watch if the collection is no longer served as it was when the watch began. Replacing the registry wakes
    /// the watches of the affected tables.
    fn check_served(&mut self) {
        let version = self.cluster.registry_version();
        if self.registry_version != version {
            self.registry_version = version;
            self.ended = self.ended || !self.cluster.registry().serves(&self.call.served);
        }
    }

    /// Whether an event concerns an object in the watched namespace.
    fn is_in_namespace(&self, event: &StoreEvent) -> bool {
        self.namespace.is_empty() || event.key.namespace() == &*self.namespace
    }

    /// Encodes an event if the client receives it.
    fn event_line(&mut self, event: &StoreEvent) -> Option<Bytes> {
        if !self.is_in_namespace(event) {
            return None;
        }
        let converted = self.conversion.is_some().then(|| {
            let form = |stored: &Option<Arc<Stored>>| stored.as_ref().map(|stored| self.form(stored));
            [form(&event.before), form(&event.after)]
        });
        let [before, after] = match &converted {
            Some([before, after]) => [before, after],
            None => [&event.before, &event.after],
        };
        let matches = |state, stored: &Option<Arc<Stored>>| {
            let is_selected =
                |stored: &Stored| self.selection.matches_event(&self.call.served, event, state, stored);
            stored.as_ref().is_some_and(|stored| self.everything || is_selected(stored))
        };
        // An object that stops matching is reported as deleted, in its last matching state.
        let (kind, stored) = match (matches(EventSide::Before, before), matches(EventSide::After, after)) {
            (false, false) => return None,
            (false, true) => ("ADDED", after.as_ref()?),
            (true, true) => ("MODIFIED", after.as_ref()?),
            (true, false) => ("DELETED", before.as_ref()?),
        };
        let Some(form) = self.shared_form(kind) else {
            return Some(self.line(kind, stored, event.revision));
        };
        Some(event.bytes_as(form, || self.line(kind, stored, event.revision)))
    }
}
