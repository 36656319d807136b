//! A Kubernetes API server inside your process.
#![expect(dead_code, reason = "skeleton: removed when the modules are wired together")]

mod clock;
mod resource;
mod status;
