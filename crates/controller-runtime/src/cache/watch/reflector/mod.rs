//! Executes the steps of [`ListWatch`]: sends requests to the API server, and passes the answers to the shared watch.

mod problem;
mod watch_requests;

use std::{
    future::Future,
    pin::{Pin, pin},
};

use futures::StreamExt;
use http_body_util::BodyExt;
use parking_lot::Mutex;
use tokio::{
    task::yield_now,
    time::{Duration, Instant, sleep, sleep_until, timeout},
};

use self::problem::{RequestType, WatchProblem, no_answer};
use self::watch_requests::PAGE_SIZE;
use super::{
    definition,
    list_watch::{
        Heartbeat, InitialData, ListWatch, LivenessCheck, Probed, RequestFailure, Step, StepOutcome,
        WatchStart,
    },
    shared_watch::SharedWatch,
    subscriber::{OutOfOrder, WatchSubscriber},
    watch_decoder::{self, WatchLine, WatchLines},
};
use crate::{
    cache::{objects::incoming_object::IncomingObject, query::WatchScope},
    client::{Extent, describe},
    object::meta::ResourceVersion,
    pace::Pace,
};

/// Longest wait for the start of an answer to a list or watch, and for more data of a list. Equal to the time in
/// which a silent watch is detected.
const ANSWER_WITHIN: Duration = Heartbeat::SILENCE;

/// Time after which a watch that the server should have ended counts as dead.
const OVERDUE: Duration = Duration::from_secs(10);

/// Longest silence of a watch while an own write waits for it.
const WRITE_DELIVERED_WITHIN: Duration = Duration::from_secs(30);

/// Duration below which a watch that delivered nothing is not reopened at once, as in client-go.
const VERY_SHORT: Duration = Duration::from_secs(1);

/// One list and watch of a shared watch.
pub(in crate::cache) struct Reflector<'f> {
    pub(in crate::cache) shared: &'f SharedWatch,
    pub(in crate::cache) client: kube::Client,
    pub(in crate::cache) scope: WatchScope,
    pub(in crate::cache) extent: Extent,
}

impl Reflector<'_> {
    /// Lists and watches until dropped.
    pub(in crate::cache) async fn run(&self, machine: &Mutex<ListWatch>) {
        let mut input = StepOutcome::Start;
        loop {
            // Not locked while the step is carried out, because a watch locks the machine for each event.
            let step = machine.lock().step(input, Instant::now());
            input = match step {
                Step::Wait(delay) => {
                    sleep(delay).await;
                    StepOutcome::Waited
                }
                Step::AwaitServed(delay) => {
                    definition::await_served(&self.client, &self.shared.query.resource, delay).await;
                    StepOutcome::Waited
                }
                Step::List { paged } => {
                    self.shared.for_each(|subscriber| subscriber.begin_list(&self.scope));
                    self.list_page(paged.then_some(PAGE_SIZE), None).await
                }
                Step::Page { continue_token } => self.list_page(Some(PAGE_SIZE), Some(continue_token)).await,
                Step::Stream { timeout } => {
                    self.shared.for_each(|subscriber| subscriber.begin_list(&self.scope));
                    self.watch(machine, None, timeout).await
                }
                Step::Watch { resource_version, timeout } => {
                    self.watch(machine, Some(&resource_version), timeout).await
                }
            };
            if let StepOutcome::Page { resource_version, continue_token: None } = &input {
                // The lock is released before the stores add the list, which may take a while. The next step records the same
                // version once more, which changes nothing.
                let is_new = machine.lock().listed(resource_version);
                if is_new {
                    self.finish_list(resource_version).await;
                } else {
                    // The failure takes the place of the page, so the next step waits and lists again.
                    input = self.report(RequestType::List, WatchProblem::behind(resource_version));
                }
            }
        }
    }

    /// Adds the complete initial list to the stores, in pieces.
    async fn finish_list(&self, version: &ResourceVersion) {
        let finish = |subscriber: &dyn WatchSubscriber| {
            let is_whole = subscriber.finish_list(&self.scope, version);
            if is_whole {
                subscriber.set_scopes(&self.shared.query.scopes());
            }
            is_whole
        };
        self.shared.for_each_in_pieces(finish).await;
    }

    /// Watches from a version, or with initial events.
    async fn watch(
        &self,
        machine: &Mutex<ListWatch>,
        from: Option<&ResourceVersion>,
        lasts: Duration,
    ) -> StepOutcome {
        let started = Instant::now();
        // A watch from a version begins with a complete list.
        let mut progress = WatchProgress { has_delivered: false, is_listed: from.is_some() };
        match self.follow(machine, from, lasts, &mut progress).await {
            Ok(()) => StepOutcome::WatchEnded {
                progressed: progress.has_delivered || started.elapsed() > VERY_SHORT,
            },
            Err(problem) => {
                let request = if progress.is_listed { RequestType::Watch } else { RequestType::Stream };
                self.report(request, problem)
            }
        }
    }

    /// Reads one watch to its end, and records how far it came in `progress`.
    async fn follow(
        &self,
        machine: &Mutex<ListWatch>,
        from: Option<&ResourceVersion>,
        lasts: Duration,
        progress: &mut WatchProgress,
    ) -> Result<(), WatchProblem> {
        // The server should end the watch in time. If it does not, the connection is dead.
        let deadline = Instant::now() + lasts + OVERDUE;
        let opening = self.open_watch(from, lasts);
        let body = timeout(ANSWER_WITHIN, opening).await.unwrap_or_else(|_| no_answer())?;
        self.shared.note_data(&self.scope);
        self.shared.for_each(|subscriber| subscriber.watch_opened());
        // A watch from a version works once it is open; one with initial events only when they are complete.
        if from.is_some() {
            self.shared.for_each(|subscriber| subscriber.watch_works(&self.scope));
        }
        let (mut body, mut lines) = (body.into_data_stream(), WatchLines::default());
        let start = if progress.is_listed { WatchStart::Version } else { WatchStart::InitialEvents };
        let mut heartbeat = machine.lock().opened(Instant::now(), start);
        // At most one at a time. Data from the watch make it superfluous.
        let mut probe: Option<Pin<Box<dyn Future<Output = _> + Send + '_>>> = None;
        // Reused for all events, because resetting a timer for each event costs as much as a lookup of its object. So
        // it may fire too early; the heartbeat then returns the right time.
        let mut alarm = pin!(sleep_until(Instant::now()));
        let (mut past_deadline, mut write_overdue) =
            (pin!(sleep_until(deadline)), pin!(self.write_overdue()));
        let (mut has_backlog, mut pace) = (false, Pace::begin());
        loop {
            // `biased`: data that have arrived are processed before a timer can declare the watch dead, and compression
            // comes last.
            let chunk = tokio::select! {
                biased;
                chunk = pace.wait_for(body.next()) => match chunk {
                    Some(chunk) => chunk.map_err(|error| WatchProblem::transient(describe(&error)))?,
                    None if progress.is_listed => return Ok(()),
                    None => {
                        return Err(WatchProblem::transient(
                            "the watch ended before the end of the initial events".to_owned(),
                        ));
                    }
                },
                () = &mut past_deadline => {
                    return Err(WatchProblem::silent("the API server did not end the watch in time".to_owned()));
                }
                () = &mut alarm => {
                    match heartbeat.check(Instant::now()) {
                        LivenessCheck::Wait(until) => alarm.as_mut().reset(until),
                        LivenessCheck::Dead(death) => return Err(WatchProblem::of(death)),
                        LivenessCheck::Probe => {
                            // After its initial events a watch has a version as well.
                            let version = machine.lock().watched_version();
                            // The alarm stays ready, so the next turn sets it to the time for the verdict.
                            probe = version.map(|from| Box::pin(self.probe(from)) as _);
                            self.shared.for_each(|subscriber| subscriber.probe_sent());
                        }
                    }
                    continue;
                }
                (outcome, reached) = some(&mut probe) => {
                    probe = None;
                    heartbeat.probed(outcome, Instant::now());
                    // The outcome changes the time of the next check.
                    alarm.as_mut().reset(Instant::now());
                    if outcome == Probed::Nothing {
                        self.shared.note_data(&self.scope);
                        if let Some(version) = reached {
                            self.advance(machine, &version);
                        }
                    }
                    continue;
                }
                () = &mut write_overdue, if progress.is_listed => {
                    return Err(WatchProblem::silent(format!(
                        "the watch did not deliver a write of this process within {} s",
                        WRITE_DELIVERED_WITHIN.as_secs()
                    )));
                }
                // Reached only when no data are pending, and after other tasks had a turn, so that they process the latest
                // events first.
                () = yield_now(), if has_backlog => {
                    has_backlog = false;
                    self.shared.for_each(|subscriber| {
                        subscriber.compress_backlog();
                        has_backlog |= subscriber.has_backlog();
                    });
                    continue;
                }
            };
            self.shared.note_data(&self.scope);
            lines.push(chunk);
            let was_listed = progress.is_listed;
            let initial = self.process_lines(machine, &mut lines, progress, &mut pace).await?;
            if progress.is_listed {
                // Any data prove that the watch works, so a probe is not needed any more.
                heartbeat.heard(Instant::now());
                probe = None;
            } else {
                heartbeat.heard_initial(Instant::now(), initial);
            }
            if progress.is_listed != was_listed {
                // The limit for a silent watch is shorter than the one for initial events.
                alarm.as_mut().reset(Instant::now());
            }
            self.shared.for_each(|subscriber| has_backlog |= subscriber.has_backlog());
        }
    }

    /// Processes the lines that have arrived completely. Returns the sort of events among them, for a watch with
    /// incomplete initial events.
    async fn process_lines(
        &self,
        machine: &Mutex<ListWatch>,
        lines: &mut WatchLines,
        progress: &mut WatchProgress,
        pace: &mut Pace,
    ) -> Result<InitialData, WatchProblem> {
        let mut initial = InitialData::Objects;
        let too_long = |error| WatchProblem::refused(format!("a watch event is {error}"));
        while let Some(line) = lines.next().map_err(too_long)? {
            let line = watch_decoder::decode_line(&line)
                .map_err(|error| WatchProblem::refused(error.to_string()))?;
            if !matches!(line, WatchLine::Added(_)) {
                initial = InitialData::Changes;
            }
            let whole = self.process_line(machine, line, &mut progress.is_listed)?;
            if let Some(version) = whole {
                self.finish_list(&version).await;
                self.shared.for_each(|subscriber| subscriber.watch_works(&self.scope));
            }
            progress.has_delivered = true;
            // Back-pressure: while a mailbox is full the watch is not read.
            self.shared.wait_for_room().await;
            self.shared.train().await;
            pace.step().await;
        }
        Ok(initial)
    }

    /// Probes an open watch with a short second watch from its last version. Returns the outcome, and the newer
    /// version up to which the open watch has missed nothing.
    async fn probe(&self, from: ResourceVersion) -> (Probed, Option<ResourceVersion>) {
        match self.follow_probe(&from).await {
            Ok(probed) => probed,
            Err(WatchProblem { failure: RequestFailure::Expired, .. }) => (Probed::Expired, None),
            Err(WatchProblem { answered: false, .. }) => (Probed::Unreachable, None),
            Err(problem) => {
                let resource = self.shared.query.label();
                tracing::debug!(resource, "a probe of a silent watch was refused: {}", problem.message);
                let retry_after = match problem.failure {
                    RequestFailure::Transient { retry_after } => retry_after,
                    _ => None,
                };
                (Probed::Refused { retry_after }, None)
            }
        }
    }

    /// Reads a probe to its first event, or else to its end, so that its connection can be reused.
    async fn follow_probe(
        &self,
        from: &ResourceVersion,
    ) -> Result<(Probed, Option<ResourceVersion>), WatchProblem> {
        let body = self.open_watch(Some(from), Heartbeat::PROBE_LASTS).await?;
        let (mut body, mut lines, mut reached) = (body.into_data_stream(), WatchLines::default(), None);
        while let Some(chunk) = body.next().await {
            lines.push(chunk.map_err(|error| WatchProblem::unreachable(describe(&error)))?);
            while let Some(line) = lines.next().map_err(|error| WatchProblem::refused(error.to_string()))? {
                match watch_decoder::decode_line(&line)
                    .map_err(|error| WatchProblem::refused(error.to_string()))?
                {
                    WatchLine::Added(_) | WatchLine::Modified(_) | WatchLine::Deleted(_) => {
                        return Ok((Probed::Event, None));
                    }
                    WatchLine::Bookmark { version, .. } => {
                        reached = version.map(|version| version.as_str().into()).or(reached);
                    }
                    WatchLine::Error(status) => return Err(self.problem(&status, None)),
                }
            }
        }
        Ok((Probed::Nothing, reached))
    }

    /// Waits until an own write is overdue: it waits for the watch, which has been silent for
    /// [`WRITE_DELIVERED_WITHIN`] since the write.
    async fn write_overdue(&self) {
        let mut writes = self.shared.writes();
        loop {
            // Marked before the stores are read, so that a write recorded meanwhile ends the wait below.
            writes.mark_unchanged();
            let mut since: Option<Instant> = None;
            self.shared.for_each(|subscriber| {
                since = since.into_iter().chain(subscriber.waiting_since(&self.scope)).min();
            });
            match since {
                Some(since) => {
                    // Data since the write show that the watch works: the silence counts from the later of
                    // the two.
                    let limit = self.shared.last_data(&self.scope).max(Some(since)).unwrap_or(since)
                        + WRITE_DELIVERED_WITHIN;
                    if Instant::now() >= limit {
                        return;
                    }
                    // Data may arrive until then, which sets a later limit.
                    sleep_until(limit).await;
                }
                None => {
                    let _ = writes.changed().await; // never an error: the sender is in the shared watch
                }
            }
        }
    }

    fn add_listed(&self, object: &IncomingObject<'_>) {
        self.shared.for_each(|subscriber| subscriber.add_listed(&self.scope, object));
    }

    /// Processes a line. Returns the version of the initial list if the line ends it; the caller then completes the
    /// list.
    ///
    /// `machine` is not locked while subscribers receive objects, because they run user code.
    fn process_line(
        &self,
        machine: &Mutex<ListWatch>,
        line: WatchLine<'_>,
        is_listed: &mut bool,
    ) -> Result<Option<ResourceVersion>, WatchProblem> {
        let scope = &self.scope;
        match line {
            WatchLine::Added(object) | WatchLine::Modified(object) if !*is_listed => {
                self.add_listed(&IncomingObject::from(object));
            }
            // The object may have arrived as an initial event before.
            WatchLine::Deleted(object) if !*is_listed => {
                let object = IncomingObject::from(object);
                self.shared.for_each(|subscriber| subscriber.remove_listed(scope, &object));
            }
            WatchLine::Bookmark { version: Some(version), ends_initial_events: true } if !*is_listed => {
                let version = version.as_str().into();
                if !machine.lock().listed(&version) {
                    return Err(WatchProblem::behind(&version));
                }
                *is_listed = true;
                return Ok(Some(version));
            }
            WatchLine::Added(object) | WatchLine::Modified(object) => {
                let (object, mut version, mut in_order) = (IncomingObject::from(object), None, Ok(()));
                self.shared.report_change(&object);
                self.shared.for_each(|subscriber| match subscriber.upsert(scope, &object) {
                    Ok(applied) => version = applied.or_else(|| version.take()),
                    Err(out_of_order) => in_order = Err(out_of_order),
                });
                // Only now, so that a store out of order does not keep the event from the others.
                in_order.map_err(|OutOfOrder| WatchProblem::out_of_order(&object))?;
                if let Some(version) = version.or_else(|| object.split.meta().version()) {
                    machine.lock().saw(&version);
                }
            }
            WatchLine::Deleted(object) => {
                let (object, mut version) = (IncomingObject::from(object), None);
                self.shared.report_deletion(&object);
                self.shared.for_each(|subscriber| {
                    version = subscriber.remove(scope, &object).or_else(|| version.take());
                });
                if let Some(version) = version.or_else(|| object.split.meta().version()) {
                    machine.lock().saw(&version);
                }
            }
            WatchLine::Bookmark { version, .. } => {
                // While the initial list is incomplete, no version can be continued from.
                if let Some(version) = version.filter(|_| *is_listed) {
                    self.advance(machine, &version.as_str().into());
                }
            }
            WatchLine::Error(status) => return Err(self.problem(&status, None)),
        }
        // Initial events count as success only when they are complete, however many arrive.
        if *is_listed {
            self.shared.for_each(|subscriber| subscriber.watch_works(scope));
        }
        Ok(None)
    }

    /// Records that no other changes happened up to this version.
    fn advance(&self, machine: &Mutex<ListWatch>, version: &ResourceVersion) {
        machine.lock().saw(version);
        self.shared.for_each(|subscriber| subscriber.advance(&self.scope, version));
    }
}

/// How far one watch came.
struct WatchProgress {
    /// Whether the watch has delivered an event or a bookmark.
    has_delivered: bool,
    /// Whether the initial list is complete.
    is_listed: bool,
}

/// Waits for an optional future; forever without one.
async fn some<F: Future + Unpin>(future: &mut Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}
