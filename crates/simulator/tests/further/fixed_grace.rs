//! A broker is stopped some seconds after the deletion of its topics, whether or not they are gone. A topic that takes longer can never
//! be dropped, and keeps its finalizer.
//!
//! Expected: succeeds, same objects or remotes. Minimum plan: the deletion of the topic is reported late, or the topic is dropped late.

use std::collections::BTreeSet;

use crate::common::*;

const FINALIZER: &str = "further.dev/broker";

/// Time that topics take to be dropped.
const GRACE: Duration = Duration::from_secs(5);

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "further.dev", version = "v1", kind = "Topic", namespaced)]
#[serde(default)]
struct TopicSpec {
    partitions: i32,
}

#[derive(Default, Serialize)]
struct Broker {
    runs: bool,
    topics: BTreeSet<String>,
}

struct FakeBroker(Remote<Broker>);

impl FakeBroker {
    async fn start(&self) -> Result<(), Lost> {
        self.0.effect("start", "db", |broker| broker.runs = true).await
    }

    async fn stop(&self) -> Result<(), Lost> {
        self.0.effect("stop", "db", |broker| broker.runs = false).await
    }

    /// Creates or drops a topic.
    async fn change(&self, name: &str, topic: &str, exists: bool) -> Result<(), ReconcileError> {
        let changed = topic.to_owned();
        let change = move |broker: &mut Broker| {
            if broker.runs && exists {
                broker.topics.insert(changed);
            } else if broker.runs {
                broker.topics.remove(&changed);
            }
            broker.runs
        };
        let has_changed = self.0.effect(name, topic, change).await?;
        if has_changed { Ok(()) } else { Err(ReconcileError::new("the broker refuses connections")) }
    }
}

struct Topics {
    topics: Cached<Topic>,
    broker: FakeBroker,
}

impl Reconciler for Topics {
    type Request = ObjectKey<Topic>;

    async fn reconcile(&self, key: &ObjectKey<Topic>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(topic) = self.topics.get(key)? else { return Ok(Action::done()) };
        if topic.metadata.deletion_timestamp.is_none() {
            cx.client().add_finalizer(&*topic, FINALIZER).await?;
            self.broker.change("create topic", key.name(), true).await?;
        } else if has_finalizer(&*topic, FINALIZER) {
            self.broker.change("drop topic", key.name(), false).await?;
            cx.client().remove_finalizer(&*topic, FINALIZER).await?;
        }
        Ok(Action::done())
    }
}

struct Clusters {
    clusters: Cached<Cluster>,
    broker: FakeBroker,
    variant: Variant,
}

impl Reconciler for Clusters {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        let Some(deleted) = &cluster.metadata.deletion_timestamp else {
            cx.client().add_finalizer(&*cluster, FINALIZER).await?;
            self.broker.start().await?;
            return Ok(Action::done());
        };
        if !has_finalizer(&*cluster, FINALIZER) {
            return Ok(Action::done());
        }
        let topics = cx.client().list::<Topic>().in_namespace("default").await?.items;
        for topic in topics.iter().filter(|topic| topic.metadata.deletion_timestamp.is_none()) {
            cx.client().delete(topic).await?;
        }
        let passed = Duration::try_from(cx.wall_time().duration_since(deleted.0)).unwrap_or_default();
        let wait = match self.variant {
            Variant::Buggy => GRACE.checked_sub(passed).filter(|left| !left.is_zero()),
            Variant::Twin => (!topics.is_empty()).then_some(GRACE),
        };
        if let Some(wait) = wait {
            return Ok(Action::requeue_after(wait));
        }
        self.broker.stop().await?;
        cx.client().remove_finalizer(&*cluster, FINALIZER).await?;
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let broker = || FakeBroker(Remote::of_this_run());
        let topics = Topics { topics: manager.cached(), broker: broker() };
        Builder::managed_by(manager).for_kind::<Topic>().complete(topics)?;
        let clusters = Clusters { clusters: manager.cached(), broker: broker(), variant };
        Builder::managed_by(manager).for_kind::<Cluster>().complete(clusters)?;
        Ok(())
    };
    Simulation::new("brokers", add)
        .crd::<Cluster>()
        .crd::<Topic>()
        .remote("broker", Broker::default)
        .cluster("a broker is asked for", "{}")
        .applies(
            "a topic is asked for",
            "{apiVersion: further.dev/v1, kind: Topic, metadata: {name: orders}, spec: {partitions: 1}}",
        )
        .deletes_cluster("the broker is deleted")
}

#[test]
fn the_bug_is_found() {
    find(simulation(Variant::Buggy));
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
