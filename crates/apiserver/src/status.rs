//! Errors as the API reports them: a `Status` object and an HTTP code.
//!
//! Shapes and texts follow the recorded answers of kube-apiserver v1.36 (`conformance/`).

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// One entry of `details.causes`: what is wrong, and in which field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cause {
    /// Machine-readable, e.g. `FieldValueRequired`; omitted from the answer where empty.
    pub(crate) reason: &'static str,
    /// For a person.
    pub(crate) message: String,
    /// Path of the field, e.g. `spec.replicas`; omitted where empty.
    pub(crate) field: String,
}

/// An answer other than success.
///
/// Boxed because it travels in the `Err` of every step of the pipeline.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ApiError(Box<Inner>);

#[derive(Debug, Clone, PartialEq)]
struct Inner {
    code: u16,
    reason: &'static str,
    message: String,
    /// `None` omits `details`; an empty map writes `"details":{}`, as some answers have it.
    details: Option<Map<String, Value>>,
    /// `metadata.continue`, omitted where empty.
    continue_token: String,
}

impl ApiError {
    /// An error with a code and reason of its own; an empty `reason` is omitted from the answer.
    pub(crate) fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            code,
            reason,
            message: message.into(),
            details: None,
            continue_token: String::new(),
        }))
    }

    /// The HTTP code.
    pub(crate) fn code(&self) -> u16 {
        self.0.code
    }

    /// The machine-readable reason, empty for a bare 500.
    pub(crate) fn reason(&self) -> &'static str {
        self.0.reason
    }

    /// The text for a person.
    pub(crate) fn message(&self) -> &str {
        &self.0.message
    }

    /// Seconds to wait before trying again: also the `Retry-After` header.
    pub(crate) fn retry_after(&self) -> Option<u64> {
        self.0.details.as_ref()?.get("retryAfterSeconds")?.as_u64()
    }

    /// Adds `details` with the given fields; empty strings are left out.
    #[must_use]
    pub(crate) fn with_details(mut self, name: &str, group: &str, kind: &str) -> Self {
        let details = self.0.details.get_or_insert_default();
        for (key, value) in [("name", name), ("group", group), ("kind", kind)] {
            if !value.is_empty() {
                details.insert(key.to_owned(), json!(value));
            }
        }
        self
    }

    /// Adds `details.causes`; an empty list adds nothing.
    #[must_use]
    pub(crate) fn with_causes(mut self, causes: Vec<Cause>) -> Self {
        let details = self.0.details.get_or_insert_default();
        if !causes.is_empty() {
            let causes = causes.into_iter().map(|cause| {
                let mut entry = Map::new();
                for (key, value) in
                    [("reason", cause.reason), ("message", &*cause.message), ("field", &*cause.field)]
                {
                    if !value.is_empty() {
                        entry.insert(key.to_owned(), json!(value));
                    }
                }
                Value::Object(entry)
            });
            details.insert("causes".to_owned(), causes.collect());
        }
        self
    }

    /// Adds `details.retryAfterSeconds`.
    #[must_use]
    pub(crate) fn with_retry_after(mut self, seconds: u64) -> Self {
        self.0.details.get_or_insert_default().insert("retryAfterSeconds".to_owned(), json!(seconds));
        self
    }

    /// Adds `metadata.continue`: how to go on with a list whose snapshot has expired.
    #[must_use]
    pub(crate) fn with_continue(mut self, token: &str) -> Self {
        token.clone_into(&mut self.0.continue_token);
        self
    }

    /// The `Status` object.
    pub(crate) fn to_json(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.0.message, "code": self.0.code,
        });
        if !self.0.continue_token.is_empty() {
            status["metadata"]["continue"] = json!(self.0.continue_token);
        }
        if !self.0.reason.is_empty() {
            status["reason"] = json!(self.0.reason);
        }
        if let Some(details) = &self.0.details {
            status["details"] = Value::Object(details.clone());
        }
        status
    }
}

/// The errors that many places raise.
impl ApiError {
    /// 400 without details.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 500 without a reason: how the server reports an error that is not a Status.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    /// 500 for an error that the server reports as its own.
    pub(crate) fn internal_error(why: &str) -> Self {
        let cause = Cause { reason: "", message: why.to_owned(), field: String::new() };
        Self::new(500, "InternalError", format!("Internal error occurred: {why}")).with_causes(vec![cause])
    }

    /// 404 for an object. `resource` is the plural.
    pub(crate) fn not_found(group: &str, resource: &str, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} \"{name}\" not found", qualified(resource, group)))
            .with_details(name, group, resource)
    }

    /// 409 for a create of an object that exists.
    pub(crate) fn already_exists(group: &str, resource: &str, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{} \"{name}\" already exists", qualified(resource, group)))
            .with_details(name, group, resource)
    }

    /// 409 for a write whose precondition failed. `what` is the plural resource, or the kind for preconditions of a delete.
    pub(crate) fn conflict(group: &str, what: &str, name: &str, why: &str) -> Self {
        let message =
            format!("Operation cannot be fulfilled on {} \"{name}\": {why}", qualified(what, group));
        Self::new(409, "Conflict", message).with_details(name, group, what)
    }

    /// 422 for an object whose fields are wrong.
    pub(crate) fn invalid(group: &str, kind: &str, name: &str, errors: Vec<FieldError>) -> Self {
        let mut told = BTreeSet::new();
        let mut texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        texts.retain(|text| told.insert(text.clone()));
        let list = match texts.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        Self::new(422, "Invalid", format!("{} \"{name}\" is invalid: {list}", qualified(kind, group)))
            .with_details(name, group, kind)
            .with_causes(errors.into_iter().map(FieldError::into_cause).collect())
    }
}

/// `widgets.example.com`, or `pods` for the core group.
fn qualified(resource: &str, group: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

/// What is wrong with one field, in the words of `k8s.io/apimachinery/pkg/util/validation/field`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FieldError {
    /// Reason of the cause, e.g. `FieldValueInvalid`.
    pub(crate) reason: &'static str,
    /// Path, e.g. `spec.ports[0].name`.
    pub(crate) field: String,
    /// What follows `path: `, e.g. `Invalid value: -1: must be greater than or equal to 0`.
    pub(crate) message: String,
}

impl FieldError {
    /// `Required value: detail`
    pub(crate) fn required(field: impl Into<String>, detail: &str) -> Self {
        let message =
            if detail.is_empty() { "Required value".to_owned() } else { format!("Required value: {detail}") };
        Self { reason: "FieldValueRequired", field: field.into(), message }
    }

    /// `Invalid value: <value>: detail`; `shown` is the value as Go prints it (strings quoted).
    pub(crate) fn invalid(field: impl Into<String>, shown: &str, detail: &str) -> Self {
        let message = format!("Invalid value: {shown}: {detail}");
        Self { reason: "FieldValueInvalid", field: field.into(), message }
    }

    /// `Forbidden: detail`
    pub(crate) fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        Self { reason: "FieldValueForbidden", field: field.into(), message: format!("Forbidden: {detail}") }
    }

    fn into_cause(self) -> Cause {
        Cause { reason: self.reason, message: self.message, field: self.field }
    }
}

impl std::fmt::Display for FieldError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_of_messages_are_told_once_each_in_passing() {
        let error = |n: usize| FieldError::required(format!("spec.f{n}"), "");
        let errors = (0..100_000).chain(0..100_000).map(error).collect();
        let told = ApiError::invalid("", "Pod", "p", errors);
        assert_eq!(told.message().matches("Required value").count(), 100_000);
        let twice = ApiError::invalid("", "Pod", "p", vec![error(1), error(1)]);
        assert_eq!(twice.message(), "Pod \"p\" is invalid: spec.f1: Required value");
    }
}
