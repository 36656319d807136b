//! Valid and invalid versions of a definition.

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
    let fields =
        |count: usize| -> Value { (0..count).map(|n| json!({"jsonPath": format!(".spec.f{n}")})).collect() };
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
