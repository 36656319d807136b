//! What a reconcile tells of itself to OpenTelemetry. What it logs is in `tests/logging.rs`.

use std::time::Duration;

use controller_runtime::{Action, Client, reconcile};
use opentelemetry::{
    KeyValue,
    trace::{Status, TracerProvider as _},
};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use tracing_subscriber::layer::SubscriberExt;

use crate::support::{Notes, alone, environment, run, widget};

/// A controller that fails twice and then succeeds, for one object.
async fn two_failures_and_a_success() {
    let env = environment().await;
    Client::new(env.client(), "test").create(&widget("a", 1)).await.unwrap();
    let notes = Notes::new(|_, attempt| match attempt {
        0 | 1 => Err(reconcile::Error::new("no luck")),
        _ => Ok(Action::done()),
    });
    let running = run(&env, notes.clone()).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(notes.names().len(), 3);
    running.stop().await.unwrap();
}

fn attribute(span: &SpanData, name: &str) -> String {
    let found = span.attributes.iter().find(|attribute| attribute.key.as_str() == name);
    found.unwrap_or_else(|| panic!("{name} is not in {:?}", span.attributes)).value.to_string()
}

/// The recipe of `docs/opentelemetry.md`, with an exporter that keeps what it gets.
#[test]
fn each_reconcile_is_a_span_of_its_own_trace_for_opentelemetry() {
    alone("telemetry::each_reconcile_is_a_span_of_its_own_trace_for_opentelemetry", reconciles_are_spans);
}

async fn reconciles_are_spans() {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
    let guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
    two_failures_and_a_success().await;
    drop(guard);
    let spans = exporter.get_finished_spans().unwrap();
    let spans: Vec<_> = spans.into_iter().filter(|span| span.name == "reconcile").collect();
    let of = |name| spans.iter().map(|span| attribute(span, name)).collect::<Vec<_>>();
    assert_eq!(of("controller"), ["widget"; 3]);
    assert_eq!(of("attempt"), ["0", "1", "2"]);
    let mut traces: Vec<_> = spans.iter().map(|span| span.span_context.trace_id()).collect();
    traces.dedup();
    assert_eq!(traces.len(), 3, "what is retried is another trace");
    let failed = |span: &SpanData| matches!(span.status, Status::Error { .. });
    assert_eq!(spans.iter().map(failed).collect::<Vec<_>>(), [true, true, false]);
    let event = spans[0].events.iter().find(|event| event.name == "Reconciler error").unwrap();
    let said =
        |attribute: &KeyValue| attribute.key.as_str() == "error" && attribute.value.as_str() == "no luck";
    assert!(event.attributes.iter().any(said), "{event:?}");
}
