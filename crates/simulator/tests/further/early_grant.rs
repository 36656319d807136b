//! One controller declares virtual hosts at a broker, and another one grants users access to them. A host whose kind of
//! queues changes is replaced by a new one, without users. The second controller grants access for each generation of the host,
//! whether or not it is declared yet.
//!
//! Expected: same remotes. Minimum plan: the declaration is refused or delayed, so that the grant for the new
//! generation goes to the old host.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::*;

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "further.dev", version = "v1", kind = "Vhost", status = "VhostStatus")]
#[serde(default)]
struct VhostSpec {
    queues: String,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[serde(default)]
struct VhostStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    declared: Option<i64>,
}

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "further.dev", version = "v1", kind = "Permission", namespaced, status = "PermissionStatus")]
#[serde(default)]
struct PermissionSpec {
    vhost: String,
    user: String,
}

/// The generation of the virtual host for which access is granted.
#[derive(Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[serde(default)]
struct PermissionStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    granted: Option<i64>,
}

#[derive(Serialize)]
struct Host {
    queues: String,
    users: BTreeSet<String>,
}

#[derive(Default, Serialize)]
struct Broker {
    hosts: BTreeMap<String, Host>,
}

struct FakeBroker(Remote<Broker>);

impl FakeBroker {
    /// Declares a virtual host. One with other queues is deleted before, with its users.
    async fn declare(&self, vhost: &str, queues: &str) -> Result<(), Lost> {
        let (name, queues) = (vhost.to_owned(), queues.to_owned());
        let declare = move |broker: &mut Broker| {
            if broker.hosts.get(&name).is_none_or(|host| host.queues != queues) {
                broker.hosts.insert(name, Host { queues, users: BTreeSet::new() });
            }
        };
        self.0.effect("declare", vhost, declare).await
    }

    /// Returns whether the virtual host exists.
    async fn grant(&self, vhost: &str, user: &str) -> Result<bool, Lost> {
        let (name, owner) = (vhost.to_owned(), user.to_owned());
        let grant = move |broker: &mut Broker| {
            let Some(host) = broker.hosts.get_mut(&name) else { return false };
            host.users.insert(owner);
            true
        };
        self.0.effect("grant", user, grant).await
    }
}

struct Vhosts {
    broker: FakeBroker,
}

impl Reconciler for Vhosts {
    type Request = ObjectKey<Vhost>;

    async fn reconcile(&self, key: &ObjectKey<Vhost>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(vhost) = cx.client().get(key).await? else { return Ok(Action::done()) };
        self.broker.declare(key.name(), &vhost.spec.queues).await?;
        cx.client().apply_status(key, &VhostStatus { declared: vhost.metadata.generation }).await?;
        Ok(Action::done())
    }
}

struct Permissions {
    permissions: Cached<Permission>,
    broker: FakeBroker,
    variant: Variant,
}

impl Reconciler for Permissions {
    type Request = ObjectKey<Permission>;

    async fn reconcile(&self, key: &ObjectKey<Permission>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(permission) = self.permissions.get(key)? else { return Ok(Action::done()) };
        let PermissionSpec { vhost, user } = &permission.spec;
        let Some(host) = cx.client().get(&ObjectKey::<Vhost>::new((), vhost.as_str())).await? else {
            return Ok(Action::done());
        };
        let generation = host.metadata.generation;
        let is_declared = host.status.is_some_and(|status| status.declared == generation);
        if !is_declared && self.variant == Variant::Twin {
            return Ok(Action::done());
        }
        if permission.status.as_ref().is_some_and(|status| status.granted == generation) {
            return Ok(Action::done());
        }
        let namespace = key.namespace().unwrap_or_default();
        let credentials = ObjectKey::<Secret>::new(namespace, user.as_str());
        if cx.client().get(&credentials).await?.is_none() {
            return Err(ReconcileError::new("the user has no credentials"));
        }
        if !self.broker.grant(vhost, user).await? {
            return Err(ReconcileError::new("the virtual host does not exist"));
        }
        cx.client().apply_status(key, &PermissionStatus { granted: generation }).await?;
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let broker = || FakeBroker(Remote::of_this_run());
        Builder::managed_by(manager).for_kind::<Vhost>().complete(Vhosts { broker: broker() })?;
        let permissions = Permissions { permissions: manager.cached(), broker: broker(), variant };
        let to_permission = |vhost: &Vhost| {
            (vhost.name_any() == "orders").then(|| ObjectKey::<Permission>::new("red", "shop"))
        };
        Builder::managed_by(manager)
            .for_kind::<Permission>()
            .watches(Kind::new(MapFn(to_permission)))
            .complete(permissions)?;
        Ok(())
    };
    let head = "apiVersion: further.dev/v1, kind: Vhost, metadata: {name: orders}";
    let vhost = |queues: &str| format!("{{{head}, spec: {{queues: {queues}}}}}");
    let user = "{apiVersion: v1, kind: Namespace, metadata: {name: red}}\n---\n\
                {apiVersion: v1, kind: Secret, metadata: {name: shop, namespace: red}}\n---\n\
                {apiVersion: further.dev/v1, kind: Permission, metadata: {name: shop, namespace: red}, \
                 spec: {vhost: orders, user: shop}}";
    Simulation::new("brokers", add)
        .crd::<Vhost>()
        .crd::<Permission>()
        .remote("broker", Broker::default)
        .applies("a virtual host is asked for", &vhost("classic"))
        .applies("a user shall have access", user)
        .applies("other queues are asked for", &vhost("quorum"))
}

#[test]
fn a_grant_for_a_host_that_is_replaced_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::SameRemotes, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
