//! Leader election: of several processes, the one that holds a lease on the API server leads.
//!
//! ```no_run
//! # fn example(client: kube::Client) {
//! use controller_runtime::{Manager, ManagerOptions, leader_election::LeaderElectionOptions};
//!
//! let election = LeaderElectionOptions::new("guestbook-operator.example.com");
//! let manager = Manager::new(client, ManagerOptions::new("guestbook-operator").leader_election(election));
//! # }
//! ```
//!
//! The algorithm is client-go's, on a `Lease` of `coordination.k8s.io/v1`, so programs in Go and in Rust can be candidates for one
//! lease. A candidate trusts only its own monotonic clock, never the timestamps of others. Standbys keep their caches up to date
//! and watch the lease. They take over a released lease at once, and the lease of a dead leader after [`Timing::lease_duration`],
//! 15 s by default. A process that loses the lease drops its reconciles and becomes a standby; it does not exit.
//!
//! A new leader reconciles every existing object. It also reconciles deletions that its process observed as a standby in the last
//! ten minutes, up to 1000 objects of a kind. So a deletion is not lost if the old leader received it and died before handling it.
//! (In Go it is lost, unless a controller opts into warm-up, and then its queue grows as long as the process is a standby.) For
//! clean-up that must never be missed, use a finalizer.
//!
//! # What keeps two processes from leading at once
//!
//! Leadership is a permit that expires: [`Timing::renew_deadline`] after the start of the last successful renewal. Other
//! candidates take over [`Timing::lease_duration`] after they observed that renewal. This is later than the end of the
//! permit, unless their clocks run 1.5 times as fast as the leader's. Only the clock ends the permit: that needs neither a running
//! task nor a response.
//!
//! The [client of the manager](crate::Manager::client) asks for the permit before it sends a write, and before each retry, and
//! interrupts a write in flight when the permit ends. Code that needs no leadership writes through
//! [`Manager::ungated_client`](crate::Manager::ungated_client).
//!
//! # Limitations
//!
//! A process may be suspended between checking its permit and sending a request, or a request may travel for a long time. A
//! request that the API server has accepted is carried out even if another process leads by then, and an interrupted request may
//! have been carried out. No client can prevent that. The API server can, for writes with a precondition. So give writes a
//! precondition (the UID or resourceVersion of their object), and let systems outside of the API server compare
//! [fencing tokens](crate::runnable::RunContext::fencing_token).
//!
//! The permit relies on a running clock. While a machine is suspended, or a virtual machine is paused, its monotonic clock stands
//! still, and another process may become the leader. After it resumes, the process considers its permit valid until
//! [`Timing::renew_deadline`] has passed by its own clock, or until it receives a change of the lease. Only preconditions and
//! fencing tokens protect against that case.
//!
//! If the lease is deleted while it is held, a candidate that has never read it may lead at once.
//!
//! # Permissions
//!
//! `get`, `create`, `update` and `watch` of `leases.coordination.k8s.io`, and `create` and `patch` of `events.events.k8s.io`.
//! Without `watch`, a candidate notices a released lease within 1 to 2.2 retry periods (2 s each by default).

mod candidate;
mod elector;
mod lease;
mod lease_gate;
mod lease_permit;
mod options;
#[cfg(test)]
mod simulation;
mod timing;

pub(crate) use self::{
    candidate::{Candidate, CandidateContext, Leadership, Wish},
    lease_gate::LeaseGate,
    lease_permit::LeasePermitIssuer,
};
pub use self::{
    options::LeaderElectionOptions,
    timing::{Timing, TimingError},
};
