//! Rotation of self-managed certificates as a pure state machine: when a replica reads and writes the Secret and the `caBundle`s, and
//! which certificate it serves.
//!
//! The Secret holds a set of [`Generation`]s: each is an authority and the only certificate that it has signed. Replicas only add
//! generations, and remove expired ones. A replica that knows a generation which the Secret lacks, because a user deleted or
//! replaced the Secret, writes it back. So the writes of several replicas merge in any order, and all replicas do the same.
//!
//! | | a generation is |
//! |---|---|
//! | added to the Secret | made in memory, and written if the Secret still has the version that was read; not used until a response or a read confirms it |
//! | published | known to be in the Secret; its authority is added to every `caBundle` |
//! | served by a replica | known to have been in every `caBundle` for the propagation time, by the replica's own clock |
//! | superseded | older than one that is served; its authority stays in the `caBundle`s, because another replica may still serve it |
//! | removed | expired for [`FORGET_AFTER`], when no client accepts its certificate any more |
//!
//! A replica that starts serves the oldest valid generation, which has been in the `caBundle`s for longest, and is ready when it has
//! found it there. So old and new authority overlap until the old certificate has expired, and replicas need not switch at the same
//! time: a replica that is cut off serves a certificate that clients trust for as long as it is valid.
//!
//! Waits use the replica's monotonic clock. Wall time is compared with the validity of certificates only. That begins [`SKEW`] before a
//! certificate is made, and replicas stop using a certificate [`SKEW`] before its end.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// Largest difference between the wall clocks of replicas and API servers.
pub(super) const SKEW: Duration = Duration::from_secs(60 * 60);
/// Time after which an expired generation is removed.
pub(super) const FORGET_AFTER: Duration = Duration::from_secs(24 * 60 * 60);
/// Largest number of generations; the oldest ones beyond it are removed. A rotation needs two.
pub(super) const MOST_GENERATIONS: usize = 16;
/// Interval at which Secret and `caBundle`s are read even if no change was reported.
const RESYNC: Duration = Duration::from_secs(5 * 60);

/// Wall time since 1970.
pub(super) type UnixTime = Duration;
/// Time since an arbitrary start, by the replica's monotonic clock.
pub(super) type ReplicaTime = Duration;

/// A reading of both clocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Now {
    pub(super) wall: UnixTime,
    pub(super) monotonic: ReplicaTime,
}

/// An authority, and the certificate that it has signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Generation<M> {
    /// ID, which is also part of the keys in the Secret.
    pub(super) id: String,
    /// Creation; the certificate is valid from [`SKEW`] before.
    pub(super) issued: UnixTime,
    pub(super) not_after: UnixTime,
    /// DNS names of the certificate.
    pub(super) names: BTreeSet<String>,
    /// Certificates and key.
    pub(super) material: M,
}

impl<M> Generation<M> {
    /// Returns whether clients accept the certificate, if no clock differs from another one by more than [`SKEW`].
    pub(super) fn is_valid(&self, wall: UnixTime) -> bool {
        // The validity starts SKEW before the time of the clock that made the certificate, so it has started by every client's clock. The first
        // condition concerns this replica's clock alone. The second is about a client with a clock that is SKEW ahead.
        wall >= self.issued.saturating_sub(SKEW) && wall + SKEW < self.not_after
    }

    /// Time of the next rotation: after two thirds of the lifetime.
    fn renewal(&self) -> UnixTime {
        self.not_after - self.not_after.saturating_sub(self.issued) / 3
    }

    /// Key in [`Rotation::known`], which orders generations by age.
    fn order(&self) -> (UnixTime, String) {
        (self.issued, self.id.clone())
    }
}

/// Next step of a replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RotationStep {
    /// Read the Secret.
    ReadSecret,
    /// Write [`Rotation::proposal`] to the Secret, with a new generation if `mint`.
    WriteSecret { mint: bool },
    /// Add the authorities of these generations to all `caBundle`s.
    Publish { ids: BTreeSet<String> },
    /// Wait for a change, or until this time.
    Wait { until: ReplicaTime },
}

/// View that one replica has of the Secret and the `caBundle`s.
#[derive(Debug)]
pub(super) struct Rotation<M> {
    /// Time for which an authority has to be in every `caBundle` before its certificate is served.
    propagation: Duration,
    /// DNS names that a certificate needs. A generation that lacks one is not used.
    names: BTreeSet<String>,
    /// Generations that are or were in the Secret, by age.
    known: BTreeMap<(UnixTime, String), Generation<M>>,
    /// IDs of the generations in the Secret; `None` if it must be read.
    stored: Option<BTreeSet<String>>,
    /// Generations with an authority in every `caBundle`, and the time since which this replica has known that.
    published: BTreeMap<String, ReplicaTime>,
    /// Whether a `caBundle` may have changed.
    is_publication_due: bool,
    /// The served generation, as its key in `known`.
    serving: Option<(UnixTime, String)>,
    next_resync: ReplicaTime,
}

impl<M: Clone> Rotation<M> {
    pub(super) fn new(names: BTreeSet<String>, propagation: Duration) -> Self {
        Self {
            propagation,
            names,
            known: BTreeMap::new(),
            stored: None,
            published: BTreeMap::new(),
            is_publication_due: true,
            serving: None,
            next_resync: Duration::ZERO,
        }
    }

    /// Records that the Secret may have changed, or that the outcome of a write is unknown.
    pub(super) fn secret_changed(&mut self) {
        self.stored = None;
    }

    /// Records that the Secret has these generations, as a read or a successful write shows.
    pub(super) fn secret_has(&mut self, generations: impl IntoIterator<Item = Generation<M>>, now: Now) {
        let mut stored = BTreeSet::new();
        for generation in generations {
            stored.insert(generation.id.clone());
            self.known.entry(generation.order()).or_insert(generation);
        }
        self.stored = Some(stored);
        self.forget(now);
    }

    /// Records that a `caBundle` may have changed, or that there is a new one.
    pub(super) fn bundles_changed(&mut self) {
        self.is_publication_due = true;
    }

    /// Records that every `caBundle` has the authorities of these generations.
    pub(super) fn bundles_have(&mut self, ids: &BTreeSet<String>, now: Now) {
        self.published.retain(|id, _| ids.contains(id));
        for id in ids {
            self.published.entry(id.clone()).or_insert(now.monotonic);
        }
        self.is_publication_due = false;
    }

    /// Records that a `caBundle` lacked authorities that were published before, so that they have to propagate again.
    pub(super) fn bundles_lacked(&mut self, ids: &BTreeSet<String>) {
        self.published.retain(|id, _| !ids.contains(id));
    }

    /// Returns the content of the Secret to write: all known generations and the new one, if there is one.
    pub(super) fn proposal(&self, minted: Option<Generation<M>>) -> Vec<Generation<M>> {
        self.known.values().cloned().chain(minted).collect()
    }

    /// Returns the next step.
    pub(super) fn next(&mut self, now: Now) -> RotationStep {
        self.forget(now);
        if now.monotonic >= self.next_resync {
            self.next_resync = now.monotonic + RESYNC;
            self.secret_changed();
            self.bundles_changed();
        }
        let Some(stored) = &self.stored else { return RotationStep::ReadSecret };
        // A replica may still serve a generation that was removed from the Secret by hand, so it is written back.
        let is_lost = self.known.values().any(|generation| !stored.contains(&generation.id));
        let mint = self.is_renewal_due(now);
        if mint || is_lost {
            return RotationStep::WriteSecret { mint };
        }
        let ids: BTreeSet<String> = self.known.values().map(|generation| generation.id.clone()).collect();
        if self.is_publication_due || ids.iter().any(|id| !self.published.contains_key(id)) {
            return RotationStep::Publish { ids };
        }
        RotationStep::Wait { until: self.wake(now) }
    }

    /// The generation to serve, which never changes to an older one while it is valid.
    pub(super) fn serve(&mut self, now: Now) -> Option<&Generation<M>> {
        let usable = |generation: &&Generation<M>| self.is_usable(generation, now);
        let has_propagated = |generation: &&Generation<M>| {
            self.published.get(&generation.id).is_some_and(|since| *since + self.propagation <= now.monotonic)
        };
        let current = self.serving.as_ref().and_then(|key| self.known.get(key)).filter(usable);
        let newest = self.known.values().rev().filter(usable).find(has_propagated);
        let chosen = match (current, newest) {
            (Some(current), Some(newest)) if newest.order() > current.order() => newest,
            (Some(current), _) => current,
            // The oldest has been in the bundles for longest. If the current one has expired, any valid one is better.
            (None, newest) => newest.or_else(|| self.known.values().find(usable))?,
        };
        self.serving = Some(chosen.order());
        self.serving.as_ref().and_then(|key| self.known.get(key))
    }

    /// Returns whether clients trust the served certificate: it is valid, and its authority is in every `caBundle`.
    pub(super) fn is_trusted(&self, now: Now) -> bool {
        let serving = self.serving.as_ref().and_then(|key| self.known.get(key));
        serving
            .is_some_and(|serving| self.is_usable(serving, now) && self.published.contains_key(&serving.id))
    }

    /// Returns whether the generation's certificate is valid and has all DNS names.
    fn is_usable(&self, generation: &Generation<M>, now: Now) -> bool {
        generation.is_valid(now.wall) && generation.names.is_superset(&self.names)
    }

    /// Returns whether a new generation must be made: no generation is usable, or the newest usable one is due for renewal.
    fn is_renewal_due(&self, now: Now) -> bool {
        let usable = self.known.values().rev().find(|generation| self.is_usable(generation, now));
        usable.is_none_or(|newest| now.wall >= newest.renewal())
    }

    /// Drops generations that expired [`FORGET_AFTER`] ago, and the oldest ones beyond [`MOST_GENERATIONS`].
    fn forget(&mut self, now: Now) {
        self.known.retain(|_, generation| now.wall < generation.not_after + FORGET_AFTER);
        while self.known.len() > MOST_GENERATIONS {
            self.known.pop_first();
        }
    }

    /// Time at which the next step is due if no change is reported before.
    fn wake(&self, now: Now) -> ReplicaTime {
        let usable = || self.known.values().filter(|generation| self.is_usable(generation, now));
        let at_wall = |wall: UnixTime| now.monotonic + wall.saturating_sub(now.wall);
        let renewal = usable().next_back().map(|newest| at_wall(newest.renewal()));
        let expiry = usable().map(|generation| at_wall(generation.not_after - SKEW)).min();
        let propagated = usable()
            .filter_map(|generation| self.published.get(&generation.id))
            .map(|since| *since + self.propagation)
            .filter(|at| *at > now.monotonic);
        [Some(self.next_resync), renewal, expiry]
            .into_iter()
            .flatten()
            .chain(propagated)
            .min()
            .unwrap_or(now.monotonic)
    }
}
