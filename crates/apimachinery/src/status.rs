//! API errors: a `Status` object and an HTTP code.
//!
//! Shapes and messages are those of kube-apiserver v1.36; the API server's conformance tests compare them with recorded answers.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::go::quote;

/// An entry of `details.causes`: an error of one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// Machine-readable reason, such as `FieldValueRequired`; omitted if empty.
    pub reason: &'static str,
    /// Human-readable message.
    pub message: String,
    /// Path of the field, such as `spec.replicas`; omitted if empty.
    pub field: String,
}

/// An error response.
///
/// Boxed because every step of the request pipeline returns it in its `Err`.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiError(Box<ErrorFields>);

#[derive(Debug, Clone, PartialEq)]
struct ErrorFields {
    code: u16,
    reason: Cow<'static, str>,
    message: String,
    /// `None` omits `details`; an empty map is written as `"details":{}`, as in some answers of kube-apiserver.
    details: Option<Map<String, Value>>,
    /// Fields of `metadata`, such as `continue`.
    metadata: Map<String, Value>,
}

impl ApiError {
    /// Creates an error with an HTTP code. An empty `reason` is omitted.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self(Box::new(ErrorFields {
            code,
            reason: Cow::Borrowed(reason),
            message: message.into(),
            details: None,
            metadata: Map::new(),
        }))
    }

    /// Creates an error from a `Status` object, such as that of a webhook, with another code and message. Unknown fields are
    /// dropped.
    #[must_use]
    pub fn from_status(status: &Value, code: u16, message: String) -> Self {
        let reason = status["reason"].as_str().unwrap_or_default().to_owned();
        let details = status["details"].as_object().map(|given| {
            // Empty and zero fields are omitted, as Go does with `omitempty`.
            let mut details = Map::new();
            let texts = ["name", "group", "kind", "uid"];
            for (field, value) in texts.iter().filter_map(|field| Some((field, given.get(*field)?))) {
                if value.as_str().is_some_and(|text| !text.is_empty()) {
                    details.insert((*field).to_owned(), value.clone());
                }
            }
            let causes = given.get("causes").and_then(Value::as_array).filter(|causes| !causes.is_empty());
            if let Some(causes) = causes {
                let known = |cause: &Value| -> Value {
                    let fields = ["reason", "message", "field"].into_iter();
                    let texts = fields.filter_map(|field| Some((field.to_owned(), cause[field].as_str()?)));
                    let texts = texts.filter(|(_, text)| !text.is_empty());
                    Value::Object(texts.map(|(field, text)| (field, json!(text))).collect())
                };
                details.insert("causes".to_owned(), causes.iter().map(known).collect());
            }
            if let Some(seconds) = given.get("retryAfterSeconds").filter(|seconds| **seconds != 0) {
                details.insert("retryAfterSeconds".to_owned(), seconds.clone());
            }
            details
        });
        let mut metadata = Map::new();
        let given = &status["metadata"];
        for field in ["selfLink", "resourceVersion", "continue"] {
            if given[field].as_str().is_some_and(|text| !text.is_empty()) {
                metadata.insert(field.to_owned(), given[field].clone());
            }
        }
        if let Some(count) = given["remainingItemCount"].as_i64() {
            metadata.insert("remainingItemCount".to_owned(), json!(count));
        }
        Self(Box::new(ErrorFields { code, reason: Cow::Owned(reason), message, details, metadata }))
    }

    /// Replaces the reason and the HTTP code.
    #[must_use]
    pub fn with_reason(mut self, reason: &'static str, code: u16) -> Self {
        self.0.reason = Cow::Borrowed(reason);
        self.0.code = code;
        self
    }

    /// Replaces the message.
    #[must_use]
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.0.message = message.into();
        self
    }

    /// Returns the HTTP code.
    #[must_use]
    pub fn code(&self) -> u16 {
        self.0.code
    }

    /// Returns the machine-readable reason; empty for a bare 500.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.0.reason
    }

    /// Returns the human-readable message.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the seconds to wait before a retry, which are also sent as `Retry-After`.
    #[must_use]
    pub fn retry_after(&self) -> Option<u64> {
        self.0.details.as_ref()?.get("retryAfterSeconds")?.as_u64()
    }

    /// Adds `details` with the given fields; empty strings are omitted.
    #[must_use]
    pub fn with_details(mut self, name: &str, group: &str, kind: &str) -> Self {
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
    pub fn with_causes(mut self, causes: Vec<Cause>) -> Self {
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
    pub fn with_retry_after(mut self, seconds: u64) -> Self {
        self.0.details.get_or_insert_default().insert("retryAfterSeconds".to_owned(), json!(seconds));
        self
    }

    /// Adds `metadata.continue`, with which a client can continue a list after its snapshot has expired.
    #[must_use]
    pub fn with_continue(mut self, token: &str) -> Self {
        if !token.is_empty() {
            self.0.metadata.insert("continue".to_owned(), json!(token));
        }
        self
    }

    /// Returns the `Status` object.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": self.0.metadata, "status": "Failure",
            "message": self.0.message, "code": self.0.code,
        });
        if !self.0.reason.is_empty() {
            status["reason"] = json!(self.0.reason);
        }
        if let Some(details) = &self.0.details {
            status["details"] = Value::Object(details.clone());
        }
        status
    }
}

/// Errors that several modules need.
impl ApiError {
    /// Builds a 400 without details.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// Builds a 500 without a reason, as kube-apiserver reports errors that are not a `Status`.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    /// Builds a 500 with the reason `InternalError`.
    #[must_use]
    pub fn internal_error(why: &str) -> Self {
        let cause = Cause { reason: "", message: why.to_owned(), field: String::new() };
        Self::new(500, "InternalError", format!("Internal error occurred: {why}")).with_causes(vec![cause])
    }

    /// Builds the 403 for an object that access control or admission refuses. `resource` is the plural; an empty name is omitted.
    #[must_use]
    pub fn forbidden(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let name_shown = if name.is_empty() { String::new() } else { format!(" {}", quote(name)) };
        let message = format!("{}{name_shown} is forbidden: {why}", qualified(resource, group));
        Self::new(403, "Forbidden", message).with_details(name, group, resource)
    }

    /// Builds the 404 for an object. `resource` is the plural.
    #[must_use]
    pub fn not_found(group: &str, resource: &str, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} \"{name}\" not found", qualified(resource, group)))
            .with_details(name, group, resource)
    }

    /// Builds the 409 for creating an object that exists.
    #[must_use]
    pub fn already_exists(group: &str, resource: &str, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{} \"{name}\" already exists", qualified(resource, group)))
            .with_details(name, group, resource)
    }

    /// Builds the 409 for a failed precondition. `what` is the plural resource, or the kind for preconditions of a delete.
    #[must_use]
    pub fn conflict(group: &str, what: &str, name: &str, why: &str) -> Self {
        let message =
            format!("Operation cannot be fulfilled on {} \"{name}\": {why}", qualified(what, group));
        Self::new(409, "Conflict", message).with_details(name, group, what)
    }

    /// Builds the 404 for a path without a resource.
    #[must_use]
    pub fn unknown_resource() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource")
            .with_details("", "", "")
    }

    /// Builds the 409 for an object that was changed since the client read it.
    #[must_use]
    pub fn modified(group: &str, resource: &str, name: &str) -> Self {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(group, resource, name, why)
    }

    /// Builds the 422 for an object with invalid fields.
    pub fn invalid(group: &str, kind: &str, name: &str, errors: Vec<FieldError>) -> Self {
        let mut listed = BTreeSet::new();
        // kube-apiserver lists each message once, but repeats equal ones among the causes.
        let mut texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        texts.retain(|text| listed.insert(text.clone()));
        let list = match texts.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        Self::new(422, "Invalid", format!("{} \"{name}\" is invalid: {list}", qualified(kind, group)))
            .with_details(name, group, kind)
            .with_causes(errors.into_iter().map(FieldError::into_cause).collect())
    }
}

/// Formats `widgets.example.com`, or `pods` for the core group.
fn qualified(resource: &str, group: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

/// An invalid field, with messages of `k8s.io/apimachinery/pkg/util/validation/field`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// Reason of the cause, such as `FieldValueInvalid`.
    pub reason: &'static str,
    /// Path, such as `spec.ports[0].name`.
    pub field: String,
    /// Text after `path: `, such as `Invalid value: -1: must be greater than or equal to 0`.
    pub message: String,
}

impl FieldError {
    /// Builds `Required value: detail`.
    pub fn required(field: impl Into<String>, detail: &str) -> Self {
        let message =
            if detail.is_empty() { "Required value".to_owned() } else { format!("Required value: {detail}") };
        Self { reason: "FieldValueRequired", field: field.into(), message }
    }

    /// Builds `Invalid value: <value>: detail`; `shown` is the value as Go prints it, with strings quoted.
    pub fn invalid(field: impl Into<String>, shown: &str, detail: &str) -> Self {
        let message = format!("Invalid value: {shown}: {detail}");
        Self { reason: "FieldValueInvalid", field: field.into(), message }
    }

    /// Builds `Forbidden: detail`.
    pub fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        Self { reason: "FieldValueForbidden", field: field.into(), message: format!("Forbidden: {detail}") }
    }

    /// Builds `Unsupported value: "x": supported values: "a", "b"`.
    pub fn not_supported(field: impl Into<String>, value: &str, supported: &[&str]) -> Self {
        let supported: Vec<String> = supported.iter().map(|value| quote(value)).collect();
        let message =
            format!("Unsupported value: {}: supported values: {}", quote(value), supported.join(", "));
        Self { reason: "FieldValueNotSupported", field: field.into(), message }
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

    /// Observed with kube-apiserver v1.36.3: the denial of a webhook keeps the revision in its metadata.
    #[test]
    fn a_status_keeps_the_metadata_of_lists() {
        let given = json!({"metadata": {"resourceVersion": "7", "continue": "", "name": "x"}, "reason": "R"});
        let error = ApiError::from_status(&given, 403, "m".to_owned());
        assert_eq!(error.to_json()["metadata"], json!({"resourceVersion": "7"}));
        assert_eq!(ApiError::bad_request("m").to_json()["metadata"], json!({}));
    }

    #[test]
    fn thousands_of_messages_are_listed_once_each_and_quickly() {
        let error = |n: usize| FieldError::required(format!("spec.f{n}"), "");
        let errors = (0..100_000).chain(0..100_000).map(error).collect();
        let invalid = ApiError::invalid("", "Pod", "p", errors);
        assert_eq!(invalid.message().matches("Required value").count(), 100_000);
        let twice = ApiError::invalid("", "Pod", "p", vec![error(1), error(1)]);
        assert_eq!(twice.message(), "Pod \"p\" is invalid: spec.f1: Required value");
    }
}
