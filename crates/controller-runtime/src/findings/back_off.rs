//! Finding `long-back-off`: a request that waits for long after many failures. Pure.

use k8s_openapi::jiff::Timestamp;
use tokio::time::Duration;

use super::{
    Finding, FindingId, Severity,
    text::{Plural, Span, TimeOfDay, beginning, without_stop},
};

/// Shortest delay that is reported.
const LONG: Duration = Duration::from_secs(300);
/// Largest number of bytes of an error message in a finding.
const LONGEST: usize = 256;

/// A request in back-off.
#[derive(Debug, Clone)]
pub(crate) struct BackOff<'b> {
    pub(crate) controller: &'b str,
    /// The request in its `Debug` form.
    pub(crate) request: String,
    pub(crate) failures: u32,
    pub(crate) error: String,
    /// Time of the last failure.
    pub(crate) last: Timestamp,
    /// Time of the next run.
    pub(crate) until: Timestamp,
}

impl BackOff<'_> {
    /// The finding, if the back-off is long.
    pub(crate) fn finding(&self, now: Timestamp) -> Option<Finding> {
        let Self { controller, request, failures, error, last, until } = self;
        let delay = Duration::try_from(until.duration_since(*last)).unwrap_or_default();
        let left = Duration::try_from(until.duration_since(now)).unwrap_or_default();
        if delay < LONG {
            return None;
        }
        let (end, ended) = (TimeOfDay { at: *until, now }, TimeOfDay { at: *last, now });
        let error = beginning(without_stop(error), LONGEST);
        Some(Finding {
            id: FindingId::LongBackOff,
            severity: Severity::Warning,
            subject: request.clone(),
            since: *last,
            text: format!(
                "{request} waits {} more, until {end}: back-off after {}, the last at {ended}: {error}.",
                Span(left),
                Plural((*failures).into(), "failure")
            ),
            evidence: vec![format!("controller {controller}")],
            next: "Repair the cause of the error. A change of the object's spec, or its deletion, starts the next run at once."
                .to_owned(),
        })
    }
}

/// The finding about `count` other requests of a controller.
pub(crate) fn more(controller: &str, count: usize, since: Timestamp) -> Finding {
    let count = u64::try_from(count).unwrap_or(u64::MAX);
    let (requests, wait) = (Plural(count, "other request"), if count == 1 { "waits" } else { "wait" });
    Finding {
        id: FindingId::LongBackOff,
        severity: Severity::Warning,
        subject: format!("controller {controller}"),
        since,
        text: format!(
            "{requests} of controller {controller} {wait} as well, for more than {} each.",
            Span(LONG)
        ),
        evidence: Vec::new(),
        next: "Repair the causes of the errors.".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_of_five_minutes_are_a_finding() {
        let time = |text: &str| text.parse::<Timestamp>().expect("a timestamp");
        let mut waits = BackOff {
            controller: "guestbook",
            request: "Guestbook shop/web".to_owned(),
            failures: 17,
            error: "theme not found.".to_owned(),
            last: time("2026-01-01T12:05:59Z"),
            until: time("2026-01-01T12:14:31Z"),
        };
        let finding = waits.finding(time("2026-01-01T12:06:00Z")).expect("it waits for long");
        assert_eq!(
            finding.text,
            "Guestbook shop/web waits 8 min 31 s more, until 12:14:31 UTC: back-off after 17 failures, the last at 12:05:59 UTC: \
             theme not found."
        );
        waits.until = time("2026-01-01T12:10:58Z");
        assert_eq!(waits.finding(time("2026-01-01T12:06:00Z")), None);
    }
}
