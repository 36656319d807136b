//! Metrics of requests and watches.

use std::cmp::Ordering;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::Metrics;
use super::exposition::MetricsPage;
use super::family::{Buckets, Counter, Family, Gauge, Histogram};
use super::in_flight::{InFlight, RequestKind};
use crate::kind::resource::Resource;

/// Group, version and plural of a resource.
#[derive(Debug, Clone)]
struct ResourceLabel(Arc<Resource>);

impl ResourceLabel {
    fn texts(&self) -> (&str, &str, &str) {
        (&self.0.group, &self.0.version, &self.0.plural)
    }
}

impl PartialEq for ResourceLabel {
    fn eq(&self, other: &Self) -> bool {
        self.texts() == other.texts()
    }
}

impl Eq for ResourceLabel {}

impl PartialOrd for ResourceLabel {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ResourceLabel {
    fn cmp(&self, other: &Self) -> Ordering {
        self.texts().cmp(&other.texts())
    }
}

/// Target of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum MeasuredTarget<'a> {
    /// A resource; `scope` is `resource`, `namespace` or `cluster`.
    Resource { resource: &'a Arc<Resource>, subresource: &'a str, scope: &'static str },
    /// A path of the server, and the component that serves it.
    Path { path: &'a str, component: &'static str },
}

/// Labels of a request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RequestLabels {
    resource: Option<ResourceLabel>,
    /// Subresource, or the path of a request without a resource.
    subresource: Box<str>,
    verb: &'static str,
    dry_run: &'static str,
    scope: &'static str,
    component: &'static str,
}

impl RequestLabels {
    /// Creates the labels. `verb` is the HTTP method, or `LIST`, `WATCH`, `APPLY` or `CONNECT`; `dry_run` is empty, `All` or `invalid`.
    pub(crate) fn new(verb: &'static str, dry_run: &'static str, target: MeasuredTarget<'_>) -> Self {
        match target {
            MeasuredTarget::Resource { resource, subresource, scope } => Self {
                resource: Some(ResourceLabel(Arc::clone(resource))),
                subresource: subresource.into(),
                verb,
                dry_run,
                scope,
                component: "apiserver",
            },
            MeasuredTarget::Path { path, component } => {
                Self { resource: None, subresource: path.into(), verb, dry_run, scope: "", component }
            }
        }
    }

    fn resource(&self) -> (&str, &str, &str) {
        self.resource.as_ref().map(ResourceLabel::texts).unwrap_or_default()
    }

    /// Returns the labels of the duration, sorted by name.
    fn texts(&self) -> [(&'static str, &str); 8] {
        let (group, version, resource) = self.resource();
        [
            ("component", self.component),
            ("dry_run", self.dry_run),
            ("group", group),
            ("resource", resource),
            ("scope", self.scope),
            ("subresource", &self.subresource),
            ("verb", self.verb),
            ("version", version),
        ]
    }
}

/// Bounds of kube-apiserver for the duration of requests.
#[derive(Debug, Default)]
pub(super) struct RequestBuckets;

impl Buckets for RequestBuckets {
    const BOUNDS: &'static [f64] = &[
        0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0,
        15.0, 20.0, 30.0, 45.0, 60.0,
    ];
}

/// Answered requests with equal labels.
#[derive(Debug, Default)]
pub(super) struct RequestSeries {
    /// Number of responses by status code, in the order in which the codes first occurred.
    codes: Mutex<Vec<(u16, u64)>>,
    duration: Histogram<RequestBuckets>,
}

impl RequestSeries {
    fn observe(&self, code: u16, since: Instant) {
        {
            let mut codes = self.codes.lock();
            match codes.iter_mut().find(|(known, _)| *known == code) {
                Some((_, number)) => *number += 1,
                None => codes.push((code, 1)),
            }
        }
        self.duration.observe(since.elapsed());
    }
}

/// A request in progress. It is counted when it is answered; a request that is dropped before is not counted.
pub(crate) struct Measurement {
    series: Arc<RequestSeries>,
    since: Instant,
    /// Gauge of long-running requests with the same labels.
    long_running: Option<Arc<Gauge>>,
}

impl Metrics {
    /// Counts a request that is being processed, until the guard is dropped.
    pub(crate) fn in_flight(&self, kind: RequestKind, now: Instant) -> InFlight<'_> {
        self.in_flight.begin(kind, now)
    }

    /// Begins the measurement of a request that arrived at `since`.
    pub(crate) fn measure(&self, labels: &RequestLabels, since: Instant) -> Measurement {
        Measurement { series: self.requests.series(labels), since, long_running: None }
    }

    /// Like [`measure`](Self::measure), but for a watch or connection.
    pub(crate) fn measure_long(&self, labels: &RequestLabels, since: Instant) -> Measurement {
        // Long-running requests have no label for dry runs.
        let gauge = self.long_running.series(&RequestLabels { dry_run: "", ..labels.clone() });
        gauge.add(1);
        Measurement { series: self.requests.series(labels), since, long_running: Some(gauge) }
    }
}

impl Measurement {
    /// Counts the response.
    pub(crate) fn answered(&self, code: u16) {
        self.series.observe(code, self.since);
    }
}

impl Drop for Measurement {
    fn drop(&mut self) {
        if let Some(gauge) = &self.long_running {
            gauge.add(-1);
        }
    }
}

/// Labels of a watched resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WatchLabels(ResourceLabel);

impl WatchLabels {
    pub(super) fn of(resource: &Arc<Resource>) -> Self {
        Self(ResourceLabel(Arc::clone(resource)))
    }
}

/// Writes the metrics of requests and watches.
pub(super) fn write(
    page: &mut MetricsPage,
    requests: &Family<RequestLabels, RequestSeries>,
    long_running: &Family<RequestLabels, Gauge>,
    watch_events: &Family<WatchLabels, Counter>,
) {
    let name = "apiserver_longrunning_requests";
    let help = "[STABLE] Gauge of all active long-running apiserver requests broken out by verb, group, version, resource, scope and \
                component. Not all requests are tracked this way.";
    page.family(name, "gauge", help);
    let mut long_running = long_running.all();
    long_running.sort_by(|(one, _), (other, _)| one.texts().cmp(&other.texts()));
    for (labels, gauge) in long_running {
        let labels: Vec<_> = labels.texts().into_iter().filter(|(label, _)| *label != "dry_run").collect();
        page.sample(name, &labels, gauge.value());
    }
    // A request that is not answered yet has a series without observations.
    let mut requests = requests.all();
    requests.retain(|(_, series)| !series.duration.is_empty());
    requests.sort_by(|(one, _), (other, _)| one.texts().cmp(&other.texts()));
    let name = "apiserver_request_duration_seconds";
    let help = "[STABLE] Response latency distribution in seconds for each verb, dry run value, group, version, resource, subresource, \
                scope and component.";
    page.family(name, "histogram", help);
    for (labels, series) in &requests {
        series.duration.write(page, name, &labels.texts());
    }
    let name = "apiserver_request_total";
    let help = "[STABLE] Counter of apiserver requests broken out for each verb, dry run value, group, version, resource, scope, \
                component, and HTTP response code.";
    page.family(name, "counter", help);
    let mut codes: Vec<_> = requests
        .iter()
        .flat_map(|(labels, series)| {
            let codes = series.codes.lock().clone();
            codes.into_iter().map(move |(code, number)| (code, labels, number))
        })
        .collect();
    // The sort is stable: series with the same code keep the order of their labels, as Go's client writes them.
    codes.sort_by_key(|(code, ..)| *code);
    for (code, labels, number) in codes {
        let code = code.to_string();
        let all: Vec<_> = [("code", code.as_str())].into_iter().chain(labels.texts()).collect();
        page.sample(name, &all, number as f64);
    }
    let name = "apiserver_watch_events_total";
    page.family(name, "counter", "[ALPHA] Number of events sent in watch clients");
    for (WatchLabels(resource), counter) in watch_events.all() {
        let (group, version, resource) = resource.texts();
        page.sample(name, &[("group", group), ("resource", resource), ("version", version)], counter.value());
    }
}
