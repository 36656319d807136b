//! Exemplars of histograms.

use std::fmt;

use opentelemetry::trace::TraceId;
use prometheus_client::encoding::{EncodeLabel, EncodeLabelSet, LabelSetEncoder};

/// A trace as an exemplar of OpenMetrics.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trace(pub(super) TraceId);

impl EncodeLabelSet for Trace {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        // The label by which tools find the trace.
        ("trace_id", self.0.to_string()).encode(encoder.encode_label())
    }
}
