//! No bugs: operators of the shapes that most operators have. They look neither at the deletion of an object nor at conflicts, because a later
//! reconcile and the garbage collector set right what an old view has done.

mod address_pool;
mod backup_runs;
mod dns_record;
mod mailer_conditions;
mod memcached;
mod migration_job;
mod nginx_site;
mod pull_secret;
mod queue_shards;
mod redis_set;
mod report_page;
mod shop_kinds;
mod weather_poll;
mod web_app;

use k8s_openapi::api::apps::v1::Deployment;

use crate::common::*;

/// Applies a Deployment, and copies its state.
struct Deployments {
    clusters: Cached<Cluster>,
    deployments: Cached<Deployment>,
}

impl Reconciler for Deployments {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        let labels = json!({"cluster": key.name()});
        let mut deployment: Deployment = serde_json::from_value(json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": key.name(), "namespace": "default"},
            "spec": {"replicas": cluster.spec.size, "selector": {"matchLabels": labels}, "template": {
                "metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": cluster.spec.version}]},
            }},
        }))?;
        set_controller_reference(&*cluster, &mut deployment)?;
        cx.client().apply(&deployment).await?;
        let known = self.deployments.get(&in_default(key.name()))?;
        let replicas = known.and_then(|known| known.status.as_ref()?.ready_replicas);
        let status =
            ClusterStatus { replicas: Some(replicas.unwrap_or_default()), ..ClusterStatus::default() };
        cx.client().apply_status(key, &status).await?;
        Ok(Action::done())
    }
}

fn deployments() -> Simulation {
    let add = |manager: &Manager| -> Result<(), AddError> {
        let deployments = Deployments { clusters: manager.cached(), deployments: manager.cached() };
        Builder::managed_by(manager).for_kind::<Cluster>().owns::<Deployment>().complete(deployments)?;
        Ok(())
    };
    Simulation::new("deployments", add)
        .crd::<Cluster>()
        .actor("deployments", actors::deployments)
        .cluster("a cluster is created", "{size: 1, version: one}")
        .cluster("it grows", "{size: 2, version: two}")
        .deletes_cluster("it is deleted")
}

/// Creates a child that is missing, and leaves one that exists as it is.
struct Passwords;

impl Reconciler for Passwords {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = cx.client().get(key).await? else { return Ok(Action::done()) };
        let name = format!("{}-password", key.name());
        if cx.client().get(&in_default::<Secret>(&name)).await?.is_none() {
            let mut secret = Secret::default();
            (secret.metadata.name, secret.metadata.namespace) = (Some(name), Some("default".to_owned()));
            let password = std::iter::repeat_with(fastrand::alphanumeric).take(16).collect();
            secret.string_data = Some([("password".to_owned(), password)].into());
            set_controller_reference(&cluster, &mut secret)?;
            cx.client().create(&secret).await?;
        }
        let status = ClusterStatus { phase: Some("Ready".to_owned()), ..ClusterStatus::default() };
        cx.client().apply_status(key, &status).await?;
        Ok(Action::done())
    }
}

fn passwords() -> Simulation {
    let add = |manager: &Manager| -> Result<(), AddError> {
        Builder::managed_by(manager).for_kind::<Cluster>().owns::<Secret>().complete(Passwords)?;
        Ok(())
    };
    Simulation::new("passwords", add)
        .crd::<Cluster>()
        .cluster("a cluster is created", "{size: 1}")
        .deletes_cluster("it is deleted")
        .cluster("it is created again", "{size: 2}")
}

/// One child for each member, of which those that are not wanted are deleted.
struct Members {
    clusters: Cached<Cluster>,
    maps: Cached<ConfigMap>,
}

impl Reconciler for Members {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        let names: Vec<String> =
            (0..cluster.spec.size).map(|member| format!("{}-{member}", key.name())).collect();
        for name in &names {
            let mut child = map("default", name, "version", &cluster.spec.version);
            set_controller_reference(&*cluster, &mut child)?;
            cx.client().apply(&child).await?;
        }
        for child in self.maps.list()? {
            let is_own =
                child.owner_references().iter().any(|owner| Some(&owner.uid) == cluster.uid().as_ref());
            if is_own && !names.contains(&child.name_any()) {
                cx.client().delete(&*child).await.optional()?;
            }
        }
        Ok(Action::done())
    }
}

fn members() -> Simulation {
    let add = |manager: &Manager| -> Result<(), AddError> {
        let members = Members { clusters: manager.cached(), maps: manager.cached() };
        Builder::managed_by(manager).for_kind::<Cluster>().owns::<ConfigMap>().complete(members)?;
        Ok(())
    };
    Simulation::new("members", add)
        .crd::<Cluster>()
        .cluster("a cluster is created", "{size: 2, version: one}")
        .cluster("it shrinks", "{size: 1, version: two}")
        .cluster("it grows again", "{size: 2, version: two}")
        .deletes_cluster("it is deleted")
}

#[test]
fn deployments_with_their_state_have_no_finding() {
    find_nothing(deployments());
}

#[test]
fn children_that_are_created_once_have_no_finding() {
    find_nothing(passwords());
}

#[test]
fn one_child_for_each_member_has_no_finding() {
    find_nothing(members());
}

/// Makes a simulation.
type Make = fn() -> Simulation;

/// Plans that once had a finding, one for each cause: with a slower user as many objects are created, with a faster one as few; events that are
/// held back for a standby arrive when it leads; children of an owner that is gone do not count.
const ONCE_FOUND: [(Make, &str); 4] = [
    (mailer_conditions::simulation, "pause for 11 seconds before apply configmaps default/news-config #10"),
    (pull_secret::simulation, "pause for 61 seconds before delete secrets blue/registry #1"),
    (
        memcached::simulation,
        "hold until it leads, from memcacheds.cache.example.com DELETED default/cache to operator-2 #1\n\
         crash at rest after step #5",
    ),
    (
        redis_set::simulation,
        "skip until the next step is done and list again, from redises.db.example.com MODIFIED default/sessions #13",
    ),
];

#[test]
fn plans_that_once_had_a_finding_have_none() {
    for (simulation, plan) in ONCE_FOUND {
        let finding = simulation().replay(plan).expect("a plan");
        assert!(finding.is_none(), "{}", finding.expect("a finding"));
    }
}
