//! Creates guestbooks before an operator starts, and waits for their convergence.

use bench_peer::Reply;
use bench_peer::guestbook::{Guestbook, GuestbookSpec};
use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, ListParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, Client, CustomResourceExt as _};
use tokio::time::{Duration, sleep};

use crate::each;

const NAMESPACE: &str = "guestbooks";

/// Installs the definition and creates `count` guestbooks.
pub(crate) async fn create(client: Client, count: usize) -> anyhow::Result<Reply> {
    kube_envtest::install_crds(&client, &[Guestbook::crd()]).await?;
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(NAMESPACE.to_owned());
    Api::all(client.clone()).create(&PostParams::default(), &namespace).await?;
    let guestbooks: Api<Guestbook> = Api::namespaced(client, NAMESPACE);
    let create = async |number| {
        let spec = GuestbookSpec { greeting: format!("Hello from number {number}"), replicas: 2 };
        let guestbook = Guestbook::new(&format!("guestbook-{number:05}"), spec);
        guestbooks.create(&PostParams::default(), &guestbook).await.map(drop)
    };
    each(0..count, create).await?;
    Ok(Reply::done())
}

/// Waits until the status of `count` guestbooks shows convergence.
pub(crate) async fn wait(client: Client, count: usize) -> anyhow::Result<Reply> {
    let guestbooks: Api<Guestbook> = Api::namespaced(client, NAMESPACE);
    let listed = guestbooks.list(&ListParams::default()).await?;
    let mut done = listed.items.iter().filter(|guestbook| is_done(guestbook)).count();
    let version = listed.metadata.resource_version.unwrap_or_default();
    let mut events = Box::pin(guestbooks.watch(&WatchParams::default(), &version).await?);
    while done < count {
        match events.try_next().await? {
            // An operator writes each status once.
            Some(WatchEvent::Modified(guestbook)) => done += usize::from(is_done(&guestbook)),
            Some(WatchEvent::Error(status)) => anyhow::bail!("the watch of guestbooks: {status}"),
            Some(_) => {}
            None => anyhow::bail!("the watch of guestbooks ended with {done} of {count} done"),
        }
    }
    Ok(Reply::done())
}

/// Deletes the namespace with the guestbooks and, by garbage collection, their children.
pub(crate) async fn delete(client: Client) -> anyhow::Result<Reply> {
    let namespaces: Api<Namespace> = Api::all(client);
    namespaces.delete(NAMESPACE, &DeleteParams::default()).await?;
    while namespaces.get_opt(NAMESPACE).await?.is_some() {
        sleep(Duration::from_millis(50)).await;
    }
    Ok(Reply::done())
}

fn is_done(guestbook: &Guestbook) -> bool {
    let observed = guestbook.status.as_ref().and_then(|status| status.observed_generation);
    observed.is_some() && observed == guestbook.metadata.generation
}
