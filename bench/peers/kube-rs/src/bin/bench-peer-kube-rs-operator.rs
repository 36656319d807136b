//! The operator of guestbooks by itself.

#[path = "../controllers.rs"]
mod controllers;
#[path = "../guestbook.rs"]
mod guestbook;

use bench_peer::serve_operator;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    serve_operator(|config, requests, running| {
        guestbook::start(requests.connected(config)?, running);
        Ok(())
    })
    .await
}
