//! A change of a Secret leads to the reconcile of the exporters that use it. The operator remembers who uses
//! which Secret when it renders a configuration. After a restart the configurations exist, nothing is
//! rendered, and nothing is remembered: the next change of the Secret leads to no reconcile. The corrected
//! operator remembers the use first.
//!
//! Expected: same objects. Minimum plan: a crash while nothing happens, before the Secret changes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::common::*;

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "further.dev", version = "v1", kind = "Exporter", namespaced)]
#[serde(default)]
struct ExporterSpec {
    /// Name of a Secret.
    credentials: String,
}

/// Exporters by the names of the Secrets that they use.
#[derive(Clone, Default)]
struct Uses(Arc<Mutex<BTreeMap<String, BTreeSet<ObjectKey<Exporter>>>>>);

impl Uses {
    fn add(&self, secret: &str, exporter: &ObjectKey<Exporter>) {
        self.0.lock().entry(secret.to_owned()).or_default().insert(exporter.clone());
    }

    fn of(&self, secret: &str) -> BTreeSet<ObjectKey<Exporter>> {
        self.0.lock().get(secret).cloned().unwrap_or_default()
    }
}

struct Exporters {
    exporters: Cached<Exporter>,
    secrets: Cached<Secret>,
    maps: Cached<ConfigMap>,
    uses: Uses,
    variant: Variant,
}

fn user_of(secret: &Secret) -> Option<String> {
    String::from_utf8(secret.data.as_ref()?.get("user")?.0.clone()).ok()
}

impl Reconciler for Exporters {
    type Request = ObjectKey<Exporter>;

    async fn reconcile(&self, key: &ObjectKey<Exporter>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(exporter) = self.exporters.get(key)? else { return Ok(Action::done()) };
        let secret_name = &exporter.spec.credentials;
        if self.variant == Variant::Twin {
            // Before the Secret is read, so that no later change is missed.
            self.uses.add(secret_name, key);
        }
        let secret = self.secrets.get(&in_default::<Secret>(secret_name))?;
        let Some(user) = secret.and_then(|secret| user_of(&secret)) else {
            return Err(ReconcileError::new("there are no credentials"));
        };
        let name = format!("{}-config", key.name());
        let known = self.maps.get(&in_default::<ConfigMap>(&name))?;
        let is_current = known.is_some_and(|known| {
            known.data.as_ref().and_then(|data| data.get("user")).is_some_and(|known| *known == user)
        });
        if is_current {
            return Ok(Action::done());
        }
        self.uses.add(secret_name, key);
        let mut config = map("default", &name, "user", &user);
        set_controller_reference(&*exporter, &mut config)?;
        cx.client().apply(&config).await?;
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let uses = Uses::default();
        let exporters = Exporters {
            exporters: manager.cached(),
            secrets: manager.cached(),
            maps: manager.cached(),
            uses: uses.clone(),
            variant,
        };
        let users = move |secret: &Secret| uses.of(&secret.name_any());
        Builder::managed_by(manager)
            .for_kind::<Exporter>()
            .owns::<ConfigMap>()
            .watches(Kind::new(MapFn(users)))
            .complete(exporters)?;
        Ok(())
    };
    let credentials = |user: &str| {
        format!(
            "{{apiVersion: v1, kind: Secret, metadata: {{name: monitoring}}, stringData: {{user: {user}}}}}"
        )
    };
    Simulation::new("exporters", add)
        .crd::<Exporter>()
        .applies("there are credentials", &credentials("ann"))
        .applies(
            "an exporter uses them",
            "{apiVersion: further.dev/v1, kind: Exporter, metadata: {name: metrics}, \
             spec: {credentials: monitoring}}",
        )
        .applies("they change", &credentials("bob"))
}

#[test]
fn a_use_that_is_not_remembered_after_a_restart_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::SameObjects, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
