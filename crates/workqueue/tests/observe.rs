//! Metrics, gauges and snapshots of a queue.

use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use expect_test::{Expect, expect};
use kube_workqueue::{AddOptions, Flow, KeyState, Metrics, Options, Priority, Queue};
use tokio::time::{Instant, advance};

const SECOND: Duration = Duration::from_secs(1);

/// Records the calls of the metrics trait.
#[derive(Default)]
struct Recorder(Mutex<Vec<String>>);

impl Recorder {
    fn push(&self, what: String) {
        self.0.lock().expect("no test panicked with it").push(what);
    }

    fn check(&self, expected: &Expect) {
        expected.assert_eq(
            &self.0.lock().expect("no test panicked with it").drain(..).collect::<Vec<_>>().join(", "),
        );
    }
}

impl Metrics for Recorder {
    fn added(&self, priority: Priority) {
        self.push(format!("added {}", priority.as_str()));
    }

    fn waited(&self, priority: Priority, ready: Duration) {
        self.push(format!("waited {} {ready:?}", priority.as_str()));
    }

    fn worked(&self, running: Duration) {
        self.push(format!("worked {running:?}"));
    }

    fn retried(&self) {
        self.push("retried".to_owned());
    }
}

fn recorded() -> (Queue<&'static str>, Arc<Recorder>) {
    let recorder = Arc::new(Recorder::default());
    (Queue::new(Options::default().metrics(recorder.clone())), recorder)
}

#[tokio::test(start_paused = true)]
async fn a_key_is_counted_when_it_becomes_ready_and_only_then() {
    let (queue, recorder) = recorded();
    queue.add("a");
    queue.add("a");
    queue.add_with("b", AddOptions::default().priority(Priority::Low));
    recorder.check(&expect!["added normal, added low"]);
    queue.add_after("c", SECOND);
    recorder.check(&expect!["retried"]);
    advance(SECOND).await;
    assert_eq!(queue.len(), 3);
    recorder.check(&expect!["added normal"]);
    queue.add_after("d", Duration::ZERO);
    recorder.check(&expect!["added normal"]);
}

#[tokio::test(start_paused = true)]
async fn waiting_and_working_times_are_those_of_the_states() {
    let (queue, recorder) = recorded();
    queue.add_after("a", SECOND);
    advance(3 * SECOND).await;
    let item = queue.get().await;
    advance(5 * SECOND).await;
    queue.add_rate_limited("a");
    drop(item);
    recorder.check(&expect!["retried, added normal, waited normal 2s, retried, worked 5s"]);
}

#[tokio::test(start_paused = true)]
async fn gauges_are_computed_on_demand() {
    let (queue, _) = recorded();
    for key in ["a", "b", "c", "d"] {
        queue.add(key);
    }
    queue.add_with("e", AddOptions::default().priority(Priority::High));
    queue.add_after("f", 2 * SECOND);
    let _first = queue.get().await;
    advance(SECOND).await;
    let _second = queue.get().await;
    advance(SECOND).await;
    let gauges = queue.gauges();
    assert_eq!(gauges.depth, [0, 4, 0]);
    assert_eq!((gauges.waiting, gauges.processing), ([0; 4], 2));
    assert_eq!((gauges.unfinished, gauges.longest_running), (3 * SECOND, 2 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn gauges_leave_out_runs_that_have_ended() {
    let (queue, _) = recorded();
    let mut items = Vec::new();
    for key in ["a", "b", "c", "d"] {
        queue.add(key);
        items.push(queue.get().await);
        advance(SECOND).await;
    }
    // They have run for 4, 3, 2 and 1 seconds. First one in the middle ends, then the first and the last one.
    for (ended, unfinished, longest) in [(1, 7, 4), (0, 3, 2), (1, 2, 2)] {
        drop(items.remove(ended));
        let gauges = queue.gauges();
        assert_eq!((gauges.unfinished, gauges.longest_running), (unfinished * SECOND, longest * SECOND));
    }
    queue.add("e");
    items.push(queue.get().await);
    advance(SECOND).await;
    let gauges = queue.gauges();
    assert_eq!((gauges.unfinished, gauges.longest_running), (4 * SECOND, 3 * SECOND));
    items.clear();
    assert_eq!((queue.gauges().unfinished, queue.gauges().longest_running), (Duration::ZERO, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_has_the_state_and_reason_of_every_key() {
    let queue = Queue::new(Options::default().fair_by(|key: &&str| Flow::from(&key[..1])));
    queue.add("a1");
    queue.add_rate_limited("b1");
    queue.add_with("b2", AddOptions::default().priority(Priority::Low));
    let _item = queue.get().await;
    queue.add("a1");
    let mut keys: Vec<String> = queue
        .snapshot()
        .map(|key| {
            let state = match key.state {
                KeyState::Waiting(waiting) => format!("waiting: {:?}", waiting.why),
                KeyState::Ready { .. } => "ready".to_owned(),
                KeyState::Processing { again } => format!("processing, again: {again}"),
                _ => unreachable!("there are three states"),
            };
            let flow = key.flow.as_ref().map_or("-", Flow::as_str);
            format!("{} flow {flow} {} failures {} {state}", key.key, key.priority.as_str(), key.failures)
        })
        .collect();
    keys.sort_unstable();
    expect![[r#"
        a1 flow a normal failures 0 processing, again: true
        b1 flow b normal failures 1 waiting: RateLimited
        b2 flow b low failures 0 ready"#]]
    .assert_eq(&keys.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_shows_since_when_a_key_is_ready_if_that_is_known() {
    let start = Instant::now();
    let since = |queue: &Queue<&'static str>| {
        let state = queue.snapshot().next().expect("the queue has a key").state;
        let KeyState::Ready { since } = state else { panic!("not ready: {state:?}") };
        since.map(|since| since - start)
    };
    let plain = Queue::default();
    plain.add("at once");
    assert_eq!(since(&plain), None, "without metrics the clock is not read");
    let (measured, _) = recorded();
    measured.add("at once");
    let delayed = Queue::default();
    delayed.add_after("delayed", 2 * SECOND);
    advance(5 * SECOND).await;
    assert_eq!(since(&measured), Some(Duration::ZERO));
    assert_eq!(since(&delayed), Some(2 * SECOND), "no operation has made it ready");
}

#[tokio::test(start_paused = true)]
async fn waiting_keys_are_counted_by_reason_until_they_are_ready() {
    let queue = Queue::default();
    let waiting = || queue.gauges().waiting;
    queue.add_after("delayed", 10 * SECOND);
    queue.add_after("cancelled", 10 * SECOND);
    queue.add_rate_limited("failed");
    assert_eq!(waiting(), [2, 1, 0, 0]);
    queue.add("delayed");
    queue.cancel(&"cancelled");
    assert_eq!(waiting(), [0, 1, 0, 0]);
    advance(SECOND).await;
    assert_eq!(waiting(), [0; 4]);
    queue.add_after("dropped", SECOND);
    queue.shut_down();
    assert_eq!(waiting(), [0; 4]);
}

#[tokio::test(start_paused = true)]
async fn one_key_and_the_oldest_ready_one_are_found_without_a_snapshot_of_all() {
    for fair in [false, true] {
        let recorder = Arc::new(Recorder::default());
        let options = Options::default().metrics(recorder.clone());
        let by_letter = |key: &&str| Flow::from(&key[..1]);
        let queue = Queue::new(if fair { options.fair_by(by_letter) } else { options });
        assert_eq!(queue.oldest_ready(), None);
        queue.add_with("b2", AddOptions::default().priority(Priority::High));
        let item = queue.get().await;
        advance(SECOND).await;
        queue.add_with("a1", AddOptions::default().priority(Priority::Low));
        advance(SECOND).await;
        queue.add("b1");
        queue.add_after("a2", 2 * SECOND);
        assert_eq!(queue.oldest_ready().map(|key| key.key), Some("a1"), "fair: {fair}");
        let state = |key| queue.snapshot_of(&key).map(|found| (found.key, found.state));
        assert_eq!(state("b2"), Some(("b2", KeyState::Processing { again: false })));
        assert!(matches!(state("a2"), Some(("a2", KeyState::Waiting(_)))));
        assert_eq!(state("c"), None);
        queue.cancel(&"a1");
        assert_eq!(queue.oldest_ready().map(|key| key.key), Some("b1"), "fair: {fair}");
        drop(item);
    }
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_of_many_keys_has_each_of_them_once() {
    let queue = Queue::default();
    for key in 0..10_000_u32 {
        queue.add(key);
    }
    let mut keys: Vec<u32> = queue.snapshot().map(|key| key.key).collect();
    keys.sort_unstable();
    assert!(keys.into_iter().eq(0..10_000));
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_can_be_read_in_pages() {
    let queue: Queue<u32> = Queue::new(Options::default());
    assert!(queue.snapshot_page(0).is_empty());
    for key in 0..1000 {
        queue.add(key);
    }
    let pages: Vec<_> = (0..queue.snapshot_pages()).rev().map(|page| queue.snapshot_page(page)).collect();
    assert!(pages.iter().all(|keys| keys.len() <= 64));
    let mut keys: Vec<u32> = pages.iter().flatten().map(|key| key.key).collect();
    keys.sort_unstable();
    assert!(keys.into_iter().eq(0..1000));
    assert!(queue.snapshot_page(queue.snapshot_pages()).is_empty(), "there is no such page");
}

#[tokio::test(start_paused = true)]
async fn an_item_has_the_priority_with_which_it_was_handed_out() {
    let queue = Queue::default();
    queue.add_with("a", AddOptions::default().priority(Priority::Low));
    queue.add_with("b", AddOptions::default().priority(Priority::High));
    let (first, second) = (queue.get().await.unwrap(), queue.get().await.unwrap());
    assert_eq!((first.key(), first.priority()), (&"b", Priority::High));
    assert_eq!((second.key(), second.priority()), (&"a", Priority::Low));
}
