//! ConfigMaps of 1 KB that carry a round number, and a record of the rounds that reconcilers have read.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use crate::{Reply, clock};

/// Namespace of the ConfigMaps.
pub const NAMESPACE: &str = "messages";

/// Name of the ConfigMap with this number.
#[must_use]
pub fn name(number: usize) -> String {
    format!("message-{number:06}")
}

/// Number in the name of a ConfigMap.
#[must_use]
pub fn number(name: &str) -> Option<usize> {
    name.strip_prefix("message-")?.parse().ok()
}

/// A ConfigMap of about 1 KB of JSON, as the API server sends it.
#[must_use]
pub fn message(number: usize, round: u64) -> ConfigMap {
    let line = "listen = 0.0.0.0:8080; upstream = backend.default.svc:9000\n";
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name(number));
    map.metadata.namespace = Some(NAMESPACE.to_owned());
    map.metadata.labels = Some(
        [("app.kubernetes.io/name", "messages"), ("app.kubernetes.io/managed-by", "bench")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
    );
    map.data = Some(BTreeMap::from([
        ("round".to_owned(), round.to_string()),
        ("server.conf".to_owned(), line.repeat(8)),
    ]));
    map
}

/// Record of the reads by a peer's reconcilers.
#[derive(Debug, Clone, Default)]
pub struct Seen(Arc<State>);

#[derive(Debug, Default)]
struct State {
    reconciles: AtomicU64,
    by_name: Mutex<BTreeMap<(usize, usize), u64>>,
    /// Number, round and time of each read.
    reads: Mutex<Vec<[u64; 3]>>,
}

impl Seen {
    /// Records that a reconcile of this controller has read this ConfigMap.
    pub fn reconciled(&self, controller: usize, map: &ConfigMap) {
        let now = clock::monotonic_nanoseconds();
        let state = &*self.0;
        state.reconciles.fetch_add(1, Ordering::Relaxed);
        let field = |name: &str| map.data.as_ref()?.get(name)?.parse::<u64>().ok();
        let number = map.metadata.name.as_deref().and_then(number);
        let (Some(number), Some(round)) = (number, field("round")) else { return };
        if round > 0 {
            lock(&state.reads).push([number as u64, round, now]);
        }
        lock(&state.by_name).insert((controller, number), round);
    }

    /// Waits until `count` ConfigMaps have been read in this or a later round. Each controller counts separately.
    pub async fn wait_for(&self, count: usize, round: u64) {
        // Polling is cheap compared with the measured work, and every peer polls at the same interval.
        while lock(&self.0.by_name).values().filter(|seen| **seen >= round).count() < count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Number of reconciles so far.
    #[must_use]
    pub fn count(&self) -> Reply {
        Reply::figures([("reconciles", self.0.reconciles.load(Ordering::Relaxed))])
    }

    /// Returns and clears the reads: number, round, and time on the monotonic clock.
    #[must_use]
    pub fn reads(&self) -> Reply {
        Reply::figures([("reads", json!(std::mem::take(&mut *lock(&self.0.reads))))])
    }
}

/// Locks a mutex. Poisoning is ignored, because the panic of a reconciler is reported elsewhere.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn rounds_are_seen_once_per_controller() {
        let seen = Seen::default();
        seen.reconciled(0, &message(1, 3));
        seen.reconciled(1, &message(1, 3));
        seen.wait_for(2, 3).await;
        let Reply::Figures(figures) = seen.count() else { panic!("no figures") };
        assert_eq!(figures["reconciles"], 2);
        let Reply::Figures(figures) = seen.reads() else { panic!("no figures") };
        let read = &figures["reads"][1];
        assert_eq!((&read[0], &read[1]), (&json!(1), &json!(3)));
        assert!(read[2].as_u64() <= Some(clock::monotonic_nanoseconds()) && read[2].as_u64() > Some(0));
        let Reply::Figures(figures) = seen.reads() else { panic!("no figures") };
        assert_eq!(figures["reads"], json!([]), "reads are returned once");
    }

    #[test]
    fn messages_are_of_about_a_kilobyte() -> serde_json::Result<()> {
        let size = serde_json::to_string(&message(7, 1))?.len();
        assert!((600..1100).contains(&size), "{size}");
        assert_eq!(number(&name(7)), Some(7));
        Ok(())
    }
}
