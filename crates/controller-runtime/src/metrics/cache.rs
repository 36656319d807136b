use std::{collections::BTreeMap, fmt, time::Duration};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
};

use super::Labels;
use crate::cache::Stats;

/// What the caches of a resource hold, and when the API server was heard of last.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CacheLook {
    pub(crate) stats: Stats,
    /// For how long it has said nothing: of several lists and watches the longest.
    pub(crate) silence: Option<Duration>,
}

/// What is cached, by the resource.
pub(super) type Look = Box<dyn Fn() -> Caches + Send + Sync>;

/// A form of objects, where a family tells them apart, and a value.
type Sample = (Option<&'static str>, usize);

/// Looks at the caches when somebody asks.
pub(super) struct CacheCollector(pub(super) Look);

impl Collector for CacheCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let caches = (self.0)();
        if caches.is_empty() {
            return Ok(());
        }
        let objects =
            "States of objects that a cache or its readers hold, each once however many Rust types read it";
        gauge(&caches, &mut encoder, "controller_runtime_cache_objects", objects, |stats| {
            vec![(None, stats.objects.saturating_sub(stats.shared))]
        })?;
        let decoded = "Those of them that are decoded now";
        gauge(&caches, &mut encoder, "controller_runtime_cache_decoded_objects", decoded, |stats| {
            vec![(None, stats.hot)]
        })?;
        let bytes = "What they take: decoded, as estimated, and as text, compressed where it is";
        gauge(&caches, &mut encoder, "controller_runtime_cache_bytes", bytes, |stats| {
            vec![(Some("decoded"), stats.hot_bytes), (Some("text"), stats.cold_bytes)]
        })?;
        let decodes = "How often a state was decoded";
        counter(&caches, &mut encoder, "controller_runtime_cache_decodes", decodes, |stats| stats.decodes)?;
        let unreadable = "States that do not fit their Rust type, or have no name to be held by";
        counter(&caches, &mut encoder, "controller_runtime_cache_unreadable", unreadable, |stats| {
            stats.unreadable
        })?;
        let failures = "Lists and watches that failed";
        counter(&caches, &mut encoder, "controller_runtime_cache_failures", failures, |stats| {
            stats.failures
        })?;
        let lists = "How often all objects were asked for, by a list or by a watch that tells of them first";
        counter(&caches, &mut encoder, "controller_runtime_cache_lists", lists, |stats| stats.lists)?;
        let watches = "Watches that began: all but the first one of each list are restarts";
        counter(&caches, &mut encoder, "controller_runtime_cache_watches", watches, |stats| stats.watches)?;
        let dead = "Watches that were closed because they were silent for 45 s, or missed an event";
        counter(&caches, &mut encoder, "controller_runtime_cache_dead_watches", dead, |stats| {
            stats.dead_watches
        })?;
        let probes = "Probes of watches that were silent for 30 s";
        counter(&caches, &mut encoder, "controller_runtime_cache_probes", probes, |stats| stats.probes)?;
        let age = "Time since the API server last sent anything for a watch, or answered a probe of it; above 45 s the watch is dead";
        let name = "controller_runtime_cache_watch_age_seconds";
        let mut family = encoder.encode_descriptor(name, age, None, MetricType::Gauge)?;
        caches.iter().try_for_each(|(resource, look)| {
            let Some(silence) = look.silence else { return Ok(()) };
            let labels: Labels = vec![("resource", resource.clone())];
            ConstGauge::new(silence.as_secs_f64()).encode(family.encode_family(&labels)?)
        })
    }
}

type Caches = BTreeMap<String, CacheLook>;

fn gauge(
    caches: &Caches,
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    values: fn(&Stats) -> Vec<Sample>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    caches.iter().try_for_each(|(resource, look)| {
        values(&look.stats).into_iter().try_for_each(|(form, value)| {
            let mut labels: Labels = vec![("resource", resource.clone())];
            labels.extend(form.map(|form| ("form", form.to_owned())));
            let value = i64::try_from(value).unwrap_or(i64::MAX);
            ConstGauge::new(value).encode(family.encode_family(&labels)?)
        })
    })
}

fn counter(
    caches: &Caches,
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: fn(&Stats) -> usize,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    caches.iter().try_for_each(|(resource, look)| {
        let labels: Labels = vec![("resource", resource.clone())];
        let value = u64::try_from(value(&look.stats)).unwrap_or(u64::MAX);
        ConstCounter::new(value).encode(family.encode_family(&labels)?)
    })
}

impl fmt::Debug for CacheCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheCollector").finish_non_exhaustive()
    }
}
