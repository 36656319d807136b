//! Kubernetes controllers in Rust.
