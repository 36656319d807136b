//! Reports of the permissions that a user has used, has lacked, and has had without need.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube_apimachinery::rbac::OwnedAction;
use kube_apiserver_embedded::audit::{AuditEvent, AuditSink};

use super::Permission;
use crate::control_plane::AuditFiles;
use crate::documents::DocumentError;

/// Maximum number of missing permissions that a report lists.
const MISSING: usize = 1_000;

/// Permissions that a user has used, has lacked, and has had without need. Its display is a table for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RightsReport {
    /// Name of the user.
    pub user: String,
    /// Granted permissions that requests needed.
    pub used: Vec<Permission>,
    /// Permissions that refused requests lacked; at most 1,000.
    pub missing: Vec<Permission>,
    /// Granted permissions that no request needed.
    pub superfluous: Vec<Permission>,
}

impl RightsReport {
    /// Whether the user had each permission that it needed, and no other.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.missing.is_empty() && self.superfluous.is_empty()
    }

    /// Fails the test unless the user had each permission that it needed, and no other.
    ///
    /// # Panics
    ///
    /// Panics with the report if permissions are missing or superfluous.
    #[track_caller]
    pub fn assert_exact(&self) {
        assert!(self.is_exact(), "{self}");
    }
}

impl fmt::Display for RightsReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (used, missing) = (self.used.len(), self.missing.len());
        let superfluous = self.superfluous.len();
        write!(f, "rights of {}: {used} used, {missing} missing, {superfluous} superfluous", self.user)?;
        for permission in &self.missing {
            write!(f, "\n  missing      {permission}")?;
        }
        for permission in &self.superfluous {
            write!(f, "\n  superfluous  {permission}")?;
        }
        Ok(())
    }
}

/// Permissions that refused requests of a user lacked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the API server refused requests of {user}, which lacks: {}", listed(missing))]
#[non_exhaustive]
pub struct MissingPermissions {
    /// Name of the user.
    pub user: String,
    /// The permissions; at most 1,000. The message has the first ten.
    pub missing: Vec<Permission>,
}

/// Formats the first ten permissions, and the number of the others.
fn listed(missing: &[Permission]) -> String {
    let mut names: Vec<String> = missing.iter().take(10).map(ToString::to_string).collect();
    if let Some(more @ 1..) = missing.len().checked_sub(names.len()) {
        names.push(format!("and {more} more"));
    }
    names.join(", ")
}

/// Permissions of a user, compared with the audit of the server.
pub(super) struct Usage {
    user: String,
    granted: BTreeSet<Permission>,
    source: AuditSource,
    seen: Mutex<SeenPermissions>,
}

/// Source of audit events.
pub(super) enum AuditSource {
    /// The embedded server, which delivers them to [`Usage`].
    Embedded,
    /// The log of a kube-apiserver, which is read for each report.
    Log(AuditFiles),
    /// The audit of the cluster cannot be read.
    Absent,
}

/// Permissions that the audit has shown so far.
#[derive(Default)]
struct SeenPermissions {
    used: BTreeSet<Permission>,
    missing: BTreeSet<Permission>,
}

impl Usage {
    pub(super) fn new(user: String, granted: BTreeSet<Permission>, source: AuditSource) -> Arc<Self> {
        Arc::new(Self { user, granted, source, seen: Mutex::default() })
    }

    pub(super) fn report(&self) -> Option<RightsReport> {
        // Declared here, so that the lock or the parsed log lives as long as `seen`.
        let read;
        let delivered;
        let seen = match &self.source {
            AuditSource::Embedded => {
                delivered = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
                &*delivered
            }
            AuditSource::Log(files) => {
                read = self.read(files)?;
                &read
            }
            AuditSource::Absent => return None,
        };
        Some(RightsReport {
            user: self.user.clone(),
            used: seen.used.iter().cloned().collect(),
            missing: seen.missing.iter().cloned().collect(),
            superfluous: self.granted.difference(&seen.used).cloned().collect(),
        })
    }

    /// Reads the log of a kube-apiserver; `None` if its file is gone with the control plane.
    fn read(&self, files: &AuditFiles) -> Option<SeenPermissions> {
        let mut seen = SeenPermissions::default();
        for request in files.requests_of(&self.user).ok()? {
            for audited in &request.actions {
                seen.record(&self.granted, &audited.action, audited.is_refused);
            }
        }
        Some(seen)
    }
}

impl SeenPermissions {
    /// Records an action of the user. `lacks_right`: RBAC refused the action.
    fn record(&mut self, granted: &BTreeSet<Permission>, action: &OwnedAction, lacks_right: bool) {
        let permits = |permission: &&Permission| permission.permits(&action.as_action());
        // Every permission that permits the action counts as used, not only the first one that was found.
        self.used.extend(granted.iter().filter(permits).cloned());
        // An operator that is refused everything must not fill the memory.
        if lacks_right && self.missing.len() < MISSING {
            self.missing.insert(Permission::needed_for(action));
        }
    }
}

impl AuditSink for Usage {
    fn record(&self, event: &Arc<AuditEvent>) {
        let is_refused = event.code == Some(403);
        for check in event.checks.iter().filter(|check| check.user == self.user) {
            // Checks that are not enforced are about permissions that only other servers require, so they do not
            // explain the refusal.
            let lacks_right = is_refused && check.is_enforced && !check.outcome.is_allowed();
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.record(&self.granted, &check.action, lacks_right);
        }
    }
}

impl fmt::Debug for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Usage").field("user", &self.user).finish_non_exhaustive()
    }
}

/// Failure to create a user with the rights of manifests.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UserError {
    /// A file or folder could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// Path of the file or folder.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// A file or text is not YAML of Kubernetes objects.
    #[error("{origin} does not contain Kubernetes objects: {reason}")]
    Parse {
        /// Path of the file, or a description of the text.
        origin: String,
        /// Description of the problem.
        reason: String,
    },
    /// A file or folder contains no role and no binding.
    #[error("{} contains no role and no binding, so the user would have no rights", path.display())]
    Empty {
        /// Path of the file or folder.
        path: PathBuf,
    },
    /// A role or binding has no name.
    #[error("a {kind} of the manifests has no metadata.name")]
    Nameless {
        /// Kind of the object.
        kind: &'static str,
    },
    /// A role is invalid.
    #[error("{object} of the manifests is invalid: {reason}")]
    Invalid {
        /// Kind and name of the object.
        object: String,
        /// Description of the problem.
        reason: String,
    },
    /// No binding names the user, so the roles grant it nothing.
    #[error("no binding of the manifests names {user}: {}", bound_instead(subjects))]
    NotBound {
        /// Name of the user.
        user: String,
        /// Subjects that bindings name instead.
        subjects: BTreeSet<String>,
    },
    /// A binding refers to a role that does not exist.
    #[error("{binding} refers to {role}, which neither the manifests nor the cluster has")]
    NoSuchRole {
        /// Kind and name of the binding.
        binding: String,
        /// Kind and name of the role.
        role: String,
    },
    /// The API server rejected an object.
    #[error("the API server rejected {object}: {reason}")]
    Refused {
        /// Kind and name of the object.
        object: String,
        /// Message of the API server.
        reason: String,
    },
    /// The API server did not grant the rights of the manifests in time.
    #[error("the API server does not grant {user} its rights within {} s: {reason}", within.as_secs())]
    NotGranted {
        /// Name of the user.
        user: String,
        /// Time limit.
        within: Duration,
        /// The first right that it does not grant, or its error.
        reason: String,
    },
    /// No client could be created.
    #[error("cannot connect to the cluster")]
    Connect(#[from] kube::Error),
}

/// Names the subjects of the bindings, for a user that none of them names.
fn bound_instead(subjects: &BTreeSet<String>) -> String {
    if subjects.is_empty() {
        return "they contain none with subjects".to_owned();
    }
    let subjects: Vec<&str> = subjects.iter().map(String::as_str).collect();
    format!("they name {}", subjects.join(", "))
}

impl From<DocumentError> for UserError {
    fn from(error: DocumentError) -> Self {
        match error {
            DocumentError::Read { path, source } => Self::Read { path, source },
            DocumentError::Parse { path, reason } => {
                Self::Parse { origin: path.display().to_string(), reason }
            }
        }
    }
}
