//! No bug: a Memcached has a Deployment, which is created if it is not found, as in the tutorial of kubebuilder. A Deployment
//! that exists already counts as created, because the reconcile comes back after a minute in both cases. Two replicas.

use k8s_openapi::api::apps::v1::Deployment;

use crate::common::*;

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(
    group = "cache.example.com",
    version = "v1alpha1",
    kind = "Memcached",
    namespaced,
    status = "MemcachedStatus"
)]
#[serde(default)]
struct MemcachedSpec {
    size: i32,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
struct MemcachedStatus {
    ready_replicas: i32,
}

struct Memcacheds {
    memcacheds: Cached<Memcached>,
    deployments: Cached<Deployment>,
}

fn deployment(memcached: &Memcached) -> Result<Deployment, ReconcileError> {
    let labels = json!({"app": "memcached", "instance": memcached.name_any()});
    let mut deployment: Deployment = serde_json::from_value(json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": memcached.name_any(), "namespace": memcached.namespace()},
        "spec": {"replicas": memcached.spec.size, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "memcached", "image": "memcached:1.6"}]},
        }},
    }))?;
    set_controller_reference(memcached, &mut deployment)?;
    Ok(deployment)
}

impl Reconciler for Memcacheds {
    type Request = ObjectKey<Memcached>;

    async fn reconcile(&self, key: &ObjectKey<Memcached>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(memcached) = self.memcacheds.get(key)? else { return Ok(Action::done()) };
        let Some(found) = self.deployments.get(&in_default(key.name()))? else {
            // It may exist already if the cache is late.
            cx.client().create(&deployment(&memcached)?).await.ignore_already_exists()?;
            return Ok(Action::requeue_after(Duration::from_secs(60)));
        };
        let size = memcached.spec.size;
        if found.spec.as_ref().and_then(|spec| spec.replicas) != Some(size) {
            let mut changed = Deployment::clone(&found);
            changed.spec.get_or_insert_default().replicas = Some(size);
            cx.client().update(&changed).await?;
        }
        let ready = found.status.as_ref().and_then(|status| status.ready_replicas);
        let status = MemcachedStatus { ready_replicas: ready.unwrap_or_default() };
        if memcached.status.as_ref() != Some(&status) {
            cx.client().apply_status(key, &status).await?;
        }
        Ok(Action::done())
    }
}

fn memcached(size: i32) -> String {
    let head = "apiVersion: cache.example.com/v1alpha1, kind: Memcached, metadata: {name: cache}";
    format!("{{{head}, spec: {{size: {size}}}}}")
}

pub(crate) fn simulation() -> Simulation {
    let add = |manager: &Manager| -> Result<(), AddError> {
        let memcacheds = Memcacheds { memcacheds: manager.cached(), deployments: manager.cached() };
        Builder::managed_by(manager).for_kind::<Memcached>().owns::<Deployment>().complete(memcacheds)?;
        Ok(())
    };
    Simulation::new("memcacheds", add)
        .crd::<Memcached>()
        .replicas(2)
        .actor("deployments", actors::deployments)
        .applies("a Memcached is created", &memcached(1))
        .step("its size changes twice", async |user| {
            user.apply_yaml(&memcached(3)).await?;
            user.apply_yaml(&memcached(2)).await
        })
        .step("its Deployment is deleted", async |user| {
            user.delete_key(&in_default::<Deployment>("cache")).await
        })
        .step("it is replaced", async |user| {
            user.delete_key(&in_default::<Memcached>("cache")).await?;
            user.apply_yaml(&memcached(1)).await
        })
        .step("it is deleted", async |user| user.delete_key(&in_default::<Memcached>("cache")).await)
}

#[test]
fn the_operator_has_no_finding() {
    find_nothing(simulation());
}
