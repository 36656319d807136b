//! Parts of a response: its body, and warnings in its headers.

mod body;
pub(crate) mod stalled_stream;
mod warnings;

pub use body::ResponseBody;
pub(crate) use warnings::Warnings;
