//! A generated certificate is stored in a Secret, and copied to a ConfigMap only by the reconcile that generates it.
//!
//! Expected: same objects. Minimum plan: a crash between the two writes of a rotation.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::ByteString;

use crate::common::*;

const GENERATION: &str = "further.dev/rotation";

struct Authorities {
    clusters: Cached<Cluster>,
    secrets: Cached<Secret>,
    maps: Cached<ConfigMap>,
    variant: Variant,
}

impl Reconciler for Authorities {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        let known = self.secrets.get(&in_default("db-ca"))?;
        let is_current =
            |secret: &Arc<Secret>| secret.annotations().get(GENERATION) == Some(&cluster.spec.version);
        let (secret, rotated) = match known.filter(is_current) {
            Some(secret) => ((*secret).clone(), false),
            None => {
                let mut secret = Secret::default();
                (secret.metadata.name, secret.metadata.namespace) =
                    (Some("db-ca".into()), key.namespace().map(Into::into));
                secret.metadata.annotations =
                    Some(BTreeMap::from([(GENERATION.to_owned(), cluster.spec.version.clone())]));
                let certificate = format!("-----BEGIN {:032x} END-----", fastrand::u128(..));
                secret.data =
                    Some(BTreeMap::from([("ca.crt".to_owned(), ByteString(certificate.into_bytes()))]));
                set_controller_reference(&*cluster, &mut secret)?;
                (cx.client().apply(&secret).await?, true)
            }
        };
        if rotated || self.variant == Variant::Twin || self.maps.get(&in_default("db-ca-bundle"))?.is_none() {
            let certificate = secret.data.unwrap_or_default().remove("ca.crt").unwrap_or_default();
            let certificate = String::from_utf8(certificate.0).map_err(ReconcileError::new)?;
            let mut bundle = map("default", "db-ca-bundle", "ca.crt", &certificate);
            set_controller_reference(&*cluster, &mut bundle)?;
            cx.client().apply(&bundle).await?;
        }
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let authorities = Authorities {
            clusters: manager.cached(),
            secrets: manager.cached(),
            maps: manager.cached(),
            variant,
        };
        Builder::managed_by(manager)
            .for_kind::<Cluster>()
            .owns::<Secret>()
            .owns::<ConfigMap>()
            .complete(authorities)?;
        Ok(())
    };
    Simulation::new("authorities", add)
        .crd::<Cluster>()
        .cluster("a cluster is created", "{version: '1'}")
        .cluster("its certificate is rotated", "{version: '2'}")
}

#[test]
fn a_copy_of_an_old_certificate_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::SameObjects, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
