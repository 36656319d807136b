use std::{error::Error as StdError, fmt};

/// Why a reconcile failed.
///
/// Made from any error by `?`. Retried with back-off, unless it was made by [`Error::terminal`].
///
/// It does not implement [`std::error::Error`] itself, so that `?` can convert every type that does.
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
/// assert!(!parse("http").unwrap_err().is_terminal());
/// assert!(parse_once("http").unwrap_err().is_terminal());
/// ```
pub struct Error {
    source: Box<dyn StdError + Send + Sync>,
    retry: Retry,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Retry {
    WithBackOff,
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

    /// Whether retrying is pointless.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        self.retry == Retry::Never
    }

    /// The error it was made from, if that is an `E`.
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

impl<E: StdError + Send + Sync + 'static> From<E> for Error {
    fn from(error: E) -> Self {
        Self::new(error)
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
