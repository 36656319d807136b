//! Leader election: a lease on the API server decides which of several processes leads; only one does at a time.
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
//! The algorithm is client-go's, on a `Lease` of `coordination.k8s.io/v1`, so processes of both can be candidates for one
//! lease. A candidate trusts only its own monotonic clock, never times written by others. Standbys keep their
//! caches up to date and watch the lease: a released lease changes hands at once, a lease of a dead holder after
//! [`Timing::lease_duration`]. A process that loses the lease drops its reconciles and becomes a standby; it does not exit.
//!
//! A new leader reconciles every existing object. It also receives deletions of the last ten minutes that this process observed
//! while on standby, up to 1000 objects of a kind. So a deletion is not lost when the old leader received it and died before
//! handling it. (In Go it is lost, unless a controller opts into warm-up, and then its queue grows as long as the
//! process is a standby.) Clean-up that must never be missed needs a finalizer.
//!
//! # What keeps two processes from leading at once
//!
//! Leadership is a permit with an end: the start of the last successful renewal plus [`Timing::renew_deadline`]. Other
//! candidates take over [`Timing::lease_duration`] after they saw that renewal. This is later than the end of the
//! permit, unless their clocks run 1.5 times as fast as the leader's. The permit ends by the clock alone, without a
//! running task or a response.
//!
//! The [client of the manager](crate::Manager::client) asks for the permit before it sends a write, and before each retry, and
//! interrupts a write in flight when the permit ends. Code that needs no leadership writes through
//! [`Manager::ungated_client`](crate::Manager::ungated_client).
//!
//! # Limitations
//!
//! A process may be suspended between checking its permit and sending a request, or a request may travel for a long time. A
//! request that the API server has accepted is carried out, whichever process leads by then; an interrupted one may have been
//! carried out. No client can prevent that. Only the API server can, for writes with a precondition on the state that
//! they replace. So give writes a precondition (the UID or resourceVersion of their object), and let systems outside of
//! the API server compare [fencing tokens](crate::runnable::RunContext::fencing_token).
//!
//! The permit relies on a clock that runs. When a machine is suspended, or a virtual machine is frozen and thawed later, its
//! monotonic clock stands still while those of others run on: another process may lead by then. The thawed process considers
//! its permit valid until [`Timing::renew_deadline`] has passed by its own clock, or until it receives news of the lease. Only
//! preconditions and fencing tokens protect against that case.
//!
//! Deleting the lease while it is held allows a candidate that has never seen it to lead at once.
//!
//! # Access
//!
//! `get`, `create`, `update` and `watch` of `leases.coordination.k8s.io`, and `create` and `patch` of `events.events.k8s.io`.
//! Without `watch`, a released lease is noticed within 1 to 2.2 retry periods.

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
