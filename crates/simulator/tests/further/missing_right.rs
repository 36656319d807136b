//! The role of the operator lacks a verb that only the deletion of members needs.
//!
//! Expected: a request fails forever, in the run without faults. Minimum plan: none.

use crate::common::*;

struct Members {
    clusters: Cached<Cluster>,
    maps: Cached<ConfigMap>,
}

impl Reconciler for Members {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        let name = |index: i32| format!("{}-{index}", key.name());
        for index in 0..cluster.spec.size {
            let mut member = map("default", &name(index), "index", &index.to_string());
            set_controller_reference(&*cluster, &mut member)?;
            cx.client().apply(&member).await?;
        }
        for member in self.maps.owned_by(&*cluster)? {
            if (0..cluster.spec.size).all(|index| member.name_any() != name(index)) {
                cx.client().delete(&*member).await?;
            }
        }
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = |manager: &Manager| -> Result<(), AddError> {
        let members = Members { clusters: manager.cached(), maps: manager.cached() };
        Builder::managed_by(manager).for_kind::<Cluster>().complete(members)?;
        Ok(())
    };
    let verbs = match variant {
        Variant::Buggy => "[list, watch, create, patch]",
        Variant::Twin => "[list, watch, create, patch, delete]",
    };
    let rights = format!(
        "{{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {{name: members}}, rules: [
           {{apiGroups: [further.dev], resources: [clusters], verbs: [list, watch]}},
           {{apiGroups: [further.dev], resources: [clusters/finalizers], verbs: [update]}},
           {{apiGroups: [events.k8s.io], resources: [events], verbs: [create, patch]}},
           {{apiGroups: [''], resources: [configmaps], verbs: {verbs}}}]}}
---
{{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {{name: members}},
  roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: members}}}}"
    );
    Simulation::new("members", add)
        .crd::<Cluster>()
        .rights(&rights)
        .cluster("a cluster is created", "{size: 2}")
        .cluster("it shrinks", "{size: 1}")
}

#[test]
fn a_request_that_is_always_refused_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::Succeeds, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
