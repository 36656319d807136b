//! A Guestbook operator: `cargo run -p guestbook`.
//!
//! A [`Guestbook`](api::Guestbook) is a web page served by a Deployment. The controller owns that Deployment and a
//! ConfigMap with the page, and reports in the status whether both exist as specified. It retries with back-off while the
//! theme of a Guestbook does not exist, and archives the greeting before a Guestbook is deleted.
//!
//! Modules in reading order: [`api`] (the kind), [`controller`] (the part to copy), `children` (the owned objects),
//! [`demonstration`], [`progress`] (the output of the demonstration) and [`cluster`] (embedded or existing cluster).

pub mod api;
mod children;
pub mod cluster;
pub mod controller;
pub mod demonstration;
pub mod progress;
