//! Text of an explanation for the terminal. Pure.

use std::fmt;

use super::Wanted;
use super::request_text::write_request;
use super::shapes::{ClusterAnswer, Finding, ObjectAnswer, Overview, Request, RequestState};
use crate::failure::Failure;

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
    /// Namespace of the first lookup. A second lookup uses none, because only the API server knows whether the kind is
    /// namespaced.
    namespace: String,
    resource: String,
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { object, namespace, resource } = self;
        write!(
            f,
            "{object}: the operator found no such object among {resource}, neither in namespace {namespace} nor without a namespace"
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

    /// The lease that another replica holds, if this one is on standby.
    pub(super) fn standing_by(&self) -> Option<&str> {
        let leader = &self.overview.leader;
        leader.lease.as_deref().filter(|_| !leader.leads)
    }

    /// The answer without remaining waiting times, which differ each time.
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
                "controller {}: {} queued, {} waiting, {} of {} workers busy, {} failing; {}, of which {} failed",
                summary.name,
                summary.queued,
                summary.waiting,
                summary.running,
                summary.workers,
                summary.failing,
                plural(summary.runs, "run"),
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
            Some(lease) if leader.leads => format!("{state} and leads with lease {lease}"),
            Some(lease) => {
                format!("{state} and is on standby: another replica holds lease {lease} and reconciles")
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
pub(super) fn row(f: &mut fmt::Formatter<'_>, label: &str, text: impl fmt::Display) -> fmt::Result {
    writeln!(f, "  {label:<8} {text}")
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

pub(super) fn plural(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// `2026-01-01 12:14:31 UTC` for `2026-01-01T12:14:31.123Z`. A text of another form is returned as it is.
pub(super) fn clock(time: &str) -> String {
    match time.split_once('T') {
        Some((date, rest)) if rest.len() >= 8 && rest.is_char_boundary(8) => {
            format!("{date} {} UTC", &rest[..8])
        }
        _ => time.to_owned(),
    }
}

/// `8 min 31 s` for 511 seconds: at most two units.
pub(super) fn span(seconds: f64) -> String {
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
    // The limit exceeds any delay of a queue, and fits the integer type.
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
                "  next     repair the cause of the error; a change of the object's spec, or its deletion, starts a run at once",
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
        let unknown = "guestbook web: the operator found no such object among guestbooks.example.com, neither in namespace shop nor without a namespace";
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
                "operator guestbook is ready and is on standby: another replica holds lease guestbook.example.com and reconciles",
                "Guestbook shop/web waits for an event (controller guestbook)",
                "  run      none recorded: for each controller, the operator keeps the runs of the 1024 requests that ran last",
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
    fn one_run_is_not_several() {
        let overview = overview(|overview| {
            overview["controllers"][0]["runs"] = json!(1);
            overview["controllers"][0]["failures"] = json!(0);
        });
        let text = Answer::of(overview, Vec::new(), None).to_string();
        assert!(text.ends_with("4 failing; 1 run, of which 0 failed\n"), "{text}");
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
