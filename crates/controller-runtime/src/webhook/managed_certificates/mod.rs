//! Certificates that the operator makes, rotates and publishes itself, and configurations that it applies.
//!
//! Pure: `rotation` (when to read, write, publish and serve), `authority` (certificates), `secret` and `bundle` (their encodings).
//! `targets` has the requests about configurations, and `keeper` carries out the steps of the rotation.

mod authority;
mod bundle;
mod keeper;
mod options;
mod rotation;
mod secret;
#[cfg(test)]
mod simulation;
mod targets;

pub(crate) use self::keeper::KeeperState;
pub(super) use self::keeper::{Keeper, KeeperContext};
pub use self::options::SelfManagedCertificates;
#[cfg(test)]
mod tests;
