//! Arithmetic of a token bucket with reservations that can be returned.
//!
//! Without returns it is that of `golang.org/x/time/rate`: a level of tokens that rises up to the burst, and goes below zero
//! when reservations reach into the future, each of them at the slot where its token will have arrived.
//!
//! Go restores a cancelled token only if nothing was reserved after it. Otherwise it would raise the level, which puts the next
//! reservation on top of the last one, while the free slot passes unused. Here free slots are stored: the next reservation
//! takes the earliest of them, and one that passes unused becomes an available token. So the releases are always a subset of
//! those of a bucket without returns, or later, and the bound on them holds in every window. Free slots at the end of all
//! reservations are not stored: they raise the level, as in Go.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

pub(super) struct Tokens {
    /// Tokens gained per second.
    pub(super) rate: f64,
    pub(super) burst: f64,
    /// Largest distance of a reservation into the future.
    pub(super) horizon: Duration,
    /// Available tokens; negative when reservations reach into the future, free slots included.
    level: f64,
    /// Time at which `level` was computed; `None` before the first reservation, when the bucket is full at any time.
    at: Option<Instant>,
    /// Returned slots that are still to come, with their number.
    free: BTreeMap<Instant, u32>,
    /// Tokens of slots that passed unused while later ones are reserved. Separate from `level`, because they can be used
    /// at once, not only behind the last reservation. Zero while `level` is not negative.
    spare: f64,
}

/// Result of [`Tokens::reserve`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Reservation {
    pub(super) delay: Duration,
    /// The slot, if there is one that can be returned.
    pub(super) slot: Option<Instant>,
}

impl Tokens {
    pub(super) fn new(rate: f64, burst: u32) -> Self {
        let burst = f64::from(burst);
        Self {
            rate,
            burst,
            horizon: Duration::MAX,
            level: burst,
            at: None,
            free: BTreeMap::new(),
            spare: 0.0,
        }
    }

    pub(super) fn reserve(&mut self, now: Instant) -> Reservation {
        const AT_ONCE: Reservation = Reservation { delay: Duration::ZERO, slot: None };
        if self.rate.is_infinite() {
            return AT_ONCE;
        }
        self.advance(now);
        // Returned tokens come first: a new reservation is behind all others.
        if self.level < 0.0 {
            if self.spare >= 1.0 {
                self.spare -= 1.0;
                return AT_ONCE;
            }
            if let Some(slot) = self.take_free_slot() {
                return Reservation { delay: slot.saturating_duration_since(now), slot: Some(slot) };
            }
        }
        let level = self.level - 1.0;
        if level >= 0.0 {
            self.level = level;
            return AT_ONCE;
        }
        let delay = nanoseconds(-level / self.rate);
        // Nothing is reserved beyond the horizon, so the level has a lower bound.
        if delay > self.horizon {
            return Reservation { delay: self.horizon, slot: None };
        }
        self.level = level;
        Reservation { delay, slot: now.checked_add(delay) }
    }

    /// Exchanges a slot for the earliest free one, if that is earlier. Returns the slot to use; `now` stands for an available
    /// token.
    pub(super) fn move_up(&mut self, slot: Instant, now: Instant) -> Instant {
        self.advance(now);
        if slot <= now {
            return slot;
        }
        let earlier = if self.spare >= 1.0 {
            self.spare -= 1.0;
            now
        } else if self.level >= 1.0 {
            self.level -= 1.0;
            now
        } else {
            match self.free.first_key_value() {
                Some((first, _)) if *first < slot => self.take_free_slot().expect("there is a first one"),
                _ => return slot,
            }
        };
        // After another token was taken, so that the slot is not exchanged for itself.
        self.give_back(slot, now);
        earlier
    }

    /// Returns a slot, unless it has passed: then its token was used.
    pub(super) fn give_back(&mut self, slot: Instant, now: Instant) {
        if slot > now {
            *self.free.entry(slot).or_insert(0) += 1;
            self.take_back_last();
        }
    }

    /// Takes back free slots at the end of the reservations, as if they had not been reserved. So when all slots of a storm
    /// have been returned, none of them is stored until its time.
    fn take_back_last(&mut self) {
        while let (Some(mut last), Some(at)) = (self.free.last_entry(), self.at) {
            // Slots are `1 / rate` apart, and rounded to nanoseconds: one that is later than this is the last one.
            let before_last = at.checked_add(nanoseconds((-self.level - 0.5) / self.rate));
            if self.level >= 0.0 || before_last.is_none_or(|before_last| *last.key() <= before_last) {
                return;
            }
            self.level += 1.0;
            *last.get_mut() -= 1;
            if *last.get() == 0 {
                last.remove();
            }
        }
    }

    /// Advances the state to `now`. Time that goes backwards adds nothing, but later times count from there, as in Go.
    pub(super) fn advance(&mut self, now: Instant) {
        let elapsed = self.at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        self.level = (self.level + elapsed.as_secs_f64() * self.rate).min(self.burst);
        self.at = Some(now);
        while let Some(slot) = self.free.first_entry().filter(|slot| *slot.key() <= now) {
            self.spare += f64::from(slot.remove());
        }
        // While slots are reserved, the token of the next slot belongs to that slot. So the bucket has room for at most `burst - 1`
        // unused tokens, and more are lost.
        self.spare = self.spare.min(self.burst - 1.0);
        if self.level >= 0.0 {
            self.level = (self.level + std::mem::take(&mut self.spare)).min(self.burst);
        }
    }

    fn take_free_slot(&mut self) -> Option<Instant> {
        let mut first = self.free.first_entry()?;
        let slot = *first.key();
        *first.get_mut() -= 1;
        if *first.get() == 0 {
            first.remove();
        }
        Some(slot)
    }
}

/// Seconds as a duration: whole nanoseconds, the rest cut off as in Go, saturating.
fn nanoseconds(seconds: f64) -> Duration {
    let nanos = seconds * 1e9;
    if nanos >= u64::MAX as f64 { Duration::MAX } else { Duration::from_nanos(nanos as u64) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn seconds(delays: impl IntoIterator<Item = Reservation>) -> Vec<f64> {
        delays.into_iter().map(|reservation| reservation.delay.as_secs_f64()).collect()
    }

    #[test]
    fn a_slot_given_back_is_the_next_one_taken() {
        let (mut tokens, now) = (Tokens::new(10.0, 1), Instant::now());
        let all: Vec<Reservation> = (0..5).map(|_| tokens.reserve(now)).collect();
        assert_eq!(seconds(all.clone()), [0.0, 0.1, 0.2, 0.3, 0.4]);
        tokens.give_back(all[3].slot.unwrap(), now);
        tokens.give_back(all[1].slot.unwrap(), now);
        assert_eq!(seconds((0..3).map(|_| tokens.reserve(now))), [0.1, 0.3, 0.5]);
    }

    #[test]
    fn a_slot_that_passed_unused_is_a_token_at_hand() {
        let (mut tokens, now) = (Tokens::new(10.0, 2), Instant::now());
        let all: Vec<Reservation> = (0..6).map(|_| tokens.reserve(now)).collect();
        assert_eq!(seconds(all.clone()), [0.0, 0.0, 0.1, 0.2, 0.3, 0.4]);
        tokens.give_back(all[2].slot.unwrap(), now);
        let later = now + Duration::from_millis(150);
        assert_eq!(seconds((0..2).map(|_| tokens.reserve(later))), [0.0, 0.35]);
    }

    #[test]
    fn a_slot_that_has_passed_cannot_be_given_back() {
        let (mut tokens, now) = (Tokens::new(10.0, 1), Instant::now());
        let all: Vec<Reservation> = (0..2).map(|_| tokens.reserve(now)).collect();
        let later = now + Duration::from_millis(100);
        tokens.give_back(all[1].slot.unwrap(), later);
        assert_eq!(seconds([tokens.reserve(later)]), [0.1]);
    }

    #[test]
    fn beyond_the_horizon_nothing_is_reserved() {
        let (mut tokens, now) = (Tokens::new(10.0, 1), Instant::now());
        tokens.horizon = Duration::from_millis(200);
        assert_eq!(seconds((0..5).map(|_| tokens.reserve(now))), [0.0, 0.1, 0.2, 0.2, 0.2]);
        let later = now + Duration::from_millis(200);
        assert_eq!(seconds([tokens.reserve(later)]), [0.1], "the two beyond it took no token");
    }

    #[test]
    fn slots_that_are_all_returned_are_not_stored() {
        let (mut tokens, start) = (Tokens::new(10.0, 1), Instant::now());
        let mut slots = Vec::new();
        for millis in 0..1000 {
            slots.extend(tokens.reserve(start + Duration::from_micros(millis * 1003)).slot);
        }
        let now = start + Duration::from_secs(2);
        let (odd, even): (Vec<_>, Vec<_>) =
            slots.iter().partition(|slot| (**slot - start).as_millis() / 100 % 2 == 1);
        odd.into_iter().for_each(|slot| tokens.give_back(slot, now));
        assert!(tokens.free.len() > 400, "between them are others: {}", tokens.free.len());
        even.into_iter().for_each(|slot| tokens.give_back(slot, now));
        assert!(tokens.free.is_empty(), "{:?}", tokens.free);
        assert!(seconds([tokens.reserve(now)])[0] <= 0.1);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Reserve,
        /// Returns the reservation made this many reservations ago, if it is not due.
        GiveBack(usize),
        Pass(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            5 => Just(Step::Reserve),
            3 => (0..30_usize).prop_map(Step::GiveBack),
            2 => (0..400_u64).prop_map(Step::Pass),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// The guarantee of the bucket: at most `burst + rate × T` releases in every window of length T.
        #[test]
        fn releases_are_at_most_burst_plus_rate_times_t_in_every_window_refunds_included(
            steps in prop::collection::vec(step(), 0..150), rate in 1..20_u32, burst in 1..6_u32,
        ) {
            let (mut tokens, start) = (Tokens::new(f64::from(rate), burst), Instant::now());
            let (mut now, mut made, mut releases) = (start, 0_usize, BTreeMap::new());
            for step in steps {
                match step {
                    Step::Reserve => {
                        releases.insert(made, tokens.reserve(now));
                        let reservation = releases.get_mut(&made).unwrap();
                        // Every release has a time; `slot` only shows whether it can be returned.
                        let at = now + reservation.delay;
                        reservation.delay = at - start;
                        made += 1;
                    }
                    Step::GiveBack(ago) => {
                        if let Some(which) = made.checked_sub(ago + 1)
                            && let Some(Reservation { slot: Some(slot), .. }) = releases.get(&which)
                            && *slot > now
                        {
                            tokens.give_back(*slot, now);
                            releases.remove(&which);
                        }
                    }
                    Step::Pass(millis) => now += Duration::from_millis(millis),
                }
            }
            let mut times: Vec<f64> = releases.values().map(|release| release.delay.as_secs_f64()).collect();
            times.sort_by(f64::total_cmp);
            for (first, from) in times.iter().enumerate() {
                for (count, to) in (1..).zip(&times[first..]) {
                    let allowed = f64::from(burst) + f64::from(rate) * (to - from);
                    prop_assert!(f64::from(count) <= allowed + 1e-6, "{count} releases from {from} to {to}: {times:?}");
                }
            }
        }
    }
}
