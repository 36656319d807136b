//! One candidate: a manager that takes part in the election, and what it does while it leads.

use controller_runtime::{
    Manager, leader_election,
    manager::{BoxError, Options, RunContext, Runnable},
};

use crate::{Args, LEASE};

/// Leads: in an operator, controllers would be here, and they need no line about elections.
struct Lead {
    name: String,
}

impl Runnable for Lead {
    fn name(&self) -> String {
        "lead".to_owned()
    }

    async fn start(&self, cx: RunContext) -> Result<(), BoxError> {
        let token = cx.fencing_token().unwrap_or_default();
        println!("{} leads; the lease has changed hands {token} times before", self.name);
        cx.shutdown().await;
        println!("{} finishes what it does", self.name);
        Ok(())
    }
}

/// Runs until SIGINT or SIGTERM.
pub(crate) async fn run(args: &Args, name: &str) -> anyhow::Result<()> {
    let manager = Manager::from_config(args.manager.config(None).await?, options(args)?)?;
    manager.add(Lead { name: name.to_owned() })?;
    Ok(manager.run_until_signal().await?)
}

/// Of a manager that stands for election.
fn options(args: &Args) -> anyhow::Result<Options> {
    let id = args.manager.leader_election_id.as_deref().unwrap_or(LEASE);
    let mut election = leader_election::Options::new(id).timing(args.timing()?);
    if let Some(namespace) = &args.manager.leader_election_namespace {
        election = election.namespace(namespace);
    }
    Ok(args.manager.options("leader-election", LEASE).leader_election(election))
}

/// The candidates in this process, and time that passes only while everybody waits.
#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser;
    use kube_envtest::{Environment, Rights};
    use tokio::{task::JoinSet, time::Instant};
    use tokio_util::sync::CancellationToken;

    use super::*;

    /// A candidate that has seen who leads.
    struct Candidate {
        manager: Manager,
        stop: CancellationToken,
        /// Its one task. Dropping it is what a kill looks like.
        task: JoinSet<()>,
    }

    impl Candidate {
        async fn start(rights: &Rights, env: &Environment, name: &str) -> Self {
            let args = Args::parse_from(["leader-election", "--health-probe-bind-address=0"]);
            let manager = Manager::new(rights.client(env.client()), options(&args).expect("good times"));
            manager.add(Lead { name: name.to_owned() }).expect("it has not stopped");
            let (stop, mut task, ready) = (CancellationToken::new(), JoinSet::new(), manager.ready());
            let run = manager.clone().run(stop.clone().cancelled_owned());
            task.spawn(async { run.await.expect("it ends well") });
            ready.await.expect("a candidate is ready, whether it leads or not");
            Self { manager, stop, task }
        }

        /// Waits until it leads, and tells how long that took.
        async fn leads(&self) -> Duration {
            let began = Instant::now();
            let mut leads = self.manager.leads();
            let led = tokio::time::timeout(Duration::from_secs(60), leads.wait_for(|leads| *leads));
            led.await.expect("it leads within a minute").expect("it runs");
            began.elapsed()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn candidates_replace_each_other_by_the_rights_of_the_manifests_alone() {
        let env = Environment::builder().start().await.expect("an API server starts");
        let manifests = include_str!("../manifests/rbac.yaml");
        let rights = Rights::of_manifests(manifests, "default").expect("manifests");
        let one = Candidate::start(&rights, &env, "one").await;
        one.leads().await;
        let mut two = Candidate::start(&rights, &env, "two").await;
        drop(one);
        let killed = two.leads().await;
        assert!((13..20).contains(&killed.as_secs()), "the lease of 15 s ran out: {killed:?}");

        let three = Candidate::start(&rights, &env, "three").await;
        two.stop.cancel();
        let stopped = three.leads().await;
        assert!(stopped < Duration::from_secs(1), "the lease was given back: {stopped:?}");
        two.task.join_next().await.expect("one task").expect("it ends well");
        // An event is repeated only by who becomes leader again within minutes.
        assert_eq!(rights.unused(), ["patch events.events.k8s.io"]);
    }
}
