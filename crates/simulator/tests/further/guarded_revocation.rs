//! A listener serves a certificate of another namespace, from a copy, as long as a grant of that namespace allows
//! it. If the certificate does not exist, the operator returns early, so that an accident does not end all
//! connections. It does so before it looks at the grant: if both go, it must see the grant go first, or the copy
//! stays forever.
//!
//! Expected: same objects. Minimum plan: the event of the grant is held back until the certificate is deleted as
//! well.

use crate::common::*;

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "further.dev", version = "v1", kind = "Listener", namespaced)]
#[serde(default, rename_all = "camelCase")]
struct ListenerSpec {
    port: i32,
    /// Namespace and name of the certificate.
    from_namespace: String,
    certificate: String,
}

/// Allows the use of the Secrets of its namespace in another one.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "further.dev", version = "v1", kind = "Grant", namespaced)]
#[serde(default)]
struct GrantSpec {
    to: String,
}

struct Listeners {
    listeners: Cached<Listener>,
    grants: Cached<Grant>,
    secrets: Cached<Secret>,
    variant: Variant,
}

impl Listeners {
    /// Whether the namespace of the certificate lets the listener use it.
    fn is_granted(&self, key: &ObjectKey<Listener>, listener: &Listener) -> Result<bool, ReconcileError> {
        let grants = self.grants.select().namespace(&*listener.spec.from_namespace).list()?;
        Ok(grants.iter().any(|grant| Some(&*grant.spec.to) == key.namespace()))
    }
}

impl Reconciler for Listeners {
    type Request = ObjectKey<Listener>;

    async fn reconcile(&self, key: &ObjectKey<Listener>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(listener) = self.listeners.get(key)? else { return Ok(Action::done()) };
        let own = key.namespace().unwrap_or_default();
        let copy_key = ObjectKey::<Secret>::new(own, format!("{}-certificate", key.name()));
        let is_granted = self.is_granted(key, &listener)?;
        if self.variant == Variant::Twin && !is_granted {
            cx.client().delete_key(&copy_key).await?;
            return Ok(Action::done());
        }
        let ListenerSpec { from_namespace, certificate, .. } = &listener.spec;
        let certificate = ObjectKey::<Secret>::new(from_namespace, certificate.as_str());
        let Some(certificate) = self.secrets.get(&certificate)? else {
            // It does not exist yet, or was deleted by accident: connections continue with the copy.
            return Ok(Action::done());
        };
        if !is_granted {
            cx.client().delete_key(&copy_key).await?;
            return Ok(Action::done());
        }
        let mut copy = Secret { data: certificate.data.clone(), ..Secret::default() };
        copy.metadata.namespace = Some(own.to_owned());
        copy.metadata.name = Some(copy_key.name().to_owned());
        set_controller_reference(&*listener, &mut copy)?;
        cx.client().apply(&copy).await?;
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let listeners = Listeners {
            listeners: manager.cached(),
            grants: manager.cached(),
            secrets: manager.cached(),
            variant,
        };
        let listener = || ObjectKey::<Listener>::new("edge", "public");
        let of_grant = move |_: &Grant| Some(listener());
        let of_secret = move |secret: &Secret| (secret.name_any() == "site").then(listener);
        Builder::managed_by(manager)
            .for_kind::<Listener>()
            .watches(Kind::new(MapFn(of_grant)))
            .watches(Kind::new(MapFn(of_secret)))
            .complete(listeners)?;
        Ok(())
    };
    let certificate = |data: &str| {
        let head = "apiVersion: v1, kind: Secret, metadata: {name: site, namespace: web}";
        format!("{{{head}, stringData: {{tls.crt: {data}}}}}")
    };
    let namespaces = "{apiVersion: v1, kind: Namespace, metadata: {name: web}}\n---\n\
                      {apiVersion: v1, kind: Namespace, metadata: {name: edge}}";
    let grant =
        "{apiVersion: further.dev/v1, kind: Grant, metadata: {name: edge, namespace: web}, spec: {to: edge}}";
    let listener = "{apiVersion: further.dev/v1, kind: Listener, metadata: {name: public, namespace: edge}, \
                    spec: {port: 443, fromNamespace: web, certificate: site}}";
    Simulation::new("listeners", add)
        .crd::<Listener>()
        .crd::<Grant>()
        .applies("there are two namespaces", namespaces)
        .applies("there is a certificate", &format!("{}\n---\n{grant}", certificate("one")))
        .applies("a listener uses it", listener)
        .applies("it is renewed", &certificate("two"))
        .step("the grant is withdrawn", async |user| {
            user.delete_key(&ObjectKey::<Grant>::new("web", "edge")).await
        })
        .step("the certificate is deleted", async |user| {
            user.delete_key(&ObjectKey::<Secret>::new("web", "site")).await
        })
}

#[test]
fn a_copy_that_outlives_its_grant_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::SameObjects, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
