//! Series by labels, and the types of their values.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use kube_apimachinery::go;
use parking_lot::RwLock;

use super::SERIES;
use super::exposition::MetricsPage;

/// A metric: one series for each set of labels, sorted by them.
pub(super) struct Family<L, S> {
    series: RwLock<BTreeMap<L, Arc<S>>>,
    /// Series for all label sets beyond the limit. It is not shown.
    excess: Arc<S>,
}

impl<L, S: Default> Default for Family<L, S> {
    fn default() -> Self {
        Self { series: RwLock::default(), excess: Arc::default() }
    }
}

impl<L: Ord + Clone, S: Default> Family<L, S> {
    /// Returns the series with these labels.
    pub(super) fn series(&self, labels: &L) -> Arc<S> {
        if let Some(series) = self.series.read().get(labels) {
            return Arc::clone(series);
        }
        let mut all = self.series.write();
        if all.len() >= SERIES && !all.contains_key(labels) {
            return Arc::clone(&self.excess);
        }
        Arc::clone(all.entry(labels.clone()).or_default())
    }

    /// Returns all series, in the order of their labels.
    pub(super) fn all(&self) -> Vec<(L, Arc<S>)> {
        self.series.read().iter().map(|(labels, series)| (labels.clone(), Arc::clone(series))).collect()
    }
}

/// A number that only increases.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn increment(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn value(&self) -> f64 {
        self.0.load(Ordering::Relaxed) as f64
    }
}

/// A number that increases and decreases.
#[derive(Debug, Default)]
pub(super) struct Gauge(AtomicI64);

impl Gauge {
    pub(super) fn add(&self, change: i64) {
        self.0.fetch_add(change, Ordering::Relaxed);
    }

    pub(super) fn value(&self) -> f64 {
        self.0.load(Ordering::Relaxed) as f64
    }
}

/// Upper bounds of the buckets of a histogram, in seconds.
pub(super) trait Buckets: Default {
    const BOUNDS: &'static [f64];
}

/// Durations by buckets.
#[derive(Debug)]
pub(super) struct Histogram<B> {
    /// Number of observations in each bucket, not cumulative. The last bucket has no upper bound.
    counts: Vec<AtomicU64>,
    nanoseconds: AtomicU64,
    buckets: std::marker::PhantomData<B>,
}

impl<B: Buckets> Default for Histogram<B> {
    fn default() -> Self {
        let counts = (0..=B::BOUNDS.len()).map(|_| AtomicU64::new(0)).collect();
        Self { counts, nanoseconds: AtomicU64::new(0), buckets: std::marker::PhantomData }
    }
}

impl<B: Buckets> Histogram<B> {
    pub(super) fn observe(&self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        let bucket = B::BOUNDS.partition_point(|bound| *bound < seconds);
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    /// Whether there are no observations.
    pub(super) fn is_empty(&self) -> bool {
        self.counts.iter().all(|count| count.load(Ordering::Relaxed) == 0)
    }

    /// Writes the samples of the histogram.
    pub(super) fn write(&self, page: &mut MetricsPage, name: &str, labels: &[(&str, &str)]) {
        let mut total = 0;
        let bounds = B::BOUNDS.iter().copied().chain([f64::INFINITY]);
        for (count, bound) in self.counts.iter().zip(bounds) {
            total += count.load(Ordering::Relaxed);
            page.bucket(&format!("{name}_bucket"), labels, &go::float(bound), total as f64);
        }
        let sum = Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed));
        page.sample(&format!("{name}_sum"), labels, sum.as_secs_f64());
        page.sample(&format!("{name}_count"), labels, total as f64);
    }
}
