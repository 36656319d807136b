//! The user's notes are owned by an object that is deleted and created again. The garbage collector may be faster than the operator.

use k8s_openapi::api::apps::v1::Deployment;

use crate::task::*;

struct Apps {
    tasks: Cached<Task>,
    variant: Variant,
}

impl Reconciler for Apps {
    type Request = ObjectKey<Task>;

    async fn reconcile(&self, key: &ObjectKey<Task>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(task) = self.tasks.get(key)? else { return Ok(Action::done()) };
        let labels = json!({"app": task.spec.text});
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": key.name(), "namespace": "default"},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}},
            },
        });
        let mut deployment: Deployment = serde_json::from_value(deployment)?;
        set_controller_reference(&*task, &mut deployment)?;
        let known = cx.client().get(&crate::task::key::<Deployment>(key.name())).await?;
        let selector = |deployment: &Deployment| deployment.spec.as_ref().map(|spec| spec.selector.clone());
        if let Some(known) = &known
            && selector(known) != selector(&deployment)
        {
            cx.client().delete(known).await?;
        }
        let deployment = cx.client().apply(&deployment).await?;
        let mut notes = map(&format!("{}-notes", key.name()));
        match self.variant {
            Variant::Buggy => set_controller_reference(&deployment, &mut notes)?,
            Variant::Twin => set_controller_reference(&*task, &mut notes)?,
        }
        cx.client().apply(&notes).await?;
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let apps = Apps { tasks: manager.cached(), variant };
        Builder::managed_by(manager).for_kind::<Task>().complete(apps)?;
        Ok(())
    };
    Simulation::new("apps", add)
        .crd::<Task>()
        .task("an app is asked for", "{text: one}")
        .step("notes are written", async |user| {
            user.merge_patch(&key::<ConfigMap>("t-notes"), &json!({"data": {"notes": "remember"}})).await
        })
        .task("its selector changes", "{text: two}")
}

#[test]
fn a_fast_garbage_collector_is_found() {
    let finding = find(simulation(Variant::Buggy), Explore::order());
    assert!(matches!(finding.oracle(), Oracle::SameObjects | Oracle::SameCounts), "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin), Explore::all());
}
