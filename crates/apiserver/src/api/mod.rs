//! Stages of a request for a resource: the user, the permission, admission, and the verbs.

pub(crate) mod admission;
pub mod audit;
pub(crate) mod authentication;
pub(crate) mod authorization;
pub(crate) mod conversion;
pub(crate) mod flow_control;
pub(crate) mod impersonation;
pub(crate) mod selection;
pub(crate) mod verbs;
