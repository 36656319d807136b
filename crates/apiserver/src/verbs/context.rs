//! Components that requests pass, besides the state of the cluster.

use std::sync::Arc;

use crate::admission::Admission;
use crate::authentication::Authenticator;
use crate::faults::Injector;

/// Components that requests pass.
pub(crate) struct Context {
    pub(crate) authenticator: Authenticator,
    /// Admission plugins.
    pub(crate) admission: Admission,
    /// Fault injection.
    pub(crate) injector: Arc<Injector>,
}
