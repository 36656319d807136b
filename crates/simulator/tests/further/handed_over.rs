//! The operator applies a Deployment without a number of replicas as soon as an autoscaler exists. If the autoscaler has not set the number
//! yet, the field has no other owner: the API server removes it, and the default of one replica applies.
//!
//! Expected: the check. Minimum plan: a crash after the autoscaler is created.

use k8s_openapi::api::{apps::v1::Deployment, autoscaling::v2::HorizontalPodAutoscaler};
use kube_simulator::Now;

use crate::common::*;

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "further.dev", version = "v1", kind = "Web", namespaced)]
#[serde(default)]
struct WebSpec {
    image: String,
    replicas: i32,
    autoscale: bool,
}

/// Sets the replicas of Deployments 15 seconds after the creation of their autoscalers, which is when Kubernetes looks at them next.
struct Autoscaler {
    autoscalers: Cached<HorizontalPodAutoscaler>,
    deployments: Cached<Deployment>,
}

impl Reconciler for Autoscaler {
    type Request = ObjectKey<HorizontalPodAutoscaler>;

    async fn reconcile(&self, key: &Self::Request, cx: &Context) -> Result<Action, ReconcileError> {
        let deployment_key = in_default::<Deployment>(key.name());
        let (Some(autoscaler), Some(deployment)) =
            (self.autoscalers.get(key)?, self.deployments.get(&deployment_key)?)
        else {
            return Ok(Action::done());
        };
        let created = autoscaler.metadata.creation_timestamp.as_ref().expect("a stored object").0;
        let age = cx.wall_time().as_second() - created.as_second();
        if age < 15 {
            return Ok(Action::requeue_after(Duration::from_secs((15 - age).unsigned_abs())));
        }
        let least = autoscaler.spec.min_replicas;
        if deployment.spec.as_ref().and_then(|spec| spec.replicas) < least {
            let scale = json!({"spec": {"replicas": least}});
            cx.client().merge_patch(&deployment_key, &scale).await.optional()?;
        }
        Ok(Action::done())
    }
}

struct Webs {
    webs: Cached<Web>,
    autoscalers: Cached<HorizontalPodAutoscaler>,
    variant: Variant,
}

fn deployment(web: &Web, replicas: Option<i32>) -> Result<Deployment, ReconcileError> {
    let labels = json!({"app": web.name_any()});
    let mut deployment: Deployment = serde_json::from_value(json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": web.name_any(), "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "web", "image": web.spec.image}]},
        }},
    }))?;
    set_controller_reference(web, &mut deployment)?;
    Ok(deployment)
}

fn autoscaler(web: &Web) -> Result<HorizontalPodAutoscaler, ReconcileError> {
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": web.name_any()});
    let mut autoscaler: HorizontalPodAutoscaler = serde_json::from_value(json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": web.name_any(), "namespace": "default"},
        "spec": {"scaleTargetRef": target, "minReplicas": 5, "maxReplicas": 10},
    }))?;
    set_controller_reference(web, &mut autoscaler)?;
    Ok(autoscaler)
}

impl Reconciler for Webs {
    type Request = ObjectKey<Web>;

    async fn reconcile(&self, key: &ObjectKey<Web>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(web) = self.webs.get(key)? else { return Ok(Action::done()) };
        let is_scaled = self.autoscalers.get(&in_default(key.name()))?.is_some();
        if web.spec.autoscale {
            cx.client().apply(&autoscaler(&web)?).await?;
        }
        // An autoscaler sets the number of replicas.
        let replicas = (self.variant == Variant::Buggy && !is_scaled).then_some(web.spec.replicas);
        cx.client().apply(&deployment(&web, replicas)?).await?;
        if self.variant == Variant::Twin && !web.spec.autoscale {
            // Never applied, so that there is nothing that would be left out later.
            let scale = json!({"spec": {"replicas": web.spec.replicas}});
            cx.client().merge_patch(&in_default::<Deployment>(key.name()), &scale).await?;
        }
        Ok(Action::done())
    }
}

/// Whether the Deployment has as many replicas as the user asked for.
fn has_three_replicas(now: &Now<'_>) -> bool {
    let replicas = |deployment: &Deployment| deployment.spec.as_ref().and_then(|spec| spec.replicas);
    now.all::<Deployment>().iter().any(|deployment| replicas(deployment) >= Some(3))
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let webs = Webs { webs: manager.cached(), autoscalers: manager.cached(), variant };
        Builder::managed_by(manager).for_kind::<Web>().owns::<Deployment>().complete(webs)?;
        Ok(())
    };
    let autoscaler = |manager: &Manager| -> Result<(), AddError> {
        let autoscaler = Autoscaler { autoscalers: manager.cached(), deployments: manager.cached() };
        let of_same_name =
            |deployment: &Deployment| Some(in_default::<HorizontalPodAutoscaler>(&deployment.name_any()));
        Builder::managed_by(manager)
            .for_kind::<HorizontalPodAutoscaler>()
            .named("autoscaler")
            .watches(Kind::new(MapFn(of_same_name)))
            .complete(autoscaler)?;
        Ok(())
    };
    let web = |spec: &str| {
        format!("{{apiVersion: further.dev/v1, kind: Web, metadata: {{name: shop}}, spec: {spec}}}")
    };
    Simulation::new("webs", add)
        .crd::<Web>()
        .actor("autoscaler", autoscaler)
        .applies("a web is created", &web("{image: 'shop:1', replicas: 3}"))
        .applies("it is to be scaled", &web("{image: 'shop:1', replicas: 3, autoscale: true}"))
        .applies("its image changes", &web("{image: 'shop:2', replicas: 3, autoscale: true}"))
        .lasting("there are three replicas", has_three_replicas)
}

#[test]
fn the_bug_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::Check, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
