//! A program that is the operator of guestbooks alone, as it is deployed: what a program has in memory is what runs and the
//! code around that.

use kube::Client;
use tokio::task::JoinSet;

use crate::{Ask, Peer, Reply, Requests, serve};

/// Serves the steps that an operator has, which `start` runs.
///
/// # Errors
///
/// Those of [`serve`].
pub async fn serve_operator(
    start: impl Fn(Client, &mut JoinSet<()>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    serve(Operator { start, requests: Requests::default(), running: JoinSet::new() }).await
}

struct Operator<S> {
    start: S,
    requests: Requests,
    running: JoinSet<()>,
}

impl<S: Fn(Client, &mut JoinSet<()>) -> anyhow::Result<()>> Peer for Operator<S> {
    async fn step(&mut self, ask: &Ask) -> anyhow::Result<Reply> {
        match &*ask.step {
            "guestbook.start" => {
                (self.start)(self.requests.client(ask.text("kubeconfig")?).await?, &mut self.running)?;
                Ok(Reply::done())
            }
            "requests" => Ok(Reply::figures([("requests", self.requests.sent())])),
            other => anyhow::bail!("{other}: this program is the operator alone"),
        }
    }
}
