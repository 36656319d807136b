//! Errors of commands: a line, a hint, an exit code.

use std::{fmt, process::ExitCode};

use crate::names::BadName;

/// Failure of a command, as its user sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// One line that names the object and the problem.
    pub message: String,
    /// Next step, if there is one.
    pub hint: Option<String>,
    /// Exit code.
    pub code: FailureCode,
}

/// Exit code of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureCode {
    /// The command failed.
    Failed,
    /// The arguments cannot be used.
    Usage,
    /// `--check` found a difference.
    Difference,
}

impl Failure {
    /// A failure with exit code 1.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, code: FailureCode::Failed }
    }

    /// Arguments that cannot be used: exit code 2.
    #[must_use]
    pub fn usage(message: impl Into<String>) -> Self {
        Self { code: FailureCode::Usage, ..Self::new(message) }
    }

    /// A difference that a check found: exit code 3.
    #[must_use]
    pub fn difference(message: impl Into<String>) -> Self {
        Self { code: FailureCode::Difference, ..Self::new(message) }
    }

    /// Adds the next step.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl From<BadName> for Failure {
    fn from(error: BadName) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<FailureCode> for ExitCode {
    fn from(code: FailureCode) -> Self {
        Self::from(match code {
            FailureCode::Failed => 1,
            FailureCode::Usage => 2,
            FailureCode::Difference => 3,
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}
