//! The kube-rs peer: `kube::runtime` with its defaults. See `bench/README.md`.

mod cache;
mod controllers;
mod messages;
mod outage;
mod queue;

use std::sync::Arc;

use anyhow::Context as _;
use bench_peer::{Ask, Peer, Reply, Requests, Succeeded, serve};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::runtime::controller::Controller;
use kube::runtime::watcher;
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::controllers::run;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    serve(KubeRs::default()).await
}

/// Everything started so far. It runs until the process ends.
#[derive(Default)]
struct KubeRs {
    requests: Requests,
    cache: Option<cache::PodCache>,
    messages: Option<messages::Messages>,
    first: Option<watch::Receiver<bool>>,
    outage: Option<Succeeded>,
    request: Option<outage::Request>,
    running: JoinSet<()>,
}

impl Peer for KubeRs {
    async fn step(&mut self, ask: &Ask) -> anyhow::Result<Reply> {
        if let Some(workload) = ask.step.strip_prefix("queue.") {
            return queue::run(workload, ask.number("keys")?).await;
        }
        match &*ask.step {
            "cache.start" => {
                let client = self.client(ask).await?;
                let (cache, reply) = cache::PodCache::start(client, &mut self.running).await?;
                self.cache = Some(cache);
                Ok(reply)
            }
            "cache.read" => self.cache.as_ref().context("cache.start comes first")?.read(),
            "cache.wait" => self.cache.as_ref().context("cache.start comes first")?.wait(ask).await,
            "messages.start" => {
                let client = self.client(ask).await?;
                self.messages = Some(messages::Messages::start(client, ask, &mut self.running)?);
                Ok(Reply::done())
            }
            "messages.wait" => self.messages.as_ref().context("messages.start comes first")?.wait(ask).await,
            "messages.reads" => Ok(self.messages.as_ref().context("messages.start comes first")?.reads()),
            "leader.start" if ask.text("variant")? == "elected" => {
                Ok(Reply::Unsupported("kube-rs has no leader election"))
            }
            "leader.start" => {
                self.first = Some(first_reconcile(self.client(ask).await?, &mut self.running));
                Ok(Reply::done())
            }
            "leader.wait" => {
                let first = self.first.as_mut().context("leader.start comes first")?;
                first.wait_for(|reconciled| *reconciled).await?;
                Ok(Reply::done())
            }
            "outage.start" => {
                self.outage =
                    Some(outage::start(self.client(ask).await?, self.through(ask).await?, &mut self.running));
                Ok(Reply::done())
            }
            "outage.wait" => self.outage.as_ref().context("outage.start comes first")?.wait(ask).await,
            "request.start" => {
                self.request = Some(outage::Request::start(self.client(ask).await?).await?);
                Ok(Reply::done())
            }
            "request.again" => Ok(self.request.as_ref().context("request.start comes first")?.again().await),
            // Freed memory stays with the allocator, as in a user's program.
            "settle" => Ok(Reply::done()),
            "requests" => Ok(Reply::figures([("requests", self.requests.sent())])),
            other => anyhow::bail!("{other}: no such step"),
        }
    }
}

impl KubeRs {
    async fn client(&self, ask: &Ask) -> anyhow::Result<kube::Client> {
        self.requests.client(ask.text("kubeconfig")?).await
    }

    /// A client that reaches the cluster through the relay.
    async fn through(&self, ask: &Ask) -> anyhow::Result<kube::Client> {
        self.requests.client(ask.text("through")?).await
    }
}

/// Runs a controller; the channel holds whether it has reconciled.
fn first_reconcile(client: kube::Client, running: &mut JoinSet<()>) -> watch::Receiver<bool> {
    let (note, reconciled) = watch::channel(false);
    let controller = Controller::new(Api::<ConfigMap>::all(client), watcher::Config::default());
    run(controller, running, move |_: Arc<ConfigMap>| {
        note.send_replace(true);
        async { Ok(()) }
    });
    reconciled
}
