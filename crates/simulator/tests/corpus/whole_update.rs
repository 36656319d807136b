//! An object is replaced by one from a template, without the annotation that a load balancer wrote.

use k8s_openapi::api::core::v1::Service;
use kube::api::PostParams;

use crate::task::*;

struct Webs {
    tasks: Cached<Task>,
    services: Cached<Service>,
    variant: Variant,
}

impl Webs {
    fn service(task: &Task) -> Result<Service, ReconcileError> {
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": task.name_any(), "namespace": "default"},
            "spec": {"clusterIP": "None", "ports": [{"port": task.spec.size}], "selector": {"app": "web"}},
        });
        let mut service: Service = serde_json::from_value(service)?;
        set_controller_reference(task, &mut service)?;
        Ok(service)
    }
}

impl Reconciler for Webs {
    type Request = ObjectKey<Task>;

    async fn reconcile(&self, key: &ObjectKey<Task>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(task) = self.tasks.get(key)? else { return Ok(Action::done()) };
        if self.variant == Variant::Twin {
            cx.client().apply(&Self::service(&task)?).await?;
            return Ok(Action::done());
        }
        let mut service = Self::service(&task)?;
        let api = Api::<Service>::namespaced(cx.client().kube().clone(), "default");
        match self.services.get(&crate::task::key(key.name()))? {
            None => drop(api.create(&PostParams::default(), &service).await?),
            Some(known) => {
                service.metadata.uid.clone_from(&known.metadata.uid);
                service.metadata.resource_version.clone_from(&known.metadata.resource_version);
                api.replace(key.name(), &PostParams::default(), &service).await?;
            }
        }
        Ok(Action::done())
    }
}

struct Balancer(Cached<Service>);

impl Reconciler for Balancer {
    type Request = ObjectKey<Service>;

    async fn reconcile(&self, key: &ObjectKey<Service>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(service) = self.0.get(key)? else { return Ok(Action::done()) };
        if service.metadata.generation.is_none()
            && service.annotations().is_empty()
            && service.name_any() == "t"
        {
            let address = json!({"metadata": {"annotations": {"lb/address": "10.0.0.1"}}});
            cx.client().merge_patch(key, &address).await.optional()?;
        }
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let webs = Webs { tasks: manager.cached(), services: manager.cached(), variant };
        Builder::managed_by(manager).for_kind::<Task>().complete(webs)?;
        Ok(())
    };
    let balancer = |manager: &Manager| -> Result<(), AddError> {
        let balancer = Balancer(manager.cached());
        Builder::managed_by(manager).for_kind::<Service>().named("balancer").complete(balancer)?;
        Ok(())
    };
    Simulation::new("webs", add)
        .crd::<Task>()
        .actor("balancer", balancer)
        .task("a web is asked for", "{size: 80}")
        .task("its port changes", "{size: 81}")
}

#[test]
fn a_lost_annotation_is_found_without_faults() {
    let finding = find(simulation(Variant::Buggy), Explore::crashes());
    assert_eq!(finding.oracle(), Oracle::Trespass);
    assert!(finding.to_string().contains("lb/address"), "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin), Explore::all());
}
