//! States of objects: decoded metadata, and the rest as text that is compressed or decoded on demand.

pub(super) mod budget;
pub(super) mod changed_texts;
pub(super) mod compression;
pub(crate) mod decode_error;
pub(super) mod decode_list;
pub(super) mod decoded_object;
pub(super) mod dictionary;
pub(crate) mod event;
pub(super) mod incoming_object;
pub(crate) mod lazy;
pub(super) mod object_codec;
pub(super) mod reads;
pub(super) mod retain;
pub(crate) mod split;
pub(super) mod stats;
pub(super) mod stored_text;
pub(super) mod transform;
pub(super) mod uncompressed_queue;
