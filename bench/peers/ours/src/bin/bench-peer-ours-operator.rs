//! The operator of guestbooks by itself.

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
