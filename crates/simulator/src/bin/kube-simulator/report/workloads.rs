//! Operators and users of known sizes.

use std::time::Duration;

use controller_runtime::{
    Action, Builder, Cached, Context, Manager, ObjectKey, ReconcileError, Reconciler, manager::AddError,
    predicate::GenerationChanged,
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube_simulator::{Simulation, User};
use serde_json::json;

/// Copies each ConfigMap into Secrets.
struct Copies {
    maps: Cached<ConfigMap>,
    /// Number of Secrets for each.
    parts: usize,
}

impl Reconciler for Copies {
    type Request = ObjectKey<ConfigMap>;

    async fn reconcile(&self, key: &ObjectKey<ConfigMap>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(map) = self.maps.get(key)? else { return Ok(Action::done()) };
        for part in 0..self.parts {
            let mut copy = Secret::default();
            copy.metadata.namespace = map.metadata.namespace.clone();
            copy.metadata.name = Some(format!("{}-{part}", key.name()));
            copy.string_data = map.data.clone();
            cx.client().apply(&copy).await?;
        }
        Ok(Action::done())
    }
}

fn copies(parts: usize) -> Simulation {
    Simulation::new("copies", move |manager: &Manager| -> Result<(), AddError> {
        let copies = Copies { maps: manager.cached(), parts };
        Builder::managed_by(manager).for_kind::<ConfigMap>().complete(copies)?;
        Ok(())
    })
}

async fn create(user: &User, number: usize, text: usize) -> Result<(), controller_runtime::ClientError> {
    let mut map = ConfigMap::default();
    (map.metadata.name, map.metadata.namespace) = (Some(format!("map-{number}")), Some("default".to_owned()));
    map.data = Some([("text".to_owned(), text.to_string())].into());
    user.apply(&map).await.map(drop)
}

async fn create_all(user: &User, number: usize) -> Result<(), controller_runtime::ClientError> {
    for number in 0..number {
        create(user, number, 0).await?;
    }
    Ok(())
}

/// An operator that has nothing to do.
pub(crate) fn nothing() -> Simulation {
    copies(0)
}

/// Creation of `objects` by a user. Each object is reconciled once, with one write.
pub(crate) fn one_write_each(objects: usize) -> Simulation {
    copies(1).step("all are created", async move |user| create_all(&user, objects).await)
}

/// Counts in each ConfigMap, once a second: each reconcile reads the cache and writes once, until the count is reached.
struct Counting {
    maps: Cached<ConfigMap>,
    until: u32,
}

impl Reconciler for Counting {
    type Request = ObjectKey<ConfigMap>;

    async fn reconcile(&self, key: &ObjectKey<ConfigMap>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(map) = self.maps.get(key)? else { return Ok(Action::done()) };
        let count =
            map.data.as_ref().and_then(|data| data.get("text")?.parse::<u32>().ok()).unwrap_or_default();
        if count < self.until {
            cx.client().merge_patch(key, &json!({ "data": { "text": (count + 1).to_string() } })).await?;
            return Ok(Action::requeue_after(Duration::from_secs(1)));
        }
        Ok(Action::done())
    }
}

/// Creation of `objects` by a user, and an operator that writes each of them `writes` times.
pub(crate) fn writes_to_each(objects: usize, writes: u32) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let counting = Counting { maps: manager.cached(), until: writes };
        // ConfigMaps have no generation, so that no write leads to a reconcile.
        Builder::managed_by(manager)
            .for_kind::<ConfigMap>()
            .with_predicate(GenerationChanged)
            .complete(counting)?;
        Ok(())
    };
    Simulation::new("counting", add)
        .step("all are created", async move |user| create_all(&user, objects).await)
}

/// Changes of ten objects by a user in each of `steps`. Each change is reconciled once, with seven writes.
pub(crate) fn many_writes(steps: usize) -> Simulation {
    (0..steps).fold(copies(7), |simulation, step| {
        simulation.step(format!("change {step}"), async move |user| {
            for number in 0..10 {
                create(&user, number, step).await?;
            }
            Ok::<_, controller_runtime::ClientError>(())
        })
    })
}

/// An operator with this many objects, and a day in which nothing happens.
pub(crate) fn idle_day(objects: usize) -> Simulation {
    one_write_each(objects).step("a day passes", async |_| {
        tokio::time::sleep(Duration::from_secs(86_400)).await;
        Ok::<_, std::convert::Infallible>(())
    })
}

/// Creates a Secret with a generated name for each ConfigMap, and notes the name: a crash between the two doubles it.
struct Doubling(Cached<ConfigMap>);

impl Reconciler for Doubling {
    type Request = ObjectKey<ConfigMap>;

    async fn reconcile(&self, key: &ObjectKey<ConfigMap>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(map) = self.0.get(key)? else { return Ok(Action::done()) };
        if map.metadata.annotations.is_none() {
            let mut secret = Secret::default();
            secret.metadata.namespace = map.metadata.namespace.clone();
            secret.metadata.generate_name = Some(format!("{}-", key.name()));
            let secret = cx.client().create(&secret).await?;
            let annotations = json!({ "secret": secret.metadata.name });
            cx.client().merge_patch(key, &json!({ "metadata": { "annotations": annotations } })).await?;
        }
        Ok(Action::done())
    }
}

/// A plan of [`doubling`] that violates a rule, so that its trace can be read.
pub(crate) const PLAN: &str = "crash after create secrets default/map-3-* #1";

/// An operator with the bug of [`PLAN`].
pub(crate) fn doubling() -> Simulation {
    let add = |manager: &Manager| -> Result<(), AddError> {
        Builder::managed_by(manager).for_kind::<ConfigMap>().complete(Doubling(manager.cached()))?;
        Ok(())
    };
    Simulation::new("doubling", add).step("eight are created", async |user| {
        for number in 0..8 {
            create(&user, number, 0).await?;
        }
        Ok::<_, controller_runtime::ClientError>(())
    })
}
