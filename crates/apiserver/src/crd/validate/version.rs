//! Validation of an element of `spec.versions`: schema, subresources, columns, selectable fields.

use serde_json::Value;

use super::{list, text};
use crate::request::query::quote;
use crate::schema::Schema;
use crate::status::FieldError;

/// Maximum number of selectable fields.
const SELECTABLE: usize = 8;
const COLUMN_TYPES: &str = "boolean,date,integer,number,string";
const COLUMN_FORMATS: &str = "byte,date,date-time,double,float,int32,int64,password";

/// Validates a version. `index` is its place among several; errors of a single version are reported as
/// part of `spec`.
pub(super) fn check(version: &Value, index: Option<usize>, errors: &mut Vec<FieldError>) {
    let (place, schema_place) = match index {
        None => ("spec".to_owned(), "spec.validation.openAPIV3Schema".to_owned()),
        Some(index) => {
            (format!("spec.versions[{index}]"), format!("spec.versions[{index}].schema.openAPIV3Schema"))
        }
    };
    let schema = &version["schema"]["openAPIV3Schema"];
    if schema.is_object() {
        errors.extend(Schema::from_crd(schema, &schema_place).err().unwrap_or_default());
    } else {
        // A missing schema is reported at its place among the versions, even for a single version.
        let index = index.unwrap_or(0);
        let field = format!("spec.versions[{index}].schema.openAPIV3Schema");
        errors.push(FieldError::required(field, "schemas are required"));
    }
    check_scale(&version["subresources"]["scale"], &format!("{place}.subresources.scale"), errors);
    for (index, column) in list(version, "additionalPrinterColumns").iter().enumerate() {
        check_column(column, &format!("{place}.additionalPrinterColumns[{index}]"), errors);
    }
    check_selectable(version, schema, &format!("{place}.selectableFields"), errors);
    let warning = text(version, "deprecationWarning");
    if !warning.is_empty() && version["deprecated"] != true {
        let detail = "can only be set for deprecated versions";
        errors.push(FieldError::invalid(format!("{place}.deprecationWarning"), &quote(warning), detail));
    }
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

fn check_selectable(version: &Value, schema: &Value, place: &str, errors: &mut Vec<FieldError>) {
    let fields = list(version, "selectableFields");
    let mut seen: Vec<&str> = Vec::new();
    for (index, path) in fields.iter().map(|field| text(field, "jsonPath")).enumerate() {
        let field = format!("{place}[{index}].jsonPath");
        if path.is_empty() {
            errors.push(FieldError::required(field, ""));
            continue;
        }
        match selected(schema, path) {
            Err(why) => errors.push(FieldError::invalid(field.clone(), &quote(path), &why)),
            Ok(kind) if ["string", "boolean", "integer"].contains(&kind) => {}
            Ok(_) => {
                let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings \
                              with formats are allowed.";
                errors.push(FieldError::invalid(field.clone(), &quote(path), detail));
            }
        }
        if seen.contains(&path) {
            errors.push(FieldError {
                reason: "FieldValueDuplicate",
                field,
                message: format!("Duplicate value: {}", quote(path)),
            });
        }
        seen.push(path);
    }
    if fields.len() > SELECTABLE {
        errors.push(FieldError {
            reason: "FieldValueTooMany",
            field: place.to_owned(),
            message: format!("Too many: {}: must have at most {SELECTABLE} items", fields.len()),
        });
    }
}

/// Returns the type of the field at a path.
fn selected<'a>(schema: &'a Value, path: &str) -> Result<&'a str, String> {
    let invalid = |why: &str| format!("is an invalid path: {why}");
    let Some(rest) = path.strip_prefix('.') else {
        let start = path.split(['.', '[']).next().unwrap_or_default();
        return Err(invalid(&format!("expected [ or . but got: {start}")));
    };
    if path.contains('[') {
        return Err(invalid("array notation is not allowed"));
    }
    let mut place = schema;
    for (depth, key) in rest.split('.').enumerate() {
        let found = place["properties"]
            .get(key)
            .or_else(|| place.get("additionalProperties").filter(|additional| additional.is_object()));
        // The object's own metadata has selectors of its own.
        place = match found {
            Some(found) if depth > 0 || key != "metadata" => found,
            _ => return Err(invalid("does not refer to a valid field")),
        };
    }
    Ok(place["type"].as_str().unwrap_or_default())
}
