//! A Kubernetes API server inside your process.
#![expect(
    dead_code,
    unused_imports,
    reason = "skeleton: removed when the modules are wired together"
)]

mod builtin;
mod clock;
mod discovery;
mod patch;
mod path;
mod protobuf;
mod resource;
mod schema;
mod selector;
mod status;
mod table;
#[cfg(test)]
mod testing;
