//! A controller with reads from the API server, and a client with a single request.

use std::sync::Arc;

use bench_peer::messages::{NAMESPACE, name};
use bench_peer::{Reply, Succeeded, clock};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::{Controller, watcher};
use kube::{Api, Client, ResourceExt as _};
use tokio::task::JoinSet;

use crate::controllers::run;

/// Runs a controller of ConfigMaps. `client` watches them; the reconciler reads its object with `through`.
pub(crate) fn start(client: Client, through: Client, running: &mut JoinSet<()>) -> Succeeded {
    let controller =
        Controller::new(Api::<ConfigMap>::namespaced(client, NAMESPACE), watcher::Config::default());
    let maps = Api::<ConfigMap>::namespaced(through, NAMESPACE);
    let succeeded = Succeeded::default();
    let done = succeeded.clone();
    run(controller, running, move |map: Arc<ConfigMap>| {
        let (maps, done) = (maps.clone(), done.clone());
        async move {
            let name = map.name_any();
            maps.get(&name).await?;
            done.add(&name);
            Ok(())
        }
    });
    succeeded
}

/// A client that has sent one request, so that its connection is open.
pub(crate) struct Request(Api<ConfigMap>);

impl Request {
    pub(crate) async fn start(client: Client) -> anyhow::Result<Self> {
        let maps = Api::namespaced(client, NAMESPACE);
        maps.get(&name(0)).await?;
        Ok(Self(maps))
    }

    /// Sends the request again, and replies with the time at which it ended, in an answer or an error.
    pub(crate) async fn again(&self) -> Reply {
        let _ = self.0.get(&name(0)).await;
        Reply::figures([("at", clock::monotonic_nanoseconds())])
    }
}
