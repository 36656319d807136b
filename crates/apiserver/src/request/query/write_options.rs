//! Options of writes and deletions.

use kube_apimachinery::go::quote;
use kube_apimachinery::managed_fields::OnConflict;
use kube_apimachinery::metadata;
use kube_apimachinery::status::{ApiError, FieldError};
use serde_json::{Value, json};

use super::{Query, invalid_options, unsupported};

/// Version of options as objects.
const META: &str = "meta.k8s.io/v1";

/// Treatment of unknown and duplicate fields in a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

impl FieldValidation {
    fn name(self) -> &'static str {
        match self {
            Self::Ignore => "Ignore",
            Self::Warn => "Warn",
            Self::Strict => "Strict",
        }
    }
}

/// Kind of a write, which determines its options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteKind {
    Create,
    Update,
    /// A patch other than an apply.
    Patch,
    /// A server-side apply.
    Apply,
}

impl WriteKind {
    /// Returns the kind of the options.
    fn options(self) -> &'static str {
        match self {
            Self::Create => "CreateOptions",
            Self::Update => "UpdateOptions",
            Self::Patch | Self::Apply => "PatchOptions",
        }
    }
}

/// `CreateOptions`, `UpdateOptions` or `PatchOptions`.
#[derive(Debug, Clone)]
pub(crate) struct WriteOptions {
    pub(crate) dry_run: bool,
    pub(crate) field_manager: String,
    pub(crate) field_validation: FieldValidation,
    /// Whether the client requests a field validation instead of the server's default.
    names_validation: bool,
    /// Whether to take over fields of other managers; only for server-side apply.
    pub(crate) on_conflict: OnConflict,
}

impl WriteOptions {
    /// Parses and validates the options.
    pub(crate) fn read(query: &Query, write: WriteKind) -> Result<Self, ApiError> {
        let mut errors = Vec::new();
        let force = query.flag("force");
        let field_manager = query.text("fieldManager").to_owned();
        match write {
            WriteKind::Patch if force.is_some() => {
                errors.push(FieldError::forbidden("force", "may not be specified for non-apply patch"));
            }
            WriteKind::Apply if field_manager.is_empty() => {
                errors.push(FieldError::required("fieldManager", "is required for apply patch"));
            }
            _ => {}
        }
        // The errors have the order of kube-apiserver's validation, which reports all of them.
        errors.extend(metadata::validate_manager("fieldManager", &field_manager));
        let dry_run = dry_run(&query.all("dryRun"), &mut errors);
        let field_validation = match query.text("fieldValidation") {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                let supported = r#""", "Ignore", "Strict", "Warn""#;
                errors.push(unsupported("fieldValidation", &quote(other), supported));
                FieldValidation::Warn
            }
        };
        if errors.is_empty() {
            let names_validation = !query.text("fieldValidation").is_empty();
            let on_conflict = if force == Some(true) { OnConflict::Force } else { OnConflict::Refuse };
            Ok(Self { dry_run, field_manager, field_validation, names_validation, on_conflict })
        } else {
            Err(invalid_options(write.options(), errors))
        }
    }

    /// Returns the options as an object of `kind`: `CreateOptions` or `UpdateOptions`.
    pub(crate) fn to_value(&self, kind: &str) -> Value {
        let mut options = json!({"kind": kind, "apiVersion": META});
        if self.dry_run {
            options["dryRun"] = json!(["All"]);
        }
        if !self.field_manager.is_empty() {
            options["fieldManager"] = json!(self.field_manager);
        }
        if self.names_validation {
            options["fieldValidation"] = json!(self.field_validation.name());
        }
        options
    }
}

fn dry_run(values: &[String], errors: &mut Vec<FieldError>) -> bool {
    if values.iter().any(|value| value != "All") {
        let shown: Vec<String> = values.iter().map(|value| quote(value)).collect();
        errors.push(unsupported("dryRun", &format!("[{}]", shown.join(",")), r#""All""#));
    }
    values.iter().any(|value| value == "All")
}

/// Treatment of the dependents of a deleted object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Propagation {
    Foreground,
    Background,
    Orphan,
}

impl Propagation {
    fn name(self) -> &'static str {
        match self {
            Self::Foreground => "Foreground",
            Self::Background => "Background",
            Self::Orphan => "Orphan",
        }
    }
}

/// `DeleteOptions`.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) dry_run: bool,
    /// Period as the client sent it; [`grace_period`](Self::grace_period) returns the one that applies.
    pub(crate) grace_period_seconds: Option<i64>,
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    pub(crate) propagation: Option<Propagation>,
    pub(crate) orphan_dependents: Option<bool>,
}

impl DeleteOptions {
    /// Parses the options from the body if there is one, otherwise from the query. The body must have been decoded as `DeleteOptions`.
    pub(crate) fn read(query: &Query, body: Option<&Value>) -> Result<Self, ApiError> {
        let mut errors = Vec::new();
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        let (policy, orphan_dependents, mut options, dry) = if let Some(body) = body {
            let conditions = body.get("preconditions");
            let options = Self {
                grace_period_seconds: body.get("gracePeriodSeconds").and_then(Value::as_i64),
                uid: text(conditions.and_then(|c| c.get("uid"))),
                resource_version: text(conditions.and_then(|c| c.get("resourceVersion"))),
                ..Self::default()
            };
            let dry: Vec<String> = body
                .get("dryRun")
                .and_then(Value::as_array)
                .map(|values| values.iter().map(|v| v.as_str().unwrap_or_default().to_owned()).collect())
                .unwrap_or_default();
            let orphan = body.get("orphanDependents").and_then(Value::as_bool);
            (text(body.get("propagationPolicy")), orphan, options, dry)
        } else {
            let precondition = |name: &str| Some(query.text(name).to_owned()).filter(|text| !text.is_empty());
            let options = Self {
                grace_period_seconds: query.integer("gracePeriodSeconds")?,
                uid: precondition("uid"),
                resource_version: precondition("resourceVersion"),
                ..Self::default()
            };
            let policy = query.get("propagationPolicy").map(str::to_owned);
            (policy, query.flag("orphanDependents"), options, query.all("dryRun"))
        };
        // `orphanDependents` is the old form of the policy.
        if let (Some(policy), Some(_)) = (&policy, orphan_dependents) {
            errors.push(FieldError::invalid(
                "propagationPolicy",
                &quote(policy),
                "orphanDependents and deletionPropagation cannot be both set",
            ));
        }
        options.propagation = match policy.as_deref() {
            None => None,
            Some("Foreground") => Some(Propagation::Foreground),
            Some("Background") => Some(Propagation::Background),
            Some("Orphan") => Some(Propagation::Orphan),
            Some(other) => {
                let supported = r#""Foreground", "Background", "Orphan", "nil""#;
                errors.push(unsupported("propagationPolicy", &quote(other), supported));
                None
            }
        };
        options.orphan_dependents = orphan_dependents;
        options.dry_run = dry_run(&dry, &mut errors);
        if errors.is_empty() { Ok(options) } else { Err(invalid_options("DeleteOptions", errors)) }
    }

    /// Returns the grace period. As in kube-apiserver, a negative period is one second, not zero.
    pub(crate) fn grace_period(&self) -> Option<i64> {
        self.grace_period_seconds.map(|seconds| if seconds < 0 { 1 } else { seconds })
    }

    /// Returns the options as an object.
    pub(crate) fn to_value(&self) -> Value {
        let mut options = json!({"kind": "DeleteOptions", "apiVersion": META});
        if let Some(seconds) = self.grace_period_seconds {
            options["gracePeriodSeconds"] = json!(seconds);
        }
        for (field, value) in [("uid", &self.uid), ("resourceVersion", &self.resource_version)] {
            if let Some(value) = value {
                options["preconditions"][field] = json!(value);
            }
        }
        if let Some(orphan) = self.orphan_dependents {
            options["orphanDependents"] = json!(orphan);
        }
        if let Some(policy) = self.propagation {
            options["propagationPolicy"] = json!(policy.name());
        }
        if self.dry_run {
            options["dryRun"] = json!(["All"]);
        }
        options
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_dry_run_value_is_invalid() {
        let error = WriteOptions::read(&Query::parse("dryRun=Foo"), WriteKind::Create).unwrap_err();
        assert_eq!(
            error.message(),
            r#"CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Foo"]: supported values: "All""#
        );
    }

    #[test]
    fn options_have_the_parameters_that_the_client_sent() {
        let options = WriteOptions::read(&Query::default(), WriteKind::Create).unwrap();
        assert_eq!(
            options.to_value("CreateOptions"),
            json!({"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"})
        );
        let query = Query::parse("dryRun=All&fieldManager=me&fieldValidation=Warn");
        let options = WriteOptions::read(&query, WriteKind::Update).unwrap();
        let expected = json!({
            "kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1", "dryRun": ["All"], "fieldManager": "me",
            "fieldValidation": "Warn",
        });
        assert_eq!(options.to_value("UpdateOptions"), expected);
        let body = json!({
            "gracePeriodSeconds": -3, "preconditions": {"uid": "u"}, "propagationPolicy": "Orphan", "dryRun": ["All"],
        });
        let options = DeleteOptions::read(&Query::default(), Some(&body)).unwrap();
        let expected = json!({
            "kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "gracePeriodSeconds": -3,
            "preconditions": {"uid": "u"}, "propagationPolicy": "Orphan", "dryRun": ["All"],
        });
        assert_eq!(options.to_value(), expected);
        assert_eq!(options.grace_period(), Some(1));
    }

    #[test]
    fn an_apply_needs_a_field_manager() {
        let error = WriteOptions::read(&Query::default(), WriteKind::Apply).unwrap_err();
        assert_eq!(
            error.message(),
            r#"PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch"#
        );
    }
}
