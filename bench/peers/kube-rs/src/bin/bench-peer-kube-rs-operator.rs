//! A program that contains only the guestbook operator.

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
