//! Runs controllers.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use kube::Resource;
use kube::runtime::controller::{Action, Controller};
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;

/// Runs a controller until the process ends. A failed reconcile is retried after five seconds, as in kube-rs' examples.
pub(crate) fn run<K, F>(
    controller: Controller<K>,
    running: &mut JoinSet<()>,
    reconcile: impl Fn(Arc<K>) -> F + Send + Sync + 'static,
) where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    K::DynamicType: Debug + Eq + Hash + Clone + Unpin + Send + Sync,
    F: Future<Output = Result<(), kube::Error>> + Send + 'static,
{
    let reconcile = move |object: Arc<K>, _: Arc<()>| {
        let done = reconcile(object);
        async move { done.await.map(|()| Action::await_change()) }
    };
    let on_error = |_: Arc<K>, error: &kube::Error, _: Arc<()>| {
        eprintln!("{error}");
        Action::requeue(Duration::from_secs(5))
    };
    let outcomes = controller.run(reconcile, on_error, Arc::new(()));
    running.spawn(outcomes.for_each(|_| std::future::ready(())));
}
