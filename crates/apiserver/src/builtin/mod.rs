//! Builtin kinds: data files, and by hand what no data file says.

pub(crate) mod data;
mod message;

pub(crate) use data::{message, message_of_kind};
pub(crate) use message::{Count, Field, Message, Type};
