//! A cloud takes minutes to create an instance, and finds it only when it is complete. When the object is deleted, an
//! instance that the cloud does not find counts as deleted, and the finalizer goes. One that is still being created
//! is complete later, and nothing names it any more. The corrected operator waits for the end of the creation.
//!
//! Expected: same remotes. Minimum plan: the user deletes the object while the instance is being created; or a crash
//! after the creation has begun, with the restart after the deletion.

use std::collections::BTreeMap;

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::common::*;

const FINALIZER: &str = "further.dev/instance";

/// Time that the cloud takes to create an instance.
const CREATION: SignedDuration = SignedDuration::from_secs(300);

/// Interval at which the operator looks whether a creation has ended.
const INTERVAL: Duration = Duration::from_secs(30);

#[derive(Serialize)]
struct Creation {
    size: i32,
    #[serde(skip)]
    end: Timestamp,
}

/// The sizes of instances by their names, and those instances that are being created.
#[derive(Default, Serialize)]
struct Cloud {
    instances: BTreeMap<String, i32>,
    creations: BTreeMap<String, Creation>,
}

impl Cloud {
    /// Completes the instances whose time has come.
    fn advance(&mut self, now: Timestamp) {
        let instances = &mut self.instances;
        self.creations.retain(|name, creation| {
            let is_running = now < creation.end;
            if !is_running {
                instances.insert(name.clone(), creation.size);
            }
            is_running
        });
    }
}

struct FakeCloud(Remote<Cloud>);

impl FakeCloud {
    /// Resizes the instance, or begins to create it. Returns whether it is complete.
    async fn ensure(&self, name: &str, size: i32, now: Timestamp) -> Result<bool, Lost> {
        let instance = name.to_owned();
        let ensure = move |cloud: &mut Cloud| {
            cloud.advance(now);
            if let Some(known) = cloud.instances.get_mut(&instance) {
                *known = size;
                return true;
            }
            cloud.creations.entry(instance).or_insert(Creation { size, end: now + CREATION });
            false
        };
        self.0.effect("create instance", name, ensure).await
    }

    async fn is_being_created(&self, name: &str, now: Timestamp) -> Result<bool, Lost> {
        let instance = name.to_owned();
        let look = move |cloud: &mut Cloud| {
            cloud.advance(now);
            cloud.creations.contains_key(&instance)
        };
        self.0.effect("look for a creation", name, look).await
    }

    /// Deletes the instance if it is complete.
    async fn delete(&self, name: &str, now: Timestamp) -> Result<(), Lost> {
        let instance = name.to_owned();
        let delete = move |cloud: &mut Cloud| {
            cloud.advance(now);
            cloud.instances.remove(&instance);
        };
        self.0.effect("delete instance", name, delete).await
    }
}

struct Instances {
    clusters: Cached<Cluster>,
    cloud: FakeCloud,
    variant: Variant,
}

impl Reconciler for Instances {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        let (name, now) = (key.name(), cx.wall_time());
        if cluster.is_terminating() {
            if !has_finalizer(&*cluster, FINALIZER) {
                return Ok(Action::done());
            }
            if self.variant == Variant::Twin && self.cloud.is_being_created(name, now).await? {
                return Ok(Action::requeue_after(INTERVAL));
            }
            // It is no error if there is none: the process before may have deleted it.
            self.cloud.delete(name, now).await?;
            cx.client().remove_finalizer(&*cluster, FINALIZER).await?;
            return Ok(Action::done());
        }
        cx.client().add_finalizer(&*cluster, FINALIZER).await?;
        let is_complete = self.cloud.ensure(name, cluster.spec.size, now).await?;
        let phase = if is_complete { "Ready" } else { "Creating" };
        if cluster.phase() != phase {
            let status = ClusterStatus { phase: Some(phase.to_owned()), ..ClusterStatus::default() };
            cx.client().apply_status(key, &status).await?;
        }
        Ok(if is_complete { Action::done() } else { Action::requeue_after(INTERVAL) })
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let cloud = FakeCloud(Remote::of_this_run());
        let instances = Instances { clusters: manager.cached(), cloud, variant };
        Builder::managed_by(manager).for_kind::<Cluster>().complete(instances)?;
        Ok(())
    };
    Simulation::new("instances", add)
        .crd::<Cluster>()
        .remote("cloud", Cloud::default)
        .cluster("an instance is asked for", "{size: 1}")
        .deletes_cluster("it is deleted")
}

#[test]
fn an_instance_that_is_complete_after_its_object_is_gone_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::SameRemotes, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
