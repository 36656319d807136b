//! Components of the server through which requests pass, other than the state of the cluster.

use std::sync::Arc;

use crate::api::admission::Admission;
use crate::api::audit::Audit;
use crate::api::authentication::Authenticator;
use crate::api::authorization::Authorizer;
use crate::api::conversion::Converter;
use crate::api::impersonation::Impersonation;
use crate::controllers::api_availability::RegisteredApis;
use crate::faults::Injector;

/// Components of the server through which requests pass.
pub(crate) struct Context {
    pub(crate) authenticator: Authenticator,
    pub(crate) authorizer: Arc<Authorizer>,
    /// Receivers of audit events.
    pub(crate) audit: Audit,
    pub(crate) impersonation: Impersonation,
    /// Admission plugins.
    pub(crate) admission: Admission,
    /// Conversion of custom objects by webhooks.
    pub(crate) converter: Converter,
    /// APIServices, some of which belong to other servers.
    pub(crate) apis: Arc<RegisteredApis>,
    /// Fault injection.
    pub(crate) injector: Arc<Injector>,
}
