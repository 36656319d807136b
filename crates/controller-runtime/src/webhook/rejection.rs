//! Verdicts of admission handlers.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Status, StatusCause, StatusDetails};

use super::{Admission, field_errors::FieldErrors};
use crate::error::{BoxError, text_with_causes};

/// Result of validation.
pub type Verdict = Result<(), Rejection>;

/// Reason why an operation is not admitted, with the status that the client receives.
///
/// `?` converts every other error to an internal error of the webhook with code 500, because it is not a mistake in the object.
#[derive(Debug, Clone)]
pub struct Rejection(Reason);

#[derive(Debug, Clone)]
enum Reason {
    Invalid(FieldErrors),
    Status { code: u16, reason: &'static str, message: String },
}

impl Rejection {
    /// Forbids the operation: code 403.
    #[doc(alias = "Denied")]
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::status(403, "Forbidden", message)
    }

    /// Refuses a request that cannot be understood: code 400.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::status(400, "BadRequest", message)
    }

    /// Reports that the webhook failed: code 500.
    #[doc(alias = "Errored")]
    pub fn internal(message: impl Into<String>) -> Self {
        Self::status(500, "InternalError", message)
    }

    /// Reports that the webhook did not finish in time: code 504.
    pub(super) fn timeout(message: impl Into<String>) -> Self {
        Self::status(504, "Timeout", message)
    }

    /// Refuses an invalid object: code 422, with a cause for each field.
    pub(super) fn invalid(errors: FieldErrors) -> Self {
        Self(Reason::Invalid(errors))
    }

    fn status(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self(Reason::Status { code, reason, message: message.into() })
    }

    /// HTTP status code of the rejection.
    #[must_use]
    pub fn code(&self) -> u16 {
        match &self.0 {
            Reason::Invalid(_) => 422,
            Reason::Status { code, .. } => *code,
        }
    }

    /// Combines the rejections of two validating handlers: field errors are joined, and otherwise the first wins.
    pub(super) fn and(self, other: Self) -> Self {
        match (self.0, other.0) {
            (Reason::Invalid(mut first), Reason::Invalid(second)) => {
                first.extend(second);
                Self(Reason::Invalid(first))
            }
            (first, _) => Self(first),
        }
    }

    /// Returns the status that the client receives, in the form of kube-apiserver. `request` names the object of an invalid one.
    pub(super) fn to_status(&self, request: Option<&Admission>) -> Status {
        let failure = |reason: &str, message: String| Status {
            status: Some("Failure".to_owned()),
            reason: Some(reason.to_owned()),
            message: Some(message),
            code: Some(i32::from(self.code())),
            ..Status::default()
        };
        match &self.0 {
            Reason::Status { reason, message, .. } => failure(reason, message.clone()),
            Reason::Invalid(errors) => {
                let (group, kind, name) = request.map_or(("", "", ""), |request| {
                    (&*request.kind().group, &*request.kind().kind, request.name())
                });
                let qualified = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
                let message = format!("{qualified} {name:?} is invalid: {errors}");
                let non_empty = |text: &str| (!text.is_empty()).then(|| text.to_owned());
                let cause = |error: &super::field_errors::ListedFieldError| StatusCause {
                    field: Some(error.field().to_owned()),
                    message: Some(error.body()),
                    reason: Some(error.reason().to_owned()),
                };
                let details = StatusDetails {
                    group: non_empty(group),
                    kind: non_empty(kind),
                    name: non_empty(name),
                    causes: Some(errors.iter().map(cause).collect()),
                    ..StatusDetails::default()
                };
                Status { details: Some(details), ..failure("Invalid", message) }
            }
        }
    }
}

impl<E: Into<BoxError>> From<E> for Rejection {
    fn from(error: E) -> Self {
        let error: BoxError = error.into();
        Self::internal(text_with_causes(&*error))
    }
}
