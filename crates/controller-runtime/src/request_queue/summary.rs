//! Numbers of a controller, and lists of its requests, for programs that show them.

use std::{collections::BTreeMap, fmt::Write};

use k8s_openapi::jiff::Timestamp;
use kube_workqueue::{KeySnapshot, KeyState, Reason};
use serde::Serialize;

use super::{DelayReason, RequestQueue, RequestState, failed_events::FailedEvent, overview::FAILED_EVENTS};
use crate::{
    metrics::{Quantiles, RunsByCause},
    pace::Pace,
    reconcile::Request,
};

/// Numbers of a controller. Their cost does not depend on the length of the queue.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Summary {
    pub(crate) name: String,
    /// The kind that it reconciles, e.g. `Deployment.apps`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<String>,
    pub(crate) queued: usize,
    pub(crate) waiting: usize,
    pub(crate) running: usize,
    pub(crate) workers: usize,
    /// Failing requests among those that ran last.
    pub(crate) failing: usize,
    /// Runs since the start, and those that failed.
    pub(crate) runs: u64,
    pub(crate) failures: u64,
    /// Duration of the last run of each of the requests that ran last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) took: Option<Quantiles>,
    /// The request that has been queued for the longest time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) oldest: Option<OldestRequest>,
}

/// A queued request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct OldestRequest {
    request: String,
    since: Timestamp,
}

/// More about a controller.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Detail {
    #[serde(flatten)]
    pub(crate) summary: Summary,
    pub(crate) sources: Vec<String>,
    /// Number of waiting requests by the rule that set their time.
    pub(crate) by_rule: BTreeMap<DelayReason, usize>,
    /// Runs by the source and type of the events that led to them.
    pub(crate) by_source: Vec<RunsByCause>,
    /// Errors of failing requests, the most frequent first.
    pub(crate) errors: Vec<ErrorGroup>,
    pub(crate) failed_events: Vec<FailedEvent>,
}

/// Failing requests with one error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ErrorGroup {
    text: String,
    count: usize,
    /// One of the requests.
    example: String,
}

/// Largest number of error groups in a [`Detail`].
const ERRORS: usize = 20;

/// Largest number of keys that one list visits, however few of them it returns: 100,000 keys that are all formatted take longer than a
/// client should wait.
const VISITS: usize = 10_000;

/// Requests to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RequestFilter {
    pub(crate) state: StateFilter,
    /// Waiting because of this rule.
    pub(crate) rule: Option<DelayReason>,
    /// Part of the request's text.
    pub(crate) contains: Option<String>,
    pub(crate) after: Option<Cursor>,
    pub(crate) limit: usize,
}

impl RequestFilter {
    /// Returns whether a request in this state waits because of the rule. Without a rule every state is accepted.
    fn has_rule_of(&self, state: Option<KeyState>) -> bool {
        let waits_by = |rule| matches!(state, Some(KeyState::Waiting(waiting)) if DelayReason::from(waiting.why) == rule);
        self.rule.is_none_or(waits_by)
    }
}

/// States of the requests to list: the parameter `state` of the JSON API.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum StateFilter {
    /// All that are in the queue.
    #[default]
    Any,
    /// Ready, and waiting for a worker.
    Queued,
    /// Waiting for the end of a delay.
    Waiting,
    /// Being reconciled.
    Running,
    /// Among those that ran last, with a failed last run.
    Failing,
    /// Requests that ran last, whatever their state.
    Recent,
}

impl StateFilter {
    pub(crate) const NAMES: &'static str = "queued, waiting, running, failing or recent";

    pub(crate) fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "" | "any" => Self::Any,
            "queued" => Self::Queued,
            "waiting" => Self::Waiting,
            "running" => Self::Running,
            "failing" => Self::Failing,
            "recent" => Self::Recent,
            _ => return None,
        })
    }

    fn contains(self, state: KeyState) -> bool {
        match self {
            Self::Any => true,
            Self::Queued => matches!(state, KeyState::Ready { .. }),
            Self::Waiting => matches!(state, KeyState::Waiting(_)),
            Self::Running => matches!(state, KeyState::Processing { .. }),
            Self::Failing | Self::Recent => false,
        }
    }
}

/// Place at which a list continues: a page of the queue, and the number of its keys that earlier answers have visited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cursor {
    page: usize,
    seen: usize,
}

impl Cursor {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (page, seen) = text.split_once('.')?;
        Some(Self { page: page.parse().ok()?, seen: seen.parse().ok()? })
    }
}

/// A part of a list of requests.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct RequestPage {
    pub(crate) items: Vec<RequestItem>,
    /// Cursor of the next part; absent in the last part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<String>,
}

/// A request of a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct RequestItem {
    pub(crate) request: String,
    pub(crate) state: RequestState,
    /// Failures since the last success.
    pub(crate) failures: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

impl<R: Request> RequestQueue<R> {
    /// Numbers of the controller; those that the queue does not know are zero.
    pub(crate) fn summary(&self) -> Summary {
        let gauges = self.queue.gauges();
        let oldest = self.queue.oldest_ready().and_then(|seen| match seen.state {
            KeyState::Ready { since: Some(since) } => {
                Some(OldestRequest { request: format!("{:?}", seen.key), since: self.clock.at(since) })
            }
            _ => None,
        });
        Summary {
            name: self.controller.to_string(),
            kind: None,
            queued: gauges.depth.iter().sum(),
            waiting: gauges.waiting.iter().sum(),
            running: gauges.processing,
            workers: 0,
            failing: self.tracker.failing_count(),
            runs: 0,
            failures: 0,
            took: Quantiles::of(self.tracker.durations()),
            oldest,
        }
    }

    /// Number of waiting requests by rule.
    pub(crate) fn by_rule(&self) -> BTreeMap<DelayReason, usize> {
        let counts = Reason::ALL.into_iter().zip(self.queue.gauges().waiting);
        let waiting = counts.filter(|(_, count)| *count > 0);
        waiting.map(|(reason, count)| (DelayReason::from(reason), count)).collect()
    }

    /// Errors of failing requests, the most frequent first.
    pub(crate) fn errors(&self) -> Vec<ErrorGroup> {
        let mut groups: BTreeMap<String, (usize, R)> = BTreeMap::new();
        for request in self.tracker.failing() {
            if let Some(error) = self.tracker.last_error(&request) {
                groups.entry(error).or_insert_with(|| (0, request)).0 += 1;
            }
        }
        let group = |(text, (count, request)): (String, (usize, R))| ErrorGroup {
            text,
            count,
            example: format!("{request:?}"),
        };
        let mut groups: Vec<_> = groups.into_iter().map(group).collect();
        groups.sort_by_key(|group| std::cmp::Reverse(group.count));
        groups.truncate(ERRORS);
        groups
    }

    /// Events that a predicate or handler failed to handle.
    pub(crate) fn first_failed_events(&self) -> Vec<FailedEvent> {
        self.failed_events.first(FAILED_EVENTS, None)
    }

    /// Lists requests, in no particular order. Yields in between.
    pub(crate) async fn list(&self, filter: &RequestFilter) -> RequestPage {
        match filter.state {
            StateFilter::Failing => self.list_of(&self.tracker.failing(), filter).await,
            StateFilter::Recent => self.list_of(&self.tracker.ran(), filter).await,
            _ => self.list_queue(filter).await,
        }
    }

    async fn list_queue(&self, filter: &RequestFilter) -> RequestPage {
        let (mut items, mut pace) = (Vec::new(), Pace::begin());
        // Begins with the last page and continues with lower ones, so that keys that move to a lower page are not missed.
        let last = self.queue.snapshot_pages().saturating_sub(1);
        let start = filter.after.unwrap_or(Cursor { page: last, seen: 0 });
        // If the queue has shrunk below the cursor's page, all keys of the last page are left.
        let mut seen = if start.page <= last { start.seen } else { 0 };
        let (mut visited, mut text) = (0, String::new());
        for page in (0..=start.page.min(last)).rev() {
            for (index, key) in self.queue.snapshot_page(page).into_iter().enumerate().skip(seen) {
                if items.len() == filter.limit || visited == VISITS {
                    return RequestPage { items, next: Some(format!("{page}.{index}")) };
                }
                visited += 1;
                items.extend(self.item(&key, filter, &mut text));
                pace.step().await;
            }
            seen = 0;
        }
        RequestPage { items, next: None }
    }

    /// Lists some of `requests`. If their order changes between two parts, because some ran, requests may be missing or appear
    /// twice.
    async fn list_of(&self, requests: &[R], filter: &RequestFilter) -> RequestPage {
        let (mut items, mut pace) = (Vec::new(), Pace::begin());
        // Needs no limit of visits: the tracker stores the runs of 1024 requests at most.
        for (index, request) in requests.iter().enumerate().skip(filter.after.map_or(0, |after| after.seen)) {
            if items.len() == filter.limit {
                return RequestPage { items, next: Some(format!("0.{index}")) };
            }
            let (text, seen) = (format!("{request:?}"), self.queue.snapshot_of(request));
            let is_named = filter.contains.as_ref().is_none_or(|part| text.contains(part));
            if is_named && filter.has_rule_of(seen.as_ref().map(|seen| seen.state)) {
                items.push(RequestItem {
                    request: text,
                    failures: self.queue.num_requeues(request),
                    state: RequestState::of(seen.map(|seen| (seen.state, seen.priority)), self.clock),
                    error: self.tracker.last_error(request),
                });
            }
            pace.step().await;
        }
        RequestPage { items, next: None }
    }

    /// The item of a key that the filter accepts. `text` is a buffer, because most keys of a search are formatted in vain.
    fn item(&self, key: &KeySnapshot<R>, filter: &RequestFilter, text: &mut String) -> Option<RequestItem> {
        if !filter.state.contains(key.state) || !filter.has_rule_of(Some(key.state)) {
            return None;
        }
        text.clear();
        // Fails only if the `Debug` implementation of the key does; then the text ends where it failed.
        let _ = write!(text, "{:?}", key.key);
        if filter.contains.as_ref().is_some_and(|part| !text.contains(part)) {
            return None;
        }
        let request = text.clone();
        let state = RequestState::of(Some((key.state, key.priority)), self.clock);
        Some(RequestItem { request, state, failures: key.failures, error: self.tracker.last_error(&key.key) })
    }
}

#[cfg(test)]
mod tests {
    use kube_workqueue::{AddOptions, Queue};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pages_have_each_request_once() {
        let requests = RequestQueue::of(Queue::default());
        for number in 0..1000 {
            let how =
                if number % 2 == 0 { AddOptions::default() } else { AddOptions::default().rate_limited() };
            requests.queue.add_with(number, how);
        }
        for (state, expected) in
            [(StateFilter::Any, 1000), (StateFilter::Waiting, 500), (StateFilter::Running, 0)]
        {
            let (mut after, mut all, mut pages) = (None, Vec::new(), 0);
            loop {
                let filter = RequestFilter { state, after, limit: 99, ..RequestFilter::default() };
                let page = requests.list(&filter).await;
                assert!(page.items.len() <= 99);
                all.extend(page.items.into_iter().map(|item| item.request));
                pages += 1;
                let Some(next) = page.next else { break };
                after = Some(Cursor::parse(&next).expect("its own cursor"));
            }
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), expected, "{state:?}");
            assert!(pages <= expected / 99 + 1);
        }
        let some = RequestFilter { contains: Some("99".to_owned()), limit: 1000, ..RequestFilter::default() };
        assert_eq!(requests.list(&some).await.items.len(), 19);
        let rule = RequestFilter { rule: Some(DelayReason::Delay), limit: 10, ..RequestFilter::default() };
        assert_eq!(requests.list(&rule).await, RequestPage { items: Vec::new(), next: None });
        assert_eq!(requests.by_rule(), BTreeMap::from([(DelayReason::RateLimiter, 500)]));
        let far = RequestFilter { after: Cursor::parse("99999.7"), limit: 10, ..RequestFilter::default() };
        assert_eq!(requests.list(&far).await.items.len(), 10);
    }

    /// A search for a rare name is several short lists, which together visit each key once.
    #[tokio::test(start_paused = true)]
    async fn a_list_visits_a_limited_number_of_keys() {
        let requests = RequestQueue::of(Queue::default());
        let keys = 2 * VISITS + 1;
        for number in 0..keys {
            requests.queue.add_with(number, AddOptions::default());
        }
        let (mut after, mut found, mut lists) = (None, Vec::new(), 0);
        loop {
            let contains = Some((keys - 1).to_string());
            let page = requests
                .list(&RequestFilter { contains, after, limit: 10, ..RequestFilter::default() })
                .await;
            found.extend(page.items.into_iter().map(|item| item.request));
            lists += 1;
            let Some(next) = page.next else { break };
            after = Some(Cursor::parse(&next).expect("its own cursor"));
        }
        assert_eq!((found, lists), (vec![(keys - 1).to_string()], 3));
    }

    #[test]
    fn cursors_are_checked() {
        assert_eq!(Cursor::parse("3.17"), Some(Cursor { page: 3, seen: 17 }));
        for other in ["", "3", "3.", ".3", "-1.0", "3.1.2"] {
            assert_eq!(Cursor::parse(other), None, "{other}");
        }
    }
}
