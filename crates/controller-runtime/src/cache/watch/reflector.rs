//! Executes the steps of [`ListWatch`]: sends requests to the API server, and passes the answers to the feed.

use std::{
    future::Future,
    pin::{Pin, pin},
};

use futures::StreamExt;
use http::header::{ACCEPT, HeaderValue, RETRY_AFTER};
use http_body_util::BodyExt;
use kube::{
    client::Body,
    core::{
        DynamicObject, Request as ApiRequest, Resource,
        params::{ListParams, WatchParams},
    },
};
use parking_lot::Mutex;
use tokio::{
    task::yield_now,
    time::{Duration, Instant, sleep, sleep_until, timeout},
};

use super::{
    access, definition,
    feed::{Feed, Form, OutOfOrder, Sink, Trouble},
    items::{Items, ListMeta, NoList},
    list_watch::{Check, Death, Failure, Heartbeat, Input, ListWatch, Probed, Step},
    wire::{self, Line, Lines},
};
use crate::{
    cache::{objects::arrival::Arrival, query::Part},
    client::{describe, uncompressed},
    object::meta::ResourceVersion,
    pace::Pace,
};

/// Objects per page of a list, as in client-go.
const PAGE_SIZE: u32 = 500;

/// Longest wait for the start of an answer to a list or watch, and for further data of a list. Equal to the time in
/// which a silent watch is detected.
const ANSWER_WITHIN: Duration = Heartbeat::SILENCE;

/// Time after which a watch that the server should have ended counts as dead.
const OVERDUE: Duration = Duration::from_secs(10);

/// Longest silence of a watch while an own write waits for it.
const WRITE_TOLD_WITHIN: Duration = Duration::from_secs(30);

/// Shorter watches that delivered nothing are not reopened at once, as in client-go.
const VERY_SHORT: Duration = Duration::from_secs(1);

/// One list and watch of a feed.
pub(in crate::cache) struct Reflector<'f> {
    pub(in crate::cache) feed: &'f Feed,
    pub(in crate::cache) client: kube::Client,
    pub(in crate::cache) part: Part,
    pub(in crate::cache) form: Form,
}

impl Reflector<'_> {
    /// Lists and watches until dropped.
    pub(in crate::cache) async fn run(&self, machine: &Mutex<ListWatch>) {
        let mut input = Input::Start;
        loop {
            let step = machine.lock().step(input, Instant::now());
            input = match step {
                Step::Wait(delay) => {
                    sleep(delay).await;
                    Input::Waited
                }
                Step::AwaitServed(delay) => {
                    definition::served(&self.client, &self.feed.query.resource, delay).await;
                    Input::Waited
                }
                Step::List { paged } => {
                    self.feed.each(|sink| sink.begin(&self.part));
                    self.list_page(paged, None).await
                }
                Step::Page { continue_token } => self.list_page(true, Some(continue_token)).await,
                Step::Stream { timeout } => {
                    self.feed.each(|sink| sink.begin(&self.part));
                    self.watch(machine, None, timeout).await
                }
                Step::Watch { resource_version, timeout } => {
                    self.watch(machine, Some(&resource_version), timeout).await
                }
            };
            if let Input::Page { resource_version, continue_token: None } = &input {
                // The lock is released before the stores add the list, which may take a while.
                let is_new = machine.lock().listed(resource_version);
                if is_new {
                    self.complete(resource_version).await;
                } else {
                    input = self.tell(Asked::List, Problem::behind(resource_version));
                }
            }
        }
    }

    /// Adds the complete initial list to the stores, in pieces.
    async fn complete(&self, version: &ResourceVersion) {
        let complete = |sink: &dyn Sink| {
            let is_whole = sink.complete(&self.part, version);
            if is_whole {
                sink.parts(&self.feed.query.parts());
            }
            is_whole
        };
        self.feed.each_in_pieces(complete).await;
    }

    /// Requests a page, and reports a failure.
    async fn list_page(&self, paged: bool, continue_token: Option<String>) -> Input {
        match self.fetch_page(paged, continue_token).await {
            Ok(input) => input,
            Err(problem) => self.tell(Asked::List, problem),
        }
    }

    /// Requests a page, and passes its items to the sinks while they arrive.
    async fn fetch_page(&self, paged: bool, continue_token: Option<String>) -> Result<Input, Problem> {
        let (label_selector, field_selector) = self.feed.query.selectors_of(&self.part).parameters();
        let params = ListParams {
            limit: paged.then_some(PAGE_SIZE),
            continue_token,
            label_selector,
            field_selector,
            ..ListParams::default()
        };
        let request = self.open(self.collection().list(&params), "List");
        let body = timeout(ANSWER_WITHIN, request).await.unwrap_or_else(|_| silence())?;
        let (mut body, mut items, mut pace) = (body.into_data_stream(), Items::default(), Pace::begin());
        let no_list = |error: NoList| Problem::refused(error.to_string());
        while let Some(chunk) = timeout(ANSWER_WITHIN, body.next()).await.or_else(|_| silence())? {
            items.push(chunk.map_err(|error| Problem::transient(describe(&error)))?);
            self.feed.heard_of(&self.part);
            while let Some(item) = items.next().map_err(no_list)? {
                self.arrived(&Arrival::new(&item));
                self.feed.train().await;
                pace.step().await;
            }
        }
        let ListMeta { resource_version, continue_token } = items.finish().map_err(no_list)?;
        Ok(Input::Page {
            resource_version: resource_version.as_str().into(),
            continue_token: Some(continue_token).filter(|token| !token.is_empty()),
        })
    }

    /// Watches from a version, or with initial events.
    async fn watch(
        &self,
        machine: &Mutex<ListWatch>,
        from: Option<&ResourceVersion>,
        lasts: Duration,
    ) -> Input {
        let started = Instant::now();
        let mut progressed = false;
        match self.follow(machine, from, lasts, &mut progressed).await {
            Ok(()) => Input::WatchEnded { progressed: progressed || started.elapsed() > VERY_SHORT },
            Err(problem) => self.tell(if from.is_some() { Asked::Watch } else { Asked::Stream }, problem),
        }
    }

    /// Reads one watch to its end.
    async fn follow(
        &self,
        machine: &Mutex<ListWatch>,
        from: Option<&ResourceVersion>,
        lasts: Duration,
        progressed: &mut bool,
    ) -> Result<(), Problem> {
        // The server should end the watch in time. If it does not, the connection is dead.
        let deadline = Instant::now() + lasts + OVERDUE;
        let opening = self.open_watch(from, lasts);
        let body = timeout(ANSWER_WITHIN, opening).await.unwrap_or_else(|_| silence())?;
        self.feed.heard_of(&self.part);
        self.feed.each(|sink| sink.watching());
        if from.is_some() {
            self.feed.each(|sink| sink.works(&self.part));
        }
        let (mut body, mut lines) = (body.into_data_stream(), Lines::default());
        // Whether the initial list is complete. A watch from a version starts with a complete one.
        let mut present = from.is_some();
        let mut heartbeat = machine.lock().opened(Instant::now(), !present);
        let mut probe: Option<Pin<Box<dyn Future<Output = _> + Send + '_>>> = None;
        // Reused for all events, because resetting a timer for each event costs as much as a lookup of its object. So
        // it may fire too early; the heartbeat then returns the right time.
        let mut alarm = pin!(sleep_until(Instant::now()));
        let (mut died, mut overdue) = (pin!(sleep_until(deadline)), pin!(self.overdue()));
        let (mut is_behind, mut pace) = (false, Pace::begin());
        loop {
            // `biased`: data that have arrived are processed before a timer can declare the watch dead, and compression
            // comes last.
            let chunk = tokio::select! {
                biased;
                chunk = body.next() => match chunk {
                    Some(chunk) => chunk.map_err(|error| Problem::transient(describe(&error)))?,
                    None if present => return Ok(()),
                    None => {
                        return Err(Problem::transient(
                            "the watch ended before the end of the initial events".to_owned(),
                        ));
                    }
                },
                () = &mut died => {
                    return Err(Problem::silent("the API server did not end the watch in time".to_owned()));
                }
                () = &mut alarm => {
                    match heartbeat.check(Instant::now()) {
                        Check::Wait(until) => alarm.as_mut().reset(until),
                        Check::Dead(death) => return Err(Problem::of(death)),
                        Check::Probe => {
                            // After its initial events a watch has a version as well.
                            let version = machine.lock().watched_version();
                            probe = version.map(|from| Box::pin(self.probe(from)) as _);
                            self.feed.each(|sink| sink.probing());
                        }
                    }
                    continue;
                }
                (outcome, reached) = some(&mut probe) => {
                    probe = None;
                    heartbeat.probed(outcome, Instant::now());
                    alarm.as_mut().reset(Instant::now());
                    if outcome == Probed::Nothing {
                        self.feed.heard_of(&self.part);
                        if let Some(version) = reached {
                            self.passed(&mut machine.lock(), &version);
                        }
                    }
                    continue;
                }
                () = &mut overdue, if present => {
                    return Err(Problem::silent(format!(
                        "the watch did not deliver a write of this process within {} s",
                        WRITE_TOLD_WITHIN.as_secs()
                    )));
                }
                // Runs only when no data are pending, and after other tasks had a turn: they can process the latest
                // events first.
                () = yield_now(), if is_behind => {
                    is_behind = false;
                    self.feed.each(|sink| {
                        sink.catch_up();
                        is_behind |= sink.is_behind();
                    });
                    continue;
                }
            };
            self.feed.heard_of(&self.part);
            lines.push(chunk);
            let (was_present, mut changes) = (present, false);
            let too_long = |error| Problem::refused(format!("a watch event is {error}"));
            while let Some(line) = lines.next().map_err(too_long)? {
                let line = wire::line(&line).map_err(|error| Problem::refused(error.to_string()))?;
                changes |= !matches!(line, Line::Added(_));
                let whole = self.take(&mut machine.lock(), line, &mut present)?;
                if let Some(version) = whole {
                    self.complete(&version).await;
                    self.feed.each(|sink| sink.works(&self.part));
                }
                *progressed = true;
                self.feed.room().await;
                self.feed.train().await;
                pace.step().await;
            }
            if present {
                // Any data prove that the watch works, so a probe is not needed any more.
                heartbeat.heard(Instant::now());
                probe = None;
            } else {
                heartbeat.heard_initial(Instant::now(), changes);
            }
            if present != was_present {
                // The limit for a silent watch is shorter than the one for initial events.
                alarm.as_mut().reset(Instant::now());
            }
            self.feed.each(|sink| is_behind |= sink.is_behind());
        }
    }

    /// Probes an open watch with a short second watch from the last version seen. Returns the outcome, and the newer
    /// version up to which the open watch has missed nothing.
    async fn probe(&self, from: ResourceVersion) -> (Probed, Option<ResourceVersion>) {
        match self.follow_probe(&from).await {
            Ok(probed) => probed,
            Err(Problem { failure: Failure::Expired, .. }) => (Probed::Expired, None),
            Err(Problem { answered: false, .. }) => (Probed::Unreachable, None),
            Err(problem) => {
                let resource = self.feed.query.label();
                tracing::debug!(resource, "a probe of a silent watch was refused: {}", problem.message);
                let retry_after = match problem.failure {
                    Failure::Transient { retry_after } => retry_after,
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
    ) -> Result<(Probed, Option<ResourceVersion>), Problem> {
        let body = self.open_watch(Some(from), Heartbeat::PROBE_LASTS).await?;
        let (mut body, mut lines, mut reached) = (body.into_data_stream(), Lines::default(), None);
        while let Some(chunk) = body.next().await {
            lines.push(chunk.map_err(|error| Problem::unreachable(describe(&error)))?);
            while let Some(line) = lines.next().map_err(|error| Problem::refused(error.to_string()))? {
                match wire::line(&line).map_err(|error| Problem::refused(error.to_string()))? {
                    Line::Added(_) | Line::Modified(_) | Line::Deleted(_) => {
                        return Ok((Probed::Event, None));
                    }
                    Line::Bookmark { version, .. } => {
                        reached = version.map(|version| version.as_str().into()).or(reached);
                    }
                    Line::Error(status) => return Err(self.problem(&status, None)),
                }
            }
        }
        Ok((Probed::Nothing, reached))
    }

    /// Waits until an own write is overdue: the watch has delivered nothing for too long since the write.
    async fn overdue(&self) {
        let mut writes = self.feed.writes();
        loop {
            writes.mark_unchanged();
            let mut since: Option<Instant> = None;
            self.feed.each(|sink| since = since.into_iter().chain(sink.waiting_since(&self.part)).min());
            match since {
                Some(since) => {
                    let limit =
                        self.feed.heard(&self.part).max(Some(since)).unwrap_or(since) + WRITE_TOLD_WITHIN;
                    if Instant::now() >= limit {
                        return;
                    }
                    sleep_until(limit).await;
                }
                None => {
                    let _ = writes.changed().await; // never an error: the sender is in the feed
                }
            }
        }
    }

    fn arrived(&self, object: &Arrival<'_>) {
        self.feed.each(|sink| sink.arrived(&self.part, object));
    }

    /// Processes a line. Returns the version of the initial list if the line ends it; the caller then completes the
    /// list.
    fn take(
        &self,
        machine: &mut ListWatch,
        line: Line<'_>,
        present: &mut bool,
    ) -> Result<Option<ResourceVersion>, Problem> {
        let part = &self.part;
        match line {
            Line::Added(object) | Line::Modified(object) if !*present => {
                self.arrived(&Arrival::from(object));
            }
            Line::Deleted(object) if !*present => {
                let object = Arrival::from(object);
                self.feed.each(|sink| sink.left(part, &object));
            }
            Line::Bookmark { version: Some(version), ends_initial_events: true } if !*present => {
                let version = version.as_str().into();
                if !machine.listed(&version) {
                    return Err(Problem::behind(&version));
                }
                *present = true;
                return Ok(Some(version));
            }
            Line::Added(object) | Line::Modified(object) => {
                let (arrival, mut version, mut in_order) = (Arrival::from(object), None, Ok(()));
                self.feed.each(|sink| match sink.applied(part, &arrival) {
                    Ok(told) => version = told.or_else(|| version.take()),
                    Err(out_of_order) => in_order = Err(out_of_order),
                });
                in_order.map_err(|OutOfOrder| Problem::out_of_order(&arrival))?;
                if let Some(version) = version.or_else(|| arrival.split.meta().version()) {
                    machine.saw(&version);
                }
            }
            Line::Deleted(object) => {
                let (arrival, mut version) = (Arrival::from(object), None);
                self.feed.each(|sink| version = sink.deleted(part, &arrival).or_else(|| version.take()));
                if let Some(version) = version.or_else(|| arrival.split.meta().version()) {
                    machine.saw(&version);
                }
            }
            Line::Bookmark { version, .. } => {
                if let Some(version) = version.filter(|_| *present) {
                    self.passed(machine, &version.as_str().into());
                }
            }
            Line::Error(status) => return Err(self.problem(&status, None)),
        }
        // Initial events count as success only when they are complete, however many arrive.
        if *present {
            self.feed.each(|sink| sink.works(part));
        }
        Ok(None)
    }

    /// Records that no other changes happened up to this version.
    fn passed(&self, machine: &mut ListWatch, version: &ResourceVersion) {
        machine.saw(version);
        self.feed.each(|sink| sink.passed(&self.part, version));
    }

    /// Logs a problem, and reports it to the sinks as a failure. Not a failure are an expired version of a watch, an
    /// event out of order, and a server that does not support initial events.
    fn tell(&self, asked: Asked, problem: Problem) -> Input {
        let Problem { failure, message, forbidden, .. } = problem;
        let resource = self.feed.query.label();
        let place = self.part.as_ref().map_or_else(String::new, |name| format!(" in namespace {name}"));
        let verb = if asked == Asked::Watch { "watch" } else { "list" };
        match (failure, asked) {
            (Failure::Expired, Asked::Watch) => {
                tracing::debug!(resource, "{verb}{place}: {message}; listing again");
            }
            (Failure::OutOfOrder, _) => {
                tracing::info!(resource, "{verb}{place}: {message}; listing again");
            }
            (Failure::Unsupported, Asked::Stream) => {
                tracing::info!(resource, "{verb}{place}: {message}; using a list instead");
            }
            _ => {
                if failure == Failure::Silent {
                    self.feed.each(|sink| sink.watch_died());
                }
                match &forbidden {
                    Some(rule) => tracing::error!(resource, "{verb}{place} is forbidden: {rule}"),
                    None => tracing::warn!(resource, "{verb}{place} failed: {message}"),
                }
                let trouble = Trouble { message: format!("{verb}{place}: {message}"), forbidden };
                self.feed.each(|sink| sink.failed(&self.part, &trouble));
            }
        }
        Input::Failed(failure)
    }

    /// Opens a watch from a version, or with initial events.
    async fn open_watch(&self, from: Option<&ResourceVersion>, lasts: Duration) -> Result<Body, Problem> {
        let (label_selector, field_selector) = self.feed.query.selectors_of(&self.part).parameters();
        let params = WatchParams {
            timeout: Some(u32::try_from(lasts.as_secs()).unwrap_or(u32::MAX)),
            send_initial_events: from.is_none(),
            label_selector,
            field_selector,
            ..WatchParams::default()
        };
        let request = match from {
            Some(version) => self.collection().watch(&params, &version.to_string()),
            None => self.collection().watch(&params, "").map(without_version),
        };
        // Compressed watches lose events from Kubernetes 1.37 on: see `uncompressed`.
        let request = request.map(|mut request| {
            uncompressed(&mut request);
            request
        });
        self.open(request, "").await
    }

    fn collection(&self) -> ApiRequest {
        ApiRequest::new(DynamicObject::url_path(&self.feed.query.resource, self.part.as_deref()))
    }

    /// Sends the request. Returns the body of a successful answer.
    async fn open(
        &self,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
        list: &str,
    ) -> Result<Body, Problem> {
        let mut request = request.map_err(|error| Problem::refused(error.to_string()))?.map(Body::from);
        if self.form == Form::Metadata {
            let metadata = format!(
                "application/json;as=PartialObjectMetadata{list};g=meta.k8s.io;v=v1,application/json"
            );
            let metadata =
                HeaderValue::try_from(metadata).map_err(|error| Problem::refused(error.to_string()))?;
            request.headers_mut().insert(ACCEPT, metadata);
        }
        let sent = self.client.send(request).await;
        let (parts, body) = sent.map_err(|error| Problem::unreachable(describe(&error)))?.into_parts();
        if parts.status.is_success() {
            return Ok(body);
        }
        let retry_after = parts.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let text = body.collect().await.map_err(|error| Problem::transient(describe(&error)))?;
        Err(self.problem(&wire::failure(parts.status, &text.to_bytes()), retry_after))
    }

    fn problem(&self, status: &kube::core::Status, retry_after: Option<u64>) -> Problem {
        let resource = &self.feed.query.resource;
        let too_large = status.details.as_ref().is_some_and(|details| {
            details.causes.iter().any(|cause| cause.reason == "ResourceVersionTooLarge")
        });
        let failure = match status.code {
            410 => Failure::Expired,
            504 if too_large => Failure::Behind,
            408 | 429 | 502..=504 => Failure::Transient { retry_after: retry_after.map(Duration::from_secs) },
            400 | 422 => Failure::Unsupported,
            404 => Failure::NotServed,
            _ => Failure::Refused,
        };
        let forbidden = (status.code == 403).then(|| access::rule(resource, self.part.as_deref()));
        let message = match (status.code, &forbidden) {
            (404, _) => format!(
                "the API server does not serve {} {}: is its CustomResourceDefinition installed?",
                self.feed.query.resource_name(),
                resource.version
            ),
            (_, Some(rule)) => format!("{} ({}); {rule}", status.message, status.code),
            (code, None) => format!("{} ({code})", status.message),
        };
        Problem { failure, message, forbidden, answered: true }
    }
}

/// Type of the failed request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    List,
    /// A watch with initial events.
    Stream,
    /// A watch from a version.
    Watch,
}

/// Failure of a list or watch, for the state machine and for operators.
struct Problem {
    failure: Failure,
    message: String,
    forbidden: Option<String>,
    /// Whether the API server answered, even with a refusal.
    answered: bool,
}

impl Problem {
    fn new(failure: Failure, message: String) -> Self {
        Self { failure, message, forbidden: None, answered: true }
    }

    fn of(death: Death) -> Self {
        let silent = Heartbeat::SILENCE.as_secs();
        match death {
            Death::EndlessInitialEvents => Self::unsupported(format!(
                "the API server did not mark the end of the initial events within {silent} s"
            )),
            Death::MissedEvent => {
                Self::silent("the watch missed an event that a probe of it received".to_owned())
            }
            Death::Unanswered => Self::silent(format!(
                "the watch was silent, and the API server did not answer a probe of it: no sign of life for {silent} s"
            )),
            Death::Unreachable => Self::transient(
                "the watch was silent, and a probe of it did not reach the API server".to_owned(),
            ),
            Death::Refused => Self::silent(
                "the watch was silent, and the API server refused several probes of it".to_owned(),
            ),
            Death::Expired => Self::new(
                Failure::Expired,
                "the watch was silent, and its version is too old to be probed from".to_owned(),
            ),
        }
    }

    fn silent(message: String) -> Self {
        Self::new(Failure::Silent, message)
    }

    fn unreachable(message: String) -> Self {
        Self { answered: false, ..Self::transient(message) }
    }

    fn transient(message: String) -> Self {
        Self::new(Failure::Transient { retry_after: None }, message)
    }

    fn refused(message: String) -> Self {
        Self::new(Failure::Refused, message)
    }

    fn unsupported(message: String) -> Self {
        Self::new(Failure::Unsupported, message)
    }

    fn out_of_order(object: &Arrival<'_>) -> Self {
        let meta = object.split.meta();
        let version = meta.version().map_or_else(String::new, |version| format!(" at version {version}"));
        let message = format!(
            "an event of {meta}{version} arrived after newer versions, so it is unknown whether the object exists"
        );
        Self::new(Failure::OutOfOrder, message)
    }

    fn behind(version: &ResourceVersion) -> Self {
        Self::new(
            Failure::Behind,
            format!("the API server is behind: its version {version} is older than a version seen before"),
        )
    }
}

fn silence<T>() -> Result<T, Problem> {
    Err(Problem::transient(format!("the API server did not answer within {} s", ANSWER_WITHIN.as_secs())))
}

/// Waits for an optional future; pending without one.
async fn some<F: Future + Unpin>(future: &mut Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

/// Removes the empty `resourceVersion` parameter. Without it, initial events reflect the latest state.
fn without_version(mut request: http::Request<Vec<u8>>) -> http::Request<Vec<u8>> {
    let uri = request.uri().to_string();
    if let Ok(uri) = uri.trim_end_matches("&resourceVersion=").parse() {
        *request.uri_mut() = uri;
    }
    request
}
