//! The queue as its tasks use it, in paused time.

use std::future::{Future, poll_fn};
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use kube_workqueue::{Flow, Item, ItemFastSlow, Options, Queue, RateLimiter, Reason};
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, sleep, timeout};

mod random_work;
mod shutdown;

const SECOND: Duration = Duration::from_secs(1);

/// Polls `future` once, and returns whether it is pending.
async fn is_pending<F: Future>(mut future: Pin<&mut F>) -> bool {
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await
}

/// Returns a future that gets one item.
fn getter(queue: &Queue<&'static str>) -> impl Future<Output = Option<Item<'static, &'static str>>> + use<> {
    let queue = queue.clone();
    async move { queue.get().await.map(Item::into_owned) }
}

/// Counts its wake-ups.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn get_waits_until_a_key_is_added() {
    let queue = Queue::default();
    let mut got = pin!(queue.get());
    assert!(is_pending(got.as_mut()).await);
    assert!(queue.is_empty());
    queue.add("a");
    assert!(!queue.is_empty());
    assert_eq!(*got.await.unwrap(), "a");
}

#[tokio::test(start_paused = true)]
async fn next_is_done_with_one_key_and_gets_another() {
    let queue = Queue::default();
    queue.add("a");
    queue.add("b");
    let a = queue.get().await.unwrap();
    queue.add("a");
    let b = queue.next(a).await.unwrap();
    assert_eq!(*b, "b", "a key that is added again is last");
    let a = queue.next(b).await.unwrap();
    assert_eq!(*a, "a");

    let mut next = pin!(queue.next(a));
    assert!(is_pending(next.as_mut()).await);
    queue.add("a");
    assert_eq!(*next.await.unwrap(), "a", "it was done when the wait began");
}

#[tokio::test(start_paused = true)]
async fn next_takes_a_key_that_runs_again_without_waking_a_waiting_getter() {
    let queue = Queue::default();
    queue.add("a");
    let item = queue.get().await.unwrap();
    let mut getter = pin!(queue.get());
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    assert!(getter.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    queue.add("a");
    assert_eq!(*queue.next(item).await.unwrap(), "a");
    assert_eq!(wakes.0.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn next_without_a_poll_is_done_and_takes_nothing() {
    let queue = Queue::default();
    queue.add("a");
    queue.add("b");
    let a = queue.get().await.unwrap();
    queue.add("a");
    drop(queue.next(a));
    assert_eq!(*queue.get().await.unwrap(), "b");
    assert_eq!(*queue.get().await.unwrap(), "a");
}

#[tokio::test(start_paused = true)]
async fn next_after_an_item_of_another_queue_is_done_there_and_gets_here() {
    let (here, there) = (Queue::default(), Queue::default());
    here.add("a");
    there.add("b");
    let b = there.get().await.unwrap();
    there.add("b");
    assert_eq!(*here.next(b).await.unwrap(), "a");
    assert_eq!(*there.get().await.unwrap(), "b");
}

#[tokio::test(start_paused = true)]
async fn get_waits_until_a_delayed_key_is_due_and_no_longer() {
    let (queue, start) = (Queue::default(), Instant::now());
    queue.add_after("a", 5 * SECOND);
    let waiting = queue.when(&"a").unwrap();
    assert_eq!((waiting.until - start, waiting.why), (5 * SECOND, Reason::Delayed));
    assert_eq!(*queue.get().await.unwrap(), "a");
    assert_eq!(start.elapsed(), 5 * SECOND);
    assert_eq!(queue.when(&"a"), None);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_getter_notices_an_earlier_delay() {
    let (queue, start) = (Queue::default(), Instant::now());
    queue.add_after("late", 60 * SECOND);
    let mut tasks = JoinSet::new();
    tasks.spawn(getter(&queue));
    yield_now().await;
    queue.add_after("early", SECOND);
    assert_eq!(*tasks.join_next().await.unwrap().unwrap().unwrap(), "early");
    assert_eq!(start.elapsed(), SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_delay_added_after_the_first_one_was_cancelled_still_wakes_the_getter() {
    let (queue, start) = (Queue::default(), Instant::now());
    queue.add_after("a", SECOND);
    let mut tasks = JoinSet::new();
    tasks.spawn(getter(&queue));
    yield_now().await;
    assert!(queue.cancel(&"a"));
    sleep(2 * SECOND).await; // the timer of "a" has fired without a key to hand out
    queue.add_after("b", 3 * SECOND);
    assert_eq!(*tasks.join_next().await.unwrap().unwrap().unwrap(), "b");
    assert_eq!(start.elapsed(), 5 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn every_due_key_finds_its_own_waiting_getter() {
    let (queue, start) = (Queue::default(), Instant::now());
    let mut tasks = JoinSet::new();
    for _ in 0..4 {
        tasks.spawn(getter(&queue));
    }
    yield_now().await;
    for key in ["a", "b", "c", "d"] {
        queue.add_after(key, SECOND);
    }
    let mut keys: Vec<&str> = tasks.join_all().await.iter().map(|item| **item.as_ref().unwrap()).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["a", "b", "c", "d"]);
    assert_eq!(start.elapsed(), SECOND);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_getter_that_was_called_passes_the_key_to_the_next() {
    let queue = Queue::default();
    let mut first = pin!(queue.get());
    let mut second = Box::pin(queue.get());
    assert!(is_pending(first.as_mut()).await && is_pending(second.as_mut()).await);
    queue.add("a"); // wakes the second getter, which registered last
    drop(second);
    let item = timeout(SECOND, first).await.expect("the first getter is called instead");
    assert_eq!(*item.unwrap(), "a");
}

#[tokio::test(start_paused = true)]
async fn dropping_the_getter_that_keeps_the_alarm_passes_it_to_the_next() {
    let (queue, start) = (Queue::default(), Instant::now());
    queue.add_after("a", SECOND);
    let mut keeper = Box::pin(queue.get());
    assert!(is_pending(keeper.as_mut()).await);
    let mut tasks = JoinSet::new();
    tasks.spawn(getter(&queue));
    yield_now().await;
    drop(keeper);
    assert_eq!(*timeout(60 * SECOND, tasks.join_next()).await.unwrap().unwrap().unwrap().unwrap(), "a");
    assert_eq!(start.elapsed(), SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_get_loses_no_key() {
    let queue = Queue::default();
    for round in 0..100 {
        queue.add_after("a", SECOND / 10);
        let _: Result<_, _> = timeout(SECOND / 1000 * (round % 100), async {
            let item = queue.get().await;
            queue.add("a");
            drop(item);
        })
        .await;
    }
    assert_eq!(*timeout(SECOND, queue.get()).await.unwrap().unwrap(), "a");
}

/// Drops the future after each possible poll, with another getter that starts at each possible time, and is polled
/// between the events or only at the end.
#[tokio::test(start_paused = true)]
async fn a_get_dropped_after_any_of_its_polls_loses_no_key_and_no_call() {
    let events: [fn(&Queue<&'static str>); 6] = [
        |_| {},
        |queue| queue.add_after("late", SECOND),
        |queue| queue.add_after("soon", SECOND / 2),
        |queue| assert!(queue.cancel(&"soon")),
        |queue| queue.add("now"),
        |queue| queue.add("too"),
    ];
    for (polls, comes, runs) in (0..=events.len())
        .flat_map(|polls| (0..events.len()).map(move |comes| (polls, comes)))
        .flat_map(|(polls, comes)| [true, false].map(|runs| (polls, comes, runs)))
    {
        let (queue, mut neighbour, mut got) = (Queue::default(), JoinSet::new(), Vec::new());
        let mut dropped = Some(Box::pin(queue.get()));
        for (place, event) in events.iter().enumerate() {
            if place == comes {
                let queue = queue.clone();
                neighbour.spawn(async move {
                    let mut got = Vec::new();
                    while let Some(item) = queue.get().await {
                        got.push(*item);
                    }
                    got
                });
                yield_now().await;
            }
            event(&queue);
            if place >= polls {
                dropped = None;
            }
            if let Some(get) = &mut dropped
                && let Poll::Ready(item) = poll_fn(|cx| Poll::Ready(get.as_mut().poll(cx))).await
            {
                got.extend(item.as_deref().copied());
                dropped = None;
            }
            if runs {
                yield_now().await;
            }
        }
        drop(dropped);
        sleep(2 * SECOND).await;
        assert!(queue.is_empty(), "the neighbour was not called: {polls} polls, {comes}, {runs}");
        queue.shut_down();
        got.extend(neighbour.join_all().await.concat());
        got.sort_unstable();
        assert_eq!(got, ["late", "now", "too"], "{polls} polls, {comes}, {runs}");
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_the_item_is_done() {
    let queue = Queue::default();
    queue.add("a");
    let item = queue.get().await.unwrap();
    assert_eq!((item.key(), &*item), (&"a", &"a"));
    queue.add("a");
    assert!(queue.is_empty(), "it is still being processed");
    drop(item);
    assert_eq!(queue.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_owned_item_outlives_the_handle_it_came_from_and_is_done_when_dropped() {
    let queue = Queue::default();
    queue.add("a");
    let handle = queue.clone();
    let item = handle.get().await.unwrap().into_owned().into_owned();
    drop(handle);
    queue.add("a");
    assert_eq!((*item, queue.len()), ("a", 0));
    drop(item);
    assert_eq!(queue.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_panic_while_processing_is_done_too() {
    let queue = Queue::default();
    queue.add("a");
    let item = queue.get().await.unwrap();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _item = item;
        std::panic::resume_unwind(Box::new("reconciler failed"));
    }));
    assert!(panicked.is_err());
    queue.add("a");
    assert_eq!(*timeout(SECOND, queue.get()).await.unwrap().unwrap(), "a");
}

/// A rate limiter that always panics.
struct Faulty;

impl RateLimiter<&'static str> for Faulty {
    fn when(&mut self, _key: &&'static str, _now: Instant) -> Duration {
        std::panic::resume_unwind(Box::new("a bug in a limiter"))
    }

    fn forget(&mut self, _key: &&'static str, _now: Instant) {}

    fn num_requeues(&self, _key: &&'static str) -> u32 {
        0
    }
}

#[tokio::test(start_paused = true)]
async fn a_limiter_that_panics_leaves_the_queue_as_it_was() {
    let queue = Queue::new(Options::default().rate_limiter(Faulty));
    assert!(catch_unwind(AssertUnwindSafe(|| queue.add_rate_limited("a"))).is_err());
    queue.add("a");
    assert_eq!(*timeout(SECOND, queue.get()).await.unwrap().unwrap(), "a");
}

/// A rate limiter that calls its queue by mistake.
#[derive(Clone, Default)]
struct CallsItsQueue(Arc<OnceLock<Queue<&'static str>>>);

impl RateLimiter<&'static str> for CallsItsQueue {
    fn when(&mut self, _key: &&'static str, _now: Instant) -> Duration {
        self.0.get().expect("the test sets the queue").len() as u32 * SECOND
    }

    fn forget(&mut self, _key: &&'static str, _now: Instant) {}

    fn num_requeues(&self, _key: &&'static str) -> u32 {
        0
    }
}

#[tokio::test(start_paused = true)]
async fn a_limiter_that_calls_its_queue_panics_instead_of_waiting_forever() {
    let limiter = CallsItsQueue::default();
    let queue = Queue::new(Options::default().rate_limiter(limiter.clone()));
    limiter.0.set(queue.clone()).expect("it is set once");
    let panic = catch_unwind(AssertUnwindSafe(|| queue.add_rate_limited("a"))).unwrap_err();
    let message = panic.downcast_ref::<String>().expect("a message with values");
    assert!(message.contains("called the queue that called it"), "{message}");
    assert!(queue.snapshot_of(&"a").is_none(), "the queue is as it was, and unlocked");
    queue.add("a");
    assert_eq!(*timeout(SECOND, queue.get()).await.unwrap().unwrap(), "a");
}

#[tokio::test(start_paused = true)]
async fn a_flow_function_may_call_its_queue() {
    let handle: Arc<OnceLock<Queue<&'static str>>> = Arc::default();
    let sees = Arc::clone(&handle);
    let queue = Queue::new(Options::default().fair_by(move |_| {
        let others = sees.get().expect("the test sets the queue").len();
        Flow::from(others.to_string())
    }));
    handle.set(queue.clone()).expect("it is set once");
    for key in ["a", "b", "a"] {
        queue.add(key);
    }
    let flow =
        |key: &'static str| queue.snapshot_of(&key).and_then(|key| key.flow).map(|flow| flow.to_string());
    assert_eq!([flow("a"), flow("b")], [Some("0".to_owned()), Some("1".to_owned())]);
}

/// A key of a test, all of which are equal. The first one that is dropped while the flag is set panics.
#[derive(Clone)]
struct Fragile(Arc<AtomicBool>);

impl PartialEq for Fragile {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Fragile {}

impl Hash for Fragile {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl Drop for Fragile {
    fn drop(&mut self) {
        assert!(!self.0.swap(false, Ordering::Relaxed), "a bug of the key's type");
    }
}

/// The key is dropped when the queue is consistent and unlocked.
#[tokio::test(start_paused = true)]
async fn a_key_that_panics_when_its_cancelled_run_drops_it_leaves_the_queue() {
    let (queue, breaks) = (Queue::default(), Arc::new(AtomicBool::new(false)));
    let key = Fragile(Arc::clone(&breaks));
    for delay in [Duration::ZERO, SECOND] {
        queue.add_after(key.clone(), delay);
        breaks.store(true, Ordering::Relaxed);
        assert!(catch_unwind(AssertUnwindSafe(|| queue.cancel(&key))).is_err());
        assert_eq!((queue.len(), queue.when(&key)), (0, None));
        queue.add(key.clone());
        assert_eq!(queue.len(), 1);
        drop(queue.get().await);
    }
}

#[tokio::test(start_paused = true)]
async fn len_counts_ready_keys_only() {
    let queue = Queue::default();
    queue.add("a");
    queue.add("b");
    queue.add_after("c", SECOND);
    let _item = queue.get().await;
    assert_eq!(queue.len(), 1);
    sleep(SECOND).await;
    assert_eq!(queue.len(), 2, "c is due, although no operation has made it ready");
}

#[tokio::test(start_paused = true)]
async fn failures_are_counted_until_forgotten() {
    let fast_slow = ItemFastSlow::new(SECOND, 10 * SECOND, 1);
    let (queue, start) = (Queue::new(Options::default().rate_limiter(fast_slow)), Instant::now());
    queue.add_rate_limited("a");
    let item = queue.get().await.unwrap();
    assert_eq!((start.elapsed(), queue.num_requeues(&"a")), (SECOND, 1));
    queue.add_rate_limited("a");
    drop(item);
    assert_eq!(queue.when(&"a").unwrap().why, Reason::RateLimited);
    drop(queue.get().await);
    assert_eq!((start.elapsed(), queue.num_requeues(&"a")), (11 * SECOND, 2));
    queue.forget(&"a");
    assert_eq!(queue.num_requeues(&"a"), 0);
}
