//! A program that contains only the guestbook operator.

#[path = "../guestbook.rs"]
mod guestbook;
#[path = "../manager.rs"]
mod manager;

use bench_peer::serve_operator;

use self::manager::Unstarted;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    serve_operator(|config, requests, running| guestbook::start(Unstarted::new(config, requests)?, running))
        .await
}
