//! Rules of builtin kinds: warnings, defaults, and fields that are dropped or kept.

use super::{APPS, CORE, check};

#[tokio::test]
async fn fields_of_disabled_features_are_dropped() {
    let set = r#"{"metadata":{"name":"a"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},
        "spec":{"containers":[{"name":"a","image":"a","lifecycle":{"stopSignal":"SIGTERM"}}]}},
        "updateStrategy":{"rollingUpdate":{"maxUnavailable":1}}}}"#;
    let driver = r#"{"metadata":{"name":"a"},"spec":{"preventPodSchedulingIfMissing":true}}"#;
    let node = r#"{"metadata":{"name":"a"},"status":{"config":{"error":"x"}}}"#;
    let limit = r#"{"spec":{"updateStrategy":{"rollingUpdate":{"maxUnavailable":"x"}}}}"#;
    let daemons = r#"{"metadata":{"name":"a"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},
        "spec":{"containers":[{"name":"a","image":"a"}]}}}}"#;
    let group = r#"{"spec":{"template":{"spec":{"schedulingGroup":{"podGroupName":"g"}}}}}"#;
    let unchanged = r#""deprecated.daemonset.template.generation":"1""#;
    check(&[
        ("POST", &format!("{APPS}/daemonsets"), daemons, 201, &[unchanged]),
        ("merge", &format!("{APPS}/daemonsets/a"), group, 200, &[unchanged, r#"!"podGroupName":"g""#]),
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
async fn the_answer_to_a_token_review_keeps_the_rest_of_its_status() {
    let review =
        r#"{"spec":{"token":"a"},"status":{"audiences":["b"],"authenticated":true,"user":{"username":"c"}}}"#;
    let parts =
        [r#""audiences":["b"]"#, r#""username":"c""#, "invalid bearer token", "!\"authenticated\":true"];
    check(&[("POST", "/apis/authentication.k8s.io/v1/tokenreviews", review, 201, &parts)]).await;
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

/// The allocation of addresses, which completes one field from the other, is part of the main endpoint only.
#[tokio::test]
async fn a_service_that_a_write_of_its_status_creates_names_its_address_twice() {
    let path = |name: &str| format!("/api/v1/namespaces/default/services/{name}/status");
    let service = |name: &str, spec: &str| {
        format!(r#"{{"metadata":{{"name":"{name}"}},"spec":{{"ports":[{{"port":80}}],{spec}}}}}"#)
    };
    let missing = "spec.clusterIPs: Required value";
    let unexpected = "spec.clusterIPs: Invalid value: [\\\"10.96.5.6\\\"]: must be empty when `clusterIP` is not specified";
    let both = r#""clusterIP":"None","clusterIPs":["None"]"#;
    check(&[
        ("PUT", &path("a"), &service("a", r#""clusterIP":"None""#), 422, &[missing]),
        ("PUT", &path("a"), &service("a", r#""clusterIP":"10.96.5.5""#), 422, &[missing]),
        ("PUT", &path("a"), &service("a", r#""clusterIPs":["10.96.5.6"]"#), 422, &[unexpected]),
        ("PUT", &path("a"), &service("a", both), 201, &[both]),
        ("PUT", &path("b"), &service("b", r#""type":"ExternalName","externalName":"a.b""#), 201, &[]),
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
async fn audit_annotations_need_the_name_of_the_policy() {
    let policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    let part = "requires metadata.name be non-empty";
    let body = r#"{"spec":{"auditAnnotations":[{"key":"k","valueExpression":"'v'"}],"matchConstraints":{"resourceRules":[
        {"apiGroups":["a"],"apiVersions":["v1"],"operations":["CREATE"],"resources":["b"]}]}}}"#;
    check(&[("POST", policies, body, 422, &[part, "spec.auditAnnotations[0].key"])]).await;
}

/// Go decodes null to an empty text.
#[tokio::test]
async fn a_null_annotation_is_no_generation() {
    let body = r#"{"metadata":{"name":"a","annotations":{"deprecated.daemonset.template.generation":null}},"spec":{}}"#;
    let part = r#"strconv.ParseInt: parsing \"\": invalid syntax"#;
    check(&[("POST", &format!("{APPS}/daemonsets"), body, 400, &[part])]).await;
}

#[tokio::test]
async fn empty_lists_are_no_change_of_a_claim_template() {
    let templates = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates";
    let template = r#"{"metadata":{"name":"a"},"spec":{"spec":{"devices":{"requests":[{"name":"a","exactly":{"deviceClassName":"b"}}]}}}}"#;
    let path = format!("{templates}/a");
    let forbidden = "spec.metadata.managedFields: Forbidden: cannot be set";
    check(&[
        ("POST", templates, template, 201, &[]),
        (
            "merge",
            &path,
            r#"{"spec":{"metadata":{"managedFields":[]}}}"#,
            422,
            &[forbidden, "!field is immutable"],
        ),
        (
            "merge",
            &path,
            r#"{"spec":{"metadata":{"managedFields":[{"fieldsV1":{}}]}}}"#,
            422,
            &[forbidden, "field is immutable", r#"\"managedFields\":[{\"fieldsV1\":{}}]"#],
        ),
    ])
    .await;
}

/// A later update without the bundle is another change for kube-apiserver.
#[tokio::test]
async fn an_empty_bundle_is_a_change_of_a_webhook() {
    let configurations = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let webhook = |bundle: &str| {
        format!(
            r#"{{"metadata":{{"name":"a"}},"webhooks":[{{"name":"a.b.c","admissionReviewVersions":["v1"],"sideEffects":"None",
            "clientConfig":{{{bundle}"url":"https://a.b"}}}}]}}"#
        )
    };
    let path = format!("{configurations}/a");
    check(&[
        ("POST", configurations, &webhook(""), 201, &[r#""generation":1"#]),
        ("merge", &path, &webhook(""), 200, &[r#""generation":1"#]),
        ("merge", &path, &webhook(r#""caBundle":"","#), 200, &[r#""generation":2"#]),
    ])
    .await;
}

/// Lists of attributes have a feature gate that is off.
#[tokio::test]
async fn an_attribute_of_a_device_has_no_lists() {
    let slices = "/apis/resource.k8s.io/v1/resourceslices";
    let slice = |value: &str| {
        format!(
            r#"{{"metadata":{{"name":"a"}},"spec":{{"driver":"a.b","nodeName":"n","pool":{{"name":"p","resourceSliceCount":1,
            "generation":1}},"devices":[{{"name":"d","attributes":{{"x":{value}}}}}]}}}}"#
        )
    };
    check(&[
        ("POST", slices, &slice(r#"{"strings":["1"]}"#), 422, &["exactly one value must be specified"]),
        ("POST", slices, &slice(r#"{"string":"a","strings":["1"]}"#), 201, &[r#"{"string":"a"}"#]),
    ])
    .await;
}

/// Rules of scaling have pointers in Go, so that an empty value is not absent.
#[tokio::test]
async fn an_empty_rule_of_scaling_gets_no_default() {
    let scalers = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    let scaler = |rules: &str| {
        format!(
            r#"{{"metadata":{{"generateName":"a"}},"spec":{{"maxReplicas":3,"scaleTargetRef":{{"apiVersion":"apps/v1","kind":"Deployment","name":"a"}},
            "behavior":{{"scaleDown":{rules}}}}}}}"#
        )
    };
    let policy = r#"spec.behavior.scaleDown.selectPolicy: Unsupported value: \"\": supported values: \"Disabled\", \"Max\", \"Min\""#;
    let none = "spec.behavior.scaleDown.policies: Required value: must specify at least one Policy";
    check(&[
        ("POST", scalers, &scaler(r#"{"selectPolicy":""}"#), 422, &[policy]),
        ("POST", scalers, &scaler(r#"{"policies":[]}"#), 422, &[none]),
        ("POST", scalers, &scaler(r#"{"policies":null}"#), 201, &[r#""selectPolicy":"Max""#]),
    ])
    .await;
}

/// The merged object is converted to the version of another manager before its conflicts are known.
#[tokio::test]
async fn an_apply_that_cannot_be_converted_has_no_conflicts() {
    let scalers =
        |version: &str| format!("/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers");
    let scaler = r#"{"metadata":{"name":"a"},"spec":{"maxReplicas":3,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"a"}}}"#;
    let applied = r#"{"apiVersion":"autoscaling/v1","kind":"HorizontalPodAutoscaler","metadata":{"creationTimestamp":"2001-02-03"},
        "spec":{"targetCPUUtilizationPercentage":60}}"#;
    let why = r#"failed to convert new object: unable to convert unstructured object to autoscaling/v1, Kind=HorizontalPodAutoscaler: parsing time \"2001-02-03\" as"#;
    check(&[
        ("POST", &scalers("v2"), scaler, 201, &[]),
        ("apply", &format!("{}/a?fieldManager=one", scalers("v1")), applied, 500, &[why]),
    ])
    .await;
}
