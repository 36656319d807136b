//! Steps of the system clock, paused time, and agreement between clocks.

use std::sync::atomic::{AtomicI64, Ordering};

use jiff::SignedDuration;
use proptest::prelude::*;
use tokio::time::{Duration, advance, pause, resume, sleep};

use super::*;

const DAY: Duration = Duration::from_secs(86_400);

fn new_year() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

/// Seconds shown by the system clock of [`stepped`].
static SYSTEM: AtomicI64 = AtomicI64::new(0);

/// A clock on a system clock that the test sets.
fn stepped() -> Clock {
    Clock { epoch: None, system: || Timestamp::from_second(SYSTEM.load(Ordering::Relaxed)).unwrap() }
}

#[tokio::test]
async fn a_step_of_the_system_clock_is_visible_at_the_next_read() {
    let clock = stepped();
    for seconds in [1_000_000, 2_000_000, 1_500_000] {
        SYSTEM.store(seconds, Ordering::Relaxed);
        assert_eq!(clock.now().as_second(), seconds);
        let in_an_hour = clock.at(Instant::now() + Duration::from_secs(3600));
        assert!(in_an_hour.as_second().abs_diff(seconds + 3600) <= 1, "{in_an_hour}");
    }
}

#[tokio::test]
async fn a_running_clock_shows_the_time_of_the_system() {
    let (before, shown, after) = (system_time(), Clock::default().now(), system_time());
    assert!(before <= shown && shown <= after, "{before} {shown} {after}");
}

#[tokio::test(flavor = "multi_thread")]
async fn time_of_a_runtime_with_several_threads_is_not_paused() {
    for _ in 0..10_000 {
        assert!(matches!(paused(), Paused::No(_)));
    }
}

#[test]
fn time_outside_of_a_runtime_is_not_paused() {
    for _ in 0..10_000 {
        assert!(matches!(paused(), Paused::No(_)));
    }
}

#[tokio::test(start_paused = true)]
async fn clocks_made_a_virtual_day_apart_agree_in_paused_time() {
    let first = Clock::default();
    let began = first.now();
    sleep(DAY).await;
    let second = Clock::default();
    assert_eq!(first.now(), second.now());
    assert_eq!(second.now().duration_since(began), SignedDuration::try_from(DAY).unwrap());
    assert_eq!(second.at(Instant::now() - DAY), began);
}

#[tokio::test(start_paused = true)]
async fn paused_time_begins_with_the_time_of_the_system() {
    let apart = system_time().duration_since(Clock::default().now()).abs();
    assert!(apart < SignedDuration::from_secs(60), "{apart}");
}

#[tokio::test]
async fn time_may_be_paused_and_resumed_at_any_point() {
    assert!(matches!(paused(), Paused::No(_)));
    pause();
    assert!(matches!(paused(), Paused::Yes));
    advance(DAY).await;
    assert!(matches!(paused(), Paused::Yes));
    resume();
    assert!(matches!(paused(), Paused::No(_)));
}

#[tokio::test(start_paused = true)]
async fn paused_time_is_recognised_on_blocking_threads_of_the_runtime() {
    assert!(tokio::task::spawn_blocking(|| matches!(paused(), Paused::Yes)).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn clocks_with_one_epoch_agree_and_continue_it() {
    let epoch = Epoch::starting_now(new_year());
    sleep(DAY).await;
    let clock = Clock::new(Some(epoch));
    assert_eq!(clock.now(), "2026-01-02T00:00:00Z".parse().unwrap());
    assert_eq!(epoch.now(), clock.now());
}

#[tokio::test]
async fn an_epoch_replaces_the_system_clock_in_running_time_too() {
    let clock = Clock { epoch: Some(Epoch::starting_now(new_year())), ..stepped() };
    let elapsed = clock.now().duration_since(new_year());
    assert!(!elapsed.is_negative() && elapsed < SignedDuration::from_secs(60), "{elapsed}");
}

#[test]
fn times_beyond_the_range_of_timestamps_are_its_bounds() {
    let century = Duration::from_secs(100 * 365 * 86_400);
    let instant = Instant::now() + century;
    assert_eq!(Epoch { instant, timestamp: Timestamp::MIN }.at(instant - century), Timestamp::MIN);
    assert_eq!(Epoch { instant, timestamp: Timestamp::MAX }.at(instant + century), Timestamp::MAX);
}

proptest! {
    /// Wall time and tokio's time differ by a constant, independently of the order and the distance of reads.
    #[test]
    fn wall_time_advances_exactly_as_tokio_does(before in 0..4_000_000_000_000_u64, after in 0..4_000_000_000_000_u64) {
        let epoch = Epoch::starting_now(new_year());
        let (before, after) = (Duration::from_micros(before), Duration::from_micros(after));
        let apart = epoch.at(epoch.instant + after).duration_since(epoch.at(epoch.instant + before));
        let expected = SignedDuration::try_from(after).unwrap() - SignedDuration::try_from(before).unwrap();
        prop_assert_eq!(apart, expected);
    }
}

#[tokio::test]
async fn an_epoch_of_the_thread_ends_with_its_guard_and_yields_to_an_own_one() {
    pause();
    let (of_thread, own) = (new_year(), "2030-01-01T00:00:00Z".parse().unwrap());
    let without = Clock::default();
    {
        let _outer = Epoch::starting_now(own).for_this_thread();
        let inner = Epoch::starting_now(of_thread).for_this_thread();
        advance(DAY).await;
        assert_eq!(without.now(), of_thread + SignedDuration::from_hours(24));
        assert_eq!(Clock::new(Some(Epoch::starting_now(own))).now(), own);
        drop(inner);
        assert_eq!(without.now(), own + SignedDuration::from_hours(24));
    }
    assert_ne!(without.now(), own + SignedDuration::from_hours(24), "the reading of the system again");
}
