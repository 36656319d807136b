//! Metrics of admission webhooks.

use std::time::Duration;

use super::exposition::MetricsPage;
use super::family::{Buckets, Counter, Family, Histogram};

/// Highest status code that is shown. Higher codes count as this one.
const HIGHEST_CODE: u16 = 600;

/// A call of a webhook.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WebhookLabels<'a> {
    /// Name of the webhook.
    pub(crate) name: &'a str,
    /// `admit` for a mutating webhook, `validating` for others.
    pub(crate) kind: &'static str,
    /// `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    pub(crate) operation: &'static str,
}

/// Effect of a webhook, or of its failure, on a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WebhookOutcome {
    Allowed,
    /// The webhook refuses the request, with this status code.
    Denied(u16),
    /// The call failed with this status code, and the failure policy ignores that.
    FailedOpen(u16),
    /// The call failed with this status code, and the request is refused.
    Failed(u16),
    /// The API server cannot use the response.
    Internal,
}

#[derive(Debug, Default)]
struct WebhookBuckets;

impl Buckets for WebhookBuckets {
    const BOUNDS: &'static [f64] = &[0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0];
}

type LabelPairs = Vec<(&'static str, String)>;

/// Metrics of admission webhooks.
#[derive(Default)]
pub(crate) struct WebhookMetrics {
    duration: Family<LabelPairs, Histogram<WebhookBuckets>>,
    fail_open: Family<LabelPairs, Counter>,
    rejections: Family<LabelPairs, Counter>,
    requests: Family<LabelPairs, Counter>,
}

impl WebhookMetrics {
    /// Counts a call.
    pub(crate) fn observe(&self, call: WebhookLabels<'_>, outcome: WebhookOutcome, duration: Duration) {
        let (code, is_rejected, error) = match outcome {
            WebhookOutcome::Allowed => (200, false, None),
            WebhookOutcome::FailedOpen(code) => (code, false, None),
            WebhookOutcome::Denied(code) => (code, true, Some("no_error")),
            WebhookOutcome::Failed(code) => (code, true, Some("calling_webhook_error")),
            WebhookOutcome::Internal => (0, true, Some("apiserver_internal_error")),
        };
        let code = code.min(HIGHEST_CODE).to_string();
        let rejected = is_rejected.to_string();
        let WebhookLabels { name, kind, operation } = call;
        // Each list is sorted by the names of the labels, as the page requires.
        let labels = |pairs: &[(&'static str, &str)]| -> LabelPairs {
            pairs.iter().map(|(label, value)| (*label, (*value).to_owned())).collect()
        };
        let timed =
            labels(&[("name", name), ("operation", operation), ("rejected", &rejected), ("type", kind)]);
        self.duration.series(&timed).observe(duration);
        let counted = labels(&[
            ("code", &code),
            ("name", name),
            ("operation", operation),
            ("rejected", &rejected),
            ("type", kind),
        ]);
        self.requests.series(&counted).increment();
        if let Some(error) = error {
            let rejection = labels(&[
                ("error_type", error),
                ("name", name),
                ("operation", operation),
                ("rejection_code", &code),
                ("type", kind),
            ]);
            self.rejections.series(&rejection).increment();
        }
        if matches!(outcome, WebhookOutcome::FailedOpen(_)) {
            self.fail_open.series(&labels(&[("name", name), ("type", kind)])).increment();
        }
    }

    pub(super) fn write(&self, page: &mut MetricsPage) {
        let name = "apiserver_admission_webhook_admission_duration_seconds";
        let help = "[STABLE] Admission webhook latency histogram in seconds, identified by name and broken out for each operation and \
                    API resource and type (validate or admit).";
        page.family(name, "histogram", help);
        for (labels, histogram) in self.duration.all() {
            histogram.write(page, name, &borrowed(&labels));
        }
        let counters = [
            (
                "apiserver_admission_webhook_fail_open_count",
                "[ALPHA] Admission webhook fail open count, identified by name and broken out for each admission type (validating or \
                 admit).",
                &self.fail_open,
            ),
            (
                "apiserver_admission_webhook_rejection_count",
                "[ALPHA] Admission webhook rejection count, identified by name and broken out for each admission type (validating or \
                 admit) and operation. Additional labels specify an error type (calling_webhook_error or apiserver_internal_error if \
                 an error occurred; no_error otherwise) and optionally a non-zero rejection code if the webhook rejects the request \
                 with an HTTP status code (honored by the apiserver when the code is greater or equal to 400). Codes greater than 600 \
                 are truncated to 600, to keep the metrics cardinality bounded.",
                &self.rejections,
            ),
            (
                "apiserver_admission_webhook_request_total",
                "[ALPHA] Admission webhook request total, identified by name and broken out for each admission type (validating or \
                 admit) and operation. Additional labels specify whether the request was rejected or not and an HTTP status code. \
                 Codes greater than 600 are truncated to 600, to keep the metrics cardinality bounded.",
                &self.requests,
            ),
        ];
        for (name, help, family) in counters {
            page.family(name, "counter", help);
            for (labels, counter) in family.all() {
                page.sample(name, &borrowed(&labels), counter.value());
            }
        }
    }
}

fn borrowed(labels: &LabelPairs) -> Vec<(&str, &str)> {
    labels.iter().map(|(label, value)| (*label, value.as_str())).collect()
}
