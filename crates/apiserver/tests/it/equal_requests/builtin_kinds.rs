//! Rules of builtin kinds: warnings, names, fields that are dropped or kept.

use super::{DEFINITION, DEFINITIONS, MAPS, check};

const APPS: &str = "/apis/apps/v1/namespaces/default";
const CORE: &str = "/api/v1/namespaces/default";

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
async fn fields_of_disabled_features_are_dropped() {
    let set = r#"{"metadata":{"name":"a"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},
        "spec":{"containers":[{"name":"a","image":"a","lifecycle":{"stopSignal":"SIGTERM"}}]}},
        "updateStrategy":{"rollingUpdate":{"maxUnavailable":1}}}}"#;
    let driver = r#"{"metadata":{"name":"a"},"spec":{"preventPodSchedulingIfMissing":true}}"#;
    let node = r#"{"metadata":{"name":"a"},"status":{"config":{"error":"x"}}}"#;
    let limit = r#"{"spec":{"updateStrategy":{"rollingUpdate":{"maxUnavailable":"x"}}}}"#;
    check(&[
        ("POST", &format!("{APPS}/statefulsets"), set, 201, &["!maxUnavailable\":1", "!SIGTERM"]),
        ("merge", &format!("{APPS}/statefulsets/a"), limit, 200, &["\"generation\":1"]),
        ("POST", "/apis/storage.k8s.io/v1/csidrivers", driver, 201, &["!IfMissing\":true"]),
        ("POST", "/api/v1/nodes", node, 201, &["!\"config\""]),
        ("merge", "/api/v1/nodes/a/status", r#"{"status":{"config":{"error":"x"}}}"#, 200, &["!\"config\":"]),
    ])
    .await;
}

#[tokio::test]
async fn sources_of_claims_are_made_equal_or_dropped() {
    let claim = |name: &str, sources: &str| {
        format!(
            r#"{{"metadata":{{"name":"{name}"}},"spec":{{"accessModes":["ReadWriteOnce"],"resources":{{"requests":{{"storage":"1Gi"}}}},{sources}}}}}"#
        )
    };
    let path = format!("{CORE}/persistentvolumeclaims");
    let known = claim("a", r#""dataSource":{"kind":"PersistentVolumeClaim","name":"x"}"#);
    let other = claim("b", r#""dataSource":{"apiGroup":"example.com","kind":"Backup","name":"x"}"#);
    let reference = r#""dataSourceRef":{"apiGroup":null,"kind":"PersistentVolumeClaim","name":"x"}"#;
    check(&[
        ("POST", &path, &known, 201, &[reference, r#""phase":"Pending""#]),
        ("POST", &path, &other, 201, &["!\"dataSource\":", "!\"dataSourceRef\":"]),
        ("POST", &format!("{path}?dryRun=All"), &claim("c", reference), 201, &["phase\":\"Pending"]),
    ])
    .await;
}

#[tokio::test]
async fn a_write_of_status_keeps_the_metadata_of_some_kinds() {
    let attachment = r#"{"metadata":{"name":"a"},"spec":{"attacher":"a","nodeName":"a","source":{"persistentVolumeName":"a"}}}"#;
    let attachments = "/apis/storage.k8s.io/v1/volumeattachments";
    let labels = r#"{"metadata":{"labels":{"a":"b c"}},"status":{"attached":true}}"#;
    check(&[
        ("POST", attachments, attachment, 201, &[]),
        ("merge", &format!("{attachments}/a/status"), labels, 200, &["!b c", r#""attached":true"#]),
    ])
    .await;
}

#[tokio::test]
async fn a_template_is_validated_only_with_a_selector_that_can_be_parsed() {
    let workload =
        |selector: &str| format!(r#"{{"metadata":{{"name":"a"}},"spec":{{{selector}"template":{{}}}}}}"#);
    let expression = r#""selector":{"matchExpressions":[{"key":"a","operator":"In"}]},"#;
    let required = "spec.template.spec.containers: Required value";
    let not_required = format!("!{required}");
    check(&[
        (
            "POST",
            &format!("{APPS}/deployments"),
            &workload(expression),
            422,
            &["invalid label selector", &not_required],
        ),
        (
            "POST",
            &format!("{APPS}/statefulsets"),
            &workload(expression),
            422,
            &["spec.selector: Invalid value", &not_required],
        ),
        (
            "POST",
            &format!("{APPS}/daemonsets"),
            &workload(expression),
            422,
            &["values: Required value", required],
        ),
        (
            "POST",
            &format!("{APPS}/daemonsets"),
            &workload(""),
            422,
            &["`selector` does not match", "!spec.selector: Required", required],
        ),
        (
            "POST",
            &format!("{APPS}/deployments"),
            &workload(""),
            422,
            &["`selector` does not match", "spec.selector: Required", required],
        ),
    ])
    .await;
}

#[tokio::test]
async fn deprecated_and_useless_values_have_warnings() {
    let pod = r#"{"metadata":{"name":"a.b"},"spec":{"containers":[{"name":"a","image":"a","ports":[{"containerPort":80},{"containerPort":80}]}]}}"#;
    let node = r#"{"metadata":{"name":"a"},"spec":{"externalID":"x"}}"#;
    let service = r#"{"metadata":{"name":"a"},"spec":{"clusterIP":"None","ports":[{"port":80}],"externalIPs":["2001:0DB8::1"]}}"#;
    let account =
        r#"{"metadata":{"name":"a","annotations":{"kubernetes.io/enforce-mountable-secrets":"true"}}}"#;
    let ingress = r#"{"metadata":{"name":"a","annotations":{"kubernetes.io/ingress.class":"x"}},"spec":{"defaultBackend":{"service":
        {"name":"a","port":{"number":80}}}}}"#;
    let ingresses = "/apis/networking.k8s.io/v1/namespaces/default/ingresses";
    check(&[
        (
            "POST",
            &format!("{CORE}/pods"),
            pod,
            201,
            &["[must not contain dots]", "ports[1]: duplicate port definition with spec"],
        ),
        (
            "merge",
            &format!("{CORE}/pods/a.b"),
            r#"{"metadata":{"labels":{"a":"b"}}}"#,
            200,
            &["!duplicate port"],
        ),
        ("POST", "/api/v1/nodes", node, 201, &["spec.externalID: this field is deprecated"]),
        (
            "POST",
            &format!("{CORE}/services"),
            service,
            201,
            &[
                "spec.externalIPs is ignored for headless services",
                r#"spec.externalIPs[0]: IPv6 address \"2001:0DB8::1\" should be in RFC 5952 canonical format (\"2001:db8::1\")"#,
            ],
        ),
        ("POST", &format!("{CORE}/serviceaccounts"), account, 201, &["deprecated in v1.32+"]),
        (
            "merge",
            &format!("{CORE}/serviceaccounts/a"),
            r#"{"metadata":{"labels":{"a":"b"}}}"#,
            200,
            &["!deprecated in v1.32+"],
        ),
        ("POST", ingresses, ingress, 201, &["is deprecated, please use 'spec.ingressClassName' instead"]),
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
async fn the_answer_to_a_token_review_keeps_the_rest_of_its_status() {
    let review =
        r#"{"spec":{"token":"a"},"status":{"audiences":["b"],"authenticated":true,"user":{"username":"c"}}}"#;
    let parts =
        [r#""audiences":["b"]"#, r#""username":"c""#, "invalid bearer token", "!\"authenticated\":true"];
    check(&[("POST", "/apis/authentication.k8s.io/v1/tokenreviews", review, 201, &parts)]).await;
}

#[tokio::test]
async fn numbers_in_the_options_of_a_list_are_read_before_selectors() {
    let part = r#"strconv.ParseInt: parsing \"y\": invalid syntax"#;
    check(&[
        ("GET", &format!("{MAPS}?limit=y&labelSelector=a%20in"), "", 400, &[part]),
        ("GET", &format!("{MAPS}?limit=x&timeoutSeconds=y&fieldSelector=z"), "", 400, &[part]),
    ])
    .await;
}

#[tokio::test]
async fn a_bad_resource_version_has_another_error_for_uncached_kinds() {
    let part = r#"invalid resource version: resourceVersion: Invalid value: \"x\""#;
    check(&[
        ("GET", &format!("{CORE}/events/a?resourceVersion=x"), "", 400, &[part]),
        ("GET", &format!("{MAPS}/a?resourceVersion=x"), "", 500, &["!invalid resource version"]),
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
async fn a_patch_cannot_change_the_type_of_an_object_or_a_scale() {
    let sets = format!("{APPS}/replicasets");
    let set = r#"{"metadata":{"name":"a"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},
        "spec":{"containers":[{"name":"a","image":"a"}]}}}}"#;
    let (path, scale) = (format!("{sets}/a"), format!("{sets}/a/scale"));
    let unnamed = "(a based on URL) was undeterminable: name must be provided";
    let warnings: &[&str] = &[unnamed, r#"unknown field \"spec\""#, r#"unknown field \"metadata\""#];
    let of_version = r#"no kind \"X\" is registered for version \"autoscaling/v1\" in scheme"#;
    check(&[
        ("POST", &sets, set, 201, &[]),
        ("merge", &scale, r#"{"kind":"X"}"#, 422, &[of_version]),
        ("merge", &scale, r#"{"apiVersion":"a/b/c"}"#, 422, &["unexpected GroupVersion string: a/b/c"]),
        (
            "merge",
            &scale,
            r#"{"apiVersion":"apps/v1","kind":"Deployment"}"#,
            422,
            &["converting (v1.Deployment) to (autoscaling.Scale): unknown conversion"],
        ),
        ("merge", &scale, r#"{"apiVersion":""}"#, 400, warnings),
        ("merge", &path, r#"{"apiVersion":""}"#, 400, warnings),
        ("merge", &path, r#"{"apiVersion":"","kind":""}"#, 400, warnings),
        (
            "merge",
            &path,
            r#"{"apiVersion":"","kind":"X"}"#,
            422,
            &[r#"no kind \"X\" is registered for the internal version of group \"apps\" in scheme"#],
        ),
        (
            "merge",
            &format!("{path}?fieldValidation=Strict"),
            r#"{"apiVersion":""}"#,
            422,
            &[r#"strict decoding error: unknown field \"metadata\", unknown field \"spec\""#],
        ),
        ("merge", &path, r#"{"kind":""}"#, 200, &[]),
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
async fn scales_of_all_kinds_have_the_names_of_scales() {
    let sets = format!("{APPS}/statefulsets");
    let set = r#"{"metadata":{"name":"a"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},
        "spec":{"containers":[{"name":"a","image":"a"}]}}}}"#;
    check(&[
        ("POST", &sets, set, 201, &[]),
        (
            "merge",
            &format!("{sets}/a/scale"),
            r#"{"metadata":{"generateName":"G"}}"#,
            422,
            &["a lowercase RFC 1123 subdomain must"],
        ),
    ])
    .await;
}

#[tokio::test]
async fn a_dry_run_shows_the_address_of_the_network() {
    let services = "/api/v1/namespaces/default/services?dryRun=All";
    let service = |name: &str| {
        format!(
            r#"{{"metadata":{{"name":"{name}"}},"spec":{{"type":"NodePort","ports":[{{"name":"x","port":80}},{{"name":"y","port":81}}]}}}}"#
        )
    };
    let shown = [r#""clusterIP":"10.96.0.0""#, r#""nodePort":32769"#, r#""nodePort":32770"#];
    check(&[("POST", services, &service("a"), 201, &shown), ("POST", services, &service("b"), 201, &shown)])
        .await;
}

#[tokio::test]
async fn a_service_that_a_write_of_its_status_created_gets_no_address_later() {
    let path = "/api/v1/namespaces/default/services/a";
    let service = r#"{"metadata":{"name":"a"},"spec":{"ports":[{"port":80}]}}"#;
    check(&[
        ("PUT", &format!("{path}/status"), service, 201, &["!clusterIP\""]),
        ("PUT", path, service, 200, &["!clusterIP\"", r#""ipFamilies":["IPv4"]"#]),
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
async fn a_node_without_an_address_of_a_usable_type_has_no_preferred_one() {
    let nodes = "/api/v1/nodes";
    let node = r#"{"metadata":{"name":"a"},"status":{"addresses":[{"address":"x y","type":"b"},{"address":"1.2.3.4","type":"c"}]}}"#;
    let why = "no preferred addresses found; known addresses: [{b x y} {c 1.2.3.4}]";
    check(&[("POST", nodes, node, 201, &[]), ("GET", &format!("{nodes}/a/proxy"), "", 500, &[why])]).await;
}

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
async fn a_flow_schema_is_updated_without_its_revision() {
    const SCHEMAS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas";
    let schema = r#"{"metadata":{"name":"a"},"spec":{"priorityLevelConfiguration":{"name":"exempt"},"matchingPrecedence":5}}"#;
    let changed = schema.replace('5', "6");
    check(&[
        ("POST", SCHEMAS, schema, 201, &[]),
        ("PUT", &format!("{SCHEMAS}/a"), &changed, 200, &[r#""matchingPrecedence":6"#]),
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
async fn a_label_of_the_namespace_allows_the_access_of_administrators() {
    const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims?dryRun=All";
    let claim = r#"{"metadata":{"name":"a"},"spec":{"devices":{"requests":[{"name":"r","exactly":
        {"deviceClassName":"c.example.com","adminAccess":true}}]}}}"#;
    let error = "spec.devices.requests[0].adminAccess: Forbidden: admin access to devices requires the \
                 `resource.kubernetes.io/admin-access: true` label on the containing namespace";
    let label = r#"{"metadata":{"labels":{"resource.kubernetes.io/admin-access":"true"}}}"#;
    check(&[
        ("POST", CLAIMS, claim, 422, &[error]),
        ("merge", CORE, label, 200, &[]),
        ("POST", CLAIMS, claim, 201, &[]),
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
