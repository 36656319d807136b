//! Metrics of the caches.

use std::{collections::BTreeMap, fmt};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
};

use super::LabelPairs;
use crate::cache::{ResourceStats, Stats};

/// Reads the statistics of the cached resources.
pub(super) type ReadStats = Box<dyn Fn() -> StatsByResource + Send + Sync>;

/// A value, with the form of objects for a family that distinguishes forms.
type Sample = (Option<&'static str>, usize);

/// Reads the state of the caches when metrics are collected.
pub(super) struct CacheCollector(pub(super) ReadStats);

impl Collector for CacheCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let caches = (self.0)();
        if caches.is_empty() {
            return Ok(());
        }
        let objects = "States of objects held by the caches and their readers; a state shared by several Rust types counts once";
        gauge(&caches, &mut encoder, "controller_runtime_cache_objects", objects, |stats| {
            vec![(None, stats.objects.saturating_sub(stats.shared))]
        })?;
        let decoded = "Cached states that are currently decoded";
        gauge(&caches, &mut encoder, "controller_runtime_cache_decoded_objects", decoded, |stats| {
            vec![(None, stats.decoded)]
        })?;
        let bytes = "Memory of cached states: decoded (estimated), and as text (compressed where it is)";
        gauge(&caches, &mut encoder, "controller_runtime_cache_bytes", bytes, |stats| {
            vec![(Some("decoded"), stats.decoded_bytes), (Some("text"), stats.text_bytes)]
        })?;
        let decodes = "Decodings of cached states";
        counter(&caches, &mut encoder, "controller_runtime_cache_decodes", decodes, |stats| stats.decodes)?;
        let unreadable = "Received objects that do not fit their Rust type or have no name";
        counter(&caches, &mut encoder, "controller_runtime_cache_unreadable", unreadable, |stats| {
            stats.unreadable
        })?;
        let failures = "Lists and watches that failed";
        counter(&caches, &mut encoder, "controller_runtime_cache_failures", failures, |stats| {
            stats.failures
        })?;
        let lists = "Requests for all objects of the kind, by a list or by a watch with initial events";
        counter(&caches, &mut encoder, "controller_runtime_cache_lists", lists, |stats| stats.lists)?;
        let watches = "Watches started; all but the first after each list are restarts";
        counter(&caches, &mut encoder, "controller_runtime_cache_watches", watches, |stats| stats.watches)?;
        let dead = "Watches closed because they were silent for 45 s or missed an event";
        counter(&caches, &mut encoder, "controller_runtime_cache_dead_watches", dead, |stats| {
            stats.dead_watches
        })?;
        let probes = "Probes of watches that were silent for 30 s";
        counter(&caches, &mut encoder, "controller_runtime_cache_probes", probes, |stats| stats.probes)?;
        let age = "Time since the API server last sent anything on a watch or answered a probe of it; above 45 s the watch is dead";
        let name = "controller_runtime_cache_watch_age_seconds";
        let mut family = encoder.encode_descriptor(name, age, None, MetricType::Gauge)?;
        caches.iter().try_for_each(|(resource, cache)| {
            let Some(silence) = cache.silence else { return Ok(()) };
            let labels: LabelPairs = vec![("resource", resource.clone())];
            ConstGauge::new(silence.as_secs_f64()).encode(family.encode_family(&labels)?)
        })
    }
}

type StatsByResource = BTreeMap<String, ResourceStats>;

fn gauge(
    caches: &StatsByResource,
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    values: fn(&Stats) -> Vec<Sample>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    caches.iter().try_for_each(|(resource, cache)| {
        values(&cache.stats).into_iter().try_for_each(|(form, value)| {
            let mut labels: LabelPairs = vec![("resource", resource.clone())];
            labels.extend(form.map(|form| ("form", form.to_owned())));
            let value = i64::try_from(value).unwrap_or(i64::MAX);
            ConstGauge::new(value).encode(family.encode_family(&labels)?)
        })
    })
}

fn counter(
    caches: &StatsByResource,
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: fn(&Stats) -> usize,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    caches.iter().try_for_each(|(resource, cache)| {
        let labels: LabelPairs = vec![("resource", resource.clone())];
        let value = u64::try_from(value(&cache.stats)).unwrap_or(u64::MAX);
        ConstCounter::new(value).encode(family.encode_family(&labels)?)
    })
}

impl fmt::Debug for CacheCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheCollector").finish_non_exhaustive()
    }
}
