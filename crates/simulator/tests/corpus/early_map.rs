//! An event is mapped by looking up another kind, of which the cache may not know yet.

use k8s_openapi::api::core::v1::Secret;

use crate::task::*;

/// Tasks bind secrets: `text` names the secret that the child copies. The task `b` is the binding of the app `t`.
struct Apps {
    tasks: Cached<Task>,
    secrets: Cached<Secret>,
}

impl Reconciler for Apps {
    type Request = ObjectKey<ConfigMap>;

    async fn reconcile(&self, key: &ObjectKey<ConfigMap>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(binding) = self.tasks.get(&crate::task::key(key.name()))? else { return Ok(Action::done()) };
        let Some(secret) = self.secrets.get(&crate::task::key(&binding.spec.text))? else {
            return Ok(Action::done());
        };
        let data = secret.data.clone().unwrap_or_default();
        let content = data.get("key").map(|key| String::from_utf8_lossy(&key.0).into_owned());
        let mut child = map(key.name());
        child.data = Some([("content".to_owned(), content.unwrap_or_default())].into());
        cx.client().apply(&child).await?;
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let apps = Apps { tasks: manager.cached(), secrets: manager.cached() };
        let bindings: Cached<Task> = manager.cached();
        let by_secret = move |secret: &Secret| {
            let bound = bindings.list().unwrap_or_default();
            let bound = bound.into_iter().filter(|task| task.spec.text == secret.name_any());
            bound.map(|task| key::<ConfigMap>(&task.name_any())).collect::<Vec<_>>()
        };
        let by_binding = |task: &Task| Some(key::<ConfigMap>(&task.name_any()));
        let builder = Builder::managed_by(manager).for_requests::<ObjectKey<ConfigMap>>("apps");
        let builder = builder.watches(Kind::new(MapFn(by_secret)));
        match variant {
            Variant::Buggy => drop(builder.complete(apps)?),
            Variant::Twin => drop(builder.watches(Kind::new(MapFn(by_binding))).complete(apps)?),
        }
        Ok(())
    };
    Simulation::new("apps", add)
        .crd::<Task>()
        .task("a secret is bound", "{text: s}")
        .applies(
            "it is issued",
            "{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {key: one}}",
        )
        .applies("it changes", "{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {key: two}}")
}

#[test]
fn a_binding_that_is_seen_after_its_secret_is_found() {
    let finding = find(simulation(Variant::Buggy), Explore::staleness());
    assert!(matches!(finding.oracle(), Oracle::SameObjects | Oracle::SameCounts), "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin), Explore::all());
}
