//! Access control for one request, with a record for the audit.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use kube_apimachinery::rbac::{self, Action, Grant, OwnedAction};
use kube_apimachinery::status::ApiError;
use parking_lot::Mutex;

use super::{Authorizer, Decision};
use crate::user::UserInfo;

/// A decision of access control.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AccessCheck {
    /// Name of the user that the decision is about.
    pub user: String,
    /// Action that the user attempts.
    pub action: OwnedAction,
    /// Whether the user may perform the action, and why.
    pub outcome: Outcome,
    /// Whether the request depends on the decision. `false` for permissions that this server does not require but other servers may: those
    /// of the admission plugin `OwnerReferencesPermissionEnforcement` while it is off.
    pub is_enforced: bool,
}

/// Outcome of an access check.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// A rule of a role permits the action.
    Granted(Grant),
    /// The user may perform every action: it is a member of `system:masters`, or the server does not restrict its users.
    Unrestricted,
    /// No rule permits the action.
    Denied,
}

impl Outcome {
    /// Whether the action is permitted.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        *self != Self::Denied
    }
}

/// Formats as `jane may get resource "pods" in API group "" in the namespace "a", by ClusterRoleBinding "a" of ClusterRole "b" to
/// User "jane", rule {APIGroups:[""], Resources:["pods"], Verbs:["get"]}`.
impl fmt::Display for AccessCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let may = if self.outcome.is_allowed() { "may" } else { "may not" };
        write!(f, "{} {may} {}", self.user, self.action)?;
        if let Outcome::Granted(grant) = &self.outcome {
            write!(f, ", by {grant}, rule {}", grant.rule())?;
        }
        if !self.is_enforced {
            f.write_str(" (not required by this server)")?;
        }
        Ok(())
    }
}

/// Facts that a request adds to its audit event while it is processed.
#[derive(Debug, Default)]
pub(crate) struct Record {
    user: OnceLock<Arc<UserInfo>>,
    impersonated: OnceLock<Arc<UserInfo>>,
    /// Name of the object that the request created.
    created: OnceLock<String>,
    checks: Mutex<Vec<AccessCheck>>,
    /// Annotations of admission.
    annotations: Mutex<BTreeMap<String, String>>,
}

impl Record {
    /// Returns the user that the credentials of the request authenticate, if they are valid.
    pub(crate) fn user(&self) -> Option<Arc<UserInfo>> {
        self.user.get().cloned()
    }

    /// Returns the user that the request acts as, if it impersonates one.
    pub(crate) fn impersonated(&self) -> Option<Arc<UserInfo>> {
        self.impersonated.get().cloned()
    }

    /// Returns the name of the object that the request created.
    pub(crate) fn created(&self) -> Option<&str> {
        self.created.get().map(String::as_str)
    }

    /// Returns the recorded decisions, and removes them.
    pub(crate) fn take_checks(&self) -> Vec<AccessCheck> {
        std::mem::take(&mut self.checks.lock())
    }

    /// Returns the recorded annotations, and removes them.
    pub(crate) fn take_annotations(&self) -> BTreeMap<String, String> {
        std::mem::take(&mut self.annotations.lock())
    }
}

/// Whether a request depends on a recorded decision.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Enforcement {
    Enforced,
    RecordOnly,
}

/// Access control for one request. While the server is audited, decisions on which the request depends are recorded.
#[derive(Clone)]
pub(crate) struct Permissions {
    authorizer: Arc<Authorizer>,
    record: Option<Arc<Record>>,
}

impl Permissions {
    pub(crate) fn new(authorizer: &Arc<Authorizer>, record: Option<Arc<Record>>) -> Self {
        Self { authorizer: Arc::clone(authorizer), record }
    }

    /// Returns access control without a record, for queries on which the request does not depend.
    pub(crate) fn authorizer(&self) -> &Authorizer {
        &self.authorizer
    }

    /// Whether decisions are recorded.
    pub(crate) fn are_audited(&self) -> bool {
        self.record.is_some()
    }

    /// Decides whether a user may perform an action that the request needs.
    pub(crate) fn decide(&self, user: &UserInfo, action: &Action<'_>) -> Decision {
        let decision = self.authorizer.decide(user, action);
        self.record_check(user, action, &decision, Enforcement::Enforced);
        decision
    }

    /// Records whether a user may perform an action that this server does not require, but other servers may.
    pub(crate) fn record_unenforced(&self, user: &UserInfo, action: &Action<'_>) {
        if self.are_audited() {
            let decision = self.authorizer.decide(user, action);
            self.record_check(user, action, &decision, Enforcement::RecordOnly);
        }
    }

    /// Refuses an action that the request needs and `user` may not perform.
    ///
    /// # Errors
    /// 403 with the action.
    pub(crate) fn authorize(&self, user: &UserInfo, action: &Action<'_>) -> Result<(), ApiError> {
        let decision = self.decide(user, action);
        if decision.is_allowed() { Ok(()) } else { Err(action.forbidden(&user.name, &decision.reason())) }
    }

    /// Records the user that the credentials authenticate, and the user that the request acts as. Neither changes once it is known.
    pub(crate) fn record_user(&self, user: &Arc<UserInfo>, impersonated: Option<&Arc<UserInfo>>) {
        if let Some(record) = &self.record {
            // Setting fails only if the user is known already.
            let _ = record.user.set(Arc::clone(user));
            if let Some(impersonated) = impersonated {
                let _ = record.impersonated.set(Arc::clone(impersonated));
            }
        }
    }

    /// Records the name of an object that the request created.
    pub(crate) fn record_created(&self, name: &str) {
        if let Some(record) = &self.record {
            let _ = record.created.set(name.to_owned());
        }
    }

    /// Records an annotation of admission. The first value of a key counts.
    pub(crate) fn record_annotation(&self, key: &str, value: &str) {
        if let Some(record) = &self.record {
            record.annotations.lock().entry(key.to_owned()).or_insert_with(|| value.to_owned());
        }
    }

    fn record_check(
        &self,
        user: &UserInfo,
        action: &Action<'_>,
        decision: &Decision,
        enforcement: Enforcement,
    ) {
        let Some(record) = &self.record else { return };
        let outcome = match decision {
            Decision::Master | Decision::NotEnforced => Outcome::Unrestricted,
            Decision::Rules(rbac::Decision::Allowed(grant)) => Outcome::Granted(grant.clone()),
            Decision::Rules(_) => Outcome::Denied,
        };
        let action = OwnedAction::from(action);
        let is_enforced = enforcement == Enforcement::Enforced;
        record.checks.lock().push(AccessCheck { user: user.name.clone(), action, outcome, is_enforced });
    }
}
