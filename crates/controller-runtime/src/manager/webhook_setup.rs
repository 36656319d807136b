//! The webhooks of a manager, and their server.

use std::{
    net::SocketAddr,
    sync::{Arc, Once},
};

use tokio::sync::watch;

use super::{Manager, ManagerOptions};
use crate::{
    metrics::Metrics,
    runnable::Group,
    webhook::{KeeperState, WebhookServer, Webhooks},
};

/// Webhooks, and whether their server has been added to the manager.
pub(super) struct ManagerWebhooks {
    webhooks: Webhooks,
    server_added: Once,
    bound: Arc<watch::Sender<Option<SocketAddr>>>,
    state: Arc<watch::Sender<KeeperState>>,
}

impl ManagerWebhooks {
    pub(super) fn new(options: &ManagerOptions, metrics: &Metrics) -> Self {
        let webhooks = Webhooks::new(metrics.webhooks(), options.webhooks.max_conversion_bytes);
        Self {
            webhooks,
            server_added: Once::new(),
            bound: Arc::default(),
            state: Arc::new(watch::Sender::new(KeeperState::Pending)),
        }
    }

    /// The webhooks, without starting their server.
    pub(super) fn registered(&self) -> &Webhooks {
        &self.webhooks
    }
}

impl Manager {
    /// The registered webhooks, without adding a server.
    #[cfg(feature = "manifests")]
    pub(crate) fn registered_webhooks(&self) -> &Webhooks {
        self.shared.webhooks.registered()
    }

    /// The webhooks of this manager, for handlers of any kind ([`Webhooks::mutating`], [`Webhooks::validating`]) and for
    /// configurations. Those of a kind are registered by [`ControllerBuilder::defaulted`](crate::ControllerBuilder::defaulted),
    /// [`validated`](crate::ControllerBuilder::validated) and [`converted`](crate::ControllerBuilder::converted).
    ///
    /// The first call adds the webhook server to the manager. It starts to listen when a webhook is registered.
    #[must_use]
    #[doc(alias = "GetWebhookServer")]
    #[doc(alias = "NewWebhookManagedBy")]
    pub fn webhooks(&self) -> &Webhooks {
        let ManagerWebhooks { webhooks, server_added, bound, state } = &self.shared.webhooks;
        server_added.call_once(|| {
            let options = self.shared.options.webhooks.clone();
            if options.listen.is_nowhere() {
                return;
            }
            let address = bound.subscribe();
            let (registered, kept) = (webhooks.clone(), state.subscribe());
            self.add_readyz_check("webhooks", move || {
                let ready = match (address.borrow().is_some(), &*kept.borrow()) {
                    _ if registered.is_empty() => Ok(()),
                    (_, KeeperState::Failing(reason)) => Err(reason.clone()),
                    (false, _) => Err("the webhook server is not listening yet".to_owned()),
                    (true, KeeperState::Pending) => {
                        Err("the authority of the webhook certificate is not in all caBundles yet".to_owned())
                    }
                    (true, KeeperState::Ready) => Ok(()),
                };
                async move { ready.map_err(Into::into) }
            });
            let server = WebhookServer {
                name: Arc::clone(&self.shared.options.name),
                client: self.shared.ungated.clone(),
                webhooks: webhooks.clone(),
                options,
                certificate_metrics: self.shared.metrics.certificates(),
                metrics: self.shared.metrics.webhooks(),
                state: Arc::clone(state),
                bound: Arc::clone(bound),
            };
            if let Err(error) = self.add_to(Group::Webhooks, server) {
                tracing::warn!("the webhook server is not started: {error}");
            }
        });
        webhooks
    }

    /// Address of the webhook server; `None` while it does not listen.
    #[must_use]
    pub fn webhook_address(&self) -> Option<SocketAddr> {
        *self.shared.webhooks.bound.borrow()
    }
}
