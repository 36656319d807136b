//! Finding `starved`: requests that are queued for long behind those of another flow. Pure.

use std::collections::BTreeMap;

use kube_clock::Clock;
use tokio::time::{Duration, Instant};

use super::{
    Finding, FindingId, Severity,
    text::{Count, Span},
};

/// Shortest time in the queue that is reported.
pub(crate) const LONG: Duration = Duration::from_secs(30);
/// Number of flows that are counted separately; all others are counted together.
const FLOWS: usize = 1024;

/// Requests of a controller by flow: queued, and being reconciled.
#[derive(Debug, Default)]
pub(crate) struct Flows {
    /// Flows by name.
    flows: BTreeMap<String, Flow>,
    /// All flows beyond the first [`FLOWS`]. It has no name, because any text may be that of a flow.
    rest: Flow,
}

#[derive(Debug, Default)]
struct Flow {
    running: usize,
    queued: usize,
    /// The request that has been queued for the longest time.
    oldest: Option<(Instant, String)>,
}

impl Flows {
    /// The flow of this name, or the rest if there are too many flows.
    fn flow(&mut self, name: &str) -> &mut Flow {
        if self.flows.len() >= FLOWS && !self.flows.contains_key(name) {
            return &mut self.rest;
        }
        self.flows.entry(name.to_owned()).or_default()
    }

    pub(crate) fn add_running(&mut self, flow: &str) {
        self.flow(flow).running += 1;
    }

    /// Adds a queued request, given by its `Debug` form.
    pub(crate) fn add_queued(&mut self, flow: &str, request: impl FnOnce() -> String, since: Instant) {
        let flow = self.flow(flow);
        flow.queued += 1;
        if flow.oldest.as_ref().is_none_or(|(oldest, _)| since < *oldest) {
            flow.oldest = Some((since, request()));
        }
    }

    /// The finding about the request that waits for the longest time behind another flow.
    pub(crate) fn finding(
        &self,
        controller: &str,
        workers: usize,
        now: Instant,
        clock: Clock,
    ) -> Option<Finding> {
        let named = self.flows.iter().map(|(name, flow)| (Some(name), flow));
        let flows = named.chain([(None, &self.rest)]);
        let (busy, flow) = flows.clone().max_by_key(|(_, flow)| (flow.running, flow.queued))?;
        // Reported only if the busy flow occupies three quarters of the workers, and half of the queued requests belong to it.
        let queued: usize = flows.clone().map(|(_, flow)| flow.queued).sum();
        if flow.running * 4 < workers * 3 || flow.queued * 2 < queued {
            return None;
        }
        let others = flows.filter(|(name, _)| *name != busy).filter_map(|(_, flow)| flow.oldest.as_ref());
        let (since, request) = others.min_by_key(|(since, _)| *since)?;
        let waits = now.saturating_duration_since(*since);
        if waits < LONG {
            return None;
        }
        let ahead = u64::try_from(flow.queued).unwrap_or(u64::MAX);
        let (busy, has) = busy.map_or(("other namespaces or flows", "have"), |name| (name.as_str(), "has"));
        Some(Finding {
            id: FindingId::Starved,
            severity: Severity::Warning,
            subject: request.clone(),
            since: clock.at(*since),
            text: format!(
                "{request} has been queued for {}: {} of {workers} workers of controller {controller} reconcile requests of {busy}, which {has} \
                 {} more queued requests.",
                Span(waits),
                flow.running,
                Count(ahead),
            ),
            evidence: Vec::new(),
            next: "Let namespaces take turns with fair_by in ControllerOptions::queue, or set more workers with \
                   max_concurrent_reconciles."
                .to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flows(running: usize, queued: usize, start: Instant) -> Flows {
        let mut flows = Flows::default();
        (0..running).for_each(|_| flows.add_running("shop"));
        (0..queued).for_each(|number| flows.add_queued("shop", || format!("Guestbook shop/{number}"), start));
        for (name, after) in [("b", 12), ("a", 2)] {
            flows.add_queued("blog", || format!("Guestbook blog/{name}"), start + Duration::from_secs(after));
        }
        flows
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_request_behind_a_busy_flow_is_named() {
        let start = Instant::now();
        let check = |flows: &Flows, seconds| {
            flows
                .finding("guestbook", 8, start + Duration::from_secs(seconds), Clock::default())
                .map(|finding| finding.text)
        };
        let all = flows(8, 9412, start);
        assert_eq!(check(&all, 31), None);
        assert_eq!(
            check(&all, 50).as_deref(),
            Some(
                "Guestbook blog/a has been queued for 48 s: 8 of 8 workers of controller guestbook reconcile requests of shop, which has 9,412 \
                 more queued requests."
            )
        );
        assert_eq!(check(&flows(5, 9412, start), 50), None, "others have their turns");
        assert_eq!(check(&flows(8, 1, start), 50), None, "few are queued before it");
    }

    #[tokio::test(start_paused = true)]
    async fn flows_beyond_the_limit_are_not_reported_under_the_name_of_a_namespace() {
        let start = Instant::now();
        let mut flows = Flows::default();
        for number in 0..FLOWS {
            flows.add_queued(&format!("shop-{number}"), || "Guestbook shop-0/a".to_owned(), start);
        }
        for number in 0..2000 {
            flows.add_queued(&format!("blog-{number}"), || "Guestbook blog-0/a".to_owned(), start);
        }
        (0..8).for_each(|number| flows.add_running(&format!("blog-{number}")));
        let finding = flows.finding("guestbook", 8, start + Duration::from_secs(50), Clock::default());
        assert_eq!(
            finding.map(|finding| finding.text).as_deref(),
            Some(
                "Guestbook shop-0/a has been queued for 50 s: 8 of 8 workers of controller guestbook reconcile requests of other namespaces or \
                 flows, which have 2,000 more queued requests."
            )
        );
    }
}
