//! No bug: addresses of a cluster-wide pool. An allocation is noted in the status of the pool, for the version that was read, and only
//! then in that of the claim. It holds the uid of its claim, and ends when there is no claim with this uid. A finalizer keeps the pool
//! while it has allocations. Two replicas: pools are read from the API server, and a late allocation for a claim that is gone changes
//! the pool, which ends it again.

use std::collections::{BTreeMap, BTreeSet};

use controller_runtime::{BoxError, TryMapMeta, cache::Meta};
use kube_simulator::Now;

use crate::common::*;

const FINALIZER: &str = "net.example.com/in-use";

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "net.example.com", version = "v1", kind = "AddressPool", status = "AddressPoolStatus")]
#[serde(default)]
struct AddressPoolSpec {
    prefix: String,
    first: i32,
    last: i32,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, JsonSchema)]
#[serde(default)]
struct AddressPoolStatus {
    /// Uids of claims by address.
    allocations: BTreeMap<String, String>,
}

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(
    group = "net.example.com",
    version = "v1",
    kind = "AddressClaim",
    namespaced,
    status = "AddressClaimStatus"
)]
#[serde(default)]
struct AddressClaimSpec {
    pool: String,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, JsonSchema)]
#[serde(default)]
struct AddressClaimStatus {
    phase: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
}

impl AddressPool {
    fn allocations(&self) -> BTreeMap<String, String> {
        self.status.clone().unwrap_or_default().allocations
    }

    /// The pool with other allocations, in the version that was read.
    fn with(&self, allocations: BTreeMap<String, String>) -> Self {
        let mut changed = self.clone();
        changed.status = Some(AddressPoolStatus { allocations });
        changed
    }

    /// Whether the finalizer keeps the pool as long as an allocation exists.
    fn is_usable(&self) -> bool {
        self.metadata.deletion_timestamp.is_none() && has_finalizer(self, FINALIZER)
    }
}

/// Allocates addresses.
struct Claims {
    claims: Cached<AddressClaim>,
}

/// The address of the claim, which is allocated if there is one.
async fn allocate(
    claim: &AddressClaim,
    pool: &AddressPool,
    cx: &Context,
) -> Result<Option<String>, ReconcileError> {
    let uid = claim.uid().unwrap_or_default();
    let mut allocations = pool.allocations();
    if let Some((address, _)) = allocations.iter().find(|(_, holder)| **holder == uid) {
        return Ok(Some(address.clone()));
    }
    let mut all = (pool.spec.first..=pool.spec.last).map(|number| format!("{}.{number}", pool.spec.prefix));
    let free = all.find(|address| !allocations.contains_key(address));
    let Some(address) = free.filter(|_| pool.is_usable()) else { return Ok(None) };
    allocations.insert(address.clone(), uid);
    // A conflict if another allocation came first.
    cx.client().update_status(&pool.with(allocations)).await?;
    Ok(Some(address))
}

impl Reconciler for Claims {
    type Request = ObjectKey<AddressClaim>;

    async fn reconcile(&self, key: &ObjectKey<AddressClaim>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(claim) = self.claims.get(key)? else { return Ok(Action::done()) };
        if claim.metadata.deletion_timestamp.is_some() {
            return Ok(Action::done());
        }
        let pool = cx.client().get(&ObjectKey::<AddressPool>::new((), claim.spec.pool.as_str())).await?;
        let address = match &pool {
            Some(pool) => allocate(&claim, pool, cx).await?,
            None => None,
        };
        let phase = if address.is_some() { "Bound" } else { "Pending" };
        let status = AddressClaimStatus { phase: phase.to_owned(), address };
        if claim.status.as_ref() != Some(&status) {
            let mut changed = AddressClaim::clone(&claim);
            changed.status = Some(status);
            cx.client().update_status(&changed).await?;
        }
        Ok(Action::done()) // a claim that is pending goes on when its pool changes
    }
}

/// Ends allocations, and releases pools without any.
struct Pools;

impl Reconciler for Pools {
    type Request = ObjectKey<AddressPool>;

    async fn reconcile(&self, key: &ObjectKey<AddressPool>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(pool) = cx.client().get(key).await? else { return Ok(Action::done()) };
        let is_terminating = pool.metadata.deletion_timestamp.is_some();
        if !is_terminating && cx.client().add_finalizer(&pool, FINALIZER).await? {
            return Ok(Action::done()); // goes on with the event of this change
        }
        // The claims are read after the pool, so a claim of an allocation that is not among them is gone.
        let claims = cx.client().list::<AddressClaim>().await?.items;
        let uids: BTreeSet<String> = claims.iter().filter_map(ResourceExt::uid).collect();
        let known = pool.allocations();
        let mut held = known.clone();
        held.retain(|_, uid| uids.contains(uid));
        if held != known {
            cx.client().update_status(&pool.with(held)).await?;
        } else if is_terminating && held.is_empty() {
            cx.client().remove_finalizer(&pool, FINALIZER).await?;
        }
        Ok(Action::done())
    }
}

/// Whether the claims that are bound have different addresses.
fn no_address_is_held_twice(now: &Now<'_>) -> bool {
    let claims = now.all::<AddressClaim>();
    let addresses = claims.iter().filter_map(|claim| claim.status.as_ref()?.address.as_ref());
    let mut seen = BTreeSet::new();
    let mut addresses = addresses.map(|address| seen.insert(address));
    addresses.all(|is_new| is_new)
}

/// Whether the pools contain the addresses of the claims, and no others.
fn pools_and_claims_agree(now: &Now<'_>) -> bool {
    let claims = now.all::<AddressClaim>();
    let of_claim = |claim: &AddressClaim| Some((claim.status.as_ref()?.address.clone()?, claim.uid()?));
    let of_claims: BTreeSet<(String, String)> = claims.iter().filter_map(of_claim).collect();
    let pools = now.all::<AddressPool>();
    let of_pools: BTreeSet<(String, String)> = pools.iter().flat_map(AddressPool::allocations).collect();
    of_claims == of_pools
}

fn pool(last: i32) -> String {
    let head = "apiVersion: net.example.com/v1, kind: AddressPool, metadata: {name: edge}";
    format!("{{{head}, spec: {{prefix: '10.0.0', first: 1, last: {last}}}}}")
}

fn claim(name: &str) -> String {
    let head = format!("apiVersion: net.example.com/v1, kind: AddressClaim, metadata: {{name: {name}}}");
    format!("{{{head}, spec: {{pool: edge}}}}")
}

/// Several claims.
fn claims(names: &[&str]) -> String {
    names.iter().map(|name| claim(name)).collect::<Vec<_>>().join("\n---\n")
}

fn key(name: &str) -> ObjectKey<AddressClaim> {
    in_default(name)
}

pub(crate) fn simulation() -> Simulation {
    let add = |manager: &Manager| -> Result<(), AddError> {
        let claims = manager.cached::<AddressClaim>();
        let by_pool = claims.index(|claim: &AddressClaim| [claim.spec.pool.clone()]);
        let of_pool = TryMapMeta(move |pool: &Meta| by_pool.keys(pool.name()));
        let of_claim = |claim: &AddressClaim| [ObjectKey::<AddressPool>::new((), claim.spec.pool.as_str())];
        Builder::managed_by(manager)
            .for_kind::<AddressClaim>()
            .watches(Kind::<AddressPool, ObjectKey<AddressClaim>>::new(of_pool))
            .complete(Claims { claims })?;
        Builder::managed_by(manager)
            .for_kind::<AddressPool>()
            .with_finalizer(FINALIZER)
            .watches(Kind::new(MapFn(of_claim)))
            .complete(Pools)?;
        Ok(())
    };
    Simulation::new("addresses", add)
        .crd::<AddressPool>()
        .crd::<AddressClaim>()
        .replicas(2)
        // Which claim gets which address depends on the order of the requests.
        .mask::<AddressClaim>("/status/address")
        .mask::<AddressPool>("/status/allocations")
        .always("no address is held twice", no_address_is_held_twice)
        .eventually("pools and claims agree", pools_and_claims_agree)
        .applies("a pool is created", &pool(3))
        .applies("three claims are created", &claims(&["a", "b", "c"]))
        .step("one gets a label and loses it", async |user| {
            let label = |value: Option<&str>| json!({"metadata": {"labels": {"team": value}}});
            user.merge_patch(&key("b"), &label(Some("edge"))).await?;
            user.merge_patch(&key("b"), &label(None)).await
        })
        .applies("another one is created, for which there is no address", &claim("d"))
        .applies("the pool grows", &pool(4))
        .step("one is replaced", async |user| {
            user.delete_key(&key("b")).await?;
            user.apply_yaml(&claim("b")).await
        })
        // An apply to an object that is being deleted would be lost with it, so the user waits.
        .step("pool and claims are deleted, and the user waits until the pool is gone", async |user| {
            let pool = ObjectKey::<AddressPool>::new((), "edge");
            user.delete_key(&pool).await?;
            for name in ["a", "b", "c", "d"] {
                user.delete_key(&key(name)).await?;
            }
            match user.get(&pool).await? {
                Some(_) => Err(BoxError::from("it is not gone yet")),
                None => Ok(()),
            }
        })
        .applies("both are created again", &format!("{}\n---\n{}", claims(&["b", "a"]), pool(2)))
}

#[test]
fn the_operator_has_no_finding() {
    find_nothing(simulation());
}
