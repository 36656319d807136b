//! `cargo run -p leader-election`: kills and then stops the leader of two replicas, and prints how long each takeover took.

mod candidate;
mod demonstration;

use std::{process::ExitCode, time::Duration};

use clap::Parser;
use controller_runtime::{
    leader_election::{Timing, TimingError},
    manager::Flags,
};

/// Shows a leader election between two processes on an embedded API server.
///
/// With --candidate the program is one of these processes, or the operator in a pod: see manifests/.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// Run a single candidate with this name, on the cluster of --kubeconfig
    #[arg(long, value_name = "NAME")]
    candidate: Option<String>,
    /// Use a fifth of the default durations: a lease of 3 s instead of 15 s
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    manager: Flags,
}

impl Args {
    fn timing(&self) -> Result<Timing, TimingError> {
        let divisor = if self.quick { 5 } else { 1 };
        let [lease, renew, retry] = [15, 10, 2].map(|seconds| Duration::from_secs(seconds) / divisor);
        Timing::try_new(lease, renew, retry)
    }
}

/// Name of the lease.
const LEASE: &str = "leader-election.example.com";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: &Args) -> anyhow::Result<()> {
    args.manager.init_logging()?;
    match &args.candidate {
        Some(name) => candidate::run(args, name).await,
        None => demonstration::run(args.quick).await.map(drop),
    }
}
