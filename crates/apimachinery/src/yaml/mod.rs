//! YAML as `sigs.k8s.io/yaml` reads and writes it.

mod key_order;
mod node_parser;
mod plain_type;
mod read;
mod scalar_scanner;
mod scalar_style;
mod tag_scanner;
mod text_cursor;
mod token_scanner;
mod typed_value;
mod write;

pub use read::{CONVERSION, read, strict_error};
pub use write::{check_writable, write, write_compact};
