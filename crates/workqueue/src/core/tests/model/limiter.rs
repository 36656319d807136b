//! Rate limiter of the comparison: delays in whole units, and a budget that all keys share.

use super::*;

/// The n-th failure of a key asks for n × 20 units, and a budget shared by all keys for one slot in 30 units. A slot that is
/// returned goes to the next failure, or to the key that moves up.
#[derive(Clone)]
pub(super) struct Limiter {
    pub(super) epoch: Instant,
    pub(super) failures: BTreeMap<u8, u32>,
    pub(super) slots: BTreeMap<u8, u64>,
    pub(super) free: BTreeSet<u64>,
    pub(super) last: u64,
}

impl Limiter {
    pub(super) fn new(epoch: Instant) -> Self {
        let (failures, slots) = (BTreeMap::new(), BTreeMap::new());
        Self { epoch, failures, slots, free: BTreeSet::new(), last: 0 }
    }

    pub(super) fn since_epoch(&self, now: Instant) -> u64 {
        (now - self.epoch).as_nanos().try_into().unwrap()
    }
}

impl RateLimiter<u8> for Limiter {
    fn when(&mut self, key: &u8, now: Instant) -> Duration {
        self.charge(key, now).total()
    }

    fn charge(&mut self, key: &u8, now: Instant) -> Delay {
        let now = self.since_epoch(now);
        let failures = self.failures.entry(*key).or_default();
        *failures += 1;
        self.free.retain(|slot| *slot > now);
        let slot = self.free.pop_first().unwrap_or_else(|| {
            self.last = (self.last + 30).max(now);
            self.last
        });
        self.slots.insert(*key, slot);
        Delay { own: units(u64::from(*failures) * 20), shared: units(slot - now) }
    }

    fn move_up(&mut self, key: &u8, now: Instant) -> Duration {
        let now = self.since_epoch(now);
        self.free.retain(|slot| *slot > now);
        let Some(slot) = self.slots.get_mut(key) else { return Duration::ZERO };
        if self.free.first().is_some_and(|first| first < slot) {
            let earlier = self.free.pop_first().unwrap();
            self.free.insert(std::mem::replace(slot, earlier));
        }
        units(slot.saturating_sub(now))
    }

    fn forget(&mut self, key: &u8, now: Instant) {
        self.failures.remove(key);
        self.free.extend(self.slots.remove(key).filter(|slot| *slot > self.since_epoch(now)));
    }

    fn num_requeues(&self, key: &u8) -> u32 {
        self.failures.get(key).copied().unwrap_or_default()
    }
}

pub(super) fn units(count: u64) -> Duration {
    Duration::from_nanos(count)
}
