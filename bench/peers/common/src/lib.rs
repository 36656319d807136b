//! Shared parts of the Rust peers: protocol, clocks and objects. The Go peer implements the same in Go.

pub mod clock;
pub mod guestbook;
pub mod messages;
mod operator;
mod requests;
mod serve;
mod succeeded;
mod timing;

pub use operator::serve_operator;
pub use requests::{Requests, config, config_in_pod};
pub use serve::{Ask, Peer, Reply, serve};
pub use succeeded::Succeeded;
pub use timing::{once, per};
