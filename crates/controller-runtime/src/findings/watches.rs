//! Findings `dead-watch` and `missing-right` of lists and watches. Pure.

use kube_clock::Clock;
use tokio::time::{Duration, Instant};

use super::{
    Finding, FindingId, Severity, refused_rights,
    text::{Span, TimeOfDay, beginning, without_stop},
};
use crate::cache::{FailuresInARow, WatchState};

/// Time from the first failure of lists and watches until they are reported. A watch fails if it is silent for 45 s.
const FAILING: Duration = Duration::from_secs(60);
/// Largest number of bytes of an error message in a finding.
const LONGEST: usize = 256;

/// The finding about a list or watch with these `readers` of its events.
pub(crate) fn finding(
    state: &WatchState,
    readers: &[String],
    operator: &str,
    now: Instant,
    clock: Clock,
) -> Option<Finding> {
    let WatchState { resource, synced, silence, failures } = state;
    let FailuresInARow { first, last, count, failure } = failures.as_ref()?;
    let since = clock.at(*first);
    let begin = TimeOfDay { at: since, now: clock.at(now) };
    if let Some(rule) = &failure.forbidden {
        return Some(Finding {
            id: FindingId::MissingRight,
            severity: Severity::Error,
            subject: format!("list and watch {resource}"),
            since,
            text: format!(
                "{operator} may not list and watch {resource}: refused with code 403 since {begin}."
            ),
            evidence: vec![failure.message.clone()],
            next: refused_rights::next(rule),
        });
    }
    if now - *first < FAILING {
        return None;
    }
    let what = match (synced, silence) {
        (true, Some(silence)) => {
            format!("has received nothing for {}: cached objects may be out of date", Span(*silence))
        }
        (true, None) => format!("has received nothing since {begin}: cached objects may be out of date"),
        (false, _) => format!("is incomplete: its initial list has failed since {begin}"),
    };
    let message = beginning(without_stop(&failure.message), LONGEST);
    let readers = match readers {
        [] => String::new(),
        [one] => format!(" Controller {one} reads it."),
        many => format!(" Controllers {} read it.", many.join(", ")),
    };
    let ago = Span(now - *last);
    Some(Finding {
        id: FindingId::DeadWatch,
        severity: Severity::Error,
        subject: resource.clone(),
        since,
        text: format!("The cache of {resource} {what}. Attempt {count} failed {ago} ago: {message}.{readers}"),
        evidence: Vec::new(),
        next: "Lists and watches are retried until one succeeds. Check the API server and the network to it, and whether it still \
               serves the kind."
            .to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::WatchFailure;

    #[tokio::test(start_paused = true)]
    async fn failures_of_a_minute_are_a_finding() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let failure = WatchFailure { message: "watch: connection refused".to_owned(), forbidden: None };
        let mut state = WatchState {
            resource: "configmaps".to_owned(),
            synced: true,
            silence: Some(Duration::from_secs(104)),
            failures: Some(FailuresInARow { first: at(45), last: at(102), count: 3, failure }),
        };
        let readers = ["guestbook".to_owned()];
        let finding = |state: &WatchState, seconds| {
            finding(state, &readers, "guestbook", at(seconds), Clock::default()).map(|finding| finding.text)
        };
        assert_eq!(finding(&state, 104), None);
        state.silence = Some(Duration::from_secs(105));
        assert_eq!(
            finding(&state, 105).as_deref(),
            Some(
                "The cache of configmaps has received nothing for 1 min 45 s: cached objects may be out of date. \
                 Attempt 3 failed 3 s ago: watch: connection refused. Controller guestbook reads it."
            )
        );
        state.failures = None;
        assert_eq!(finding(&state, 900), None);
    }
}
