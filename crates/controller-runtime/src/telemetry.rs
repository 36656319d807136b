//! Spans for OpenTelemetry, with the feature `opentelemetry`.
//!
//! An operator adds [`layer`] to its subscriber:
//!
//! ```
//! use controller_runtime::{logging::{self, LogOptions}, telemetry};
//! use opentelemetry_sdk::trace::{SdkTracerProvider, SpanExporter};
//! use tracing_subscriber::{layer::SubscriberExt, util::SubscriberInitExt};
//!
//! /// Logs at the levels in `RUST_LOG`, and sends spans to `exporter`, such as `opentelemetry_otlp::SpanExporter`.
//! fn init(exporter: impl SpanExporter + 'static) -> Result<SdkTracerProvider, logging::InitError> {
//!     let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).build();
//!     tracing_subscriber::registry()
//!         .with(logging::layer(&LogOptions::default())?)
//!         .with(telemetry::layer(&provider))
//!         .init();
//!     Ok(provider) // call its shutdown() at the end of main, to send remaining spans
//! }
//! ```
//!
//! Each reconcile is a trace of its own, with the root span `reconcile`. Its log lines have the fields controller, request,
//! `reconcileID` and attempt. With this feature the span has the following as well, whichever layer of
//! [`tracing_opentelemetry`] exports it:
//!
//! | Attribute | Meaning |
//! |---|---|
//! | a link | to the span of the previous run of the same request, unless that run succeeded without requeueing the request. The links lead from the tenth attempt to the first. |
//! | `causes` | the events that led to the run, as in [`Context::causes`](crate::Context::causes); for a run without events `a retry`, `requested by the previous run`, or `initial list, resync or source` |
//! | `waitedSeconds` | time since the first of these events or, without an event, since the end of the run that requeued the request. Absent if there was neither. |
//!
//! [`Manager::explain`](crate::Manager::explain) names the traces of the last runs of a request ([`Run::span`]). Links and
//! trace names exist only for runs that are exported: runs dropped by the sampler have neither.
//!
//! [`Run::span`]: crate::request_queue::Run::span

use k8s_openapi::jiff::Timestamp;
use opentelemetry::{
    InstrumentationScope,
    trace::{TraceContextExt, Tracer, TracerProvider},
};
use serde::Serializer;
use tokio::time::Duration;
use tracing::{Span, Subscriber, level_filters::LevelFilter};
use tracing_opentelemetry::{OpenTelemetryLayer, OpenTelemetrySpanExt};
use tracing_subscriber::{
    Layer,
    filter::{Filtered, Targets},
    registry::LookupSpan,
};

#[doc(no_inline)]
pub use opentelemetry::trace::SpanContext;

use crate::reconcile::Causes;

/// The layer made by [`layer`]: spans for OpenTelemetry, restricted by the filter.
pub type SpanLayer<S, T> = Filtered<OpenTelemetryLayer<S, T>, Targets, S>;

/// Makes a layer that exports the spans of reconciles, and the spans within them, through the tracers of `provider`.
///
/// It receives the spans and events that [`targets`] selects, independently of the filters of other layers. To select others:
///
/// ```
/// # let provider = opentelemetry_sdk::trace::SdkTracerProvider::default();
/// # let _ = tracing_subscriber::layer::SubscriberExt::with(tracing_subscriber::registry(), {
/// use controller_runtime::telemetry;
/// use tracing::Level;
///
/// let mut spans = telemetry::layer(&provider);
/// *spans.filter_mut() = telemetry::targets().with_target("guestbook", Level::DEBUG);
/// # spans
/// # });
/// ```
pub fn layer<S, P>(provider: &P) -> SpanLayer<S, P::Tracer>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    P: TracerProvider,
    P::Tracer: 'static,
    <P::Tracer as Tracer>::Span: Send + Sync,
{
    let scope = InstrumentationScope::builder(env!("CARGO_PKG_NAME"));
    let tracer = provider.tracer_with_scope(scope.with_version(env!("CARGO_PKG_VERSION")).build());
    // Without attributes of the thread, because a reconcile moves between threads.
    tracing_opentelemetry::layer().with_threads(false).with_tracer(tracer).with_filter(targets())
}

/// Default selection of [`layer`]: level `INFO` and above, and `DEBUG` for this crate and for `kube`'s client, which has a span
/// for each request to the API server.
#[must_use]
pub fn targets() -> Targets {
    ["controller_runtime", "kube_client"]
        .into_iter()
        .fold(Targets::new().with_default(LevelFilter::INFO), |targets, of| {
            targets.with_target(of, LevelFilter::DEBUG)
        })
}

/// Facts about a run that did not complete its request, for the span of the next run.
#[derive(Debug)]
pub(crate) struct Before {
    pub(crate) ended: Timestamp,
    pub(crate) span: Option<SpanContext>,
}

/// Adds causes, waiting time and link to the span of a run that begins at `now`. Returns the context for links of a later run.
/// `lag` is the time since the first event that led to the run.
pub(crate) fn begin(
    span: &Span,
    causes: &Causes,
    lag: Option<Duration>,
    before: Option<Before>,
    now: Timestamp,
) -> Option<SpanContext> {
    if span.is_disabled() {
        return None;
    }
    span.set_attribute("causes", causes.to_string());
    let since_run = before.as_ref().and_then(|before| now.duration_since(before.ended).try_into().ok());
    if let Some(waited) = lag.or(since_run) {
        span.set_attribute("waitedSeconds", waited.as_secs_f64());
    }
    if let Some(before) = before.and_then(|before| before.span) {
        span.add_link(before);
    }
    // Must come last: it starts the span, and a sampler decides by the attributes set until then.
    let own = span.context().span().span_context().clone();
    own.is_sampled().then_some(own)
}

/// Serialises a span context in the form of the `traceparent` header:
/// <https://www.w3.org/TR/trace-context/#traceparent-header>.
pub(crate) fn traceparent<S: Serializer>(span: &Option<SpanContext>, to: S) -> Result<S::Ok, S::Error> {
    match span {
        None => to.serialize_none(),
        Some(span) => to.collect_str(&format_args!(
            "00-{}-{}-{:02x}",
            span.trace_id(),
            span.span_id(),
            span.trace_flags()
        )),
    }
}
