//! A condition is written when it differs from the one that this process wrote last, and a new process assumes that all is well. So a
//! condition that the process before has set is never cleared.
//!
//! Expected: same objects. Minimum plan: a crash after the condition is set, with the restart after the cause has gone.

use std::collections::BTreeMap;

use controller_runtime::{conditions_schema, set_condition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::common::*;

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "further.dev", version = "v1", kind = "Store", namespaced, status = "StoreStatus")]
#[serde(default)]
struct StoreSpec {
    secret: String,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
struct StoreStatus {
    #[serde(default)]
    #[schemars(schema_with = "conditions_schema")]
    conditions: Vec<Condition>,
}

struct Stores {
    stores: Cached<Store>,
    secrets: Cached<Secret>,
    /// Whether this process has reported a store as degraded last.
    reported: Mutex<BTreeMap<String, bool>>,
    variant: Variant,
}

impl Reconciler for Stores {
    type Request = ObjectKey<Store>;

    async fn reconcile(&self, key: &ObjectKey<Store>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(store) = self.stores.get(key)? else { return Ok(Action::done()) };
        let secret = &store.spec.secret;
        let is_degraded = self.secrets.get(&in_default::<Secret>(secret))?.is_none();
        if !is_degraded {
            cx.client().apply(&map("default", "vault-agent", "secret", secret)).await?;
        }
        let (value, reason) = if is_degraded { ("True", "SecretNotFound") } else { ("False", "SecretFound") };
        let condition = Condition {
            type_: "Degraded".to_owned(),
            status: value.to_owned(),
            reason: reason.to_owned(),
            message: format!("the store reads the Secret {secret}"),
            observed_generation: store.metadata.generation,
            last_transition_time: Time(cx.wall_time()),
        };
        let mut status = store.status.clone().unwrap_or_default();
        let differs = set_condition(&mut status.conditions, condition);
        let reported = self.reported.lock().get(key.name()).copied().unwrap_or_default();
        let must_report = match self.variant {
            Variant::Buggy => store.status.is_none() || is_degraded != reported,
            Variant::Twin => differs,
        };
        if must_report {
            cx.client().apply_status(key, &status).await?;
            self.reported.lock().insert(key.name().to_owned(), is_degraded);
        }
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let stores = Stores {
            stores: manager.cached(),
            secrets: manager.cached(),
            reported: Mutex::default(),
            variant,
        };
        let to_store =
            |secret: &Secret| (secret.name_any() == "vault-token").then(|| in_default::<Store>("vault"));
        Builder::managed_by(manager)
            .for_kind::<Store>()
            .watches(Kind::new(MapFn(to_store)))
            .complete(stores)?;
        Ok(())
    };
    Simulation::new("stores", add)
        .crd::<Store>()
        .applies(
            "a store is created without its Secret",
            "{apiVersion: further.dev/v1, kind: Store, metadata: {name: vault}, spec: {secret: vault-token}}",
        )
        .applies(
            "the Secret is created",
            "{apiVersion: v1, kind: Secret, metadata: {name: vault-token}, stringData: {token: abc}}",
        )
}

#[test]
fn the_bug_is_found() {
    find(simulation(Variant::Buggy));
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
