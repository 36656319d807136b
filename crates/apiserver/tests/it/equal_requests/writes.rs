//! Creates, updates and deletes.

use super::{MAPS, check};

#[tokio::test]
async fn an_applied_replication_controller_has_one_replica() {
    let path = "/api/v1/namespaces/default/replicationcontrollers/a?fieldManager=m";
    let applied = r#"{"apiVersion":"v1","kind":"ReplicationController","metadata":{"name":"a"},"spec":{"template":
        {"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"a","image":"a"}]}}}}"#;
    check(&[("apply", path, applied, 201, &[r#""spec":{"replicas":1,"#])]).await;
}

#[tokio::test]
async fn a_put_to_the_status_of_a_service_creates_it_without_an_address() {
    let service = r#"{"metadata":{"name":"a"},"spec":{"ports":[{"port":80}]}}"#;
    let status = "/api/v1/namespaces/default/services/a/status";
    check(&[("PUT", status, service, 201, &["!managedFields", "!clusterIP", r#""type":"ClusterIP""#])]).await;
}

#[tokio::test]
async fn an_apply_reads_the_resource_version() {
    let applied = |version: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"a","resourceVersion":"{version}"}}}}"#
        )
    };
    let path = format!("{MAPS}/a?fieldManager=m");
    let part = r#"strconv.ParseUint: parsing \"x\": invalid syntax"#;
    check(&[("apply", &path, &applied("x"), 500, &[part]), ("apply", &path, &applied("5"), 201, &[])]).await;
}

#[tokio::test]
async fn a_self_link_is_shown_by_dry_runs_and_not_stored() {
    let link = r#"{"metadata":{"selfLink":"/x"}}"#;
    let map = r#"{"metadata":{"name":"a","selfLink":"/x"}}"#;
    check(&[
        ("POST", MAPS, map, 201, &["!selfLink"]),
        ("merge", &format!("{MAPS}/a"), link, 200, &["!selfLink"]),
        ("merge", &format!("{MAPS}/a?dryRun=All"), link, 200, &[r#""selfLink":"/x""#]),
    ])
    .await;
}

#[tokio::test]
async fn elements_without_their_key_end_the_ownership_of_fields() {
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    check(&[
        ("POST", accounts, r#"{"metadata":{"name":"a"},"secrets":[{"name":"s"}]}"#, 201, &["managedFields"]),
        ("POST", accounts, r#"{"metadata":{"name":"b"},"secrets":[{"kind":"s"}]}"#, 201, &["!managedFields"]),
        ("merge", &format!("{accounts}/a"), r#"{"secrets":[{"kind":"s"}]}"#, 200, &["!managedFields"]),
    ])
    .await;
}

#[tokio::test]
async fn a_taken_name_beside_a_prefix_has_the_error_of_generated_names() {
    let part = r#"configmaps \"a\" already exists, the server was not able to generate a unique name for the object"#;
    check(&[
        ("POST", MAPS, r#"{"metadata":{"name":"a"}}"#, 201, &[]),
        (
            "POST",
            MAPS,
            r#"{"metadata":{"name":"a","generateName":"a-"}}"#,
            409,
            &[part, r#""retryAfterSeconds":1"#],
        ),
    ])
    .await;
}

#[tokio::test]
async fn finalize_writes_metadata_too_and_deletions_of_namespaces_check_their_uid_first() {
    let namespaces = "/api/v1/namespaces";
    let finalized = r#"{"metadata":{"name":"a","labels":{"x":"y"}},"spec":{"finalizers":["kubernetes"]}}"#;
    let uid = r#"{"preconditions":{"uid":"x"}}"#;
    let part =
        r#"Operation cannot be fulfilled on namespaces \"a\": Precondition failed: UID in precondition: x, "#;
    check(&[
        ("POST", namespaces, r#"{"metadata":{"name":"a"}}"#, 201, &[]),
        ("PUT", &format!("{namespaces}/a/finalize"), finalized, 200, &[r#""x":"y""#, r#""phase":"Active""#]),
        ("DELETE", &format!("{namespaces}/a"), uid, 409, &[part]),
    ])
    .await;
}

#[tokio::test]
async fn small_rules_of_kinds() {
    let node = r#"{"metadata":{"name":"a"},"spec":{"configSource":{}}}"#;
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let slice = r#"{"metadata":{"name":"a"},"addressType":"IPv4","endpoints":[]}"#;
    let event = r#"{"metadata":{"name":"a"},"eventTime":"2001-02-03T04:05:06.000001Z","regarding":{"name":"a","namespace":"b"}}"#;
    let budget = r#"{"metadata":{"name":"a","generateName":"g."},"spec":{"minAvailable":1}}"#;
    let hooks = r#"{"metadata":{"name":"a"},"webhooks":[{"name":"a.example.com","sideEffects":"None",
        "admissionReviewVersions":["v1"],"clientConfig":{"service":{"namespace":"a"}}}]}"#;
    check(&[
        ("POST", "/api/v1/nodes", node, 201, &["!\"configSource\""]),
        ("POST", slices, slice, 201, &[r#""generation":1"#]),
        (
            "merge",
            &format!("{slices}/a"),
            r#"{"metadata":{"labels":{"a":"b"}}}"#,
            200,
            &[r#""generation":2"#],
        ),
        // Errors name the group of the internal type.
        (
            "POST",
            "/apis/events.k8s.io/v1/namespaces/default/events",
            event,
            422,
            &[r#""message":"Event \"a\" is invalid"#],
        ),
        ("POST", "/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget, 201, &[]),
        // kube-apiserver confuses the two fields.
        (
            "POST",
            "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
            hooks,
            422,
            &["webhooks[0].clientConfig.service.namespace: Required value", "!service.name:"],
        ),
    ])
    .await;
}
