//! Kinds as data: their resources, the registry of the served ones, and the interface of their rules.

pub(crate) mod builtin_versions;
pub(crate) mod match_condition;
pub(crate) mod registry;
pub(crate) mod resource;
mod served_kind;
pub(crate) mod storage_version;
mod strategy;
pub(crate) mod webhook_conversion;

pub(crate) use strategy::{Allocator, STATUS_METADATA, Strategy, Unallocated, WHOLE_METADATA, WriteContext};
