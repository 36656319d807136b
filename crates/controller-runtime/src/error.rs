//! Errors of any type.

use std::{error::Error, fmt};

/// An error of any type, as user code returns it.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// Writes an error with its causes, separated by colons.
pub(crate) fn with_causes(error: &dyn Error, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{error}")?;
    let mut cause = error.source();
    while let Some(error) = cause {
        write!(f, ": {error}")?;
        cause = error.source();
    }
    Ok(())
}

/// Formats an error with its causes, separated by colons.
pub(crate) fn text_with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}

/// The last error of the chain: the actual failure of a connection.
pub(crate) fn innermost<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost
}
