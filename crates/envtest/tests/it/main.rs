//! Environments as tests of operators use them.
#![expect(clippy::unwrap_used, reason = "a test that meets an error has failed")]

mod environment;
mod operator;
mod users;
mod webhooks;
