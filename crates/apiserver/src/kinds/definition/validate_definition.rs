//! Validation of definitions, with the messages of `k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation`.

mod approval;
mod conversion_settings;
mod definition_version;

use std::collections::{BTreeMap, BTreeSet};

use kube_apimachinery::go::quote;
use kube_apimachinery::names;
use kube_apimachinery::names::NameRule;
use kube_apimachinery::schema::Schema;
use kube_apimachinery::status::FieldError;
use serde_json::{Value, json};

use super::condition;
pub(crate) use approval::approval_condition;

/// Number of errors after which no more elements of a list are validated.
const ERRORS: usize = 1000;

/// Validates a new definition, except for the common rules of metadata.
pub(crate) fn create(definition: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let spec = &definition["spec"];
    check_spec(spec, &Value::Null, None, &mut errors);
    check_names(&definition["status"]["acceptedNames"], "status.acceptedNames", &mut errors);
    check_stored_versions(definition, &mut errors);
    approval::check(definition, None, &mut errors);
    if spec["preserveUnknownFields"] == true {
        errors.push(preserve_unknown_fields());
    }
    errors
}

/// Validates the new state of a definition.
pub(crate) fn update(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (before, after) = (&old["spec"], &new["spec"]);
    let established = condition(old, "Established") == "True";
    check_spec(after, before, established.then(|| &before["conversion"]), &mut errors);
    let immutable =
        |field: String, value: &Value| FieldError::invalid(field, &value.to_string(), "field is immutable");
    // Once a definition is established, objects may exist, and they depend on scope and kind.
    if established {
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
    check_names(&new["status"]["acceptedNames"], "status.acceptedNames", &mut errors);
    check_stored_versions(new, &mut errors);
    approval::check(new, Some(old), &mut errors);
    // Definitions that were created with v1beta1 may keep the value.
    if after["preserveUnknownFields"] == true && before["preserveUnknownFields"] != true {
        errors.push(preserve_unknown_fields());
    }
    errors
}

/// Validates the new `status` of a definition.
pub(crate) fn update_status(new: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check_names(&new["status"]["acceptedNames"], "status.acceptedNames", &mut errors);
    errors
}

/// Returns a warning for each unrecognized format that the old definition lacks, and for each version with a pattern that is not checked.
pub(crate) fn warnings(definition: &Value, old: Option<&Value>) -> Vec<String> {
    let before: BTreeSet<String> = old.map(formats).unwrap_or_default().into_iter().collect();
    let formats = formats(definition).into_iter().filter(|format| !before.contains(format));
    let formats = formats.map(|format| format!("unrecognized format {}", quote(&format)));
    formats.chain(unchecked_patterns(definition)).collect()
}

/// Returns the unrecognized formats in the schemas of a definition. Values are not checked against them.
fn formats(definition: &Value) -> Vec<String> {
    let versions = list(&definition["spec"], "versions");
    let (validation, _) = definition_version::shared(versions, "schema");
    let schemas: Vec<&Value> = match validation {
        Some(schema) => vec![schema],
        None => versions.iter().map(|version| &version["schema"]).collect(),
    };
    schemas.into_iter().flat_map(|schema| Schema::unrecognized_formats(&schema["openAPIV3Schema"])).collect()
}

/// Returns a warning for each version with a pattern that is too large for this server. kube-apiserver has no such warning.
fn unchecked_patterns(definition: &Value) -> Vec<String> {
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
    (!supported.contains(&value)).then(|| FieldError::not_supported(field, value, supported))
}

/// Validates `spec`. A schema that the old spec already contains is not checked again. `conversion` is the old conversion of an
/// established definition.
fn check_spec(spec: &Value, old: &Value, conversion: Option<&Value>, errors: &mut Vec<FieldError>) {
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
    definition_version::check_all(spec, old, errors);
    for field in ["plural", "singular", "kind", "listKind"] {
        if text(&spec["names"], field).is_empty() {
            errors.push(FieldError::required(format!("spec.names.{field}"), ""));
        }
    }
    check_names(&spec["names"], "spec.names", errors);
    // In kube-apiserver's order of errors, the fields that all versions share come after the names.
    definition_version::check_shared(spec, old, errors);
    let strategy = text(&spec["conversion"], "strategy");
    if strategy != "None" && spec["preserveUnknownFields"] == true {
        let detail = "must be None if spec.preserveUnknownFields is true";
        errors.push(FieldError::invalid("spec.conversion.strategy", &quote(strategy), detail));
    }
    conversion_settings::check(&spec["conversion"], conversion, errors);
}

fn label_1035(name: &str) -> Vec<String> {
    names::name(NameRule::Label1035, name)
}

/// Validates the names that are not empty.
fn check_names(requested: &Value, place: &str, errors: &mut Vec<FieldError>) {
    for field in ["plural", "singular", "kind", "listKind"] {
        let name = text(requested, field);
        let is_kind = ["kind", "listKind"].contains(&field);
        // Kinds are compared in lower case, so that only their letter case may deviate from a DNS label.
        let wrong = label_1035(&if is_kind { name.to_lowercase() } else { name.to_owned() });
        if name.is_empty() || wrong.is_empty() {
            continue;
        }
        let mut detail = wrong.join(",");
        if is_kind {
            detail = format!("may have mixed case, but should otherwise match: {detail}");
        }
        errors.push(FieldError::invalid(format!("{place}.{field}"), &quote(name), &detail));
    }
    for field in ["shortNames", "categories"] {
        for (index, name) in list(requested, field).iter().enumerate() {
            if errors.len() >= ERRORS {
                return;
            }
            let name = name.as_str().unwrap_or_default();
            let wrong = label_1035(name);
            if !wrong.is_empty() {
                let field = format!("{place}.{field}[{index}]");
                errors.push(FieldError::invalid(field, &quote(name), &wrong.join(",")));
            }
        }
    }
    let (kind, list_kind) = (text(requested, "kind"), text(requested, "listKind"));
    if !kind.is_empty() && kind == list_kind {
        let detail = "kind and listKind may not be the same";
        errors.push(FieldError::invalid(format!("{place}.listKind"), &quote(list_kind), detail));
    }
}

/// Checks that each version in which objects may be stored still exists.
fn check_stored_versions(definition: &Value, errors: &mut Vec<FieldError>) {
    let place = "status.storedVersions";
    let stored = list(&definition["status"], "storedVersions");
    let shown = if stored.is_empty() { Value::Null } else { json!(stored) };
    if stored.is_empty() {
        let detail = "must have at least one stored version";
        errors.push(FieldError::invalid(place, &shown.to_string(), detail));
        return;
    }
    let versions = list(&definition["spec"], "versions");
    let numbered = stored.iter().filter_map(Value::as_str).enumerate();
    let mut missing: BTreeMap<&str, usize> = numbered.map(|(index, version)| (version, index)).collect();
    for version in versions {
        let name = text(version, "name");
        // `missing` loses a name at its first version, so a second storage version of the same name is reported.
        if missing.remove(name).is_none() && version["storage"] == true {
            let detail = format!("must have the storage version {name}");
            errors.push(FieldError::invalid(place, &shown.to_string(), &detail));
        }
    }
    for (version, index) in missing {
        let detail = format!(
            "missing from spec.versions; {version} was previously a storage version, and must remain in spec.versions \
             until a storage migration ensures no data remains persisted in {version} and removes {version} from \
             status.storedVersions"
        );
        errors.push(FieldError::invalid(format!("{place}[{index}]"), &quote(version), &detail));
    }
}
