//! Rules of kinds: one strategy for plain builtin kinds, one for each kind with rules of its own, and one for custom kinds.

pub(crate) mod builtin;
pub(crate) mod custom;
pub(crate) mod definition;
pub(crate) mod namespace;
mod webhook_reference;
