//! The operator of Guestbooks.

use std::sync::Arc;

use bench_peer::guestbook::{FIELD_MANAGER, Guestbook, page, server, status};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
use kube::api::{Patch, PatchParams};
use kube::runtime::reflector::store;
use kube::runtime::{Controller, PredicateConfig, WatchStreamExt as _, predicates, watcher};
use kube::{Api, Client, Resource as _, ResourceExt as _};
use serde_json::json;
use tokio::task::JoinSet;

use crate::controllers::run;

async fn reconcile(client: Client, guestbook: Arc<Guestbook>) -> Result<(), kube::Error> {
    let namespace = guestbook.namespace().unwrap_or_default();
    let ours = PatchParams::apply(FIELD_MANAGER).force();
    let page = page(&guestbook);
    let pages = Api::<ConfigMap>::namespaced(client.clone(), &namespace);
    pages.patch(&page.name_any(), &ours, &Patch::Apply(&page)).await?;
    let server = server(&guestbook);
    let servers = Api::<Deployment>::namespaced(client.clone(), &namespace);
    servers.patch(&server.name_any(), &ours, &Patch::Apply(&server)).await?;
    if let Some(status) = status(&guestbook) {
        let status = json!({
            "apiVersion": Guestbook::api_version(&()),
            "kind": Guestbook::kind(&()),
            "metadata": {"name": guestbook.name_any()},
            "status": status,
        });
        let guestbooks = Api::<Guestbook>::namespaced(client, &namespace);
        guestbooks.patch_status(&guestbook.name_any(), &ours, &Patch::Apply(&status)).await?;
    }
    Ok(())
}

/// Runs a controller with the operator. kube-rs serves neither metrics nor probes.
pub(crate) fn start(client: Client, running: &mut JoinSet<()>) {
    let (reader, writer) = store();
    let changes = watcher(Api::<Guestbook>::all(client.clone()), watcher::Config::default())
        .default_backoff()
        .reflect(writer)
        .applied_objects()
        .predicate_filter(predicates::generation, PredicateConfig::default());
    let controller = Controller::for_stream(changes, reader)
        .owns(Api::<ConfigMap>::all(client.clone()), watcher::Config::default())
        .owns(Api::<Deployment>::all(client.clone()), watcher::Config::default());
    run(controller, running, move |guestbook| reconcile(client.clone(), guestbook));
}
