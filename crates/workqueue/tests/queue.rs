//! The queue as its tasks use it, in paused time.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use kube_workqueue::{Item, ItemFastSlow, Options, Queue, RateLimiter, Reason};
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, sleep, timeout};

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

#[tokio::test(start_paused = true)]
async fn shutdown_releases_every_waiting_getter() {
    let queue = Queue::default();
    let mut tasks = JoinSet::new();
    for _ in 0..8 {
        tasks.spawn(getter(&queue));
    }
    yield_now().await;
    assert!(queue.shut_down().is_empty());
    assert!(timeout(SECOND, tasks.join_all()).await.unwrap().iter().all(Option::is_none));
    assert!(queue.is_shut_down());
    queue.add("a");
    assert!(queue.get().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn shutdown_hands_out_ready_keys_and_returns_the_others() {
    let queue = Queue::default();
    queue.add("a");
    queue.add_after("late", 60 * SECOND);
    queue.add_after("later", 70 * SECOND);
    assert!(!queue.is_shut_down());
    assert_eq!(queue.shut_down(), ["late", "later"]);
    assert_eq!(*queue.get().await.unwrap(), "a");
    assert!(queue.get().await.is_none());
    assert!(queue.shut_down().is_empty(), "shutting down twice is harmless");
}

#[tokio::test(start_paused = true)]
async fn a_getter_waits_out_the_last_run_of_a_key_added_while_processing() {
    let queue = Queue::default();
    queue.add("a");
    let item = queue.get().await.unwrap();
    queue.add("a");
    queue.shut_down();
    let mut next = pin!(queue.get());
    assert!(is_pending(next.as_mut()).await, "the key is to run once more");
    drop(item);
    assert_eq!(*next.await.unwrap(), "a");
    assert!(queue.get().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn drain_waits_for_ready_keys_and_for_those_being_processed() {
    let (queue, start) = (Queue::default(), Instant::now());
    let mut workers = JoinSet::new();
    for key in ["a", "b", "c"] {
        queue.add(key);
    }
    queue.add_after("late", 60 * SECOND);
    let worked = queue.clone();
    workers.spawn(async move {
        while let Some(item) = worked.get().await {
            sleep(SECOND).await;
            drop(item);
        }
    });
    assert_eq!(queue.shut_down_with_drain().await, ["late"]);
    assert_eq!(start.elapsed(), 3 * SECOND);
    workers.join_all().await;
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
async fn drain_is_woken_by_the_last_key_only() {
    let queue = Queue::default();
    for key in ["a", "b"] {
        queue.add(key);
    }
    let (a, b) = (queue.get().await, queue.get().await);
    let mut drain = pin!(queue.shut_down_with_drain());
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    assert!(drain.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    drop(a);
    assert_eq!(wakes.0.load(Ordering::Relaxed), 0, "b is still being processed");
    drop(b);
    assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn shutdown_ends_the_waiting_of_drain() {
    let queue = Queue::default();
    queue.add("a");
    let _item = queue.get().await;
    let mut drain = pin!(queue.shut_down_with_drain());
    assert!(is_pending(drain.as_mut()).await);
    queue.shut_down();
    timeout(SECOND, drain).await.expect("the item is not done, and no caller waits for it");
}

#[tokio::test(start_paused = true)]
async fn dropping_drain_leaves_the_queue_shut_down() {
    let queue = Queue::default();
    queue.add("a");
    let item = queue.get().await;
    let _: Result<_, _> = timeout(SECOND, queue.shut_down_with_drain()).await;
    assert!(queue.is_shut_down());
    drop(item);
    assert!(queue.get().await.is_none());
    timeout(SECOND, queue.shut_down_with_drain()).await.expect("nothing is left to wait for");
}

/// Random work by eight tasks: no key is lost, no key is processed twice at once, and the last add of each key is
/// followed by a run that started after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_last_add_is_followed_by_a_run_and_no_key_runs_beside_itself() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

    #[derive(Default)]
    struct Key {
        running: AtomicBool,
        added: AtomicU64,
        seen: AtomicU64,
    }
    const KEYS: usize = 1000;
    let keys: Arc<Vec<Key>> = Arc::new((0..KEYS).map(|_| Key::default()).collect());
    let queue = Queue::default();
    let mut workers = JoinSet::new();
    for _ in 0..8 {
        let (queue, keys) = (queue.clone(), keys.clone());
        workers.spawn(async move {
            while let Some(item) = queue.get().await {
                let key: &Key = &keys[*item];
                assert!(!key.running.swap(true, SeqCst), "key {} runs beside itself", *item);
                let added = key.added.load(SeqCst);
                if added.is_multiple_of(3) {
                    yield_now().await;
                }
                key.seen.fetch_max(added, SeqCst);
                assert!(key.running.swap(false, SeqCst));
            }
        });
    }
    let mut producers = JoinSet::new();
    for seed in 0..8 {
        let (queue, keys) = (queue.clone(), keys.clone());
        producers.spawn(async move {
            let mut random: u64 = seed + 1;
            for _ in 0..KEYS * 100 / 8 {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let key = (random >> 33) as usize % KEYS;
                keys[key].added.fetch_add(1, SeqCst);
                match random >> 62 {
                    0 => queue.add_after(key, Duration::from_micros(random >> 50 & 0x3ff)),
                    _ => queue.add(key),
                }
                if random >> 40 & 0xff == 0 {
                    yield_now().await;
                }
            }
        });
    }
    producers.join_all().await;
    while keys.iter().any(|key| key.seen.load(SeqCst) != key.added.load(SeqCst)) {
        yield_now().await;
    }
    assert!(queue.shut_down_with_drain().await.is_empty());
    workers.join_all().await;
}

/// Checks the promises of the test above in one thread with paused time, where a seed determines every step:
/// `WORKQUEUE_SEED=7 cargo test -p kube-workqueue --test queue any_seed` repeats a failure.
#[test]
fn any_seed_loses_no_last_add_and_runs_no_key_beside_itself() {
    let seeds = match std::env::var("WORKQUEUE_SEED") {
        Ok(seed) => vec![seed.parse().expect("WORKQUEUE_SEED is a number")],
        Err(_) => (0..10).collect(),
    };
    for seed in seeds {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime can be made");
        let ran = catch_unwind(AssertUnwindSafe(|| runtime.block_on(random_work(seed))));
        ran.unwrap_or_else(|_| panic!("it failed with WORKQUEUE_SEED={seed}"));
    }
    let orders = [3, 3, 4].map(|seed| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.expect("a runtime can be made").block_on(random_work(seed))
    });
    assert!(orders[0] == orders[1], "a seed repeats the order of all runs");
    assert!(orders[0] != orders[2], "another seed is another order");
}

/// Adds 100 keys 20 times each on average, from eight tasks, and works on them in eight. Returns the order of the runs.
async fn random_work(seed: u64) -> Vec<usize> {
    use std::cell::RefCell;
    use std::rc::Rc;

    use tokio::task::LocalSet;

    const KEYS: usize = 100;

    #[derive(Default)]
    struct Seen {
        /// For each key: whether it runs, the number of adds, and how many of those a run began after.
        keys: Vec<(bool, u32, u32)>,
        order: Vec<usize>,
    }
    let seen = Rc::new(RefCell::new(Seen { keys: vec![(false, 0, 0); KEYS], order: Vec::new() }));
    let random = Rc::new(RefCell::new(fastrand::Rng::with_seed(seed)));
    let pause = {
        let random = Rc::clone(&random);
        move || {
            let draw = random.borrow_mut().u8(..4);
            let micros = random.borrow_mut().u64(..5_000);
            async move {
                match draw {
                    0 => sleep(Duration::from_micros(micros)).await,
                    1 => yield_now().await,
                    _ => {}
                }
            }
        }
    };
    let (queue, tasks, mut producers) = (Queue::<usize>::default(), LocalSet::new(), Vec::new());
    for _ in 0..8 {
        let (queue, seen, random, pause) =
            (queue.clone(), Rc::clone(&seen), Rc::clone(&random), pause.clone());
        tasks.spawn_local(async move {
            while let Some(item) = queue.get().await {
                let (runs, added, _) = seen.borrow().keys[*item];
                assert!(!runs, "key {} runs beside itself", *item);
                seen.borrow_mut().keys[*item].0 = true;
                seen.borrow_mut().order.push(*item);
                pause().await;
                match random.borrow_mut().u8(..10) {
                    // The key runs again by itself, which is an add like any other.
                    0 => {
                        seen.borrow_mut().keys[*item].1 += 1;
                        queue.add_rate_limited(*item);
                    }
                    _ => queue.forget(&item),
                }
                let key = &mut seen.borrow_mut().keys[*item];
                (key.0, key.2) = (false, key.2.max(added));
            }
        });
    }
    for _ in 0..8 {
        let (queue, seen, random, pause) =
            (queue.clone(), Rc::clone(&seen), Rc::clone(&random), pause.clone());
        producers.push(tasks.spawn_local(async move {
            for _ in 0..KEYS * 20 / 8 {
                let key = random.borrow_mut().usize(..KEYS);
                seen.borrow_mut().keys[key].1 += 1;
                let micros = random.borrow_mut().u64(..20_000);
                match random.borrow_mut().u8(..4) {
                    0 => queue.add_after(key, Duration::from_micros(micros)),
                    _ => queue.add(key),
                }
                pause().await;
            }
        }));
    }
    let check = async {
        for producer in producers {
            producer.await.expect("a producer does not panic");
        }
        // Long enough for every delay and for retries in back-off.
        sleep(3600 * SECOND).await;
        let lost: Vec<usize> =
            (0..KEYS).filter(|key| seen.borrow().keys[*key].1 != seen.borrow().keys[*key].2).collect();
        assert_eq!(lost, [0; 0], "keys with an add that no run followed");
        assert!(queue.shut_down().is_empty() && queue.is_empty());
    };
    tasks.run_until(check).await;
    std::mem::take(&mut seen.borrow_mut().order)
}
