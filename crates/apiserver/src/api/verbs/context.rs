//! Components that requests pass, besides the state of the cluster.

use std::sync::Arc;

use crate::api::admission::Admission;
use crate::api::authentication::Authenticator;
use crate::api::authorization::Authorizer;
use crate::faults::Injector;

/// Components that requests pass.
pub(crate) struct Context {
    pub(crate) authenticator: Authenticator,
    pub(crate) authorizer: Box<dyn Authorizer>,
    /// Admission plugins.
    pub(crate) admission: Admission,
    /// Fault injection.
    pub(crate) injector: Arc<Injector>,
}
