//! The program as a user runs it.

mod new;
mod support;
