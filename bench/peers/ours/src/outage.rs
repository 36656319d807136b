//! A controller with reads from the API server, and a client with a single request.

use bench_peer::messages::{NAMESPACE, name};
use bench_peer::{Reply, Succeeded, clock};
use controller_runtime::{Action, Builder, Client, Context, ObjectKey, ReconcileError, Reconciler};
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::task::JoinSet;

use crate::manager::{Unstarted, run};

struct Read {
    client: Client,
    succeeded: Succeeded,
}

impl Reconciler for Read {
    type Request = ObjectKey<ConfigMap>;

    async fn reconcile(&self, key: &ObjectKey<ConfigMap>, _: &Context) -> Result<Action, ReconcileError> {
        self.client.get(key).await?;
        self.succeeded.add(key.name());
        Ok(Action::done())
    }
}

/// Runs a controller of ConfigMaps. `manager` watches them; the reconciler reads its object with the client of `through`.
pub(crate) fn start(
    manager: Unstarted,
    through: Unstarted,
    running: &mut JoinSet<()>,
) -> anyhow::Result<Succeeded> {
    let manager = manager.with(|options| options);
    let succeeded = Succeeded::default();
    let read = Read { client: client(through), succeeded: succeeded.clone() };
    Builder::managed_by(&manager).for_kind::<ConfigMap>().complete(read)?;
    run(manager, running);
    Ok(succeeded)
}

fn client(manager: Unstarted) -> Client {
    manager.with(|options| options).client()
}

/// A client that has sent one request, so that its connection is open.
pub(crate) struct Request(Client);

impl Request {
    pub(crate) async fn start(manager: Unstarted) -> anyhow::Result<Self> {
        let request = Self(client(manager));
        request.0.get(&key()).await?;
        Ok(request)
    }

    /// Sends the request again, and replies with the time at which it ended, in an answer or an error.
    pub(crate) async fn again(&self) -> Reply {
        let _ = self.0.get(&key()).await;
        Reply::figures([("at", clock::monotonic_nanoseconds())])
    }
}

fn key() -> ObjectKey<ConfigMap> {
    ObjectKey::new(NAMESPACE, name(0))
}
