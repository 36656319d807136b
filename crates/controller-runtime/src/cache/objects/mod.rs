//! States of objects: decoded metadata, and the rest as text that is compressed or decoded on demand.

pub(super) mod arrival;
pub(super) mod budget;
pub(super) mod changed;
pub(super) mod decode_error;
pub(super) mod hot;
pub(super) mod inlet;
pub(super) mod lazy;
pub(super) mod many;
pub(super) mod meta;
pub(super) mod pack;
pub(super) mod reads;
pub(super) mod recent;
pub(super) mod retain;
pub(super) mod scan;
pub(super) mod shelf;
pub(super) mod split;
pub(super) mod stats;
pub(super) mod transform;
