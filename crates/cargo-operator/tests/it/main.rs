//! The program as a user runs it.

mod api;
mod ask;
mod bad_input;
mod dev;
mod explain;
mod import;
mod new;
mod reference;
mod support;
mod tutorial;
mod upgrade;
