//! This repository's peer: reads steps from standard input and prints figures. See `bench/README.md`.

mod cache;
mod leader;
mod manager;
mod messages;
mod outage;
mod queue;
mod webhooks;

use anyhow::Context as _;
use bench_peer::{Ask, Peer, Reply, Requests, Succeeded, config, serve};
use tokio::task::JoinSet;

use self::manager::Unstarted;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    serve(Ours::default()).await
}

/// Everything started so far. It runs until the process ends.
#[derive(Default)]
struct Ours {
    requests: Requests,
    cache: Option<cache::PodCache>,
    messages: Option<messages::Messages>,
    leader: Option<leader::Candidate>,
    outage: Option<Succeeded>,
    request: Option<outage::Request>,
    running: JoinSet<()>,
}

impl Peer for Ours {
    async fn step(&mut self, ask: &Ask) -> anyhow::Result<Reply> {
        if let Some(workload) = ask.step.strip_prefix("queue.") {
            return queue::run(workload, ask.number("keys")?).await;
        }
        match &*ask.step {
            "cache.start" => {
                let started = cache::PodCache::start(self.manager(ask).await?, ask, &mut self.running);
                let (cache, reply) = started.await?;
                self.cache = Some(cache);
                Ok(reply)
            }
            "cache.read" => self.cache.as_ref().context("cache.start comes first")?.read(),
            "cache.wait" => self.cache.as_ref().context("cache.start comes first")?.wait(ask).await,
            "messages.start" => {
                let manager = self.manager(ask).await?;
                self.messages = Some(messages::Messages::start(manager, ask, &mut self.running).await?);
                Ok(Reply::done())
            }
            "messages.wait" => self.messages.as_ref().context("messages.start comes first")?.wait(ask).await,
            "messages.reads" => Ok(self.messages.as_ref().context("messages.start comes first")?.reads()),
            "leader.start" => {
                let manager = self.manager(ask).await?;
                self.leader = Some(leader::Candidate::start(manager, ask, &mut self.running)?);
                Ok(Reply::done())
            }
            "leader.wait" => self.leader.as_mut().context("leader.start comes first")?.wait().await,
            "outage.start" => {
                self.outage = Some(outage::start(
                    self.manager(ask).await?,
                    self.through(ask).await?,
                    &mut self.running,
                )?);
                Ok(Reply::done())
            }
            "outage.wait" => self.outage.as_ref().context("outage.start comes first")?.wait(ask).await,
            "request.start" => {
                self.request = Some(outage::Request::start(self.manager(ask).await?).await?);
                Ok(Reply::done())
            }
            "request.again" => Ok(self.request.as_ref().context("request.start comes first")?.again().await),
            "webhooks.start" => {
                webhooks::start(self.manager(ask).await?, ask, &mut self.running)?;
                Ok(Reply::done())
            }
            // Freed memory stays with the allocator, as in a user's program.
            "settle" => Ok(Reply::done()),
            "requests" => Ok(Reply::figures([("requests", self.requests.sent())])),
            other => anyhow::bail!("{other}: no such step"),
        }
    }
}

impl Ours {
    async fn manager(&self, ask: &Ask) -> anyhow::Result<Unstarted> {
        Unstarted::new(config(ask.text("kubeconfig")?).await?, &self.requests)
    }

    /// A manager that reaches the cluster through the relay.
    async fn through(&self, ask: &Ask) -> anyhow::Result<Unstarted> {
        Unstarted::new(config(ask.text("through")?).await?, &self.requests)
    }
}
