use std::time::Duration;

use expect_test::expect;

use super::exposition::MetricsPage;
use super::family::{Buckets, Counter, Family, Histogram};
use super::*;

#[test]
fn numbers_are_written_as_in_go() {
    let cases = [
        (0.0, "0"),
        (1.0, "1"),
        (1.25, "1.25"),
        (0.005, "0.005"),
        (-3.0, "-3"),
        (0.000_01, "1e-05"),
        (1e21, "1e+21"),
        // As kube-apiserver v1.36.3 writes large counters.
        (999_999.0, "999999"),
        (1_858_868.0, "1.858868e+06"),
        (f64::INFINITY, "+Inf"),
    ];
    for (value, expected) in cases {
        let mut page = MetricsPage::default();
        page.sample("m", &[], value);
        assert_eq!(page.into_text(), format!("m {expected}\n"));
    }
}

#[derive(Debug, Default)]
struct Two;

impl Buckets for Two {
    const BOUNDS: &'static [f64] = &[0.1, 1.0];
}

#[test]
fn buckets_contain_those_below_and_include_their_bound() {
    let histogram = Histogram::<Two>::default();
    for milliseconds in [100, 101, 1000, 5000] {
        histogram.observe(Duration::from_millis(milliseconds));
    }
    let mut page = MetricsPage::default();
    page.family("d", "histogram", "Back\\slash\nand line.");
    histogram.write(&mut page, "d", &[("name", "a \"b\"")]);
    expect![[r#"
        # HELP d Back\\slash\nand line.
        # TYPE d histogram
        d_bucket{name="a \"b\"",le="0.1"} 1
        d_bucket{name="a \"b\"",le="1"} 3
        d_bucket{name="a \"b\"",le="+Inf"} 4
        d_sum{name="a \"b\""} 6.201
        d_count{name="a \"b\""} 4
    "#]]
    .assert_eq(&page.into_text());
}

#[test]
fn series_beyond_the_limit_are_not_shown() {
    let family = Family::<usize, Counter>::default();
    for label in 0..SERIES + 10 {
        family.series(&label).increment();
    }
    family.series(&3).increment();
    let all = family.all();
    assert_eq!(all.len(), SERIES);
    assert_eq!((all[3].0, all[3].1.value()), (3, 2.0));
}

/// Returns the value of a sample.
fn value(page: &str, sample: &str) -> Option<String> {
    page.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' ')).map(str::to_owned)
}

#[tokio::test(start_paused = true)]
async fn requests_in_flight_are_shown_at_their_maximum_of_the_last_second() {
    const MUTATING: &str = "apiserver_current_inflight_requests{request_kind=\"mutating\"}";
    let metrics = Metrics::default();
    let shown = || value(&metrics.page(&[]), MUTATING).unwrap();
    assert_eq!(shown(), "0");
    let begin = || metrics.in_flight(RequestKind::Mutating, tokio::time::Instant::now());
    let (first, second) = (begin(), begin());
    drop(second);
    assert_eq!(shown(), "2");
    tokio::time::advance(Duration::from_millis(1100)).await;
    assert_eq!(shown(), "2", "the second before");
    tokio::time::advance(Duration::from_millis(1100)).await;
    assert_eq!(shown(), "1");
    drop(first);
    tokio::time::advance(Duration::from_secs(5)).await;
    assert_eq!(shown(), "0");
}

#[test]
fn a_call_of_a_webhook_counts_by_its_outcome() {
    let metrics = Metrics::default();
    let call = WebhookLabels { name: "w", kind: "admit", operation: "CREATE" };
    for outcome in [
        WebhookOutcome::Allowed,
        WebhookOutcome::Denied(403),
        WebhookOutcome::Denied(999),
        WebhookOutcome::Failed(500),
        WebhookOutcome::FailedOpen(500),
        WebhookOutcome::Internal,
    ] {
        metrics.webhooks.observe(call, outcome, Duration::ZERO);
    }
    let page = metrics.page(&[]);
    let lines = page.lines().filter(|line| !line.starts_with('#') && !line.contains("_bucket"));
    let lines: Vec<&str> = lines.filter(|line| line.contains("webhook") && !line.contains("_sum")).collect();
    expect![[r#"
        apiserver_admission_webhook_admission_duration_seconds_count{name="w",operation="CREATE",rejected="false",type="admit"} 2
        apiserver_admission_webhook_admission_duration_seconds_count{name="w",operation="CREATE",rejected="true",type="admit"} 4
        apiserver_admission_webhook_fail_open_count{name="w",type="admit"} 1
        apiserver_admission_webhook_rejection_count{error_type="apiserver_internal_error",name="w",operation="CREATE",rejection_code="0",type="admit"} 1
        apiserver_admission_webhook_rejection_count{error_type="calling_webhook_error",name="w",operation="CREATE",rejection_code="500",type="admit"} 1
        apiserver_admission_webhook_rejection_count{error_type="no_error",name="w",operation="CREATE",rejection_code="403",type="admit"} 1
        apiserver_admission_webhook_rejection_count{error_type="no_error",name="w",operation="CREATE",rejection_code="600",type="admit"} 1
        apiserver_admission_webhook_request_total{code="0",name="w",operation="CREATE",rejected="true",type="admit"} 1
        apiserver_admission_webhook_request_total{code="200",name="w",operation="CREATE",rejected="false",type="admit"} 1
        apiserver_admission_webhook_request_total{code="403",name="w",operation="CREATE",rejected="true",type="admit"} 1
        apiserver_admission_webhook_request_total{code="500",name="w",operation="CREATE",rejected="false",type="admit"} 1
        apiserver_admission_webhook_request_total{code="500",name="w",operation="CREATE",rejected="true",type="admit"} 1
        apiserver_admission_webhook_request_total{code="600",name="w",operation="CREATE",rejected="true",type="admit"} 1"#]]
    .assert_eq(&lines.join("\n"));
}
