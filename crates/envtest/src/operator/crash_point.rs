use std::fmt;

/// Request of an operator at which a test crashes it.
///
/// Requests are named as [`Rights::unused`](crate::Rights::unused) names rights: `create configmaps`,
/// `patch guestbooks.example.com/status`. A server-side apply is a `patch`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrashPoint {
    pub(super) side: Side,
    pub(super) which: Which,
}

/// On which side of the API server's work a crash is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// The request is not sent.
    Before,
    /// The request is carried out, and the answer is lost.
    After,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Which {
    /// The next request of this name.
    Named(String),
    /// The write of this number, from 1.
    Write(u32),
}

impl CrashPoint {
    /// Before the next request named `request` is sent.
    #[must_use]
    pub fn before(request: impl Into<String>) -> Self {
        Self { side: Side::Before, which: Which::Named(request.into()) }
    }

    /// After the API server has carried out the next request named `request`, and before the operator has the answer.
    #[must_use]
    pub fn after(request: impl Into<String>) -> Self {
        Self { side: Side::After, which: Which::Named(request.into()) }
    }

    /// Before the `number`th write is sent, counted from 1. Leases, events and reviews of rights are not counted as writes.
    #[must_use]
    pub fn before_write(number: u32) -> Self {
        Self { side: Side::Before, which: Which::Write(number) }
    }

    /// Like [`before_write`](Self::before_write), but after the API server has carried the write out, and before the operator has
    /// the answer.
    #[must_use]
    pub fn after_write(number: u32) -> Self {
        Self { side: Side::After, which: Which::Write(number) }
    }

    /// Whether this is the request, `writes` writes after the point was set.
    pub(super) fn is_at(&self, request: &str, is_write: bool, writes: u32) -> bool {
        match &self.which {
            Which::Named(name) => name == request,
            Which::Write(number) => is_write && writes == *number,
        }
    }
}

/// `before create configmaps`, `after write 3`
impl fmt::Display for CrashPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.side {
            Side::Before => "before ",
            Side::After => "after ",
        })?;
        match &self.which {
            Which::Named(name) => f.write_str(name),
            Which::Write(number) => write!(f, "write {number}"),
        }
    }
}
