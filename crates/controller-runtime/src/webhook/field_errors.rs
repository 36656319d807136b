//! Errors of single fields, in the words of kube-apiserver (`k8s.io/apimachinery/pkg/util/validation/field`).

use std::fmt;

use serde::Serialize;

use super::rejection::{Rejection, Verdict};

/// Path of a field, such as `spec.rules[0].labels[app]`.
///
/// ```
/// use controller_runtime::webhook::FieldPath;
///
/// let rule = FieldPath::new("spec").child("rules").index(0);
/// assert_eq!(rule.child("labels").key("app").to_string(), "spec.rules[0].labels[app]");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldPath(String);

impl FieldPath {
    /// A field of the object.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// A field of this field.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        Self(format!("{}.{name}", self.0))
    }

    /// An element of this list.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    /// A value of this map.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        Self(format!("{}[{key}]", self.0))
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Takes a complete path, such as `spec.replicas`.
impl From<&str> for FieldPath {
    fn from(path: &str) -> Self {
        Self(path.to_owned())
    }
}

impl From<&Self> for FieldPath {
    fn from(path: &Self) -> Self {
        path.clone()
    }
}

/// Errors of the fields of an object. The client receives code 422 (`Invalid`) with a cause for each field.
///
/// ```
/// use controller_runtime::webhook::{FieldErrors, Verdict};
///
/// fn validate(size: u32) -> Verdict {
///     let mut errors = FieldErrors::new();
///     if size > 10 {
///         errors.invalid("spec.size", size, "must be at most 10");
///     }
///     errors.into_verdict()
/// }
///
/// assert_eq!(validate(11).expect_err("it is too large").code(), 422);
/// ```
#[derive(Debug, Clone, Default)]
#[doc(alias = "ErrorList")]
pub struct FieldErrors(Vec<ListedFieldError>);

/// An error of one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ListedFieldError {
    field: String,
    problem: FieldProblem,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum FieldProblem {
    Required { detail: String },
    Invalid { value: String, detail: String },
    Forbidden { detail: String },
    NotSupported { value: String, supported: Vec<String> },
    Duplicate { value: String },
    NotFound { value: String },
    TooLong { limit: usize },
    TooMany { actual: usize, limit: usize },
}

impl FieldErrors {
    /// No errors.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reports a missing field. `detail` may be empty.
    pub fn required(&mut self, field: impl Into<FieldPath>, detail: impl Into<String>) {
        self.push(field, FieldProblem::Required { detail: detail.into() });
    }

    /// Reports a value that is not allowed.
    pub fn invalid(&mut self, field: impl Into<FieldPath>, value: impl Serialize, detail: impl Into<String>) {
        self.push(field, FieldProblem::Invalid { value: json(&value), detail: detail.into() });
    }

    /// Reports a field that must not be set, or not be changed.
    pub fn forbidden(&mut self, field: impl Into<FieldPath>, detail: impl Into<String>) {
        self.push(field, FieldProblem::Forbidden { detail: detail.into() });
    }

    /// Reports a value other than the supported ones.
    pub fn not_supported(&mut self, field: impl Into<FieldPath>, value: impl Serialize, supported: &[&str]) {
        let supported = supported.iter().map(json).collect();
        self.push(field, FieldProblem::NotSupported { value: json(&value), supported });
    }

    /// Reports a value that occurs more than once.
    pub fn duplicate(&mut self, field: impl Into<FieldPath>, value: impl Serialize) {
        self.push(field, FieldProblem::Duplicate { value: json(&value) });
    }

    /// Reports a value that refers to something that does not exist.
    pub fn not_found(&mut self, field: impl Into<FieldPath>, value: impl Serialize) {
        self.push(field, FieldProblem::NotFound { value: json(&value) });
    }

    /// Reports a text of more than `limit` bytes.
    pub fn too_long(&mut self, field: impl Into<FieldPath>, limit: usize) {
        self.push(field, FieldProblem::TooLong { limit });
    }

    /// Reports a list of `actual` elements where `limit` are allowed.
    pub fn too_many(&mut self, field: impl Into<FieldPath>, actual: usize, limit: usize) {
        self.push(field, FieldProblem::TooMany { actual, limit });
    }

    /// Returns whether no error was reported.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Rejects the object if an error was reported.
    ///
    /// # Errors
    ///
    /// The reported errors.
    pub fn into_verdict(self) -> Verdict {
        if self.is_empty() { Ok(()) } else { Err(Rejection::invalid(self)) }
    }

    pub(super) fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &ListedFieldError> {
        self.0.iter()
    }

    fn push(&mut self, field: impl Into<FieldPath>, problem: FieldProblem) {
        self.0.push(ListedFieldError { field: field.into().0, problem });
    }
}

/// Formats a single error as it is, and several in brackets without duplicates, like `Aggregate` of Kubernetes' Go libraries.
impl fmt::Display for FieldErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut texts: Vec<String> = Vec::new();
        for text in self.0.iter().map(ToString::to_string) {
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        match &*texts {
            [text] => f.write_str(text),
            texts => write!(f, "[{}]", texts.join(", ")),
        }
    }
}

impl ListedFieldError {
    pub(super) fn field(&self) -> &str {
        &self.field
    }

    /// The message without the path of the field.
    pub(super) fn body(&self) -> String {
        let with = |problem: &str, detail: &str| match detail {
            "" => problem.to_owned(),
            detail => format!("{problem}: {detail}"),
        };
        match &self.problem {
            FieldProblem::Required { detail } => with("Required value", detail),
            FieldProblem::Invalid { value, detail } => with(&format!("Invalid value: {value}"), detail),
            FieldProblem::Forbidden { detail } => with("Forbidden", detail),
            FieldProblem::NotSupported { value, supported } => {
                format!("Unsupported value: {value}: supported values: {}", supported.join(", "))
            }
            FieldProblem::Duplicate { value } => format!("Duplicate value: {value}"),
            FieldProblem::NotFound { value } => format!("Not found: {value}"),
            FieldProblem::TooLong { limit } => format!("Too long: may not be more than {limit} bytes"),
            FieldProblem::TooMany { actual, limit } => {
                format!(
                    "Too many: {actual}: must have at most {limit} item{}",
                    if *limit == 1 { "" } else { "s" }
                )
            }
        }
    }

    /// Reason of the cause in a Status.
    pub(super) fn reason(&self) -> &'static str {
        match self.problem {
            FieldProblem::Required { .. } => "FieldValueRequired",
            FieldProblem::Invalid { .. } => "FieldValueInvalid",
            FieldProblem::Forbidden { .. } => "FieldValueForbidden",
            FieldProblem::NotSupported { .. } => "FieldValueNotSupported",
            FieldProblem::Duplicate { .. } => "FieldValueDuplicate",
            FieldProblem::NotFound { .. } => "FieldValueNotFound",
            FieldProblem::TooLong { .. } => "FieldValueTooLong",
            FieldProblem::TooMany { .. } => "FieldValueTooMany",
        }
    }
}

impl fmt::Display for ListedFieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

/// A value as JSON, the form in which kube-apiserver writes most values of fields.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned())
}
