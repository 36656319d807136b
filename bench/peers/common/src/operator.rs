//! A program that contains only the guestbook operator, as it would be deployed. Other code would add to its memory, and in a pod
//! there is no kubeconfig to parse.

use kube::Config;
use tokio::task::JoinSet;

use crate::{Ask, Peer, Reply, Requests, config_in_pod, serve};

/// Serves the steps of an operator; `start` starts it.
///
/// # Errors
///
/// See [`serve`].
pub async fn serve_operator(
    start: impl Fn(Config, &Requests, &mut JoinSet<()>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    serve(Operator { start, requests: Requests::default(), running: JoinSet::new() }).await
}

struct Operator<S> {
    start: S,
    requests: Requests,
    running: JoinSet<()>,
}

impl<S: Fn(Config, &Requests, &mut JoinSet<()>) -> anyhow::Result<()>> Peer for Operator<S> {
    async fn step(&mut self, ask: &Ask) -> anyhow::Result<Reply> {
        match &*ask.step {
            "guestbook.start" => {
                let config = config_in_pod(ask.text("host")?, ask.text("secrets")?)?;
                (self.start)(config, &self.requests, &mut self.running)?;
                Ok(Reply::done())
            }
            "requests" => Ok(Reply::figures([("requests", self.requests.sent())])),
            other => anyhow::bail!("{other}: this program is the operator alone"),
        }
    }
}
