//! Writes of CustomResourceDefinitions.

use super::{DEFINITION, DEFINITIONS, check};

#[tokio::test]
async fn the_first_of_two_storage_versions_with_one_name_is_stored() {
    let definition = r#"{"metadata":{"name":"things.example.com"},"spec":{"group":"example.com","scope":"Namespaced",
        "names":{"plural":"things","kind":"Thing"},"versions":[{"name":"v1","served":true,"storage":false},
        {"name":"v1","served":true,"storage":true}]}}"#;
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let why = r#"status.storedVersions: Invalid value: [\"v1\"]: must have the storage version v1"#;
    check(&[("POST", definitions, definition, 422, &[why])]).await;
}

#[tokio::test]
async fn selectable_fields_without_a_schema_are_read_as_paths() {
    let definition = |schema: &str| {
        format!(
            r#"{{"metadata":{{"name":"things.example.com"}},"spec":{{"group":"example.com","scope":"Namespaced",
            "names":{{"plural":"things","kind":"Thing"}},"versions":[{{"name":"v1","served":true,"storage":true,{schema}
            "selectableFields":[{{"jsonPath":"true"}}]}}]}}}}"#
        )
    };
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let why = r#"spec.selectableFields[0].jsonPath: Invalid value: \"true\": is an invalid path: expected [ or . but got: true"#;
    check(&[
        ("POST", definitions, &definition(r#""schema":{},"#), 422, &[why]),
        ("POST", definitions, &definition(""), 422, &["spec.selectableFields: Invalid value: \\\"\\\": may only be set when validations.schema is included"]),
    ])
    .await;
}

#[tokio::test]
async fn a_strategic_patch_warns_without_the_keys_of_maps() {
    let definition = DEFINITION.replace(
        r#""x-kubernetes-preserve-unknown-fields":true"#,
        r#""properties":{"a":{"type":"object","properties":{"b":{"type":"string"}}}}"#,
    );
    let schema = |property: &str| {
        format!(
            r#"{{"spec":{{"versions":[{{"name":"v1","served":true,"storage":true,"schema":{{"openAPIV3Schema":{property}}}}}]}}}}"#
        )
    };
    let body = schema(
        r#"{"type":"object","properties":{"a":{"type":"object","properties":{"b":{"type":"string","x":1}}}},"not":{"y":1}}"#,
    );
    let path = format!("{DEFINITIONS}/things.example.com?dryRun=All");
    let field = |rest: &str| format!(r#"unknown field \"spec.versions[0].schema.openAPIV3Schema.{rest}\""#);
    check(&[
        ("POST", DEFINITIONS, &definition, 201, &[]),
        ("strategic", &path, &body, 200, &[&field("properties.properties.x"), &field("not.y")]),
        ("merge", &path, &body, 200, &[&field("properties.a.properties.b.x"), &field("not.y")]),
    ])
    .await;
}

#[tokio::test]
async fn a_conversion_webhook_without_parts_is_dropped() {
    let definition = |webhook: &str| {
        DEFINITION.replace(
            r#""scope""#,
            &format!(r#""conversion":{{"strategy":"None","webhook":{webhook}}},"scope""#),
        )
    };
    let create = format!("{DEFINITIONS}?dryRun=All");
    let path = format!("{DEFINITIONS}/things.example.com");
    let patch = r#"{"spec":{"conversion":{"webhook":{"conversionReviewVersions":[]}}}}"#;
    check(&[
        ("POST", &create, &definition("{}"), 201, &["!webhook"]),
        (
            "POST",
            &create,
            &definition(r#"{"conversionReviewVersions":[]}"#),
            201,
            &[r#""f:webhook":{".":{},"f:conversionReviewVersions":{}}"#, r#"!"webhook""#],
        ),
        ("POST", DEFINITIONS, DEFINITION, 201, &[]),
        ("merge", &path, patch, 200, &[r#""generation":1"#, r#"!"webhook""#]),
    ])
    .await;
}

#[tokio::test]
async fn the_first_deletion_of_a_definition_ignores_the_propagation_policy() {
    let definition = format!("{DEFINITIONS}/things.example.com");
    let options = |policy: &str| format!(r#"{{"dryRun":["All"],"propagationPolicy":"{policy}"}}"#);
    check(&[
        ("POST", DEFINITIONS, DEFINITION, 201, &[]),
        ("DELETE", &definition, &options("Orphan"), 200, &["customresourcecleanup", r#"!"orphan""#]),
        (
            "DELETE",
            &definition,
            &options("Foreground"),
            200,
            &["customresourcecleanup", "!foregroundDeletion"],
        ),
    ])
    .await;
}

#[tokio::test]
async fn the_approval_of_a_definition_in_a_protected_group_has_a_condition() {
    let approval = r#""metadata":{"annotations":{"api-approved.kubernetes.io":"unapproved, test"},"#;
    let definition = DEFINITION.replace("example.com", "x.k8s.io").replace("\"metadata\":{", approval);
    let condition = [
        r#""type":"KubernetesAPIApprovalPolicyConformant""#,
        r#""reason":"UnapprovedAnnotation""#,
        r#""message":"not approved: \"unapproved, test\"""#,
    ];
    check(&[
        ("POST", DEFINITIONS, &definition, 201, &[]),
        ("GET", &format!("{DEFINITIONS}/things.x.k8s.io"), "", 200, &condition),
    ])
    .await;
}

/// Go's decoder takes them for null.
#[tokio::test]
async fn items_that_are_no_schema_count_as_missing() {
    for items in ["5", "\"a\"", "true"] {
        let definition = DEFINITION.replace(
            r#""x-kubernetes-preserve-unknown-fields":true"#,
            &format!(r#""properties":{{"a":{{"type":"array","items":{items}}}}}"#),
        );
        check(&[(
            "POST",
            DEFINITIONS,
            &definition,
            422,
            &["properties[a].items: Required value: must be specified"],
        )])
        .await;
    }
}
