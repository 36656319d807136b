//! `cargo run -p leader-election`: two processes of one operator. The leader is killed, then the next one is stopped; how
//! long the other took to lead is printed each time.

mod candidate;
mod play;

use std::{process::ExitCode, time::Duration};

use clap::Parser;
use controller_runtime::{
    leader_election::{InvalidTiming, Timing},
    manager::Flags,
};
use tracing_subscriber::EnvFilter;

/// Shows a leader election between two processes on an API server of its own.
///
/// With --candidate it is one of them, or the operator in a pod: see manifests/.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// Be one candidate of this name, on the cluster of --kubeconfig
    #[arg(long, value_name = "NAME")]
    candidate: Option<String>,
    /// A fifth of the usual times: a lease of 3 s instead of 15 s
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    manager: Flags,
}

impl Args {
    fn timing(&self) -> Result<Timing, InvalidTiming> {
        let divisor = if self.quick { 5 } else { 1 };
        let [lease, renew, retry] = [15, 10, 2].map(|seconds| Duration::from_secs(seconds) / divisor);
        Timing::try_new(lease, renew, retry)
    }
}

/// The lease for which the candidates compete.
const LEASE: &str = "leader-election.example.com";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args = Args::parse();
    let filter = EnvFilter::builder().with_default_directive(args.manager.zap_log_level.into());
    tracing_subscriber::fmt().with_env_filter(filter.from_env_lossy()).with_writer(std::io::stderr).init();
    let result = match args.candidate.clone() {
        Some(name) => candidate::run(&args, &name).await,
        None => play::run(args.quick).await.map(drop),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
