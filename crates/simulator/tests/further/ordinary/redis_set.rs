//! No bug: a StatefulSet is created if it is missing, and patched if it differs. The patch holds only for the version that was
//! read. The status comes from the status of the StatefulSet.

use controller_runtime::client::Patch;
use k8s_openapi::api::apps::v1::StatefulSet;

use crate::common::*;

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "db.example.com", version = "v1", kind = "Redis", namespaced, status = "RedisStatus")]
#[serde(default)]
struct RedisSpec {
    replicas: i32,
    image: String,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
struct RedisStatus {
    ready_replicas: i32,
    phase: String,
}

struct Redises {
    redises: Cached<Redis>,
    sets: Cached<StatefulSet>,
}

fn stateful_set(redis: &Redis) -> Result<StatefulSet, ReconcileError> {
    let labels = json!({"redis": redis.name_any()});
    let mut set: StatefulSet = serde_json::from_value(json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"name": redis.name_any(), "namespace": redis.namespace()},
        "spec": {
            "replicas": redis.spec.replicas, "serviceName": redis.name_any(), "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "terminationGracePeriodSeconds": 5,
                    "containers": [{"name": "redis", "image": redis.spec.image}],
                },
            },
        },
    }))?;
    set_controller_reference(redis, &mut set)?;
    Ok(set)
}

impl Reconciler for Redises {
    type Request = ObjectKey<Redis>;

    async fn reconcile(&self, key: &ObjectKey<Redis>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(redis) = self.redises.get(key)? else { return Ok(Action::done()) };
        let set_key = in_default::<StatefulSet>(key.name());
        let Some(set) = self.sets.get(&set_key)? else {
            cx.client().create(&stateful_set(&redis)?).await?;
            return Ok(Action::done()); // goes on when the StatefulSet changes
        };
        let mut changed = StatefulSet::clone(&set);
        if let Some(spec) = &mut changed.spec {
            spec.replicas = Some(redis.spec.replicas);
            if let Some(pod) = &mut spec.template.spec {
                pod.containers[0].image = Some(redis.spec.image.clone());
            }
        }
        let patch = Patch::between(&*set, &changed);
        if !patch.is_empty() {
            cx.client().patch(&set_key, patch).await?;
        }
        let reported = set.status.clone().unwrap_or_default();
        let ready = reported.ready_replicas.unwrap_or_default();
        let is_current = reported.observed_generation == set.metadata.generation;
        let phase = if is_current && ready == redis.spec.replicas { "Ready" } else { "Scaling" };
        let status = RedisStatus { ready_replicas: ready, phase: phase.to_owned() };
        if redis.status.as_ref() != Some(&status) {
            cx.client().apply_status(key, &status).await?;
        }
        Ok(Action::done())
    }
}

fn redis(replicas: i32, image: &str) -> String {
    let head = "apiVersion: db.example.com/v1, kind: Redis, metadata: {name: sessions}";
    format!("{{{head}, spec: {{replicas: {replicas}, image: '{image}'}}}}")
}

pub(crate) fn simulation() -> Simulation {
    let add = |manager: &Manager| -> Result<(), AddError> {
        let redises = Redises { redises: manager.cached(), sets: manager.cached() };
        Builder::managed_by(manager).for_kind::<Redis>().owns::<StatefulSet>().complete(redises)?;
        Ok(())
    };
    Simulation::new("redises", add)
        .crd::<Redis>()
        .actor("statefulsets", actors::statefulsets)
        .actor("kubelet", actors::kubelet)
        .applies("a Redis is created", &redis(2, "redis:7"))
        .step("it is scaled twice", async |user| {
            user.apply_yaml(&redis(1, "redis:7")).await?;
            user.apply_yaml(&redis(3, "redis:7")).await
        })
        .applies("it shrinks and gets a new image", &redis(1, "redis:8"))
        .step("its StatefulSet is deleted", async |user| {
            user.delete_key(&in_default::<StatefulSet>("sessions")).await
        })
        .step("it is replaced", async |user| {
            user.delete_key(&in_default::<Redis>("sessions")).await?;
            user.apply_yaml(&redis(2, "redis:8")).await
        })
        .step("it is deleted", async |user| user.delete_key(&in_default::<Redis>("sessions")).await)
}

#[test]
fn the_operator_has_no_finding() {
    find_nothing(simulation());
}
