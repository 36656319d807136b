//! Validation of definitions, with the messages of `k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation`.

mod approval;
mod conversion;
mod version;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::names::condition;
use crate::request::query::quote;
use crate::resource::NameRule;
use crate::schema::Schema;
use crate::status::FieldError;
use crate::verbs::{metadata, names};

/// Validates a new definition, except for the common rules of metadata.
pub(crate) fn create(definition: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let spec = &definition["spec"];
    let name = metadata::text(definition, "name");
    let expected = format!("{}.{}", text(&spec["names"], "plural"), text(spec, "group"));
    if !name.is_empty() && name != expected {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        errors.push(FieldError::invalid("metadata.name", &quote(name), detail));
    }
    check_spec(spec, &mut errors);
    if spec["preserveUnknownFields"] == true {
        errors.push(preserve_unknown_fields());
    }
    check_stored_versions(definition, &mut errors);
    approval::check(definition, None, &mut errors);
    errors
}

/// Validates the new state of a definition.
pub(crate) fn update(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (before, after) = (&old["spec"], &new["spec"]);
    check_spec(after, &mut errors);
    if after["preserveUnknownFields"] == true && before["preserveUnknownFields"] != true {
        errors.push(preserve_unknown_fields());
    }
    let immutable =
        |field: String, value: &Value| FieldError::invalid(field, &value.to_string(), "field is immutable");
    // From then on objects may exist, which depend on scope and kind.
    if condition(old, "Established") == "True" {
        if before["scope"] != after["scope"] {
            errors.push(immutable("spec.scope".to_owned(), &after["scope"]));
        }
        if before["names"]["kind"] != after["names"]["kind"] {
            errors.push(immutable("spec.names.kind".to_owned(), &after["names"]["kind"]));
        }
    }
    if before["group"] != after["group"] {
        errors.push(immutable("spec.group".to_owned(), &after["group"]));
    }
    if before["names"]["plural"] != after["names"]["plural"] {
        errors.push(immutable("spec.names.plural".to_owned(), &after["names"]["plural"]));
    }
    check_stored_versions(new, &mut errors);
    approval::check(new, Some(old), &mut errors);
    errors
}

/// Returns a warning for each version with a pattern that is not checked.
pub(crate) fn warnings(definition: &Value) -> Vec<String> {
    let versions = list(&definition["spec"], "versions").iter().enumerate();
    versions
        .filter_map(|(index, version)| {
            let pattern = Schema::unchecked_pattern(&version["schema"]["openAPIV3Schema"])?;
            let shown: String = pattern.chars().take(64).collect();
            Some(format!(
                "spec.versions[{index}].schema.openAPIV3Schema: the pattern {} is too large for this server, which does \
                 not check it",
                quote(&shown)
            ))
        })
        .collect()
}

fn preserve_unknown_fields() -> FieldError {
    FieldError::invalid(
        "spec.preserveUnknownFields",
        "true",
        "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
    )
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value[field].as_array().map_or(&[], Vec::as_slice)
}

/// Checks a required text against its allowed values.
fn one_of(field: &str, value: &str, supported: &[&str]) -> Option<FieldError> {
    if value.is_empty() {
        return Some(FieldError::required(field, ""));
    }
    (!supported.contains(&value)).then(|| {
        let supported: Vec<String> = supported.iter().map(|value| quote(value)).collect();
        FieldError {
            reason: "FieldValueNotSupported",
            field: field.to_owned(),
            message: format!(
                "Unsupported value: {}: supported values: {}",
                quote(value),
                supported.join(", ")
            ),
        }
    })
}

fn check_spec(spec: &Value, errors: &mut Vec<FieldError>) {
    let group = text(spec, "group");
    if group.is_empty() {
        errors.push(FieldError::required("spec.group", ""));
    } else {
        let wrong = names::subdomain(group);
        if !wrong.is_empty() {
            errors.push(FieldError::invalid("spec.group", &quote(group), &wrong.join(",")));
        } else if !group.contains('.') {
            errors.push(FieldError::invalid(
                "spec.group",
                &quote(group),
                "should be a domain with at least one dot",
            ));
        }
    }
    errors.extend(one_of("spec.scope", text(spec, "scope"), &["Cluster", "Namespaced"]));
    let versions = list(spec, "versions");
    check_version_names(versions, errors);
    let storage = versions.iter().filter(|version| version["storage"] == true).count();
    if storage != 1 {
        let shown = if spec["versions"].is_null() { Value::Null } else { json!(versions) };
        let detail = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid("spec.versions", &shown.to_string(), detail));
    }
    // Errors of a single version are reported as if it were part of `spec`, as in the older form of definitions.
    for (index, version) in versions.iter().enumerate() {
        let place = if versions.len() == 1 { None } else { Some(index) };
        version::check(version, place, errors);
    }
    check_names(&spec["names"], errors);
    conversion::check(&spec["conversion"], errors);
}

fn check_version_names(versions: &[Value], errors: &mut Vec<FieldError>) {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for (index, version) in versions.iter().enumerate() {
        let name = text(version, "name");
        if !seen.insert(name) {
            let detail = "must contain unique version names";
            // One error covers all duplicates.
            errors.push(FieldError::invalid("spec.versions", &json!(versions).to_string(), detail));
            break;
        }
        for error in label_1035(name) {
            errors.push(FieldError::invalid(format!("spec.versions[{index}].name"), &quote(name), &error));
        }
    }
}

fn label_1035(name: &str) -> Vec<String> {
    names::name(NameRule::Label1035, name, false)
}

fn check_names(requested: &Value, errors: &mut Vec<FieldError>) {
    for field in ["plural", "singular", "kind", "listKind"] {
        let name = text(requested, field);
        let place = format!("spec.names.{field}");
        let is_kind = ["kind", "listKind"].contains(&field);
        if name.is_empty() {
            errors.push(FieldError::required(place, ""));
            continue;
        }
        let wrong = label_1035(&if is_kind { name.to_lowercase() } else { name.to_owned() });
        if wrong.is_empty() {
            continue;
        }
        let mut detail = wrong.join(",");
        if is_kind {
            detail = format!("may have mixed case, but should otherwise match: {detail}");
        }
        errors.push(FieldError::invalid(place, &quote(name), &detail));
    }
    for field in ["shortNames", "categories"] {
        for (index, name) in list(requested, field).iter().enumerate() {
            let name = name.as_str().unwrap_or_default();
            for error in label_1035(name) {
                errors.push(FieldError::invalid(
                    format!("spec.names.{field}[{index}]"),
                    &quote(name),
                    &error,
                ));
            }
        }
    }
    let (kind, list_kind) = (text(requested, "kind"), text(requested, "listKind"));
    if !kind.is_empty() && kind == list_kind {
        let detail = "kind and listKind may not be the same";
        errors.push(FieldError::invalid("spec.names.listKind", &quote(list_kind), detail));
    }
}

/// Checks that each version in which objects may be stored still exists.
fn check_stored_versions(definition: &Value, errors: &mut Vec<FieldError>) {
    let stored = list(&definition["status"], "storedVersions");
    if stored.is_empty() {
        errors.push(FieldError::invalid(
            "status.storedVersions",
            "null",
            "must have at least one stored version",
        ));
    }
    let known: BTreeSet<&str> =
        list(&definition["spec"], "versions").iter().map(|version| text(version, "name")).collect();
    for (index, version) in stored.iter().filter_map(Value::as_str).enumerate() {
        if known.contains(version) {
            continue;
        }
        let detail = format!(
            "missing from spec.versions; {version} was previously a storage version, and must remain in spec.versions \
             until a storage migration ensures no data remains persisted in {version} and removes {version} from \
             status.storedVersions"
        );
        errors.push(FieldError::invalid(format!("status.storedVersions[{index}]"), &quote(version), &detail));
    }
}
