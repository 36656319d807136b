//! A preview is deleted when its time is over, unless it is to be kept: the cache may not know yet that it is.
//!
//! Expected: same objects. Minimum plan: the event of the change is held back until the timer fires.

use controller_runtime::BoxError;

use crate::common::*;

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "further.dev", version = "v1", kind = "Preview", namespaced)]
#[serde(default, rename_all = "camelCase")]
struct PreviewSpec {
    ttl_seconds: u32,
    keep: bool,
}

struct Previews {
    previews: Cached<Preview>,
    variant: Variant,
}

impl Reconciler for Previews {
    type Request = ObjectKey<Preview>;

    async fn reconcile(&self, key: &ObjectKey<Preview>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(preview) = self.previews.get(key)?.filter(|preview| !preview.spec.keep) else {
            return Ok(Action::done());
        };
        let created = preview.metadata.creation_timestamp.as_ref().expect("a stored object").0;
        let age = Duration::try_from(cx.wall_time().duration_since(created)).unwrap_or_default();
        let ttl = Duration::from_secs(preview.spec.ttl_seconds.into());
        if let Some(left) = ttl.checked_sub(age).filter(|left| !left.is_zero()) {
            return Ok(Action::requeue_after(left));
        }
        match self.variant {
            Variant::Buggy => cx.client().delete_key(key).await?,
            Variant::Twin => cx.client().delete(&*preview).await?,
        };
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let previews = Previews { previews: manager.cached(), variant };
        Builder::managed_by(manager).for_kind::<Preview>().complete(previews)?;
        Ok(())
    };
    Simulation::new("previews", add).crd::<Preview>().step(
        "a preview is kept before it expires",
        async |user| {
            user.apply_yaml(
            "{apiVersion: further.dev/v1, kind: Preview, metadata: {name: pr-1}, spec: {ttlSeconds: 300}}",
        )
        .await?;
            tokio::time::sleep(Duration::from_secs(285)).await;
            user.merge_patch(&in_default::<Preview>("pr-1"), &json!({"spec": {"keep": true}})).await?;
            Ok::<_, BoxError>(())
        },
    )
}

#[test]
fn a_preview_that_is_deleted_although_it_is_kept_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::SameObjects, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
