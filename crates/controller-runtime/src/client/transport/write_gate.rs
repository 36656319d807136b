//! Write gate: decides before each write whether this process may write.

use std::{fmt, future::Future, pin::Pin};

use futures::{FutureExt, future::select};

use super::call::Call;

/// Decides whether this process may write now.
///
/// The client asks before it sends a write, and before each retry; dry runs and reads are not subject to the gate. With leader
/// election, the manager's gate grants permits only while the process holds the lease, so that a process that has lost it
/// cannot write, not even with a request prepared before.
///
/// ```
/// use controller_runtime::client::{Call, PermitError, WriteGate, WritePermit};
///
/// /// Refuses all writes during maintenance.
/// struct Maintenance;
///
/// impl WriteGate for Maintenance {
///     fn permit(&self, call: &Call) -> Result<WritePermit, PermitError> {
///         Err(PermitError::new(format!("{} is not possible during maintenance", call.verb())))
///     }
/// }
/// ```
pub trait WriteGate: Send + Sync + 'static {
    /// Returns a permit for this write, or the reason why it is refused.
    ///
    /// # Errors
    ///
    /// The write must not be sent. It fails with
    /// [`ErrorKind::NotPermitted`](crate::client::ErrorKind::NotPermitted) and this reason.
    fn permit(&self, call: &Call) -> Result<WritePermit, PermitError>;
}

/// Permission for one write, which may end while the write is in flight.
#[must_use = "hold the permit for the duration of the write"]
pub struct WritePermit {
    ended: Option<Pin<Box<dyn Future<Output = PermitError> + Send>>>,
}

impl WritePermit {
    /// A permit that does not end.
    pub fn unlimited() -> Self {
        Self { ended: None }
    }

    /// A permit that ends when the future `ended` completes.
    ///
    /// A request that is in flight then is cancelled: the client stops waiting for the response and fails with
    /// [`ErrorKind::Interrupted`](crate::client::ErrorKind::Interrupted). It is unknown whether the server carries it out.
    pub fn until(ended: impl Future<Output = PermitError> + Send + 'static) -> Self {
        Self { ended: Some(Box::pin(ended)) }
    }

    /// A permit that ends as soon as one of the two does.
    pub(in crate::client) fn and(self, other: Self) -> Self {
        match (self.ended, other.ended) {
            (Some(one), Some(other)) => Self::until(select(one, other).map(|ended| ended.factor_first().0)),
            (one, other) => Self { ended: one.or(other) },
        }
    }

    /// Waits until the permit ends, and returns the reason.
    pub(in crate::client) async fn ended(self) -> PermitError {
        match self.ended {
            Some(ended) => ended.await,
            None => std::future::pending().await,
        }
    }
}

impl fmt::Debug for WritePermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WritePermit").field("ends", &self.ended.is_some()).finish()
    }
}

/// Reason why this process may not write.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct PermitError {
    reason: String,
    /// Whether the cause is a programming error, so that waiting does not help.
    is_misuse: bool,
}

impl PermitError {
    /// Takes the reason as text: lower case, without a full stop.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), is_misuse: false }
    }

    /// Like [`PermitError::new`], but for a write that this client must never send from the calling code. It fails with
    /// [`ErrorKind::NotSent`](crate::client::ErrorKind::NotSent), to distinguish it from a temporary lack of the lease.
    pub(crate) fn misuse(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), is_misuse: true }
    }

    pub(in crate::client) fn is_misuse(&self) -> bool {
        self.is_misuse
    }
}
