//! The program as a user runs it.

mod api;
mod ask;
mod bad_input;
mod explain;
mod import;
mod new;
mod reference;
#[path = "../support/mod.rs"]
mod support;
