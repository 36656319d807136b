use std::{error::Error as StdError, fmt, iter::successors, time::Duration};

use crate::cache::{DecodeError, ReadError};

/// Why a reconcile failed.
///
/// Made from any error by `?`. Retried with back-off, unless it was made by [`Error::terminal`] or [`Error::retry_after`], or of a
/// [`DecodeError`], or of a [`ReadError::OutsideNamespaces`] of a cache whose namespaces are fixed.
///
/// `?` converts every error that is [`Send`] and [`Sync`]: types that implement [`std::error::Error`], boxed errors, texts,
/// `anyhow::Error` and `eyre::Report`. For that reason it does not implement [`std::error::Error`] itself.
///
/// ```
/// use controller_runtime::reconcile::Error;
///
/// fn parse(port: &str) -> Result<u16, Error> {
///     Ok(port.parse::<u16>()?) // retried
/// }
///
/// fn parse_once(port: &str) -> Result<u16, Error> {
///     port.parse::<u16>().map_err(Error::terminal) // only a change of the object can help
/// }
///
/// fn check(port: u16) -> Result<(), Error> {
///     if port == 0 { Err("spec.port must not be 0")? }
///     Ok(())
/// }
///
/// fn with_anyhow(port: &str) -> Result<u16, Error> {
///     use anyhow::Context;
///     let port = port.parse::<u16>().context("spec.port is no number")?; // an anyhow::Error
///     Ok(port)
/// }
///
/// assert!(!parse("http").unwrap_err().is_terminal());
/// assert_eq!(check(0).unwrap_err().to_string(), "spec.port must not be 0");
/// assert_eq!(format!("{:#}", with_anyhow("http").unwrap_err()), "spec.port is no number: invalid digit found in string");
/// assert!(parse_once("http").unwrap_err().is_terminal());
/// ```
pub struct Error {
    source: Box<dyn StdError + Send + Sync>,
    retry: Retry,
}

/// What becomes of a request whose reconcile failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retry {
    WithBackOff,
    After(Duration),
    Never,
}

impl Error {
    /// An error that is retried with back-off, from an error or a message.
    pub fn new(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { source: error.into(), retry: Retry::WithBackOff }
    }

    /// An error that no retry can mend: the request waits for the next event.
    #[doc(alias = "TerminalError")]
    pub fn terminal(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { source: error.into(), retry: Retry::Never }
    }

    /// An error after which to try again in `delay`, or earlier if an event asks for it: when whoever refused has said when to
    /// come back, say.
    ///
    /// It is a failure like others for the log, the metrics and [`Context::last_error`](super::Context::last_error). But the
    /// rate limiter is not asked, so it is no [attempt](super::Context::attempt): failures before it still count, and a back-off
    /// goes on where it was when the next error says nothing of this kind.
    ///
    /// A delay of zero, as of a `Retry-After: 0`, is retried with back-off.
    ///
    /// ```
    /// use std::time::Duration;
    /// use controller_runtime::{Action, reconcile::Error};
    ///
    /// fn answered(code: u16, retry_after: u64) -> Result<Action, Error> {
    ///     match code {
    ///         429 => Err(Error::retry_after("the registry is busy", Duration::from_secs(retry_after))),
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

    /// Whether retrying is pointless.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        self.retry == Retry::Never
    }

    /// The error it was made from, if that is an `E`.
    ///
    /// `anyhow` and `eyre` hide the type of an error that they wrap without a context.
    #[must_use]
    pub fn downcast_ref<E: StdError + 'static>(&self) -> Option<&E> {
        self.source.downcast_ref()
    }

    /// The error it was made from.
    #[must_use]
    pub fn get_ref(&self) -> &(dyn StdError + Send + Sync + 'static) {
        &*self.source
    }
}

/// An error of an object that does not decode is [terminal](Error::terminal), also as the cause of another one: it is read the same
/// until the object changes, and a change of an object that the controller watches asks for a reconcile.
impl<E: Into<Box<dyn StdError + Send + Sync>>> From<E> for Error {
    fn from(error: E) -> Self {
        let error = Self::new(error);
        let first: &(dyn StdError + 'static) = &*error.source;
        let mut causes =
            successors(Some(first), |error: &&(dyn StdError + 'static)| StdError::source(*error));
        let is_permanent = |error: &(dyn StdError + 'static)| {
            error.is::<DecodeError>() || error.downcast_ref().is_some_and(ReadError::is_permanent)
        };
        match causes.any(is_permanent) {
            true => Self { retry: Retry::Never, ..error },
            false => error,
        }
    }
}

/// The error it was made from; with `{:#}` also its causes, after colons.
impl fmt::Display for Error {
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

impl fmt::Debug for Error {
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
        let print = || -> Result<(), Error> { Ok(Err(printer())?) };
        let error = print().unwrap_err();
        assert!(!error.is_terminal());
        assert!(error.downcast_ref::<Printer>().is_some());
    }

    #[test]
    fn terminal_errors_say_so() {
        assert!(Error::terminal(printer()).is_terminal());
        assert!(Error::terminal("spec.replicas must not be negative").is_terminal());
    }

    #[test]
    fn display_prints_one_level_and_the_alternate_form_all() {
        let error = Error::new(printer());
        assert_eq!(error.to_string(), "cannot reach the printer");
        assert_eq!(format!("{error:#}"), "cannot reach the printer: out of paper");
    }
}
