//! The operator of guestbooks by itself, as it is deployed: what a program has in memory is what runs and the code around that.

#[path = "../guestbook.rs"]
mod guestbook;
#[path = "../manager.rs"]
mod manager;

use bench_peer::{Ask, Peer, Reply, Requests, serve};
use tokio::task::JoinSet;

use self::manager::Unstarted;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    serve(Operator::default()).await
}

#[derive(Default)]
struct Operator {
    requests: Requests,
    running: JoinSet<()>,
}

impl Peer for Operator {
    async fn step(&mut self, ask: &Ask) -> anyhow::Result<Reply> {
        match &*ask.step {
            "guestbook.start" => {
                guestbook::start(Unstarted::new(&self.requests, ask).await?, &mut self.running)?;
                Ok(Reply::done())
            }
            "requests" => Ok(Reply::figures([("requests", self.requests.sent())])),
            other => anyhow::bail!("{other}: this program is the operator alone"),
        }
    }
}
