//! Async shell of the elector: sends its requests, waits, and notifies the manager.

use std::{future::Future, pin::Pin, sync::Arc};

use futures::{StreamExt, stream::BoxStream};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube_clock::Clock;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until, timeout},
};

use super::{
    LeaderElectionOptions,
    elector::{Elector, ElectorInput, LeadershipEvent, LeaseAnswer, Moment, Output},
    lease::{Lock, record},
    lease_permit::LeasePermitIssuer,
};
use crate::{host::hostname, metrics::ElectionMetrics, recorder::Recorder};

/// State of a candidate that the manager observes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Leadership {
    /// The candidate does not lead.
    Standby,
    /// The candidate leads; `transitions` is the lease's count of leader changes.
    Leads { transitions: i32 },
    /// The candidate led until now. Its runnables must stop; then [`Wish::Stand`] makes it a candidate again.
    Lost { reason: String },
}

/// Instruction of the manager to a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Do not take part yet.
    Wait,
    /// Take part; the number increases after each [`Leadership::Lost`].
    Stand(u64),
    /// Stop for good. `release` allows releasing the lease; all leader-elected runnables have stopped.
    StepDown { release: bool },
}

/// One candidate in the election for one lease.
pub(crate) struct Candidate {
    lock: Lock,
    elector: Elector,
    epoch: Instant,
    permit: Arc<LeasePermitIssuer>,
    leadership: watch::Sender<Leadership>,
    wishes: watch::Receiver<Wish>,
    metrics: ElectionMetrics,
    recorder: Recorder,
    identity: String,
    options: LeaderElectionOptions,
    /// The lease in the version that the elector knows; updates keep its metadata.
    last: Option<Lease>,
    /// The last failure logged, so that a repeated failure is logged once.
    failure: Option<String>,
}

/// Dependencies of a candidate.
pub(crate) struct CandidateContext {
    pub(crate) client: kube::Client,
    pub(crate) rng: fastrand::Rng,
    pub(crate) clock: Clock,
    pub(crate) metrics: ElectionMetrics,
    pub(crate) recorder: Recorder,
    pub(crate) permit: Arc<LeasePermitIssuer>,
    pub(crate) wishes: watch::Receiver<Wish>,
}

type PendingAnswer = Pin<Box<dyn Future<Output = (LeaseAnswer, Option<Lease>)> + Send>>;
type LeaseStream = BoxStream<'static, Result<Option<Lease>, String>>;

impl Candidate {
    pub(crate) fn new(options: LeaderElectionOptions, context: CandidateContext) -> Self {
        let CandidateContext { client, mut rng, clock, metrics, recorder, permit, wishes } = context;
        let namespace = options.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
        let identity = options.identity.clone().unwrap_or_else(|| default_identity(&mut rng));
        let lock = Lock {
            leases: Api::namespaced(client, &namespace),
            namespace,
            name: options.id.clone(),
            labels: options.labels.clone(),
            clock,
        };
        Self {
            elector: Elector::new(options.timing, identity.clone(), rng),
            lock,
            epoch: Instant::now(),
            permit,
            leadership: watch::Sender::new(Leadership::Standby),
            wishes,
            metrics,
            recorder,
            identity,
            options,
            last: None,
            failure: None,
        }
    }

    pub(crate) fn leadership(&self) -> watch::Receiver<Leadership> {
        self.leadership.subscribe()
    }

    /// Takes part until it has stepped down.
    ///
    /// Dropping the future leaves the lease unchanged; the permit expires at its time.
    pub(crate) async fn run(mut self) {
        let mut in_flight: Option<PendingAnswer> = None;
        let mut seen: Option<LeaseStream> = None;
        let mut watch_from = Instant::now();
        loop {
            let wake = self.elector.next_wake().map(|wake| self.epoch + wake);
            // A candidate needs no watch before it takes part.
            let takes_part = matches!(*self.wishes.borrow(), Wish::Stand(_));
            let mut reported = None;
            let input = tokio::select! {
                // In this order: the manager's instructions, responses and events, timers. Each step checks the clock
                // before anything else.
                biased;
                Ok(()) = self.wishes.changed() => match *self.wishes.borrow_and_update() {
                    Wish::Wait => continue,
                    Wish::Stand(_) => ElectorInput::Stand,
                    Wish::StepDown { release } => {
                        ElectorInput::StepDown { release: release && self.options.release_on_cancel }
                    }
                },
                (answer, lease) = poll(&mut in_flight) => {
                    in_flight = None;
                    self.note(&answer);
                    // An answer without a lease leaves the metadata as last seen.
                    self.last = lease.or(self.last.take());
                    ElectorInput::Answer(answer)
                }
                next = next(&mut seen), if seen.is_some() => match next {
                    Some(Ok(lease)) => {
                        let input = ElectorInput::Seen(lease.as_ref().map(record));
                        reported = lease;
                        input
                    }
                    ended => {
                        // Until the watch is back, the elector reads the lease every retry period.
                        seen = None;
                        watch_from = Instant::now() + self.pause_of_watch(ended);
                        continue;
                    }
                },
                () = sleep_until(watch_from), if seen.is_none() && takes_part => {
                    seen = Some(self.lock.watch());
                    continue;
                }
                () = until(wake) => ElectorInput::Wake,
            };
            let Output { request, events } = self.elector.step(input, self.now());
            // A leader skips reports, because they may be older than its own writes. With the metadata of an older version, the next
            // update would undo changes of labels and annotations, and the API server would not refuse it.
            if let Some(lease) = reported.filter(|lease| self.elector.knows(&record(lease).version)) {
                self.last = Some(lease);
            }
            if let Some(request) = request {
                let limit = self.options.timing.request_timeout();
                // A request that hangs must not use up the whole renew deadline.
                let sent = timeout(limit, self.lock.clone().send(request, self.last.clone()));
                in_flight = Some(Box::pin(async move {
                    let late =
                        || (LeaseAnswer::Failed(format!("no answer within {} s", limit.as_secs_f32())), None);
                    sent.await.unwrap_or_else(|_| late())
                }));
            }
            for event in events {
                if let LeadershipEvent::Over { released } = event {
                    tracing::info!(lease = %self.lease(), released, "leader election ended");
                    return;
                }
                self.carry_out(event);
            }
        }
    }

    fn now(&self) -> Moment {
        self.epoch.elapsed()
    }

    fn lease(&self) -> String {
        format!("{}/{}", self.lock.namespace, self.lock.name)
    }

    fn carry_out(&self, event: LeadershipEvent) {
        let (lease, identity) = (self.lease(), &*self.identity);
        match event {
            LeadershipEvent::StartedLeading { until, transitions } => {
                // Grant the permit before announcing leadership, so that leaders can write at once.
                self.permit.grant(self.epoch + until);
                self.leadership.send_replace(Leadership::Leads { transitions });
                self.metrics.leads(true);
                tracing::info!(%lease, identity, transitions, "became leader");
                self.record("StartLeading", "became leader");
            }
            LeadershipEvent::Renewed { until } => self.permit.grant(self.epoch + until),
            LeadershipEvent::StoppedLeading { reason } => {
                // Revoke the permit before announcing the loss, so that no write follows it.
                self.permit.revoke();
                self.metrics.leads(false);
                tracing::info!(%lease, identity, reason, "stopped leading");
                self.record("StopLeading", "stopped leading");
                self.leadership.send_replace(Leadership::Lost { reason });
            }
            LeadershipEvent::NewLeader { identity: leader } => tracing::info!(%lease, leader, "new leader"),
            LeadershipEvent::SlowPath => self.metrics.slow_path(),
            LeadershipEvent::Over { .. } => {}
        }
    }

    /// Records a Kubernetes Event about the lease, as Go's resource lock does.
    fn record(&self, action: &str, what: &str) {
        let mut lease = self.last.clone().unwrap_or_default();
        lease.metadata.name = Some(self.lock.name.clone());
        lease.metadata.namespace = Some(self.lock.namespace.clone());
        self.recorder.normal(&lease, "LeaderElection", action, format!("{} {what}", self.identity));
    }

    /// Logs a failure, once while it stays the same.
    fn note(&mut self, answer: &LeaseAnswer) {
        let failure = match answer {
            LeaseAnswer::Failed(reason) => Some(reason.clone()),
            _ => None,
        };
        if let Some(reason) = &failure
            && self.failure != failure
        {
            tracing::warn!(
                lease = %self.lease(),
                reason,
                "a request for the lease of the leader election failed; it is retried"
            );
        }
        self.failure = failure;
    }

    /// Pause before the watch is started again after its end: longer after a failure, which may last, such as a missing permission.
    /// Meanwhile the lease is read about every retry period.
    fn pause_of_watch(&self, ended: Option<Result<Option<Lease>, String>>) -> std::time::Duration {
        match ended {
            Some(Err(reason)) => {
                tracing::debug!(lease = %self.lease(), reason, "the watch of the lease failed");
                self.options.timing.lease_duration()
            }
            _ => self.options.timing.retry_period(),
        }
    }
}

/// Dropping a candidate ends its leadership in this process, for whatever reason it is dropped.
impl Drop for Candidate {
    fn drop(&mut self) {
        self.permit.revoke();
        self.metrics.leads(false);
    }
}

async fn poll(in_flight: &mut Option<PendingAnswer>) -> (LeaseAnswer, Option<Lease>) {
    match in_flight {
        Some(request) => request.await,
        None => std::future::pending().await,
    }
}

async fn next(seen: &mut Option<LeaseStream>) -> Option<Result<Option<Lease>, String>> {
    match seen {
        Some(seen) => seen.next().await,
        None => std::future::pending().await,
    }
}

async fn until(wake: Option<Instant>) {
    match wake {
        Some(wake) => sleep_until(wake).await,
        None => std::future::pending().await,
    }
}

/// Identity `hostname_uuid`, as in controller-runtime.
fn default_identity(rng: &mut fastrand::Rng) -> String {
    format!("{}_{}", hostname(), uuid::Builder::from_random_bytes(rng.u128(..).to_be_bytes()).into_uuid())
}
