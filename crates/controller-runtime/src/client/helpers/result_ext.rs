//! Results of requests that may often fail.

use crate::client::transport::error::ClientError;

/// Turns errors that are often acceptable into `None`.
pub trait ResultExt<T> {
    /// Returns `None` instead of [`ErrorKind::NotFound`](crate::client::ErrorKind::NotFound), for changes of an object that may not
    /// exist any more.
    ///
    /// # Errors
    ///
    /// Every other error.
    #[doc(alias = "IgnoreNotFound")]
    fn optional(self) -> Result<Option<T>, ClientError>;

    /// Returns `None` instead of [`ErrorKind::AlreadyExists`](crate::client::ErrorKind::AlreadyExists).
    ///
    /// # Errors
    ///
    /// Every other error.
    #[doc(alias = "IgnoreAlreadyExists")]
    fn ignore_already_exists(self) -> Result<Option<T>, ClientError>;
}

impl<T> ResultExt<T> for Result<T, ClientError> {
    fn optional(self) -> Result<Option<T>, ClientError> {
        none_if(self, ClientError::is_not_found)
    }

    fn ignore_already_exists(self) -> Result<Option<T>, ClientError> {
        none_if(self, ClientError::is_already_exists)
    }
}

fn none_if<T>(
    result: Result<T, ClientError>,
    harmless: impl Fn(&ClientError) -> bool,
) -> Result<Option<T>, ClientError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if harmless(&error) => Ok(None),
        Err(error) => Err(error),
    }
}
