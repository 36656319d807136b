//! Controllers that record the round of the ConfigMap of each reconcile.

use std::sync::Arc;

use bench_peer::messages::Seen;
use bench_peer::{Ask, Reply};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::controller::Config;
use kube::runtime::{Controller, watcher};
use kube::{Api, Client};
use tokio::task::JoinSet;

use crate::controllers::run;

pub(crate) struct Messages {
    seen: Seen,
    controllers: usize,
}

impl Messages {
    pub(crate) fn start(client: Client, ask: &Ask, running: &mut JoinSet<()>) -> anyhow::Result<Self> {
        let (seen, controllers) = (Seen::default(), ask.number("controllers")?);
        let workers = u16::try_from(ask.number("workers")?)?;
        for number in 0..controllers {
            let maps = Api::<ConfigMap>::all(client.clone());
            let controller = Controller::new(maps, watcher::Config::default())
                .with_config(Config::default().concurrency(workers));
            let seen = seen.clone();
            run(controller, running, move |map: Arc<ConfigMap>| {
                seen.reconciled(number, &map);
                async { Ok(()) }
            });
        }
        Ok(Self { seen, controllers })
    }

    pub(crate) async fn wait(&self, ask: &Ask) -> anyhow::Result<Reply> {
        self.seen.wait_for(ask.number("count")? * self.controllers, ask.number("round")? as u64).await;
        Ok(self.seen.count())
    }

    /// Returns and clears the reads.
    pub(crate) fn reads(&self) -> Reply {
        self.seen.reads()
    }
}
