//! The id of a remote bucket is recorded in the status. A crash between the two leaves a bucket that nothing names.

use std::{collections::BTreeMap, sync::Arc};

use controller_runtime::{
    Action, Builder, Cached, Context, Manager, ObjectKey, ReconcileError, Reconciler, has_finalizer,
    manager::AddError,
};
use kube::{CustomResource, ResourceExt};
use kube_simulator::{Explore, Lost, Oracle, Remote, Simulation};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Variant, find, find_nothing};

const FINALIZER: &str = "corpus.dev/bucket";

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(group = "corpus.dev", version = "v1", kind = "Bucket", namespaced, status = "BucketStatus")]
pub(crate) struct BucketSpec {}

#[derive(Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
pub(crate) struct BucketStatus {
    id: Option<u64>,
}

/// Buckets by id, with the tokens of their creators.
#[derive(Default, Serialize)]
pub(crate) struct Cloud {
    buckets: BTreeMap<u64, Option<String>>,
}

pub(crate) struct FakeCloud(Remote<Cloud>);

impl FakeCloud {
    pub(crate) fn of_this_run() -> Self {
        Self(Remote::of_this_run())
    }

    async fn create(&self, owner: &str) -> Result<u64, Lost> {
        self.0
            .effect("create bucket", owner, |cloud| {
                let id = fastrand::u64(..1 << 40);
                cloud.buckets.insert(id, None);
                id
            })
            .await
    }

    /// Creates a bucket, or returns the one that was created with the token.
    pub(crate) async fn create_with_token(&self, owner: &str, token: String) -> Result<u64, Lost> {
        self.0
            .effect("create bucket", owner, move |cloud| {
                let known = cloud.buckets.iter().find(|(_, known)| known.as_ref() == Some(&token));
                let id = known.map_or_else(|| fastrand::u64(..1 << 40), |(id, _)| *id);
                cloud.buckets.insert(id, Some(token));
                id
            })
            .await
    }

    async fn delete(&self, owner: &str, id: u64) -> Result<(), Lost> {
        self.0.effect("delete bucket", owner, move |cloud| drop(cloud.buckets.remove(&id))).await
    }

    pub(crate) async fn delete_by_token(&self, owner: &str, token: String) -> Result<(), Lost> {
        let delete = move |cloud: &mut Cloud| cloud.buckets.retain(|_, known| known.as_ref() != Some(&token));
        self.0.effect("delete bucket", owner, delete).await
    }
}

struct Buckets {
    buckets: Cached<Bucket>,
    cloud: Arc<FakeCloud>,
    variant: Variant,
}

impl Reconciler for Buckets {
    type Request = ObjectKey<Bucket>;

    async fn reconcile(&self, key: &ObjectKey<Bucket>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(bucket) = self.buckets.get(key)? else { return Ok(Action::done()) };
        let (name, token) = (bucket.name_any(), bucket.uid().unwrap_or_default());
        let id = bucket.status.as_ref().and_then(|status| status.id);
        if bucket.metadata.deletion_timestamp.is_some() {
            if has_finalizer(&*bucket, FINALIZER) {
                match (self.variant, id) {
                    (Variant::Buggy, Some(id)) => self.cloud.delete(&name, id).await?,
                    (Variant::Buggy, None) => {}
                    (Variant::Twin, _) => self.cloud.delete_by_token(&name, token).await?,
                }
                cx.client().remove_finalizer(&*bucket, FINALIZER).await?;
            }
            return Ok(Action::done());
        }
        cx.client().add_finalizer(&*bucket, FINALIZER).await?;
        if id.is_none() {
            let id = match self.variant {
                Variant::Buggy => self.cloud.create(&name).await?,
                Variant::Twin => self.cloud.create_with_token(&name, token).await?,
            };
            cx.client().apply_status(key, &BucketStatus { id: Some(id) }).await?;
        }
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let cloud = Arc::new(FakeCloud::of_this_run());
        let buckets = Buckets { buckets: manager.cached(), cloud, variant };
        Builder::managed_by(manager).for_kind::<Bucket>().complete(buckets)?;
        Ok(())
    };
    let key = ObjectKey::<Bucket>::new("default", "photos");
    Simulation::new("buckets", add)
        .crd::<Bucket>()
        .remote("cloud", Cloud::default)
        .step("a bucket is asked for", async |user| {
            user.apply_yaml("{apiVersion: corpus.dev/v1, kind: Bucket, metadata: {name: photos}, spec: {}}")
                .await
        })
        .step("it goes", async move |user| user.delete_key(&key).await)
}

#[test]
fn a_crash_after_the_creation_is_found() {
    let finding = find(simulation(Variant::Buggy), Explore::crashes());
    assert_eq!(finding.oracle(), Oracle::SameRemotes);
    assert_eq!(finding.plan().to_string(), "crash after create bucket at cloud photos #1\n");
}

#[test]
fn a_lost_answer_of_the_cloud_is_found() {
    let finding = find(simulation(Variant::Buggy), Explore::lost_answers());
    assert_eq!(finding.oracle(), Oracle::SameRemotes);
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin), Explore::all());
}
