//! Observation of calls, and of waits that the API server requests.

use std::{sync::Arc, time::Duration};

use super::{
    call::{Answer, Call},
    error::ClientError,
    run_record::RunRecord,
    written_object::WrittenObject,
};

/// Receives the outcomes of the calls of a client.
///
/// Its methods are called while a call is being sent, so they must be short.
pub(crate) trait CallObserver: Send + Sync {
    /// Records that the API server answered an attempt with 429.
    fn throttled(&self, throttling: &Throttling);

    /// Records that a run of this controller begins to wait, because the API server requested it.
    fn wait_begins(&self, controller: &Arc<str>);

    /// Records that the wait of a run of this controller has ended.
    fn wait_ends(&self, controller: &Arc<str>);

    /// Records the final outcome of a call, `took` after it began. Not called for a call that was dropped before its outcome.
    /// `written` is the object in the answer to a write.
    fn ended(
        &self,
        call: &Call,
        outcome: Result<&Answer, &ClientError>,
        written: Option<&WrittenObject<'_>>,
        took: Duration,
    );
}

/// An answer with 429.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Throttling {
    pub(crate) retry_after: Option<Duration>,
    /// UID of the priority level of the request. The API server does not send its name.
    pub(crate) priority_level: Option<String>,
}

/// The wait of a run, from its beginning until this value is dropped.
pub(in crate::client) struct WaitingRun<'o>(Option<(&'o Arc<dyn CallObserver>, Arc<str>)>);

impl<'o> WaitingRun<'o> {
    pub(in crate::client) fn begin(observer: Option<&'o Arc<dyn CallObserver>>) -> Self {
        let waiting = observer.zip(RunRecord::current_controller());
        if let Some((observer, controller)) = &waiting {
            observer.wait_begins(controller);
        }
        Self(waiting)
    }
}

impl Drop for WaitingRun<'_> {
    fn drop(&mut self) {
        if let Some((observer, controller)) = &self.0 {
            observer.wait_ends(controller);
        }
    }
}
