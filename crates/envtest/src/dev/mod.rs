//! Development of an operator: an API server on loopback, sample objects, and a line of output for each burst of changes.
//!
//! The program `dev` of a project that `cargo operator new` made is a call of [`run`]. `cargo operator dev` starts the same program with
//! the variable `OPERATOR_SESSION`: [`run`] then runs a [`Session`] and carries out requests from its standard input, while `cargo
//! operator` builds and restarts the operator.
//!
//! It never connects to another cluster: neither `$KUBECONFIG` nor `~/.kube/config` is read.

mod apply;
mod change_lines;
mod driven_session;
mod program;
mod progress;
mod session;
mod session_protocol;

use std::{io, path::PathBuf};

pub use self::{
    apply::ApplyError,
    program::{Rendered, SessionFlags, run},
    progress::Progress,
    session::{KindCount, PreviousObjects, Session, SessionOptions},
};
use crate::CrdError;

/// Failure of a development session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DevError {
    /// Another session uses the folder.
    #[error("another session of this project uses {}: end it first", .0.display())]
    InUse(PathBuf),
    /// The API server does not listen.
    #[error(transparent)]
    Listen(#[from] kube_apiserver_embedded::ListenError),
    /// The file with the objects of the previous session cannot be used.
    #[error(transparent)]
    DataFile(#[from] kube_apiserver_embedded::DataFileError),
    /// The API server rejected a definition.
    #[error(transparent)]
    Definition(#[from] CrdError),
    /// A sample was not applied.
    #[error(transparent)]
    Sample(#[from] ApplyError),
    /// The API server refused a right of the operator.
    #[error("cannot apply the rights of the operator: {0}")]
    Grant(String),
    /// The manifests of the operator have no service account, or several.
    #[error("the manifests of the operator do not have exactly one ServiceAccount")]
    ServiceAccounts,
    /// A request to the API server failed.
    #[error("a request to the API server of the session failed: {0}")]
    Request(kube::Error),
    /// The answer of the operator's program is not that of a known version of controller-runtime.
    #[error("the operator's program printed its manifests in an unknown form: {0}")]
    Answer(String),
    /// A file could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// No port is free on loopback.
    #[error("no port is free on loopback: {0}")]
    Port(io::Error),
    /// The operating system has no random numbers, for the administrator's token.
    #[error("the operating system returned no random numbers: {0}")]
    Random(String),
}
