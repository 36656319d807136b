//! One candidate: a manager that takes part in the election, and what it does while it leads.

use controller_runtime::{
    Manager, leader_election,
    manager::{BoxError, RunContext, Runnable},
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
    let client = args.manager.client().await?;
    let id = args.manager.leader_election_id.as_deref().unwrap_or(LEASE);
    let mut election = leader_election::Options::new(id).timing(args.timing()?);
    if let Some(namespace) = &args.manager.leader_election_namespace {
        election = election.namespace(namespace);
    }
    let options = args.manager.options("leader-election", LEASE).leader_election(election);
    let manager = Manager::new(client, options);
    manager.add(Lead { name: name.to_owned() })?;
    Ok(manager.run_until_signal().await?)
}
