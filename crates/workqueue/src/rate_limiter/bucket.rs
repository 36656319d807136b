//! A budget of retries that many keys share.

use std::fmt;
use std::hash::Hash;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::tokens::Tokens;
use super::{Delay, RateLimiter};
use crate::map::Map;
use crate::sync::Mutex;

/// A token bucket: `burst` retries at once, then `rate` a second, for all keys together.
///
/// It starts full. Each retry takes one token; when none is left, the retry reserves the next one to arrive and
/// is delayed until then, so reservations queue up behind each other. The arithmetic is that of
/// `golang.org/x/time/rate`, in floating-point tokens, so delays equal Go's to the nanosecond.
///
/// A key that is [forgotten](RateLimiter::forget) before its time returns its slot: the next retry takes the earliest
/// free slot. (client-go never returns a slot. So after ten thousand keys have failed once and recovered, the next retry waits
/// a quarter of an hour: kubernetes/kubernetes#104554.) In every window of length T there are at most `burst + rate × T` retries,
/// whichever keys are forgotten. While no key is forgotten, delays equal Go's.
///
/// A clone draws from the same bucket: give one to each of several queues to bound the sum of their retries. A clone returns
/// only the reservations that it made itself.
///
/// ```
/// # use kube_workqueue::{Bucket, RateLimiter};
/// # use tokio::time::Instant;
/// let mut pods = Bucket::try_new(10.0, 1)?;
/// let mut nodes = pods.clone();
/// let now = Instant::now();
/// assert_eq!(pods.when(&"default/web", now).as_millis(), 0);
/// assert_eq!(nodes.when(&"node-1", now).as_millis(), 100);
/// # Ok::<(), kube_workqueue::BucketError>(())
/// ```
#[doc(alias = "TypedBucketRateLimiter")]
pub struct Bucket<K> {
    tokens: Arc<Mutex<Tokens>>,
    /// Slots reserved by keys of this handle. Some may have passed: they are removed before a table grows, because keys that
    /// are never forgotten must not accumulate.
    reserved: Map<K, Slots>,
}

/// Slots that a key reserved.
struct Slots {
    last: Instant,
    /// Slots that it reserved before its last one and that had not passed then. `None` as long as the key waits for its retry.
    #[expect(clippy::box_collection, reason = "nearly always absent, so its place should be small")]
    earlier: Option<Box<Vec<Instant>>>,
}

/// Number of slots stored for a key in addition to its last one. Beyond that, the one due first is not returned.
const EARLIER_SLOTS: usize = 64;

/// Reason why [`Bucket::try_new`] refused.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BucketError {
    /// The rate is zero, negative or not a number.
    #[error("token bucket: rate {0} is not a positive number of tokens per second")]
    Rate(f64),
    /// A bucket that holds nothing never lets a retry through.
    #[error("token bucket: burst is zero")]
    Burst,
}

impl<K> Bucket<K> {
    /// Makes a bucket that holds `burst` tokens and gains `rate` a second. `f64::INFINITY` never delays.
    ///
    /// # Errors
    /// When `rate` is not positive or `burst` is zero.
    pub fn try_new(rate: f64, burst: u32) -> Result<Self, BucketError> {
        check(rate, burst)?;
        Ok(Self::of(Tokens::new(rate, burst)))
    }

    /// Limits how far a reservation may reach into the future: a retry that would have to wait longer than `horizon` waits
    /// `horizon` and takes no token. So the wait is bounded, but the rate is exceeded. Applies to all clones.
    #[must_use]
    pub fn horizon(self, horizon: Duration) -> Self {
        self.tokens.lock().horizon = horizon;
        self
    }

    /// Changes rate and burst from `now` on, for all clones. Existing reservations stay.
    ///
    /// # Errors
    /// See [`try_new`](Self::try_new); then nothing has changed.
    pub fn set_limits(&self, rate: f64, burst: u32, now: Instant) -> Result<(), BucketError> {
        check(rate, burst)?;
        let mut tokens = self.tokens.lock();
        tokens.advance(now);
        // Time until now counts at the old rate. The second `advance` caps the tokens at the new burst.
        (tokens.rate, tokens.burst) = (rate, f64::from(burst));
        tokens.advance(now);
        Ok(())
    }

    /// A handle of the bucket for a queue with another type of key.
    #[must_use]
    pub fn share<J>(&self) -> Bucket<J> {
        Bucket::drawing_from(self.tokens.clone())
    }

    fn of(tokens: Tokens) -> Self {
        Self::drawing_from(Arc::new(Mutex::new(tokens)))
    }

    fn drawing_from(tokens: Arc<Mutex<Tokens>>) -> Self {
        Self { tokens, reserved: Map::new() }
    }
}

fn check(rate: f64, burst: u32) -> Result<(), BucketError> {
    if rate.is_nan() || rate <= 0.0 {
        return Err(BucketError::Rate(rate));
    }
    if burst == 0 { Err(BucketError::Burst) } else { Ok(()) }
}

/// Ten a second after a burst of a hundred: client-go's default.
impl<K> Default for Bucket<K> {
    fn default() -> Self {
        Self::of(Tokens::new(10.0, 100))
    }
}

impl<K> Clone for Bucket<K> {
    fn clone(&self) -> Self {
        self.share()
    }
}

impl<K> fmt::Debug for Bucket<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tokens = self.tokens.lock();
        f.debug_struct("Bucket")
            .field("rate", &tokens.rate)
            .field("burst", &tokens.burst)
            .finish_non_exhaustive()
    }
}

impl<K: Clone + Eq + Hash + Send> RateLimiter<K> for Bucket<K> {
    fn when(&mut self, key: &K, now: Instant) -> Duration {
        let reservation = self.tokens.lock().reserve(now);
        if let Some(slot) = reservation.slot {
            self.remember(key, slot, now);
        }
        reservation.delay
    }

    fn charge(&mut self, key: &K, now: Instant) -> Delay {
        Delay::shared(self.when(key, now))
    }

    fn move_up(&mut self, key: &K, now: Instant) -> Duration {
        let Some(Slots { last, .. }) = self.reserved.get_mut(key) else { return Duration::ZERO };
        *last = self.tokens.lock().move_up(*last, now);
        last.saturating_duration_since(now)
    }

    fn forget(&mut self, key: &K, now: Instant) {
        let Some(Slots { last, earlier }) = self.reserved.remove(key) else { return };
        let mut tokens = self.tokens.lock();
        for slot in earlier.into_iter().flat_map(|earlier| *earlier).chain([last]) {
            tokens.give_back(slot, now);
        }
    }

    fn num_requeues(&self, _key: &K) -> u32 {
        0
    }
}

impl<K: Clone + Eq + Hash> Bucket<K> {
    /// Records the slot of a key, beside those that it reserved earlier. All become free when the key is forgotten, and not
    /// before, because the limiter does not know at which of them the key is retried.
    fn remember(&mut self, key: &K, slot: Instant, now: Instant) {
        let mut is_new = false;
        let slots = self.reserved.get_or_insert(
            key,
            // A slot that has passed cannot be returned, so its entry is not needed any more.
            |slots| slots.last <= now,
            || {
                is_new = true;
                Slots { last: slot, earlier: None }
            },
        );
        let previous = mem::replace(&mut slots.last, slot);
        if !is_new && now < previous {
            let earlier = slots.earlier.get_or_insert_default();
            earlier.retain(|slot| now < *slot);
            earlier.push(previous);
            // The earliest slot is the one that passes next, so dropping it loses least.
            if earlier.len() > EARLIER_SLOTS {
                let (first, _) =
                    earlier.iter().enumerate().min_by_key(|(_, slot)| **slot).expect("one was just added");
                earlier.swap_remove(first);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::delays;
    use super::*;

    #[test]
    fn burst_is_free_and_then_each_retry_queues_behind_the_last() {
        let mut bucket = Bucket::default();
        let now = Instant::now();
        let first: Vec<f64> = delays(&mut bucket, &"a", now, 10_000);
        assert_eq!(first[..100], [0.0; 100]);
        assert_eq!(first[100..103], [0.1, 0.2, 0.3]);
        assert_eq!(first[9_999], 990.0);
    }

    #[test]
    fn tokens_drip_in_with_time_and_never_beyond_the_burst() {
        let (mut bucket, start) = (Bucket::try_new(10.0, 2).unwrap(), Instant::now());
        assert_eq!(delays(&mut bucket, &"a", start, 3), [0.0, 0.0, 0.1]);
        assert_eq!(delays(&mut bucket, &"a", start + Duration::from_millis(150), 1), [0.05]);
        let long_after = start + Duration::from_secs(3600);
        assert_eq!(delays(&mut bucket, &"a", long_after, 3), [0.0, 0.0, 0.1]);
    }

    #[test]
    fn time_going_backwards_adds_nothing() {
        let (mut bucket, start) =
            (Bucket::try_new(1.0, 1).unwrap(), Instant::now() + Duration::from_secs(10));
        assert_eq!(delays(&mut bucket, &"a", start, 1), [0.0]);
        assert_eq!(delays(&mut bucket, &"a", start - Duration::from_secs(5), 1), [1.0]);
    }

    #[test]
    fn clones_and_shares_draw_from_one_bucket() {
        let (mut pods, now) = (Bucket::try_new(10.0, 1).unwrap(), Instant::now());
        let (mut others, mut nodes) = (pods.clone(), pods.share());
        assert_eq!(pods.when(&"a", now).as_millis(), 0);
        assert_eq!(others.when(&"a", now).as_millis(), 100);
        assert_eq!(nodes.when(&7, now).as_millis(), 200);
    }

    #[test]
    fn a_healed_storm_does_not_delay_an_honest_retry() {
        let (mut bucket, start) = (Bucket::default(), Instant::now());
        for key in 0..10_000 {
            bucket.when(&key, start);
        }
        let healed = start + Duration::from_secs(1);
        for key in 0..10_000 {
            bucket.forget(&key, healed);
        }
        assert_eq!(delays(&mut bucket, &0, healed, 3), [0.1, 0.2, 0.3]);
    }

    /// A key reserves again before its slot has come when it is added twice, or runs early because of an event.
    #[test]
    fn a_key_that_reserved_twice_gives_both_slots_back() {
        let (mut bucket, now) = (Bucket::try_new(10.0, 1).unwrap(), Instant::now());
        assert_eq!(delays(&mut bucket, &"a", now, 4), [0.0, 0.1, 0.2, 0.3]);
        bucket.forget(&"a", now);
        assert_eq!(delays(&mut bucket, &"b", now, 4), [0.1, 0.2, 0.3, 0.4]);
    }

    #[test]
    fn a_key_that_reserves_without_end_is_remembered_with_its_last_slots() {
        let (mut bucket, now) = (Bucket::try_new(10.0, 1).unwrap(), Instant::now());
        delays(&mut bucket, &"a", now, 1000);
        let stored = |bucket: &Bucket<_>| -> Vec<usize> {
            bucket.reserved.values().filter_map(|slots| slots.earlier.as_deref().map(Vec::len)).collect()
        };
        assert_eq!(stored(&bucket), [EARLIER_SLOTS]);
        bucket.forget(&"a", now);
        let given_back = delays(&mut bucket, &"b", now, EARLIER_SLOTS + 2);
        assert_eq!(given_back[..2], [93.5, 93.6]);
        assert_eq!(given_back[EARLIER_SLOTS..], [99.9, 100.0], "the last slot, and a new one");
        assert_eq!(stored(&bucket), [EARLIER_SLOTS], "those of the other key");
    }

    #[derive(Clone, Debug)]
    enum Step {
        Fail(u8),
        Forget(u8),
        MoveUp(u8),
        Pass(u64),
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Retries of keys that were not forgotten before keep to the bound; and no slot is
        /// lost, so that after all keys are forgotten the next retry waits for one token at most.
        #[test]
        fn retries_keep_to_the_bound_and_no_slot_is_lost_however_keys_fail_and_are_forgotten(
            steps in prop::collection::vec(
                prop_oneof![
                    4 => (0..6_u8).prop_map(Step::Fail),
                    1 => (0..6_u8).prop_map(Step::Forget),
                    1 => (0..6_u8).prop_map(Step::MoveUp),
                    2 => (0..400_u64).prop_map(Step::Pass),
                ],
                0..60,
            ),
            rate in 1..20_u32, burst in 1..6_u32,
        ) {
            let (mut bucket, start) = (Bucket::try_new(f64::from(rate), burst).unwrap(), Instant::now());
            let (mut now, mut retries) = (start, Vec::new());
            for step in steps {
                match step {
                    Step::Fail(key) => retries.push((key, now + bucket.when(&key, now))),
                    Step::Forget(key) => {
                        bucket.forget(&key, now);
                        retries.retain(|(of, at)| *of != key || *at <= now);
                    }
                    Step::MoveUp(key) => {
                        let slot = bucket.reserved.get(&key).map(|slots| slots.last).filter(|slot| *slot > now);
                        let at = now + bucket.move_up(&key, now);
                        if let Some(retry) = retries.iter_mut().find(|retry| Some(retry.1) == slot && retry.0 == key) {
                            prop_assert!(at <= retry.1);
                            retry.1 = at;
                        }
                    }
                    Step::Pass(millis) => now += Duration::from_millis(millis),
                }
            }
            let mut times: Vec<f64> = retries.iter().map(|(_, at)| (*at - start).as_secs_f64()).collect();
            times.sort_by(f64::total_cmp);
            for (first, from) in times.iter().enumerate() {
                for (count, to) in (1..).zip(&times[first..]) {
                    let allowed = f64::from(burst) + f64::from(rate) * (to - from);
                    prop_assert!(f64::from(count) <= allowed + 1e-6, "{count} retries from {from} to {to}: {times:?}");
                }
            }
            (0..6).for_each(|key| bucket.forget(&key, now));
            let next = bucket.when(&9, now).as_secs_f64();
            prop_assert!(next <= 1.0 / f64::from(rate) + 1e-6, "the next retry waits {next} s");
        }
    }

    #[test]
    fn a_handle_returns_only_its_own_reservations() {
        let (mut one, now) = (Bucket::try_new(10.0, 1).unwrap(), Instant::now());
        let mut other = one.clone();
        assert_eq!(delays(&mut one, &"a", now, 2), [0.0, 0.1]);
        other.forget(&"a", now);
        assert_eq!(delays(&mut other, &"b", now, 1), [0.2]);
        one.forget(&"a", now);
        assert_eq!(delays(&mut other, &"c", now, 1), [0.1]);
    }

    #[test]
    fn a_key_moves_up_to_the_earliest_slot_that_became_free_and_leaves_its_own_to_others() {
        let (mut bucket, now) = (Bucket::try_new(10.0, 2).unwrap(), Instant::now());
        let seconds = |delay: Duration| delay.as_secs_f64();
        let all: Vec<f64> = (0..6).map(|key| seconds(bucket.when(&key, now))).collect();
        assert_eq!(all, [0.0, 0.0, 0.1, 0.2, 0.3, 0.4]);
        assert_eq!(seconds(bucket.move_up(&5, now)), 0.4, "nothing is free");
        bucket.forget(&3, now);
        assert_eq!(seconds(bucket.move_up(&2, now)), 0.1, "what is free is later");
        assert_eq!(seconds(bucket.move_up(&5, now)), 0.2);
        assert_eq!(seconds(bucket.when(&6, now)), 0.4, "the slot that it left");
        assert_eq!(bucket.move_up(&9, now), Duration::ZERO, "no reservation holds it back");
        bucket.forget(&2, now);
        let later = now + Duration::from_millis(150);
        assert_eq!(bucket.move_up(&4, later), Duration::ZERO, "a slot that passed unused is a token at hand");
        assert_eq!(seconds(bucket.when(&7, later)), 0.15, "the slot that it left, at 0.3 s");
    }

    #[test]
    fn reservations_of_keys_that_are_never_forgotten_do_not_pile_up() {
        let (mut bucket, mut now) = (Bucket::try_new(10.0, 1).unwrap(), Instant::now());
        for key in 0..100_000 {
            bucket.when(&key, now);
            now += Duration::from_millis(99);
        }
        assert!(bucket.reserved.len() <= 64 * 64, "{}", bucket.reserved.len());
    }

    #[test]
    fn the_horizon_bounds_the_delays_of_all_clones() {
        let mut bucket = Bucket::try_new(10.0, 1).unwrap();
        let (mut clone, now) = (bucket.clone(), Instant::now());
        bucket = bucket.horizon(Duration::from_millis(200));
        assert_eq!(delays(&mut bucket, &"a", now, 4), [0.0, 0.1, 0.2, 0.2]);
        assert_eq!(delays(&mut clone, &"b", now, 1), [0.2]);
    }

    #[test]
    fn a_key_with_a_slot_of_a_lower_rate_moves_up_to_a_token_at_hand() {
        let (mut bucket, now) = (Bucket::try_new(1.0, 1).unwrap(), Instant::now());
        assert_eq!([0, 1, 2].map(|key| bucket.when(&key, now).as_secs()), [0, 1, 2]);
        bucket.set_limits(1000.0, 5, now).unwrap();
        let later = now + Duration::from_millis(10);
        assert_eq!(bucket.move_up(&2, later), Duration::ZERO);
        assert_eq!(
            delays(&mut bucket, &3, later, 5),
            [0.0, 0.0, 0.0, 0.0, 0.001],
            "four of five tokens are left"
        );
    }

    #[test]
    fn limits_can_be_changed_while_running() {
        let (bucket, now) = (Bucket::try_new(1.0, 1).unwrap(), Instant::now());
        let mut running = bucket.clone();
        assert_eq!(delays(&mut running, &"a", now, 2), [0.0, 1.0]);
        bucket.set_limits(10.0, 3, now).unwrap();
        assert_eq!(delays(&mut running, &"a", now, 1), [0.2], "two tokens at ten a second");
        assert_eq!(bucket.set_limits(0.0, 3, now), Err(BucketError::Rate(0.0)));
        assert_eq!(delays(&mut running, &"a", now, 1), [0.3]);
    }

    #[test]
    fn an_infinite_rate_never_delays() {
        let mut bucket = Bucket::try_new(f64::INFINITY, 1).unwrap();
        assert_eq!(delays(&mut bucket, &"a", Instant::now(), 3), [0.0; 3]);
    }

    #[test]
    fn a_tiny_rate_saturates() {
        let mut bucket = Bucket::try_new(f64::MIN_POSITIVE, 1).unwrap();
        bucket.when(&"a", Instant::now());
        assert_eq!(bucket.when(&"a", Instant::now()), Duration::MAX);
    }

    #[test]
    fn invalid_parameters_of_a_bucket_are_refused() {
        for rate in [0.0, -1.0, f64::NAN, f64::NEG_INFINITY] {
            assert!(matches!(Bucket::<&str>::try_new(rate, 1), Err(BucketError::Rate(_))), "{rate}");
        }
        assert_eq!(Bucket::<&str>::try_new(1.0, 0).unwrap_err(), BucketError::Burst);
    }
}
