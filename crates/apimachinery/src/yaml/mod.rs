//! YAML as `sigs.k8s.io/yaml` reads and writes it.

mod read;
mod write;

pub use read::{read, strict_error};
pub use write::{write, write_compact};
