//! Memory of a queue after a million keys: within 20 % of the level before. Some tests use fewer keys, to be quick.
//!
//! Counts the bytes that the whole process has allocated. So the tests run one after the other on the main thread: the usual harness would
//! start the thread of the next test during a measurement.

use std::process::ExitCode;
use std::time::Duration;

use kube_workqueue::{Bucket, Flow, ItemExponentialFailure, ItemFastSlow, Options, Queue, RateLimiter};
use libtest_mimic::{Arguments, Trial};
use peak_alloc::PeakAlloc;
use tokio::time::{Instant, advance};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

const MILLION: u32 = 1_000_000;
/// Number of keys where a million would take long.
const MANY: u32 = 100_000;
/// Number of keys that stay in a queue. The hash seed of a process divides them unequally among the tables of a map; this number is far from
/// those at which an average table grows or shrinks.
const STAY: u32 = 9_000;
const HOUR: Duration = Duration::from_hours(1);

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let tests = vec![
        test("ready_keys", ready_keys),
        test("keys_of_many_flows", keys_of_many_flows),
        test("delayed_keys", delayed_keys),
        test("keys_that_stay_among_those_that_go", keys_that_stay_among_those_that_go),
        test("failed_keys", failed_keys),
        test("exponential_limiter", exponential_limiter),
        test("fast_slow_limiter", fast_slow_limiter),
        test("bucket", bucket),
    ];
    libtest_mimic::run(&arguments, tests).exit_code()
}

/// A test in paused time.
fn test<F: Future<Output = ()>>(name: &str, body: impl FnOnce() -> F + Send + 'static) -> Trial {
    Trial::test(name, move || {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
        runtime.block_on(body());
        Ok(())
    })
}

/// Runs `storm` on a value, and compares the memory after it with the memory before.
async fn check<T>(make: impl FnOnce() -> T, storm: impl AsyncFnOnce(&mut T)) {
    let empty = ALLOCATOR.current_usage();
    let mut value = make();
    let before = ALLOCATOR.current_usage() - empty;
    ALLOCATOR.reset_peak_usage();
    storm(&mut value).await;
    let peak = ALLOCATOR.peak_usage() - empty;
    let after = ALLOCATOR.current_usage() - empty;
    drop(value);
    let figures = format!("{before} bytes before the storm, {peak} at its peak, {after} after it");
    assert!(peak > 5 * before, "the storm took no memory: {figures}");
    assert!(after * 5 <= before * 6, "{figures}");
}

/// A queue of keys that wait for a long time. The keys of the storm are below a million, these above.
fn queue(options: Options<u32>) -> Queue<u32> {
    let queue = Queue::new(options);
    for key in MILLION..MILLION + STAY {
        queue.add_after(key, 10 * HOUR);
    }
    queue
}

/// Hands out ready keys until there are none.
async fn drain(queue: &Queue<u32>) {
    while !queue.is_empty() {
        let item = queue.get().await.expect("the queue is open");
        queue.forget(&item);
    }
}

async fn ready_keys() {
    check(
        || queue(Options::default()),
        async |queue| {
            (0..MILLION).for_each(|key| queue.add(key));
            drain(queue).await;
        },
    )
    .await;
}

async fn keys_of_many_flows() {
    let options = Options::default().fair_by(|key: &u32| Flow::from(key.to_string()));
    check(
        || queue(options),
        async |queue| {
            (0..MANY).for_each(|key| queue.add(key));
            drain(queue).await;
        },
    )
    .await;
}

async fn delayed_keys() {
    check(
        || queue(Options::default()),
        async |queue| {
            for key in 0..MILLION {
                queue.add_after(key, Duration::from_millis(u64::from(key) * 7919 % 10_007));
            }
            advance(HOUR).await;
            drain(queue).await;
        },
    )
    .await;
}

/// Keys that wait for a long time are placed between those of the storm, so each of them could hold the memory of others.
async fn keys_that_stay_among_those_that_go() {
    check(
        || queue(Options::default()),
        async |queue| {
            for key in MILLION..MILLION + STAY {
                assert!(queue.cancel(&key));
            }
            for key in 0..MANY {
                if key % 10 == 0 && key / 10 < STAY {
                    queue.add_after(MILLION + key / 10, 10 * HOUR);
                }
                queue.add(key);
            }
            drain(queue).await;
            assert_eq!(queue.snapshot().count(), STAY as usize);
        },
    )
    .await;
}

async fn failed_keys() {
    check(
        || queue(Options::default()),
        async |queue| {
            (0..MANY).for_each(|key| queue.add_rate_limited(key));
            for key in 0..MANY {
                queue.cancel(&key);
                queue.forget(&key);
            }
        },
    )
    .await;
}

/// Failures and reservations of all keys of a limiter.
fn storm(limiter: &mut dyn RateLimiter<u32>, now: Instant) {
    for key in 0..MANY {
        limiter.when(&key, now);
        limiter.when(&key, now);
    }
    (0..MANY).for_each(|key| limiter.forget(&key, now));
    assert_eq!(limiter.num_requeues(&MILLION), limiter.num_requeues(&(MILLION + 1)));
}

async fn check_limiter<L: RateLimiter<u32>>(mut limiter: L) {
    let now = Instant::now();
    let make = || {
        for key in MILLION..MILLION + STAY {
            limiter.when(&key, now);
        }
        limiter
    };
    check(make, async |limiter| storm(limiter, now)).await;
}

async fn exponential_limiter() {
    check_limiter(ItemExponentialFailure::default()).await;
}

async fn fast_slow_limiter() {
    check_limiter(ItemFastSlow::new(HOUR, HOUR, 1)).await;
}

async fn bucket() {
    check_limiter(Bucket::try_new(1000.0, 1).expect("a bucket")).await;
}
