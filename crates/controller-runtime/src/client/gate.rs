use std::{fmt, future::Future, pin::Pin};

use futures::{FutureExt, future::select};

use super::Call;

/// Decides whether this process may write now.
///
/// The client asks before each write is sent, each retry included; dry runs and reads pass without being asked. With leader
/// election the manager's gate holds a permit while the lease lasts, so that a process that has lost its lease cannot
/// write, not even with a request that it prepared before.
///
/// ```
/// use controller_runtime::client::{Call, NoPermit, WriteGate, WritePermit};
///
/// /// Nothing is written during maintenance.
/// struct Maintenance;
///
/// impl WriteGate for Maintenance {
///     fn permit(&self, call: &Call) -> Result<WritePermit, NoPermit> {
///         Err(NoPermit::new(format!("{} is not possible during maintenance", call.verb())))
///     }
/// }
/// ```
pub trait WriteGate: Send + Sync + 'static {
    /// A permit for this write, or why there is none.
    ///
    /// # Errors
    ///
    /// The write must not be sent. It fails with
    /// [`ErrorKind::NotPermitted`](super::ErrorKind::NotPermitted) and this reason.
    fn permit(&self, call: &Call) -> Result<WritePermit, NoPermit>;
}

/// Leave to write, for as long as it lasts.
#[must_use = "the write is for the holder of the permit"]
pub struct WritePermit {
    ended: Option<Pin<Box<dyn Future<Output = NoPermit> + Send>>>,
}

impl WritePermit {
    /// A permit that does not end.
    pub fn unlimited() -> Self {
        Self { ended: None }
    }

    /// A permit that ends when `ended` is done.
    ///
    /// A request that is in flight then is cut: the client no longer waits for its answer and fails with
    /// [`ErrorKind::Interrupted`](super::ErrorKind::Interrupted). Whether the server carries it out is unknown.
    pub fn until(ended: impl Future<Output = NoPermit> + Send + 'static) -> Self {
        Self { ended: Some(Box::pin(ended)) }
    }

    /// A permit that ends when one of the two does.
    pub(super) fn and(self, other: Self) -> Self {
        match (self.ended, other.ended) {
            (Some(one), Some(other)) => Self::until(select(one, other).map(|ended| ended.factor_first().0)),
            (one, other) => Self { ended: one.or(other) },
        }
    }

    /// Waits until the permit ends, and says why it did.
    pub(super) async fn ended(self) -> NoPermit {
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

/// Why this process may not write.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct NoPermit {
    reason: String,
    /// Whether it is a mistake in the program, which no wait mends.
    is_misuse: bool,
}

impl NoPermit {
    /// Says why: lower case, without a full stop.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), is_misuse: false }
    }

    /// Like [`NoPermit::new`], but for a write that this client must never send where it is used. It fails with
    /// [`ErrorKind::NotSent`](super::ErrorKind::NotSent), so that it is not taken for a moment without the lease.
    pub(crate) fn misuse(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), is_misuse: true }
    }

    pub(super) fn is_misuse(&self) -> bool {
        self.is_misuse
    }
}
