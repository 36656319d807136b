//! Finding `webhook-refuses`: writes of an object that an admission webhook refuses, or does not answer. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use kube_clock::Clock;
use tokio::time::Instant;

use super::{
    Finding, FindingId, Severity,
    text::{beginning, without_stop},
};
use crate::client::{Call, ClientError};

/// Number of objects with stored refusals; the object with the oldest last refusal is dropped first.
const STORED: usize = 128;
/// Smallest number of refusals without a success that is reported. A webhook that restarts fails one or two writes.
const MANY: u32 = 3;
/// Time after which refusals are dropped if the object was not written again. The longest back-off is 17 minutes.
const FORGOTTEN: Duration = Duration::from_secs(3600);
/// Number of bytes stored of a webhook's message.
const LONGEST: usize = 256;

/// Objects with refused writes, by their subject, such as `configmaps shop/web`.
#[derive(Debug, Default)]
pub(super) struct RefusedWrites {
    by_object: BTreeMap<String, RefusedObject>,
}

/// Writes of one object since the first refusal, none of which succeeded.
#[derive(Debug)]
struct RefusedObject {
    since: Instant,
    last: Instant,
    writes: u32,
    refused: u32,
    webhook: String,
    problem: Problem,
}

/// Failure of a webhook, with its message.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Problem {
    /// The webhook refused the write.
    Denied(String),
    /// The API server got no answer from the webhook.
    Unanswered(String),
}

impl RefusedWrites {
    pub(super) fn failed(&mut self, call: &Call, error: &ClientError, now: Instant) {
        let subject = call.subject();
        let refusal = error.status().and_then(|status| webhook_in(&status.message));
        let Some((webhook, problem)) = refusal else {
            // Another failure, such as a conflict, is not a refusal, but does not end the series either.
            if let Some(refusals) = self.by_object.get_mut(&subject) {
                refusals.writes += 1;
            }
            return;
        };
        if self.by_object.len() == STORED && !self.by_object.contains_key(&subject) {
            let oldest = self.by_object.iter().min_by_key(|(_, refusals)| refusals.last);
            oldest.map(|(subject, _)| subject.clone()).and_then(|subject| self.by_object.remove(&subject));
        }
        let webhook = webhook.to_owned();
        let refusals = self.by_object.entry(subject).or_insert_with(|| RefusedObject {
            since: now,
            last: now,
            writes: 0,
            refused: 0,
            webhook: webhook.clone(),
            problem: problem.clone(),
        });
        refusals.writes += 1;
        refusals.refused += 1;
        (refusals.last, refusals.webhook, refusals.problem) = (now, webhook, problem);
    }

    pub(super) fn succeeded(&mut self, call: &Call) {
        if !self.by_object.is_empty() {
            self.by_object.remove(&call.subject());
        }
    }

    /// The findings. `own` contains the names of this program's webhooks.
    pub(super) fn findings(&mut self, own: &BTreeSet<String>, now: Instant, clock: Clock) -> Vec<Finding> {
        self.by_object.retain(|_, refusals| refusals.last + FORGOTTEN > now);
        let many = self.by_object.iter().filter(|(_, refusals)| refusals.refused >= MANY);
        let finding = |(subject, refusals): (&String, &RefusedObject)| {
            let RefusedObject { since, writes, refused, webhook, problem, .. } = refusals;
            // Configurations that users write by hand may use other names for the webhooks of this program.
            let whose = match own.contains(webhook) {
                true => " (of this program)",
                false if own.is_empty() => " (not of this program)",
                false => "",
            };
            let (what, next) = match problem {
                Problem::Denied(message) => (
                    format!("were refused by webhook {webhook}{whose}: \"{message}\""),
                    "The message comes from the webhook: change what the operator writes, or ask the owner of the webhook. \
                     The write is retried.",
                ),
                Problem::Unanswered(message) => (
                    format!("failed because webhook {webhook}{whose} did not answer: {message}"),
                    "Repair the service of the webhook. Its failurePolicy is Fail, so the API server refuses such writes until \
                     it answers. The write is retried.",
                ),
            };
            Finding {
                id: FindingId::WebhookRefuses,
                severity: Severity::Error,
                subject: subject.clone(),
                since: clock.at(*since),
                text: format!("{refused} of the last {writes} writes of {subject} {what}."),
                evidence: Vec::new(),
                next: next.to_owned(),
            }
        };
        many.map(finding).collect()
    }
}

/// Finds the webhook that failed a write, and its message, in the message of the API server.
fn webhook_in(message: &str) -> Option<(&str, Problem)> {
    let text = |text: &str| beginning(without_stop(text), LONGEST);
    if let Some((_, rest)) = message.split_once("admission webhook \"") {
        let (webhook, rest) = rest.split_once('"')?;
        // Followed by a colon and the message of the webhook, or by "without explanation".
        let denied = rest.split_once("denied the request")?.1;
        let reason = denied.strip_prefix(": ").unwrap_or("denied without explanation");
        return Some((webhook, Problem::Denied(text(reason))));
    }
    let (_, rest) = message.split_once("failed calling webhook \"")?;
    let (webhook, rest) = rest.split_once('"')?;
    Some((webhook, Problem::Unanswered(text(rest.trim_start_matches(": ")))))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::rights::Verb;

    fn update(name: &str) -> Call {
        Call::about_object::<ConfigMap>(Verb::Update, "shop", name)
    }

    const DENIED: &str = "admission webhook \"policy.example.com\" denied the request: image must be signed";

    #[tokio::test(start_paused = true)]
    async fn three_refusals_without_a_success_are_a_finding() {
        let (mut writes, now, clock) = (RefusedWrites::default(), Instant::now(), Clock::default());
        let call = update("web");
        let denied = call.refusal(403, "Forbidden", DENIED);
        writes.failed(&call, &call.refusal(409, "Conflict", "changed"), now);
        writes.failed(&call, &denied, now);
        writes.failed(&call, &call.refusal(409, "Conflict", "changed"), now);
        writes.failed(&call, &denied, now);
        assert_eq!(writes.findings(&BTreeSet::new(), now, clock), []);
        writes.failed(&call, &denied, now);
        let [finding] = &writes.findings(&BTreeSet::new(), now, clock)[..] else { panic!("{writes:?}") };
        assert_eq!(
            finding.text,
            "3 of the last 4 writes of configmaps shop/web were refused by webhook policy.example.com (not of this program): \
             \"image must be signed\"."
        );
        assert_eq!(finding.subject, "configmaps shop/web");
        writes.succeeded(&call);
        assert_eq!(writes.findings(&BTreeSet::new(), now, clock), []);
    }

    #[test]
    fn the_webhook_is_found_in_the_message() {
        let denied = |text: &str| Problem::Denied(text.to_owned());
        assert_eq!(webhook_in(DENIED), Some(("policy.example.com", denied("image must be signed"))));
        assert_eq!(
            webhook_in("admission webhook \"a.b\" denied the request without explanation"),
            Some(("a.b", denied("denied without explanation")))
        );
        let unanswered = "Internal error occurred: failed calling webhook \"a.b\": failed to call webhook: \
                          Post \"https://a.b.svc:443/?timeout=10s\": context deadline exceeded";
        let message =
            "failed to call webhook: Post \"https://a.b.svc:443/?timeout=10s\": context deadline exceeded";
        assert_eq!(webhook_in(unanswered), Some(("a.b", Problem::Unanswered(message.to_owned()))));
        for other in ["", "admission webhook \"", "exceeded quota: small", "failed calling webhook"] {
            assert_eq!(webhook_in(other), None, "{other}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn memory_is_bounded() {
        let (mut writes, start) = (RefusedWrites::default(), Instant::now());
        for second in 0..500_u64 {
            let call = update(&format!("map-{second}"));
            for _ in 0..3 {
                writes.failed(
                    &call,
                    &call.refusal(403, "Forbidden", DENIED),
                    start + Duration::from_secs(second),
                );
            }
        }
        let findings = writes.findings(&BTreeSet::new(), start + Duration::from_secs(500), Clock::default());
        assert_eq!(findings.len(), STORED);
    }
}
