//! A candidate: a manager that takes part in a leader election, and a runnable that runs while it leads.

use controller_runtime::{
    BoxError, Manager, ManagerOptions,
    leader_election::LeaderElectionOptions,
    manager::{RunContext, Runnable},
};

use crate::{Args, LEASE};

/// Runs while this process leads. An operator has controllers here, which need no code for leader election.
struct LeaderTask {
    name: String,
}

impl Runnable for LeaderTask {
    fn name(&self) -> String {
        "lead".to_owned()
    }

    async fn start(&self, cx: RunContext) -> Result<(), BoxError> {
        let token = cx.fencing_token().unwrap_or_default();
        println!("{} leads; the lease had {token} changes of holder before", self.name);
        // A real task would work here. The manager ends it when the lease is lost or the candidate stops.
        cx.shutdown().await;
        println!("{} is stopping", self.name);
        Ok(())
    }
}

/// Runs a candidate until SIGINT or SIGTERM.
pub(crate) async fn run(args: &Args, name: &str) -> anyhow::Result<()> {
    let manager = Manager::from_config(args.manager.config(None).await?, options(args)?)?;
    manager.add(LeaderTask { name: name.to_owned() })?;
    Ok(manager.run_until_signal().await?)
}

/// Options of a manager that takes part in the election.
fn options(args: &Args) -> anyhow::Result<ManagerOptions> {
    let id = args.manager.leader_election_id.as_deref().unwrap_or(LEASE);
    let mut election = LeaderElectionOptions::new(id).timing(args.timing()?);
    if let Some(namespace) = &args.manager.leader_election_namespace {
        election = election.namespace(namespace);
    }
    Ok(args.manager.options("leader-election", LEASE).leader_election(election))
}

/// Several candidates in this process, in paused time.
#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser;
    use k8s_openapi::api::coordination::v1::Lease;
    use kube::Api;
    use kube_envtest::{Environment, Operator, Rights, eventually_object};
    use kube_simulator::{Explore, Now, Simulation};
    use tokio::time::Instant;

    use super::*;

    /// Starts a candidate and waits until it is ready, as leader or standby.
    async fn candidate(client: kube::Client, name: &'static str) -> Operator {
        let mut candidate = Operator::new(client, move |instance| async move {
            let args = Args::parse_from(["leader-election", "--health-probe-bind-address=0"]);
            let manager = Manager::new(instance.client(), options(&args)?);
            manager.add(LeaderTask { name: name.to_owned() })?;
            Ok(instance.run(manager.ready(), manager.run(instance.stopped())).await?)
        });
        candidate.start().await.expect("it becomes ready");
        candidate
    }

    /// Waits for a leader other than `before`, and returns its identity.
    async fn leader_after(leases: &Api<Lease>, before: &str) -> String {
        let leads = |lease: &Lease| {
            let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.clone());
            holder
                .filter(|holder| !holder.is_empty() && holder != before)
                .ok_or("no other candidate leads".to_owned())
        };
        eventually_object(leases, LEASE, Duration::from_secs(60), leads).await.expect("a leader")
    }

    #[tokio::test(start_paused = true)]
    async fn candidates_replace_each_other_by_the_rights_of_the_manifests_alone() {
        let env = Environment::builder().start().await.expect("an API server starts");
        let manifests = include_str!("../manifests/rbac.yaml");
        let rights = Rights::of_manifests(manifests, "default").expect("manifests");
        let client = || rights.client(env.client());
        let leases = Api::<Lease>::default_namespaced(env.client());
        let mut one = candidate(client(), "one").await;
        let first = leader_after(&leases, "").await;
        let mut two = candidate(client(), "two").await;
        let began = Instant::now();
        one.crash().await;
        let second = leader_after(&leases, &first).await;
        let crashed = began.elapsed();
        assert!((13..20).contains(&crashed.as_secs()), "the lease of 15 s ran out: {crashed:?}");

        let _three = candidate(client(), "three").await;
        let began = Instant::now();
        two.stop().await.expect("it ends well");
        leader_after(&leases, &second).await;
        let stopped = began.elapsed();
        assert!(stopped < Duration::from_secs(1), "the lease was given back: {stopped:?}");
        // An event is repeated only if the same candidate becomes leader again within minutes.
        assert_eq!(rights.unused(), ["patch events.events.k8s.io"]);
    }

    /// The leader crashes at each of its actions, and the standby must lead when no task can run any more.
    #[test]
    fn a_candidate_leads_again_after_each_crash() {
        let candidate = |client: kube::Client| {
            let args = Args::parse_from(["leader-election", "--health-probe-bind-address=0"]);
            let manager = Manager::new(client, options(&args).expect("valid flags"));
            manager
                .add(LeaderTask { name: "candidate".to_owned() })
                .expect("the manager has no other runnable");
            manager
        };
        let is_led = |now: &Now<'_>| {
            let holder = |lease: &Lease| lease.spec.as_ref().and_then(|spec| spec.holder_identity.clone());
            now.all::<Lease>().iter().any(|lease| holder(lease).is_some_and(|holder| !holder.is_empty()))
        };
        Simulation::of("leader-election", candidate)
            .replicas(2)
            .step("time passes", async |_| Ok::<_, BoxError>(()))
            .eventually("a candidate leads", is_led)
            .explore(Explore::all());
    }
}
