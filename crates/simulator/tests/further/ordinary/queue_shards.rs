//! No bug: one child for each shard, with a fixed name. Children are listed by a label: missing ones are created, changed ones
//! are updated, and surplus ones are deleted. One replica: with two, a new leader with an old view would delete a shard that is wanted again.

use controller_runtime::cache::LabelSelector;

use crate::common::*;

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "queue.example.com", version = "v1", kind = "Queue", namespaced, status = "QueueStatus")]
#[serde(default)]
struct QueueSpec {
    shards: i32,
    retention: String,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, JsonSchema)]
#[serde(default)]
struct QueueStatus {
    shards: i32,
}

struct Queues {
    queues: Cached<Queue>,
    maps: Cached<ConfigMap>,
}

fn shard(queue: &Queue, number: i32) -> Result<ConfigMap, ReconcileError> {
    let name = format!("{}-{number}", queue.name_any());
    let mut shard = map("default", &name, "retention", &queue.spec.retention);
    shard.metadata.labels = Some([("queue".to_owned(), queue.name_any())].into());
    set_controller_reference(queue, &mut shard)?;
    Ok(shard)
}

impl Reconciler for Queues {
    type Request = ObjectKey<Queue>;

    async fn reconcile(&self, key: &ObjectKey<Queue>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(queue) = self.queues.get(key)? else { return Ok(Action::done()) };
        let selector: LabelSelector = format!("queue={}", key.name()).parse()?;
        let mut surplus = self.maps.select().namespace("default").labels(&selector).list()?;
        for number in 0..queue.spec.shards {
            let wanted = shard(&queue, number)?;
            let Some(place) = surplus.iter().position(|known| known.name_any() == wanted.name_any()) else {
                cx.client().create(&wanted).await?;
                continue;
            };
            let known = surplus.remove(place);
            if known.data != wanted.data {
                let mut changed = ConfigMap::clone(&known);
                changed.data = wanted.data;
                cx.client().update(&changed).await?;
            }
        }
        for shard in &surplus {
            cx.client().delete(&**shard).await?;
        }
        let status = QueueStatus { shards: queue.spec.shards };
        if queue.status.as_ref() != Some(&status) {
            cx.client().apply_status(key, &status).await?;
        }
        Ok(Action::done())
    }
}

fn queue(name: &str, shards: i32, retention: &str) -> String {
    let head = format!("apiVersion: queue.example.com/v1, kind: Queue, metadata: {{name: {name}}}");
    format!("{{{head}, spec: {{shards: {shards}, retention: {retention}}}}}")
}

pub(crate) fn simulation() -> Simulation {
    let add = |manager: &Manager| -> Result<(), AddError> {
        let queues = Queues { queues: manager.cached(), maps: manager.cached() };
        Builder::managed_by(manager).for_kind::<Queue>().owns::<ConfigMap>().complete(queues)?;
        Ok(())
    };
    Simulation::new("queues", add)
        .crd::<Queue>()
        .applies("a queue is created", &queue("mail", 2, "1d"))
        .applies("another one is created", &queue("jobs", 1, "7d"))
        .step("the first one shrinks and grows", async |user| {
            user.apply_yaml(&queue("mail", 1, "1d")).await?;
            user.apply_yaml(&queue("mail", 3, "2d")).await
        })
        .step("a shard is deleted by hand", async |user| {
            user.delete_key(&in_default::<ConfigMap>("mail-0")).await
        })
        .step("a shard is edited by hand", async |user| {
            let edit = json!({"data": {"retention": "9d"}});
            user.merge_patch(&in_default::<ConfigMap>("mail-1"), &edit).await
        })
        .applies("it shrinks", &queue("mail", 1, "2d"))
        .step("it is replaced", async |user| {
            user.delete_key(&in_default::<Queue>("mail")).await?;
            user.apply_yaml(&queue("mail", 2, "3d")).await
        })
        .step("it is deleted", async |user| user.delete_key(&in_default::<Queue>("mail")).await)
}

#[test]
fn the_operator_has_no_finding() {
    find_nothing(simulation());
}
