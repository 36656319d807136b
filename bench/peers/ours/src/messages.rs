//! Controllers that read the ConfigMap of a request and record its round.

use bench_peer::messages::Seen;
use bench_peer::{Ask, Reply};
use controller_runtime::{
    Action, Builder, Cached, Context, ManagerOptions, ObjectKey, ReconcileError, Reconciler,
    controller::ControllerOptions,
};
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::task::JoinSet;

use crate::manager::{Unstarted, run};

struct Read {
    controller: usize,
    maps: Cached<ConfigMap>,
    seen: Seen,
}

impl Reconciler for Read {
    type Request = ObjectKey<ConfigMap>;

    async fn reconcile(&self, key: &ObjectKey<ConfigMap>, _: &Context) -> Result<Action, ReconcileError> {
        if let Some(map) = self.maps.get(key)? {
            self.seen.reconciled(self.controller, &map);
        }
        Ok(Action::done())
    }
}

/// Running controllers.
pub(crate) struct Messages {
    seen: Seen,
    controllers: usize,
}

impl Messages {
    /// Runs a manager with the requested numbers of controllers and workers.
    pub(crate) async fn start(
        manager: Unstarted,
        ask: &Ask,
        running: &mut JoinSet<()>,
    ) -> anyhow::Result<Self> {
        let manager = manager.with(std::convert::identity::<ManagerOptions>);
        let (seen, controllers) = (Seen::default(), ask.number("controllers")?);
        let workers = ask.number("workers")?;
        for controller in 0..controllers {
            let read = Read { controller, maps: manager.cached(), seen: seen.clone() };
            Builder::managed_by(&manager)
                .for_kind::<ConfigMap>()
                .named(format!("messages-{controller}"))
                .with_options(ControllerOptions::default().max_concurrent_reconciles(workers))
                .complete(read)?;
        }
        run(manager, running);
        Ok(Self { seen, controllers })
    }

    /// Waits until each controller has read the requested number of ConfigMaps in this round.
    pub(crate) async fn wait(&self, ask: &Ask) -> anyhow::Result<Reply> {
        self.seen.wait_for(ask.number("count")? * self.controllers, ask.number("round")? as u64).await;
        Ok(self.seen.count())
    }

    /// Returns and clears the reads.
    pub(crate) fn reads(&self) -> Reply {
        self.seen.reads()
    }
}
