//! Known figures of controller-runtime's queue: back-off of one key, storms of ten thousand keys, the bucket above
//! them.
//!
//! Real queues in paused time; the times are exact.

#[path = "../examples/backoff-figures/simulation.rs"]
mod simulation;

use std::time::Duration;

use kube_workqueue::{
    Bucket, ItemExponentialFailure, ItemFastSlow, MaxOf, Options, Queue, RateLimiter, WithFullJitter,
    default_controller_rate_limiter,
};
use simulation::fail;
use tokio::time::{Instant, advance, timeout};

const SECOND: Duration = Duration::from_secs(1);

fn seconds(durations: &[Duration]) -> Vec<f64> {
    durations.iter().map(Duration::as_secs_f64).collect()
}

fn exponential() -> ItemExponentialFailure<u32> {
    ItemExponentialFailure::default()
}

/// In controller-runtime before v0.7 a worker loop ran again one second after each error.
fn legacy() -> MaxOf<u32> {
    let one_second = ItemFastSlow::new(SECOND, SECOND, 0);
    MaxOf::new([Box::new(exponential()) as Box<dyn RateLimiter<u32>>, Box::new(one_second)])
}

#[tokio::test(start_paused = true)]
async fn delays_of_one_key_double_from_5_ms_to_655_36_s_and_end_at_1000_s() {
    let delays = fail(exponential(), 1, 5000 * SECOND).await.delays();
    let expected = [
        0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92,
        163.84, 327.68, 655.36, 1000.0, 1000.0, 1000.0,
    ];
    assert_eq!(seconds(&delays), expected);
}

#[tokio::test(start_paused = true)]
async fn one_key_is_retried_seven_times_in_the_first_second() {
    let retries = fail(exponential(), 1, 2311 * SECOND).await;
    let expected = [0.005, 0.015, 0.035, 0.075, 0.155, 0.315, 0.635, 1.275, 2.555, 5.115, 10.235, 20.475];
    assert_eq!(seconds(&retries.at[..12]), expected);
    assert_eq!(retries.per_second(1), [7]);
    assert_eq!(seconds(&retries.at[17..]), [1310.715, 2310.715], "the 18th and the 19th");
}

#[tokio::test(start_paused = true)]
async fn after_a_success_the_next_failure_waits_5_ms_again() {
    let queue = Queue::new(Options::default().rate_limiter(exponential()));
    queue.add(1);
    for failures in [1, 5, 20] {
        for _ in 0..failures {
            let item = queue.get().await.unwrap();
            queue.add_rate_limited(*item);
        }
        let item = queue.get().await.unwrap();
        queue.forget(&item);
        queue.add_after(*item, 30 * SECOND);
        drop(item);
        let item = queue.get().await.unwrap();
        queue.add_rate_limited(*item);
        drop(item);
        assert_eq!(queue.when(&1).unwrap().until - Instant::now(), SECOND / 200);
        queue.forget(&1);
    }
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_failing_keys_without_a_bucket_are_retried_in_waves() {
    let retries = fail(exponential(), 10_000, 20 * SECOND).await;
    let mut expected = [0; 20];
    expected[0] = 70_000;
    for wave in [1, 2, 5, 10] {
        expected[wave] = 10_000;
    }
    assert_eq!(retries.per_second(20), expected);
    assert_eq!(retries.at.len(), 110_000);
    let mut instants = retries.at;
    instants.dedup();
    assert_eq!(instants.len(), 11, "a wave is one instant");
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_failing_keys_under_a_bucket_are_109_and_then_ten_a_second() {
    let retries = fail(Bucket::default(), 10_000, 20 * SECOND).await;
    let mut expected = [10; 20];
    expected[0] = 109;
    assert_eq!(retries.per_second(20), expected);
    assert_eq!(retries.at.len(), 299);
    assert_eq!(retries.at[99], Duration::ZERO, "the burst is not delayed");
    assert_eq!(retries.at[100], SECOND / 10);
}

#[tokio::test(start_paused = true)]
async fn the_combination_is_the_bucket_with_the_burst_delayed_by_5_ms() {
    let retries = fail(default_controller_rate_limiter(), 10_000, 20 * SECOND).await;
    let mut expected = [10; 20];
    expected[0] = 109;
    assert_eq!(retries.per_second(20), expected);
    assert_eq!(retries.at.len(), 299);
    assert_eq!(retries.at[..100], [SECOND / 200; 100]);
}

#[tokio::test(start_paused = true)]
async fn a_storm_of_failures_does_not_slow_down_first_time_events() {
    let queue = Queue::default();
    for key in 0..10_000_u32 {
        queue.add_rate_limited(key);
    }
    advance(SECOND / 2).await;
    while timeout(Duration::ZERO, queue.get()).await.is_ok() {}
    for key in 10_000..11_000 {
        queue.add(key);
    }
    let start = Instant::now();
    for key in 10_000..11_000 {
        assert_eq!(*queue.get().await.unwrap(), key);
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
}

/// A wave is the n-th retries of all keys. It is spread evenly over its delay from the first retry on; from the seventh on the
/// delay is 320 ms or more, and then no 10 ms hold more than a twentieth of the keys.
#[tokio::test(start_paused = true)]
async fn with_full_jitter_a_wave_is_no_herd() {
    const KEYS: u32 = 10_000;
    const SLOTS: u32 = 32;
    let queue = Queue::new(Options::default().rate_limiter(WithFullJitter::new(exponential(), 1)));
    (0..KEYS).for_each(|key| queue.add(key));
    let (mut failures, mut waves) = (vec![0; KEYS as usize], [[0_u32; SLOTS as usize]; 12]);
    let (start, mut slots) = (Instant::now(), vec![0; 2000]);
    while let Ok(Some(item)) = timeout(SECOND, queue.get()).await
        && start.elapsed() < 20 * SECOND
    {
        if let Some(wave) = waves.get_mut(failures[*item as usize]) {
            let longest = SECOND / 200 * (1 << failures[*item as usize]);
            queue.add_rate_limited(*item);
            let at = queue.when(&item).map_or_else(Instant::now, |waiting| waiting.until);
            let slot = (at - Instant::now()).as_nanos() * u128::from(SLOTS) / longest.as_nanos();
            wave[(slot as usize).min(SLOTS as usize - 1)] += 1;
            failures[*item as usize] += 1;
            if longest >= SECOND / 5
                && let Some(slot) = slots.get_mut((at - start).as_millis() as usize / 10)
            {
                *slot += 1;
            }
        }
    }
    for (number, wave) in waves.iter().enumerate() {
        let keys: u32 = wave.iter().sum();
        assert!(keys > KEYS / 2, "most keys reach retry {number}: {keys}");
        assert!(
            wave.iter().all(|slot| *slot <= KEYS / 20),
            "a 32nd of the delay of retry {number} holds more than a twentieth of the keys: {wave:?}"
        );
    }
    assert!(
        slots.iter().all(|keys| *keys <= KEYS / 20),
        "a slot of 10 ms holds more than a twentieth of a wave"
    );
}

#[tokio::test(start_paused = true)]
async fn sixteen_failures_of_the_legacy_loop_take_334_4_s() {
    let retries = fail(legacy(), 1, 335 * SECOND).await;
    let mut expected = vec![1.0; 8];
    expected.extend([1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92, 163.84]);
    assert_eq!(seconds(&retries.delays()), expected);
    assert_eq!(retries.at.last().unwrap().as_secs_f64(), 334.4);
}

#[tokio::test(start_paused = true)]
async fn thirteen_failures_and_a_success_of_the_legacy_loop_take_47_68_s() {
    let queue = Queue::new(Options::default().rate_limiter(legacy()));
    let (start, mut attempts) = (Instant::now(), Vec::new());
    queue.add(1);
    while let Some(item) = queue.get().await {
        attempts.push(start.elapsed());
        if attempts.len() <= 13 {
            queue.add_rate_limited(*item);
        } else {
            queue.forget(&item);
            queue.shut_down();
        }
    }
    let intervals: Vec<Duration> = attempts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let mut expected = vec![1.0; 8];
    expected.extend([1.28, 2.56, 5.12, 10.24, 20.48]);
    assert_eq!(seconds(&intervals), expected);
    assert_eq!(start.elapsed(), Duration::from_millis(47_680));
    assert_eq!(queue.num_requeues(&1), 0);
}

#[tokio::test(start_paused = true)]
async fn of_three_delays_the_shortest_makes_the_key_ready_once() {
    let (queue, start) = (Queue::default(), Instant::now());
    for delay in [10, 5, 20] {
        queue.add_after("k", delay * SECOND);
    }
    drop(queue.get().await);
    assert_eq!(start.elapsed(), 5 * SECOND);
    assert!(timeout(60 * SECOND, queue.get()).await.is_err(), "it is ready once");

    queue.add_after("three", 3 * SECOND);
    queue.add_after("one", SECOND);
    assert_eq!(*queue.get().await.unwrap(), "one");
    assert_eq!(*queue.get().await.unwrap(), "three");
}

#[tokio::test(start_paused = true)]
async fn requeue_after_keeps_its_interval_and_leaves_the_limiter_alone() {
    let (queue, start) = (Queue::default(), Instant::now());
    queue.add("k");
    for round in 0..4 {
        let item = queue.get().await.unwrap();
        assert_eq!(start.elapsed(), round * 30 * SECOND);
        queue.forget(&item);
        queue.add_after(*item, 30 * SECOND);
        assert_eq!(queue.num_requeues(&item), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn three_queues_under_one_bucket_together_keep_its_figures() {
    let bucket = Bucket::default();
    let span = 20 * SECOND;
    let queues = [3334, 3333, 3333].map(|keys| fail(bucket.clone(), keys, span));
    let [one, two, three] = queues;
    let (one, two, three) = tokio::join!(one, two, three);
    let mut all: Vec<Duration> = [one, two, three].into_iter().flat_map(|retries| retries.at).collect();
    all.sort_unstable();
    let all = simulation::Retries { at: all };
    let mut expected = [10; 20];
    expected[0] = 109;
    assert_eq!(all.per_second(20), expected);
}

#[tokio::test(start_paused = true)]
async fn three_fast_retries_and_then_slow_ones() {
    let limiter = ItemFastSlow::new(SECOND / 200, 10 * SECOND, 3);
    let retries = fail(limiter, 1, 21 * SECOND).await;
    assert_eq!(seconds(&retries.delays()), [0.005, 0.005, 0.005, 10.0, 10.0]);
}
