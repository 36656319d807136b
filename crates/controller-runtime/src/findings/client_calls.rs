//! Findings from the answers to the client's calls.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use kube_clock::Clock;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{
    CallSummary, Finding, calls::CallNumbers, fights::Fights, refused_rights::RefusedRights,
    refused_writes::RefusedWrites, throttling::ThrottledRequests,
};
use crate::{
    cache::ChangeObserver,
    client::{Answer, Call, CallObserver, ClientError, Throttling, WrittenObject},
};

/// Feeds the detectors with the outcomes of calls.
#[derive(Default)]
pub(crate) struct ClientFindings {
    throttled: Mutex<ThrottledRequests>,
    refusals: Mutex<(RefusedRights, RefusedWrites)>,
    fights: Mutex<Fights>,
    calls: Mutex<CallNumbers>,
}

impl ClientFindings {
    /// The current findings of the operator with this name. `own_webhooks` contains the names of this program's webhooks.
    pub(crate) fn findings(
        &self,
        operator: &str,
        own_webhooks: &BTreeSet<String>,
        clock: Clock,
    ) -> Vec<Finding> {
        let now = Instant::now();
        let mut findings: Vec<_> = self.throttled.lock().finding(now, clock).into_iter().collect();
        let mut refusals = self.refusals.lock();
        let (rights, writes) = &mut *refusals;
        findings.extend(rights.findings(operator, now, clock));
        findings.extend(writes.findings(own_webhooks, now, clock));
        drop(refusals);
        findings.extend(self.fights.lock().findings(now, clock));
        findings
    }

    /// Numbers of the calls since the start, by verb.
    pub(crate) fn calls(&self) -> Vec<CallSummary> {
        self.calls.lock().summaries()
    }
}

/// Returns whether an error shows that the operator has the right: the API server authorizes a request before it looks up objects and
/// validates them. Codes that it may answer before the authorization show nothing: 400 for a URL with an invalid `timeout` (the filter
/// `WithRequestDeadline`) or a malformed request, 401 without valid credentials, and 429 with too many requests.
fn proves_right(error: &ClientError) -> bool {
    error.status().is_some_and(|status| matches!(status.code, 404 | 409 | 410 | 422))
}

/// Watches report changes of objects that this process has written.
impl ChangeObserver for ClientFindings {
    fn is_interested_in(&self, uid: &str) -> bool {
        self.fights.lock().tracks(uid)
    }

    fn changed(&self, object: &WrittenObject<'_>) {
        self.fights.lock().changed(object, Instant::now());
    }

    fn deleted(&self, uid: &str) {
        self.fights.lock().forget(uid);
    }
}

impl CallObserver for ClientFindings {
    fn throttled(&self, throttling: &Throttling) {
        self.throttled.lock().answered(throttling, Instant::now());
    }

    fn wait_begins(&self, controller: &Arc<str>) {
        self.throttled.lock().wait_begins(controller);
    }

    fn wait_ends(&self, controller: &Arc<str>) {
        self.throttled.lock().wait_ends(controller);
    }

    fn ended(
        &self,
        call: &Call,
        outcome: Result<&Answer, &ClientError>,
        written: Option<&WrittenObject<'_>>,
        took: Duration,
    ) {
        let code = outcome.map(|_| ()).map_err(ClientError::code);
        self.calls.lock().ended(call.verb(), code, took);
        if let Some(object) = written {
            self.fights.lock().wrote(call, object, Instant::now());
        }
        let is_write = call.is_stored();
        let mut refusals = self.refusals.lock();
        let (rights, writes) = &mut *refusals;
        match outcome {
            Ok(_) => {
                rights.allowed(call);
                if is_write {
                    writes.succeeded(call);
                }
            }
            Err(error) => {
                rights.refused(call, error, Instant::now());
                if proves_right(error) {
                    rights.allowed(call);
                }
                if is_write {
                    writes.failed(call, error, Instant::now());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::rights::Verb;

    #[test]
    fn errors_from_after_the_authorization_prove_the_right() {
        let call = Call::about_object::<ConfigMap>(Verb::Get, "shop", "web");
        let proves = |code| proves_right(&call.refusal(code, "Reason", "message"));
        for code in [404, 409, 410, 422] {
            assert!(proves(code), "{code}");
        }
        for code in [400, 401, 403, 429, 500, 503] {
            assert!(!proves(code), "{code}");
        }
    }
}
