//! A DNS record is created before the finalizer that stands for its removal.
//!
//! Expected: same remotes. Minimum plan: the user deletes the object before the finalizer is written.

use std::collections::BTreeMap;

use crate::common::*;

const FINALIZER: &str = "further.dev/dns";

#[derive(Default, Serialize)]
struct Zone {
    records: BTreeMap<String, String>,
}

struct FakeDns(Remote<Zone>);

impl FakeDns {
    async fn upsert(&self, name: &str, address: &str) -> Result<(), Lost> {
        let (owner, address) = (name.to_owned(), address.to_owned());
        self.0.effect("upsert record", name, move |zone| drop(zone.records.insert(owner, address))).await
    }

    async fn remove(&self, name: &str) -> Result<(), Lost> {
        let owner = name.to_owned();
        self.0.effect("remove record", name, move |zone| drop(zone.records.remove(&owner))).await
    }
}

struct Records {
    clusters: Cached<Cluster>,
    dns: FakeDns,
    variant: Variant,
}

impl Reconciler for Records {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        if cluster.is_terminating() {
            if has_finalizer(&*cluster, FINALIZER) {
                self.dns.remove(key.name()).await?;
                cx.client().remove_finalizer(&*cluster, FINALIZER).await?;
            }
            return Ok(Action::done());
        }
        match self.variant {
            Variant::Buggy => {
                self.dns.upsert(key.name(), &cluster.spec.version).await?;
                cx.client().add_finalizer(&*cluster, FINALIZER).await?;
            }
            Variant::Twin => {
                cx.client().add_finalizer(&*cluster, FINALIZER).await?;
                self.dns.upsert(key.name(), &cluster.spec.version).await?;
            }
        }
        // Records that others changed are corrected.
        Ok(Action::requeue_after(Duration::from_secs(300)))
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let records = Records { clusters: manager.cached(), dns: FakeDns(Remote::of_this_run()), variant };
        Builder::managed_by(manager).for_kind::<Cluster>().complete(records)?;
        Ok(())
    };
    Simulation::new("records", add)
        .crd::<Cluster>()
        .remote("dns", Zone::default)
        .cluster("a record is asked for", "{version: 10.0.0.1}")
        .cluster("its address changes", "{version: 10.0.0.2}")
        .deletes_cluster("it is deleted")
}

/// A user. It deletes each object as soon as the operator has created it.
fn short_lived(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let records = Records { clusters: manager.cached(), dns: FakeDns(Remote::of_this_run()), variant };
        Builder::managed_by(manager).for_kind::<Cluster>().complete(records)?;
        Ok(())
    };
    Simulation::new("short-lived-records", add)
        .crd::<Cluster>()
        .remote("dns", Zone::default)
        .cluster("a record is asked for", "{version: 10.0.0.1}")
        .deletes_cluster("it is deleted")
}

#[test]
fn a_record_without_a_finalizer_is_found() {
    let finding = find(short_lived(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::SameRemotes, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(short_lived(Variant::Twin));
    find_nothing(simulation(Variant::Twin));
}
