//! A scheduler selects a zone for a claim, in an annotation, and a provisioner creates the volume there. If it
//! cannot, it removes the annotation, so that the scheduler selects the next zone. It also does so if the answer of
//! the cloud is lost: then a volume may exist in the first zone, which nothing removes.
//!
//! Expected: same objects or remotes. Minimum plan: the answer to the creation of a volume is lost.

use std::collections::{BTreeMap, BTreeSet};

use controller_runtime::client::Patch;

use crate::common::*;

/// Zones in the order of preference.
const ZONES: [&str; 3] = ["a", "b", "c"];

/// Annotation with the zone that the scheduler has selected.
const SELECTED: &str = "further.dev/selected-zone";

/// Annotation with the zones that are full, as the provisioner has found out.
const FULL: &str = "further.dev/full-zones";

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "further.dev", version = "v1", kind = "Claim", namespaced, status = "ClaimStatus")]
#[serde(default)]
struct ClaimSpec {
    size: i32,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[serde(default)]
struct ClaimStatus {
    zone: String,
}

impl Claim {
    fn is_bound(&self) -> bool {
        self.status.as_ref().is_some_and(|status| !status.zone.is_empty())
    }

    fn selected(&self) -> Option<&String> {
        self.annotations().get(SELECTED)
    }

    fn full_zones(&self) -> BTreeSet<&str> {
        self.annotations().get(FULL).into_iter().flat_map(|zones| zones.split(',')).collect()
    }
}

/// Volumes of each zone, by claim, and their sizes.
#[derive(Default, Serialize)]
struct Cloud {
    zones: BTreeMap<String, BTreeMap<String, i32>>,
}

struct FakeCloud(Remote<Cloud>);

impl FakeCloud {
    /// Creates the volume of a claim, or resizes it, unless the zone is full. Returns whether it exists.
    async fn create(&self, zone: &str, claim: &str, size: i32) -> Result<bool, Lost> {
        let (owned_zone, claim) = (zone.to_owned(), claim.to_owned());
        let create = move |cloud: &mut Cloud| {
            let has_space = owned_zone != "a";
            if has_space {
                cloud.zones.entry(owned_zone).or_default().insert(claim, size);
            }
            has_space
        };
        self.0.effect("create volume", zone, create).await
    }
}

/// Changes annotations of a claim, unless it has changed since it was read.
async fn annotate(
    claim: &Claim,
    annotations: &serde_json::Value,
    cx: &Context,
) -> Result<(), ReconcileError> {
    let patch = Patch::merge(&json!({"metadata": {"annotations": annotations}})).with_version_of(claim);
    cx.client().patch(&in_default::<Claim>(&claim.name_any()), patch).await?;
    Ok(())
}

/// Selects the zones of claims.
struct Scheduler;

impl Reconciler for Scheduler {
    type Request = ObjectKey<Claim>;

    async fn reconcile(&self, key: &ObjectKey<Claim>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(claim) = cx.client().get(key).await? else { return Ok(Action::done()) };
        if claim.is_bound() || claim.selected().is_some() {
            return Ok(Action::done());
        }
        let full = claim.full_zones();
        if let Some(zone) = ZONES.into_iter().find(|zone| !full.contains(zone)) {
            annotate(&claim, &json!({SELECTED: zone}), cx).await?;
        }
        Ok(Action::done())
    }
}

struct Provisioner {
    cloud: FakeCloud,
    variant: Variant,
}

impl Reconciler for Provisioner {
    type Request = ObjectKey<Claim>;

    async fn reconcile(&self, key: &ObjectKey<Claim>, cx: &Context) -> Result<Action, ReconcileError> {
        // The cache may still show a zone that has been given back.
        let Some(claim) = cx.client().get(key).await? else { return Ok(Action::done()) };
        let Some(zone) = claim.selected() else { return Ok(Action::done()) };
        let is_created = match (self.variant, self.cloud.create(zone, key.name(), claim.spec.size).await) {
            // Another zone may be in a better state.
            (Variant::Buggy, Err(Lost)) if !claim.is_bound() => false,
            (_, created) => created?,
        };
        if !is_created {
            let mut full = claim.full_zones();
            full.insert(zone);
            let full = full.into_iter().collect::<Vec<_>>().join(",");
            annotate(&claim, &json!({SELECTED: null, FULL: full}), cx).await?;
        } else if !claim.is_bound() {
            cx.client().apply_status(key, &ClaimStatus { zone: zone.clone() }).await?;
        }
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let provisioner = move |manager: &Manager| -> Result<(), AddError> {
        let provisioner = Provisioner { cloud: FakeCloud(Remote::of_this_run()), variant };
        Builder::managed_by(manager).for_kind::<Claim>().complete(provisioner)?;
        Ok(())
    };
    let scheduler = |manager: &Manager| -> Result<(), AddError> {
        Builder::managed_by(manager).for_kind::<Claim>().complete(Scheduler)?;
        Ok(())
    };
    let claim = |size: i32| {
        format!(
            "{{apiVersion: further.dev/v1, kind: Claim, metadata: {{name: data}}, spec: {{size: {size}}}}}"
        )
    };
    Simulation::new("provisioner", provisioner)
        .also("scheduler", scheduler)
        .crd::<Claim>()
        .remote("cloud", Cloud::default)
        .applies("a volume is asked for", &claim(1))
        .applies("it grows", &claim(2))
}

#[test]
fn a_volume_in_a_zone_that_was_given_back_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert!(matches!(finding.oracle(), Oracle::SameObjects | Oracle::SameRemotes), "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
