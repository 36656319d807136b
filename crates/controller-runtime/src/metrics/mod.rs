//! Metrics, with the names, labels and buckets of controller-runtime and client-go, so that dashboards and alerts for these
//! work unchanged. Missing metrics are listed [below](#limitations).
//!
//! A manager has a registry of its own ([`Manager::metrics`](crate::Manager::metrics)); metrics of two managers in one process
//! are separate. Gauges are computed when metrics are collected, where possible, so no task keeps them up to date.
//!
//! | Family | Type and labels |
//! |---|---|
//! | `controller_runtime_reconcile_total` | counter: controller, result |
//! | `controller_runtime_reconcile_errors_total`, `…_terminal_reconcile_errors_total`, `…_reconcile_panics_total`, `…_reconcile_timeouts_total` | counter: controller |
//! | `controller_runtime_reconcile_time_seconds` | histogram: controller |
//! | `controller_runtime_max_concurrent_reconciles`, `controller_runtime_active_workers` | gauge: controller |
//! | `workqueue_depth` | gauge: name, controller, priority |
//! | `workqueue_adds_total`, `workqueue_retries_total` | counter: name, controller |
//! | `workqueue_queue_duration_seconds`, `workqueue_work_duration_seconds` | histogram: name, controller |
//! | `workqueue_unfinished_work_seconds`, `workqueue_longest_running_processor_seconds` | gauge: name, controller |
//! | `leader_election_master_status` | gauge: name |
//! | `leader_election_slowpath_total` | counter: name; never registered in Go |
//! | `rest_client_requests_total` | counter: code, method, host |
//! | `rest_client_…` | see [`Metrics::register_rest_client_metrics`] |
//! | `controller_runtime_undeclared_requests_total` | counter: verb, resource; requests that need a right which no registration declares, unless [`ManagerOptions::undeclared_requests`](crate::ManagerOptions::undeclared_requests) is `Send`; not in Go |
//! | `certwatcher_read_certificate_total`, `certwatcher_read_certificate_errors_total` | counter |
//! | `controller_runtime_webhook_requests_total` | counter: webhook (a path), code (HTTP status) |
//! | `controller_runtime_webhook_latency_seconds` | histogram: webhook |
//! | `controller_runtime_webhook_requests_in_flight` | gauge: webhook |
//! | `controller_runtime_webhook_panics_total`, `controller_runtime_conversion_webhook_panics_total` | counter |
//! | `controller_runtime_webhook_certificate_expiry_timestamp_seconds` | gauge: secret; when the served self-managed certificate expires; not in Go |
//! | `controller_runtime_webhook_certificate_changes_total`, `…_certificate_errors_total`, `controller_runtime_webhook_ca_bundle_writes_total` | counter: certificates served, failed attempts to keep certificates and configurations up to date, objects whose `caBundle` was written; not in Go |
//! | `process_cpu_seconds_total` | counter; on Linux |
//! | `process_resident_memory_bytes`, `process_virtual_memory_bytes`, `process_start_time_seconds`, `process_open_fds`, `process_max_fds`, `process_virtual_memory_max_bytes` | gauge; on Linux |
//! | `process_network_receive_bytes_total`, `process_network_transmit_bytes_total` | counter: of all processes in the network namespace, such as a pod's; on Linux |
//! | `controller_runtime_cache_objects` | gauge: resource; not in Go |
//! | `controller_runtime_cache_bytes` | gauge: resource, form (`decoded`, `text`); not in Go |
//! | `controller_runtime_cache_decoded_objects` | gauge: resource; not in Go |
//! | `controller_runtime_cache_decodes_total`, `…_unreadable_total`, `…_failures_total` | counter: resource; not in Go |
//! | `controller_runtime_cache_lists_total`, `…_watches_total` | counter: resource; requests for all objects, and watches started; not in Go |
//! | `controller_runtime_cache_dead_watches_total` | counter: resource; watches closed because they were silent for 45 s or missed an event; not in Go |
//! | `controller_runtime_cache_probes_total` | counter: resource; probes of watches that were silent for 30 s; not in Go |
//! | `controller_runtime_cache_watch_age_seconds` | gauge: resource; time since the API server last sent anything on a watch or answered a probe of it: up to 45 s; not in Go |
//! | `controller_runtime_event_failures_total` | counter: controller, source, reason (`panic`, `error`, `undecodable`); deliveries of events that failed; not in Go |
//! | `controller_runtime_events_dropped_total` | counter: controller, source; failed events that will not be delivered again; not in Go |
//! | `controller_runtime_failed_events` | gauge: controller, source; objects with failed events that wait for redelivery, or for a change if the object does not decode; not in Go |
//! | `controller_runtime_event_to_reconcile_seconds` | histogram: controller; time from the first event that leads to a reconcile until the reconcile starts; not in Go |
//! | `controller_runtime_reconcile_reasons_total` | counter: controller, source (a resource, or the name of another source), change (`created`, `updated`, `deleted`, `generic`; `none` without a source if no event led to it); a reconcile counts once for each pair of source and change, for at most four causes; not in Go |
//!
//! The label `resource` is a resource with the selection of its cache, such as `pods with app=web`. A long label is
//! cut, and a number keeps it distinct; a set of namespaces that can change is not spelt out. Caches with the same
//! label are counted together.
//!
//! The label `host` is the API server's, as in Go, if the manager knows it: from its configuration
//! ([`Manager::from_config`](crate::Manager::from_config)) or from its options
//! ([`ManagerOptions::host`](crate::ManagerOptions::host)). It is empty otherwise.
//!
//! The label `priority` has Go's numbers: `0` for events, `-100` for the initial list; `100` is what Go's users
//! choose for more urgent requests. It is empty if the controller has no
//! [priority queue](crate::controller::ControllerOptions::use_priority_queue).
//!
//! # Limitations
//!
//! Not available:
//!
//! - `rest_client_dns_resolution_duration_seconds`: [`kube::Client`] resolves names and does not report it.
//! - Native histograms, which need the protobuf format.
//! - The collector of the Go runtime (`go_…`).
//! - Profiles (`PprofBindAddress`).
//! - OpenMetrics over HTTP, which Go does not serve either. [`Metrics::encode`] returns it for servers of your own.

mod cache_metrics;
mod certificate_metrics;
mod controller_metrics;
mod election_metrics;
#[cfg(feature = "opentelemetry")]
mod example;
mod failed_event_metrics;
mod process;
mod quantiles;
mod queue;
mod reasons;
mod rest_client;
mod webhook_metrics;

use std::{borrow::Cow, collections::BTreeMap, fmt, sync::Arc};

use parking_lot::Mutex;
#[doc(no_inline)]
pub use prometheus_client;
use prometheus_client::{
    encoding::text::encode,
    metrics::{family::Family, histogram::Histogram},
    registry::{Metric, Registry},
};

pub(crate) use self::{
    certificate_metrics::CertificateMetrics, controller_metrics::ControllerMetrics,
    election_metrics::ElectionMetrics, failed_event_metrics::FailedEventMetrics, quantiles::Quantiles,
    queue::QueueGauges, reasons::RunsByCause, webhook_metrics::WebhookMetrics,
};
use self::{
    controller_metrics::ControllerFamilies, election_metrics::ElectionFamilies,
    failed_event_metrics::FailedEventFamilies, queue::QueueFamilies, rest_client::RestClientFamilies,
};
use crate::{cache::ResourceStats, client::ClientMetrics};

/// The metrics of one manager.
///
/// A handle: its clones refer to the same registry.
///
/// ```
/// use controller_runtime::metrics::{Metrics, prometheus_client::metrics::counter::Counter};
///
/// let metrics = Metrics::default(); // or Manager::metrics
/// let deliveries = Counter::<u64>::default();
/// metrics.register("deliveries", "Parcels delivered", deliveries.clone());
/// deliveries.inc();
/// assert!(metrics.encode().contains("deliveries_total 1"));
/// ```
#[derive(Clone)]
pub struct Metrics {
    inner: Arc<MetricsInner>,
}

struct MetricsInner {
    registry: Mutex<Registry>,
    controllers: ControllerFamilies,
    failed_events: FailedEventFamilies,
    queues: QueueFamilies,
    elections: ElectionFamilies,
    rest_client: Arc<RestClientFamilies>,
    certificates: CertificateMetrics,
    webhooks: WebhookMetrics,
}

impl Metrics {
    /// Adds a metric of your own. Counters get the suffix `_total`. The name must not be in use; this is not checked.
    ///
    /// Metrics are read while the registry is locked, so the encoding of a type of your own must not call these methods.
    pub fn register(&self, name: &str, help: &str, metric: impl Metric) {
        self.inner.registry.lock().register(name, help, metric);
    }

    /// Returns all current metrics in the text format of OpenMetrics 1.0. Bounds of buckets are written as by
    /// [`prometheus_client`] (`1.0`), unlike in Go. With the feature `opentelemetry`, each bucket of
    /// `controller_runtime_reconcile_time_seconds` names a trace (exemplars).
    #[must_use]
    pub fn encode(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail; an error means that a metric cannot be encoded, and the output ends before it.
        if encode(&mut text, &self.inner.registry.lock()).is_err() {
            tracing::error!(
                "a metric cannot be encoded, and the response lacks all metrics after it: check those added by Metrics::register"
            );
        }
        text
    }

    /// Returns all current metrics in the text format of Prometheus, which the metrics server uses, as Go's does.
    #[must_use]
    pub fn encode_prometheus(&self) -> String {
        prometheus_text(&self.encode())
    }

    /// Metrics of a controller.
    pub(crate) fn controller(&self, name: &str, max_concurrent_reconciles: usize) -> ControllerMetrics {
        self.inner.controllers.of(name, max_concurrent_reconciles)
    }

    /// Metrics of the events that a controller's sources failed to handle.
    pub(crate) fn failed_events(&self, controller: &str) -> FailedEventMetrics {
        self.inner.failed_events.of(controller)
    }

    /// Metrics of a controller's queue.
    pub(crate) fn queue(&self, controller: &str) -> Arc<dyn kube_workqueue::Metrics> {
        self.inner.queues.of(controller)
    }

    /// Shows the gauges of a controller's queue, by priority or in total, until the returned value is dropped.
    pub(crate) fn queue_gauges(
        &self,
        controller: &str,
        classes: bool,
        gauges: impl Fn() -> kube_workqueue::Gauges + Send + Sync + 'static,
    ) -> QueueGauges {
        self.inner.queues.show(controller, classes, gauges)
    }

    /// Adds histograms of the requests to the API server: `rest_client_request_duration_seconds`,
    /// `rest_client_rate_limiter_duration_seconds`, `rest_client_request_size_bytes`, `rest_client_response_size_bytes` by verb
    /// and host, and the counter `rest_client_request_retries_total`. They are off by default, because they are many series.
    #[doc(alias = "RegisterRESTClientMetrics")]
    pub fn register_rest_client_metrics(&self) {
        self.inner.rest_client.register_detailed(&mut self.inner.registry.lock());
    }

    /// The longest time for which a running reconcile has lasted so far, and its controller.
    pub(crate) fn longest_running(&self) -> Option<(String, std::time::Duration)> {
        self.inner.queues.longest_running()
    }

    /// Metrics of a client's requests.
    pub(crate) fn rest_client(&self) -> Arc<dyn ClientMetrics> {
        Arc::clone(&self.inner.rest_client) as Arc<dyn ClientMetrics>
    }

    /// Shows the state of the caches.
    pub(crate) fn caches(&self, stats: impl Fn() -> BTreeMap<String, ResourceStats> + Send + Sync + 'static) {
        let collector = cache_metrics::CacheCollector(Box::new(stats));
        self.inner.registry.lock().register_collector(Box::new(collector));
    }

    pub(crate) fn certificates(&self) -> CertificateMetrics {
        self.inner.certificates.clone()
    }

    pub(crate) fn webhooks(&self) -> WebhookMetrics {
        self.inner.webhooks.clone()
    }

    pub(crate) fn election(&self, name: &str) -> ElectionMetrics {
        self.inner.elections.of(name)
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        let controllers = ControllerFamilies::register(&mut registry);
        let failed_events = FailedEventFamilies::register(&mut registry);
        let queues = QueueFamilies::register(&mut registry);
        let elections = ElectionFamilies::register(&mut registry);
        let rest_client = Arc::new(RestClientFamilies::register(&mut registry));
        let certificates = CertificateMetrics::register(&mut registry);
        let webhooks = WebhookMetrics::register(&mut registry);
        registry.register_collector(Box::new(process::ProcessCollector));
        let registry = Mutex::new(registry);
        Self {
            inner: Arc::new(MetricsInner {
                registry,
                controllers,
                failed_events,
                queues,
                elections,
                rest_client,
                certificates,
                webhooks,
            }),
        }
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

/// Label names and values.
type LabelPairs = Vec<(&'static str, String)>;

type Histograms = Family<LabelPairs, Histogram, fn() -> Histogram>;

/// Go's `prometheus.ExponentialBuckets(10e-9, 10, 12)`.
const TEN_NANOSECONDS_TO_1000_SECONDS: [f64; 12] =
    [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0];

fn of_controller(controller: &str) -> LabelPairs {
    vec![("controller", controller.to_owned())]
}

/// Converts to the older format of Prometheus, which differs in names and types of families, and has no units, exemplars and
/// end mark.
fn prometheus_text(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    let mut help = "";
    for line in open_metrics.lines().filter(|line| *line != "# EOF" && !line.starts_with("# UNIT ")) {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            // The name depends on the type, which follows in the next line.
            help = rest.split_once(' ').map_or("", |(_, help)| help);
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            let (suffix, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "untyped"),
                kind => ("", kind),
            };
            text.push_str(&format!("# HELP {name}{suffix} {help}\n# TYPE {name}{suffix} {kind}\n"));
        } else {
            text.push_str(&with_bucket_as_in_go(without_exemplar(line)));
            text.push('\n');
        }
    }
    text
}

/// Removes the exemplar after the value; a `#` in the value of a label stays.
fn without_exemplar(line: &str) -> &str {
    let (mut in_quotes, mut escaped) = (false, false);
    let begin = line.char_indices().find(|(_, character)| {
        in_quotes ^= *character == '"' && !escaped;
        escaped = *character == '\\' && !escaped;
        *character == '#' && !in_quotes
    });
    begin.map_or(line, |(begin, _)| line[..begin].trim_end())
}

/// The upper bound of a bucket is a label, which queries compare as text, so it is written as Go does.
fn with_bucket_as_in_go(line: &str) -> Cow<'_, str> {
    let parts = || {
        let (name, rest) = line.split_once('{')?;
        let (bound, after) = rest.strip_prefix("le=\"")?.split_once('"')?;
        Some((name, bound.parse::<f64>().ok().filter(|bound| bound.is_finite())?, after))
    };
    match parts() {
        None => Cow::Borrowed(line),
        Some((name, bound, after)) => Cow::Owned(format!("{name}{{le=\"{}\"{after}", number_as_in_go(bound))),
    }
}

/// A number as Go's `strconv.AppendFloat` writes it in format `g`, which client_golang uses: with the fewest digits that
/// identify it, and with an exponent of at least two digits if the exponent is below -4 or above 5.
fn number_as_in_go(number: f64) -> String {
    let text = format!("{number:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    match exponent.parse::<i32>().unwrap_or_default() {
        _ if number == 0.0 => "0".to_owned(),
        -4..6 => number.to_string(),
        exponent => format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs()),
    }
}

#[cfg(test)]
mod tests;
