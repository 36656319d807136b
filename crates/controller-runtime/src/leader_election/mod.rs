//! Leader election: of several processes one at a time leads, by a lease on the API server.
//!
//! ```no_run
//! # fn example(client: kube::Client) {
//! use controller_runtime::{Manager, leader_election, manager::Options};
//!
//! let election = leader_election::Options::new("guestbook-operator.example.com");
//! let manager = Manager::new(client, Options::new("guestbook-operator").leader_election(election));
//! # }
//! ```
//!
//! The algorithm is client-go's, on a `Lease` of `coordination.k8s.io/v1`, so processes of both can be candidates for one
//! lease. A candidate trusts its own monotonic clock alone, never the times that others write. Standbys keep their
//! caches warm and watch the lease: one that is given back changes hands at once, one whose holder died after
//! [`Timing::lease_duration`]. A process that loses the lease drops its reconciles and stands by again; it does not exit.
//!
//! A new leader reconciles everything that is there. What is gone it is told of too, if it went within the last ten minutes
//! and while this process was watching: up to 1000 objects of a kind. So nothing falls between two leaders, one of which was
//! told of a deletion and died, while the other one was not leading. (In Go it does, unless a controller opts into warm-up,
//! whose queue then grows as long as the process stands by.) What must never be missed needs a finalizer.
//!
//! # What keeps two from leading at once
//!
//! Leadership is a permit with an end: the start of the last successful renewal plus [`Timing::renew_deadline`]. Others
//! take over [`Timing::lease_duration`] after they saw that renewal, which is later, unless their clocks run faster than the
//! leader's by half. The permit ends by the clock: no task has to run for it, and no answer has to come.
//!
//! The [client of the manager](crate::Manager::client) asks for the permit before it sends a write, each retry included, and
//! gives up a write that is under way when the permit ends. What needs no leader writes through
//! [`Manager::ungated_client`](crate::Manager::ungated_client).
//!
//! # What it cannot prevent
//!
//! A process may be stopped between the look at its permit and the moment its request leaves, or a request may be under
//! way for long. A request that the API server has accepted is carried out whoever leads by then, and one that was cut off
//! may have been. No client can prevent that; only the server can, where a write depends on what it replaces. So let
//! writes have a precondition (the uid or resource version of what they are about), and let systems outside of the API
//! server compare [fencing tokens](crate::manager::RunContext::fencing_token).
//!
//! The permit ends by a clock that has to go on. Where a machine is suspended, or a virtual machine frozen and thawed later, the
//! monotonic clock stands still meanwhile, and those of others do not: another process may lead by then, and the thawed one
//! takes its permit for valid until [`Timing::renew_deadline`] has passed by its own clock, or until it hears of the lease.
//! For what must not happen then, too, there are preconditions and fencing tokens alone.
//!
//! Whoever deletes the lease while somebody holds it lets a candidate that has never seen it lead at once.
//!
//! # Access
//!
//! `get`, `create`, `update` and `watch` of `leases.coordination.k8s.io`, and `create` and `patch` of `events.events.k8s.io`.
//! Without `watch`, a lease given back is noticed within 1 to 2.2 retry periods.

mod candidate;
mod elector;
mod gate;
mod lease;
mod options;
mod permit;
#[cfg(test)]
mod simulation;
mod timing;

pub(crate) use self::{
    candidate::{Candidate, Leadership, Surroundings, Wish},
    gate::LeaseGate,
    permit::Issuer,
};
pub use self::{
    options::Options,
    timing::{InvalidTiming, Timing},
};
