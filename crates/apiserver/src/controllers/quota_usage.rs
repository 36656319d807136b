//! Counts the objects that quotas limit (profile [`Dev`](crate::Profile::Dev)).
//!
//! A new quota, or one with a changed spec, is counted at once. Its status then has the limits of the spec and the usage of the existing
//! objects, and the admission plugin `ResourceQuota` enforces it. The plugin adds to the usage with each write. This controller counts
//! again when an object is deleted, or when its usage changes. It counts again one second after a creation, because the plugin does not
//! see the creations of other controllers, and when the deletion of a pod becomes overdue.
//!
//! Objects and quota are read at one revision, and the status is written only if the quota has not changed since. Therefore usage that
//! admission adds meanwhile is not lost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use kube_apimachinery::quantity::Quantity;
use serde_json::Value;
use tokio::time::{Duration, Instant, sleep_until};

use crate::kind::registry::ServedKind;
use crate::kind::resource::StorageKey;
use crate::kinds::builtin::resource_quota::{ObjectCounter, Quota};
use crate::kinds::builtin::shared::amounts::Amounts;
use crate::state::{ClusterState, Turns, writer};
use crate::store::{Change, Expired, Key, Snapshot, StoreEvent, Stored};

/// Field manager of the status.
const MANAGER: &str = "kube-controller-manager";
/// Delay after which creations are counted again.
const RECOUNT: Duration = Duration::from_secs(1);
/// Maximum number of attempts to count a quota that changes meanwhile. Then it is counted later.
const ATTEMPTS: usize = 5;

fn table() -> StorageKey {
    StorageKey::core("resourcequotas")
}

/// Counts quotas when they or their objects change. Runs until its task is aborted.
pub(crate) async fn run(cluster: Arc<ClusterState>) {
    let mut commits = cluster.commits();
    let mut changes = cluster.changes(&table());
    let mut known = KnownQuotas::default();
    loop {
        commits.see();
        if known.quotas.is_empty() && !changes.has_news() {
            // Without quotas, commits to other tables have no effect.
            commits.changed().await;
            continue;
        }
        changes.see_all();
        let Some(quotas) = cluster.registry().get("", "v1", "resourcequotas").cloned() else {
            return;
        };
        let now = Instant::now();
        known.update(&cluster, &quotas, now);
        for key in known.take_due(now) {
            let next = match count(&cluster, &quotas, &key).await {
                Counted::Until(next) => next,
                Counted::Contended => now.checked_add(RECOUNT),
            };
            if let Some(next) = next {
                known.due.insert(key, next);
            }
        }
        let soonest = known.due.values().min().copied();
        tokio::select! {
            // A commit takes precedence over a due count, because it may change when quotas are due.
            biased;
            () = commits.changed() => {}
            () = sleep_until(soonest.unwrap_or(now)), if soonest.is_some() => {}
        }
    }
}

/// The quotas, and the times of their next counts.
#[derive(Default)]
struct KnownQuotas {
    quotas: BTreeMap<Key, KnownQuota>,
    /// Revision up to which each counted table was read.
    tables: BTreeMap<StorageKey, u64>,
    /// Times at which quotas are due to be counted.
    due: BTreeMap<Key, Instant>,
}

/// A quota at a revision.
struct KnownQuota {
    revision: u64,
    spec: Value,
    quota: Quota,
}

/// A resource with objects that quotas count.
struct CountedResource {
    served: Arc<ServedKind>,
    counter: ObjectCounter,
}

impl KnownQuotas {
    /// Reads the changes of quotas and of the objects that they count, and schedules counts.
    fn update(&mut self, cluster: &ClusterState, quotas: &ServedKind, now: Instant) {
        let snapshot = cluster.read(|store| store.snapshot(&table()));
        self.quotas.retain(|key, _| snapshot.get(key).is_some());
        self.due.retain(|key, _| snapshot.get(key).is_some());
        for (key, stored) in snapshot.range("", None) {
            if self.quotas.get(key).is_some_and(|seen| seen.revision == stored.revision) {
                continue;
            }
            let object = quotas.value(stored);
            let quota = Quota::read(&object);
            let is_changed = self.quotas.get(key).is_none_or(|seen| seen.spec != object["spec"]);
            // A status with other limits than the spec belongs to a quota that was never counted, or was written by a client.
            if is_changed || quota.hard() != quota.wanted() {
                self.due.insert(key.clone(), now);
            }
            let seen = KnownQuota { revision: stored.revision, spec: object["spec"].clone(), quota };
            self.quotas.insert(key.clone(), seen);
        }
        if self.quotas.is_empty() {
            self.tables.clear();
            return;
        }
        let names: BTreeSet<&str> =
            self.quotas.values().flat_map(|seen| seen.quota.wanted().names()).collect();
        let counted = counted(cluster, |counter| names.iter().any(|name| counter.tracks(name)));
        self.tables.retain(|table, _| counted.iter().any(|counted| counted.served.storage() == table));
        for counted in &counted {
            let storage = counted.served.storage();
            let seen = self.tables.get(storage).copied();
            let (events, seen) = cluster.events_since(storage, seen);
            self.tables.insert(storage.clone(), seen);
            match events {
                Ok(events) => {
                    let wall = cluster.clock.now();
                    events.iter().for_each(|event| self.schedule(counted, event, now, wall));
                }
                // The table is new, or its history no longer reaches back.
                Err(Expired) => {
                    let tracking =
                        self.quotas.iter().filter(|(_, seen)| tracks(&seen.quota, &counted.counter));
                    let keys: Vec<Key> = tracking.map(|(key, _)| key.clone()).collect();
                    self.due.extend(keys.into_iter().map(|key| (key, now)));
                }
            }
        }
    }

    /// Schedules the counts that a change of an object requires.
    fn schedule(&mut self, counted: &CountedResource, event: &StoreEvent, now: Instant, wall: Timestamp) {
        let concerned = self.quotas.iter().filter(|(key, seen)| {
            key.namespace() == event.key.namespace() && tracks(&seen.quota, &counted.counter)
        });
        for (key, seen) in concerned {
            let at = match (&event.before, &event.after) {
                (Some(before), Some(after)) => {
                    // A pod releases its amounts some time after its deletion begins. The count finds out when.
                    let begins = !before.document.is_terminating() && after.document.is_terminating();
                    if !begins && !is_counted_differently(counted, &seen.quota, before, after, wall) {
                        continue;
                    }
                    now
                }
                // Admission has charged the creation. This count only corrects it.
                (None, _) => now.checked_add(RECOUNT).unwrap_or(now),
                (Some(_), None) => now,
            };
            let due = self.due.entry(key.clone()).or_insert(at);
            *due = at.min(*due);
        }
    }

    /// Removes and returns the quotas that are due to be counted.
    fn take_due(&mut self, now: Instant) -> Vec<Key> {
        let ready: Vec<Key> =
            self.due.iter().filter(|(_, due)| **due <= now).map(|(key, _)| key.clone()).collect();
        self.due.retain(|_, due| *due > now);
        ready
    }
}

/// Returns the resources with objects that quotas can count, if their counters satisfy a condition.
fn counted(cluster: &ClusterState, condition: impl Fn(&ObjectCounter) -> bool) -> Vec<CountedResource> {
    let tables = cluster.registry().one_per_table();
    let namespaced = tables.into_iter().filter(|served| served.resource.namespaced);
    namespaced
        .filter_map(|served| {
            let counter = ObjectCounter::of(&served.resource.group, &served.resource.plural)?;
            condition(&counter).then_some(CountedResource { served, counter })
        })
        .collect()
}

/// Whether a quota limits objects of a counted resource.
fn tracks(quota: &Quota, counter: &ObjectCounter) -> bool {
    quota.wanted().names().any(|name| counter.tracks(name))
}

/// Whether a change affects how a quota counts the object.
fn is_counted_differently(
    counted: &CountedResource,
    quota: &Quota,
    before: &Stored,
    after: &Stored,
    now: Timestamp,
) -> bool {
    if !counted.counter.reads_objects() {
        return false;
    }
    let [before, after] = [before, after].map(|stored| {
        let object = counted.served.value(stored);
        quota.covers(&counted.counter, &object).then(|| counted.counter.usage(&object, now))
    });
    before != after
}

/// Outcome of a count.
enum Counted {
    /// The status is now correct, or the quota deleted. The usage changes at the given time even if no object does.
    Until(Option<Instant>),
    /// The quota changed during each attempt.
    Contended,
}

/// Converts a time of the cluster's clock to the moment of the next count. The moment is at least [`RECOUNT`] away, so that a stopped clock
/// does not cause endless counting.
fn moment_after(cluster: &ClusterState, time: Timestamp) -> Option<Instant> {
    let wait = Duration::try_from(time.duration_since(cluster.clock.now())).unwrap_or_default();
    Instant::now().checked_add(wait)?.checked_add(RECOUNT)
}

/// Counts the objects of a quota and writes its status if it differs.
async fn count(cluster: &ClusterState, quotas: &ServedKind, key: &Key) -> Counted {
    for _ in 0..ATTEMPTS {
        // Objects and quota are read at one revision. Usage that admission adds later changes the quota, so that the commit below fails.
        let resources = counted(cluster, |_| true);
        let read = cluster.read(|store| {
            let stored = store.get(&table(), key).cloned()?;
            let snapshots: Vec<Snapshot> =
                resources.iter().map(|counted| store.snapshot(counted.served.storage())).collect();
            Some((stored, snapshots))
        });
        let Some((stored, snapshots)) = read else {
            return Counted::Until(None);
        };
        let old = quotas.value(&stored);
        let quota = Quota::read(&old);
        // Limits of resources that are not served keep their usage.
        let mut used = quota.used().only(|name, _| quota.wanted().get(name).is_some());
        let mut released: Option<Timestamp> = None;
        for (counted, snapshot) in resources.iter().zip(&snapshots) {
            if tracks(&quota, &counted.counter) {
                let now = cluster.clock.now();
                let next = set_usage(counted, snapshot, &quota, key.namespace(), now, &mut used).await;
                released = released.into_iter().chain(next).min();
            }
        }
        let next = released.and_then(|time| moment_after(cluster, time));
        if quota.is_at(&used) {
            return Counted::Until(next);
        }
        let mut new = old.clone();
        new["status"] = Quota::status(quota.wanted(), &used);
        writer::track_as(cluster, quotas, MANAGER, "status", Some(&old), &mut new);
        let change = Change::Put(quotas.document(&new));
        let committed = cluster.commit_unguarded(&table(), key, Some(stored.revision), change);
        if committed.is_ok() {
            return Counted::Until(next);
        }
    }
    Counted::Contended
}

/// Sets the usage of one resource in `used`. Returns the time after which an object releases its amounts.
async fn set_usage(
    counted: &CountedResource,
    snapshot: &Snapshot,
    quota: &Quota,
    namespace: &str,
    now: Timestamp,
    used: &mut Amounts,
) -> Option<Timestamp> {
    let (counter, mut turns) = (&counted.counter, Turns::default());
    let mut total = Amounts::default();
    let mut released: Option<Timestamp> = None;
    if counter.reads_objects() || quota.has_scopes() {
        for (_, stored) in snapshot.range(namespace, None) {
            let object = counted.served.value(stored);
            if quota.covers(counter, &object) {
                total.add(&counter.usage(&object, now));
                let next = counter.released_after(&object).filter(|time| *time >= now);
                released = released.into_iter().chain(next).min();
            }
            turns.pass().await;
        }
    } else {
        // Only the number of objects matters, so none is parsed.
        let number =
            Quantity::whole(i64::try_from(snapshot.range(namespace, None).count()).unwrap_or(i64::MAX));
        for name in counter.usage(&Value::Null, now).names() {
            total.set(name, number);
        }
    }
    for name in quota.wanted().names().filter(|name| counter.tracks(name)) {
        used.set(name, total.get(name).unwrap_or(Quantity::ZERO));
    }
    released
}
