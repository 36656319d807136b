//! Deletes Events that have not been written for an hour, or for the configured time.
//!
//! In a cluster each write of an Event gets an etcd lease. When the lease expires, etcd deletes the Event, and watches receive the
//! deletion. This module deletes an Event exactly when its lease expires. etcd deletes up to a minute late, because objects written
//! within a minute share a lease. When a server with a data file starts, all leases begin again, as after a restart of etcd.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::time::{Duration, Instant, sleep_until};

use crate::kind::resource::StorageKey;
use crate::state::ClusterState;
use crate::store::{Change, Expired, Key};

/// Time that Events are kept by default, as with kube-apiserver's `--event-ttl`.
pub(crate) const EVENT_TTL: Duration = Duration::from_secs(3600);

/// Storage key of Events in all versions.
fn table() -> StorageKey {
    StorageKey::core("events")
}

/// Deletes Events that were not written for `ttl`. Runs until its task is aborted.
pub(crate) async fn run(cluster: Arc<ClusterState>, ttl: Duration) {
    let table = table();
    let mut changes = cluster.changes(&table);
    let mut leases = Leases::new(ttl);
    let mut seen = None;
    loop {
        changes.see_all();
        let now = Instant::now();
        seen = Some(follow(&cluster, &table, &mut leases, seen, now));
        for (key, revision) in leases.take_expired(now) {
            // An Event that was written meanwhile has a new lease, which the next iteration finds.
            let _ = cluster.commit_unguarded(&table, &key, Some(revision), Change::Delete);
        }
        let end = leases.next_end();
        tokio::select! {
            // A change and an expiry both start a round.
            biased;
            news = changes.news() => if news.is_none() {
                return;
            },
            () = sleep_until(end.unwrap_or(now)), if end.is_some() => {}
        }
    }
}

/// Updates the leases with the changes after `seen`. Returns the revision up to which they are known.
fn follow(
    cluster: &ClusterState,
    table: &StorageKey,
    leases: &mut Leases,
    seen: Option<u64>,
    now: Instant,
) -> u64 {
    match cluster.events_since(table, seen) {
        (Ok(events), revision) => {
            for event in events {
                match &event.after {
                    Some(stored) => leases.written(&event.key, stored.revision, now),
                    None => leases.deleted(&event.key),
                }
            }
            revision
        }
        // The first call, or the history no longer reaches back to `seen`.
        (Err(Expired), _) => {
            let snapshot = cluster.read(|store| store.snapshot(table));
            leases.replace(snapshot.range("", None).map(|(key, stored)| (key, stored.revision)), now);
            snapshot.revision()
        }
    }
}

/// Expiry times by object (pure). Each object has the lease of its last write.
#[derive(Debug)]
struct Leases {
    ttl: Duration,
    leases: BTreeMap<Key, EventLease>,
    /// Leases by expiry. The revision distinguishes leases that expire at the same time.
    order: BTreeMap<EventLease, Key>,
}

/// The lease of one write of an Event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct EventLease {
    /// Time of the expiry.
    end: Instant,
    /// Revision of the write.
    revision: u64,
}

impl Leases {
    fn new(ttl: Duration) -> Self {
        Self { ttl, leases: BTreeMap::new(), order: BTreeMap::new() }
    }

    /// Records a write, which starts a new lease.
    fn written(&mut self, key: &Key, revision: u64, now: Instant) {
        self.deleted(key);
        // An expiry beyond the range of the clock is never reached.
        if let Some(end) = now.checked_add(self.ttl) {
            let lease = EventLease { end, revision };
            self.leases.insert(key.clone(), lease);
            self.order.insert(lease, key.clone());
        }
    }

    /// Records a deletion.
    fn deleted(&mut self, key: &Key) {
        if let Some(lease) = self.leases.remove(key) {
            self.order.remove(&lease);
        }
    }

    /// Replaces the known objects. Unchanged objects keep their leases.
    fn replace<'a>(&mut self, objects: impl Iterator<Item = (&'a Key, u64)>, now: Instant) {
        let known = std::mem::take(&mut self.leases);
        self.order.clear();
        for (key, revision) in objects {
            match known.get(key) {
                Some(lease) if lease.revision == revision => {
                    self.leases.insert(key.clone(), *lease);
                    self.order.insert(*lease, key.clone());
                }
                _ => self.written(key, revision, now),
            }
        }
    }

    fn next_end(&self) -> Option<Instant> {
        self.order.keys().next().map(|lease| lease.end)
    }

    /// Removes and returns the expired objects, the earliest first.
    fn take_expired(&mut self, now: Instant) -> Vec<(Key, u64)> {
        let mut expired = Vec::new();
        while let Some(first) = self.order.first_entry()
            && first.key().end <= now
        {
            let (lease, key) = first.remove_entry();
            self.leases.remove(&key);
            expired.push((key, lease.revision));
        }
        expired
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// For any writes, deletions and lists, an object expires when its last write is old enough, and only then.
        #[test]
        fn an_object_expires_a_ttl_after_its_last_write(
            steps in proptest::collection::vec((0u8..4, 0usize..4, 0u64..30), 0..60),
            ttl in 0u64..60,
        ) {
            let start = Instant::now();
            let mut leases = Leases::new(Duration::from_secs(ttl));
            // Expected state: revision and time of each object's last write.
            let mut model: BTreeMap<Key, (u64, u64)> = BTreeMap::new();
            let (mut now, mut revision) = (0, 0);
            for (what, which, seconds) in steps {
                now += seconds;
                let at = start + Duration::from_secs(now);
                let key = Key::new("ns", ["a", "b", "c", "d"][which]);
                revision += 1;
                match what {
                    0 | 1 => {
                        leases.written(&key, revision, at);
                        model.insert(key, (revision, now));
                    }
                    2 => {
                        leases.deleted(&key);
                        model.remove(&key);
                    }
                    _ => leases.replace(model.iter().map(|(key, (revision, _))| (key, *revision)), at),
                }
                let first = model.values().map(|(_, written)| start + Duration::from_secs(written + ttl)).min();
                prop_assert_eq!(leases.next_end(), first);
                let mut expected: Vec<_> = model.iter().filter(|(_, (_, written))| written + ttl <= now).collect();
                expected.sort_by_key(|(_, (revision, written))| (*written, *revision));
                let expected: Vec<_> = expected.into_iter().map(|(key, (revision, _))| (key.clone(), *revision)).collect();
                prop_assert_eq!(leases.take_expired(at), expected.clone());
                for (key, _) in expected {
                    model.remove(&key);
                }
            }
        }
    }
}
