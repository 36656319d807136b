//! Requests at which a test crashes an operator.

use std::fmt;

/// Request of an operator at which a test crashes it.
///
/// Requests are named like the permissions of [`Rights::unused`](crate::Rights::unused): `create configmaps`,
/// `patch guestbooks.example.com/status`. A server-side apply is a `patch`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrashPoint {
    pub(super) side: Side,
    pub(super) which: RequestSelector,
}

/// Position of a crash relative to the execution of the request by the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// The request is not sent.
    Before,
    /// The request is executed, and its answer is lost.
    After,
}

/// The request at which the operator crashes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RequestSelector {
    /// The next request with this name.
    Named(String),
    /// The nth write, counted from 1.
    Write(u32),
}

impl CrashPoint {
    /// Crashes before the next request named `request` is sent.
    #[must_use]
    pub fn before(request: impl Into<String>) -> Self {
        Self { side: Side::Before, which: RequestSelector::Named(request.into()) }
    }

    /// Crashes after the API server has executed the next request named `request`, before the operator receives the answer.
    #[must_use]
    pub fn after(request: impl Into<String>) -> Self {
        Self { side: Side::After, which: RequestSelector::Named(request.into()) }
    }

    /// Crashes before the `number`th write is sent, counted from 1. Leases, events and access reviews do not count as writes.
    #[must_use]
    pub fn before_write(number: u32) -> Self {
        Self { side: Side::Before, which: RequestSelector::Write(number) }
    }

    /// Like [`before_write`](Self::before_write), but crashes after the API server has executed the write, before the
    /// operator receives the answer.
    #[must_use]
    pub fn after_write(number: u32) -> Self {
        Self { side: Side::After, which: RequestSelector::Write(number) }
    }

    /// Returns whether `request` is the crash point. `writes` counts the writes since the point was set, including this one.
    pub(super) fn is_at(&self, request: &str, is_write: bool, writes: u32) -> bool {
        match &self.which {
            RequestSelector::Named(name) => name == request,
            RequestSelector::Write(number) => is_write && writes == *number,
        }
    }
}

/// Formats the point as `before create configmaps` or `after write 3`.
impl fmt::Display for CrashPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.side {
            Side::Before => "before ",
            Side::After => "after ",
        })?;
        match &self.which {
            RequestSelector::Named(name) => f.write_str(name),
            RequestSelector::Write(number) => write!(f, "write {number}"),
        }
    }
}
