//! Creates, updates and deletes.

use super::{CORE, DEFINITION, DEFINITIONS, MAPS, SAME, THING, THINGS, check};

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

#[tokio::test]
async fn selectors_of_workloads_are_validated_part_by_part() {
    let body = |selector: &str| {
        format!(
            r#"{{"metadata":{{"name":"a"}},"spec":{{"serviceName":"s","selector":{selector},"template":{{"metadata":{{"labels":
            {{"a":"b"}}}},"spec":{{"containers":[{{"name":"a","image":"a"}}]}}}}}}}}"#
        )
    };
    let path = |plural: &str| format!("/apis/apps/v1/namespaces/default/{plural}?dryRun=All");
    let (slash, equal) = (
        body(r#"{"matchLabels":{"a":"/p"}}"#),
        body(r#"{"matchExpressions":[{"key":"a","operator":"Equal"}]}"#),
    );
    let label = r#"spec.selector.matchLabels: Invalid value: \"/p\": a valid label must be"#;
    let operator = r#"spec.selector.matchExpressions[0].operator: Invalid value: \"Equal\": not a valid selector operator"#;
    check(&[
        ("POST", &path("deployments"), &slash, 422, &[label, "}: invalid label selector"]),
        ("POST", &path("replicasets"), &equal, 422, &[operator, "}: invalid label selector"]),
        (
            "POST",
            &path("statefulsets"),
            &equal,
            422,
            &[operator, "!invalid label selector", "spec.selector: Invalid value: {"],
        ),
        ("POST", &path("daemonsets"), &equal, 422, &[operator, "!spec.selector: Invalid"]),
        (
            "POST",
            &path("daemonsets"),
            &body(r#"{"matchLabels":{"a":"c"}}"#),
            422,
            &["`selector` does not match"],
        ),
    ])
    .await;
}

#[tokio::test]
async fn a_replication_controller_matches_its_template() {
    let path = "/api/v1/namespaces/default/replicationcontrollers?dryRun=All";
    let body = |selector: &str, policy: &str| {
        format!(
            r#"{{"metadata":{{"name":"a"}},"spec":{{"selector":{selector},"template":{{"metadata":{{"labels":{{"a":"b"}}}},"spec":
            {{"restartPolicy":"{policy}","containers":[{{"name":"a","image":"a"}}]}}}}}}}}"#
        )
    };
    let never = r#"restartPolicy: Unsupported value: \"Never\": supported values: \"Always\""#;
    let negative = r#"{"metadata":{"name":"a"},"spec":{"replicas":-1}}"#;
    check(&[
        ("POST", path, &body(r#"{"a":"b"}"#, "Always"), 201, &[]),
        (
            "POST",
            path,
            &body(r#"{"x":"y"}"#, "Always"),
            422,
            &["`selector` does not match template `labels`"],
        ),
        ("POST", path, &body(r#"{"a":"b"}"#, "Never"), 422, &[never]),
        (
            "POST",
            path,
            negative,
            422,
            &["[spec.selector: Required value, spec.replicas: Invalid value: -1: must be"],
        ),
        ("POST", path, negative, 422, &["spec.template: Required value"]),
    ])
    .await;
}

#[tokio::test]
async fn events_with_a_time_may_be_about_objects_of_other_namespaces() {
    let event = |more: &str| {
        format!(
            r#"{{"metadata":{{"name":"a"}},"action":"A","reason":"B","reportingController":"a.b/c","reportingInstance":"a",
            "type":"Normal","regarding":{{"name":"a","namespace":"b"}}{more}}}"#
        )
    };
    let events = "/apis/events.k8s.io/v1/namespaces/default/events?dryRun=All";
    let time = r#","eventTime":"2001-02-03T04:05:06.000001Z""#;
    let series = format!(r#"{time},"series":{{"count":1}}"#);
    check(&[
        ("POST", events, &event(time), 201, &[]),
        ("POST", events, &event(""), 422, &["does not match event.namespace", "eventTime: Required value"]),
        (
            "POST",
            events,
            &event(&series),
            422,
            &["series.count: Invalid value", "series.lastObservedTime: Required"],
        ),
        ("POST", "/api/v1/namespaces/default/events?dryRun=All", r#"{"metadata":{"name":"A_b"}}"#, 201, &[]),
    ])
    .await;
}

#[tokio::test]
async fn a_limit_range_without_a_name_gets_one() {
    let limits = "/api/v1/namespaces/default/limitranges";
    check(&[("POST", limits, r#"{"spec":{"limits":[]}}"#, 201, &[r#""name":""#])]).await;
}

#[tokio::test]
async fn the_controller_of_an_ingress_class_is_required() {
    let classes = "/apis/networking.k8s.io/v1/ingressclasses";
    let class = r#"{"metadata":{"name":"a"},"spec":{"controller":"a.b/c"}}"#;
    let part =
        r#"[spec.controller: Invalid value: \"\": field is immutable, spec.controller: Required value]"#;
    check(&[
        ("POST", classes, class, 201, &[]),
        ("merge", &format!("{classes}/a"), r#"{"spec":{"controller":null}}"#, 422, &[part]),
        ("POST", classes, &class.replace("a.b/c", "x"), 422, &["must be a domain-prefixed path"]),
    ])
    .await;
}

#[tokio::test]
async fn an_action_needs_the_name_of_an_object() {
    let namespace = "/api/v1/namespaces/default";
    let token = format!("{namespace}/serviceaccounts/default/token");
    let bindings = format!("{namespace}/bindings");
    let bound = |reference: &str| format!(r#"{{"spec":{{"boundObjectRef":{{{reference}}}}}}}"#);
    let pod = r#"{"metadata":{"name":"a"},"spec":{"containers":[{"name":"a","image":"a"}],"automountServiceAccountToken":false}}"#;
    let eviction = r#"{"metadata":{"name":"a"},"deleteOptions":{"dryRun":["x"]}}"#;
    check(&[
        ("POST", &format!("{namespace}/serviceaccounts"), r#"{"metadata":{"name":"default"}}"#, 201, &[]),
        ("POST", &token, &bound(r#""kind":"Pod""#), 400, &["Name parameter required."]),
        (
            "POST",
            &token,
            &bound(r#""kind":"Secret","name":"a/b""#),
            400,
            &[r#"Name parameter invalid: \"a/b\": may not contain '/'"#],
        ),
        ("POST", &token, &bound(r#""apiVersion":"a/b/c""#), 400, &["token to object of type /, Kind=\""]),
        ("POST", &bindings, r#"{"target":{"name":"a"}}"#, 400, &["Name parameter required."]),
        ("POST", &format!("{namespace}/pods"), pod, 201, &[]),
        (
            "POST",
            &format!("{namespace}/pods/a/eviction?dryRun=All"),
            eviction,
            500,
            &["Non-matching dry-run options in request and content: [All] and [x]"],
        ),
    ])
    .await;
}

#[tokio::test]
async fn a_name_that_no_object_can_have_is_refused() {
    let refused: &[&str] = &[r#"Name parameter invalid: \"a%b\": may not contain '%'"#];
    let path = format!("{MAPS}/a%25b");
    let service = "/api/v1/namespaces/default/services/a%25b";
    let named =
        r#"{"apiVersion":"v1","kind":"Service","metadata":{"name":"a%b"},"spec":{"ports":[{"port":80}]}}"#;
    check(&[
        ("GET", &path, "", 400, refused),
        ("DELETE", &path, "", 400, refused),
        ("merge", &path, "{}", 400, refused),
        ("PUT", &path, r#"{"metadata":{"name":"a%b"}}"#, 400, refused),
        ("PUT", service, named, 400, refused),
        ("apply", &format!("{service}?fieldManager=m"), named, 400, refused),
        ("POST", DEFINITIONS, DEFINITION, 201, &[]),
        ("GET", &format!("{THINGS}/a%25b"), "", 400, refused),
    ])
    .await;
}

/// The time of an entry changes only if its manager changes the object, after the server restored what the endpoint does not write.
#[tokio::test]
async fn an_apply_that_changes_only_what_the_server_restores_is_no_write() {
    let map = |metadata: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"a"{metadata}}},"data":{{"k":"v"}}}}"#
        )
    };
    let path = format!("{MAPS}/a?fieldManager=m");
    let plain = map("");
    // The first apply of this manager changes nothing, so its entry has no time.
    let unchanged = [SAME, r#""manager":"m","operation":"Apply"}"#];
    check(&[
        ("POST", MAPS, &plain, 201, &[]),
        ("apply", &path, &plain, 200, &unchanged[1..]),
        ("apply", &path, &map(r#","creationTimestamp":"2001-02-03T04:05:06Z""#), 200, &unchanged),
        ("apply", &path, &map(r#","uid":"""#), 200, &unchanged),
        ("apply", &path, &map(r#","generation":7"#), 200, &unchanged),
    ])
    .await;
}

/// The times of an Event are null if they are absent.
#[tokio::test]
async fn existing_nulls_have_no_owner_after_the_first_apply() {
    let event = r#"{"apiVersion":"v1","kind":"Event","metadata":{"name":"a"},"involvedObject":{"namespace":"default"}}"#;
    let path = "/api/v1/namespaces/default/events/a";
    let owned = r#""manager":"before-first-apply""#;
    check(&[
        ("apply", &format!("{path}?fieldManager=m"), event, 201, &[]),
        ("merge", path, r#"{"metadata":{"managedFields":[]}}"#, 200, &["!managedFields"]),
        (
            "apply",
            &format!("{path}?fieldManager=m"),
            r#"{"apiVersion":"v1","kind":"Event"}"#,
            200,
            &[owned, "!f:eventTime"],
        ),
    ])
    .await;
}

#[tokio::test]
async fn parameters_with_a_malformed_escape_are_ignored() {
    check(&[
        ("GET", &format!("{MAPS}?resourceVersion=80%"), "", 200, &[]),
        ("GET", &format!("{MAPS}?resourceVersion=8;limit=x"), "", 200, &[]),
    ])
    .await;
}

/// Go decodes the bytes of a Secret from a list of numbers too.
#[tokio::test]
async fn bytes_may_be_a_list_of_numbers() {
    let secrets = "/api/v1/namespaces/default/secrets";
    let secret = |data: &str| format!(r#"{{"metadata":{{"name":"a"}},"data":{{"a":{data}}}}}"#);
    let why = "json: cannot unmarshal number 256 into Go struct field Secret.data of type uint8";
    check(&[
        ("POST", secrets, &secret("[256]"), 400, &[why]),
        (
            "POST",
            secrets,
            &secret(r#"["x"]"#),
            400,
            &["cannot unmarshal string into Go struct field Secret.data of type uint8"],
        ),
        ("POST", secrets, &secret("[104,105]"), 201, &[r#""data":{"a":"aGk="}"#]),
        ("PUT", &format!("{secrets}/a"), &secret("[]"), 200, &[r#""data":{"a":""}"#]),
        ("strategic", &format!("{secrets}/a"), r#"{"data":{"a":[]}}"#, 200, &[r#""data":{"a":""}"#]),
        (
            "strategic",
            &format!("{secrets}/a"),
            r#"{"data":{"a":[104,105]}}"#,
            200,
            &[r#""data":{"a":"aGk="}"#],
        ),
    ])
    .await;
}

#[tokio::test]
async fn an_eviction_that_a_budget_spares_replaces_the_required_revision() {
    let pods = "/api/v1/namespaces/default/pods";
    check(&[
        (
            "POST",
            pods,
            r#"{"metadata":{"name":"a","labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}"#,
            201,
            &[],
        ),
        (
            "merge",
            &format!("{pods}/a/status"),
            r#"{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"False"}]}}"#,
            200,
            &[],
        ),
        (
            "POST",
            "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
            r#"{"metadata":{"name":"b"},"spec":{"minAvailable":1,"unhealthyPodEvictionPolicy":"AlwaysAllow",
                "selector":{"matchLabels":{"a":"b"}}}}"#,
            201,
            &[],
        ),
        (
            "POST",
            &format!("{pods}/a/eviction"),
            r#"{"metadata":{"name":"a"},"deleteOptions":{"preconditions":{"resourceVersion":"1"}}}"#,
            201,
            &[],
        ),
    ])
    .await;
}

#[tokio::test]
async fn a_failed_precondition_names_the_key_of_the_storage() {
    let key = |prefix: &str| format!("Code: 4, Key: /registry/{prefix}a, ResourceVersion: 0, ");
    let body = r#"{"metadata":{"name":"a","uid":"u"}}"#;
    let service = r#"{"metadata":{"name":"a"},"spec":{"ports":[{"port":80}]}}"#;
    let services = "/api/v1/namespaces/default/services";
    let changed = service.replace(r#""name":"a""#, r#""name":"a","uid":"u""#);
    check(&[
        ("POST", "/api/v1/nodes", r#"{"metadata":{"name":"a"}}"#, 201, &[]),
        ("PUT", "/api/v1/nodes/a", body, 409, &[&key("minions/")]),
        ("PUT", "/api/v1/nodes/a?dryRun=All", body, 409, &["Key: /minions/a, "]),
        ("POST", services, service, 201, &[]),
        ("PUT", &format!("{services}/a"), &changed, 409, &[&key("services/specs/default/")]),
        ("POST", DEFINITIONS, DEFINITION, 201, &[]),
        ("POST", THINGS, THING, 201, &[]),
        (
            "PUT",
            &format!("{THINGS}/a"),
            &THING.replace(r#""name":"a""#, r#""name":"a","uid":"u""#),
            409,
            &[&key("example.com/things/default/")],
        ),
    ])
    .await;
}

#[tokio::test]
async fn some_kinds_validate_metadata_after_the_rest() {
    let metadata = r#""metadata":{"name":"..","labels":{"a":"80%"}}"#;
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let budget = |least: &str| format!(r#"{{{metadata},"spec":{{"minAvailable":{least}}}}}"#);
    let (events, new_events) =
        ("/api/v1/namespaces/default/events", "/apis/events.k8s.io/v1/namespaces/default/events");
    let event =
        |field: &str, namespace: &str| format!(r#"{{{metadata},"{field}":{{"namespace":"{namespace}"}}}}"#);
    let fits = "involvedObject.namespace: Invalid value: \\\"b\\\": does not match event.namespace";
    let both = ["[metadata.name: Invalid value: \\\"..\\\": may not be '..', metadata.labels: Invalid value"];
    check(&[
        ("POST", budgets, &budget("-1"), 422, &["spec.minAvailable: Invalid value: -1", "!metadata.labels"]),
        ("POST", budgets, &budget("1"), 422, &both),
        ("POST", events, &event("involvedObject", "b"), 422, &[fits, "!metadata.labels"]),
        ("POST", events, &event("involvedObject", "default"), 422, &both),
        (
            "POST",
            new_events,
            &event("regarding", "b"),
            422,
            &[&format!("[{fits}, metadata.name: Invalid value: ")],
        ),
    ])
    .await;
}

/// Only a POST checks the type of its body before its options.
#[tokio::test]
async fn every_post_checks_the_type_of_its_body_first() {
    let part = "the body of the request was in an unknown format";
    for path in ["bindings", "pods/a/binding", "pods/a/eviction", "serviceaccounts/a/token", "configmaps"] {
        let path = format!("{CORE}/{path}?fieldValidation=x");
        check(&[("POST", &path, "{}", 422, &["fieldValidation"])]).await;
        check(&[("POST plain", &path, "{}", 415, &[part])]).await;
    }
}
