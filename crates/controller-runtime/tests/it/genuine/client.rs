//! The client on a genuine API server.

use controller_runtime::{
    Client, ClientError, ReconcileError,
    client::{Deletion, Ensured, Expected},
    finalizer::{Finalized, Finalizer, Finalizers},
};
use serde_json::json;

use super::genuine;
use crate::support::{Widget, WidgetStatus};

#[tokio::test]
async fn a_conflict_names_the_expected_version() {
    let Some(cluster) = genuine().await else { return };
    let (one, key) = (Client::new(cluster.kube.clone(), "one"), cluster.key("a"));
    let created = one.apply(&cluster.widget("a", 1)).await.unwrap();
    let expected = |error: ClientError| error.conflict().map(|conflict| conflict.expected.clone());

    let two = one.field_manager("two");
    let owned = two.apply(&cluster.widget("a", 3)).without_force().await.unwrap_err();
    assert_eq!(expected(owned), Some(Expected::Ownership(vec![".spec.size".to_owned()])));
    assert_eq!(two.apply(&cluster.widget("a", 3)).await.unwrap().spec.size, 3, "applied with force");

    let old = created.metadata.resource_version.clone().unwrap();
    let stale = one.update(&created).await.unwrap_err();
    assert_eq!(expected(stale), Some(Expected::Version(old.clone())));
    let stale = one.delete(&created).await.unwrap_err();
    assert_eq!(expected(stale), Some(Expected::Version(old)));

    let before = one.get(&key).await.unwrap().unwrap();
    assert_eq!(one.delete(&before).await.unwrap(), Deletion::Done);
    assert_eq!(one.delete(&before).await.unwrap(), Deletion::NotFound);
    one.create(&cluster.widget("a", 1)).await.unwrap();
    let uid = Some(Expected::Uid(before.metadata.uid.clone().unwrap()));
    assert_eq!(expected(one.delete(&before).any_version().await.unwrap_err()), uid);
    assert_eq!(expected(one.update(&before).await.unwrap_err()), uid, "another object has its name");
}

#[tokio::test]
async fn a_computed_patch_applies_to_the_version_that_was_read() {
    let Some(cluster) = genuine().await else { return };
    crate::client_patches::of_one_version(&cluster.client(), &cluster.namespace).await;
}

#[tokio::test]
async fn retries_and_create_or_update_reach_the_desired_state() {
    let Some(cluster) = genuine().await else { return };
    let (client, key) = (cluster.client(), cluster.key("a"));
    let sized = async |size: i32| {
        let made = client.create_or_update(cluster.widget("a", 0), |widget| {
            widget.spec.size = size;
            Ok(())
        });
        made.await.unwrap()
    };
    let (created, done) = sized(1).await;
    assert_eq!(done, Ensured::Created);
    let (same, done) = sized(1).await;
    assert_eq!(
        (same.metadata.resource_version, done),
        (created.metadata.resource_version, Ensured::Unchanged)
    );
    assert_eq!(sized(2).await.1, Ensured::Updated);

    let grow = async || {
        let grown = client.retry_on_conflict(|| async {
            let mut widget = client.get(&key).await?.expect("it was created");
            widget.spec.size += 1;
            client.update(&widget).await
        });
        grown.await.unwrap()
    };
    tokio::join!(grow(), grow(), grow());
    assert_eq!(client.get(&key).await.unwrap().unwrap().spec.size, 5, "no increment is lost");

    let mut widget = client.get(&key).await.unwrap().unwrap();
    (widget.spec.size, widget.status) = (99, Some(WidgetStatus { seen: 5 }));
    let updated = client.update_status(&widget).await.unwrap();
    assert_eq!((updated.spec.size, updated.status), (5, Some(WidgetStatus { seen: 5 })), "the status alone");
    let made = client.create_or_patch(cluster.widget("a", 0), |widget| {
        (widget.spec.size, widget.status) = (6, Some(WidgetStatus { seen: 6 }));
        Ok(())
    });
    assert_eq!(made.await.unwrap().1, Ensured::UpdatedWithStatus);
    let applied = client.field_manager("status").apply_status(&key, &WidgetStatus { seen: 7 }).await.unwrap();
    assert_eq!((applied.spec.size, applied.status), (6, Some(WidgetStatus { seen: 7 })));
}

/// A finalizer without anything to clean up.
struct Nothing;

impl Finalizer<Widget> for Nothing {
    async fn finalize(&self, _: &Widget) -> Result<(), ReconcileError> {
        Ok(())
    }
}

#[tokio::test]
async fn an_object_is_deleted_when_its_finalizers_are_done() {
    let Some(cluster) = genuine().await else { return };
    let (client, key) = (cluster.client(), cluster.key("a"));
    let finalizers = Finalizers::new().register("example.com/a", Nothing).unwrap();
    let finalizers = finalizers.register("example.com/b", Nothing).unwrap();
    let created = client.create(&cluster.widget("a", 1)).await.unwrap();
    let Finalized::Live(live) = finalizers.finalize(&client, &created).await.unwrap() else {
        panic!("no client has deleted it")
    };
    assert_eq!(live.metadata.finalizers.as_deref().map(<[_]>::len), Some(2));
    assert_eq!(client.delete(&*live).await.unwrap(), Deletion::Begun);
    let late = json!({ "metadata": { "finalizers": ["example.com/late"] } });
    assert!(
        client.merge_patch(&key, &late).await.unwrap_err().is_invalid(),
        "none is added to what is going"
    );
    let going = client.get(&key).await.unwrap().unwrap();
    assert!(matches!(finalizers.finalize(&client, &going).await.unwrap(), Finalized::CleanedUp));
    assert!(client.get(&key).await.unwrap().is_none());
}
