//! What the Rust peers of the side-by-side benchmark have in common: the protocol, the clocks, and the objects that they
//! work on. The peer in Go has the same in Go.

pub mod clock;
pub mod guestbook;
pub mod messages;
mod operator;
mod requests;
mod serve;
mod succeeded;

pub use operator::serve_operator;
pub use requests::{Requests, config, config_in_pod};
pub use serve::{Ask, Peer, Reply, serve};
pub use succeeded::Succeeded;
