//! Deletions, and the options that webhooks see.

use super::{CORE, DEFINITION, DEFINITIONS, MAPS, SAME, THINGS, check};

/// A client can create an object with a deletion timestamp by an apply.
#[tokio::test]
async fn an_object_that_begins_as_deleted_is_marked_by_its_deletion() {
    let map = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","deletionTimestamp":"2001-02-03T04:05:06Z"}}"#;
    let path = format!("{MAPS}/a");
    check(&[
        ("apply", &format!("{path}?fieldManager=m"), map, 201, &["!deletionGracePeriodSeconds"]),
        (
            "DELETE",
            &path,
            r#"{"propagationPolicy":"Orphan"}"#,
            200,
            &[r#""deletionTimestamp":"2001-02-03T04:05:06Z""#, r#""deletionGracePeriodSeconds":0"#],
        ),
    ])
    .await;
    let later = map.replace("2001", "2999");
    check(&[
        ("apply", &format!("{path}?fieldManager=m"), &later, 201, &["2999-02-03"]),
        (
            "DELETE",
            &path,
            r#"{"propagationPolicy":"Orphan"}"#,
            200,
            &["!2999-02-03", r#""deletionGracePeriodSeconds":0"#],
        ),
    ])
    .await;
}

#[tokio::test]
async fn the_deletion_of_a_namespace_keeps_its_generation() {
    let namespace = r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a","generation":30}}"#;
    let path = "/api/v1/namespaces/a";
    check(&[
        ("apply", &format!("{path}?fieldManager=m"), namespace, 201, &[]),
        ("DELETE", path, "", 200, &[r#""generation":30"#, "Terminating", "!deletionGracePeriodSeconds"]),
    ])
    .await;
    let map = namespace.replace("Namespace", "ConfigMap");
    let path = format!("{MAPS}/a");
    check(&[
        ("apply", &format!("{path}?fieldManager=m"), &map, 201, &[]),
        ("DELETE", &path, r#"{"propagationPolicy":"Orphan"}"#, 200, &[r#""generation":31"#]),
    ])
    .await;
}

#[tokio::test]
async fn the_response_to_a_removal_shows_the_finalizers_that_it_dropped() {
    let classes = "/apis/storage.k8s.io/v1/storageclasses";
    let class = r#"{"metadata":{"name":"a"},"provisioner":"example.com/a"}"#;
    let path = format!("{classes}/a");
    check(&[
        ("POST", classes, class, 201, &[]),
        ("DELETE", &path, r#"{"orphanDependents":true}"#, 200, &[r#""finalizers":["orphan"]"#]),
        (
            "DELETE",
            &format!("{path}?dryRun=All"),
            r#"{"propagationPolicy":"Background","dryRun":["All"]}"#,
            200,
            &[r#""finalizers":["orphan"]"#],
        ),
        // The parameters of a request with a body do not count: this is no dry run.
        (
            "DELETE",
            &format!("{path}?dryRun=All"),
            r#"{"propagationPolicy":"Background"}"#,
            200,
            &[r#""finalizers":["orphan"]"#],
        ),
        ("GET", &path, "", 404, &[]),
    ])
    .await;
}

/// Texts of the storage are compared: another version wrote this object with empty annotations, which the deletion drops.
#[tokio::test]
async fn a_repeated_deletion_is_no_write() {
    let thing = r#"{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a","annotations":{}}}"#;
    let path = format!("{THINGS}/a");
    check(&[
        ("POST", DEFINITIONS, DEFINITION, 201, &[]),
        ("apply", &format!("{path}?fieldManager=m"), thing, 201, &[]),
        ("DELETE", &path, r#"{"orphanDependents":true}"#, 200, &[]),
        ("DELETE", &path, "{}", 200, &[SAME]),
    ])
    .await;
}

#[tokio::test]
async fn a_refused_deletion_of_jobs_does_not_warn() {
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let selected = format!("{jobs}?fieldSelector=status.succeeded=0");
    check(&[
        (
            "DELETE",
            &selected,
            "",
            400,
            &["field label \\\"status.succeeded\\\" not supported", "!child pods"],
        ),
        ("DELETE", jobs, "", 200, &["child pods"]),
    ])
    .await;
}

#[tokio::test]
async fn the_deletion_of_an_event_drops_the_finalizers_of_the_garbage_collector() {
    let events = format!("{CORE}/events");
    let event = |finalizer: &str| {
        format!(
            r#"{{"metadata":{{"name":"a","finalizers":["{finalizer}"]}},"involvedObject":{{"namespace":"default"}}}}"#
        )
    };
    let path = format!("{events}/a");
    for finalizer in ["foregroundDeletion", "orphan"] {
        check(&[
            ("POST", &events, &event(finalizer), 201, &[]),
            ("DELETE", &format!("{path}?propagationPolicy=Foreground"), "", 200, &[r#""status":"Success""#]),
            ("GET", &path, "", 404, &[]),
        ])
        .await;
    }
    check(&[
        ("POST", &events, &event("a.b/c"), 201, &[]),
        ("DELETE", &path, "", 200, &[r#""finalizers":["a.b/c"]"#]),
    ])
    .await;
}

/// kube-apiserver answers with the object of the request, which it neither stores nor reads back.
#[tokio::test]
async fn the_response_to_an_update_that_completes_a_deletion_has_the_empty_lists_of_the_request() {
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let role = r#"{"metadata":{"name":"a","finalizers":["example.com/a"]},"rules":[{"verbs":["get"],"nonResourceURLs":["/a"]}]}"#;
    let path = &format!("{roles}/a");
    let changes = r#"{"metadata":{"finalizers":null},"rules":[]}"#;
    check(&[
        ("POST", roles, role, 201, &[]),
        ("merge", path, r#"{"rules":[]}"#, 200, &["\"rules\":null"]),
        ("DELETE", path, "", 200, &[]),
        ("merge", &format!("{path}?dryRun=All"), changes, 200, &["\"rules\":[]"]),
        ("merge", path, r#"{"rules":[]}"#, 200, &["\"rules\":null"]),
        ("merge", path, changes, 200, &["\"rules\":[]"]),
        ("GET", path, "", 404, &[]),
    ])
    .await;
}

/// kube-apiserver lists the objects in pages, the first of which is exact.
#[tokio::test]
async fn a_collection_is_deleted_as_it_was_at_a_revision() {
    let map = |name: &str| format!(r#"{{"metadata":{{"name":"{name}"}}}}"#);
    check(&[
        ("POST", MAPS, &map("a"), 201, &[]),
        ("DELETE", &format!("{MAPS}?resourceVersion={{{{rv}}}}"), "", 200, &[r#""name":"a""#]),
        ("POST", MAPS, &map("b"), 201, &[]),
        ("POST", MAPS, &map("c"), 201, &[]),
        ("GET", &format!("{MAPS}/b"), "", 200, &[]),
        // The revision of `b`, at which `c` did not exist.
        (
            "DELETE",
            &format!("{MAPS}?resourceVersion={{{{rv}}}}"),
            "",
            200,
            &[r#""name":"b""#, r#"!"name":"c""#],
        ),
        ("GET", &format!("{MAPS}/c"), "", 200, &[]),
        ("GET", &format!("{MAPS}/b"), "", 404, &[]),
    ])
    .await;
}
