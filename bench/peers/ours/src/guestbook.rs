//! The operator of Guestbooks.

use bench_peer::guestbook::{Guestbook, page, server, status};
use controller_runtime::{
    Action, Builder, Cached, Client, Context, ObjectKey, ReconcileError, Reconciler,
    predicate::GenerationChanged,
    serving::{Endpoint, MetricsServerOptions},
};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
use tokio::task::JoinSet;

use crate::manager::{Unstarted, run};

struct GuestbookReconciler {
    client: Client,
    guestbooks: Cached<Guestbook>,
}

impl Reconciler for GuestbookReconciler {
    type Request = ObjectKey<Guestbook>;

    async fn reconcile(&self, key: &ObjectKey<Guestbook>, _: &Context) -> Result<Action, ReconcileError> {
        let Some(guestbook) = self.guestbooks.get(key)? else {
            return Ok(Action::done());
        };
        self.client.apply(&page(&guestbook)).await?;
        self.client.apply(&server(&guestbook)).await?;
        if let Some(status) = status(&guestbook) {
            self.client.apply_status(key, &status).await?;
        }
        Ok(Action::done())
    }
}

/// Runs a manager with the operator, and serves metrics and probes as in a deployment.
pub(crate) fn start(manager: Unstarted, running: &mut JoinSet<()>) -> anyhow::Result<()> {
    let here = Endpoint::At(([127, 0, 0, 1], 0).into());
    let manager = manager.with(|options| {
        options.metrics(MetricsServerOptions::default().bind_address(here)).health_probe_bind_address(here)
    });
    let reconciler = GuestbookReconciler { client: manager.client(), guestbooks: manager.cached() };
    Builder::managed_by(&manager)
        .for_kind::<Guestbook>()
        .with_predicate(GenerationChanged)
        .owns::<ConfigMap>()
        .owns::<Deployment>()
        .complete(reconciler)?;
    run(manager, running);
    Ok(())
}
