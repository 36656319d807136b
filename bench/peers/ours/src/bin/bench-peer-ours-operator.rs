//! The operator of guestbooks by itself.

#[path = "../guestbook.rs"]
mod guestbook;
#[path = "../manager.rs"]
mod manager;

use bench_peer::serve_operator;

use self::manager::Unstarted;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    serve_operator(|client, running| guestbook::start(Unstarted::with_client(client), running)).await
}
