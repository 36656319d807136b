//! A cluster-scoped object has a child in each of its namespaces. Namespaces that come later lead to no reconcile: only a restart
//! creates their children.
//!
//! Expected: same objects. Minimum plan: a crash while nothing happens.

use k8s_openapi::api::core::v1::Namespace;

use crate::common::*;

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "further.dev", version = "v1", kind = "Tenant")]
#[serde(default)]
struct TenantSpec {
    contact: String,
}

struct Tenants {
    tenants: Cached<Tenant>,
    namespaces: Cached<Namespace>,
}

impl Reconciler for Tenants {
    type Request = ObjectKey<Tenant>;

    async fn reconcile(&self, key: &ObjectKey<Tenant>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(tenant) = self.tenants.get(key)? else { return Ok(Action::done()) };
        for namespace in self.namespaces.list()? {
            let is_own = namespace.labels().get("tenant").is_some_and(|tenant| tenant == key.name());
            if is_own && namespace.metadata.deletion_timestamp.is_none() {
                let mut contact = map(&namespace.name_any(), "contact", "mail", &tenant.spec.contact);
                set_controller_reference(&*tenant, &mut contact)?;
                cx.client().apply(&contact).await?;
            }
        }
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let tenants = Tenants { tenants: manager.cached(), namespaces: manager.cached() };
        let mut builder = Builder::managed_by(manager).for_kind::<Tenant>().owns::<ConfigMap>();
        if variant == Variant::Twin {
            let tenant = |namespace: &Namespace| {
                Some(ObjectKey::<Tenant>::new((), namespace.labels().get("tenant")?.as_str()))
            };
            builder = builder.watches(Kind::new(MapFn(tenant)));
        }
        builder.complete(tenants)?;
        Ok(())
    };
    let namespace = |name: &str| {
        format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}, labels: {{tenant: acme}}}}}}")
    };
    Simulation::new("tenants", add)
        .crd::<Tenant>()
        .applies("there is a namespace", &namespace("red"))
        .applies(
            "a tenant is created",
            "{apiVersion: further.dev/v1, kind: Tenant, metadata: {name: acme}, spec: {contact: a@acme}}",
        )
        .applies("there is another namespace", &namespace("blue"))
}

#[test]
fn a_namespace_that_is_served_after_a_restart_only_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::SameObjects, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
