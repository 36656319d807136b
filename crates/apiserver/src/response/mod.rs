//! Parts of a response: its body, and warnings in its headers.

mod response_body;
pub(crate) mod stalled_stream;
mod warnings;

pub use response_body::ResponseBody;
pub(crate) use warnings::Warnings;
