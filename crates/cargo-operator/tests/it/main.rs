//! The program as a user runs it.

mod api;
mod ask;
mod new;
mod support;
