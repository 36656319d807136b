//! Recovery from an outage: retries that the shared bucket delays while attempts fail, and their speed afterwards.
//!
//! Real queues with the default limiter, in paused time; each attempt takes 5 ms.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use kube_workqueue::{BackOffEvents, Bucket, Options, Queue, RateLimiter, default_controller_rate_limiter};
use tokio::task::LocalSet;
use tokio::time::{Instant, advance, sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);

/// Keys from this number on succeed even while the service is down.
const HEALTHY: u32 = 1_000_000;

/// A service with outages, the attempts to use it, and the workers that make them.
#[derive(Clone)]
struct Service(Rc<RefCell<State>>);

struct State {
    start: Instant,
    is_up: bool,
    failures: Vec<Duration>,
    successes: Vec<(u32, Duration)>,
}

impl Service {
    fn down() -> Self {
        let (failures, successes) = (Vec::new(), Vec::new());
        Self(Rc::new(RefCell::new(State { start: Instant::now(), is_up: false, failures, successes })))
    }

    fn set(&self, is_up: bool) {
        self.0.borrow_mut().is_up = is_up;
    }

    /// Spawns workers that attempt the keys of `queue`.
    fn work(&self, queue: &Queue<u32>, workers: usize, tasks: &LocalSet) {
        for _ in 0..workers {
            let (service, queue) = (self.clone(), queue.clone());
            tasks.spawn_local(async move {
                while let Some(item) = queue.get().await {
                    sleep(Duration::from_millis(5)).await;
                    let mut state = service.0.borrow_mut();
                    let at = state.start.elapsed();
                    if state.is_up || *item >= HEALTHY {
                        state.successes.push((*item, at));
                        queue.forget(&item);
                    } else {
                        state.failures.push(at);
                        queue.add_rate_limited(*item);
                    }
                }
            });
        }
    }

    fn succeeded(&self) -> usize {
        self.0.borrow().successes.len()
    }

    /// Returns the number of failures in each second from `from` on.
    fn failures_per_second(&self, from: Duration, seconds: usize) -> Vec<usize> {
        let mut counts = vec![0; seconds];
        for at in self.0.borrow().failures.iter().filter_map(|at| at.checked_sub(from)) {
            if let Some(count) = counts.get_mut(usize::try_from(at.as_secs()).expect("a few seconds")) {
                *count += 1;
            }
        }
        counts
    }

    /// Waits until `count` attempts have succeeded.
    async fn wait_for(&self, count: usize) -> Duration {
        let began = Instant::now();
        let all = async {
            while self.succeeded() < count {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(2000 * SECOND, all).await.expect("every key is retried");
        began.elapsed()
    }
}

fn queue(limiter: impl RateLimiter<u32> + 'static) -> Queue<u32> {
    Queue::new(Options::default().rate_limiter(limiter))
}

/// Ten thousand keys that fail for five minutes.
async fn outage(queue: &Queue<u32>, tasks: &LocalSet) -> Service {
    let service = Service::down();
    (0..10_000).for_each(|key| queue.add(key));
    service.work(queue, 16, tasks);
    tasks.run_until(sleep(300 * SECOND)).await;
    service
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_keys_are_done_within_30_s_of_the_end_of_an_outage() {
    let (queue, tasks) = (Queue::default(), LocalSet::new());
    let service = outage(&queue, &tasks).await;
    assert_eq!(
        service.failures_per_second(200 * SECOND, 99),
        [10; 99],
        "while attempts fail the bucket holds"
    );
    service.set(true);
    let took = tasks.run_until(service.wait_for(10_000)).await;
    assert!(took < 30 * SECOND, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn keys_move_up_in_the_order_of_their_slots() {
    let (queue, tasks, service) = (Queue::default(), LocalSet::new(), Service::down());
    (0..1000).for_each(|key| queue.add_rate_limited(key));
    service.set(true);
    service.work(&queue, 1, &tasks);
    tasks.run_until(service.wait_for(1000)).await;
    let keys: Vec<u32> = service.0.borrow().successes.iter().map(|(key, _)| *key).collect();
    assert!(keys.is_sorted(), "{keys:?}");
}

#[tokio::test(start_paused = true)]
async fn a_relapse_costs_one_burst_and_then_the_rate_of_the_bucket_and_retries_go_on() {
    let (queue, tasks) = (Queue::default(), LocalSet::new());
    let service = outage(&queue, &tasks).await;
    service.set(true);
    tasks.run_until(service.wait_for(5000)).await;
    service.set(false);
    let relapse = service.0.borrow().start.elapsed();
    tasks.run_until(sleep(61 * SECOND)).await;
    let failures = service.failures_per_second(relapse, 60);
    assert!((90..=110).contains(&failures[0]), "what ran ahead: {failures:?}");
    // Retries that ran ahead have used slots of the next seconds, so the limit of the bucket holds at all times.
    let mut all = 0;
    for (second, count) in failures.iter().enumerate() {
        all += count;
        assert!(all <= 100 + 10 * (second + 1), "{failures:?}");
    }
    assert!(failures[11..].iter().all(|count| *count == 10), "{failures:?}");
    service.set(true);
    let took = tasks.run_until(service.wait_for(10_000)).await;
    assert!(took < 30 * SECOND, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn after_the_service_refused_load_keys_keep_to_the_bucket_until_the_next_success() {
    let queue = Queue::default();
    (0..200).for_each(|key| queue.add_rate_limited(key));
    advance(SECOND / 200).await;
    for _ in 0..100 {
        drop(queue.get().await);
    }
    assert_eq!(queue.len(), 0, "a hundred are held back");
    sleep(SECOND / 10).await;
    let first = queue.get().await.unwrap();
    queue.forget(&first);
    assert_eq!(queue.len(), 1, "one moved up");
    let second = queue.get().await.unwrap();
    queue.throttled();
    drop((first, second));
    assert_eq!(queue.len(), 0, "none moves up");
    sleep(SECOND / 10).await;
    let third = queue.get().await.unwrap();
    queue.forget(&third);
    assert_eq!(queue.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_keys_own_back_off_is_not_cut_short() {
    let queue = queue(default_controller_rate_limiter());
    let start = Instant::now();
    queue.add_rate_limited(0);
    // The twelfth failure has a back-off of 10.24 s, the bucket a shorter delay.
    for _ in 0..11 {
        drop(queue.get().await.inspect(|item| queue.add_rate_limited(**item)));
    }
    (1..150).for_each(|key| queue.add_rate_limited(key));
    let failed = Instant::now();
    let mut last = 0;
    while let Some(item) = queue.get().await {
        last = *item;
        queue.forget(&item);
        if last == 0 {
            break;
        }
    }
    assert_eq!((last, failed.elapsed()), (0, Duration::from_millis(10_240)), "{:?}", start.elapsed());
}

/// Keys of a queue that wait behind slots of another one, because both share a bucket.
#[tokio::test(start_paused = true)]
async fn slots_that_another_queue_gives_back_are_noticed_within_a_second() {
    let bucket = Bucket::default();
    let (one, other) = (queue(bucket.clone()), queue(bucket));
    (0..1100).for_each(|key| one.add_rate_limited(key));
    other.add_rate_limited(7);
    assert_eq!(other.when(&7).unwrap().until - Instant::now(), Duration::from_millis(100_100));
    sleep(SECOND / 2).await;
    (0..1100).for_each(|key| one.forget(&key));
    let began = Instant::now();
    assert_eq!(*other.get().await.unwrap(), 7);
    assert!(began.elapsed() <= SECOND, "{:?}", began.elapsed());
}

/// A user's limiter that implements only the required methods.
struct Own;

impl RateLimiter<u32> for Own {
    fn when(&mut self, key: &u32, _now: Instant) -> Duration {
        *key * SECOND
    }

    fn forget(&mut self, _key: &u32, _now: Instant) {}

    fn num_requeues(&self, _key: &u32) -> u32 {
        0
    }
}

#[tokio::test(start_paused = true)]
async fn a_limiter_of_a_user_is_asked_for_its_delays_and_nothing_else() {
    for events in [BackOffEvents::default(), BackOffEvents::Always] {
        let queue = Queue::new(Options::default().rate_limiter(Own).back_off_events(events));
        let start = Instant::now();
        (1..20).for_each(|key| queue.add_rate_limited(key));
        for expected in 1..20 {
            let item = queue.get().await.unwrap();
            queue.forget(&item);
            assert_eq!((*item, start.elapsed()), (expected, expected * SECOND));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn successes_of_keys_that_never_failed_release_nothing() {
    let (queue, service, tasks) = (Queue::default(), Service::down(), LocalSet::new());
    (0..1000).for_each(|key| queue.add(key));
    service.work(&queue, 16, &tasks);
    let healthy = async {
        for key in HEALTHY..HEALTHY + 2000 {
            queue.add(key);
            sleep(SECOND / 100).await;
        }
    };
    tasks.run_until(healthy).await;
    assert_eq!(service.succeeded(), 2000);
    assert_eq!(service.failures_per_second(5 * SECOND, 15), [10; 15]);
}
