//! Finding `throttled`: the API server answers requests with 429. Pure.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use kube_clock::Clock;
use tokio::time::Instant;

use super::{
    Finding, FindingId, Severity,
    text::{Plural, Span},
};
use crate::client::Throttling;

/// Time over which answers are counted.
const WINDOW: Duration = Duration::from_secs(60);
/// Smallest number of answers within the window that is reported. Fewer are common and have no visible effect.
const MANY: u64 = 10;

/// Answers with 429 in the last minute, and the runs that wait because of them.
#[derive(Debug, Default)]
pub(super) struct ThrottledRequests {
    /// Answers by the second in which the first of them arrived: at most 60 entries.
    seconds: VecDeque<(Instant, u64)>,
    /// Time of the first answer since the last minute without one.
    since: Option<Instant>,
    /// The latest answer.
    last: Option<Throttling>,
    /// Number of waiting runs by controller.
    waiting: BTreeMap<Arc<str>, u64>,
}

impl ThrottledRequests {
    pub(super) fn answered(&mut self, throttling: &Throttling, now: Instant) {
        self.forget(now);
        if self.seconds.is_empty() {
            self.since = Some(now);
        }
        match self.seconds.back_mut() {
            Some((begin, count)) if now - *begin < Duration::from_secs(1) => *count += 1,
            _ => self.seconds.push_back((now, 1)),
        }
        self.last = Some(throttling.clone());
    }

    pub(super) fn wait_begins(&mut self, controller: &Arc<str>) {
        *self.waiting.entry(Arc::clone(controller)).or_default() += 1;
    }

    pub(super) fn wait_ends(&mut self, controller: &Arc<str>) {
        if let Some(waiting) = self.waiting.get_mut(controller) {
            *waiting -= 1;
            if *waiting == 0 {
                self.waiting.remove(controller);
            }
        }
    }

    /// Drops answers that are older than the window.
    fn forget(&mut self, now: Instant) {
        while self.seconds.front().is_some_and(|(begin, _)| *begin + WINDOW <= now) {
            self.seconds.pop_front();
        }
    }

    pub(super) fn finding(&mut self, now: Instant, clock: Clock) -> Option<Finding> {
        self.forget(now);
        let answers = self.seconds.iter().map(|(_, count)| count).sum::<u64>();
        let (last, since) = (self.last.as_ref()?, self.since?);
        if answers < MANY {
            return None;
        }
        let asks = match last.retry_after {
            Some(delay) if !delay.is_zero() => {
                format!(" and asks to wait {} before the next try", Span(delay))
            }
            _ => String::new(),
        };
        let waiting: Vec<String> = self
            .waiting
            .iter()
            .map(|(controller, runs)| format!("{} of {controller}", Plural(*runs, "run")))
            .collect();
        let waiting = match (waiting.is_empty(), self.waiting.values().sum::<u64>()) {
            (true, _) => "No run waits now.".to_owned(),
            (false, 1) => format!("{} waits now.", waiting.join(", ")),
            (false, _) => format!("{} wait now.", waiting.join(", ")),
        };
        let level = last.priority_level.as_deref();
        let evidence = level.map(|uid| {
            format!(
                "priority level with UID {uid}; its name: kubectl get prioritylevelconfigurations \
                 -o custom-columns=NAME:.metadata.name,UID:.metadata.uid"
            )
        });
        Some(Finding {
            id: FindingId::Throttled,
            severity: Severity::Warning,
            subject: "API server".to_owned(),
            since: clock.at(since),
            text: format!(
                "The API server refused {} of the last minute with code 429{asks}. {waiting}",
                Plural(answers, "request")
            ),
            evidence: evidence.into_iter().collect(),
            next: "If the operator sends more than it needs, reduce that or set ClientBuilder::rate_limit; \
                   otherwise give it a FlowSchema with a larger priority level."
                .to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn ten_answers_within_a_minute_are_a_finding() {
        let (mut throttled, start, clock) = (ThrottledRequests::default(), Instant::now(), Clock::default());
        let at = |seconds| start + Duration::from_secs(seconds);
        let throttling = Throttling { retry_after: Some(Duration::from_secs(1)), priority_level: None };
        for second in 0..9 {
            throttled.answered(&throttling, at(second));
        }
        assert_eq!(throttled.finding(at(9), clock), None);
        (0..4).for_each(|_| throttled.answered(&throttling, at(9)));
        throttled.wait_begins(&Arc::from("web"));
        throttled.wait_begins(&Arc::from("db"));
        throttled.wait_begins(&Arc::from("web"));
        let finding = throttled.finding(at(10), clock).expect("13 answers");
        assert_eq!(
            finding.text,
            "The API server refused 13 requests of the last minute with code 429 and asks to wait 1 s before the next try. \
             1 run of db, 2 runs of web wait now."
        );
        assert_eq!(finding.since, clock.at(start));
        throttled.wait_ends(&Arc::from("web"));
        throttled.wait_ends(&Arc::from("db"));
        assert!(
            throttled.finding(at(62), clock).expect("10 answers").text.ends_with(" 1 run of web waits now.")
        );
        assert_eq!(throttled.finding(at(63), clock), None);
    }

    #[tokio::test(start_paused = true)]
    async fn memory_is_bounded() {
        let (mut throttled, start) = (ThrottledRequests::default(), Instant::now());
        let throttling = Throttling { retry_after: None, priority_level: None };
        for tenth in 0..100_000 {
            throttled.answered(&throttling, start + Duration::from_millis(100 * tenth));
            assert!(throttled.seconds.len() <= 61);
        }
    }
}
