//! ConfigMaps of 1 KB that carry a round, and who has seen which round when.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use crate::{Reply, clock};

/// Where the ConfigMaps are.
pub const NAMESPACE: &str = "messages";

/// The ConfigMap of this number.
#[must_use]
pub fn name(number: usize) -> String {
    format!("message-{number:06}")
}

/// The number in a name.
#[must_use]
pub fn number(name: &str) -> Option<usize> {
    name.strip_prefix("message-")?.parse().ok()
}

/// A ConfigMap of about 1 KB in JSON as it comes from the API server.
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

/// What the reconcilers of a peer have seen.
#[derive(Debug, Clone, Default)]
pub struct Seen(Arc<State>);

#[derive(Debug, Default)]
struct State {
    reconciles: AtomicU64,
    by_name: Mutex<BTreeMap<(usize, usize), u64>>,
    /// Number, round, and when.
    reads: Mutex<Vec<[u64; 3]>>,
}

impl Seen {
    /// A reconcile of this controller has read this ConfigMap.
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

    /// Waits until so many ConfigMaps have been seen in this round or a later one, counted once per controller.
    pub async fn wait_for(&self, count: usize, round: u64) {
        // Looking is cheap beside what is measured, and every peer looks as often.
        while lock(&self.0.by_name).values().filter(|seen| **seen >= round).count() < count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Reconciles so far.
    #[must_use]
    pub fn count(&self) -> Reply {
        Reply::figures([("reconciles", self.0.reconciles.load(Ordering::Relaxed))])
    }

    /// What was read since the last time, which is forgotten: number, round, and when by the monotonic clock.
    #[must_use]
    pub fn reads(&self) -> Reply {
        Reply::figures([("reads", json!(std::mem::take(&mut *lock(&self.0.reads))))])
    }
}

/// A reconciler that panicked has been noticed otherwise.
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
        assert_eq!(figures["reads"], json!([]), "they were told");
    }

    #[test]
    fn messages_are_of_about_a_kilobyte() -> serde_json::Result<()> {
        let size = serde_json::to_string(&message(7, 1))?.len();
        assert!((600..1100).contains(&size), "{size}");
        assert_eq!(number(&name(7)), Some(7));
        Ok(())
    }
}
