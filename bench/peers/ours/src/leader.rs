//! A candidate for a lease, with a controller that shows when the process leads.

use bench_peer::{Ask, Reply};
use controller_runtime::{
    Action, Builder, Context, ObjectKey, ReconcileError, Reconciler, leader_election::LeaderElectionOptions,
    manager::Signals,
};
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::manager::Unstarted;

/// A running candidate. The channel holds whether its controller has run.
pub(crate) struct Candidate {
    reconciled: watch::Receiver<bool>,
}

struct Note(watch::Sender<bool>);

impl Reconciler for Note {
    type Request = ObjectKey<ConfigMap>;

    async fn reconcile(&self, _: &ObjectKey<ConfigMap>, _: &Context) -> Result<Action, ReconcileError> {
        self.0.send_replace(true);
        Ok(Action::done())
    }
}

impl Candidate {
    /// Runs a manager with leader election, until SIGTERM ends the process.
    pub(crate) fn start(manager: Unstarted, ask: &Ask, running: &mut JoinSet<()>) -> anyhow::Result<Self> {
        let election = LeaderElectionOptions::new("bench").namespace("default");
        let is_elected = ask.text("variant")? == "elected";
        let manager =
            manager.with(|options| if is_elected { options.leader_election(election) } else { options });
        let (note, reconciled) = watch::channel(false);
        Builder::managed_by(&manager).for_kind::<ConfigMap>().complete(Note(note))?;
        let mut signals = Signals::listen()?;
        running.spawn(async move {
            let result = manager.run(async move { signals.next().await }).await;
            std::process::exit(i32::from(result.is_err()));
        });
        Ok(Self { reconciled })
    }

    /// Waits for the first reconcile.
    pub(crate) async fn wait(&mut self) -> anyhow::Result<Reply> {
        self.reconciled.wait_for(|reconciled| *reconciled).await?;
        Ok(Reply::done())
    }
}
