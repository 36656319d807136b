//! A Kubernetes API server inside your process.
#![expect(
    dead_code,
    unused_imports,
    reason = "skeleton: removed when the modules are wired together"
)]

mod builtin;
mod clock;
mod crd;
mod discovery;
mod gc;
mod managed_fields;
mod namespaces;
mod openapi;
mod patch;
mod path;
mod protobuf;
mod registry;
mod request;
mod resource;
mod schema;
mod selection;
mod selector;
mod server;
mod status;
mod store;
mod table;
#[cfg(test)]
mod testing;
mod verbs;

pub use server::{ApiServer, ApiService, ListenError, Listener, Options, Profile, ResponseBody};
