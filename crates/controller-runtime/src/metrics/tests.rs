//! Tests that names, types, labels and buckets equal Go's.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use expect_test::expect_file;
use prometheus_client::metrics::{exemplar::HistogramWithExemplars, info::Info};

use super::*;
use crate::reconcile::{Action, Causes, Outcome, ReconcileError};

/// Names, types, labels and buckets as registered by Go's controller-runtime.
const GO: &str = "
certwatcher_read_certificate_errors_total counter
certwatcher_read_certificate_total counter
controller_runtime_active_workers gauge controller
controller_runtime_conversion_webhook_panics_total counter
controller_runtime_webhook_latency_seconds histogram webhook 1e-08 1e-07 1e-06 1e-05 0.0001 0.001 0.01 0.1 1 10 100 \
     1000 +Inf
controller_runtime_webhook_panics_total counter
controller_runtime_webhook_requests_in_flight gauge webhook
controller_runtime_webhook_requests_total counter code webhook
controller_runtime_max_concurrent_reconciles gauge controller
controller_runtime_reconcile_errors_total counter controller
controller_runtime_reconcile_panics_total counter controller
controller_runtime_reconcile_time_seconds histogram controller 0.005 0.01 0.025 0.05 0.1 0.15 0.2 0.25 0.3 0.35 0.4 \
     0.45 0.5 0.6 0.7 0.8 0.9 1 1.25 1.5 1.75 2 2.5 3 3.5 4 4.5 5 6 7 8 9 10 15 20 25 30 40 50 60 +Inf
controller_runtime_reconcile_timeouts_total counter controller
controller_runtime_reconcile_total counter controller result
controller_runtime_terminal_reconcile_errors_total counter controller
leader_election_master_status gauge name
leader_election_slowpath_total counter name
process_cpu_seconds_total counter
process_max_fds gauge
process_network_receive_bytes_total counter
process_network_transmit_bytes_total counter
process_open_fds gauge
process_resident_memory_bytes gauge
process_start_time_seconds gauge
process_virtual_memory_bytes gauge
process_virtual_memory_max_bytes gauge
rest_client_rate_limiter_duration_seconds histogram host verb 0.005 0.025 0.1 0.25 0.5 1 2 4 8 15 30 60 +Inf
rest_client_request_duration_seconds histogram host verb 0.005 0.025 0.1 0.25 0.5 1 2 4 8 15 30 60 +Inf
rest_client_request_retries_total counter code host verb
rest_client_request_size_bytes histogram host verb 64 256 512 1024 4096 16384 65536 262144 1.048576e+06 \
     4.194304e+06 1.6777216e+07 +Inf
rest_client_requests_total counter code host method
rest_client_response_size_bytes histogram host verb 64 256 512 1024 4096 16384 65536 262144 1.048576e+06 \
     4.194304e+06 1.6777216e+07 +Inf
workqueue_adds_total counter controller name
workqueue_depth gauge controller name priority
workqueue_longest_running_processor_seconds gauge controller name
workqueue_queue_duration_seconds histogram controller name 1e-08 1e-07 1e-06 1e-05 0.0001 0.001 0.01 0.1 1 10 100 1000 \
     +Inf
workqueue_retries_total counter controller name
workqueue_unfinished_work_seconds gauge controller name
workqueue_work_duration_seconds histogram controller name 1e-08 1e-07 1e-06 1e-05 0.0001 0.001 0.01 0.1 1 10 100 1000 \
     +Inf
";

/// Families of Go that a manager of this crate lacks: see the module's documentation.
const ABSENT: [&str; 1] = ["rest_client_dns_resolution_duration_seconds"];

/// Families that Go lacks.
const OURS: &str = "
controller_runtime_cache_bytes gauge form resource
controller_runtime_cache_dead_watches_total counter resource
controller_runtime_cache_decoded_objects gauge resource
controller_runtime_cache_decodes_total counter resource
controller_runtime_cache_failures_total counter resource
controller_runtime_cache_lists_total counter resource
controller_runtime_cache_objects gauge resource
controller_runtime_cache_probes_total counter resource
controller_runtime_cache_unreadable_total counter resource
controller_runtime_cache_watch_age_seconds gauge resource
controller_runtime_cache_watches_total counter resource
controller_runtime_event_to_reconcile_seconds histogram controller 0.0001 0.001 0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 \
     2.5 5 10 60 1000 +Inf
controller_runtime_reconcile_reasons_total counter change controller source
controller_runtime_undeclared_requests_total counter resource verb
controller_runtime_webhook_ca_bundle_writes_total counter
controller_runtime_webhook_certificate_changes_total counter
controller_runtime_webhook_certificate_errors_total counter
controller_runtime_webhook_certificate_expiry_timestamp_seconds gauge secret
";

/// All metrics of a new manager with one controller and an election.
fn metrics() -> (Metrics, ControllerMetrics, QueueGauges) {
    let metrics = Metrics::default();
    let controller = metrics.controller("web", 4);
    let _queue = metrics.queue("web");
    let gauges = metrics.queue_gauges("web", true, kube_workqueue::Gauges::default);
    let _election = metrics.election("lease");
    metrics.webhooks().of("/validate-v1-pod").begin().end(200);
    metrics.webhooks().certificate_served("default/hooks", Duration::from_secs(1));
    metrics.register_rest_client_metrics();
    let client = metrics.rest_client();
    client.undeclared("delete", "configmaps");
    client.request("200", "GET", "api:443");
    client.request_duration("GET", "api:443", Duration::from_millis(3));
    client.rate_limiter_duration("GET", "api:443", Duration::ZERO);
    client.request_size("GET", "api:443", 0);
    client.response_size("GET", "api:443", 1000);
    client.retry("429", "GET", "api:443");
    let stats = ResourceStats { silence: Some(Duration::from_secs(3)), ..ResourceStats::default() };
    metrics.caches(move || [("pods".to_owned(), stats)].into());
    (metrics, controller, gauges)
}

/// The families of an exposition in the form of [`GO`].
fn families(text: &str) -> String {
    let kinds: BTreeMap<&str, &str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect();
    let mut shapes: BTreeMap<&str, (BTreeSet<&str>, Vec<&str>)> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, rest) =
            line.split_once('{').unwrap_or_else(|| (line.split(' ').next().expect("a name"), "}"));
        let suffixes = ["_bucket", "_sum", "_count"];
        let family = suffixes.iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name);
        let (labels, buckets) = shapes.entry(family).or_default();
        for label in rest.split_once('}').expect("labels end").0.split(',').filter(|label| !label.is_empty())
        {
            match label.split_once('=').expect("a label has a value") {
                ("le", bucket) => buckets.push(bucket.trim_matches('"')),
                (label, _) => {
                    labels.insert(label);
                }
            }
        }
    }
    let line = |(name, (labels, buckets)): (&str, (BTreeSet<&str>, Vec<&str>))| {
        let words = [name, kinds[name]].into_iter().chain(labels).chain(buckets);
        words.collect::<Vec<_>>().join(" ")
    };
    shapes.into_iter().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn names_labels_and_buckets_are_those_of_go() {
    let (metrics, _controller, _gauges) = metrics();
    let text = metrics.encode_prometheus();
    let mut expected: Vec<_> = GO.trim().lines().chain(OURS.trim().lines()).collect();
    expected.sort_unstable();
    assert_eq!(families(&text), expected.join("\n"));
    for family in ABSENT {
        assert!(!text.contains(family), "{family} is there now: say so in the documentation");
    }
}

/// Left: the bound; right: the result of Go's `strconv.AppendFloat(nil, bound, 'g', -1, 64)`.
#[test]
fn bounds_of_buckets_are_written_as_go_does() {
    let bounds = [
        (0.0, "0"),
        (1.0, "1"),
        (-2.5, "-2.5"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (-0.000_025, "-2.5e-05"),
        (5e-324, "5e-324"),
        (123_456.789, "123456.789"),
        (999_999.0, "999999"),
        (1e6, "1e+06"),
        (1_234_567.5, "1.2345675e+06"),
        (1e20, "1e+20"),
        (1e21, "1e+21"),
        (1e100, "1e+100"),
    ];
    let metrics = Metrics::default();
    metrics.register("sizes", "Sizes", Histogram::new(bounds.map(|(bound, _)| bound)));
    let text = metrics.encode_prometheus();
    for (bound, expected) in bounds {
        assert_eq!(number_as_in_go(bound), expected);
        assert!(
            text.contains(&format!("sizes_bucket{{le=\"{expected}\"}} 0\n")),
            "{expected} is not in {text}"
        );
    }
    let quoted = "quotes{of=\"{le=\\\"1.0\\\"\"} 1";
    assert_eq!(with_bucket_as_in_go(quoted), quoted);
}

#[test]
fn metrics_are_converted_to_the_text_format_of_prometheus() {
    let metrics = Metrics::default();
    metrics.register("build", "Which it is", Info::new([("version", "1 # {2}\"\\")]));
    let sizes = HistogramWithExemplars::<Vec<(&str, &str)>>::new([2.0].into_iter());
    sizes.observe(1.0, Some(vec![("trace", "a b")]), None);
    metrics.register("sizes", "Sizes", sizes);
    let text = metrics.encode_prometheus();
    let expected = "\
# HELP build_info Which it is.
# TYPE build_info gauge
build_info{version=\"1 # {2}\\\"\\\\\"} 1
# HELP sizes Sizes.
# TYPE sizes histogram
sizes_sum 1.0
sizes_count 1
sizes_bucket{le=\"2\"} 1
sizes_bucket{le=\"+Inf\"} 1
";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn frequent_counters_start_at_zero() {
    let (metrics, _controller, _gauges) = metrics();
    let text = metrics.encode();
    for result in ["success", "error", "requeue", "requeue_after"] {
        let sample =
            format!("controller_runtime_reconcile_total{{controller=\"web\",result=\"{result}\"}} 0\n");
        assert!(text.contains(&sample), "{sample} is not in {text}");
    }
    assert!(text.contains("controller_runtime_max_concurrent_reconciles{controller=\"web\"} 4\n"));
    assert!(text.contains("workqueue_depth{name=\"web\",controller=\"web\",priority=\"-100\"} 0\n"));
    assert!(text.ends_with("# EOF\n"));
}

#[test]
fn outcomes_are_counted_as_in_go() {
    let (metrics, controller, _gauges) = metrics();
    let outcomes = [
        Outcome::Returned(Ok(Action::done())),
        Outcome::Returned(Ok(Action::requeue())),
        Outcome::Returned(Ok(Action::requeue_after(Duration::from_secs(1)))),
        Outcome::Returned(Err(ReconcileError::terminal("no"))),
        Outcome::Returned(Err(ReconcileError::new("not yet"))),
        Outcome::Panicked("oh".to_owned()),
        Outcome::TimedOut,
    ];
    for outcome in &outcomes {
        controller.begin(&Causes::default(), None).end(outcome, Duration::from_millis(400));
    }
    let text = metrics.encode();
    let count = |sample: &str| {
        let line = text.lines().find(|line| line.starts_with(sample)).expect("the sample is there");
        line.rsplit_once(' ').expect("a sample has a value").1.to_owned()
    };
    let expected = [
        ("reconcile_total{controller=\"web\",result=\"success\"}", "1"),
        ("reconcile_total{controller=\"web\",result=\"requeue\"}", "1"),
        ("reconcile_total{controller=\"web\",result=\"requeue_after\"}", "1"),
        ("reconcile_total{controller=\"web\",result=\"error\"}", "4"),
        ("reconcile_errors_total", "4"),
        ("terminal_reconcile_errors_total", "1"),
        ("reconcile_panics_total", "1"),
        ("reconcile_timeouts_total", "1"),
        ("reconcile_time_seconds_count", "7"),
        ("reconcile_time_seconds_bucket{le=\"0.35\"", "0"),
        ("reconcile_time_seconds_bucket{le=\"0.4\"", "7"),
        ("active_workers", "0"),
    ];
    for (sample, value) in expected {
        assert_eq!(count(&format!("controller_runtime_{sample}")), value, "{sample}");
    }
}

#[test]
fn a_reconcile_that_is_dropped_is_no_longer_active_and_has_no_outcome() {
    let (metrics, controller, _gauges) = metrics();
    let measured = controller.begin(&Causes::default(), None);
    assert!(metrics.encode().contains("active_workers{controller=\"web\"} 1\n"));
    drop(measured);
    let text = metrics.encode();
    assert!(text.contains("active_workers{controller=\"web\"} 0\n"));
    assert!(text.contains("reconcile_time_seconds_count{controller=\"web\"} 0\n"));
}

#[test]
fn a_queue_without_classes_shows_one_depth_of_no_priority_as_in_go() {
    let metrics = Metrics::default();
    let gauges = || {
        let mut gauges = kube_workqueue::Gauges::default();
        gauges.depth = [1, 2, 4];
        gauges
    };
    let _shown = metrics.queue_gauges("web", false, gauges);
    let text = metrics.encode();
    let depths: Vec<_> = text.lines().filter(|line| line.starts_with("workqueue_depth{")).collect();
    assert_eq!(depths, ["workqueue_depth{name=\"web\",controller=\"web\",priority=\"\"} 7"]);
}

#[test]
fn a_dropped_queue_has_no_gauges() {
    let (metrics, _controller, gauges) = metrics();
    assert!(metrics.encode().contains("workqueue_depth"));
    drop(gauges);
    assert!(!metrics.encode().contains("workqueue_depth"));
}

#[cfg(target_os = "linux")]
#[test]
fn the_process_reports_its_resources() {
    let text = Metrics::default().encode_prometheus();
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|value| value.parse::<f64>().ok()).unwrap_or_else(|| panic!("{name} is not in {text}"))
    };
    assert!(value("process_cpu_seconds_total") >= 0.0);
    let (resident, all) = (value("process_resident_memory_bytes"), value("process_virtual_memory_bytes"));
    assert!(1e6 < resident && resident < all, "{resident} of {all}");
    assert!(0.0 < value("process_open_fds") && value("process_open_fds") < value("process_max_fds"));
    // The process started shortly before it made this file.
    let file = tempfile::tempfile().and_then(|file| file.metadata()?.modified()).expect("a file is made");
    let now = file.duration_since(std::time::UNIX_EPOCH).expect("it is after 1970").as_secs_f64();
    assert!((now - 3600.0..now + 2.0).contains(&value("process_start_time_seconds")), "{now} and {text}");
    assert!(text.contains("# HELP process_open_fds Number of open file descriptors.\n"), "{text}");
}

#[test]
fn two_managers_do_not_add_to_each_other() {
    let (one, controller, _gauges) = metrics();
    let (other, _, _other_gauges) = metrics();
    controller.begin(&Causes::default(), None).end(&Outcome::TimedOut, Duration::ZERO);
    let sample = "controller_runtime_reconcile_timeouts_total{controller=\"web\"}";
    assert!(one.encode().contains(&format!("{sample} 1")) && other.encode().contains(&format!("{sample} 0")));
}

/// Introduction of the page of the book about metrics.
const PAGE: &str = "# Metrics

<!-- Written by crates/controller-runtime/src/metrics/tests.rs: change the metrics, then update this page with
`UPDATE_EXPECT=1 cargo test -p controller-runtime --lib metrics`. -->

The metrics of a manager, which its metrics server serves at `/metrics` and `Manager::metrics` returns. Those with a \u{2713} exist in Go's
controller-runtime with the same name, labels and buckets, so that dashboards and alerts for Go work unchanged. Families without a
sample yet are absent. Metrics of the process are available on Linux.

| metric | type | labels | Go | meaning |
|---|---|---|---|---|
";

#[cfg(target_os = "linux")]
#[test]
fn the_page_of_metrics_has_all_of_them() {
    let (metrics, _controller, _gauges) = metrics();
    let failed = metrics.failed_events("web");
    failed.count("pods", "panic");
    failed.count_dropped("pods");
    failed.add_waiting("pods", 1);
    let text = metrics.encode_prometheus();
    let help: BTreeMap<&str, &str> =
        text.lines().filter_map(|line| line.strip_prefix("# HELP ")?.split_once(' ')).collect();
    let mut page = PAGE.to_owned();
    for family in families(&text).lines() {
        let mut words = family.split(' ');
        let (name, kind) = (words.next().expect("a name"), words.next().expect("a type"));
        let labels: Vec<_> =
            words.filter(|word| word.starts_with(|c: char| c.is_ascii_lowercase())).collect();
        let in_go = GO.lines().any(|line| line.split(' ').next() == Some(name));
        let mark = if in_go { "\u{2713}" } else { "" };
        let meaning = help[name].trim_end_matches('.').replace('|', "\\|");
        page.push_str(&format!("| `{name}` | {kind} | {} | {mark} | {meaning} |\n", labels.join(", ")));
    }
    expect_file!["../../../../docs/book/src/reference/metrics.md"].assert_eq(&page);
}
