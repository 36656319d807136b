//! JSON texts: where values start and end, and the field where decoding failed.

pub(crate) mod path;
pub(crate) mod scan;
