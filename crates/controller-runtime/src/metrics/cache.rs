use std::{collections::BTreeMap, fmt};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, gauge::ConstGauge},
};

use super::Labels;
use crate::cache::Stats;

/// What each cache holds, by its resource.
pub(super) type Look = Box<dyn Fn() -> BTreeMap<String, Stats> + Send + Sync>;

/// A form of objects, where a family tells them apart, and a value.
type Sample = (Option<&'static str>, usize);

/// Looks at the caches when somebody asks.
pub(super) struct CacheCollector(pub(super) Look);

impl Collector for CacheCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let caches = (self.0)();
        let mut family = |name, help, values: fn(&Stats) -> Vec<Sample>| {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            caches.iter().try_for_each(|(resource, stats)| {
                values(stats).into_iter().try_for_each(|(form, value)| {
                    let mut labels: Labels = vec![("resource", resource.clone())];
                    labels.extend(form.map(|form| ("form", form.to_owned())));
                    let value = i64::try_from(value).unwrap_or(i64::MAX);
                    ConstGauge::new(value).encode(family.encode_family(&labels)?)
                })
            })
        };
        if caches.is_empty() {
            return Ok(());
        }
        let objects =
            "States of objects that a cache or its readers hold, each once however many Rust types read it";
        family("controller_runtime_cache_objects", objects, |stats| {
            vec![(None, stats.objects.saturating_sub(stats.shared))]
        })?;
        let bytes = "What they take: decoded, as estimated, and as text, compressed where it is";
        family("controller_runtime_cache_bytes", bytes, |stats| {
            vec![(Some("decoded"), stats.hot_bytes), (Some("text"), stats.cold_bytes)]
        })
    }
}

impl fmt::Debug for CacheCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheCollector").finish_non_exhaustive()
    }
}
