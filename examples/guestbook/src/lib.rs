//! A Guestbook operator: `cargo run -p guestbook`.
//!
//! A [`Guestbook`](api::Guestbook) is a page served by a Deployment. Its controller owns that Deployment and a
//! ConfigMap with the page, reports in the status whether both exist as specified, archives the greeting before a
//! Guestbook goes, and retries with growing delays while something is missing.
//!
//! Read on in this order: [`api`] (the kind), [`controller`] (the operator: this is the part to copy), then [`play`]
//! (the demonstration), [`narrator`] (how it is shown) and [`cluster`] (where it runs).

pub mod api;
mod children;
pub mod cluster;
pub mod controller;
pub mod narrator;
pub mod play;
