//! Strategy of custom kinds. Their CustomResourceDefinition holds all rules: the schema, its CEL rules, the paths of the scale subresource.

use std::borrow::Cow;
use std::collections::BTreeSet;

use kube_apimachinery::cel::ObjectRules;
use kube_apimachinery::decode;
use kube_apimachinery::go::{self, quote};
use kube_apimachinery::metadata;
use kube_apimachinery::schema;
use kube_apimachinery::status::FieldError;
use serde_json::Value;

use crate::kind::registry::ServedKind;
use crate::kind::{Strategy, WHOLE_METADATA};

/// Maximum number of replicas, which Go's Scale keeps as an `int32`.
const MAX_REPLICAS: i64 = i32::MAX as i64;

/// Strategy of custom kinds.
#[derive(Debug)]
pub(crate) struct Custom;

impl Strategy for Custom {
    /// Removes unknown fields that an admission webhook has added. An object that is stored in another version is pruned by the schema of
    /// that version, after its conversion.
    fn prepare_storage(&self, served: &ServedKind, object: &mut Value) {
        if !served.is_stored_in_another_version() && !served.converts_writes() {
            served.schema.prune(object);
        }
    }

    fn validate_create(&self, served: &ServedKind, object: &Value) -> Vec<FieldError> {
        let sent = object;
        let object = &*with_whole_numbers(served, sent);
        let mut errors = type_errors(served, object);
        if errors.is_empty() {
            errors = with_embedded(served, object, served.schema.validate(object));
            // For Go, a float is not an integer, so these checks see the numbers as the client sent them.
            errors.extend(scale_errors(served, sent, ""));
        } else {
            // With a wrong type, kube-apiserver's schema validator returns early. The checks of embedded objects and lists still run.
            errors = with_lists(served, object, None, errors);
        }
        with_rules(served, object, None, "", errors, &mut drop)
    }

    /// Returns a warning for each added finalizer without a domain and a path.
    fn warnings(
        &self,
        _served: &ServedKind,
        object: &Value,
        old: Option<&Value>,
        subresource: &str,
    ) -> Vec<String> {
        let known = old.map(metadata::finalizers).unwrap_or_default();
        let added: BTreeSet<&str> = metadata::finalizers(object).into_iter().collect();
        // The finalizers of Kubernetes itself are older than the convention.
        let is_plain = |name: &&str| {
            !known.contains(name)
                && !name.contains('/')
                && !["orphan", "foregroundDeletion", "kubernetes"].contains(name)
        };
        let warning = |name: &str| {
            // A name with a dot has a domain already, so it lacks only the path.
            let including = if name.contains('.') { " including a path (/)" } else { "" };
            format!(
                "metadata.finalizers: {}: prefer a domain-qualified finalizer name{including} to avoid accidental conflicts \
                 with other finalizer writers",
                quote(name)
            )
        };
        let added = added.into_iter().filter(|_| subresource.is_empty()).filter(is_plain);
        added.map(warning).collect()
    }

    fn status_keeps(&self, _served: &ServedKind) -> &'static [&'static str] {
        &WHOLE_METADATA
    }

    fn resets(&self, _served: &ServedKind, subresource: &str) -> Option<&'static [&'static str]> {
        (subresource == "status").then_some(&["metadata", "spec"])
    }

    fn validate_update(
        &self,
        served: &ServedKind,
        old: &Value,
        new: &Value,
        subresource: &str,
    ) -> Vec<FieldError> {
        self.validate_change(served, old, new, subresource, &mut drop)
    }

    fn validate_change(
        &self,
        served: &ServedKind,
        old: &Value,
        new: &Value,
        subresource: &str,
        warn: &mut dyn FnMut(String),
    ) -> Vec<FieldError> {
        let is_status = subresource == "status";
        let sent = new;
        let new = &*with_whole_numbers(served, sent);
        let mut errors = type_errors(served, new);
        if errors.is_empty() {
            errors = if is_status {
                served.schema.validate_status_update(old, new)
            } else {
                with_embedded(served, new, served.schema.validate_update(old, new))
            };
            errors.extend(scale_errors(served, sent, subresource));
        } else if !is_status {
            errors = with_lists(served, new, Some(old), errors);
        }
        with_rules(served, new, Some(old), subresource, errors, warn)
    }
}

/// Adds the errors of the CEL rules, or the note that other errors prevent their evaluation.
fn with_rules(
    served: &ServedKind,
    object: &Value,
    old: Option<&Value>,
    subresource: &str,
    mut errors: Vec<FieldError>,
    warn: &mut dyn FnMut(String),
) -> Vec<FieldError> {
    let Some(rules) = &served.rules else { return errors };
    // The caller reports the errors of metadata. They count here because kube-apiserver collects them before it decides about the rules.
    let metadata_errors = || {
        let rules = served.metadata_rules();
        match old {
            None => metadata::validate(rules, object),
            Some(old) => metadata::validate_new_state(rules, old, object, subresource),
        }
    };
    let note = ObjectRules::unchecked(&errors).or_else(|| ObjectRules::unchecked(&metadata_errors()));
    if let Some(note) = note {
        errors.push(note);
        return errors;
    }
    let outcome = rules.validate(object, old);
    outcome.warnings.into_iter().for_each(warn);
    errors.extend(outcome.errors);
    errors
}

/// Returns an error for each of `kind` and `apiVersion` that differs from the type of the endpoint.
pub(crate) fn type_errors(served: &ServedKind, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (field, expected) in [("kind", &served.kind.kind), ("apiVersion", &served.kind.api_version)] {
        let given = object.get(field).and_then(Value::as_str).unwrap_or_default();
        if given != expected {
            errors.push(FieldError::invalid(field, &quote(given), &format!("must be {expected}")));
        }
    }
    errors
}

/// Adds the errors about embedded objects and lists, which kube-apiserver reports even if the object has the wrong type.
fn with_lists(
    served: &ServedKind,
    object: &Value,
    old: Option<&Value>,
    errors: Vec<FieldError>,
) -> Vec<FieldError> {
    let mut errors = with_embedded(served, object, errors);
    errors.extend(served.schema.validate_lists(object, old));
    errors
}

/// Returns an object whose numbers of replicas are integers, as its schema and its rules see them. Decoding keeps the floats of a JSON body
/// at these paths.
fn with_whole_numbers<'a>(served: &ServedKind, object: &'a Value) -> Cow<'a, Value> {
    if served.floats_of_scale(object).is_empty() {
        return Cow::Borrowed(object);
    }
    let mut whole = object.clone();
    decode::normalize_numbers(&mut whole);
    Cow::Owned(whole)
}

/// Validates the values at the paths of the scale subresource. `/status` cannot write the desired replicas, so they are not checked there.
fn scale_errors(served: &ServedKind, object: &Value, subresource: &str) -> Vec<FieldError> {
    let Some(scale) = &served.resource.scale else { return Vec::new() };
    let wanted = (subresource != "status").then(|| replicas_error(object, &scale.spec_replicas)).flatten();
    let actual = replicas_error(object, &scale.status_replicas);
    // Go reads the three values with the `Nested…` accessors of unstructured objects. Their errors name the Go type that they found.
    let selector = scale.selector.as_deref().and_then(|path| {
        let why = match nested(object, path) {
            Ok(None | Some(Value::String(_))) => return None,
            Ok(Some(other)) => accessor_error(
                path,
                &format!("{} is of the type {}, expected string", go::value(other), go::type_of(other)),
            ),
            Err(why) => why,
        };
        Some(FieldError::invalid(dotted(path), "\"\"", &why))
    });
    wanted.into_iter().chain(actual).chain(selector).collect()
}

/// Checks that a number of replicas is not negative and fits into Go's `int32`.
fn replicas_error(object: &Value, path: &[String]) -> Option<FieldError> {
    let (shown, why) = match nested(object, path) {
        Ok(None) => return None,
        Ok(Some(Value::Number(number))) if number.is_i64() || number.is_u64() => {
            // Decoding turns integers beyond `i64` into floats, so the maximum is only a fallback.
            let number = number.as_i64().unwrap_or(i64::MAX);
            let why = match number {
                ..0 => "should be a non-negative integer".to_owned(),
                0..=MAX_REPLICAS => return None,
                _ => format!("should be less than or equal to {MAX_REPLICAS}"),
            };
            (number, why)
        }
        Ok(Some(other)) => {
            let found = format!("{} is of the type {}, expected int64", go::value(other), go::type_of(other));
            (0, accessor_error(path, &found))
        }
        Err(why) => (0, why),
    };
    Some(FieldError::invalid(dotted(path), &shown.to_string(), &why))
}

/// Returns the value at a path.
///
/// # Errors
/// Go's message if a value along the path is not an object.
fn nested<'a>(object: &'a Value, path: &[String]) -> Result<Option<&'a Value>, String> {
    let mut place = object;
    for (index, name) in path.iter().enumerate() {
        match place {
            Value::Object(fields) => match fields.get(name) {
                Some(value) => place = value,
                None => return Ok(None),
            },
            Value::Null => return Ok(None),
            other => {
                let found = format!(
                    "{} is of the type {}, expected map[string]interface{{}}",
                    go::value(other),
                    go::type_of(other)
                );
                return Err(accessor_error(&path[..=index], &found));
            }
        }
    }
    Ok(Some(place))
}

fn accessor_error(path: &[String], found: &str) -> String {
    format!("{} accessor error: {found}", dotted(path))
}

/// Writes a path as definitions do, with a leading dot: `.spec.replicas`.
fn dotted(path: &[String]) -> String {
    format!(".{}", path.join("."))
}

/// Adds the errors of the embedded objects of a custom object.
fn with_embedded(served: &ServedKind, object: &Value, mut errors: Vec<FieldError>) -> Vec<FieldError> {
    for (place, embedded) in served.schema.embedded(object) {
        let unreadable = schema::metadata_error(embedded);
        errors.extend(metadata::validate_embedded(&place, embedded, unreadable.as_deref()));
    }
    errors
}
