//! A Kubernetes API server inside your process.
#![expect(
    dead_code,
    unused_imports,
    reason = "skeleton: removed when the modules are wired together"
)]

mod clock;
mod patch;
mod path;
mod resource;
mod schema;
mod status;
#[cfg(test)]
mod testing;
