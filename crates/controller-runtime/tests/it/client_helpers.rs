//! Helpers that send several requests: retries on conflict, create or update, finalizers.

use std::{
    borrow::Cow,
    future::Future,
    sync::{Arc, Mutex},
    time::Duration,
};

use controller_runtime::{
    Client, ClientError, DynamicKind, ObjectKey, ReconcileError, Verb,
    client::{Call, Deletion, Ensured, Next, Patch},
    finalizer::{FinalizeError, Finalized, Finalizer, Finalizers},
};
use kube::core::DynamicObject;
use kube_apiserver_embedded::faults::{Action, Failure, Rule, Verb as FaultVerb};
use serde_json::json;
use tokio::time::Instant;

use crate::support::{Widget, WidgetStatus, environment, key, widget};

fn conflict() -> Rule {
    Rule::new(Action::Fail(Failure::Conflict))
}

async fn grow(client: &Client) -> Result<Widget, ClientError> {
    let mut widget = client.get(&key("a")).await?.expect("it was created");
    widget.spec.size += 1;
    client.update(&widget).await
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_retried_as_in_client_go() {
    let env = environment().await;
    let client = Client::builder(env.client(), "test").seed(1).build();
    client.create(&widget("a", 1)).await.unwrap();
    let updates = env.server().faults();
    updates.add(conflict().verb(FaultVerb::Update));

    let started = Instant::now();
    let error = client.retry_on_conflict(|| grow(&client)).await.unwrap_err();
    assert!(error.is_conflict());
    assert_eq!(updates.journal().len(), 5, "five attempts");
    let waited = started.elapsed();
    assert!((Duration::from_millis(40)..=Duration::from_millis(48)).contains(&waited), "{waited:?}");

    updates.clear();
    updates.add(conflict().verb(FaultVerb::Update).at_most(4));
    assert_eq!(client.retry_on_conflict(|| grow(&client)).await.unwrap().spec.size, 2);
    let other = client.retry_on_conflict(|| client.create(&widget("a", 1)).into_future()).await.unwrap_err();
    assert!(other.is_already_exists(), "what is no conflict is not tried again");
}

#[tokio::test]
async fn futures_of_the_client_may_move_between_threads() {
    fn check<T>(future: impl Future<Output = T> + Send) -> impl Future<Output = T> + Send {
        future
    }
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    let made = check(client.create_or_update(widget("a", 1), |_| Ok(()))).await.unwrap();
    assert_eq!(made.1, Ensured::Created);
    let widgets = client.of(DynamicKind::of::<Widget>());
    let dynamic =
        DynamicObject::new("b", widgets.kind().resource()).within("default").data(json!({ "spec": {} }));
    let made = check(widgets.create_or_patch(dynamic, |_| Ok(()))).await.unwrap();
    assert_eq!(made.1, Ensured::Created);
    let read = check(client.retry_on_conflict(|| async { client.get(&key("a")).await })).await;
    assert!(read.unwrap().is_some());
}

#[tokio::test]
async fn create_or_update_writes_only_differences() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    let sized = async |size: i32| {
        client
            .create_or_update(widget("a", 0), |widget| {
                widget.spec.size = size;
                widget.status = Some(WidgetStatus { seen: size });
                Ok(())
            })
            .await
            .unwrap()
    };
    let (created, done) = sized(1).await;
    assert_eq!((created.spec.size, done), (1, Ensured::Created));
    let (unchanged, done) = sized(1).await;
    assert_eq!(done, Ensured::Unchanged, "the status is not for an update");
    assert_eq!(unchanged.metadata.resource_version, created.metadata.resource_version);
    assert_eq!(unchanged.status, None, "the stored object has no status");
    let (updated, done) = sized(2).await;
    assert_eq!((updated.spec.size, updated.status, done), (2, None, Ensured::Updated));
}

#[tokio::test]
async fn create_or_patch_sends_status_and_the_rest_apart() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    let make = async |size: i32, seen: i32| {
        client
            .create_or_patch(widget("a", 0), |widget| {
                widget.spec.size = size;
                widget.status = Some(WidgetStatus { seen });
                Ok(())
            })
            .await
            .map(|(widget, done)| (widget.spec.size, widget.status.map(|status| status.seen), done))
            .unwrap()
    };
    assert_eq!(make(1, 1).await, (1, None, Ensured::Created), "a new object has no status yet");
    assert_eq!(make(1, 1).await, (1, Some(1), Ensured::UpdatedStatus));
    assert_eq!(make(2, 1).await, (2, Some(1), Ensured::Updated));
    assert_eq!(make(3, 2).await, (3, Some(2), Ensured::UpdatedWithStatus));
    assert_eq!(make(3, 2).await, (3, Some(2), Ensured::Unchanged));
}

#[tokio::test]
async fn dynamic_kinds_can_be_created_or_updated() {
    let env = environment().await;
    let client = Client::new(env.client(), "test").of(DynamicKind::of::<Widget>());
    let begun = || DynamicObject::new("a", client.kind().resource()).within("default");
    let outcome = |made: Result<(DynamicObject, Ensured), ClientError>| {
        let (object, done) = made.unwrap();
        (object.data["spec"]["size"].as_i64(), object.data["status"]["seen"].as_i64(), done)
    };
    let update = async |size: i64| {
        let made = client.create_or_update(begun(), |widget| {
            widget.data["spec"]["size"] = json!(size);
            widget.types = None; // the kind does not depend on this field
            Ok(())
        });
        outcome(made.await)
    };
    assert_eq!(update(1).await, (Some(1), None, Ensured::Created));
    assert_eq!(update(1).await, (Some(1), None, Ensured::Unchanged));
    assert_eq!(update(2).await, (Some(2), None, Ensured::Updated));
    let patch = async |size: i64, seen: i64| {
        let made = client.create_or_patch(begun(), |widget| {
            widget.data["spec"]["size"] = json!(size);
            widget.data["status"] = json!({ "seen": seen });
            Ok(())
        });
        outcome(made.await)
    };
    assert_eq!(patch(2, 1).await, (Some(2), Some(1), Ensured::UpdatedStatus));
    assert_eq!(patch(3, 1).await, (Some(3), Some(1), Ensured::Updated));
    assert_eq!(patch(4, 2).await, (Some(4), Some(2), Ensured::UpdatedWithStatus));
    assert_eq!(patch(4, 2).await, (Some(4), Some(2), Ensured::Unchanged));

    let homeless = DynamicObject::new("a", client.kind().resource());
    let error = client.create_or_patch(homeless, |_| Ok(())).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "patch widgets.example.com a: not sent: metadata.name and namespace must be set"
    );
    let rename = |widget: &mut DynamicObject| {
        widget.metadata.namespace = None;
        Ok(())
    };
    let error = client.create_or_update(begun(), rename).await.unwrap_err();
    assert!(error.to_string().contains("the function changed the name or namespace"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_concurrent_writer_does_not_fail_create_or_update() {
    let env = environment().await;
    let plain = Client::new(env.client(), "test");
    let other = plain.clone();
    // Another client writes before each of the first writes.
    let meddling = Arc::new(Mutex::new(vec!["update", "create"]));
    let client = plain.intercepted(move |call: Call, next: Next| {
        let (meddling, other) = (Arc::clone(&meddling), other.clone());
        async move {
            let expected = meddling.lock().unwrap().last().copied();
            if expected.is_some_and(|verb| call.verb().to_string() == verb) {
                meddling.lock().unwrap().pop();
                if call.verb() == Verb::Create {
                    other.create(&widget("a", 7)).await?;
                } else {
                    other.merge_patch(&key("a"), &json!({ "metadata": { "labels": { "x": "y" } } })).await?;
                }
            }
            next.run(call).await
        }
    });
    let mut calls = 0;
    let (stored, done) = client
        .create_or_update(widget("a", 0), |widget| {
            calls += 1;
            widget.spec.size += 1;
            Ok(())
        })
        .await
        .unwrap();
    assert_eq!((stored.spec.size, done, calls), (8, Ensured::Updated, 3));
    assert!(stored.metadata.labels.is_some(), "nothing of the others is lost");
}

#[tokio::test]
async fn an_object_that_cannot_be_created_is_an_error_with_its_reason() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    let error = client.create_or_update(widget("a", 1), |_| Err("no size fits".into())).await.unwrap_err();
    assert_eq!(error.to_string(), "update widgets.example.com default/a: not sent: no size fits");
    let rename = |widget: &mut Widget| {
        widget.metadata.name = Some("b".to_owned());
        Ok(())
    };
    let error = client.create_or_update(widget("a", 1), rename).await.unwrap_err();
    assert!(error.to_string().contains("the function changed the name or namespace"), "{error}");
    assert!(client.list::<Widget>().await.unwrap().items.is_empty());
}

/// A finalizer that records its name, and fails as long as `fails` is set.
struct Cleanup {
    name: &'static str,
    log: Arc<Mutex<Vec<&'static str>>>,
    fails: Arc<Mutex<bool>>,
}

impl Finalizer<Widget> for Cleanup {
    async fn finalize(&self, _: &Widget) -> Result<(), ReconcileError> {
        self.log.lock().unwrap().push(self.name);
        let fails = *self.fails.lock().unwrap() && self.name == "example.com/a";
        if fails { Err(ReconcileError::new("the bucket is not empty")) } else { Ok(()) }
    }
}

/// A finalizer that changes the object, so that it cannot be removed from the version that it received.
struct Rewrites(Client);

impl Finalizer<Widget> for Rewrites {
    async fn finalize(&self, widget: &Widget) -> Result<(), ReconcileError> {
        let labels = Patch::merge(&json!({ "metadata": { "labels": { "rewritten": "yes" } } }));
        self.0.patch(&ObjectKey::of(widget).expect("a name"), labels).await?;
        Ok(())
    }
}

#[tokio::test]
async fn a_failed_removal_hides_no_failed_finalizer() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    let (log, fails) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(true)));
    let finalizers =
        Finalizers::new().register("example.com/a", Cleanup { name: "example.com/a", log, fails }).unwrap();
    let finalizers = finalizers.register("example.com/b", Rewrites(client.clone())).unwrap();
    let created = client.create(&widget("w", 1)).await.unwrap();
    let live = finalizers.finalize(&client, &created).await.unwrap();
    assert!(matches!(live, Finalized::Live(_)));
    client.delete_key(&key("w")).await.unwrap();
    let going = client.get(&key("w")).await.unwrap().unwrap();
    let error = finalizers.finalize(&client, &going).await.unwrap_err().to_string();
    assert!(error.contains("finalizer example.com/a: the bucket is not empty"), "{error}");
    assert!(error.contains("example.com/b") && error.contains("the object has been modified"), "{error}");
}

#[tokio::test]
async fn finalizers_are_added_at_once_and_removed_as_they_are_done() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    let (log, fails) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(true)));
    let cleanup = |name| Cleanup { name, log: Arc::clone(&log), fails: Arc::clone(&fails) };
    let finalizers = Finalizers::new().register("example.com/a", cleanup("example.com/a")).unwrap();
    let finalizers = finalizers.register("example.com/b", cleanup("example.com/b")).unwrap();
    let created = client.create(&widget("w", 1)).await.unwrap();

    let Finalized::Live(current) = finalizers.finalize(&client, &created).await.unwrap() else {
        panic!("it lives")
    };
    assert_eq!(current.metadata.finalizers.as_deref().map(<[_]>::len), Some(2));
    assert!(matches!(current, Cow::Owned(_)), "it has changed");
    let current = client.update(&*current).await.expect("it is the present version");
    let unchanged = finalizers.finalize(&client, &current).await.unwrap();
    assert!(matches!(unchanged, Finalized::Live(Cow::Borrowed(_))), "nothing was missing");
    let again = client.get(&key("w")).await.unwrap().unwrap();
    assert_eq!(again.metadata.resource_version, current.metadata.resource_version);

    assert_eq!(client.delete(&current).await.unwrap(), Deletion::Begun);
    let going = client.get(&key("w")).await.unwrap().unwrap();
    let error = finalizers.finalize(&client, &going).await.unwrap_err();
    assert_eq!(error.to_string(), "finalizer example.com/a: the bucket is not empty");
    assert!(matches!(error, FinalizeError::Finalizers { .. }));
    let held = client.get(&key("w")).await.unwrap().unwrap();
    assert_eq!(held.metadata.finalizers, Some(vec!["example.com/a".to_owned()]));

    *fails.lock().unwrap() = false;
    assert!(matches!(finalizers.finalize(&client, &held).await.unwrap(), Finalized::CleanedUp));
    assert!(client.get(&key("w")).await.unwrap().is_none());
    assert_eq!(*log.lock().unwrap(), ["example.com/a", "example.com/b", "example.com/a"]);
    let name_taken = finalizers.register("example.com/a", cleanup("example.com/a")).unwrap_err();
    assert_eq!(
        name_taken.to_string(),
        "finalizer example.com/a is registered already: give each its own name"
    );
}

/// A finalizer that records the objects it cleaned up.
struct CleanupOfAny(Arc<Mutex<Vec<String>>>);

impl Finalizer<DynamicObject> for CleanupOfAny {
    async fn finalize(&self, object: &DynamicObject) -> Result<(), ReconcileError> {
        self.0.lock().unwrap().extend(object.metadata.name.clone());
        Ok(())
    }
}

#[tokio::test]
async fn dynamic_kinds_have_finalizers() {
    let env = environment().await;
    let client = Client::new(env.client(), "test").of(DynamicKind::of::<Widget>());
    let cleaned = Arc::new(Mutex::new(Vec::new()));
    let finalizers = Finalizers::new().register("example.com/a", CleanupOfAny(Arc::clone(&cleaned))).unwrap();
    let widget = DynamicObject::new("w", client.kind().resource()).within("default");
    let created = client.create(&widget.data(json!({ "spec": {} }))).await.unwrap();
    let Finalized::Live(held) = finalizers.finalize_dynamic(&client, &created).await.unwrap() else {
        panic!("it lives")
    };
    assert_eq!(held.metadata.finalizers, Some(vec!["example.com/a".to_owned()]));
    assert!(client.add_finalizer(&held, "example.com/b").await.unwrap());
    let key = ObjectKey::new("default", "w");
    let held = client.get(&key).await.unwrap().unwrap();
    assert_eq!(client.delete(&held).await.unwrap(), Deletion::Begun);
    let going = client.get(&key).await.unwrap().unwrap();
    assert_eq!(finalizers.finalize_dynamic(&client, &going).await.unwrap(), Finalized::CleanedUp);
    let left = client.get(&key).await.unwrap().unwrap();
    assert!(client.remove_finalizer(&left, "example.com/b").await.unwrap());
    assert!(client.get(&key).await.unwrap().is_none());
    assert_eq!(*cleaned.lock().unwrap(), ["w"]);
}
