//! Controllers of the world around an operator, for [`Simulation::actor`](crate::Simulation::actor).
//!
//! The embedded API server runs no workloads. These controllers report the progress of workloads that operators wait for. Faults do not
//! affect them.

mod batch_jobs;
mod deployments;
mod kubelet;
mod statefulsets;

pub use self::{batch_jobs::jobs, deployments::deployments, kubelet::kubelet, statefulsets::statefulsets};

/// Field manager of the writes.
const MANAGER: &str = "kube-controller-manager";

/// Ignores the error for an object that no longer exists.
fn unless_gone<T>(result: Result<T, kube::Error>) -> Result<(), kube::Error> {
    match result {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        result => result.map(drop),
    }
}
