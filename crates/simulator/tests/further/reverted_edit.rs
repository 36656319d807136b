//! The retention of a topic can be changed in its object or at the broker, and is copied to the other side.
//! To know which side has changed, the operator notes the last value that both had. It notes a new value
//! before it has set it at the broker: if it fails in between, the object equals the note and the broker does
//! not, as if the broker had been changed, and the operator takes the edit of the user back. The corrected
//! operator notes the value as pending until it is set.
//!
//! Expected: same objects or remotes. Minimum plan: a crash after the new value is noted, or the broker
//! refuses it once.

use std::collections::BTreeMap;

use controller_runtime::client::Patch;

use crate::common::*;

/// Retention in days.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "further.dev", version = "v1", kind = "Topic", namespaced, status = "TopicStatus")]
#[serde(default)]
struct TopicSpec {
    retention: i32,
}

/// The last retention that both sides had, and the one that is being set at the broker.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, JsonSchema)]
#[serde(default)]
struct TopicStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    synced: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pending: Option<i32>,
}

/// Retentions by topic.
#[derive(Default, Serialize)]
struct Kafka {
    retentions: BTreeMap<String, i32>,
}

struct FakeKafka(Remote<Kafka>);

impl FakeKafka {
    async fn retention(&self, topic: &str) -> Result<Option<i32>, Lost> {
        let name = topic.to_owned();
        self.0.effect("describe topic", topic, move |kafka| kafka.retentions.get(&name).copied()).await
    }

    /// Sets the retention of a topic, which is created if it does not exist.
    async fn set(&self, topic: &str, retention: i32) -> Result<(), Lost> {
        let name = topic.to_owned();
        let set = move |kafka: &mut Kafka| {
            kafka.retentions.insert(name, retention);
        };
        self.0.effect("set retention", topic, set).await
    }
}

struct Topics {
    kafka: FakeKafka,
    variant: Variant,
}

async fn note(
    key: &ObjectKey<Topic>,
    synced: Option<i32>,
    pending: Option<i32>,
    cx: &Context,
) -> Result<(), ReconcileError> {
    cx.client().apply_status(key, &TopicStatus { synced, pending }).await?;
    Ok(())
}

impl Reconciler for Topics {
    type Request = ObjectKey<Topic>;

    async fn reconcile(&self, key: &ObjectKey<Topic>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(topic) = cx.client().get(key).await? else { return Ok(Action::done()) };
        let (wanted, status) = (topic.spec.retention, topic.status.clone().unwrap_or_default());
        let actual = self.kafka.retention(key.name()).await?;
        if actual != Some(wanted) {
            let is_own = actual == status.synced || actual == status.pending;
            if let (Some(retention), false, true) = (actual, is_own, status.synced == Some(wanted)) {
                // It has changed at the broker, and not here. The next reconcile notes it.
                let change = Patch::merge(&json!({"spec": {"retention": retention}}));
                cx.client().patch(key, change.with_version_of(&topic)).await?;
                return Ok(Action::done());
            }
            // It has changed here, or on both sides: the object counts.
            match self.variant {
                Variant::Buggy => note(key, Some(wanted), None, cx).await?,
                Variant::Twin => note(key, actual, Some(wanted), cx).await?,
            }
            self.kafka.set(key.name(), wanted).await?;
        } else if status == (TopicStatus { synced: Some(wanted), pending: None }) {
            return Ok(Action::done());
        }
        note(key, Some(wanted), None, cx).await?;
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let topics = Topics { kafka: FakeKafka(Remote::of_this_run()), variant };
        Builder::managed_by(manager).for_kind::<Topic>().complete(topics)?;
        Ok(())
    };
    let head = "apiVersion: further.dev/v1, kind: Topic, metadata: {name: orders}";
    let topic = |retention: i32| format!("{{{head}, spec: {{retention: {retention}}}}}");
    Simulation::new("topics", add)
        .crd::<Topic>()
        .remote("kafka", Kafka::default)
        .applies("a topic is created", &topic(7))
        .applies("its messages are to be kept longer", &topic(30))
        .applies("they are to be kept as long as before", &topic(7))
}

#[test]
fn an_edit_that_is_taken_back_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert!(matches!(finding.oracle(), Oracle::SameObjects | Oracle::SameRemotes), "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
