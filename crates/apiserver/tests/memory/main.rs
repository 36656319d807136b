//! Memory that clients can make the server hold. The allocator counts for the whole process, so these tests have a program of their own and
//! run one at a time.
#![expect(clippy::unwrap_used, reason = "a test that meets an error has failed")]

#[cfg(feature = "gzip")]
mod large_lists;
mod many_watches;
mod slow_clients;

use peak_alloc::PeakAlloc;
use tokio::sync::Mutex;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Held by the test that runs.
static ALONE: Mutex<()> = Mutex::const_new(());
