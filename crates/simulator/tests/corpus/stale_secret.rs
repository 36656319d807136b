//! A rotated Secret is announced in another object. Whether its content has arrived by then is left to chance.

use controller_runtime::{
    Action, Builder, Cached, Context, Kind, Manager, MapFn, ObjectKey, ReconcileError, Reconciler,
    manager::AddError, set_controller_reference,
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{CustomResource, ResourceExt};
use kube_simulator::{Explore, Oracle, Simulation};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Variant, find, find_nothing};

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(
    group = "corpus.dev",
    version = "v1",
    kind = "Tls",
    plural = "tlses",
    namespaced,
    status = "TlsStatus"
)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TlsSpec {
    secret_generation: i64,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
pub(crate) struct TlsStatus {
    rotated: Option<i64>,
}

struct Rotation {
    objects: Cached<Tls>,
    secrets: Cached<Secret>,
    variant: Variant,
}

impl Reconciler for Rotation {
    type Request = ObjectKey<Tls>;

    async fn reconcile(&self, key: &ObjectKey<Tls>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(tls) = self.objects.get(key)? else { return Ok(Action::done()) };
        let rotated = tls.status.as_ref().and_then(|status| status.rotated);
        let is_rotated = rotated == Some(tls.spec.secret_generation);
        if self.variant == Variant::Buggy && is_rotated {
            return Ok(Action::done());
        }
        let secret = self.secrets.get(&ObjectKey::new("default", key.name()))?;
        let data = secret.as_ref().and_then(|secret| secret.data.clone()).unwrap_or_default();
        let content =
            data.get("key").map(|key| String::from_utf8_lossy(&key.0).into_owned()).unwrap_or_default();
        let mut child = ConfigMap::default();
        child.metadata.namespace = tls.namespace();
        child.metadata.name = Some(tls.name_any());
        child.data = Some([("checksum".to_owned(), content)].into());
        set_controller_reference(&*tls, &mut child)?;
        cx.client().apply(&child).await?;
        if !is_rotated {
            let status = TlsStatus { rotated: Some(tls.spec.secret_generation) };
            cx.client().apply_status(key, &status).await?;
        }
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let rotation = Rotation { objects: manager.cached(), secrets: manager.cached(), variant };
        let builder = Builder::managed_by(manager).for_kind::<Tls>();
        match variant {
            Variant::Buggy => drop(builder.complete(rotation)?),
            Variant::Twin => {
                let to_tls = |secret: &Secret| vec![ObjectKey::<Tls>::new("default", secret.name_any())];
                drop(builder.watches(Kind::new(MapFn(to_tls))).complete(rotation)?);
            }
        }
        Ok(())
    };
    let both = |content: &str, generation: i64| {
        format!(
            "{{apiVersion: v1, kind: Secret, metadata: {{name: site}}, stringData: {{key: {content}}}}}\n---\n\
             {{apiVersion: corpus.dev/v1, kind: Tls, metadata: {{name: site}}, spec: {{secretGeneration: {generation}}}}}"
        )
    };
    let (first, second) = (both("one", 1), both("two", 2));
    Simulation::new("rotation", add)
        .crd::<Tls>()
        .step("a secret is issued", async move |user| user.apply_yaml(&first).await)
        .step("it is rotated", async move |user| user.apply_yaml(&second).await)
}

#[test]
fn the_announcement_before_the_secret_is_found() {
    let finding = find(simulation(Variant::Buggy), Explore::staleness());
    assert_eq!(finding.oracle(), Oracle::SameObjects);
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin), Explore::all());
}
