//! Metrics of the server, with the names and labels of kube-apiserver.
//!
//! A [`Family`] is a metric with its series by labels; [`exposition`] writes the text format of Prometheus. No library is used, for two
//! reasons: one lookup must return both the counter and the histogram of a request, and the text must equal that of Go's client, down to
//! the order of labels and the form of numbers.
//!
//! A client cannot choose the values of labels freely: they are served resources and their subresources, verbs, and names of webhooks. A
//! family has at most [`SERIES`] series; other label sets share one series that is not shown.

mod exposition;
mod family;
mod in_flight;
mod requests;
mod webhook_metrics;

use std::sync::Arc;

use parking_lot::Mutex;

use self::exposition::MetricsPage;
pub(crate) use self::family::Counter;
use self::family::{Family, Gauge};
use self::in_flight::Peaks;
pub(crate) use self::in_flight::RequestKind;
pub(crate) use self::requests::{MeasuredTarget, Measurement, RequestLabels};
use self::requests::{RequestSeries, WatchLabels};
use self::webhook_metrics::WebhookMetrics;
pub(crate) use self::webhook_metrics::{WebhookLabels, WebhookOutcome};
use crate::kind::resource::{Resource, StorageKey};

/// Maximum number of series of a metric.
pub(crate) const SERIES: usize = 10_000;

/// Content type of the page, that of Go's client.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";

/// Metrics of a server.
#[derive(Default)]
pub(crate) struct Metrics {
    requests: Family<RequestLabels, RequestSeries>,
    long_running: Family<RequestLabels, Gauge>,
    watch_events: Family<WatchLabels, Counter>,
    in_flight: Peaks,
    pub(crate) webhooks: WebhookMetrics,
    /// Held while a page is written, so that only one page is written at a time.
    page: Mutex<()>,
}

impl Metrics {
    /// Returns the counter of events that watches of a resource send.
    pub(crate) fn watch_events(&self, resource: &Arc<Resource>) -> Arc<Counter> {
        self.watch_events.series(&WatchLabels::of(resource))
    }

    /// Writes all metrics as text. `objects` are the numbers of stored objects.
    pub(crate) fn page(&self, objects: &[(StorageKey, usize)]) -> String {
        let _alone = self.page.lock();
        let mut page = MetricsPage::default();
        requests::write(&mut page, &self.requests, &self.long_running, &self.watch_events);
        self.in_flight.write(&mut page);
        self.webhooks.write(&mut page);
        write_objects(&mut page, objects);
        page.into_text()
    }
}

fn write_objects(page: &mut MetricsPage, objects: &[(StorageKey, usize)]) {
    const HELP: &str = "Number of stored objects at the time of last check split by kind. In case of a fetching error, the value \
                        will be -1.";
    page.family("apiserver_resource_objects", "gauge", &format!("[ALPHA] {HELP}"));
    for (storage, number) in objects {
        let labels = [("group", storage.group.as_str()), ("resource", &storage.plural)];
        page.sample("apiserver_resource_objects", &labels, *number as f64);
    }
    let help = format!("[STABLE] [DEPRECATED, consider using apiserver_resource_objects instead] {HELP}");
    page.family("apiserver_storage_objects", "gauge", &help);
    for (storage, number) in objects {
        let dot = if storage.group.is_empty() { "" } else { "." };
        let resource = format!("{}{dot}{}", storage.plural, storage.group);
        page.sample("apiserver_storage_objects", &[("resource", &resource)], *number as f64);
    }
}

#[cfg(test)]
mod tests;
