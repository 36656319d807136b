//! ConfigMaps of 1 KB that carry a round and the time they were sent at, and who has seen which round.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;

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
        ("sent".to_owned(), clock::monotonic_nanoseconds().to_string()),
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
    late: Mutex<Vec<u64>>,
}

impl Seen {
    /// A reconcile of this controller has read this ConfigMap.
    pub fn reconciled(&self, controller: usize, map: &ConfigMap) {
        let now = clock::monotonic_nanoseconds();
        let state = &*self.0;
        state.reconciles.fetch_add(1, Ordering::Relaxed);
        let field = |name: &str| map.data.as_ref()?.get(name)?.parse::<u64>().ok();
        let number = map.metadata.name.as_deref().and_then(number);
        let (Some(number), Some(round), Some(sent)) = (number, field("round"), field("sent")) else { return };
        if round > 0 {
            lock(&state.late).push(now.saturating_sub(sent));
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

    /// Reconciles so far, and the latencies since the last time, which are forgotten.
    #[must_use]
    pub fn reply(&self) -> Reply {
        let mut late = std::mem::take(&mut *lock(&self.0.late));
        late.sort_unstable();
        let at = |share: usize| late.get((late.len().max(1) - 1) * share / 100).copied().unwrap_or(0);
        Reply::figures([
            ("reconciles", self.0.reconciles.load(Ordering::Relaxed)),
            ("latency_p50_ns", at(50)),
            ("latency_p99_ns", at(99)),
        ])
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
        let Reply::Figures(figures) = seen.reply() else { panic!("no figures") };
        assert_eq!(figures["reconciles"], 2);
        assert!(figures["latency_p99_ns"].as_u64() > Some(0));
        let Reply::Figures(figures) = seen.reply() else { panic!("no figures") };
        assert_eq!(figures["latency_p99_ns"], 0, "they were told");
    }

    #[test]
    fn messages_are_of_about_a_kilobyte() -> serde_json::Result<()> {
        let size = serde_json::to_string(&message(7, 1))?.len();
        assert!((600..1100).contains(&size), "{size}");
        assert_eq!(number(&name(7)), Some(7));
        Ok(())
    }
}
