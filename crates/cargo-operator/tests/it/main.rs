//! The program as a user runs it.

mod ask;
mod new;
mod support;
