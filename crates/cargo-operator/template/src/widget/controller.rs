//! The controller of Widgets: keeps a ConfigMap for each.

use controller_runtime::{
    Action, Builder, Cached, Context, Manager, ObjectKey, ReconcileError, Reconciler,
    manager::AddError, predicate::GenerationChanged, set_condition, set_controller_reference,
};
use k8s_openapi::{
    api::core::v1::ConfigMap,
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
};
use kube::ResourceExt;

use super::Widget;

/// Registers the controller: no requests are sent before the manager runs.
pub fn add_to(manager: &Manager) -> Result<(), AddError> {
    let reconciler = WidgetReconciler {
        widgets: manager.cached(),
    };
    Builder::managed_by(manager)
        .for_kind::<Widget>()
        .with_predicate(GenerationChanged) // not for our own changes of the status
        .owns::<ConfigMap>()
        .complete(reconciler)?;
    Ok(())
}

struct WidgetReconciler {
    widgets: Cached<Widget>,
}

impl Reconciler for WidgetReconciler {
    type Request = ObjectKey<Widget>;

    /// Runs after each change of the object or its children, and again after an error. It compares states, so it may run at any time.
    async fn reconcile(
        &self,
        key: &ObjectKey<Widget>,
        cx: &Context,
    ) -> Result<Action, ReconcileError> {
        let Some(widget) = self.widgets.get(key)? else {
            return Ok(Action::done()); // deleted: garbage collection deletes its ConfigMap
        };
        let mut config_map = ConfigMap::default();
        config_map.metadata.name = Some(format!("widget-{}", widget.name_any()));
        config_map.metadata.namespace = widget.namespace();
        config_map.data = Some([("greeting".to_owned(), widget.spec.greeting.clone())].into());
        set_controller_reference(&*widget, &mut config_map)?;
        cx.client().apply(&config_map).await?; // creates it, or changes the fields above

        let ready = Condition {
            type_: "Ready".to_owned(),
            status: "True".to_owned(),
            reason: "Applied".to_owned(),
            message: "the ConfigMap has the greeting".to_owned(),
            observed_generation: widget.metadata.generation,
            last_transition_time: Time(cx.wall_time()),
        };
        let mut status = widget.status.clone().unwrap_or_default();
        if set_condition(&mut status.conditions, ready) {
            cx.client().apply_status(key, &status).await?;
        }
        Ok(Action::done())
    }
}
