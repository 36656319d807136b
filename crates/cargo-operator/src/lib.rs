//! `cargo operator`: creates and runs Kubernetes operators.
//!
//! The program only parses arguments and calls this library, so that its parts can be tested. Only an operator's own program knows
//! its kinds, rights and manifests: commands about them build and run that program.
//!
//! Modules in reading order: [`cli`] (arguments), [`failure`] and [`shell`] (output; `wrap` breaks lines), [`names`] (rules for names), [`library`] and
//! [`template`] (files of a new project), [`edit`] and [`mod@write`] (changes of files), [`new`], [`settings`] and [`project`] (the
//! operator's package and programs; `cargo_json` reads cargo's answers), [`api`] and [`webhook`] (additional code; `conversion` has the
//! text of a version), [`import`] (types of kinds that other programs define), [`dev`] (an API server that runs while the operator
//! changes), [`explain`] (why an object is not reconciled), [`ask`] (commands that the operator's program carries out), [`image`]
//! (container images), [`upgrade`] (versions of the libraries).

pub mod api;
pub mod ask;
mod baseline;
mod browser;
mod cargo_json;
pub mod cli;
mod conversion;
pub mod dev;
pub mod edit;
pub mod explain;
pub mod failure;
pub mod image;
pub mod import;
mod kubectl;
pub mod library;
pub mod names;
pub mod new;
mod program_options;
pub mod project;
pub mod settings;
pub mod shell;
pub mod template;
pub mod upgrade;
pub mod webhook;
mod wrap;
pub mod write;
