//! No bug: a record in a remote zone. The finalizer comes before the record, and goes after it. Both calls of the zone may be
//! repeated.

use std::collections::BTreeMap;

use controller_runtime::{
    BoxError,
    finalizer::{Finalized, Finalizer, Finalizers},
};

use crate::common::*;

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "dns.example.com", version = "v1", kind = "Record", namespaced, status = "RecordStatus")]
#[serde(default)]
struct RecordSpec {
    address: String,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, JsonSchema)]
#[serde(default)]
struct RecordStatus {
    published: String,
}

#[derive(Default, Serialize)]
struct Zone {
    addresses: BTreeMap<String, String>,
}

struct FakeDns(Remote<Zone>);

impl FakeDns {
    async fn upsert(&self, name: &str, address: &str) -> Result<(), Lost> {
        let (owner, address) = (name.to_owned(), address.to_owned());
        let upsert = move |zone: &mut Zone| {
            zone.addresses.insert(owner, address);
        };
        self.0.effect("upsert record", name, upsert).await
    }

    /// Succeeds if there is no such record.
    async fn remove(&self, name: &str) -> Result<(), Lost> {
        let owner = name.to_owned();
        let remove = move |zone: &mut Zone| {
            zone.addresses.remove(&owner);
        };
        self.0.effect("remove record", name, remove).await
    }
}

/// Removes the record of an object that is being deleted.
struct Cleanup(FakeDns);

impl Finalizer<Record> for Cleanup {
    async fn finalize(&self, record: &Record) -> Result<(), ReconcileError> {
        self.0.remove(&record.name_any()).await?;
        Ok(())
    }
}

struct Records {
    records: Cached<Record>,
    finalizers: Finalizers<Record>,
    dns: FakeDns,
}

impl Reconciler for Records {
    type Request = ObjectKey<Record>;

    async fn reconcile(&self, key: &ObjectKey<Record>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(known) = self.records.get(key)? else { return Ok(Action::done()) };
        let Finalized::Live(record) = self.finalizers.finalize(cx.client(), &known).await? else {
            return Ok(Action::done());
        };
        self.dns.upsert(key.name(), &record.spec.address).await?;
        let status = RecordStatus { published: record.spec.address.clone() };
        if record.status.as_ref() != Some(&status) {
            cx.client().apply_status(key, &status).await?;
        }
        // Records that others changed are corrected.
        Ok(Action::requeue_after(Duration::from_secs(300)))
    }
}

fn record(address: &str) -> String {
    let head = "apiVersion: dns.example.com/v1, kind: Record, metadata: {name: www}";
    format!("{{{head}, spec: {{address: {address}}}}}")
}

pub(crate) fn simulation() -> Simulation {
    let add = |manager: &Manager| -> Result<(), BoxError> {
        let cleanup = Cleanup(FakeDns(Remote::of_this_run()));
        let records = Records {
            records: manager.cached(),
            finalizers: Finalizers::new().register("dns.example.com/record", cleanup)?,
            dns: FakeDns(Remote::of_this_run()),
        };
        Builder::managed_by(manager)
            .for_kind::<Record>()
            .with_finalizer("dns.example.com/record")
            .complete(records)?;
        Ok(())
    };
    Simulation::new("records", add)
        .crd::<Record>()
        .remote("dns", Zone::default)
        .applies("a record is created", &record("10.0.0.1"))
        .step("its address changes twice", async |user| {
            user.apply_yaml(&record("10.0.0.2")).await?;
            user.apply_yaml(&record("10.0.0.3")).await
        })
        // An apply to an object that is being deleted would be lost with it, so the user waits.
        .step("it is deleted, and the user waits until it is gone", async |user| {
            user.delete_key(&in_default::<Record>("www")).await?;
            match user.get(&in_default::<Record>("www")).await? {
                Some(_) => Err(BoxError::from("it is not gone yet")),
                None => Ok(()),
            }
        })
        .applies("it is created again", &record("10.0.0.4"))
        .step("it is deleted again", async |user| user.delete_key(&in_default::<Record>("www")).await)
}

#[test]
fn the_operator_has_no_finding() {
    find_nothing(simulation());
}
