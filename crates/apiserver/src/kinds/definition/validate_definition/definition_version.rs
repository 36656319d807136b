//! Validation of `spec.versions`: names, schemas, subresources, columns, selectable fields.
//!
//! If all versions of a definition have the same schema, kube-apiserver's internal type holds it once, in a field of `spec` that v1 no
//! longer has. Errors then name that field: `spec.validation.openAPIV3Schema`. The other fields of `SHARED` behave alike.

mod selectable_fields;
mod shown_versions;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use kube_apimachinery::cel::ObjectRules;
use kube_apimachinery::go::{json, quote};
use kube_apimachinery::schema::{CrdSchemaErrors, RootKeyword, Schema};
use kube_apimachinery::status::FieldError;
use regex::Regex;
use serde_json::Value;

use self::selectable_fields::{check_selectable, old_version, selectable_limit};
use self::shown_versions::shown;
use super::{label_1035, list, text};

const COLUMN_TYPES: &str = "boolean,date,integer,number,string";
const COLUMN_FORMATS: &str = "byte,date,date-time,double,float,int32,int64,password";
/// Fields that a schema may have at its root if `status` is a subresource. The error lists their Go names.
const ROOT_FIELDS: &str = "Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength \
                           MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties \
                           ExternalDocs Example XPreserveUnknownFields XValidations";
/// Fields that kube-apiserver moves to `spec` if they are equal in all versions. `check_shared` validates them there, `check_own` in the
/// versions.
const SHARED: [&str; 4] = ["schema", "subresources", "additionalPrinterColumns", "selectableFields"];
/// Maximum length of a deprecation warning in bytes. The message says "characters".
const WARNING: usize = 256;

/// Returns the value that a field has in all versions, and whether the versions agree. They also agree if all lack the field.
pub(super) fn shared<'a>(versions: &'a [Value], field: &str) -> (Option<&'a Value>, bool) {
    let Some(first) = versions.first() else {
        return (None, false);
    };
    let value = &first[field];
    let equal = versions.iter().all(|version| same(&version[field], value));
    (Some(value).filter(|value| equal && !value.is_null()), equal)
}

/// Whether two values are equal for Go, which does not distinguish an empty list from an absent one.
fn same(a: &Value, b: &Value) -> bool {
    let is_empty = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    a == b || is_empty(a) && is_empty(b)
}

/// Validates the versions, except for the fields that are equal in all of them.
pub(super) fn check_all(spec: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let versions = list(spec, "versions");
    let schema = &|version: &Value| version["schema"]["openAPIV3Schema"].is_object();
    // Definitions from before v1 may lack schemas. As long as a version of the old definition has none, the schema stays optional.
    let before = list(old, "versions");
    let complete = before.iter().all(schema);
    let without = versions.iter().enumerate().filter(|(_, version)| !schema(version));
    for (index, version) in without.take(super::ERRORS) {
        let field = format!("spec.versions[{index}].schema.openAPIV3Schema");
        if complete {
            errors.push(FieldError::required(field, ""));
        } else if spec["preserveUnknownFields"] != true && version["served"] == true {
            errors.push(FieldError::required(field, "because otherwise all fields are pruned"));
        }
    }
    if spec["preserveUnknownFields"] == true
        && versions.iter().any(|version| has_default(&version["schema"]["openAPIV3Schema"]))
    {
        let detail = "must be false in order to use defaults in the schema";
        errors.push(FieldError::invalid("spec.preserveUnknownFields", "true", detail));
    }
    let mut names: BTreeSet<&str> = BTreeSet::new();
    let own = own_fields(versions);
    let mut unique = true;
    for (index, version) in versions.iter().enumerate() {
        if errors.len() >= super::ERRORS {
            break;
        }
        let place = format!("spec.versions[{index}]");
        let name = text(version, "name");
        // Reported after the loop, because the error is about all versions.
        unique &= names.insert(name);
        let wrong = label_1035(name);
        if !wrong.is_empty() {
            errors.push(FieldError::invalid(format!("{place}.name"), &quote(name), &wrong.join(",")));
        }
        check_deprecation(version, &format!("{place}.deprecationWarning"), errors);
        check_own(version, &own, before, &place, errors);
    }
    let mut invalid =
        |detail: &str| errors.push(FieldError::invalid("spec.versions", &shown(spec, &own), detail));
    if !unique {
        invalid("must contain unique version names");
    }
    if versions.iter().filter(|version| version["storage"] == true).count() != 1 {
        invalid("must have exactly one version marked as storage version");
    }
    // kube-apiserver also keeps the name of the first version in `spec.version`, and validates it there.
    if let Some(name) = versions.first().map(|version| text(version, "name")).filter(|name| !name.is_empty())
    {
        let wrong = label_1035(name);
        if !wrong.is_empty() {
            errors.push(FieldError::invalid("spec.version", &quote(name), &wrong.join(",")));
        }
    }
}

/// Returns the fields of `SHARED` in which the versions differ.
fn own_fields(versions: &[Value]) -> BTreeSet<&'static str> {
    SHARED.into_iter().filter(|field| !shared(versions, field).1).collect()
}

/// Validates the fields of a version that are not the same in all versions.
fn check_own(
    version: &Value,
    own: &BTreeSet<&str>,
    before: &[Value],
    place: &str,
    errors: &mut Vec<FieldError>,
) {
    if own.contains("schema") {
        let place = format!("{place}.schema.openAPIV3Schema");
        check_schema(&version["schema"], has_status(version), &place, before, errors);
    }
    if own.contains("subresources") {
        check_scale(&version["subresources"]["scale"], &format!("{place}.subresources.scale"), errors);
    }
    if own.contains("additionalPrinterColumns") {
        check_columns(version, place, errors);
    }
    if own.contains("selectableFields") {
        // kube-apiserver looks for the schema in the version only. A schema that all versions share is not there, so it counts as missing.
        let schema = Some(&version["schema"]["openAPIV3Schema"])
            .filter(|schema| own.contains("schema") && schema.is_object());
        let missing = "may only be set when `version.schema.openAPIV3Schema` is not included";
        let limit = selectable_limit(version, old_version(before, text(version, "name")));
        check_selectable(version, schema, limit, &format!("{place}.selectableFields"), missing, errors);
    }
}

/// Validates the fields that are equal in all versions.
pub(super) fn check_shared(spec: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let versions = list(spec, "versions");
    let (validation, _) = shared(versions, "schema");
    if let Some(validation) = validation {
        let status = versions.iter().any(has_status);
        let place = "spec.validation.openAPIV3Schema";
        check_schema(validation, status, place, list(old, "versions"), errors);
    }
    let Some(first) = versions.first() else {
        return;
    };
    if shared(versions, "subresources").1 {
        check_scale(&first["subresources"]["scale"], "spec.subresources.scale", errors);
    }
    if shared(versions, "additionalPrinterColumns").1 {
        check_columns(first, "spec", errors);
    }
    if shared(versions, "selectableFields").1 {
        let schema = validation.map(|validation| &validation["openAPIV3Schema"]);
        let missing = "may only be set when validations.schema is included";
        let before = list(old, "versions");
        // The old fields can only be compared here if all old versions shared them, too.
        let limit = selectable_limit(first, before.first().filter(|_| shared(before, "selectableFields").1));
        check_selectable(first, schema, limit, "spec.selectableFields", missing, errors);
    }
}

fn has_status(version: &Value) -> bool {
    !version["subresources"]["status"].is_null()
}

/// Whether a schema or a nested schema has a default.
fn has_default(schema: &Value) -> bool {
    let Some(fields) = schema.as_object() else {
        return false;
    };
    fields.iter().any(|(name, value)| match name.as_str() {
        "default" => !value.is_null(),
        "items" | "additionalProperties" | "not" => has_default(value),
        "properties" => value.as_object().into_iter().flatten().any(|(_, child)| has_default(child)),
        "allOf" | "anyOf" | "oneOf" => value.as_array().into_iter().flatten().any(has_default),
        _ => false,
    })
}

fn check_schema(
    validation: &Value,
    status: bool,
    place: &str,
    before: &[Value],
    errors: &mut Vec<FieldError>,
) {
    let schema = &validation["openAPIV3Schema"];
    if !schema.is_object() {
        return;
    }
    // This rule also applies to an unchanged schema, because the subresource may be new.
    let root_keyword = Schema::forbidden_with_status(schema).filter(|_| status);
    let forbidden = root_keyword.map(|keyword| match keyword {
        RootKeyword::Type => {
            let detail = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
            FieldError::invalid(format!("{place}.type"), &quote(text(schema, "type")), detail)
        }
        RootKeyword::Other => {
            let detail = format!(
                "only [{ROOT_FIELDS}] fields are allowed at the root of the schema if the status subresource is enabled"
            );
            FieldError::invalid(place, &Schema::shown(schema), &detail)
        }
    });
    // A schema that is already stored may break rules that are newer than it.
    let is_stored = before.iter().any(|version| version["schema"]["openAPIV3Schema"] == *schema);
    let mut found = if is_stored { CrdSchemaErrors::default() } else { Schema::check_crd(schema, place) };
    let rules = match !is_stored && found.are_rules_checked() {
        true => ObjectRules::check(schema, place, &found.keywords),
        false => Vec::new(),
    };
    found.root.splice(0..0, forbidden);
    errors.extend(found.reported());
    errors.extend(rules);
}

fn check_deprecation(version: &Value, place: &str, errors: &mut Vec<FieldError>) {
    let Some(warning) = version["deprecationWarning"].as_str() else {
        return;
    };
    // The field is a pointer, and Go's messages show a pointer to a string as JSON. A plain string has the escapes of Go.
    let shown = json(&version["deprecationWarning"]);
    let mut invalid = |detail: &str| errors.push(FieldError::invalid(place, &shown, detail));
    if version["deprecated"] != true {
        invalid("can only be set for deprecated versions");
        return;
    }
    if warning.len() > WARNING {
        invalid(&format!("must be <= {WARNING} characters long"));
    }
    if warning.is_empty() {
        invalid("must not be an empty string");
    }
    if let Some(at) = UNPRINTABLE.find(warning).map(|found| found.start()) {
        let detail = format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {at}"
        );
        invalid(&detail);
    }
}

/// Characters that are not printable for Go.
static UNPRINTABLE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"[^\pL\pM\pN\pP\pS ]").expect("a valid pattern"));

fn check_scale(scale: &Value, place: &str, errors: &mut Vec<FieldError>) {
    if !scale.is_object() {
        return;
    }
    for (field, parents, required) in [
        ("specReplicasPath", &[".spec"][..], true),
        ("statusReplicasPath", &[".status"][..], true),
        // Only autoscalers need the selector.
        ("labelSelectorPath", &[".spec", ".status"][..], false),
    ] {
        let path = text(scale, field);
        let field = format!("{place}.{field}");
        if path.is_empty() {
            if required {
                errors.push(FieldError::required(field, ""));
            }
        } else if !path.starts_with('.') {
            errors.push(FieldError::invalid(
                field,
                &quote(path),
                "must be a simple json path starting with .",
            ));
        } else if !parents.iter().any(|parent| path.starts_with(&format!("{parent}."))) {
            let detail = match parents {
                [one] => format!("should be a json path under {one}"),
                _ => "should be a json path under either .spec or .status".to_owned(),
            };
            errors.push(FieldError::invalid(field, &quote(path), &detail));
        }
    }
}

fn check_columns(version: &Value, place: &str, errors: &mut Vec<FieldError>) {
    for (index, column) in list(version, "additionalPrinterColumns").iter().enumerate() {
        if errors.len() >= super::ERRORS {
            return;
        }
        check_column(column, &format!("{place}.additionalPrinterColumns[{index}]"), errors);
    }
}

fn check_column(column: &Value, place: &str, errors: &mut Vec<FieldError>) {
    if text(column, "name").is_empty() {
        errors.push(FieldError::required(format!("{place}.name"), ""));
    }
    let kind = text(column, "type");
    let types = format!("must be one of {COLUMN_TYPES}");
    if kind.is_empty() {
        errors.push(FieldError::required(format!("{place}.type"), &types));
    } else if !COLUMN_TYPES.split(',').any(|known| known == kind) {
        errors.push(FieldError::invalid(format!("{place}.type"), &quote(kind), &types));
    }
    let format = text(column, "format");
    if !format.is_empty() && !COLUMN_FORMATS.split(',').any(|known| known == format) {
        let detail = format!("must be one of {COLUMN_FORMATS}");
        errors.push(FieldError::invalid(format!("{place}.format"), &quote(format), &detail));
    }
    let path = text(column, "jsonPath");
    // kube-apiserver spells the field as in Go.
    let field = format!("{place}.JSONPath");
    if path.is_empty() {
        errors.push(FieldError::required(field, ""));
    } else if !path.starts_with('.') {
        errors.push(FieldError::invalid(field, &quote(path), "must be a simple json path starting with ."));
    }
}

#[cfg(test)]
mod tests;
