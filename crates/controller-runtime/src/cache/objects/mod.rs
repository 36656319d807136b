//! States of objects: decoded metadata, and the rest as text that is compressed or decoded on demand.

pub(super) mod arrival;
pub(super) mod budget;
pub(super) mod changed;
pub(super) mod decode_error;
pub(crate) mod event;
pub(super) mod hot;
pub(super) mod inlet;
pub(super) mod lazy;
pub(super) mod many;
pub(super) mod pack;
pub(super) mod reads;
pub(super) mod recent;
pub(super) mod retain;
pub(super) mod shelf;
pub(crate) mod split;
pub(super) mod stats;
pub(super) mod transform;
