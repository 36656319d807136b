//! YAML as `sigs.k8s.io/yaml` reads and writes it.

mod key_order;
mod plain_type;
mod read;
mod scalar_style;
mod write;

pub use read::{CONVERSION, read, strict_error};
pub use write::{check, write, write_compact};
