//! Finding `missing-right`: requests of the operator that RBAC refuses. Pure.

use std::{collections::BTreeMap, time::Duration};

use kube_clock::Clock;
use tokio::time::Instant;

use super::{
    Finding, FindingId, Severity,
    text::{Plural, TimeOfDay},
};
use crate::{
    client::{Call, ClientError, RefusedRight},
    rights::Verb,
};

/// Number of requests with stored refusals; the request with the oldest last refusal is dropped first.
const STORED: usize = 128;
/// Time after which a refusal is dropped if the request was not sent again.
const FORGOTTEN: Duration = Duration::from_secs(3600);

/// Verb, resource with subresource, and namespace of a request.
type RequestKey = (Verb, String, Option<String>);

/// Requests that RBAC refused since they last succeeded.
#[derive(Debug, Default)]
pub(super) struct RefusedRights {
    by_request: BTreeMap<RequestKey, Refusals>,
}

/// Refusals of one request.
#[derive(Debug)]
struct Refusals {
    since: Instant,
    last: Instant,
    calls: u64,
    /// The missing right in words, such as `patch deployments.apps in namespace shop`.
    right: String,
    /// The line or rule to add.
    rule: String,
    /// Message of the API server.
    message: String,
}

fn request_of(call: &Call) -> RequestKey {
    let resource = match call.subresource() {
        Some(subresource) => format!("{}/{subresource}", call.kind()),
        None => call.kind().to_string(),
    };
    (call.verb(), resource, call.namespace().map(str::to_owned))
}

impl RefusedRights {
    pub(super) fn refused(&mut self, call: &Call, error: &ClientError, now: Instant) {
        let Some(message) = error.status().filter(|status| status.code == 403).map(|status| &status.message)
        else {
            return;
        };
        // Not every 403 is a matter of RBAC: an exceeded quota is another reason.
        let Some(right) = RefusedRight::of(message) else { return };
        let request = request_of(call);
        if self.by_request.len() == STORED && !self.by_request.contains_key(&request) {
            let oldest = self.by_request.iter().min_by_key(|(_, refusals)| refusals.last);
            oldest.map(|(request, _)| request.clone()).and_then(|request| self.by_request.remove(&request));
        }
        let refusals = self.by_request.entry(request).or_insert_with(|| Refusals {
            since: now,
            last: now,
            calls: 0,
            right: in_words(&right),
            rule: error.missing_right_advice().unwrap_or_else(|| right.rule(call.verb())),
            message: message.clone(),
        });
        refusals.last = now;
        refusals.calls += 1;
    }

    /// Records that a request succeeded, so that the right is not missing any more.
    pub(super) fn allowed(&mut self, call: &Call) {
        // Usually there are no refusals: then no key is made for the lookup.
        if !self.by_request.is_empty() {
            self.by_request.remove(&request_of(call));
        }
    }

    pub(super) fn findings(&mut self, operator: &str, now: Instant, clock: Clock) -> Vec<Finding> {
        self.by_request.retain(|_, refusals| refusals.last + FORGOTTEN > now);
        let finding = |refusals: &Refusals| {
            let Refusals { since, calls, right, rule, message, .. } = refusals;
            let begin = TimeOfDay { at: clock.at(*since), now: clock.at(now) };
            Finding {
                id: FindingId::MissingRight,
                severity: Severity::Error,
                subject: right.clone(),
                since: clock.at(*since),
                text: format!(
                    "{operator} may not {right}: {} refused with code 403 since {begin}.",
                    Plural(*calls, "request")
                ),
                evidence: vec![message.clone()],
                next: next(rule),
            }
        };
        self.by_request.values().map(finding).collect()
    }
}

/// Makes a sentence of the advice on a rule.
pub(super) fn next(rule: &str) -> String {
    let mut letters = rule.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}

/// Describes a right, as in `patch deployments.apps in namespace shop`.
fn in_words(right: &RefusedRight<'_>) -> String {
    let RefusedRight { verb, resource, group, namespace } = right;
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let dot = if group.is_empty() { "" } else { "." };
    let of = if subresource.is_empty() { String::new() } else { format!("the {subresource} of ") };
    let place =
        namespace.map_or_else(|| " in all namespaces".to_owned(), |name| format!(" in namespace {name}"));
    format!("{verb} {of}{resource}{dot}{group}{place}")
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;

    use super::*;

    fn patch(namespace: &str) -> Call {
        Call::about_object::<Deployment>(Verb::Apply, namespace, "web")
    }

    fn refusal(call: &Call) -> ClientError {
        let namespace = call.namespace().unwrap_or_default();
        let message = format!(
            "deployments.apps \"web\" is forbidden: User \"operator\" cannot patch resource \"deployments\" in API group \"apps\" in the namespace \"{namespace}\""
        );
        call.refusal(403, "Forbidden", &message)
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_count_until_the_request_is_allowed() {
        let epoch = kube_clock::Epoch::starting_now("2026-01-01T10:00:00Z".parse().expect("a timestamp"));
        let (mut rights, start, clock) = (RefusedRights::default(), Instant::now(), Clock::new(Some(epoch)));
        let shop = patch("shop");
        for second in 0..6 {
            rights.refused(&shop, &refusal(&shop), start + Duration::from_secs(second));
        }
        rights.refused(&shop, &shop.refusal(403, "Forbidden", "exceeded quota: small"), start);
        rights.allowed(&patch("blog"));
        let [finding] = &rights.findings("guestbook", start + Duration::from_secs(6), clock)[..] else {
            panic!("{rights:?}")
        };
        assert_eq!(
            finding.to_string(),
            "missing-right guestbook may not patch deployments.apps in namespace shop: 6 requests refused with code 403 \
             since 10:00:00 UTC. Give the operator's ServiceAccount a Role in namespace shop with the rule \
             {apiGroups: [\"apps\"], resources: [\"deployments\"], verbs: [\"create\", \"patch\"]}."
        );
        rights.allowed(&shop);
        assert_eq!(rights.findings("guestbook", start, clock), []);
    }

    #[tokio::test(start_paused = true)]
    async fn memory_is_bounded_and_old_refusals_are_dropped() {
        let (mut rights, start) = (RefusedRights::default(), Instant::now());
        for second in 0..500_u64 {
            let call = patch(&format!("ns-{second}"));
            rights.refused(&call, &refusal(&call), start + Duration::from_secs(second));
        }
        let findings = rights.findings("guestbook", start + Duration::from_secs(500), Clock::default());
        assert_eq!(findings.len(), STORED);
        assert!(
            findings
                .iter()
                .all(|finding| finding.subject.as_str() >= "patch deployments.apps in namespace ns-372")
        );
        assert_eq!(rights.findings("guestbook", start + FORGOTTEN * 2, Clock::default()), []);
    }
}
