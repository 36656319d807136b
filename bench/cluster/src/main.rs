//! The cluster process of the benchmark: runs an API server, creates objects and changes them. It speaks the protocol of the
//! peers and is a process of its own, so that its CPU time counts neither for them nor for the server.

mod bare_watch;
mod guestbooks;
mod link;
mod messages;
mod pod;
mod pods;
mod server;
mod sites;

use anyhow::Context as _;
use bench_peer::{Ask, Peer, Reply, serve};
use futures::{StreamExt as _, TryStreamExt as _};

use crate::bare_watch::BareWatch;
use crate::link::Link;
use crate::server::Server;
use crate::sites::Webhooks;

/// Limit of concurrent requests.
const CONNECTIONS: usize = 8;

/// Runs on a single thread: with several, wake-ups would take processor time from the peer.
#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    serve(Cluster::default()).await
}

#[derive(Default)]
struct Cluster {
    server: Option<Server>,
    /// A started watch; its events have not been collected yet.
    watch: Option<BareWatch>,
    link: Option<Link>,
    webhooks: Option<Webhooks>,
}

impl Peer for Cluster {
    async fn step(&mut self, ask: &Ask) -> anyhow::Result<Reply> {
        if ask.step == "cluster.start" {
            let server = self.server.insert(Server::start(ask).await?);
            return Ok(server.describe());
        }
        let server = self.server.as_ref().context("cluster.start comes first")?;
        let client = server.client();
        match &*ask.step {
            "pod.mount" => pod::mount(server).await,
            "pods.create" => pods::create(client, ask.number("count")?).await,
            "pods.touch" => pods::touch(client, ask.number("count")?).await,
            "messages.create" => messages::create(client, ask.number("count")?).await,
            "messages.round" => messages::round(client, ask).await,
            "messages.watch" => {
                let count = ask.number("count")?;
                self.watch = Some(BareWatch::start(client, server.kubeconfig(), count).await?);
                Ok(Reply::done())
            }
            "messages.paced" => {
                messages::paced(client, self.watch.take().context("messages.watch comes first")?, ask).await
            }
            "link.start" => {
                let link = self.link.insert(Link::start(server).await?);
                Ok(Reply::figures([("kubeconfig", link.kubeconfig().display().to_string())]))
            }
            "link.down" => Ok(self.link()?.set_up(false)),
            "link.up" => Ok(self.link()?.set_up(true)),
            "link.silence" => Ok(self.link()?.fall_silent()),
            "sites.prepare" => {
                let (webhooks, reply) = Webhooks::prepare(server.files())?;
                self.webhooks = Some(webhooks);
                Ok(reply)
            }
            "sites.define" => self.webhooks()?.define(client).await,
            "sites.configure" => self.webhooks()?.configure(client).await,
            "sites.create" => sites::create(client, ask).await,
            "sites.paced" => sites::paced(client, ask).await,
            "sites.convert" => sites::convert(client, ask).await,
            "sites.review" => self.webhooks()?.review(&client, ask).await,
            "guestbooks.create" => guestbooks::create(client, ask.number("count")?).await,
            "guestbooks.wait" => guestbooks::wait(client, ask.number("count")?).await,
            "guestbooks.delete" => guestbooks::delete(client).await,
            other => anyhow::bail!("{other}: no such step"),
        }
    }
}

impl Cluster {
    fn link(&self) -> anyhow::Result<&Link> {
        self.link.as_ref().context("link.start comes first")
    }

    fn webhooks(&self) -> anyhow::Result<&Webhooks> {
        self.webhooks.as_ref().context("sites.prepare comes first")
    }
}

/// Calls `send` for each number, in order, with at most [`CONNECTIONS`] requests at a time.
async fn each<F>(
    numbers: impl IntoIterator<Item = usize>,
    send: impl Fn(usize) -> F,
) -> Result<(), kube::Error>
where
    F: Future<Output = Result<(), kube::Error>>,
{
    futures::stream::iter(numbers).map(send).buffer_unordered(CONNECTIONS).try_collect().await
}
