//! Rules for the `metadata` of objects: validation of new and changed objects.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{DerivedName, finalizers, is_terminating, text};
use crate::go::{self, Layout, quote};
use crate::names::{self, NameRule};
use crate::status::FieldError;

/// Maximum size of all annotations of an object, in bytes.
const ANNOTATIONS_LIMIT: usize = 256 << 10;
/// Maximum number of reported errors about additional controllers among the owners. Each of these errors quotes all owners.
const QUOTED_OWNERS: usize = 10;

/// Maximum length of the name of a field manager, in bytes.
const MANAGER_LIMIT: usize = 128;
/// Maximum length of the subresource of a field manager, in bytes.
const SUBRESOURCE_LIMIT: usize = 256;

/// Rules of a kind for the metadata of its objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetadataRules {
    /// Syntax of names.
    pub name: NameRule,
    /// Whether the rules of the kind validate only the generated name, not its prefix.
    pub any_prefix: bool,
    /// Kind with names that other fields of the object determine.
    pub derived_name: Option<DerivedName>,
    /// Whether a CustomResourceDefinition defines the kind.
    pub custom: bool,
    /// Whether each finalizer must be a standard one or have a domain as its prefix. Most builtin kinds require it.
    pub qualified_finalizers: bool,
    /// How many times the rules of a builtin kind repeat the validation of the new metadata in an update. Each repetition reports its
    /// errors again, with names checked by [`name`](Self::name).
    pub revalidated: usize,
    /// Updates in which the rules of a builtin kind repeat the comparison of the metadata with the old state.
    pub compared: Compared,
    /// Subresources with updates that repeat the validation too, as `revalidated` says.
    pub revalidated_in: &'static [&'static str],
}

/// Updates in which the rules of a builtin kind repeat the comparison of the metadata with the old state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compared {
    /// All updates.
    Always,
    /// Updates of subresources.
    InSubresources,
    /// Updates of the object itself.
    InObjects,
    /// No update.
    Never,
}

/// Validates the `metadata` of a new object.
#[must_use]
pub fn validate(rules: MetadataRules, object: &Value) -> Vec<FieldError> {
    let mut errors = validate_alone(rules, object);
    if rules.qualified_finalizers {
        validate_finalizer_names(object, &mut errors);
    }
    errors
}

/// Validates the `metadata` of a new object that fulfils the rules of its kind. kube-apiserver then applies the rules for all kinds, which also
/// check a prefix beside a name.
#[must_use]
pub fn validate_contained(rules: MetadataRules, object: &Value) -> Vec<FieldError> {
    validate_alone(general(rules), object)
}

/// Returns the rules for objects of all kinds.
fn general(rules: MetadataRules) -> MetadataRules {
    MetadataRules { name: NameRule::PathSegment, any_prefix: false, derived_name: None, ..rules }
}

/// Validates the type and the metadata of an embedded object at the path `place`. `unreadable` is Go's message if the metadata cannot be
/// decoded.
#[must_use]
pub fn validate_embedded(place: &str, object: &Value, unreadable: Option<&str>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for field in ["apiVersion", "kind"] {
        let path = format!("{place}.{field}");
        if let Some(value) = object.get(field).filter(|value| !value.is_string()) {
            errors.push(FieldError::invalid(path, &value.to_string(), "must be a string"));
            continue;
        }
        match object.get(field).and_then(Value::as_str) {
            None => errors.push(FieldError::required(path, "")),
            Some("") => errors.push(FieldError::invalid(path, "\"\"", "must not be empty")),
            Some(version) if field == "apiVersion" => {
                if version.matches('/').count() > 1 {
                    let why = format!("unexpected GroupVersion string: {version}");
                    errors.push(FieldError::invalid(path, &quote(version), &why));
                }
            }
            Some(kind) => {
                let wrong = names::name(NameRule::Label1035, &kind.to_lowercase());
                if !wrong.is_empty() {
                    let why = format!("may have mixed case, but should otherwise match: {}", wrong.join(","));
                    errors.push(FieldError::invalid(path, &quote(kind), &why));
                }
            }
        }
    }
    if let Some(why) = unreadable {
        errors.push(FieldError::invalid(format!("{place}.metadata"), &object["metadata"].to_string(), why));
        return errors;
    }
    let mut contents = Vec::new();
    let mut refuse = |field: &str, value: &str, reasons: Vec<String>| {
        for why in reasons.iter().filter(|_| !value.is_empty()) {
            contents.push(FieldError::invalid(format!("metadata.{field}"), &quote(value), why));
        }
    };
    let [prefix, name, namespace] = ["generateName", "name", "namespace"].map(|field| text(object, field));
    refuse("generateName", prefix, names::name_prefix(NameRule::PathSegment, prefix));
    refuse("name", name, names::name(NameRule::PathSegment, name));
    refuse("namespace", namespace, names::name(NameRule::Label, namespace));
    validate_generation(object, &mut contents);
    validate_contents(&object["metadata"], &mut contents);
    validate_finalizers(object, &mut contents);
    validate_managed_fields(object, &mut contents);
    for mut error in contents {
        error.field = format!("{place}.{}", error.field);
        errors.push(error);
    }
    errors
}

/// Validates the `metadata` of an object's new state.
///
/// kube-apiserver validates the metadata alone, and against the old state. The rules of a kind then repeat either or both: those of custom
/// kinds repeat the second, those of most builtin kinds both, but for subresources only the second. Each validation reports its errors, so
/// an error may occur several times. The first one accepts names and prefixes of any kind.
#[must_use]
pub fn validate_new_state(
    rules: MetadataRules,
    old: &Value,
    new: &Value,
    subresource: &str,
) -> Vec<FieldError> {
    let mut errors = validate_alone(general(rules), new);
    let mut differences = validate_against(old, new);
    errors.extend(differences.iter().cloned());
    let is_compared = match rules.compared {
        Compared::Always => true,
        Compared::InSubresources => !subresource.is_empty(),
        Compared::InObjects => subresource.is_empty(),
        Compared::Never => false,
    };
    if rules.custom || is_compared {
        errors.append(&mut differences);
        if rules.qualified_finalizers {
            validate_finalizer_names(new, &mut errors);
        }
    }
    let is_revalidated = subresource.is_empty() || rules.revalidated_in.contains(&subresource);
    let again = if rules.custom || !is_revalidated { 0 } else { rules.revalidated };
    if again > 0 {
        let mut repeated = validate_alone(rules, new);
        if rules.qualified_finalizers {
            validate_finalizer_names(new, &mut repeated);
        }
        (0..again).for_each(|_| errors.extend(repeated.iter().cloned()));
    }
    errors
}

/// Validates without the old state.
fn validate_alone(rules: MetadataRules, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let generate = text(object, "generateName");
    let mut refuse = |field: &str, given: &str, mut reasons: Vec<String>| {
        if let Some(derived) = rules.derived_name {
            derived.check(object, given, &mut reasons);
        }
        for why in reasons {
            errors.push(FieldError::invalid(format!("metadata.{field}"), &quote(given), &why));
        }
    };
    if !generate.is_empty() && !rules.any_prefix {
        refuse("generateName", generate, names::name_prefix(rules.name, generate));
    }
    let name = text(object, "name");
    if name.is_empty() {
        errors.push(FieldError::required("metadata.name", "name or generateName is required"));
    } else {
        refuse("name", name, names::name(rules.name, name));
    }
    validate_generation(object, &mut errors);
    validate_contents(&object["metadata"], &mut errors);
    validate_finalizers(object, &mut errors);
    errors
}

fn validate_generation(object: &Value, errors: &mut Vec<FieldError>) {
    if let Some(generation) = object["metadata"]["generation"].as_i64().filter(|generation| *generation < 0) {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid("metadata.generation", &generation.to_string(), detail));
    }
}

/// Validates the name of a field manager at the path `field`.
#[must_use]
pub fn validate_manager(field: &str, manager: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if manager.len() > MANAGER_LIMIT {
        errors.push(FieldError {
            reason: "FieldValueTooLong",
            field: field.to_owned(),
            message: format!("Too long: may not be more than {MANAGER_LIMIT} bytes"),
        });
    }
    for (at, bad) in manager.char_indices().filter(|(_, c)| c.is_control()) {
        let detail = format!("invalid character U+{:04X} (at position {at})", u32::from(bad));
        errors.push(FieldError::invalid(field, &quote(manager), &detail));
    }
    errors
}

/// Validates the managed fields of an embedded object. Those of other objects are computed.
fn validate_managed_fields(object: &Value, errors: &mut Vec<FieldError>) {
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    for (index, entry) in entries.enumerate() {
        let place = format!("metadata.managedFields[{index}]");
        let text = |field: &str| entry[field].as_str().unwrap_or_default();
        let (operation, kind, manager) = (text("operation"), text("fieldsType"), text("manager"));
        if !["Apply", "Update"].contains(&operation) {
            let why = "must be `Apply` or `Update`";
            errors.push(FieldError::invalid(format!("{place}.operation"), &quote(operation), why));
        }
        if !["", "FieldsV1"].contains(&kind) {
            let why = "must be `FieldsV1`";
            errors.push(FieldError::invalid(format!("{place}.fieldsType"), &quote(kind), why));
        }
        errors.extend(validate_manager(&format!("{place}.manager"), manager));
        if text("subresource").len() > SUBRESOURCE_LIMIT {
            errors.push(FieldError {
                reason: "FieldValueTooLong",
                field: format!("{place}.subresource"),
                message: format!("Too long: may not be more than {SUBRESOURCE_LIMIT} bytes"),
            });
        }
    }
}

/// Validates that finalizers are qualified names and do not contradict each other.
fn validate_finalizers(object: &Value, errors: &mut Vec<FieldError>) {
    let finalizers = finalizers(object);
    for finalizer in &finalizers {
        for error in names::qualified(finalizer) {
            errors.push(FieldError::invalid("metadata.finalizers", &quote(finalizer), &error));
        }
    }
    if finalizers.contains(&"orphan") && finalizers.contains(&"foregroundDeletion") {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        let shown = Value::from(finalizers).to_string();
        errors.push(FieldError::invalid("metadata.finalizers", &shown, detail));
    }
}

/// Checks that finalizers of builtin kinds are standard ones or qualified by a domain.
fn validate_finalizer_names(object: &Value, errors: &mut Vec<FieldError>) {
    for (index, finalizer) in finalizers(object).into_iter().enumerate() {
        let standard = ["kubernetes", "orphan", "foregroundDeletion"].contains(&finalizer);
        if !standard && !finalizer.contains('/') {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            let field = format!("metadata.finalizers[{index}]");
            errors.push(FieldError::invalid(field, &quote(finalizer), detail));
        }
    }
}

/// Validates labels, annotations and owner references.
fn validate_contents(metadata: &Value, errors: &mut Vec<FieldError>) {
    // Go reads no entries if a value has another type, which webhooks can set in a custom object.
    let entries = |field: &str| {
        let entries = metadata.get(field).and_then(Value::as_object);
        let is_text = |value: &Value| value.is_string() || value.is_null();
        entries.filter(|entries| entries.values().all(is_text)).into_iter().flatten()
    };
    for (key, value) in entries("labels") {
        for error in names::qualified(key) {
            errors.push(FieldError::invalid("metadata.labels", &quote(key), &error));
        }
        let value = value.as_str().unwrap_or_default();
        for error in names::label_value(value) {
            errors.push(FieldError::invalid("metadata.labels", &quote(value), &error));
        }
    }
    let mut size = 0;
    for (key, value) in entries("annotations") {
        // Unlike that of a label, the prefix of an annotation key may contain upper case letters.
        for error in names::qualified(&key.to_ascii_lowercase()) {
            errors.push(FieldError::invalid("metadata.annotations", &quote(key), &error));
        }
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > ANNOTATIONS_LIMIT {
        errors.push(FieldError {
            reason: "FieldValueTooLong",
            field: "metadata.annotations".to_owned(),
            message: format!("Too long: may not be more than {ANNOTATIONS_LIMIT} bytes"),
        });
    }
    validate_owners(metadata, errors);
}

fn validate_owners(metadata: &Value, errors: &mut Vec<FieldError>) {
    let owners = metadata.get("ownerReferences").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let field =
        |owner: &Value, name: &str| owner.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let named = |owner: &Value| format!("{}/{}", field(owner, "kind"), field(owner, "name"));
    let mut controller: Option<String> = None;
    let mut repeated = 0;
    for owner in owners {
        let api_version = field(owner, "apiVersion");
        // Go parses a text with several slashes to an empty version.
        if api_version.rsplit('/').next().is_none_or(str::is_empty) || api_version.matches('/').count() > 1 {
            errors.push(FieldError::invalid(
                "metadata.ownerReferences.apiVersion",
                &quote(&api_version),
                "version must not be empty",
            ));
        }
        for name in ["kind", "name", "uid"] {
            let value = field(owner, name);
            if value.is_empty() {
                let path = format!("metadata.ownerReferences.{name}");
                errors.push(FieldError::invalid(path, &quote(&value), "must not be empty"));
            }
        }
        if api_version == "v1" && field(owner, "kind") == "Event" {
            errors.push(FieldError::invalid(
                "metadata.ownerReferences",
                &go_owner(owner),
                "/v1, Kind=Event is disallowed from being an owner",
            ));
        }
        if owner.get("controller").and_then(Value::as_bool) == Some(true) {
            if let Some(first) = &controller {
                // Each of these errors quotes all owners.
                if repeated == QUOTED_OWNERS {
                    continue;
                }
                repeated += 1;
                let detail = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} \
                     and {}",
                    named(owner)
                );
                let shown: Vec<_> = owners.iter().map(go_owner).collect();
                let shown = format!("[{}]", shown.join(","));
                errors.push(FieldError::invalid("metadata.ownerReferences", &shown, &detail));
            } else {
                controller = Some(named(owner));
            }
        }
    }
}

/// Formats texts like Go's `%#v`.
fn go_strings(texts: &[&str]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| quote(text)).collect();
    format!("[]string{{{}}}", quoted.join(", "))
}

/// Formats an owner reference for messages, with its fields in the order of Go's declaration.
fn go_owner(owner: &Value) -> String {
    let given = |name: &&str| owner.get(*name).is_some_and(|value| !value.is_null());
    let always = ["apiVersion", "kind", "name", "uid"];
    let fields = always.into_iter().chain(["controller", "blockOwnerDeletion"].into_iter().filter(given));
    let fields: Vec<String> = fields
        .map(|name| format!("\"{name}\":{}", go::json(owner.get(name).unwrap_or(&Value::from("")))))
        .collect();
    format!("{{{}}}", fields.join(","))
}

/// Returns a field as Go reads it: an empty text is absent, a time has whole seconds, and one that Go cannot read is absent.
fn read(metadata: &Value, field: &str) -> Option<Value> {
    let value = metadata.get(field)?;
    match value.as_str() {
        Some("") => None,
        None if value.is_null() => None,
        Some(time) if field.ends_with("Timestamp") => {
            go::time(time, Layout::Seconds).ok().map(|time| go::format_seconds(time).into())
        }
        _ => Some(value.clone()),
    }
}

/// Compares the new metadata with the old state, as the rules of builtin kinds with qualified finalizers do. A kind with
/// [`Compared::Never`] may do so between its other rules.
#[must_use]
pub fn compare(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut errors = validate_against(old, new);
    validate_finalizer_names(new, &mut errors);
    errors
}

/// Validates immutable fields, and the contents once more.
fn validate_against(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if is_terminating(old) {
        let known: BTreeSet<&str> = finalizers(old).into_iter().collect();
        let given: BTreeSet<&str> = finalizers(new).into_iter().collect();
        let added: Vec<&str> = given.difference(&known).copied().collect();
        if !added.is_empty() {
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers {}",
                go_strings(&added)
            );
            errors.push(FieldError::forbidden("metadata.finalizers", &detail));
        }
    }
    let (old, new) = (&old["metadata"], &new["metadata"]);
    for field in
        ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"]
    {
        if old.get(field) == new.get(field) {
            // Times are compared as Go formats them. Equal texts need no parsing.
            continue;
        }
        let (before, after) = (read(old, field), read(new, field));
        if before != after {
            let shown = after.map_or_else(|| "null".to_owned(), |after| after.to_string());
            errors.push(FieldError::invalid(format!("metadata.{field}"), &shown, "field is immutable"));
        }
    }
    validate_contents(new, &mut errors);
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn errors_about_thousands_of_controllers_are_limited() {
        let owner = |n: usize| json!({"apiVersion": "v1", "kind": "A", "name": "a", "uid": n.to_string(), "controller": true});
        let owners: Vec<Value> = (0..1_000).map(owner).collect();
        let mut errors = Vec::new();
        validate_owners(&json!({"ownerReferences": owners}), &mut errors);
        assert_eq!(errors.len(), QUOTED_OWNERS);
    }

    /// Checked against kube-apiserver v1.36.3.
    #[test]
    fn new_finalizers_of_a_terminating_object_are_named_once_and_sorted() {
        let old = json!({"metadata": {"name": "a", "deletionTimestamp": "2024-01-01T00:00:00Z", "finalizers": ["x.io/z"]}});
        let mut new = old.clone();
        new["metadata"]["finalizers"] = json!(["x.io/z", "x.io/q", "x.io/b", "x.io/a"]);
        let errors = validate_against(&old, &new);
        assert_eq!(
            errors[0].to_string(),
            r#"metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{"x.io/a", "x.io/b", "x.io/q"}"#
        );
    }
}
