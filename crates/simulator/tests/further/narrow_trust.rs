//! An authority that issues certificates is replaced. Clients must trust the old one until the server has a certificate of the new one. The
//! operator takes the old one from the object that it then overwrites: repeated, it finds the new one there, and clients lose the old one
//! too early.
//!
//! Expected: the check. Minimum plan: a crash after the second change of the authority, or its answer is lost.

use std::collections::BTreeSet;

use kube_simulator::Now;

use crate::common::*;

struct Certificates {
    clusters: Cached<Cluster>,
    variant: Variant,
}

/// Names of authorities in the entry of a ConfigMap, which the API server has.
async fn authorities(name: &str, field: &str, cx: &Context) -> Result<BTreeSet<String>, ReconcileError> {
    let found = cx.client().get(&in_default::<ConfigMap>(name)).await?;
    let text = found.and_then(|found| found.data?.remove(field)).unwrap_or_default();
    Ok(text.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect())
}

impl Reconciler for Certificates {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        let version = &cluster.spec.version;
        if cluster.status().version.as_ref() == Some(version) {
            return Ok(Action::done());
        }
        let wanted = format!("ca-{version}");
        let mut trusted = match self.variant {
            Variant::Buggy => authorities("authority", "name", cx).await?,
            // Nothing loses trust before the server has its new certificate.
            Variant::Twin => authorities("trust-bundle", "trusted", cx).await?,
        };
        trusted.insert(wanted.clone());
        let trusted = trusted.into_iter().collect::<Vec<_>>().join(",");
        cx.client().apply(&map("default", "authority", "name", &wanted)).await?;
        cx.client().apply(&map("default", "trust-bundle", "trusted", &trusted)).await?;
        cx.client().apply(&map("default", "server-certificate", "issuer", &wanted)).await?;
        // The old authority has no certificates in use any more.
        cx.client().apply(&map("default", "trust-bundle", "trusted", &wanted)).await?;
        let status = ClusterStatus { version: Some(version.clone()), ..ClusterStatus::default() };
        cx.client().apply_status(key, &status).await?;
        Ok(Action::done())
    }
}

fn entry<'m>(maps: &'m [ConfigMap], name: &str, field: &str) -> Option<&'m str> {
    let found = maps.iter().find(|found| found.name_any() == name)?;
    found.data.as_ref()?.get(field).map(String::as_str)
}

/// Whether clients trust the issuer of the certificate that the server has.
fn certificate_is_trusted(now: &Now<'_>) -> bool {
    let maps = now.all::<ConfigMap>();
    let Some(issuer) = entry(&maps, "server-certificate", "issuer") else { return true };
    let trusted = entry(&maps, "trust-bundle", "trusted").unwrap_or_default();
    trusted.split(',').any(|known| known == issuer)
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let certificates = Certificates { clusters: manager.cached(), variant };
        Builder::managed_by(manager).for_kind::<Cluster>().complete(certificates)?;
        Ok(())
    };
    Simulation::new("certificates", add)
        .crd::<Cluster>()
        .cluster("a cluster is created", "{version: '1'}")
        .cluster("its authority is replaced", "{version: '2'}")
        .always("clients trust the certificate of the server", certificate_is_trusted)
}

#[test]
fn the_bug_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::Check, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
