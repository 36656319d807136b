//! Error of a reconcile, and whether it is retried.

use std::{error::Error as StdError, fmt, iter::successors, time::Duration};

use crate::cache::{DecodeError, Misfit, ReadError};

/// Error of a reconcile.
///
/// `?` makes it from any error. The request is then retried with back-off
/// ([`ControllerOptions::rate_limiter`](crate::controller::ControllerOptions::rate_limiter)), with three exceptions:
///
/// - After an error of [`ReconcileError::terminal`] the request is not retried.
/// - After an error of [`ReconcileError::retry_after`] it is retried after the delay of the error.
/// - A [`DecodeError`] is terminal, and so is a [`ReadError::OutsideNamespaces`] of a cache with a fixed set of namespaces.
///
/// `?` converts every error that is [`Send`] and [`Sync`]: types that implement [`std::error::Error`], boxed errors, texts,
/// `anyhow::Error` and `eyre::Report`. For that reason this type does not implement [`std::error::Error`] itself.
///
/// ```
/// use controller_runtime::ReconcileError;
///
/// fn parse(port: &str) -> Result<u16, ReconcileError> {
///     Ok(port.parse::<u16>()?) // retried
/// }
///
/// fn parse_once(port: &str) -> Result<u16, ReconcileError> {
///     port.parse::<u16>().map_err(ReconcileError::terminal) // not retried until the object changes
/// }
///
/// fn check(port: u16) -> Result<(), ReconcileError> {
///     if port == 0 { Err("spec.port must not be 0")? }
///     Ok(())
/// }
///
/// fn with_anyhow(port: &str) -> Result<u16, ReconcileError> {
///     use anyhow::Context;
///     let port = port.parse::<u16>().context("spec.port is not a number")?; // an anyhow::Error
///     Ok(port)
/// }
///
/// assert!(!parse("http").unwrap_err().is_terminal());
/// assert_eq!(check(0).unwrap_err().to_string(), "spec.port must not be 0");
/// assert_eq!(format!("{:#}", with_anyhow("http").unwrap_err()), "spec.port is not a number: invalid digit found in string");
/// assert!(parse_once("http").unwrap_err().is_terminal());
/// ```
pub struct ReconcileError {
    source: Box<dyn StdError + Send + Sync>,
    retry: Retry,
}

/// Retry of a request after a failed reconcile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retry {
    WithBackOff,
    After(Duration),
    Never,
}

impl ReconcileError {
    /// Makes an error that is retried with back-off, from an error or a message.
    pub fn new(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { source: error.into(), retry: Retry::WithBackOff }
    }

    /// Makes an error that no retry can fix: the request waits for the next event.
    #[doc(alias = "TerminalError")]
    pub fn terminal(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { source: error.into(), retry: Retry::Never }
    }

    /// Makes an error that is retried after `delay`, or earlier if an event enqueues the request: for example because
    /// another service names the time at which to try again.
    ///
    /// The log, the metrics and [`Context::last_error`](super::Context::last_error) report it like other failures. But it
    /// bypasses the rate limiter, and does not count as an [attempt](super::Context::attempt): the count of earlier failures
    /// stays, and the back-off continues from it at the next ordinary error.
    ///
    /// A delay of zero, such as that of `Retry-After: 0`, is retried with back-off.
    ///
    /// ```
    /// use std::time::Duration;
    /// use controller_runtime::{Action, ReconcileError};
    ///
    /// fn answered(code: u16, retry_after: u64) -> Result<Action, ReconcileError> {
    ///     match code {
    ///         429 => Err(ReconcileError::retry_after("the registry is busy", Duration::from_secs(retry_after))),
    ///         _ => Ok(Action::done()),
    ///     }
    /// }
    /// # assert!(!answered(429, 1).unwrap_err().is_terminal());
    /// ```
    pub fn retry_after(error: impl Into<Box<dyn StdError + Send + Sync>>, delay: Duration) -> Self {
        let retry = if delay.is_zero() { Retry::WithBackOff } else { Retry::After(delay) };
        Self { source: error.into(), retry }
    }

    pub(crate) fn retry(&self) -> Retry {
        self.retry
    }

    /// Returns whether the error is not retried.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        self.retry == Retry::Never
    }

    /// The underlying error, if it is an `E`.
    ///
    /// `anyhow` and `eyre` hide the type of an error that they wrap without a context: then the result is `None`.
    #[must_use]
    pub fn downcast_ref<E: StdError + 'static>(&self) -> Option<&E> {
        self.source.downcast_ref()
    }

    /// The underlying error.
    #[must_use]
    pub fn get_ref(&self) -> &(dyn StdError + Send + Sync + 'static) {
        &*self.source
    }
}

/// A decoding error of an object is [terminal](ReconcileError::terminal), also as the cause of another error: until the object
/// changes a retry would fail, and a change of a watched object enqueues a request.
impl<E: Into<Box<dyn StdError + Send + Sync>>> From<E> for ReconcileError {
    fn from(error: E) -> Self {
        let error = Self::new(error);
        // The causes count as well, because user code often wraps an error with context.
        let first: &(dyn StdError + 'static) = &*error.source;
        let mut causes =
            successors(Some(first), |error: &&(dyn StdError + 'static)| StdError::source(*error));
        let is_permanent = |error: &(dyn StdError + 'static)| {
            error.is::<DecodeError>()
                || error.is::<Misfit>()
                || error.downcast_ref().is_some_and(ReadError::is_permanent)
        };
        match causes.any(is_permanent) {
            true => Self { retry: Retry::Never, ..error },
            false => error,
        }
    }
}

/// Prints the underlying error; with `{:#}` also its causes, after colons.
impl fmt::Display for ReconcileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.source, f)?;
        if f.alternate() {
            let mut cause = self.source.source();
            while let Some(error) = cause {
                write!(f, ": {error}")?;
                cause = error.source();
            }
        }
        Ok(())
    }
}

impl fmt::Debug for ReconcileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.source, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot reach the printer")]
    struct Printer(#[source] std::io::Error);

    fn printer() -> Printer {
        Printer(std::io::Error::other("out of paper"))
    }

    #[test]
    fn question_mark_makes_a_retried_error() {
        let print = || -> Result<(), ReconcileError> { Ok(Err(printer())?) };
        let error = print().unwrap_err();
        assert!(!error.is_terminal());
        assert!(error.downcast_ref::<Printer>().is_some());
    }

    #[test]
    fn terminal_errors_say_so() {
        assert!(ReconcileError::terminal(printer()).is_terminal());
        assert!(ReconcileError::terminal("spec.replicas must not be negative").is_terminal());
    }

    #[test]
    fn display_prints_one_level_and_the_alternate_form_all() {
        let error = ReconcileError::new(printer());
        assert_eq!(error.to_string(), "cannot reach the printer");
        assert_eq!(format!("{error:#}"), "cannot reach the printer: out of paper");
    }
}
