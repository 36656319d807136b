//! The policy of a StatefulSet cannot change, so the operator deletes and creates it. A database without a StatefulSet
//! counts as new, and its volumes are initialised: after a crash between the two that is one with data.
//!
//! Expected: same remotes. Minimum plan: a crash after the StatefulSet is deleted, or the answer to the deletion is
//! lost.

use k8s_openapi::api::apps::v1::StatefulSet;

use crate::common::*;

const BOOTSTRAPPED: &str = "Bootstrapped";

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "further.dev", version = "v1", kind = "Galera", namespaced, status = "GaleraStatus")]
#[serde(default)]
struct GaleraSpec {
    policy: String,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[serde(default)]
struct GaleraStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<String>,
}

/// Rows in the volumes of a database, and those that were lost.
#[derive(Default, Serialize)]
struct Volumes {
    rows: u32,
    lost: u32,
}

struct FakeVolumes(Remote<Volumes>);

impl FakeVolumes {
    async fn bootstrap(&self, name: &str) -> Result<(), Lost> {
        let bootstrap = |volumes: &mut Volumes| {
            volumes.lost += volumes.rows;
            volumes.rows = 0;
        };
        self.0.effect("bootstrap", name, bootstrap).await
    }

    async fn insert(&self, name: &str) -> Result<(), Lost> {
        self.0.effect("insert rows", name, |volumes| volumes.rows = 3).await
    }
}

/// Uses each database that runs.
struct Clients {
    sets: Cached<StatefulSet>,
    volumes: FakeVolumes,
}

impl Reconciler for Clients {
    type Request = ObjectKey<StatefulSet>;

    async fn reconcile(&self, key: &ObjectKey<StatefulSet>, _: &Context) -> Result<Action, ReconcileError> {
        if self.sets.get(key)?.is_some() {
            self.volumes.insert(key.name()).await?;
        }
        Ok(Action::done())
    }
}

struct Galeras {
    volumes: FakeVolumes,
    variant: Variant,
}

fn set_of(galera: &Galera) -> Result<StatefulSet, ReconcileError> {
    let (name, labels) = (galera.name_any(), json!({"galera": galera.name_any()}));
    let mut set: StatefulSet = serde_json::from_value(json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": 3, "serviceName": name, "podManagementPolicy": galera.spec.policy,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels}, "spec": {"containers": [{"name": "db", "image": "mariadb"}]},
            },
        },
    }))?;
    set_controller_reference(galera, &mut set)?;
    Ok(set)
}

impl Reconciler for Galeras {
    type Request = ObjectKey<Galera>;

    async fn reconcile(&self, key: &ObjectKey<Galera>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(galera) = cx.client().get(key).await? else { return Ok(Action::done()) };
        let known = cx.client().get(&in_default::<StatefulSet>(key.name())).await?;
        let phase = galera.status.as_ref().and_then(|status| status.phase.as_deref());
        let is_new = match self.variant {
            Variant::Buggy => known.is_none(),
            Variant::Twin => phase != Some(BOOTSTRAPPED),
        };
        if is_new {
            self.volumes.bootstrap(key.name()).await?;
            let phase = Some(BOOTSTRAPPED.to_owned());
            cx.client().apply_status(key, &GaleraStatus { phase }).await?;
        }
        if let Some(known) = known {
            let policy = known.spec.as_ref().and_then(|spec| spec.pod_management_policy.as_ref());
            if policy != Some(&galera.spec.policy) {
                cx.client().delete(&known).await?;
            }
        }
        cx.client().apply(&set_of(&galera)?).await?;
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let galeras = Galeras { volumes: FakeVolumes(Remote::of_this_run()), variant };
        Builder::managed_by(manager).for_kind::<Galera>().owns::<StatefulSet>().complete(galeras)?;
        Ok(())
    };
    let clients = |manager: &Manager| -> Result<(), AddError> {
        let clients = Clients { sets: manager.cached(), volumes: FakeVolumes(Remote::of_this_run()) };
        Builder::managed_by(manager).for_kind::<StatefulSet>().named("clients").complete(clients)?;
        Ok(())
    };
    let head = "apiVersion: further.dev/v1, kind: Galera, metadata: {name: db}";
    let galera = |policy: &str| format!("{{{head}, spec: {{policy: {policy}}}}}");
    Simulation::new("galeras", add)
        .crd::<Galera>()
        .remote("volumes", Volumes::default)
        .actor("clients", clients)
        .applies("a database is created", &galera("OrderedReady"))
        .applies("its members shall start at once", &galera("Parallel"))
}

#[test]
fn a_database_that_is_initialised_again_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::SameRemotes, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
