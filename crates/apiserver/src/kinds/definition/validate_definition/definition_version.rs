//! Validation of `spec.versions`: names, schemas, subresources, columns, selectable fields.
//!
//! If all versions of a definition have the same schema, kube-apiserver stores it once, in a field of `spec` that the API no longer
//! has. Errors then name that field: `spec.validation.openAPIV3Schema`.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use kube_apimachinery::cel::ObjectRules;
use kube_apimachinery::go::{json, quote};
use kube_apimachinery::schema::{Brackets, RootKeyword, Schema, find_field};
use kube_apimachinery::status::FieldError;
use regex::Regex;
use serde_json::Value;

use super::{label_1035, list, text};

/// Maximum number of selectable fields.
const SELECTABLE: usize = 8;
const COLUMN_TYPES: &str = "boolean,date,integer,number,string";
const COLUMN_FORMATS: &str = "byte,date,date-time,double,float,int32,int64,password";
/// Fields that a schema may have at its root if `status` is a subresource, with the names of Go.
const ROOT_FIELDS: &str = "Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength \
                           MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties \
                           ExternalDocs Example XPreserveUnknownFields XValidations";
/// Fields that kube-apiserver keeps in `spec` if they are equal in all versions. `check_shared` validates them then, otherwise `check_own`.
const SHARED: [&str; 4] = ["schema", "subresources", "additionalPrinterColumns", "selectableFields"];
/// Bytes of shown versions after which a message leaves out the others.
const LENGTH: usize = 64 << 10;
/// Maximum length of a deprecation warning in bytes, which the message calls characters.
const WARNING: usize = 256;

/// Returns the value that a field has in all versions, and whether all versions have the same one, which may be absent.
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
    // If a version of the old definition had no schema, schemas may still be missing.
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

/// Returns those of `SHARED` in which the versions differ.
fn own_fields(versions: &[Value]) -> BTreeSet<&'static str> {
    SHARED.into_iter().filter(|field| !shared(versions, field).1).collect()
}

/// Validates the fields of a version in which the versions differ.
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
        // kube-apiserver keeps a schema that all versions share outside of the versions, so none is found here.
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
        let limit = selectable_limit(first, before.first().filter(|_| shared(before, "selectableFields").1));
        check_selectable(first, schema, limit, "spec.selectableFields", missing, errors);
    }
}

fn has_status(version: &Value) -> bool {
    !version["subresources"]["status"].is_null()
}

/// Whether a schema or one inside has a default.
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
    // An old schema has to follow this rule too, because the subresource may be new.
    match Schema::forbidden_with_status(schema).filter(|_| status) {
        Some(RootKeyword::Type) => {
            let detail = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
            errors.push(FieldError::invalid(format!("{place}.type"), &quote(text(schema, "type")), detail));
        }
        Some(RootKeyword::Other) => {
            let detail = format!(
                "only [{ROOT_FIELDS}] fields are allowed at the root of the schema if the status subresource is enabled"
            );
            errors.push(FieldError::invalid(place, &Schema::shown(schema), &detail));
        }
        None => {}
    }
    if !before.iter().any(|version| version["schema"]["openAPIV3Schema"] == *schema) {
        let found = Schema::check_crd(schema, place);
        // Rules are only compiled for a valid schema.
        if found.is_empty() {
            errors.extend(ObjectRules::check(schema, place));
        }
        errors.extend(found);
    }
}

fn check_deprecation(version: &Value, place: &str, errors: &mut Vec<FieldError>) {
    let Some(warning) = version["deprecationWarning"].as_str() else {
        return;
    };
    // Go shows a pointer to a text as JSON, and a text with its own escapes.
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

/// Returns the versions as kube-apiserver shows them in messages: fields of `SHARED` that are not in `own` are null.
fn shown(spec: &Value, own: &BTreeSet<&str>) -> String {
    if spec["versions"].is_null() {
        return "null".to_owned();
    }
    let text = |value: &Value, field: &str| Value::from(text(value, field)).to_string();
    let flag = |value: &Value, field: &str| value[field] == true;
    let list = |version: &Value, field: &str, one: &dyn Fn(&Value) -> String| match version[field].as_array()
    {
        Some(list) if own.contains(field) => {
            format!("[{}]", list.iter().map(one).collect::<Vec<_>>().join(","))
        }
        _ => "null".to_owned(),
    };
    let versions = self::list(spec, "versions").iter().map(|version| {
        let schema = match &version["schema"] {
            schema @ Value::Object(_) if own.contains("schema") => {
                format!("{{\"OpenAPIV3Schema\":{}}}", Schema::shown(&schema["openAPIV3Schema"]))
            }
            _ => "null".to_owned(),
        };
        let subresources = match &version["subresources"] {
            value @ Value::Object(_) if own.contains("subresources") => {
                let scale = &value["scale"];
                let scale = if scale.is_object() {
                    format!(
                        "{{\"SpecReplicasPath\":{},\"StatusReplicasPath\":{},\"LabelSelectorPath\":{}}}",
                        text(scale, "specReplicasPath"),
                        text(scale, "statusReplicasPath"),
                        scale["labelSelectorPath"]
                    )
                } else {
                    "null".to_owned()
                };
                let status = if value["status"].is_null() { "null" } else { "{}" };
                format!("{{\"Status\":{status},\"Scale\":{scale}}}")
            }
            _ => "null".to_owned(),
        };
        let columns = list(version, "additionalPrinterColumns", &|column| {
            format!(
                "{{\"Name\":{},\"Type\":{},\"Format\":{},\"Description\":{},\"Priority\":{},\"JSONPath\":{}}}",
                text(column, "name"),
                text(column, "type"),
                text(column, "format"),
                text(column, "description"),
                column["priority"].as_i64().unwrap_or(0),
                text(column, "jsonPath")
            )
        });
        let selectable = list(version, "selectableFields", &|field| {
            format!("{{\"JSONPath\":{}}}", text(field, "jsonPath"))
        });
        format!(
            "{{\"Name\":{},\"Served\":{},\"Storage\":{},\"Deprecated\":{},\"DeprecationWarning\":{},\"Schema\":{schema},\
             \"Subresources\":{subresources},\"AdditionalPrinterColumns\":{columns},\"SelectableFields\":{selectable}}}",
            text(version, "name"),
            flag(version, "served"),
            flag(version, "storage"),
            flag(version, "deprecated"),
            version["deprecationWarning"],
        )
    });
    let mut shown = String::from("[");
    for (index, version) in versions.enumerate() {
        if shown.len() > LENGTH {
            shown.push('…');
            break;
        }
        shown.push_str(if index > 0 { "," } else { "" });
        shown.push_str(&version);
    }
    shown + "]"
}

fn check_scale(scale: &Value, place: &str, errors: &mut Vec<FieldError>) {
    if !scale.is_object() {
        return;
    }
    for (field, parents, required) in [
        ("specReplicasPath", &[".spec"][..], true),
        ("statusReplicasPath", &[".status"][..], true),
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
    let field = format!("{place}.JSONPath");
    if path.is_empty() {
        errors.push(FieldError::required(field, ""));
    } else if !path.starts_with('.') {
        errors.push(FieldError::invalid(field, &quote(path), "must be a simple json path starting with ."));
    }
}

/// Returns the old version with a name. It has no selectable fields of its own if they are the same in all old versions.
fn old_version<'a>(before: &'a [Value], name: &str) -> Option<&'a Value> {
    let is_own = before.len() > 1 && !shared(before, "selectableFields").1;
    before.iter().find(|version| text(version, "name") == name).filter(|_| is_own)
}

/// Returns the maximum number of selectable fields of a version: none if it had too many before, and they stay the same.
fn selectable_limit(version: &Value, before: Option<&Value>) -> usize {
    let fields = list(version, "selectableFields");
    let same = before.is_some_and(|before| list(before, "selectableFields") == fields);
    if same && fields.len() > SELECTABLE { usize::MAX } else { SELECTABLE }
}

/// Validates the selectable fields of a version, of which there are at most `limit`. `missing` is the error if there is no schema.
fn check_selectable(
    version: &Value,
    schema: Option<&Value>,
    limit: usize,
    place: &str,
    missing: &str,
    errors: &mut Vec<FieldError>,
) {
    let fields = list(version, "selectableFields");
    if fields.is_empty() {
        return;
    }
    let Some(schema) = schema else {
        errors.push(FieldError::invalid(place, "\"\"", missing));
        return;
    };
    let mut seen = BTreeSet::new();
    for (index, path) in fields.iter().map(|field| text(field, "jsonPath")).enumerate() {
        if errors.len() >= super::ERRORS {
            return;
        }
        let field = format!("{place}[{index}].jsonPath");
        if path.is_empty() {
            errors.push(FieldError::required(field, ""));
            continue;
        }
        let mut invalid =
            |detail: &str| errors.push(FieldError::invalid(field.clone(), &quote(path), detail));
        let found = match find_field(path, schema, Brackets::Forbidden) {
            Ok(found) => found,
            Err(why) => {
                invalid(&format!("is an invalid path: {why}"));
                continue;
            }
        };
        if found.root == "metadata" {
            invalid("must not point to fields in metadata");
        }
        let kind = found.schema.map_or("", |schema| text(schema, "type"));
        if !["string", "boolean", "integer"].contains(&kind) {
            invalid(
                "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are \
                 allowed.",
            );
        }
        if !seen.insert(found.path) {
            let message = format!("Duplicate value: {}", quote(path));
            errors.push(FieldError { reason: "FieldValueDuplicate", field, message });
        }
    }
    if seen.len() > limit {
        errors.push(FieldError {
            reason: "FieldValueTooMany",
            field: place.to_owned(),
            message: format!("Too many: {}: must have at most {SELECTABLE} items", seen.len()),
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(old: &Value, new: &Value, expected: &[&str]) {
        let mut errors = Vec::new();
        check_all(&json!({ "versions": new }), &json!({ "versions": old }), &mut errors);
        check_shared(&json!({ "versions": new }), &json!({ "versions": old }), &mut errors);
        let errors: Vec<String> =
            errors.into_iter().map(|error| format!("{} {}", error.reason, error.field)).collect();
        assert_eq!(errors, expected);
    }

    fn version(name: &str, more: &Value) -> Value {
        let mut version = json!({"name": name, "served": true, "storage": name == "v1"});
        version.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        version
    }

    #[test]
    fn an_old_schema_follows_the_rule_of_a_new_status_subresource() {
        let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-embedded-resource": true, "nullable": false}});
        let plain = version("v1", &json!({"schema": schema}));
        let with_status = version("v1", &json!({"schema": schema, "subresources": {"status": {}}}));
        check(&json!([plain]), &json!([plain]), &[]);
        let field = "FieldValueInvalid spec.validation.openAPIV3Schema";
        check(&json!([plain]), &json!([with_status]), &[field]);
        check(&json!([with_status]), &json!([with_status]), &[field]);
    }

    #[test]
    fn too_many_selectable_fields_may_stay() {
        let fields = |count: usize| -> Value {
            (0..count).map(|n| json!({"jsonPath": format!(".spec.f{n}")})).collect()
        };
        let properties: serde_json::Map<String, Value> =
            (0..12).map(|n| (format!("f{n}"), json!({"type": "string"}))).collect();
        // A schema that all versions shared would not be the versions' own.
        let schema = |name: &str| {
            json!({"openAPIV3Schema": {"type": "object", "description": name, "properties": {
                "spec": {"type": "object", "properties": properties},
            }}})
        };
        let one = |name: &str, count: usize| {
            version(name, &json!({"schema": schema(name), "selectableFields": fields(count)}))
        };
        let shared = "FieldValueTooMany spec.selectableFields";
        check(&json!([]), &json!([one("v1", 9)]), &[shared]);
        check(&json!([one("v1", 8)]), &json!([one("v1", 9)]), &[shared]);
        check(&json!([one("v1", 9)]), &json!([one("v1", 9)]), &[]);
        check(&json!([one("v1", 9)]), &json!([one("v1", 10)]), &[shared]);
        // With different fields, each version counts for itself.
        let two = json!([one("v1", 9), one("v2", 10)]);
        let second = "FieldValueTooMany spec.versions[1].selectableFields";
        check(&two, &two, &[]);
        check(&two, &json!([one("v1", 9), one("v2", 11)]), &[second]);
        check(&two, &json!([one("v1", 9), one("v3", 10)]), &[second]);
    }
}
