//! Spans for OpenTelemetry, with the feature `opentelemetry`.
//!
//! [`layer`] is all that an operator adds to its subscriber:
//!
//! ```
//! use controller_runtime::telemetry;
//! use opentelemetry_sdk::trace::{SdkTracerProvider, SpanExporter};
//! use tracing_subscriber::{EnvFilter, Layer, layer::SubscriberExt, util::SubscriberInitExt};
//!
//! /// Logs as `RUST_LOG` says, and hands spans to `exporter`: `opentelemetry_otlp::SpanExporter`, say.
//! fn init(exporter: impl SpanExporter + 'static) -> SdkTracerProvider {
//!     let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).build();
//!     tracing_subscriber::registry()
//!         .with(tracing_subscriber::fmt::layer().with_filter(EnvFilter::from_default_env()))
//!         .with(telemetry::layer(&provider))
//!         .init();
//!     provider // call its shutdown() at the end of main: it sends what still waits
//! }
//! ```
//!
//! Each reconcile is a trace of its own, whose root is the span `reconcile`. Beside the fields that its log lines have too
//! (controller, request, `reconcileID`, attempt), that has with this feature, whichever layer of [`tracing_opentelemetry`]
//! exports it:
//!
//! | what | meaning |
//! |---|---|
//! | a link | to the span of the run before of the same request, unless that was a success which asked for no other. So one walks from the tenth attempt to the first. |
//! | `causes` | the events that led to the run, as [`Context::causes`](crate::Context::causes) has them; `no event` for a retry |
//! | `waitedSeconds` | how long ago the first of these events came, or, if there was none, the run ended that has this one as its successor. Absent if there was neither. |
//!
//! [`Manager::explain`](crate::Manager::explain) names the traces of the last runs of a request ([`Run::span`]). Links and
//! traces are of runs that are exported: what the sampler drops is not linked to.
//!
//! [`Run::span`]: crate::controller::Run::span

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

use crate::{controller::Run, reconcile::Causes};

/// What [`layer`] makes: spans for OpenTelemetry, as far as the filter lets them pass.
pub type SpanLayer<S, T> = Filtered<OpenTelemetryLayer<S, T>, Targets, S>;

/// A layer that hands the spans of reconciles, and those within them, to the tracers of `provider`.
///
/// Of what goes on, it sees what [`targets`] lets pass, whatever the other layers of the subscriber see. To see other things:
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
    // A reconcile goes from thread to thread.
    tracing_opentelemetry::layer().with_threads(false).with_tracer(tracer).with_filter(targets())
}

/// What [`layer`] lets pass: all of level `INFO` and above, and of this crate and of `kube`'s client, whose spans are the
/// requests to the API server, of level `DEBUG` too.
#[must_use]
pub fn targets() -> Targets {
    ["controller_runtime", "kube_client"]
        .into_iter()
        .fold(Targets::new().with_default(LevelFilter::INFO), |targets, of| {
            targets.with_target(of, LevelFilter::DEBUG)
        })
}

/// What a run that did not settle its request leaves for the next one.
#[derive(Debug)]
pub(crate) struct Before {
    ended: Timestamp,
    span: Option<SpanContext>,
}

impl Before {
    pub(crate) fn of(run: &Run) -> Self {
        Self { ended: run.ended, span: run.span.clone() }
    }
}

/// Adds to the span of a run that begins `now` what its fields do not tell, and says what a later run may link to. `lag` is
/// for how long the first event that led to it has waited.
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
    // Last: this begins the span, and a sampler decides by what it has then.
    let own = span.context().span().span_context().clone();
    own.is_sampled().then_some(own)
}

/// As the header of this name has it: <https://www.w3.org/TR/trace-context/#traceparent-header>.
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
