//! Errors of a command.

use std::{error::Error, io, io::Write, panic::Location, path::Path};

use crate::{
    client::ConfigError,
    error::{BoxError, with_causes},
    manager::ManagerError,
    manifests::RenderError,
};

/// Error of registering the controllers and webhooks of an operator.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// A function of [`Operator::setup`](super::Operator::setup) failed.
    #[error("the setup function added at {place} failed")]
    Failed {
        /// Line that added the function.
        place: &'static Location<'static>,
        /// Error of the function.
        source: BoxError,
    },
    /// A function of [`Operator::setup`](super::Operator::setup) asked the API server where there is none.
    #[error("setup asked for {request} while manifests were printed: use DynamicKind, or ask in a reconcile")]
    Asked {
        /// Method and path of its first request.
        request: String,
    },
}

/// Reason why a command did not succeed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The command line is wrong, or asks for help.
    Usage(Box<clap::Error>),
    /// The command line is wrong for a reason that clap does not know.
    Arguments(String),
    /// The command failed.
    Failed(BoxError),
}

impl Failure {
    /// An error of reading or writing a file; `action` completes "cannot …".
    pub(super) fn file(action: &str, path: &Path, error: &io::Error) -> Self {
        Self::Failed(format!("cannot {action} {}: {error}", path.display()).into())
    }

    /// Exit code of the process.
    pub(super) fn code(&self) -> u8 {
        match self {
            // Help and version are answers.
            Self::Usage(error) => u8::try_from(error.exit_code()).unwrap_or(2),
            Self::Arguments(_) => 2,
            Self::Failed(_) => 1,
        }
    }

    /// Prints the reason, or the help that was asked for.
    pub(super) fn print(&self) -> io::Result<()> {
        match self {
            Self::Usage(error) => error.print(),
            Self::Arguments(reason) => writeln!(io::stderr(), "error: {reason}"),
            Self::Failed(error) => writeln!(io::stderr(), "error: {}", Causes(&**error)),
        }
    }
}

/// An error with its causes, separated by colons.
pub(super) struct Causes<'e>(pub(super) &'e dyn Error);

impl std::fmt::Display for Causes<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        with_causes(self.0, f)
    }
}

impl From<SetupError> for Failure {
    fn from(error: SetupError) -> Self {
        Self::Failed(error.into())
    }
}

impl From<RenderError> for Failure {
    fn from(error: RenderError) -> Self {
        Self::Failed(error.into())
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::Failed(error.into())
    }
}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Self {
        Self::Failed(error.into())
    }
}

impl From<ManagerError> for Failure {
    fn from(error: ManagerError) -> Self {
        Self::Failed(error.into())
    }
}

#[cfg(feature = "logging")]
impl From<crate::logging::InitError> for Failure {
    fn from(error: crate::logging::InitError) -> Self {
        Self::Failed(error.into())
    }
}
