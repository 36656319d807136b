//! A cache that contains only labelled namespaces: an operator that was down when the label was removed never learns of it.
//!
//! Expected: same objects. Minimum plan: a crash while nothing happens, with the restart after the removal.

use controller_runtime::cache::LabelSelector;
use k8s_openapi::api::core::v1::{Namespace, ResourceQuota};

use crate::common::*;

struct Quotas {
    namespaces: Cached<Namespace>,
    variant: Variant,
}

impl Reconciler for Quotas {
    type Request = ObjectKey<Namespace>;

    async fn reconcile(&self, key: &ObjectKey<Namespace>, cx: &Context) -> Result<Action, ReconcileError> {
        let namespace = self.namespaces.get(key)?;
        let size = namespace.as_ref().and_then(|namespace| namespace.labels().get("quota").cloned());
        let Some(size) = size else {
            cx.client().delete_key(&ObjectKey::<ResourceQuota>::new(key.name(), "quota")).await?;
            return Ok(Action::done());
        };
        let quota = json!({
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "quota", "namespace": key.name()},
            "spec": {"hard": {"pods": size}},
        });
        let mut quota: ResourceQuota = serde_json::from_value(quota)?;
        if let (Some(namespace), Variant::Twin) = (&namespace, self.variant) {
            set_controller_reference(&**namespace, &mut quota)?;
        }
        cx.client().apply(&quota).await?;
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let quotas = Quotas { namespaces: manager.cached(), variant };
        let builder = Builder::managed_by(manager).for_kind::<Namespace>();
        match variant {
            Variant::Buggy => {
                let labelled: LabelSelector = "quota".parse().expect("a selector");
                builder.with_predicate(labelled).complete(quotas)?;
            }
            Variant::Twin => drop(builder.owns::<ResourceQuota>().complete(quotas)?),
        }
        Ok(())
    };
    Simulation::new("quotas", add)
        .applies(
            "a team is limited",
            "{apiVersion: v1, kind: Namespace, metadata: {name: red, labels: {quota: '5'}}}",
        )
        .step("its limit is lifted", async |user| {
            let lifted = json!({"metadata": {"labels": {"quota": null}}});
            user.merge_patch(&ObjectKey::<Namespace>::new((), "red"), &lifted).await
        })
}

#[test]
fn a_label_that_was_removed_meanwhile_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::SameObjects, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
