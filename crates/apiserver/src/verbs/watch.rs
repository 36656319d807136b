//! GET with `watch`: the events of a collection as a stream.
//!
//! A watch is a cursor into the history of its table. It holds no events: each time the client asks for more, it takes
//! what came after the revision it has seen, writes it, and moves on; with nothing to send, it waits for the next commit,
//! the next bookmark or its deadline. A client that does not read for too long finds its place in the history gone, and
//! the stream ends.
//!
//! Bounds: at most [`BATCH`] events, and about [`CHUNK`] bytes, are held for a client at a time.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Duration, Instant, Sleep, sleep, sleep_until};

use super::Call;
use super::reply::{self, Reply};
use crate::faults::{Cut, Disorder, FaultyWatch, Heard, Then, WatchFault, late};
use crate::protobuf;
use crate::registry::Registry;
use crate::request::accept::{Encoding, View};
use crate::request::query::{ListOptions, revision};
use crate::selection::Selection;
use crate::server::{Closing, ResponseBody, Signal};
use crate::status::ApiError;
use crate::store::{Event, Expired, Key, Snapshot, State, Stored, TableId};

/// Events taken from the history at a time.
const BATCH: usize = 128;
/// Bytes after which a chunk is sent.
const CHUNK: usize = 64 << 10;
/// Time between bookmarks.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);
/// How long before the deadline the last bookmark is sent.
const BOOKMARK_BEFORE_DEADLINE: Duration = Duration::from_secs(2);
/// No watch lasts longer, whatever it asks for.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// A watch without `timeoutSeconds` lasts between this and twice this.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(1800);

/// Starts a watch of the call's collection. `closing` ends it when the listener shuts down; `fault` makes it misbehave.
pub(crate) fn run(
    call: Call,
    closing: Option<Closing>,
    faulty: Option<FaultyWatch>,
) -> Result<Reply, ApiError> {
    let fault = faulty.map(|faulty| faulty.fault);
    let mut options = ListOptions::read(&call.query, true)?;
    if fault == Some(WatchFault::NoBookmarks) {
        options.bookmarks = false;
    }
    let selection = Selection::parse(&call, &options)?;
    let wanted = revision(&options.resource_version).map_err(ApiError::internal)?;
    // An absent revision and 0 both mean: show what is there, then go on.
    let initial = options.send_initial_events.unwrap_or(matches!(wanted, None | Some(0)));
    let end_bookmark = options.bookmarks
        && (options.send_initial_events == Some(true)
            || (options.send_initial_events.is_none() && wanted.is_none()));
    let storage = call.served.storage();
    let changes = call.server.changes(storage);
    let start = Instant::now();
    let (table, snapshot, now, oldest) = call.server.read(|store| {
        let snapshot = call.any_snapshot(store);
        let now = snapshot.revision();
        (store.id(storage), snapshot, now, store.oldest(storage, start))
    });
    let cursor = match wanted {
        Some(wanted) if !initial && wanted != 0 => wanted,
        _ => now,
    };
    let timeout = options.timeout_seconds.map_or_else(
        || DEFAULT_TIMEOUT + Duration::from_secs(call.server.random_below(DEFAULT_TIMEOUT.as_secs())),
        |seconds| Duration::from_secs(seconds).min(LONGEST),
    );
    let deadline = start + timeout;
    let end = match fault {
        Some(WatchFault::CloseAfter(after)) => {
            start.checked_add(after).map_or(deadline, |end| end.min(deadline))
        }
        _ => deadline,
    };
    let mut watch = Watch {
        pending: VecDeque::new(),
        initial: initial.then_some(Initial { snapshot, next: None }),
        end_bookmark,
        cursor,
        sent: if initial { now } else { cursor },
        deadline,
        end: Box::pin(sleep_until(end)),
        cut: fault.and_then(Cut::of),
        disorder: faulty.and_then(|faulty| Disorder::of(faulty.fault, faulty.seed)),
        heard: call.server.injector.orders.heard(storage),
        bookmark_now: false,
        bookmark: options.bookmarks.then(|| Box::pin(sleep_until(next_bookmark(start, deadline)))),
        table,
        changes,
        registry: None,
        gone: Box::pin(gone(closing, call.server.closed.subscribe())),
        waited: false,
        selection,
        first_row: true,
        ended: false,
        call,
    };
    if !initial && cursor < oldest {
        let error = ApiError::new(410, "Expired", format!("too old resource version: {cursor} ({oldest})"));
        watch.fail(&error);
    }
    let content_type = watch.call.accept.encoding.watch_type();
    let stream = futures::stream::unfold(Box::new(watch), |mut watch| async move {
        let chunk = watch.next().await?;
        // What could still be forgotten is not told.
        watch.call.server.kept(watch.cursor).await.ok()?;
        Some((chunk, watch))
    });
    let body = match fault {
        Some(WatchFault::Late(delay)) => ResponseBody::stream(late(stream, delay)),
        _ => ResponseBody::stream(stream),
    };
    Ok(Reply { code: 200, content_type, body, retry_after: None })
}

/// When the next bookmark is due: regularly, and shortly before the end.
fn next_bookmark(now: Instant, deadline: Instant) -> Instant {
    let last = deadline.checked_sub(BOOKMARK_BEFORE_DEADLINE).unwrap_or(deadline);
    let regular = now + BOOKMARK_INTERVAL;
    if now < last { regular.min(last) } else { regular }
}

/// Objects that existed when the watch began and are still to be sent.
struct Initial {
    snapshot: Snapshot,
    /// Where to go on; `None` at the start.
    next: Option<Key>,
}

struct Watch {
    call: Call,
    selection: Selection,
    /// Chunks that are ready: an error at the start.
    pending: VecDeque<Bytes>,
    initial: Option<Initial>,
    /// Whether the end of the initial events is still to be marked.
    end_bookmark: bool,
    /// Everything up to this revision was looked at.
    cursor: u64,
    /// The newest revision the client was told.
    sent: u64,
    deadline: Instant,
    /// Sleeps until the deadline, or what a fault makes of it; bookmarks know nothing of that. Like the others it is
    /// kept, because to set up what waits costs many times what asking it does.
    end: Pin<Box<Sleep>>,
    /// A fault that is still to come.
    cut: Option<Cut>,
    /// What becomes of the events on their way.
    disorder: Option<Disorder<Bytes>>,
    /// What the watches of the table were told to do.
    heard: Heard,
    /// Whether one of those orders is a bookmark.
    bookmark_now: bool,
    /// Sleeps until the next bookmark is due; `None` if the client wants none.
    bookmark: Option<Pin<Box<Sleep>>>,
    /// What is watched; `None` if it was closed as the watch began.
    table: Option<TableId>,
    changes: watch::Receiver<Signal>,
    /// The last registry that was seen to serve the collection as it was when the watch began.
    registry: Option<Arc<Registry>>,
    /// Ready when the listener or the server is gone.
    gone: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// Whether the end was asked for since the last chunk, in waiting.
    waited: bool,
    /// Whether a table still has to begin with its columns.
    first_row: bool,
    ended: bool,
}

/// Waits until the listener shuts down, if the watch came through one, or the server is gone.
async fn gone(closing: Option<Closing>, mut server: watch::Receiver<bool>) {
    let listener = async {
        match closing {
            Some(Closing(mut closing)) => {
                // An error means that the listener is gone, which is the same.
                let _ = closing.wait_for(|closed| *closed).await;
            }
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = listener => {}
        _ = server.wait_for(|closed| *closed) => {}
    }
}

/// What a watch was told to do.
enum Told {
    Nothing,
    End,
    Hold,
}

/// What a watch waited for.
enum Woken {
    Changed,
    Bookmark,
    End,
}

impl Watch {
    /// The next chunk; `None` at the end. Dropping the future loses nothing: all state is in `self` before it waits.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(chunk) = self.pending.pop_front() {
                return Some(chunk);
            }
            if self.ended {
                return None;
            }
            match self.cut.and_then(Cut::due) {
                None => {}
                Some(Then::Close) => return None,
                Some(Then::Expire) => {
                    self.fail(&ApiError::new(410, "Expired", "too old resource version: a fault"));
                    continue;
                }
                Some(Then::Stall) => {
                    self.gone.as_mut().await;
                    return None;
                }
                Some(Then::Hold(time)) => {
                    self.cut = None;
                    tokio::select! {
                        biased;
                        () = self.gone.as_mut() => return None,
                        () = sleep(time) => {}
                    }
                }
            }
            // A busy collection may never come to the wait.
            if !std::mem::take(&mut self.waited) && self.is_over().await {
                return None;
            }
            // Marked as seen before reading: a commit after this wakes the wait below.
            self.changes.borrow_and_update();
            match self.hear() {
                Told::Nothing => {}
                Told::End => return None,
                Told::Hold => {
                    tokio::select! {
                        biased;
                        () = self.gone.as_mut() => return None,
                        () = self.end.as_mut() => return None,
                        changed = self.changes.changed() => if changed.is_err() {
                            return None;
                        },
                    }
                    continue;
                }
            }
            if let Some(chunk) = self.initial_chunk() {
                return Some(chunk);
            }
            if std::mem::take(&mut self.end_bookmark) {
                return Some(self.bookmark_line(true));
            }
            match self.event_chunk() {
                Ok(Some(chunk)) => return Some(chunk),
                Ok(None) => {}
                Err(_) => return None,
            }
            if std::mem::take(&mut self.bookmark_now) && self.bookmark.is_some() {
                return Some(self.bookmark_line(false));
            }
            let registry = self.call.server.registry();
            if self.registry.as_ref().is_none_or(|known| !Arc::ptr_eq(known, &registry)) {
                if !registry.serves(&self.call.served) {
                    return None;
                }
                self.registry = Some(registry);
            }
            match self.wait().await {
                Woken::Changed => {}
                Woken::End => return None,
                Woken::Bookmark => {
                    let next = next_bookmark(Instant::now(), self.deadline);
                    if let Some(bookmark) = &mut self.bookmark {
                        bookmark.as_mut().reset(next);
                    }
                    if let Some(chunk) = self.due_bookmark() {
                        return Some(chunk);
                    }
                }
            }
        }
    }

    /// Whether the end has come. Never waits.
    async fn is_over(&mut self) -> bool {
        tokio::select! {
            biased;
            () = self.gone.as_mut() => true,
            () = self.end.as_mut() => true,
            () = std::future::ready(()) => false,
        }
    }

    async fn wait(&mut self) -> Woken {
        let bookmark = async {
            match &mut self.bookmark {
                Some(bookmark) => bookmark.as_mut().await,
                None => std::future::pending().await,
            }
        };
        self.waited = true;
        tokio::select! {
            // Events before the end, so that none is lost to a deadline at the same moment.
            biased;
            changed = self.changes.changed() => if changed.is_ok() { Woken::Changed } else { Woken::End },
            () = bookmark => Woken::Bookmark,
            () = self.end.as_mut() => Woken::End,
            () = self.gone.as_mut() => Woken::End,
        }
    }

    /// What the watches of the table were told since the last time.
    fn hear(&mut self) -> Told {
        let orders = &self.call.server.injector.orders;
        if let Some(before) = orders.hear(self.call.served.storage(), &mut self.heard) {
            if self.heard.order.closes > before.closes {
                return Told::End;
            }
            self.bookmark_now |= self.heard.order.bookmarks > before.bookmarks;
        }
        if self.heard.order.held { Told::Hold } else { Told::Nothing }
    }

    /// An event as it is sent: once and at once, but for faults.
    fn pass(&mut self, line: Bytes) -> Bytes {
        let Some(disorder) = &mut self.disorder else {
            return line;
        };
        let mut lines = Vec::new();
        for line in disorder.pass(line) {
            lines.extend_from_slice(&line);
        }
        Bytes::from(lines)
    }

    /// An event is sent, which brings a fault nearer.
    fn count(&mut self) {
        if let Some(cut) = &mut self.cut {
            cut.count();
        }
    }

    /// Whether no event is sent any more.
    fn is_cut(&self) -> bool {
        self.cut.is_some_and(|cut| cut.due().is_some())
    }

    /// Some of the objects that were there at the start.
    fn initial_chunk(&mut self) -> Option<Bytes> {
        let initial = self.initial.take()?;
        let mut out = Vec::new();
        let mut next = None;
        for (key, stored) in initial.snapshot.range(&self.call.path.namespace, initial.next.as_ref()) {
            if out.len() >= CHUNK || self.is_cut() {
                next = Some(key.clone());
                break;
            }
            if self.selection.matches(&self.call, key, stored) {
                let line = self.line("ADDED", stored, stored.revision);
                let line = self.pass(line);
                out.extend_from_slice(&line);
                self.count();
            }
        }
        if next.is_some() {
            self.initial = Some(Initial { snapshot: initial.snapshot, next });
        }
        (!out.is_empty()).then(|| Bytes::from(out))
    }

    /// Events after the cursor, from the table or from what is left of it, and the present revision.
    fn read(&self) -> Result<(Vec<Arc<Event>>, u64), Expired> {
        let cursor = self.cursor;
        if let Some(table) = self.table.filter(|_| self.changes.borrow().is_none())
            && let (Ok(events), now) =
                self.call.server.read(|store| (store.events_in(table, cursor, BATCH), store.revision()))
        {
            return Ok((events, now));
        }
        // The end may have come between the two looks.
        match &*self.changes.borrow() {
            Some(closed) => Ok((closed.events_after(cursor, BATCH)?, cursor)),
            None => Err(Expired),
        }
    }

    /// What happened since the cursor, as far as it fits.
    fn event_chunk(&mut self) -> Result<Option<Bytes>, Expired> {
        loop {
            let (events, now) = self.read()?;
            if events.is_empty() {
                self.cursor = self.cursor.max(now);
                return Ok(None);
            }
            // One line is sent as it is, which many watches share.
            let (mut one, mut many): (Option<Bytes>, Vec<u8>) = (None, Vec::new());
            for event in &events {
                self.cursor = event.revision;
                if let Some(line) = self.event_line(event) {
                    self.sent = event.revision;
                    self.count();
                    let line = self.pass(line);
                    let size = many.len() + line.len();
                    if many.is_empty() && one.is_none() {
                        one = Some(line);
                    } else {
                        many.extend_from_slice(&one.take().unwrap_or_default());
                        many.extend_from_slice(&line);
                    }
                    if size >= CHUNK || self.is_cut() {
                        break;
                    }
                }
            }
            if !many.is_empty() {
                return Ok(Some(Bytes::from(many)));
            }
            if one.is_some() {
                return Ok(one);
            }
        }
    }

    /// The line, or frame, for an event, if the client is to see it.
    fn event_line(&mut self, event: &Event) -> Option<Bytes> {
        let namespace = &self.call.path.namespace;
        if !namespace.is_empty() && event.key.namespace() != namespace {
            return None;
        }
        let matches = |state| self.selection.matches_event(&self.call, event, state);
        let (before, after) = (matches(State::Before), matches(State::After));
        // An object that leaves the selection is deleted as far as this client is concerned, with its last content in it.
        let (kind, stored) = match (before, after) {
            (false, false) => return None,
            (false, true) => ("ADDED", event.after.as_ref()?),
            (true, true) => ("MODIFIED", event.after.as_ref()?),
            (true, false) => ("DELETED", event.before.as_ref()?),
        };
        let Some(form) = self.shared_form(kind) else {
            return Some(self.line(kind, stored, event.revision));
        };
        let stored = Arc::clone(stored);
        Some(event.bytes_as(form, || self.line(kind, &stored, event.revision)))
    }

    /// Identifies lines that other watches send too. Tables hold ages and are made for one client.
    fn shared_form(&self, kind: &str) -> Option<u64> {
        let accept = self.call.accept;
        let view = match accept.view {
            View::Object => 0,
            View::Metadata | View::MetadataList => 1,
            View::Table => return None,
        };
        let kind = match kind {
            "ADDED" => 0,
            "MODIFIED" => 1,
            _ => 2,
        };
        let beta = u64::from(accept.view_version != "v1");
        let encoding = match accept.encoding {
            Encoding::Json => 0,
            Encoding::Protobuf => 1,
            Encoding::Yaml => return None,
        };
        Some(self.call.served.id * 32 + encoding * 16 + view * 8 + beta * 4 + kind)
    }

    /// One event as it is sent.
    fn line(&mut self, kind: &str, stored: &Stored, revision: u64) -> Bytes {
        let accept = self.call.accept;
        let plain = accept.view == View::Object && accept.encoding == Encoding::Json;
        if plain && self.call.served.reads_as_stored(stored) {
            let mut line = Vec::with_capacity(stored.document.len() + 160);
            line.extend_from_slice(format!("{{\"type\":\"{kind}\",\"object\":").as_bytes());
            stored.document.write(&mut line, Some(&self.call.served.kind), revision);
            line.extend_from_slice(b"}\n");
            return Bytes::from(line);
        }
        if accept.encoding == Encoding::Protobuf
            && let Some(object) = reply::in_protobuf(&self.call, stored, revision)
        {
            return Bytes::from(protobuf::watch_frame(kind, &object));
        }
        let mut object = self.call.served.value(stored);
        object["metadata"]["resourceVersion"] = json!(revision.to_string());
        let shown = self.view(object, revision);
        self.encode(kind, &shown)
    }

    fn view(&mut self, object: Value, revision: u64) -> Value {
        match self.call.accept.view {
            View::Object => object,
            View::Metadata | View::MetadataList => reply::partial_metadata(self.call.accept, &object),
            View::Table => {
                let objects = [object];
                // `includeObject` was checked when the watch began.
                let metadata = json!({"resourceVersion": revision.to_string()});
                let first = std::mem::take(&mut self.first_row);
                self.call.table(&objects, &metadata, first).unwrap_or_else(|error| error.to_json())
            }
        }
    }

    fn encode(&self, kind: &str, object: &Value) -> Bytes {
        let event = || json!({"type": kind, "object": object});
        Bytes::from(match self.call.accept.encoding {
            Encoding::Json => format!("{}\n", event()).into_bytes(),
            Encoding::Yaml => format!("---\n{}", super::yaml::write(&event())).into_bytes(),
            Encoding::Protobuf => {
                // Builtin kinds, views of metadata and errors all have messages: a test goes through the kinds.
                protobuf::watch_frame(kind, &protobuf::encode(object).unwrap_or_default())
            }
        })
    }

    /// A bookmark, if it tells the client anything new.
    fn due_bookmark(&mut self) -> Option<Bytes> {
        (self.cursor > self.sent).then(|| self.bookmark_line(false))
    }

    fn bookmark_line(&mut self, initial_end: bool) -> Bytes {
        self.sent = self.sent.max(self.cursor);
        let kind = &self.call.served.kind;
        let mut metadata = json!({"resourceVersion": self.sent.to_string()});
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let mut object = json!({"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata});
        if !self.call.served.is_custom() && self.call.accept.view == View::Object {
            // A typed server writes an empty object of the kind.
            for (name, value) in self.call.served.schema.empty_object().as_object().into_iter().flatten() {
                if object.get(name).is_none() {
                    object[name] = value.clone();
                }
            }
        }
        let revision = self.sent;
        let shown = self.view(object, revision);
        self.encode("BOOKMARK", &shown)
    }

    /// Ends the watch with an error event.
    fn fail(&mut self, error: &ApiError) {
        let line = self.encode("ERROR", &error.to_json());
        self.pending.push_back(line);
        self.ended = true;
    }
}
