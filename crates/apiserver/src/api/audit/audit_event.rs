//! Events of an audit.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::api::authorization::{AccessCheck, Record};
use crate::request::info::{RequestInfo, RequestTarget};
use crate::user::UserInfo;

/// A request, its user, and its outcome.
///
/// Formatted as `jane: update deployments.apps/status default/web: 200`, or as `jane as operator: …` if `jane` impersonates `operator`.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AuditEvent {
    /// User that the credentials of the request authenticate: `system:anonymous` if they are invalid.
    pub user: Arc<UserInfo>,
    /// User that the request acts as, if it impersonates one.
    pub impersonated: Option<Arc<UserInfo>>,
    /// HTTP method in lower case.
    pub method: String,
    /// Path of the URL, without query.
    pub path: String,
    /// Verb, resource and name of the request; `None` for a path without a resource, such as `/version`. For a create, the name is that of
    /// the created object.
    pub request: Option<RequestInfo>,
    /// Status code of the response; `None` if the client dropped the request before it was answered.
    pub code: Option<u16>,
    /// Decisions of access control, in order: about the request itself, then about other permissions that it needs. Queries that a client
    /// sends as access reviews are not included.
    pub checks: Vec<AccessCheck>,
    /// Annotations of admission policies, such as `validation.policy.admission.k8s.io/validation_failure`.
    pub annotations: BTreeMap<String, String>,
}

impl AuditEvent {
    pub(super) fn begin(target: &RequestTarget) -> Self {
        Self {
            user: Arc::new(UserInfo::anonymous()),
            impersonated: None,
            method: target.method.as_str().to_ascii_lowercase(),
            path: target.path().to_owned(),
            request: target.info().cloned(),
            code: None,
            checks: Vec::new(),
            annotations: BTreeMap::new(),
        }
    }

    /// Adds the users, decisions and names that were recorded while the request was processed.
    pub(super) fn completed(mut self, record: &Record) -> Self {
        self.user = record.user().unwrap_or(self.user);
        self.impersonated = record.impersonated();
        self.checks = record.take_checks();
        self.annotations = record.take_annotations();
        if let (Some(request), Some(name)) = (&mut self.request, record.created())
            && request.name.is_empty()
        {
            name.clone_into(&mut request.name);
        }
        self
    }

    /// Returns the user with the permissions that count: the impersonated one, or else the authenticated one.
    #[must_use]
    pub fn acting_user(&self) -> &UserInfo {
        self.impersonated.as_ref().unwrap_or(&self.user)
    }
}

impl fmt::Display for AuditEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.user.name)?;
        if let Some(impersonated) = &self.impersonated {
            write!(f, " as {}", impersonated.name)?;
        }
        match &self.request {
            Some(request) => write!(f, ": {request}")?,
            None => write!(f, ": {} {}", self.method, self.path)?,
        }
        match self.code {
            Some(code) => write!(f, ": {code}"),
            None => f.write_str(": not answered"),
        }
    }
}
