//! Traffic is moved at a given time. A cutover that is more than half a minute late counts as missed, and is never made up for, although
//! it was the operator that could not act.
//!
//! Expected: same objects. Minimum plan: ConfigMaps cannot be written for a minute.

use controller_runtime::BoxError;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube_simulator::User;

use crate::common::*;

/// Lateness from which a cutover counts as missed.
const TOLERANCE: SignedDuration = SignedDuration::from_secs(30);

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "further.dev", version = "v1", kind = "Cutover", namespaced, status = "ClusterStatus")]
#[serde(default)]
struct CutoverSpec {
    at: String,
    to: String,
}

struct Cutovers {
    cutovers: Cached<Cutover>,
    variant: Variant,
}

impl Reconciler for Cutovers {
    type Request = ObjectKey<Cutover>;

    async fn reconcile(&self, key: &ObjectKey<Cutover>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cutover) = self.cutovers.get(key)? else { return Ok(Action::done()) };
        let to = &cutover.spec.to;
        if cutover.status.as_ref().and_then(|status| status.version.as_ref()) == Some(to) {
            return Ok(Action::done());
        }
        let (at, now): (Timestamp, _) = (cutover.spec.at.parse()?, cx.wall_time());
        if now < at {
            let left = Duration::try_from(at.duration_since(now)).unwrap_or_default();
            return Ok(Action::requeue_after(left));
        }
        let is_missed = now.duration_since(at) > TOLERANCE;
        let phase = if is_missed && self.variant == Variant::Buggy {
            // A cutover that comes late would surprise the users.
            "Missed"
        } else {
            cx.client().apply(&map("default", "traffic", "to", to)).await?;
            "Done"
        };
        let (phase, version) = (Some(phase.to_owned()), Some(to.clone()));
        cx.client().apply_status(key, &ClusterStatus { phase, version, ..ClusterStatus::default() }).await?;
        Ok(Action::done())
    }
}

/// Asks for a cutover in two minutes.
async fn ask_for(user: &User, to: &str) -> Result<(), BoxError> {
    let at = user.wall_time() + Duration::from_secs(120);
    let head = "apiVersion: further.dev/v1, kind: Cutover, metadata: {name: web}";
    user.apply_yaml(&format!("{{{head}, spec: {{at: '{at}', to: {to}}}}}")).await
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let cutovers = Cutovers { cutovers: manager.cached(), variant };
        Builder::managed_by(manager).for_kind::<Cutover>().complete(cutovers)?;
        Ok(())
    };
    Simulation::new("cutovers", add)
        .crd::<Cutover>()
        .step("traffic shall go to blue", async |user| ask_for(&user, "blue").await)
        .step("traffic shall go to green", async |user| ask_for(&user, "green").await)
}

#[test]
fn the_bug_is_found() {
    find(simulation(Variant::Buggy));
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
