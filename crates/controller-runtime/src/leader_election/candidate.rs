//! The shell around the elector: sends what it asks for, waits, and tells the manager.

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
    Options,
    elector::{Answer, Elector, Event, Input, Moment, Output},
    lease::{Lock, record},
    permit::Issuer,
};
use crate::{host::hostname, metrics::ElectionMetrics, recorder::Recorder};

/// Where a candidate is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Leadership {
    /// Another one leads, or nobody.
    Standby,
    /// It leads, for the `transitions`th time that the lease changed hands.
    Leads { transitions: i32 },
    /// It led. What it started has to stop, and then [`Wish::Stand`] makes it a candidate again.
    Lost { reason: String },
}

/// What the manager wants of a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Do not take part yet.
    Wait,
    /// Take part; a higher number after each [`Leadership::Lost`].
    Stand(u64),
    /// Stop for good. The lease may be given back only when all that leads has stopped.
    StepDown { release: bool },
}

/// One candidate in the election for one lease.
pub(crate) struct Candidate {
    lock: Lock,
    elector: Elector,
    epoch: Instant,
    permit: Arc<Issuer>,
    leadership: watch::Sender<Leadership>,
    wishes: watch::Receiver<Wish>,
    metrics: ElectionMetrics,
    recorder: Recorder,
    identity: String,
    options: Options,
    /// The lease as last seen, for the metadata that others set.
    last: Option<Lease>,
    /// The last failure logged, so that one that goes on is logged once.
    failure: Option<String>,
}

/// What a candidate needs of its surroundings.
pub(crate) struct Surroundings {
    pub(crate) client: kube::Client,
    pub(crate) rng: fastrand::Rng,
    pub(crate) clock: Clock,
    pub(crate) metrics: ElectionMetrics,
    pub(crate) recorder: Recorder,
    pub(crate) permit: Arc<Issuer>,
    pub(crate) wishes: watch::Receiver<Wish>,
}

type InFlight = Pin<Box<dyn Future<Output = (Answer, Option<Lease>)> + Send>>;
type Seen = BoxStream<'static, Result<Option<Lease>, String>>;

impl Candidate {
    pub(crate) fn new(options: Options, surroundings: Surroundings) -> Self {
        let Surroundings { client, mut rng, clock, metrics, recorder, permit, wishes } = surroundings;
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
    /// Dropping the future leaves the lease as it is; the permit ends at its time.
    pub(crate) async fn run(mut self) {
        let mut in_flight: Option<InFlight> = None;
        let mut seen: Option<Seen> = None;
        let mut watch_from = Instant::now();
        loop {
            let wake = self.elector.next_wake().map(|wake| self.epoch + wake);
            let takes_part = matches!(*self.wishes.borrow(), Wish::Stand(_));
            let input = tokio::select! {
                // What was asked for first, then what is known, then the time: each step looks at the clock first.
                biased;
                Ok(()) = self.wishes.changed() => match *self.wishes.borrow_and_update() {
                    Wish::Wait => continue,
                    Wish::Stand(_) => Input::Stand,
                    Wish::StepDown { release } => {
                        Input::StepDown { release: release && self.options.release_on_cancel }
                    }
                },
                (answer, lease) = poll(&mut in_flight) => {
                    in_flight = None;
                    self.note(&answer);
                    self.last = lease.or(self.last.take());
                    Input::Answer(answer)
                }
                next = next(&mut seen), if seen.is_some() => match next {
                    Some(Ok(lease)) => {
                        let input = Input::Seen(lease.as_ref().map(record));
                        self.last = lease;
                        input
                    }
                    ended => {
                        seen = None;
                        watch_from = Instant::now() + self.pause_of_watch(ended);
                        continue;
                    }
                },
                () = sleep_until(watch_from), if seen.is_none() && takes_part => {
                    seen = Some(self.lock.watch());
                    continue;
                }
                () = until(wake) => Input::Wake,
            };
            let Output { request, events } = self.elector.step(input, self.now());
            if let Some(request) = request {
                let limit = self.options.timing.request_timeout();
                let sent = timeout(limit, self.lock.clone().send(request, self.last.clone()));
                in_flight = Some(Box::pin(async move {
                    let late =
                        || (Answer::Failed(format!("no answer within {} s", limit.as_secs_f32())), None);
                    sent.await.unwrap_or_else(|_| late())
                }));
            }
            for event in events {
                if let Event::Over { released } = event {
                    tracing::info!(lease = %self.lease(), released, "leader election ended");
                    return;
                }
                self.tell(event);
            }
        }
    }

    fn now(&self) -> Moment {
        self.epoch.elapsed()
    }

    fn lease(&self) -> String {
        format!("{}/{}", self.lock.namespace, self.lock.name)
    }

    fn tell(&self, event: Event) {
        let (lease, identity) = (self.lease(), &*self.identity);
        match event {
            Event::StartedLeading { until, transitions } => {
                // The permit before the news of it, and the other way round below.
                self.permit.grant(self.epoch + until);
                self.leadership.send_replace(Leadership::Leads { transitions });
                self.metrics.leads(true);
                tracing::info!(%lease, identity, transitions, "became leader");
                self.record("StartLeading", "became leader");
            }
            Event::Renewed { until } => self.permit.grant(self.epoch + until),
            Event::StoppedLeading { reason } => {
                self.permit.revoke();
                self.metrics.leads(false);
                tracing::info!(%lease, identity, reason, "stopped leading");
                self.record("StopLeading", "stopped leading");
                self.leadership.send_replace(Leadership::Lost { reason });
            }
            Event::NewLeader { identity: leader } => tracing::info!(%lease, leader, "new leader"),
            Event::SlowPath => self.metrics.slow_path(),
            Event::Over { .. } => {}
        }
    }

    /// An event about the lease, as Go's resource lock records them.
    fn record(&self, action: &str, what: &str) {
        let mut lease = self.last.clone().unwrap_or_default();
        lease.metadata.name = Some(self.lock.name.clone());
        lease.metadata.namespace = Some(self.lock.namespace.clone());
        self.recorder.normal(&lease, "LeaderElection", action, format!("{} {what}", self.identity));
    }

    /// Logs a failure, once as long as it stays the same.
    fn note(&mut self, answer: &Answer) {
        let failure = match answer {
            Answer::Failed(reason) => Some(reason.clone()),
            _ => None,
        };
        if let Some(reason) = &failure
            && self.failure != failure
        {
            tracing::warn!(lease = %self.lease(), reason, "a request of the leader election failed");
        }
        self.failure = failure;
    }

    /// How long to do without a watch after it ended. Without one, the lease is looked at every retry period or so.
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

/// Whoever is dropped leads no longer as far as this process goes, however it came to that.
impl Drop for Candidate {
    fn drop(&mut self) {
        self.permit.revoke();
        self.metrics.leads(false);
    }
}

async fn poll(in_flight: &mut Option<InFlight>) -> (Answer, Option<Lease>) {
    match in_flight {
        Some(request) => request.await,
        None => std::future::pending().await,
    }
}

async fn next(seen: &mut Option<Seen>) -> Option<Result<Option<Lease>, String>> {
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

/// `hostname_uuid`, as controller-runtime names candidates.
fn default_identity(rng: &mut fastrand::Rng) -> String {
    format!("{}_{}", hostname(), uuid::Builder::from_random_bytes(rng.u128(..).to_be_bytes()).into_uuid())
}
