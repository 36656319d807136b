//! Projects as users have them: built, tested, run and upgraded. Cargo compiles the libraries for them once more, with the features that projects
//! choose, so these tests do not run with `cargo test`: see CONTRIBUTING.md.

mod dev;
mod manifests;
mod new_projects;
mod past_projects;
#[path = "../support/mod.rs"]
mod support;
mod tutorial;
mod workspace;
