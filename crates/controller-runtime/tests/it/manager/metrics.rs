//! Metrics of a manager.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use controller_runtime::{Action, Builder, Client, Manager, ReconcileError, controller::ControllerOptions};
use tokio::time::Instant;

use super::stop::Slow;
use crate::support::{Notes, Running, Widget, environment, manager, settle, widget};

/// Returns the value of a metric of the Widget controller.
fn metric(manager: &Manager, name: &str) -> String {
    let text = manager.metrics().encode();
    let line = text.lines().find(|line| line.starts_with(name)).expect("the metric is there");
    line.rsplit_once(' ').expect("it has a value").1.to_owned()
}

#[tokio::test(start_paused = true)]
async fn thirteen_failures_and_a_success_take_41_seconds_and_are_counted() {
    let env = environment().await;
    let (manager, ended) = (manager(&env), Arc::new(Mutex::new(None)));
    let end = Arc::clone(&ended);
    let notes = Notes::new(move |_, failures| {
        if failures < 13 {
            return Err(ReconcileError::new("not yet"));
        }
        *end.lock().unwrap() = Some(Instant::now());
        Ok(Action::done())
    });
    Builder::managed_by(&manager).for_kind::<Widget>().complete(notes.clone()).unwrap();
    let _running = Running::start(manager.clone()).await;
    let began = Instant::now();
    Client::new(env.client(), "test").create(&widget("a", 1)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let took = ended.lock().unwrap().expect("it succeeds") - began;
    // 5 ms × (2^13 − 1), plus the rounding of tokio's timers.
    assert!(took.abs_diff(Duration::from_millis(40_955)) < Duration::from_millis(20), "{took:?}");
    assert_eq!(notes.names().len(), 14);
    let total = "controller_runtime_reconcile_total{controller=\"widget\",result=";
    assert_eq!(metric(&manager, &format!("{total}\"error\"")), "13");
    assert_eq!(metric(&manager, &format!("{total}\"success\"")), "1");
    assert_eq!(metric(&manager, "workqueue_retries_total"), "13");
}

#[tokio::test(start_paused = true)]
async fn new_objects_are_never_delayed() {
    let env = environment().await;
    let (manager, notes) = (manager(&env), Notes::done());
    Builder::managed_by(&manager).for_kind::<Widget>().complete(notes.clone()).unwrap();
    let _running = Running::start(manager.clone()).await;
    let (client, began) = (Client::new(env.client(), "test"), Instant::now());
    // A hundred times the burst of the bucket for retries.
    for number in 0..10_000 {
        client.create(&widget(&format!("w{number}"), 1)).await.unwrap();
    }
    settle().await;
    assert_eq!((notes.names().len(), began.elapsed()), (10_000, Duration::ZERO));
    assert_eq!(metric(&manager, "workqueue_retries_total"), "0");
}

#[tokio::test(start_paused = true)]
async fn metrics_show_the_contents_of_caches() {
    let env = environment().await;
    Client::new(env.client(), "test").create(&widget("a", 1)).await.unwrap();
    let manager = manager(&env);
    let widgets = manager.cached::<Widget>();
    let _running = Running::start(manager.clone()).await;
    assert_eq!(widgets.len().unwrap(), 1);
    assert_eq!(metric(&manager, "controller_runtime_cache_objects{resource=\"widgets.example.com\"}"), "1");
    let text = "controller_runtime_cache_bytes{resource=\"widgets.example.com\",form=\"text\"}";
    assert_ne!(metric(&manager, text), "0");
    // A watch without events is renewed after 10 minutes at the latest.
    let age = || -> f64 {
        let age = "controller_runtime_cache_watch_age_seconds{resource=\"widgets.example.com\"}";
        metric(&manager, age).parse().unwrap()
    };
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!((0.0..=600.0).contains(&age()), "{}", age());
    Client::new(env.client(), "test").create(&widget("b", 1)).await.unwrap();
    settle().await;
    assert_eq!(age().to_string(), "0");
}

#[tokio::test(start_paused = true)]
async fn metrics_show_the_time_from_an_event_to_its_reconcile() {
    let env = environment().await;
    let manager = manager(&env);
    let one = ControllerOptions::default().max_concurrent_reconciles(1);
    Builder::managed_by(&manager).for_kind::<Widget>().with_options(one).complete(Slow).unwrap();
    let _running = Running::start(manager.clone()).await;
    let client = Client::new(env.client(), "test");
    client.create(&widget("a", 1)).await.unwrap();
    client.create(&widget("b", 1)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(61)).await;
    let lag = "controller_runtime_event_to_reconcile_seconds";
    assert_eq!(metric(&manager, &format!("{lag}_count")), "2");
    let waited: f64 = metric(&manager, &format!("{lag}_sum")).parse().unwrap();
    assert!((waited - 60.0).abs() < 0.1, "b waited until a was done: {waited}");
}

#[tokio::test(start_paused = true)]
async fn metrics_count_reopened_watches() {
    let env = environment().await;
    let manager = manager(&env);
    let _widgets = manager.cached::<Widget>();
    let _running = Running::start(manager.clone()).await;
    let counted = || {
        ["lists", "watches", "failures"].map(|what| {
            let name = format!("controller_runtime_cache_{what}_total{{resource=\"widgets.example.com\"}}");
            metric(&manager, &name)
        })
    };
    assert_eq!(counted(), ["1", "1", "0"]);
    for watches in ["2", "3"] {
        assert!(env.server().faults().close_watches("example.com", "widgets"));
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(counted(), ["1", watches, "0"], "it goes on from where it was");
    }
}

#[tokio::test(start_paused = true)]
async fn metrics_count_the_causes_of_reconciles() {
    let env = environment().await;
    let manager = manager(&env);
    let notes = Notes::new(|_, failures| match failures {
        0 => Err(ReconcileError::new("not yet")),
        _ => Ok(Action::done()),
    });
    Builder::managed_by(&manager).for_kind::<Widget>().complete(notes).unwrap();
    let _running = Running::start(manager.clone()).await;
    let client = Client::new(env.client(), "test");
    let created = client.create(&widget("a", 1)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    client.delete(&created).await.unwrap();
    settle().await;
    let reasons = |source: &str, change: &str| {
        let family = "controller_runtime_reconcile_reasons_total";
        metric(
            &manager,
            &format!("{family}{{controller=\"widget\",source=\"{source}\",change=\"{change}\"}}"),
        )
    };
    assert_eq!(reasons("widgets.example.com", "created"), "1");
    assert_eq!(reasons("", "none"), "1", "the retry");
    assert_eq!(reasons("widgets.example.com", "deleted"), "1");
}
