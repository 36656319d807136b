//! Metadata of builtin kinds: names, labels, finalizers and owners of fields.

use super::{APPS, CORE, MAPS, check};

#[tokio::test]
async fn names_of_services_and_stateful_sets_are_labels() {
    let set = r#"{"metadata":{"name":"a.b"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},
        "spec":{"containers":[{"name":"a","image":"a"}]}}}}"#;
    let service = r#"{"metadata":{"name":"0a"},"spec":{"ports":[{"port":80}]}}"#;
    check(&[
        (
            "POST",
            &format!("{APPS}/statefulsets"),
            set,
            422,
            &["metadata.name: Invalid value: \\\"a.b\\\": must not contain dots"],
        ),
        ("POST", &format!("{CORE}/services"), service, 201, &[]),
        (
            "POST",
            &format!("{CORE}/services"),
            &service.replace("0a", "a_b"),
            422,
            &["a lowercase RFC 1123 label must"],
        ),
    ])
    .await;
}

#[tokio::test]
async fn finalizers_of_runtime_classes_and_disruption_budgets_need_no_domain() {
    let class = r#"{"metadata":{"name":"a","finalizers":["a"]},"handler":"a"}"#;
    let budget = r#"{"metadata":{"name":"a","finalizers":["a"]},"spec":{}}"#;
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    check(&[
        ("POST", "/apis/node.k8s.io/v1/runtimeclasses", class, 201, &[]),
        ("POST", budgets, budget, 201, &[]),
    ])
    .await;
}

#[tokio::test]
async fn a_write_of_status_keeps_the_metadata_of_some_kinds() {
    let attachment = r#"{"metadata":{"name":"a"},"spec":{"attacher":"a","nodeName":"a","source":{"persistentVolumeName":"a"}}}"#;
    let attachments = "/apis/storage.k8s.io/v1/volumeattachments";
    let labels = r#"{"metadata":{"labels":{"a":"b c"}},"status":{"attached":true}}"#;
    let pods = format!("{CORE}/pods");
    let pod = r#"{"metadata":{"name":"a"},"spec":{"containers":[{"name":"a","image":"a"}]}}"#;
    let deleted = r#"{"metadata":{"deletionTimestamp":"2001-02-03T04:05:06Z"},"status":{"message":"x"}}"#;
    check(&[
        ("POST", &pods, pod, 201, &[]),
        ("merge", &format!("{pods}/a/status"), deleted, 200, &["!deletionTimestamp", r#""message":"x""#]),
        ("POST", attachments, attachment, 201, &[]),
        ("merge", &format!("{attachments}/a/status"), labels, 200, &["!b c", r#""attached":true"#]),
    ])
    .await;
}

#[tokio::test]
async fn a_list_that_becomes_null_has_an_owner() {
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let role = r#"{"metadata":{"name":"a"},"rules":[{"verbs":["get"],"nonResourceURLs":["/"]}]}"#;
    check(&[
        ("POST", roles, role, 201, &[]),
        ("merge", &format!("{roles}/a"), r#"{"rules":null}"#, 200, &[r#""f:rules":{}"#]),
        ("POST", roles, r#"{"metadata":{"name":"b"}}"#, 201, &["!f:rules"]),
    ])
    .await;
}

#[tokio::test]
async fn an_apply_to_a_cluster_scoped_object_may_name_a_namespace() {
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses/a?fieldManager=m";
    let class = |namespace: &str| {
        format!(
            r#"{{"apiVersion":"scheduling.k8s.io/v1","kind":"PriorityClass","metadata":{{"name":"a"{namespace}}},"value":1}}"#
        )
    };
    check(&[
        ("apply", classes, &class(""), 201, &[]),
        ("apply", classes, &class(r#","namespace":"x""#), 200, &["!\"namespace\""]),
    ])
    .await;
}

#[tokio::test]
async fn a_grace_period_that_an_apply_has_set_stays() {
    let path = format!("{MAPS}/a");
    let map =
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","deletionGracePeriodSeconds":5}}"#;
    let part = r#""deletionGracePeriodSeconds":5"#;
    check(&[
        ("apply", &format!("{path}?fieldManager=m"), map, 201, &[part]),
        ("PUT", &path, r#"{"metadata":{"name":"a"}}"#, 200, &[part]),
        (
            "PUT",
            &path,
            &map.replace('5', "6"),
            422,
            &["deletionGracePeriodSeconds: Invalid value: 6: field is immutable"],
        ),
    ])
    .await;
}

#[tokio::test]
async fn an_update_repeats_the_errors_of_metadata_as_the_kind_does() {
    let lists = "/api/v1/namespaces/default/limitranges";
    let jobs = "/apis/batch/v1/namespaces/default/cronjobs";
    let job = r#"{"metadata":{"name":"a"},"spec":{"schedule":"* * * * *","jobTemplate":{"spec":{"template":{"spec":{
        "restartPolicy":"Never","containers":[{"name":"a","image":"a"}]}}}}}}"#;
    let immutable = r#"{"field":"metadata.uid","message":"Invalid value: \"x\": field is immutable","reason":"FieldValueInvalid"}"#;
    let once = format!(r#""causes":[{immutable}]"#);
    let twice = format!(r#""causes":[{immutable},{immutable}]"#);
    let finalizer = r#"{"metadata":{"finalizers":["a"]}}"#;
    let unqualified = r#""causes":[{"field":"metadata.finalizers[0]","message":"Invalid value: \"a\": name is neither a standard finalizer name nor is it fully qualified","reason":"FieldValueInvalid"}]"#;
    check(&[
        ("POST", lists, r#"{"metadata":{"name":"a"},"spec":{"limits":[]}}"#, 201, &[]),
        ("POST", jobs, job, 201, &[]),
        ("merge", &format!("{jobs}/a"), finalizer, 422, &[unqualified]),
        ("merge", &format!("{jobs}/a"), r#"{"metadata":{"uid":"x"}}"#, 422, &[&twice]),
        ("merge", &format!("{lists}/a"), r#"{"metadata":{"uid":"x"}}"#, 422, &[&once]),
    ])
    .await;
}

#[tokio::test]
async fn subresources_validate_the_metadata_that_they_do_not_reset() {
    let pods = format!("{CORE}/pods");
    let pod = r#"{"metadata":{"name":"a"},"spec":{"containers":[{"name":"a","image":"a"}],"automountServiceAccountToken":false}}"#;
    let attachments = "/apis/storage.k8s.io/v1/volumeattachments";
    let attachment = r#"{"metadata":{"name":"a"},"spec":{"attacher":"a","nodeName":"a","source":{"persistentVolumeName":"a"}}}"#;
    let other = r#"{"metadata":{"uid":"x"}}"#;
    let prefix = r#"{"metadata":{"generateName":"G"}}"#;
    let immutable: &[&str] = &["metadata.uid: Invalid value: \\\"x\\\": field is immutable"];
    let invalid: &[&str] = &["a lowercase RFC 1123 subdomain must"];
    check(&[
        ("POST", &format!("{CORE}/serviceaccounts"), r#"{"metadata":{"name":"default"}}"#, 201, &[]),
        ("POST", &pods, pod, 201, &["\"qosClass\":\"BestEffort\""]),
        ("merge", &format!("{pods}/a/resize"), other, 422, immutable),
        ("merge", &format!("{pods}/a/resize"), prefix, 422, invalid),
        ("merge", &format!("{pods}/a/ephemeralcontainers"), other, 422, immutable),
        ("merge", &format!("{pods}/a/ephemeralcontainers"), prefix, 422, invalid),
        ("merge", &format!("{pods}/a/status"), r#"{"status":null}"#, 200, &["\"qosClass\":\"BestEffort\""]),
        ("POST", attachments, attachment, 201, &[]),
        ("merge", &format!("{attachments}/a/status"), other, 422, immutable),
        ("merge", &format!("{attachments}/a/status"), prefix, 422, invalid),
    ])
    .await;
}

#[tokio::test]
async fn a_job_without_labels_has_those_of_its_template() {
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let job = r#"{"metadata":{"name":"a"},"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"a","image":"a"}]}}}}"#;
    let label = r#""labels":{"batch.kubernetes.io/controller-uid":"#;
    check(&[
        ("POST", jobs, job, 201, &[label]),
        ("PUT", &format!("{jobs}/a/status"), job, 200, &[label, "!f:labels"]),
    ])
    .await;
}

#[tokio::test]
async fn a_generated_name_that_is_no_label_is_an_error_of_the_name_alone() {
    let namespaces = "/api/v1/namespaces";
    check(&[
        (
            "POST",
            namespaces,
            r#"{"metadata":{"generateName":"a b"}}"#,
            422,
            &["metadata.name: Invalid value", "!metadata.labels"],
        ),
        (
            "POST",
            namespaces,
            r#"{"metadata":{"name":"a b"}}"#,
            422,
            &["metadata.name: Invalid value", "metadata.labels"],
        ),
    ])
    .await;
}

#[tokio::test]
async fn names_of_certificate_requests_and_api_services_may_have_capitals() {
    let object = r#"{"metadata":{"name":"UP_a"}}"#;
    check(&[
        (
            "POST",
            "/apis/certificates.k8s.io/v1/certificatesigningrequests",
            object,
            422,
            &[
                r#"CertificateSigningRequest.certificates.k8s.io \"UP_a\" is invalid: [spec.request: Invalid value: null: PEM block type"#,
            ],
        ),
        (
            "POST",
            "/apis/apiregistration.k8s.io/v1/apiservices",
            object,
            422,
            &[r#"APIService.apiregistration.k8s.io \"UP_a\" is invalid: [metadata.name: Invalid value: \"UP_a\": must be `spec"#],
        ),
    ])
    .await;
}

#[tokio::test]
async fn a_null_in_a_new_struct_has_an_owner() {
    let events = format!("{CORE}/events");
    let event = |name: &str, series: &str| {
        format!(
            r#"{{"metadata":{{"name":"{name}"}},"involvedObject":{{"namespace":"default"}},"series":{series}}}"#
        )
    };
    let owned = r#""f:series":{".":{},"f:lastObservedTime":{}}"#;
    let counted = r#""f:series":{".":{},"f:count":{},"f:lastObservedTime":{}}"#;
    check(&[
        ("POST", &events, &event("a", "{}"), 201, &[owned, "!f:eventTime"]),
        ("POST", &events, &event("b", r#"{"count":1}"#), 201, &[counted]),
        ("POST", &events, &event("c", "null"), 201, &["!f:series"]),
    ])
    .await;
}

#[tokio::test]
async fn the_status_of_an_api_service_keeps_the_metadata() {
    let path = "/apis/apiregistration.k8s.io/v1/apiservices/v1./status?dryRun=All";
    let metadata = r#"{"metadata":{"annotations":{"example.com/x":"y"},"labels":{"a":"80%"},"finalizers":["example.com/a"],
        "ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"o","uid":"u"}]}}"#;
    let kept = ["!example.com/x", "!80%", "!example.com/a", "!ownerReferences", r#"automanaged":"onstart""#];
    check(&[("merge", path, metadata, 200, &kept)]).await;
}

#[tokio::test]
async fn fields_before_the_first_apply_are_not_those_of_an_empty_object() {
    let template = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates/a";
    let applied = |metadata: &str| {
        format!(
            r#"{{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaimTemplate","metadata":{{"name":"a"{metadata}}}}}"#
        )
    };
    let first = format!("{template}?fieldManager=one");
    let second = format!("{template}?fieldManager=two");
    check(&[
        ("apply", &first, &applied(""), 201, &["!managedFields", r#""requests":null"#]),
        (
            "apply",
            &second,
            &applied(r#","labels":{"a":"b"}"#),
            200,
            &[r#""manager":"two""#, "!before-first-apply"],
        ),
    ])
    .await;
}
