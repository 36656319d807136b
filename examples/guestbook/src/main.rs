//! `cargo run -p guestbook`: see README.md in this folder.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    process::ExitCode,
};

use clap::Parser;
use controller_runtime::{
    Manager, ManagerOptions,
    logging::{self, LogOptions},
    manager::Signals,
};
use guestbook::{
    cluster::Cluster,
    controller,
    demonstration::{self, DemoGuestbooks},
    progress::Progress,
};
use tokio_util::sync::CancellationToken;
use tracing::level_filters::LevelFilter;

/// Runs the Guestbook operator.
///
/// Without arguments it starts an embedded API server, demonstrates the life of three Guestbooks, and serves until
/// Ctrl-C. With --kubeconfig or --context it runs as an operator on that cluster, without the demonstration.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// Exit after the demonstration, with code 0 if every Guestbook reached its state
    #[arg(long)]
    once: bool,
    /// Run on the cluster of this kubeconfig
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Run on the cluster of this context (of --kubeconfig, $KUBECONFIG or ~/.kube/config)
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Also run the demonstration on an existing cluster: creates and changes three Guestbooks, and deletes one
    #[arg(long)]
    demo: bool,
    /// Address of the embedded API server; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS", default_value_t = SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))]
    listen: SocketAddr,
    /// Folder with the three Guestbooks of the demonstration
    #[arg(long, value_name = "FOLDER", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/guestbooks"))]
    guestbooks: PathBuf,
}

impl Args {
    fn on_existing_cluster(&self) -> bool {
        self.kubeconfig.is_some() || self.context.is_some()
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args = Args::parse();
    if let Err(error) = init_logs(&args) {
        eprintln!("error: {error}");
        return ExitCode::FAILURE;
    }
    match run(args).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Sets up logging at the levels of `RUST_LOG`. The default is INFO for an operator on a cluster, and no log during the
/// demonstration.
fn init_logs(args: &Args) -> Result<(), logging::InitError> {
    let logs = args.on_existing_cluster() && !args.demo;
    let level = if logs { LevelFilter::INFO } else { LevelFilter::OFF };
    logging::init(&LogOptions::default().level(level))
}

async fn run(args: Args) -> anyhow::Result<()> {
    let runs_demo = args.demo || !args.on_existing_cluster();
    if args.once && !runs_demo {
        anyhow::bail!(
            "--once exits after the demonstration, which does not run on an existing cluster: add --demo, or remove \
             --once"
        );
    }
    let guestbooks = if runs_demo { Some(DemoGuestbooks::read(&args.guestbooks)?) } else { None };
    let progress = Progress::new();
    let cluster = if args.on_existing_cluster() {
        Cluster::existing(args.kubeconfig.as_deref(), args.context.clone()).await?
    } else {
        Cluster::embedded(args.listen).await?
    };
    progress.step("CustomResourceDefinition guestbooks.example.com is installed");

    let manager = Manager::new(cluster.client.clone(), ManagerOptions::new("guestbook-operator"));
    controller::add_to(&manager)?;
    if runs_demo {
        progress.add_to(&manager)?;
    }

    let stop = CancellationToken::new();
    let ready = manager.ready();
    let namespace = cluster.client.default_namespace().to_owned();
    let client = cluster.client.clone();
    let serve = async {
        // Also stops the manager if the demonstration fails.
        let _stop_when_done = stop.clone().drop_guard();
        if ready.await.is_err() {
            return Ok(()); // the manager's own error has the reason
        }
        if let Some(guestbooks) = guestbooks {
            demonstration::run(guestbooks, client, &namespace, &progress).await?;
            progress.finish();
            progress.plain("every Guestbook reached its state");
        }
        if !args.once {
            progress.plain(&next_command(&cluster));
            terminated().await?;
            progress.plain("stopping");
        }
        Ok(())
    };
    let managed = async {
        let result = manager.run(stop.cancelled()).await;
        stop.cancel();
        result
    };
    let (managed, served) = tokio::join!(managed, until_stopped(&stop, args.once, serve));
    managed?;
    served
}

/// Waits for `serve` until it completes, the manager ends, or the user interrupts the program.
async fn until_stopped(
    stop: &CancellationToken,
    once: bool,
    serve: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<()> {
    tokio::select! {
        biased;
        done = serve => done,
        () = stop.cancelled() => Ok(()),
        signal = terminated() => {
            stop.cancel();
            signal?;
            anyhow::ensure!(!once, "interrupted before every Guestbook reached its state");
            Ok(())
        }
    }
}

/// Returns the last line of the output: a command for the user to try next.
fn next_command(cluster: &Cluster) -> String {
    match &cluster.embedded {
        Some(embedded) => format!(
            "try: kubectl --kubeconfig {} get guestbooks\nserving until Ctrl-C",
            embedded.kubeconfig.display()
        ),
        None => "working until Ctrl-C".to_owned(),
    }
}

/// Completes at Ctrl-C or SIGTERM.
async fn terminated() -> io::Result<()> {
    Signals::listen()?.next().await;
    Ok(())
}
