//! One controller creates DNS zones, and another one puts records into the closest zone that exists. It
//! remembers the zone of each host. If it looks before the zone of the host is created, it finds the one
//! above, and remembers that no closer one exists: the record stays where no client asks for it, until the
//! process ends. The corrected operator looks each time, and moves the record when the zone is there.
//!
//! Expected: same remotes. Minimum plan: the record is asked for before the zone is created at the provider.

use std::collections::BTreeMap;

use crate::common::*;

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "further.dev", version = "v1", kind = "Zone", namespaced, status = "ZoneStatus")]
#[serde(default)]
struct ZoneSpec {
    contact: String,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[serde(default)]
struct ZoneStatus {
    created: bool,
}

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "further.dev", version = "v1", kind = "Record", namespaced)]
#[serde(default)]
struct RecordSpec {
    host: String,
    address: String,
}

/// Addresses by zone and host.
#[derive(Serialize)]
struct Dns {
    zones: BTreeMap<String, BTreeMap<String, String>>,
}

struct FakeDns(Remote<Dns>);

impl FakeDns {
    async fn create_zone(&self, zone: &str) -> Result<(), Lost> {
        let name = zone.to_owned();
        let create = move |dns: &mut Dns| {
            dns.zones.entry(name).or_default();
        };
        self.0.effect("create zone", zone, create).await
    }

    /// Finds the closest zone of a host.
    async fn closest_zone(&self, host: &str) -> Result<Option<String>, Lost> {
        let name = host.to_owned();
        let find = move |dns: &mut Dns| {
            let zones = dns.zones.keys().filter(|zone| name.ends_with(&format!(".{zone}")));
            zones.max_by_key(|zone| zone.len()).cloned()
        };
        self.0.effect("find zone", host, find).await
    }

    /// Puts a record into a zone. The provider keeps each host in one zone only.
    async fn put(&self, zone: String, host: &str, address: &str) -> Result<(), Lost> {
        let (name, address) = (host.to_owned(), address.to_owned());
        let put = move |dns: &mut Dns| {
            dns.zones.values_mut().for_each(|records| drop(records.remove(&name)));
            if let Some(records) = dns.zones.get_mut(&zone) {
                records.insert(name, address);
            }
        };
        self.0.effect("put record", host, put).await
    }
}

struct Zones {
    dns: FakeDns,
}

impl Reconciler for Zones {
    type Request = ObjectKey<Zone>;

    async fn reconcile(&self, key: &ObjectKey<Zone>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(zone) = cx.client().get(key).await? else { return Ok(Action::done()) };
        if zone.status.is_none_or(|status| !status.created) {
            self.dns.create_zone(key.name()).await?;
            cx.client().apply_status(key, &ZoneStatus { created: true }).await?;
        }
        Ok(Action::done())
    }
}

struct Records {
    dns: FakeDns,
    /// Zones by host.
    known: Mutex<BTreeMap<String, String>>,
    variant: Variant,
}

impl Records {
    async fn zone_of(&self, host: &str) -> Result<String, ReconcileError> {
        let known = self.known.lock().get(host).cloned();
        if let (Some(zone), Variant::Buggy) = (known, self.variant) {
            return Ok(zone);
        }
        let zone = self.dns.closest_zone(host).await?;
        let zone = zone.ok_or_else(|| ReconcileError::new(format!("there is no zone for {host}")))?;
        self.known.lock().insert(host.to_owned(), zone.clone());
        Ok(zone)
    }
}

impl Reconciler for Records {
    type Request = ObjectKey<Record>;

    async fn reconcile(&self, key: &ObjectKey<Record>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(record) = cx.client().get(key).await? else { return Ok(Action::done()) };
        let RecordSpec { host, address } = &record.spec;
        let zone = self.zone_of(host).await?;
        self.dns.put(zone, host, address).await?;
        Ok(Action::done())
    }
}

/// The zone above, which others have created.
fn one_zone() -> Dns {
    Dns { zones: [("example.org".to_owned(), BTreeMap::new())].into() }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let zones = Zones { dns: FakeDns(Remote::of_this_run()) };
        Builder::managed_by(manager).for_kind::<Zone>().complete(zones)?;
        let dns = FakeDns(Remote::of_this_run());
        let records = Records { dns, known: Mutex::default(), variant };
        // A zone that is created may be closer.
        let of_zone = |_: &Zone| Some(in_default::<Record>("www"));
        Builder::managed_by(manager)
            .for_kind::<Record>()
            .watches(Kind::new(MapFn(of_zone)))
            .complete(records)?;
        Ok(())
    };
    let record = |address: &str| {
        let head = "apiVersion: further.dev/v1, kind: Record, metadata: {name: www}";
        format!("{{{head}, spec: {{host: www.shop.example.org, address: {address}}}}}")
    };
    Simulation::new("records", add)
        .crd::<Zone>()
        .crd::<Record>()
        .remote("dns", one_zone)
        .applies(
            "a zone is asked for",
            "{apiVersion: further.dev/v1, kind: Zone, metadata: {name: shop.example.org}, \
             spec: {contact: ann}}",
        )
        .applies("a record is asked for", &record("10.0.0.1"))
        .applies("its address changes", &record("10.0.0.2"))
}

#[test]
fn a_zone_that_did_not_exist_when_it_was_looked_for_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::SameRemotes, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
