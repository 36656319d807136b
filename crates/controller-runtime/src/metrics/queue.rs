//! Metrics of queues.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

use kube_workqueue::{Gauges, Priority};
use parking_lot::Mutex;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::Counter, family::Family, gauge::ConstGauge, histogram::Histogram},
    registry::Registry,
};

use super::{Histograms, LabelPairs, TEN_NANOSECONDS_TO_1000_SECONDS};

/// Metric families of a manager's queues.
pub(super) struct QueueFamilies {
    adds: Family<LabelPairs, Counter>,
    retries: Family<LabelPairs, Counter>,
    queue_duration: Histograms,
    work_duration: Histograms,
    shown: Arc<ShownQueues>,
}

/// The queues with visible gauges, by controller and a number, because names need not be unique.
#[derive(Default)]
struct ShownQueues {
    queues: Mutex<BTreeMap<(String, u64), Queue>>,
}

/// A queue with visible gauges.
struct Queue {
    /// Whether its keys have different priorities.
    classes: bool,
    gauges: Box<dyn Fn() -> Gauges + Send + Sync>,
}

impl ShownQueues {
    /// Gauges by controller, and whether they are by priority. Queues of the same name are added up, because labels cannot
    /// distinguish them.
    fn gauges(&self) -> BTreeMap<String, (bool, Gauges)> {
        let mut all: BTreeMap<String, (bool, Gauges)> = BTreeMap::new();
        for ((controller, _), queue) in &*self.queues.lock() {
            // Takes the lock of the queue while the lock of this map is held. The queue never takes the two in the other order.
            let gauges = (queue.gauges)();
            match all.get_mut(controller) {
                Some((classes, others)) => {
                    *classes |= queue.classes;
                    for (depth, more) in others.depth.iter_mut().zip(gauges.depth) {
                        *depth += more;
                    }
                    others.unfinished += gauges.unfinished;
                    others.longest_running = others.longest_running.max(gauges.longest_running);
                }
                None => {
                    all.insert(controller.clone(), (queue.classes, gauges));
                }
            }
        }
        all
    }
}

impl QueueFamilies {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(TEN_NANOSECONDS_TO_1000_SECONDS);
        let families = Self {
            adds: Family::default(),
            retries: Family::default(),
            queue_duration: Family::new_with_constructor(histogram),
            work_duration: Family::new_with_constructor(histogram),
            shown: Arc::default(),
        };
        registry.register("workqueue_adds", "Keys that became ready", families.adds.clone());
        registry.register("workqueue_retries", "Keys added with a delay", families.retries.clone());
        registry.register(
            "workqueue_queue_duration_seconds",
            "Time that keys are ready before they are handed out",
            families.queue_duration.clone(),
        );
        registry.register(
            "workqueue_work_duration_seconds",
            "Time that keys are processed",
            families.work_duration.clone(),
        );
        registry.register_collector(Box::new(QueueCollector(Arc::clone(&families.shown))));
        families
    }

    pub(super) fn of(&self, controller: &str) -> Arc<dyn kube_workqueue::Metrics> {
        let labels = labels(controller);
        Arc::new(QueueMetrics {
            adds: self.adds.get_or_create_owned(&labels),
            retries: self.retries.get_or_create_owned(&labels),
            queue_duration: self.queue_duration.get_or_create_owned(&labels),
            work_duration: self.work_duration.get_or_create_owned(&labels),
        })
    }

    pub(super) fn longest_running(&self) -> Option<(String, Duration)> {
        let queues = self.shown.queues.lock();
        let running = queues
            .iter()
            .map(|((controller, _), queue)| (controller.clone(), (queue.gauges)().longest_running));
        running.max_by_key(|(_, running)| *running)
    }

    pub(super) fn show(
        &self,
        controller: &str,
        classes: bool,
        gauges: impl Fn() -> Gauges + Send + Sync + 'static,
    ) -> QueueGauges {
        let mut queues = self.shown.queues.lock();
        // Unique among the living queues, even after some were removed.
        let number = queues.keys().map(|(_, number)| number + 1).max().unwrap_or_default();
        let key = (controller.to_owned(), number);
        queues.insert(key.clone(), Queue { classes, gauges: Box::new(gauges) });
        QueueGauges { shown: Arc::downgrade(&self.shown), key }
    }
}

/// Shows the gauges of a queue until dropped.
#[must_use = "dropping it hides the gauges"]
pub(crate) struct QueueGauges {
    shown: Weak<ShownQueues>,
    key: (String, u64),
}

impl Drop for QueueGauges {
    fn drop(&mut self) {
        if let Some(shown) = self.shown.upgrade() {
            shown.queues.lock().remove(&self.key);
        }
    }
}

struct QueueMetrics {
    adds: Counter,
    retries: Counter,
    queue_duration: Histogram,
    work_duration: Histogram,
}

impl kube_workqueue::Metrics for QueueMetrics {
    fn added(&self, _: Priority) {
        self.adds.inc();
    }

    fn waited(&self, _: Priority, ready: Duration) {
        self.queue_duration.observe(ready.as_secs_f64());
    }

    fn worked(&self, running: Duration) {
        self.work_duration.observe(running.as_secs_f64());
    }

    fn retried(&self) {
        self.retries.inc();
    }
}

/// Reads the queues when metrics are collected.
struct QueueCollector(Arc<ShownQueues>);

impl Collector for QueueCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let queues: Vec<_> =
            self.0.gauges().into_iter().map(|(controller, queue)| (labels(&controller), queue)).collect();
        if queues.is_empty() {
            return Ok(());
        }
        let help = "Keys that are ready to be processed";
        let mut depth = encoder.encode_descriptor("workqueue_depth", help, None, MetricType::Gauge)?;
        for (labels, (classes, gauges)) in &queues {
            let mut show = |priority: &str, keys: usize| {
                let mut labels = labels.clone();
                labels.push(("priority", priority.to_owned()));
                let keys = i64::try_from(keys).unwrap_or(i64::MAX);
                ConstGauge::new(keys).encode(depth.encode_family(&labels)?)
            };
            if *classes {
                let mut all = Priority::ALL.into_iter().zip(gauges.depth);
                all.try_for_each(|(priority, keys)| show(number(priority), keys))?;
            } else {
                // Go uses an empty priority for queues without priorities.
                show("", gauges.depth.iter().sum())?;
            }
        }
        let unfinished = "Sum of the processing times so far of keys that are being processed";
        let longest = "Longest processing time so far of a key that is being processed";
        let mut seconds = |name, help, value: fn(&Gauges) -> Duration| {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            queues.iter().try_for_each(|(labels, (_, gauges))| {
                ConstGauge::new(value(gauges).as_secs_f64()).encode(family.encode_family(labels)?)
            })
        };
        seconds("workqueue_unfinished_work_seconds", unfinished, |gauges| gauges.unfinished)?;
        seconds("workqueue_longest_running_processor_seconds", longest, |gauges| gauges.longest_running)
    }
}

impl fmt::Debug for QueueCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueCollector").finish_non_exhaustive()
    }
}

fn labels(controller: &str) -> LabelPairs {
    vec![("name", controller.to_owned()), ("controller", controller.to_owned())]
}

/// Go's number of the priority.
fn number(priority: Priority) -> &'static str {
    match priority {
        Priority::High => "100",
        Priority::Normal => "0",
        Priority::Low => "-100",
    }
}
