//! Errors of a command.

use std::{error::Error, fmt, io, io::Write, panic::Location, path::Path};

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
    /// A function of [`Operator::setup`](super::Operator::setup) sent a request while there was no API server.
    #[error(
        "a setup function sent the request {request} while manifests were printed: use DynamicKind, or send it in a reconcile"
    )]
    Asked {
        /// Method and path of its first request.
        request: String,
    },
}

/// Error of [`Operator::answer`](super::Operator::answer). Its text has all causes. A request for help or for the version is an
/// error too, with exit code 0 and the help as its text.
#[derive(Debug)]
pub struct CommandError(ErrorCause);

#[derive(Debug)]
enum ErrorCause {
    /// The command line is wrong, or asks for help.
    Usage(Box<clap::Error>),
    /// The command line is wrong for a reason that clap does not know.
    Arguments(String),
    /// The command failed.
    Failed(BoxError),
}

impl CommandError {
    pub(super) fn usage(error: clap::Error) -> Self {
        Self(ErrorCause::Usage(Box::new(error)))
    }

    pub(super) fn arguments(reason: impl Into<String>) -> Self {
        Self(ErrorCause::Arguments(reason.into()))
    }

    pub(super) fn failed(error: impl Into<BoxError>) -> Self {
        Self(ErrorCause::Failed(error.into()))
    }

    /// An error of reading or writing a file; `action` completes "cannot …".
    pub(super) fn file(action: &str, path: &Path, error: &io::Error) -> Self {
        Self::failed(format!("cannot {action} {}: {error}", path.display()))
    }

    /// Exit code of a program that prints the error: 1 for a failure, 2 for wrong usage, 0 for help.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match &self.0 {
            ErrorCause::Usage(error) => u8::try_from(error.exit_code()).unwrap_or(2),
            ErrorCause::Arguments(_) => 2,
            ErrorCause::Failed(_) => 1,
        }
    }

    /// Prints the reason, or the help that was asked for.
    pub(super) fn print(&self) -> io::Result<()> {
        match &self.0 {
            ErrorCause::Usage(error) => error.print(),
            ErrorCause::Arguments(_) | ErrorCause::Failed(_) => writeln!(io::stderr(), "error: {self}"),
        }
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            ErrorCause::Usage(error) => error.fmt(f),
            ErrorCause::Arguments(reason) => f.write_str(reason),
            ErrorCause::Failed(error) => with_causes(&**error, f),
        }
    }
}

impl Error for CommandError {}

impl From<SetupError> for CommandError {
    fn from(error: SetupError) -> Self {
        Self::failed(error)
    }
}

impl From<RenderError> for CommandError {
    fn from(error: RenderError) -> Self {
        Self::failed(error)
    }
}

impl From<ConfigError> for CommandError {
    fn from(error: ConfigError) -> Self {
        Self::failed(error)
    }
}

impl From<kube::Error> for CommandError {
    fn from(error: kube::Error) -> Self {
        Self::failed(error)
    }
}

impl From<ManagerError> for CommandError {
    fn from(error: ManagerError) -> Self {
        Self::failed(error)
    }
}

#[cfg(feature = "logging")]
impl From<crate::logging::InitError> for CommandError {
    fn from(error: crate::logging::InitError) -> Self {
        Self::failed(error)
    }
}
