//! Patches: their operations, and patches that change the type of an object.

use super::{APPS, CORE, DEFINITION, DEFINITIONS, MAPS, THING, THINGS, check};

const MAP: &str = r#"{"metadata":{"name":"a"},"data":{"k":"v"}}"#;
const REJECTED: &str = "the server rejected our request due to an error in our request";

#[tokio::test]
async fn only_replace_and_test_accept_the_whole_document() {
    let path = format!("{MAPS}/a?dryRun=All");
    let untyped = r#"[{"op":"replace","path":"","value":{"metadata":{"name":"a","namespace":"default"},"data":{"z":"1"}}}]"#;
    let whole = untyped.replace(r#""value":{"#, r#""value":{"apiVersion":"v1","kind":"ConfigMap","#);
    check(&[
        ("POST", MAPS, MAP, 201, &[]),
        ("json-patch", &path, &whole, 200, &[r#""data":{"z":"1"}"#]),
        // Without a version, Go decodes the internal type.
        (
            "json-patch",
            &path,
            untyped,
            400,
            &["name must be provided", r#"unknown field \"data\""#, r#"unknown field \"metadata\""#],
        ),
        ("json-patch", &path, r#"[{"op":"add","path":"","value":{}}]"#, 422, &[REJECTED]),
        ("json-patch", &path, r#"[{"op":"copy","from":"/data","path":""}]"#, 422, &[REJECTED]),
        ("json-patch", &path, r#"[{"op":"copy","from":"","path":"/data"}]"#, 422, &[REJECTED]),
        ("json-patch", &path, r#"[{"op":"replace","path":"","value":1}]"#, 422, &[REJECTED]),
        (
            "json-patch",
            &path,
            r#"[{"op":"replace","path":"","value":[]}]"#,
            422,
            &["couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct {"],
        ),
    ])
    .await;
}

#[tokio::test]
async fn a_patch_cannot_change_the_type_of_a_builtin_object() {
    let path = format!("{MAPS}/a?dryRun=All");
    check(&[
        ("POST", MAPS, MAP, 201, &[]),
        (
            "merge",
            &path,
            r#"{"kind":"X"}"#,
            422,
            &[r#"no kind \"X\" is registered for version \"v1\" in scheme"#],
        ),
        (
            "merge",
            &path,
            r#"{"apiVersion":"apps/v1"}"#,
            422,
            &[r#"no kind \"ConfigMap\" is registered for version"#],
        ),
        (
            "merge",
            &path,
            r#"{"kind":"Pod"}"#,
            422,
            &["converting (v1.Pod) to (core.ConfigMap): unknown conversion"],
        ),
        (
            "merge",
            &path,
            r#"{"kind":1}"#,
            422,
            &["cannot unmarshal number into Go struct field .kind of type string"],
        ),
        ("merge", &path, r#"{"kind":null}"#, 200, &[r#""kind":"ConfigMap""#]),
        // A strategic merge patch is applied to a struct of a fixed type.
        ("strategic", &path, r#"{"kind":"X"}"#, 200, &[]),
        ("strategic", &path, r#"{"kind":1}"#, 422, &["cannot convert int64 to string"]),
        ("strategic", &path, r#"{"metadata":{"labels":{"a":1}}}"#, 422, &["cannot convert int64 to string"]),
        ("strategic", &path, r#"{"metadata":{"labels":{"a":true}}}"#, 422, &["unrecognized type: string"]),
    ])
    .await;
}

#[tokio::test]
async fn a_patch_of_a_custom_object_must_leave_its_type() {
    let path = format!("{THINGS}/a?dryRun=All");
    check(&[
        ("POST", DEFINITIONS, DEFINITION, 201, &[]),
        ("POST", THINGS, THING, 201, &[]),
        ("merge", &path, r#"{"kind":null}"#, 422, &["Object 'Kind' is missing in '{"]),
        (
            "merge",
            &path,
            r#"{"apiVersion":null}"#,
            500,
            &["Object 'apiVersion' is missing in 'object has no apiVersion field'"],
        ),
        ("merge", &path, r#"{"kind":"X"}"#, 422, &[r#"kind: Invalid value: \"X\": must be Thing"#]),
        (
            "json-patch",
            &path,
            r#"[{"op":"replace","path":"","value":{}}]"#,
            422,
            &["Object 'Kind' is missing in '{}'"],
        ),
        ("json-patch", &path, r#"[{"op":"copy","from":"/none","path":"/y"}]"#, 200, &[r#""y":null"#]),
        // The namespace is compared before the name.
        (
            "merge",
            &path,
            r#"{"metadata":{"name":null,"namespace":"b"}}"#,
            400,
            &["does not match the namespace sent"],
        ),
    ])
    .await;
}

#[tokio::test]
async fn an_applied_version_that_cannot_be_read_is_not_quoted() {
    let applied = r#"{"apiVersion":"a/b/c","kind":"ConfigMap","metadata":{"name":"a"}}"#;
    let part = "invalid object type: /, Kind=\"";
    check(&[("apply", &format!("{MAPS}/a?fieldManager=m"), applied, 400, &[part])]).await;
}

#[tokio::test]
async fn repeated_keys_of_a_configuration_are_reported_after_other_errors() {
    let path = |validation: &str| format!("{MAPS}/a?fieldManager=m&fieldValidation={validation}");
    let applied =
        |kind: &str| format!(r#"{{"kind":"X","apiVersion":"v1","kind":"{kind}","metadata":{{"name":"a"}}}}"#);
    let unknown = applied("ConfigMap").replace("metadata", r#"unknown":1,"metadata"#);
    check(&[
        ("apply", &path("Strict"), &unknown, 500, &[".unknown: field not declared in schema"]),
        ("apply", &path("Warn"), &unknown, 500, &["!already set in map"]),
        ("apply", &path("Strict"), &applied("ConfigMap"), 400, &["error strict decoding YAML"]),
        ("apply", &path("Warn"), &applied("ConfigMap"), 201, &["already set in map"]),
    ])
    .await;
}

/// A new element of a list is taken as it is, unlike a new field.
#[tokio::test]
async fn a_new_element_of_a_list_keeps_its_nulls() {
    let nodes = "/apis/storage.k8s.io/v1/csinodes";
    let node = r#"{"metadata":{"name":"a"},"spec":{"drivers":[{"name":"a.example.com","nodeID":"a"}]}}"#;
    let patch = r#"{"spec":{"drivers":[{"name":"b.example.com","nodeID":"a","unknown":null}]}}"#;
    let annotations = r#"{"metadata":{"annotations":{"$patch":null,"example.com/x":"x y"}}}"#;
    let path = format!("{nodes}/a");
    check(&[
        ("POST", nodes, node, 201, &[]),
        ("strategic", &path, patch, 200, &[r#"unknown field \"spec.drivers[0].unknown\""#]),
        ("strategic", &path, annotations, 200, &[r#""annotations":{"example.com/x":"x y"}"#]),
    ])
    .await;
}

#[tokio::test]
async fn values_in_the_keys_of_elements_are_shown_as_by_the_merge_library() {
    let service = |key: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"Service","metadata":{{"name":"a"}},"spec":{{"ports":[{{"port":{key},"protocol":"UDP"}}]}}}}"#
        )
    };
    let path = "/api/v1/namespaces/default/services/a?fieldManager=m";
    let end = "expected numeric (int or float), got map[string]interface {}";
    check(&[
        (
            "apply",
            path,
            &service("{}"),
            500,
            &[&format!(r#".spec.ports[port=,protocol=\"UDP\"].port: {end}"#)],
        ),
        (
            "apply",
            path,
            &service(r#"{"a":[1,"b",null]}"#),
            500,
            &[&format!(r#".spec.ports[port=a=[1,\"b\",null],protocol=\"UDP\"].port: {end}"#)],
        ),
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
async fn the_requested_order_needs_the_merge_key_of_each_element() {
    let controllers = format!("{CORE}/replicationcontrollers");
    let controller = r#"{"metadata":{"name":"a"},"spec":{"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"a","image":"a"}]}}}}"#;
    let path = format!("{controllers}/a");
    let patch = |containers: &str, order: &str| {
        format!(
            r#"{{"spec":{{"template":{{"spec":{{"$setElementOrder/containers":{order},"containers":{containers}}}}}}}}}"#
        )
    };
    let no_key = "does not contain declared merge key: name";
    check(&[
        ("POST", &controllers, controller, 201, &[]),
        (
            "strategic",
            &path,
            &patch(r#"[{"image":"b"}]"#, r#"[{"name":"a"}]"#),
            500,
            &["map: map[image:b] ", no_key],
        ),
        (
            "strategic",
            &path,
            &patch(r#"[{"name":"a"}]"#, r#"[{"image":"b"}]"#),
            500,
            &["map: map[image:b] ", no_key],
        ),
        (
            "strategic",
            &path,
            &patch(r#"[{"name":"a"}]"#, r#"[{"name":"b"}]"#),
            500,
            &["The order in patch list"],
        ),
    ])
    .await;
}

#[tokio::test]
async fn an_apply_to_the_status_of_a_missing_policy_creates_it() {
    let path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/a/status";
    let policy = |spec: &str| {
        format!(
            r#"{{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{{"name":"a"}},"spec":{{{spec}}}}}"#
        )
    };
    let complete = r#""validations":[{"expression":"true"}],"matchConstraints":{"resourceRules":[{"apiGroups":["example.com"],
        "apiVersions":["v1"],"operations":["CREATE"],"resources":["things"]}]}"#;
    let apply = &format!("{path}?fieldManager=m");
    check(&[
        ("PUT", path, &policy(complete), 404, &[]),
        ("merge", path, "{}", 404, &[]),
        ("apply", apply, &policy(""), 422, &["spec.matchConstraints: Required value"]),
        ("apply", apply, &policy(complete), 201, &["\"expression\":\"true\""]),
        (
            "apply",
            "/apis/batch/v1/namespaces/default/jobs/a/status?fieldManager=m",
            r#"{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"a"}}"#,
            404,
            &[],
        ),
    ])
    .await;
}

/// The directive only changes the merge of a list of scalars.
#[tokio::test]
async fn a_list_of_objects_is_merged_although_the_patch_deletes_from_a_list() {
    let nodes = "/apis/storage.k8s.io/v1/csinodes";
    let node = r#"{"metadata":{"name":"a","labels":{"a":"b"}},"spec":{"drivers":[{"name":"a.io","nodeID":"n","topologyKeys":["a"]}]}}"#;
    let path = &format!("{nodes}/a");
    let delete = |elements: &str| format!(r#"{{"spec":{{"$deleteFromPrimitiveList/drivers":{elements}}}}}"#);
    let labels = r#"{"metadata":{"$deleteFromPrimitiveList/labels":{"c":"d"}}}"#;
    let types = "list element types are not identical: [[map[name:a.io nodeID:n topologyKeys:[a]]] [a.io]]";
    check(&[
        ("POST", nodes, node, 201, &[]),
        ("strategic", path, &delete(r#"[{"name":"a.io"}]"#), 200, &[r#""name":"a.io""#]),
        ("strategic", path, &delete(r#"[{"name":"b.io","nodeID":"n"}]"#), 200, &[r#""name":"b.io""#, "a.io"]),
        ("strategic", path, labels, 200, &[r#""c":"d""#, r#""a":"b""#]),
        (
            "strategic",
            path,
            &delete(r#"[{"nodeID":"n"}]"#),
            500,
            &["does not contain declared merge key: name"],
        ),
        ("strategic", path, r#"{"spec":{"drivers":[{"name":"b.io","$patch":"delete"}]}}"#, 200, &["!b.io"]),
        ("strategic", path, &delete(r#"["a.io"]"#), 500, &[types]),
        ("strategic", path, &delete(r#""a.io""#), 200, &["a.io"]),
        ("strategic", path, &delete("null"), 200, &[r#""drivers":null"#]),
    ])
    .await;
}
