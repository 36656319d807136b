//! The webhook server as a runnable of a manager.

use std::{net::SocketAddr, sync::Arc};

use futures::FutureExt;
use tokio::sync::watch;

use super::{
    WebhookOptions, Webhooks,
    client_ca::ClientCa,
    managed_certificates::{Keeper, KeeperContext, KeeperState},
};
use crate::{
    client::Client,
    error::BoxError,
    metrics::{CertificateMetrics, WebhookMetrics},
    runnable::{RunContext, Runnable},
    serving::{AdaptTls, BodyHandler, CurrentCertificate, HttpServer},
};

/// Serves webhooks as soon as one is registered.
pub(crate) struct WebhookServer {
    /// Name of the operator.
    pub(crate) name: Arc<str>,
    /// Client that writes whether this process leads or not, because every replica serves webhooks.
    pub(crate) client: Client,
    pub(crate) webhooks: Webhooks,
    pub(crate) options: WebhookOptions,
    pub(crate) certificate_metrics: CertificateMetrics,
    pub(crate) metrics: WebhookMetrics,
    /// State of self-managed certificates and applied configurations.
    pub(crate) state: Arc<watch::Sender<KeeperState>>,
    /// Address that the server currently listens on.
    pub(crate) bound: Arc<watch::Sender<Option<SocketAddr>>>,
}

impl Runnable for WebhookServer {
    fn name(&self) -> String {
        "webhooks".to_owned()
    }

    fn needs_leader_election(&self) -> bool {
        false
    }

    fn signals_ready(&self) -> bool {
        true
    }

    async fn start(&self, cx: RunContext) -> Result<(), BoxError> {
        if self.webhooks.registered().now_or_never().is_none() {
            // Without webhooks no certificate is needed, and the start must not wait for one.
            cx.set_ready();
            tokio::select! {
                biased;
                () = cx.shutdown() => return Ok(()),
                () = self.webhooks.registered() => {}
            }
        }
        let WebhookOptions { certificates, apply, .. } = self.options.clone();
        let current = certificates.as_ref().map(|_| Arc::<CurrentCertificate>::default());
        let context = KeeperContext {
            client: self.client.clone(),
            clock: cx.clock,
            webhooks: self.webhooks.clone(),
            metrics: self.metrics.clone(),
            current: current.clone().unwrap_or_default(),
            state: Arc::clone(&self.state),
            name: Arc::clone(&self.name),
        };
        self.state.send_replace(KeeperState::Pending);
        let keep = async {
            match Keeper::new(certificates, apply, context) {
                Some(keeper) => keeper.run().await,
                None => {
                    self.state.send_replace(KeeperState::Ready);
                    std::future::pending::<()>().await;
                }
            }
        };
        tokio::select! {
            // The server first: its end is the result.
            biased;
            ended = self.serve(current, cx) => ended,
            // Never completes; it stops with the server.
            () = keep => Ok(()),
        }
    }
}

impl WebhookServer {
    /// Serves with the certificate in `current`, or else with that of the options.
    async fn serve(&self, current: Option<Arc<CurrentCertificate>>, cx: RunContext) -> Result<(), BoxError> {
        if let Some(current) = &current {
            tokio::select! {
                biased;
                () = cx.shutdown() => return Ok(()),
                () = current.available() => {}
            }
        }
        let WebhookOptions { listen, serving, client_ca, enable_http2, adapt_tls, .. } = self.options.clone();
        let client_ca = client_ca.as_deref().map(ClientCa::load).transpose()?;
        let required = client_ca.clone();
        let adapt_tls = AdaptTls(Arc::new(move |config| {
            if let Some(client_ca) = &required {
                client_ca.require(config);
            }
            // Last, so that the user's changes override all of the above.
            (adapt_tls.0)(config);
        }));
        let webhooks = self.webhooks.clone();
        let handler: BodyHandler = Arc::new(move |request| {
            let webhooks = webhooks.clone();
            Box::pin(async move { webhooks.serve(request).await })
        });
        let (metrics, bound) = (self.certificate_metrics.clone(), Arc::clone(&self.bound));
        let server = HttpServer::new("webhooks", listen, serving, handler, metrics, bound)
            .offering_http2(enable_http2)
            .adapting_tls(adapt_tls);
        let server = match current {
            Some(current) => server.with_certificate(current),
            None => server,
        };
        let reload = async {
            match &client_ca {
                Some(client_ca) => client_ca.keep_up().await,
                None => std::future::pending().await,
            }
        };
        // The reload never completes; it stops with the server.
        tokio::select! {
            // The server first: its end is the result.
            biased;
            ended = server.start(cx) => ended,
            () = reload => Ok(()),
        }
    }
}
