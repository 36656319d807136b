//! A cluster comes with three add-ons. The operator creates them once, and notes that in the status: from then on they
//! belong to the user, who may also delete them. If the note is missing, it creates them again, and also the one that
//! the user has deleted meanwhile. In the corrected version an add-on has a finalizer until the note is written: one
//! that the user has deleted before still has its name, and is not created again.
//!
//! Expected: same objects or counts. Minimum plan: a crash after the add-on is created, with the restart after the user
//! has deleted it.

use controller_runtime::BoxError;
use k8s_openapi::api::apps::v1::Deployment;

use crate::common::*;

/// Finalizer of add-ons that are not noted yet.
const NEW: &str = "further.dev/new";
const ADD_ONS: [&str; 3] = ["dashboard", "shell", "exporter"];

struct AddOns {
    variant: Variant,
}

impl AddOns {
    fn deployment(&self, name: &str) -> Result<Deployment, ReconcileError> {
        let labels = json!({"add-on": name});
        let mut deployment: Deployment = serde_json::from_value(json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
            "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": {
                "metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": name}]},
            }},
        }))?;
        if self.variant == Variant::Twin {
            deployment.metadata.finalizers = Some(vec![NEW.to_owned()]);
        }
        Ok(deployment)
    }
}

impl Reconciler for AddOns {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = cx.client().get(key).await? else { return Ok(Action::done()) };
        if cluster.phase() != "Complete" {
            for name in ADD_ONS {
                // One that exists is from an earlier attempt, and may already be the user's.
                cx.client().create(&self.deployment(name)?).await.ignore_already_exists()?;
            }
            let status = ClusterStatus { phase: Some("Complete".to_owned()), ..ClusterStatus::default() };
            cx.client().apply_status(key, &status).await?;
        }
        if self.variant == Variant::Twin {
            // Also if the process before has ended before it came to this.
            for name in ADD_ONS {
                if let Some(known) = cx.client().get(&in_default::<Deployment>(name)).await? {
                    cx.client().remove_finalizer(&known, NEW).await?;
                }
            }
        }
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        Builder::managed_by(manager).for_kind::<Cluster>().complete(AddOns { variant })?;
        Ok(())
    };
    Simulation::new("add-ons", add)
        .crd::<Cluster>()
        .cluster("a cluster is created", "{size: 1}")
        .step("the user does not want the shell", async |user| {
            let shell = user.get(&in_default::<Deployment>("shell")).await?;
            let shell = shell.ok_or("the shell does not exist yet")?;
            user.delete(&shell).any_version().await?;
            Ok::<_, BoxError>(())
        })
        .cluster("the cluster grows", "{size: 2}")
}

#[test]
fn an_add_on_that_comes_back_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert!(matches!(finding.oracle(), Oracle::SameObjects | Oracle::SameCounts), "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
