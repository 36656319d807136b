//! Text of an explanation for the terminal. Pure.

use std::fmt;

use super::Wanted;
use super::shapes::{
    Causes, ClusterAnswer, Finding, ObjectAnswer, Outcome, Overview, Request, RequestState, Run, VerbCalls,
    Write,
};
use crate::failure::Failure;

/// Runs that are listed, the latest first; more are counted.
const RUNS: usize = 4;

/// Findings about the whole operator: they can delay the reconciles of any object.
const GENERAL: [&str; 3] = ["missing-right", "dead-watch", "throttled"];

/// Answers of the operator, which `Display` formats.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    pub(super) overview: Overview,
    pub(super) requests: Vec<Request>,
    pub(super) object: Option<ObjectAnswer>,
    /// `None` from operators that do not count their requests.
    pub(super) cluster: Option<ClusterAnswer>,
    /// `None` for the operator as a whole.
    asked: Option<Asked>,
}

/// The requested object.
#[derive(Debug, Clone)]
struct Asked {
    /// Kind and name, as the user wrote them.
    object: String,
    /// Namespace in which it was looked up, and then without one: only the API server knows whether its kind has namespaces.
    namespace: String,
    resource: String,
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { object, namespace, resource } = self;
        write!(
            f,
            "{object}: the operator sees no such object among {resource}, in namespace {namespace} or without a namespace"
        )
    }
}

impl Answer {
    pub(super) fn of(overview: Overview, requests: Vec<Request>, object: Option<ObjectAnswer>) -> Self {
        Self { overview, requests, object, cluster: None, asked: None }
    }

    /// Names the requested object.
    pub(super) fn about(&mut self, wanted: &Wanted, resource: &str) {
        let Wanted { kind, namespace, name } = wanted;
        let (object, namespace) = (format!("{kind} {name}"), namespace.clone());
        self.asked = Some(Asked { object, namespace, resource: resource.to_owned() });
    }

    /// The failure to report if the operator knows no object of this name.
    pub(super) fn unknown(&self) -> Option<Failure> {
        match (&self.asked, &self.requests[..], &self.object) {
            (Some(asked), [], None) => Some(
                Failure::new(asked.to_string())
                    .hint(format!("check its name and namespace: kubectl get {} -A", asked.resource)),
            ),
            _ => None,
        }
    }

    /// The lease of another replica, if that one reconciles and not this one.
    pub(super) fn standing_by(&self) -> Option<&str> {
        let leader = &self.overview.leader;
        leader.lease.as_deref().filter(|_| !leader.leads)
    }

    /// The answer without the time that is left to wait, which is different at each look.
    pub(super) fn without_countdown(&self) -> Self {
        let mut answer = self.clone();
        for request in &mut answer.requests {
            if let RequestState::Waiting { left, .. } = &mut request.state {
                *left = 0.0;
            }
        }
        answer
    }

    fn general_findings(&self) -> impl Iterator<Item = &Finding> {
        self.overview.findings.iter().filter(|finding| GENERAL.contains(&&*finding.id))
    }

    fn operator(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Overview { name, library, findings, controllers, .. } = &self.overview;
        writeln!(f, "{name}, with controller-runtime {library}, {}", self.state())?;
        if findings.is_empty() {
            writeln!(f, "no findings")?;
        }
        for finding in findings {
            write_finding(f, finding)?;
        }
        for summary in controllers {
            writeln!(
                f,
                "controller {}: {} queued, {} waiting, {} of {} workers busy, {} failing; {} runs, of which {} failed",
                summary.name,
                summary.queued,
                summary.waiting,
                summary.running,
                summary.workers,
                summary.failing,
                summary.runs,
                summary.failures
            )?;
        }
        let calls = self.cluster.iter().flat_map(|cluster| &cluster.calls);
        calls.into_iter().try_for_each(|calls| writeln!(f, "{calls}"))
    }

    /// Whether the operator can reconcile anything now.
    fn state(&self) -> String {
        let Overview { state, leader, .. } = &self.overview;
        let state = match &**state {
            "Ready" => "is ready".to_owned(),
            other => format!("is not ready: its state is {other}"),
        };
        match &leader.lease {
            Some(lease) if leader.leads => format!("{state} and leads by lease {lease}"),
            Some(lease) => {
                format!("{state} and stands by: another replica holds lease {lease} and reconciles")
            }
            None => state,
        }
    }

    fn unknown_request(&self, f: &mut fmt::Formatter<'_>, asked: &Asked) -> fmt::Result {
        match &self.object {
            None => {
                writeln!(f, "{asked}")?;
                row(
                    f,
                    "next",
                    format_args!("check its name and namespace: kubectl get {} -A", asked.resource),
                )
            }
            Some(object) => {
                let place =
                    object.namespace.as_ref().map_or_else(String::new, |namespace| format!("{namespace}/"));
                let name = format!("{} {place}{}", object.kind, object.name);
                writeln!(
                    f,
                    "{name} exists, and no event of it has led to a reconcile since the operator started"
                )?;
                row(
                    f,
                    "next",
                    "check the predicates, namespaces and selectors with which its controller watches",
                )?;
                write_object(f, object)
            }
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.asked.is_none() && self.requests.is_empty() {
            return self.operator(f);
        }
        let Overview { state, leader, .. } = &self.overview;
        if state != "Ready" || (leader.lease.is_some() && !leader.leads) {
            writeln!(f, "operator {} {}", self.overview.name, self.state())?;
        }
        if let (Some(asked), []) = (&self.asked, &self.requests[..]) {
            self.unknown_request(f, asked)?;
        }
        for request in &self.requests {
            write_request(f, request)?;
            let of_request =
                self.overview.findings.iter().filter(|finding| finding.subject == request.request);
            for finding in of_request {
                write_finding(f, finding)?;
            }
        }
        if let (Some(object), false) = (&self.object, self.requests.is_empty()) {
            write_object(f, object)?;
        }
        self.general_findings().try_for_each(|finding| write_finding(f, finding))
    }
}

/// `  label    text`
fn row(f: &mut fmt::Formatter<'_>, label: &str, text: impl fmt::Display) -> fmt::Result {
    writeln!(f, "  {label:<8} {text}")
}

fn write_request(f: &mut fmt::Formatter<'_>, request: &Request) -> fmt::Result {
    let Request { controller, request: name, state, attempt, causes, runs, failed_events } = request;
    let last = runs.first();
    let failed = last.filter(|run| run.result.error().is_some());
    writeln!(f, "{name} {} (controller {controller})", state_of(state, *attempt))?;
    if let Some(error) = failed.and_then(|run| run.result.error()) {
        row(f, "error", error)?;
    }
    if failed.is_some() {
        let before = runs.iter().position(|run| run.result.error().is_none());
        match before {
            Some(count) => row(
                f,
                "last ok",
                format_args!(
                    "{}; {} since then",
                    clock(&runs[count].ended),
                    plural(count as u64, "failed run")
                ),
            )?,
            None => row(f, "last ok", format_args!("none of the last {}", plural(runs.len() as u64, "run")))?,
        }
    }
    if causes.events > 0 {
        row(f, "pending", causes_of(causes))?;
    }
    for event in failed_events {
        row(f, "event", format_args!("of {} {} failed: {}", event.source, event.object, event.error))?;
    }
    for run in runs.iter().take(RUNS) {
        row(f, "run", RunLine(run))?;
    }
    if runs.len() > RUNS {
        row(f, "", format_args!("and {} before", plural((runs.len() - RUNS) as u64, "run")))?;
    }
    if runs.is_empty() {
        row(f, "run", "none that is remembered: the operator keeps the last runs of 1024 requests")?;
    }
    row(f, "next", next(state, last))
}

fn state_of(state: &RequestState, attempt: u32) -> String {
    match state {
        RequestState::Idle => "waits for an event".to_owned(),
        RequestState::Queued { since: Some(since), .. } => {
            format!("has been in line for a worker since {}", clock(since))
        }
        RequestState::Queued { since: None, .. } => "is in line for a worker".to_owned(),
        RequestState::Waiting { until, left, rule } => {
            let rule = match &**rule {
                "rateLimiter" if attempt > 0 => {
                    format!("back-off after {}", plural(attempt.into(), "failed run"))
                }
                "rateLimiter" => "the rate limiter set the delay".to_owned(),
                "delay" => "a reconcile or handler asked for the delay".to_owned(),
                "backOffEvents" => "an event has cut its back-off short already".to_owned(),
                "debounce" => "it waits until events pause".to_owned(),
                other => other.to_owned(),
            };
            format!("waits {} more, until {}: {rule}", span(*left), clock(until))
        }
        RequestState::Running { again: false } => "is being reconciled".to_owned(),
        RequestState::Running { again: true } => "is being reconciled, and will be once more".to_owned(),
        RequestState::Unknown(other) => {
            format!("is in a state that this version of cargo-operator does not know: {other}")
        }
    }
}

/// Returns the cause of the next run, and how the user can bring it about sooner.
fn next(state: &RequestState, last: Option<&Run>) -> &'static str {
    match (state, last.map(|run| &run.result)) {
        (RequestState::Idle, Some(Outcome::FailedForGood(_))) => {
            "the error is final: the next event starts a run, no retry does"
        }
        (RequestState::Idle, _) => {
            "an event of the object, or of an object that it owns or watches, starts a run"
        }
        (RequestState::Queued { .. }, _) => {
            "a free worker takes it; if it waits for long, see the findings about workers"
        }
        (RequestState::Waiting { rule, .. }, _) if rule == "rateLimiter" => {
            "repair the error; a change of its spec, or its deletion, starts a run at once"
        }
        (RequestState::Waiting { .. }, _) => "an event of the object starts a run sooner",
        (RequestState::Running { .. }, _) => "the run ends, or is stopped at its timeout",
        (RequestState::Unknown(_), _) => "install a newer cargo-operator",
    }
}

/// `2026-01-01 10:02:11 UTC  4 ms  attempt 2  configmaps updated  done  wrote nothing`; the first attempt has no number.
struct RunLine<'r>(&'r Run);

impl fmt::Display for RunLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Run { ended, took, attempt, causes, result, writes, more_writes } = self.0;
        write!(f, "{}  {}", clock(ended), span(*took))?;
        if *attempt > 0 {
            write!(f, "  attempt {}", attempt + 1)?;
        }
        write!(f, "  {}  {result}", causes_of(causes))?;
        match writes.as_deref() {
            None => Ok(()),
            Some([]) => f.write_str("  wrote nothing"),
            Some(writes) => {
                let writes: Vec<_> = writes.iter().map(ToString::to_string).collect();
                write!(f, "  wrote {}", writes.join(", "))?;
                if *more_writes > 0 { write!(f, " and {more_writes} more") } else { Ok(()) }
            }
        }
    }
}

/// `requests to the API server: 31 patch, 99 % of the latest within 31 ms, 3 failed (403: 3)`
impl fmt::Display for VerbCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verb, calls, errors, took } = self;
        write!(f, "requests to the API server: {calls} {verb}")?;
        if let Some(took) = took {
            write!(f, ", 99 % of the latest within {}", span(took.p99))?;
        }
        if errors.is_empty() {
            return Ok(());
        }
        let codes: Vec<_> = errors.iter().map(|(code, count)| format!("{code}: {count}")).collect();
        write!(f, ", {} failed ({})", errors.values().sum::<u64>(), codes.join(", "))
    }
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.subject)?;
        match self.code {
            Some(200..300) => Ok(()),
            Some(code) => write!(f, " (refused with code {code})"),
            None => f.write_str(" (no answer)"),
        }
    }
}

impl Outcome {
    /// The error of a failed run.
    fn error(&self) -> Option<&str> {
        match self {
            Self::Failed(text) | Self::FailedForGood(text) | Self::Panicked(text) => Some(text),
            Self::TimedOut => Some("the reconcile exceeded its timeout"),
            Self::Done | Self::Requeued | Self::RequeuedAfter(_) | Self::Unknown(_) => None,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("done"),
            Self::Requeued => f.write_str("asked to run again"),
            Self::RequeuedAfter(delay) => write!(f, "asked to run again after {}", span(*delay)),
            Self::Failed(_) => f.write_str("failed"),
            Self::FailedForGood(_) => f.write_str("failed for good"),
            Self::Panicked(_) => f.write_str("panicked"),
            Self::TimedOut => f.write_str("stopped at its timeout"),
            Self::Unknown(other) => write!(f, "{other}"),
        }
    }
}

fn causes_of(causes: &Causes) -> String {
    if causes.events == 0 {
        return match causes.without_event.as_deref() {
            Some("retry") => "a retry".to_owned(),
            Some("requested") => "requested by the previous run".to_owned(),
            _ => "initial list, resync or source".to_owned(),
        };
    }
    let cause = |cause: &super::shapes::Cause| {
        let object = cause.object.as_ref().map_or_else(String::new, |object| format!(" {object}"));
        match &*cause.change {
            // It is not a change of an object, but for example a retry or a message of another system.
            "generic" => format!("{}{object}", cause.source),
            change => format!("{}{object} {change}", cause.source),
        }
    };
    let first: Vec<_> = causes.first.iter().map(cause).collect();
    match causes.events - causes.first.len().min(causes.events as usize) as u64 {
        0 => first.join(", "),
        more => format!("{} and {}", first.join(", "), plural(more, "more event")),
    }
}

fn write_finding(f: &mut fmt::Formatter<'_>, finding: &Finding) -> fmt::Result {
    row(f, &finding.severity, format_args!("{}: {}", finding.id, finding.text))?;
    row(f, "", format_args!("→ {}", finding.next))
}

fn write_object(f: &mut fmt::Formatter<'_>, object: &ObjectAnswer) -> fmt::Result {
    let generation =
        object.generation.map_or_else(String::new, |generation| format!(", generation {generation}"));
    row(f, "object", format_args!("version {}{generation}", object.version))?;
    if let Some(deleted) = &object.deleted {
        row(f, "deleted", format_args!("at {}", clock(deleted)))?;
    }
    for finalizer in &object.finalizers {
        let by = finalizer.added_by.as_ref().map_or_else(String::new, |by| format!(", added by {by}"));
        row(f, "holds", format_args!("finalizer {}{by}", finalizer.name))?;
    }
    Ok(())
}

fn plural(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// `2026-01-01 12:14:31 UTC` for `2026-01-01T12:14:31.123Z`. A text of another form is returned as it is.
fn clock(time: &str) -> String {
    match time.split_once('T') {
        Some((date, rest)) if rest.len() >= 8 && rest.is_char_boundary(8) => {
            format!("{date} {} UTC", &rest[..8])
        }
        _ => time.to_owned(),
    }
}

/// `8 min 31 s` for 511 seconds: at most two units.
fn span(seconds: f64) -> String {
    let milliseconds = seconds * 1000.0;
    if !milliseconds.is_finite() || milliseconds < 1.0 {
        return "under 1 ms".to_owned();
    }
    if seconds < 1.0 {
        return format!("{milliseconds:.0} ms");
    }
    if seconds < 60.0 {
        return format!("{seconds:.1} s");
    }
    // Longer than any delay of a queue, and in the range of the type.
    let whole = seconds.min(1e12) as u64;
    match (whole / 3600, whole % 3600 / 60, whole % 60) {
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn overview(change: impl FnOnce(&mut Value)) -> Overview {
        let mut value = json!({
            "name": "guestbook", "library": "0.1.0", "state": "Ready", "leader": { "leads": true }, "findings": [],
            "controllers": [{ "name": "guestbook", "kind": "Guestbook.example.com", "queued": 1, "waiting": 2, "running": 3,
                "workers": 8, "failing": 4, "runs": 50, "failures": 6, "unknown": "member" }],
        });
        change(&mut value);
        serde_json::from_value(value).expect("an overview")
    }

    fn request(state: &Value, runs: &Value) -> Request {
        serde_json::from_value(json!({
            "controller": "guestbook", "request": "Guestbook shop/web", "state": state, "attempt": 17,
            "causes": { "first": [], "events": 0, "withoutEvent": "retry" }, "runs": runs,
        }))
        .expect("a request")
    }

    fn run(result: &Value) -> Value {
        json!({
            "ended": "2026-01-01T12:05:59.500Z", "took": 0.012, "attempt": 16, "causes": { "first": [], "events": 0, "withoutEvent": "retry" },
            "result": result, "writes": [{ "verb": "patch", "subject": "status of guestbooks.example.com shop/web", "code": 200 }],
        })
    }

    fn check(answer: &Answer, expected: &[&str]) {
        assert_eq!(answer.to_string().lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn back_off_is_explained_by_its_error_and_what_ends_it() {
        let state =
            json!({ "waiting": { "until": "2026-01-01T12:14:31Z", "left": 511.2, "rule": "rateLimiter" } });
        let failed = run(&json!({ "failed": "theme not found" }));
        let request = request(&state, &json!([failed, failed, run(&json!("done"))]));
        let finding = json!({
            "id": "long-back-off", "severity": "warning", "subject": "Guestbook shop/web", "since": "", "text": "It waits.",
            "evidence": [], "next": "Repair the error.",
        });
        let other = json!({ "id": "fight", "severity": "error", "subject": "Deployment shop/a", "text": "", "next": "" });
        let overview = overview(|value| value["findings"] = json!([finding, other]));
        check(
            &Answer::of(overview, vec![request], None),
            &[
                "Guestbook shop/web waits 8 min 31 s more, until 2026-01-01 12:14:31 UTC: back-off after 17 failed runs (controller guestbook)",
                "  error    theme not found",
                "  last ok  2026-01-01 12:05:59 UTC; 2 failed runs since then",
                "  run      2026-01-01 12:05:59 UTC  12 ms  attempt 17  a retry  failed  wrote patch status of guestbooks.example.com shop/web",
                "  run      2026-01-01 12:05:59 UTC  12 ms  attempt 17  a retry  failed  wrote patch status of guestbooks.example.com shop/web",
                "  run      2026-01-01 12:05:59 UTC  12 ms  attempt 17  a retry  done  wrote patch status of guestbooks.example.com shop/web",
                "  next     repair the error; a change of its spec, or its deletion, starts a run at once",
                "  warning  long-back-off: It waits.",
                "           → Repair the error.",
            ],
        );
    }

    #[test]
    fn an_object_that_is_unknown_and_one_without_events_are_told_apart() {
        let mut none = Answer::of(overview(|_| {}), Vec::new(), None);
        let wanted =
            Wanted { kind: "guestbook".to_owned(), namespace: "shop".to_owned(), name: "web".to_owned() };
        none.about(&wanted, "guestbooks.example.com");
        let unknown = "guestbook web: the operator sees no such object among guestbooks.example.com, in namespace shop or without a namespace";
        check(
            &none,
            &[unknown, "  next     check its name and namespace: kubectl get guestbooks.example.com -A"],
        );
        let object = json!({
            "kind": "Guestbook", "name": "web", "namespace": "shop", "version": "7", "generation": 2, "deleted": "2026-01-01T12:05:59Z",
            "finalizers": [{ "name": "example.com/hold", "addedBy": "other" }],
        });
        let failure = none.unknown().expect("no such object");
        assert_eq!(failure.message, unknown);
        none.object = Some(serde_json::from_value(object).expect("an object"));
        assert_eq!(none.unknown(), None);
        check(
            &none,
            &[
                "Guestbook shop/web exists, and no event of it has led to a reconcile since the operator started",
                "  next     check the predicates, namespaces and selectors with which its controller watches",
                "  object   version 7, generation 2",
                "  deleted  at 2026-01-01 12:05:59 UTC",
                "  holds    finalizer example.com/hold, added by other",
            ],
        );
    }

    #[test]
    fn a_standby_and_problems_of_the_whole_operator_come_with_every_object() {
        let overview = overview(|value| {
            value["leader"] = json!({ "lease": "guestbook.example.com", "leads": false });
            value["findings"] = json!([{ "id": "dead-watch", "severity": "error", "subject": "configmaps", "text": "Silent.", "next": "Look." }]);
        });
        check(
            &Answer::of(overview, vec![request(&json!("idle"), &json!([]))], None),
            &[
                "operator guestbook is ready and stands by: another replica holds lease guestbook.example.com and reconciles",
                "Guestbook shop/web waits for an event (controller guestbook)",
                "  run      none that is remembered: the operator keeps the last runs of 1024 requests",
                "  next     an event of the object, or of an object that it owns or watches, starts a run",
                "  error    dead-watch: Silent.",
                "           → Look.",
            ],
        );
    }

    #[test]
    fn the_operator_is_described_in_a_few_lines() {
        let mut answer = Answer::of(overview(|_| {}), Vec::new(), None);
        let calls = json!({ "calls": [{ "verb": "patch", "calls": 31, "errors": { "403": 3 }, "took": { "p50": 0.002, "p99": 0.031 } }] });
        answer.cluster = Some(serde_json::from_value(calls).expect("an answer"));
        check(
            &answer,
            &[
                "guestbook, with controller-runtime 0.1.0, is ready",
                "no findings",
                "controller guestbook: 1 queued, 2 waiting, 3 of 8 workers busy, 4 failing; 50 runs, of which 6 failed",
                "requests to the API server: 31 patch, 99 % of the latest within 31 ms, 3 failed (403: 3)",
            ],
        );
    }

    #[test]
    fn states_and_results_of_newer_operators_are_shown_as_they_are() {
        let request = request(&json!({ "parked": { "why": "x" } }), &json!([run(&json!({ "skipped": 1 }))]));
        let text = Answer::of(overview(|_| {}), vec![request], None).to_string();
        assert!(text.contains("does not know: {\"parked\":{\"why\":\"x\"}}"), "{text}");
        assert!(text.contains("{\"skipped\":1}"), "{text}");
    }

    #[test]
    fn durations_have_two_units_at_most() {
        for (seconds, expected) in [
            (0.0, "under 1 ms"),
            (f64::NAN, "under 1 ms"),
            (0.0044, "4 ms"),
            (2.25, "2.2 s"),
            (511.9, "8 min 31 s"),
            (7260.0, "2 h 1 min"),
        ] {
            assert_eq!(span(seconds), expected, "{seconds}");
        }
    }
}
