//! OpenTelemetry spans of reconciles. For the log see `tests/logging.rs`.

use std::time::Duration;

use controller_runtime::{Action, Builder, Client, ReconcileError, telemetry};
use opentelemetry::{KeyValue, trace::Status};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use tracing_subscriber::layer::SubscriberExt;

use crate::support::{Notes, Running, Widget, alone, environment, key, manager, settle, widget};

/// Returns the spans that an operator with this layer exports while `test` runs, and the result of `test`.
async fn exported<T, F: Future<Output = T>>(test: impl FnOnce() -> F) -> (Vec<SpanData>, T) {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    let layer = telemetry::layer(&provider);
    let guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
    let returned = test().await;
    drop(guard);
    (exporter.get_finished_spans().unwrap(), returned)
}

/// Returns the spans of reconciles, in order.
fn reconciles(spans: &[SpanData]) -> Vec<&SpanData> {
    spans.iter().filter(|span| span.name == "reconcile").collect()
}

fn attribute(span: &SpanData, name: &str) -> Option<String> {
    let found = span.attributes.iter().find(|attribute| attribute.key.as_str() == name);
    found.map(|found| found.value.to_string())
}

/// Returns a reconciler that fails this many times and then succeeds.
fn fails(times: u32) -> Notes {
    Notes::new(move |_, attempt| match attempt < times {
        true => Err(ReconcileError::new("no luck")),
        false => Ok(Action::done()),
    })
}

#[test]
fn each_reconcile_is_a_span_of_its_own_trace() {
    alone("telemetry::each_reconcile_is_a_span_of_its_own_trace", async || {
        let spans = exported(async || {
            let env = environment().await;
            Client::new(env.client(), "test").create(&widget("a", 1)).await.unwrap();
            let (manager, notes) = (manager(&env), fails(2));
            Builder::managed_by(&manager).for_kind::<Widget>().complete(notes.clone()).unwrap();
            let running = Running::start(manager).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(notes.names().len(), 3);
            running.stop().await.unwrap();
        });
        let (spans, ()) = spans.await;
        let spans = reconciles(&spans);
        let of = |name| spans.iter().map(|span| attribute(span, name).unwrap()).collect::<Vec<_>>();
        assert_eq!(of("controller"), ["widget"; 3]);
        assert_eq!(of("name"), ["a"; 3]);
        assert_eq!(of("attempt"), ["0", "1", "2"]);
        let mut traces: Vec<_> = spans.iter().map(|span| span.span_context.trace_id()).collect();
        traces.dedup();
        assert_eq!(traces.len(), 3, "what is retried is another trace");
        let failed = |span: &&SpanData| matches!(span.status, Status::Error { .. });
        assert_eq!(spans.iter().map(failed).collect::<Vec<_>>(), [true, true, false]);
        let event = spans[0].events.iter().find(|event| event.name == "Reconciler error").unwrap();
        let said =
            |attribute: &KeyValue| attribute.key.as_str() == "error" && attribute.value.as_str() == "no luck";
        assert!(event.attributes.iter().any(said), "{event:?}");
    });
}

#[test]
fn links_lead_from_the_tenth_attempt_to_the_first() {
    alone("telemetry::links_lead_from_the_tenth_attempt_to_the_first", async || {
        let spans = exported(async || {
            let env = environment().await;
            let client = Client::new(env.client(), "test");
            let manager = manager(&env);
            Builder::managed_by(&manager).for_kind::<Widget>().complete(fails(9)).unwrap();
            let running = Running::start(manager).await;
            for name in ["a", "b"] {
                client.create(&widget(name, 1)).await.unwrap();
            }
            tokio::time::sleep(Duration::from_secs(10)).await;
            client.apply(&widget("a", 2)).await.unwrap();
            settle().await;
            running.stop().await.unwrap();
        });
        let (spans, ()) = spans.await;
        let spans = reconciles(&spans);
        let of_a = |span: &&&SpanData| attribute(span, "name").unwrap() == "a";
        let [.., tenth, after] = spans.iter().filter(of_a).copied().collect::<Vec<_>>()[..] else {
            panic!("a was reconciled more than once")
        };
        assert!(after.links.is_empty(), "what came before was a success: {after:?}");
        assert_eq!(attribute(after, "causes").unwrap(), "1 event: widgets.example.com updated");

        let mut story = Vec::new();
        let mut at = Some(tenth);
        while let Some(span) = at {
            let of = |name| attribute(span, name).unwrap();
            story.push(format!(
                "{} {} after {} s: {}",
                of("name"),
                of("attempt"),
                of("waitedSeconds"),
                of("causes")
            ));
            assert!(span.links.len() < 2, "{span:?}");
            let linked = span.links.first().map(|link| &link.span_context);
            at = linked.map(|to| *spans.iter().find(|span| span.span_context == *to).unwrap());
        }
        // The back-off of the ninth failure is 5 ms * 2^8.
        assert_eq!(story[0], "a 9 after 1.28 s: a retry");
        assert_eq!(story[8], "a 1 after 0.005 s: a retry");
        assert_eq!(story[9], "a 0 after 0 s: 1 event: widgets.example.com created");
        assert_eq!(story.len(), 10);
    });
}

#[test]
fn explanations_and_metrics_name_the_traces() {
    alone("telemetry::explanations_and_metrics_name_the_traces", async || {
        let told = exported(async || {
            let env = environment().await;
            Client::new(env.client(), "test").create(&widget("a", 1)).await.unwrap();
            let manager = manager(&env);
            let controller = Builder::managed_by(&manager).for_kind::<Widget>().complete(fails(1)).unwrap();
            let running = Running::start(manager.clone()).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            let explained = controller.explain(&key("a"));
            running.stop().await.unwrap();
            (explained, manager.metrics().clone())
        });
        let (spans, (explained, metrics)) = told.await;
        let [first, second] = reconciles(&spans)[..] else { panic!("there are two runs: {spans:?}") };
        let trace = |span: &SpanData| span.span_context.trace_id();
        let story = explained.to_string();
        for (run, result) in [(first, "failed: no luck"), (second, "done")] {
            let told = format!(" {result} (attempt ");
            let line = story.lines().find(|line| line.contains(&told)).expect("a line of the run");
            assert!(line.ends_with(&format!("; trace {})", trace(run))), "{line}");
        }
        let json = serde_json::to_value(&explained).unwrap();
        let expected = format!("00-{}-{}-01", trace(first), first.span_context.span_id());
        assert_eq!(json["runs"][1]["traceparent"], expected);

        // The exemplar of a bucket is its last run.
        let bucket = "controller_runtime_reconcile_time_seconds_bucket{le=\"0.005\",controller=\"widget\"} 2";
        let expected = format!("{bucket} # {{trace_id=\"{}\"}} 0.0\n", trace(second));
        let text = metrics.encode();
        assert!(text.contains(&expected), "{expected} is not in {text}");
        let text = metrics.encode_prometheus();
        assert!(text.contains(&format!("{bucket}\n")) && !text.contains("trace_id"), "{text}");
    });
}

#[test]
fn spans_within_a_reconcile_are_its_children() {
    alone("telemetry::spans_within_a_reconcile_are_its_children", async || {
        let spans = exported(async || {
            let env = environment().await;
            Client::new(env.client(), "test").create(&widget("a", 1)).await.unwrap();
            let notes = Notes::new(|_, _| {
                tracing::info_span!("work").in_scope(|| tracing::debug_span!("chatter").in_scope(|| {}));
                tracing::debug_span!(target: "kube_client::client", "HTTP").in_scope(|| {});
                Ok(Action::done())
            });
            let manager = manager(&env);
            Builder::managed_by(&manager).for_kind::<Widget>().complete(notes).unwrap();
            let running = Running::start(manager).await;
            settle().await;
            running.stop().await.unwrap();
        });
        let (spans, ()) = spans.await;
        let reconcile = reconciles(&spans)[0];
        let children = spans.iter().filter(|span| span.parent_span_id == reconcile.span_context.span_id());
        assert_eq!(children.map(|span| &*span.name).collect::<Vec<_>>(), ["work", "HTTP"]);
        assert!(spans.iter().all(|span| span.name != "chatter"), "{spans:?}");
        assert!(reconcile.events.iter().any(|event| event.name == "Reconciling"), "{reconcile:?}");
        assert_eq!(reconcile.instrumentation_scope.name(), "controller-runtime");
    });
}
