//! Builtin kinds: data files, and by hand what no data file says.

mod columns;
pub(crate) mod data;
mod kinds;
mod message;

pub(crate) use data::{has_kind, message, message_of_kind};
pub(crate) use kinds::{group_rank, schemas, served};
pub(crate) use message::{Count, Field, Message, Type};
