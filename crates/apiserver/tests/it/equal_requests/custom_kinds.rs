//! Custom kinds: their scale, their finalizers, and versions without a conversion webhook.

use super::{DEFINITION, DEFINITIONS, SAME, THING, THINGS, check};

/// A kind with two versions: the first keeps any field, the second declares a field.
const TWO_VERSIONS: &str = r#"{"metadata":{"name":"pairs.example.com"},"spec":{"group":"example.com","scope":"Namespaced",
    "names":{"plural":"pairs","kind":"Pair"},"versions":[
    {"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}},
    {"name":"v2","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object","properties":{"size":{"type":"integer"}}}}}
    ]}}"#;
const PAIRS: [&str; 2] =
    ["/apis/example.com/v1/namespaces/default/pairs", "/apis/example.com/v2/namespaces/default/pairs"];

#[tokio::test]
async fn warnings_of_finalizers_depend_on_a_dot_and_spare_standard_ones() {
    let with = |finalizer: &str| {
        THING.replace(r#""name":"a""#, &format!(r#""name":"a","finalizers":["{finalizer}"]"#))
    };
    let create = format!("{THINGS}?dryRun=All");
    check(&[
        ("POST", DEFINITIONS, DEFINITION, 201, &[]),
        (
            "POST",
            &create,
            &with("a"),
            201,
            &["prefer a domain-qualified finalizer name to avoid accidental conflicts"],
        ),
        (
            "POST",
            &create,
            &with("a.b"),
            201,
            &["finalizer name including a path (/) to avoid accidental conflicts"],
        ),
        ("POST", &create, &with("kubernetes"), 201, &["!prefer a domain-qualified"]),
    ])
    .await;
}

#[tokio::test]
async fn a_body_without_a_version_is_refused_with_an_empty_version() {
    check(&[
        ("POST", DEFINITIONS, DEFINITION, 201, &[]),
        (
            "POST",
            THINGS,
            r#"{"kind":"Thing","metadata":{"name":5}}"#,
            400,
            &[r#"Thing in version \"\" cannot be handled as a Thing: json: cannot unmarshal number"#],
        ),
        (
            "POST",
            THINGS,
            r#"{"kind":"Other","metadata":{"labels":5}}"#,
            400,
            &[r#"Other in version \"\" cannot be handled as a Thing: json: cannot unmarshal number"#],
        ),
    ])
    .await;
}

#[tokio::test]
async fn an_apply_fails_if_a_version_of_another_manager_lacks_a_field() {
    let [first, second] = PAIRS;
    let pair = r#"{"apiVersion":"example.com/v2","kind":"Pair","metadata":{"name":"a"},"size":1}"#;
    let applied = r#"{"apiVersion":"example.com/v1","kind":"Pair","metadata":{"name":"a"},"other":1}"#;
    check(&[
        ("POST", DEFINITIONS, TWO_VERSIONS, 201, &[]),
        ("POST", second, pair, 201, &["example.com/v2"]),
        (
            "apply",
            &format!("{first}/a?fieldManager=m"),
            applied,
            500,
            &["failed to convert new object: .other: field not declared in schema"],
        ),
        // Any other write drops the entries.
        ("merge", &format!("{first}/a"), r#"{"other":1}"#, 200, &["!managedFields"]),
    ])
    .await;
}

#[tokio::test]
async fn a_write_in_another_version_stores_what_that_version_keeps() {
    let [first, second] = PAIRS;
    let pair = r#"{"apiVersion":"example.com/v1","kind":"Pair","metadata":{"name":"a"},"other":1}"#;
    let same = r#"{"metadata":{"labels":{}}}"#;
    check(&[
        ("POST", DEFINITIONS, TWO_VERSIONS, 201, &[]),
        ("POST", first, pair, 201, &[r#""other":1"#]),
        ("GET", &format!("{second}/a"), "", 200, &["!\"other\":1"]),
        // The patch changes nothing that this version shows.
        ("merge", &format!("{second}/a"), same, 200, &[]),
        ("GET", &format!("{first}/a"), "", 200, &["!\"other\":1"]),
    ])
    .await;
}

#[tokio::test]
async fn an_object_of_another_kind_is_refused_after_a_missing_one_and_with_the_errors_about_lists() {
    let definition = DEFINITION.replace(
        r#""x-kubernetes-preserve-unknown-fields":true"#,
        r#""properties":{"list":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},"size":{"type":"integer"}}"#,
    );
    let other = THING.replace("Thing", "Other");
    let kind = r#"Other.example.com \"a\" is invalid: kind: Invalid value: \"Other\": must be Thing"#;
    let both = r#"{"kind":"Other","list":["x","x"],"size":"x","metadata":{"labels":{"a":"b c"}}}"#;
    check(&[
        ("POST", DEFINITIONS, &definition, 201, &[]),
        ("PUT", &format!("{THINGS}/a"), &other, 404, &[]),
        ("POST", THINGS, &other, 422, &[kind]),
        (
            "POST",
            THINGS,
            &other.replace(r#""name":"a""#, r#""name":"a","labels":{"a":1}"#),
            400,
            &["cannot unmarshal number"],
        ),
        ("POST", THINGS, THING, 201, &[]),
        ("merge", &format!("{THINGS}/a"), both, 422, &["must be Thing", "list[1]: Duplicate value", "!size"]),
        (
            "merge",
            &format!("{THINGS}/a"),
            r#"{"apiVersion":"a/b/c"}"#,
            422,
            &["unexpected GroupVersion string: a/b/c"],
        ),
    ])
    .await;
}

#[tokio::test]
async fn empty_labels_of_an_apply_are_stored_until_the_next_write() {
    let path = format!("{THINGS}/a");
    let apply = format!("{path}?fieldManager=m");
    let applied = THING.replace(r#""name":"a""#, r#""name":"a","labels":{},"ownerReferences":[]"#);
    check(&[
        ("POST", DEFINITIONS, DEFINITION, 201, &[]),
        ("apply", &apply, &applied, 201, &["!\"labels\"", "!ownerReferences"]),
        ("GET", &path, "", 200, &["!\"labels\"", "\"f:labels\":{}"]),
    ])
    .await;
}

#[tokio::test]
async fn an_apply_ignores_an_unreadable_time_of_deletion_and_unreadable_owners() {
    let path = format!("{THINGS}/a?fieldManager=m");
    let applied = |metadata: &str| THING.replace(r#""name":"a""#, &format!(r#""name":"a",{metadata}"#));
    let unreadable = r#""managedFields":[{"manager":"x","time":"2001-02-03"}]"#;
    check(&[
        ("POST", DEFINITIONS, DEFINITION, 201, &[]),
        ("apply", &path, &applied(r#""deletionTimestamp":"2001-02-03""#), 201, &["!2001-02-03"]),
        ("apply", &path, &applied(unreadable), 200, &["!2001-02-03"]),
        ("apply", &path, &applied(r#""managedFields":[{"manager":"x"}]"#), 400, &["must be nil"]),
        (
            "apply",
            &path,
            &applied(r#""managedFields":5"#),
            500,
            &[".metadata.managedFields: expected list, got"],
        ),
    ])
    .await;
}

#[tokio::test]
async fn a_map_that_an_apply_empties_becomes_null() {
    let path = format!("{THINGS}/a?fieldManager=m");
    let definition = DEFINITION.replace(
        r#""x-kubernetes-preserve-unknown-fields":true"#,
        r#""properties":{"map":{"type":"object","additionalProperties":{"type":"string"}}}"#,
    );
    let applied = |map: &str| THING.replace(r#""kind""#, &format!(r#""map":{map},"kind""#));
    check(&[
        ("POST", DEFINITIONS, &definition, 201, &[]),
        ("apply", &path, &applied(r#"{"a":"b"}"#), 201, &[]),
        (
            "apply",
            &path,
            &applied("{}"),
            422,
            &[r#"map: Invalid value: \"null\": map in body must be of type object: \"null\""#],
        ),
        ("apply", &path, THING, 200, &["!\"map\""]),
    ])
    .await;
}

#[tokio::test]
async fn an_apply_of_the_status_owns_all_fields_but_metadata_and_spec() {
    let definition =
        DEFINITION.replace(r#""storage":true,"#, r#""storage":true,"subresources":{"status":{}},"#);
    let applied = THING.replace(r#""kind""#, r#""data":{"a":1},"spec":{"a":1},"status":{"a":1},"kind""#);
    check(&[
        ("POST", DEFINITIONS, &definition, 201, &[]),
        ("POST", THINGS, THING, 201, &[]),
        (
            "apply",
            &format!("{THINGS}/a/status?fieldManager=m"),
            &applied,
            200,
            &[r#""f:data":{".":{},"f:a":{}}"#, r#""f:status""#, "!f:spec", "!\"data\":{\"a\""],
        ),
        // The kind in the body of a status does not count.
        (
            "merge",
            &format!("{THINGS}/a/status"),
            r#"{"kind":"Other","status":{"a":2}}"#,
            200,
            &[r#""kind":"Thing""#, r#""status":{"a":2}"#],
        ),
    ])
    .await;
}

/// A whole number beyond the range of Go's integers is a float, also after it was stored.
#[tokio::test]
async fn a_large_number_stays_the_same_number() {
    let [one, two] = PAIRS;
    let pair = |version: &str, size: &str| {
        format!(
            r#"{{"apiVersion":"example.com/{version}","kind":"Pair","metadata":{{"name":"a"}},"size":{size}}}"#
        )
    };
    let replaced = pair("v2", "9223372036854776000")
        .replace(r#""name":"a""#, r#""name":"a","resourceVersion":"{{rv}}""#);
    check(&[
        ("POST", DEFINITIONS, TWO_VERSIONS, 201, &[]),
        ("POST", one, &pair("v1", "9223372036854775808"), 201, &[r#""size":9223372036854776000"#]),
        ("PUT", &format!("{two}/a"), &replaced, 200, &[r#""generation":1"#, SAME]),
        (
            "apply",
            &format!("{one}/a?fieldManager=m"),
            &pair("v1", "9223372036854775808"),
            200,
            &[r#""generation":1"#],
        ),
    ])
    .await;
}

/// An object that does not fit the schema of a version has no managers after a write in that version.
#[tokio::test]
async fn an_object_that_does_not_fit_its_schema_loses_its_managers() {
    let [one, two] = PAIRS;
    let pair = r#"{"apiVersion":"example.com/v1","kind":"Pair","metadata":{"name":"a"},"size":true}"#;
    check(&[
        ("POST", DEFINITIONS, TWO_VERSIONS, 201, &[]),
        ("apply", &format!("{one}/a?fieldManager=m"), pair, 201, &["managedFields"]),
        ("merge", &format!("{two}/a"), r#"{"size":7}"#, 200, &["!managedFields"]),
    ])
    .await;
}

/// Another version encodes metadata as ObjectMeta, which has no empty labels, so that the next write changes nothing.
#[tokio::test]
async fn a_version_that_is_not_stored_writes_no_empty_labels() {
    let [one, two] = PAIRS;
    let pair = |version: &str, more: &str| {
        format!(
            r#"{{"apiVersion":"example.com/{version}","kind":"Pair","metadata":{{"name":"a"{more}}},"size":1}}"#
        )
    };
    let replaced = pair("v1", r#","resourceVersion":"{{rv}}""#);
    check(&[
        ("POST", DEFINITIONS, TWO_VERSIONS, 201, &[]),
        (
            "apply",
            &format!("{two}/a?fieldManager=m"),
            &pair("v2", r#","labels":{}"#),
            201,
            &["!\"labels\":{}"],
        ),
        ("PUT", &format!("{one}/a"), &replaced, 200, &[SAME]),
    ])
    .await;
}

#[tokio::test]
async fn the_metadata_of_an_embedded_object_are_validated() {
    let definition = r#"{"metadata":{"name":"boxes.example.com"},"spec":{"group":"example.com","scope":"Namespaced",
        "names":{"plural":"boxes","kind":"Box"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":
        {"type":"object","properties":{"inner":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}}}}}]}}"#;
    let body = |metadata: &str| {
        format!(
            r#"{{"apiVersion":"example.com/v1","kind":"Box","metadata":{{"name":"a"}},"inner":{{"apiVersion":"v1","kind":"A","metadata":{metadata}}}}}"#
        )
    };
    let boxes = "/apis/example.com/v1/namespaces/default/boxes";
    check(&[
        ("POST", DEFINITIONS, definition, 201, &[]),
        ("POST", boxes, &body(r#"{"generation":-1}"#), 422, &["inner.metadata.generation: Invalid value: -1: must be greater than or equal to 0"]),
        (
            "POST",
            boxes,
            &body(r#"{"managedFields":[{"fieldsType":"a","operation":"b"}]}"#),
            422,
            &[
                r#"inner.metadata.managedFields[0].operation: Invalid value: \"b\": must be `Apply` or `Update`"#,
                r#"inner.metadata.managedFields[0].fieldsType: Invalid value: \"a\": must be `FieldsV1`"#,
            ],
        ),
        (
            "apply",
            &format!("{boxes}/a?fieldManager=m"),
            &body(r#"{"deletionTimestamp":"2001-02-03","generateName":"/a"}"#),
            422,
            &[
                r#"inner.metadata: Invalid value: {\"deletionTimestamp\":\"2001-02-03\",\"generateName\":\"/a\"}: parsing time \"2001-02-03\" as"#,
                "!may not contain",
            ],
        ),
    ])
    .await;
}

#[tokio::test]
async fn the_type_of_a_patch_is_checked_before_the_type_of_the_response() {
    let definition =
        DEFINITION.replace(r#""storage":true,"#, r#""storage":true,"subresources":{"status":{}},"#);
    let path = format!("{THINGS}/a");
    let unsupported = "accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
    check(&[
        ("POST", DEFINITIONS, &definition, 201, &[]),
        ("strategic accepting application/xml", &path, "{}", 415, &[unsupported]),
        ("plain accepting application/xml", &format!("{path}/status"), "{}", 415, &[unsupported]),
        ("spaced accepting application/xml", &path, "{}", 415, &[unsupported]),
        (
            "merge accepting application/xml",
            &path,
            "{}",
            406,
            &["only the following media types are accepted"],
        ),
        ("plain accepting application/xml", &format!("{path}/other"), "{}", 404, &[]),
        ("PUT accepting application/xml", THINGS, "{}", 400, &["name must be provided"]),
        (
            "POST accepting application/xml",
            &format!("{path}/status"),
            "{}",
            405,
            &["create is not supported"],
        ),
        ("POST accepting application/xml", &path, "{}", 406, &[]),
        ("GET accepting application/xml", &path, "", 406, &[]),
    ])
    .await;
}

#[tokio::test]
async fn a_lenient_decoder_reads_the_type_of_a_protobuf_body() {
    let lenient = format!("{THINGS}/a?fieldValidation=Ignore");
    check(&[
        ("POST", DEFINITIONS, DEFINITION, 201, &[]),
        ("POST", THINGS, THING, 201, &[]),
        (
            "protobuf",
            &lenient,
            "{}",
            400,
            &["(must be of type Thing): provided data does not appear to be a protobuf message, expected prefix [107 56 115 0] ({})"],
        ),
        ("protobuf", &lenient, "k8s\0", 400, &["empty body (6b387300)"]),
        (
            "protobuf",
            &lenient,
            "k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod",
            400,
            &[r#"Pod in version \"v1\" cannot be handled as a Thing: Object 'Kind' is missing in 'object has no kind field '"#],
        ),
        (
            "protobuf",
            &lenient,
            "k8s\0\x0a\x00",
            400,
            &[r#"Thing in version \"v1\" cannot be handled as a Thing"#],
        ),
    ])
    .await;
}

#[tokio::test]
async fn errors_of_metadata_come_before_a_missing_version() {
    let path = format!("{THINGS}/a");
    let missing =
        "Internal error occurred: Object 'apiVersion' is missing in 'object has no apiVersion field'";
    check(&[
        ("POST", DEFINITIONS, DEFINITION, 201, &[]),
        ("POST", THINGS, THING, 201, &[]),
        (
            "merge",
            &path,
            r#"{"apiVersion":"","metadata":{"creationTimestamp":"now"}}"#,
            422,
            &["parsing time"],
        ),
        (
            "merge",
            &path,
            r#"{"apiVersion":"","metadata":{"name":"b"}}"#,
            400,
            &["does not match the name on the URL"],
        ),
        (
            "merge",
            &path,
            r#"{"apiVersion":"","metadata":{"namespace":"b"}}"#,
            400,
            &["does not match the namespace"],
        ),
        ("merge", &format!("{path}?fieldValidation=Strict"), r#"{"apiVersion":null,"x":1}"#, 500, &[missing]),
        ("merge", &path, r#"{"apiVersion":"","kind":""}"#, 422, &["Object 'Kind' is missing in"]),
    ])
    .await;
}

/// An update compares the revision before it asks for the type.
#[tokio::test]
async fn a_patch_without_version_is_refused_for_its_revision_first() {
    let path = format!("{THINGS}/a");
    let missing = "Object 'apiVersion' is missing in 'object has no apiVersion field'";
    check(&[
        ("POST", DEFINITIONS, DEFINITION, 201, &[]),
        ("POST", THINGS, THING, 201, &[]),
        ("merge", &path, r#"{"apiVersion":""}"#, 500, &[missing]),
        ("merge", &path, r#"{"apiVersion":"","metadata":{"labels":{"a b":"c"}}}"#, 500, &[missing]),
        (
            "merge",
            &path,
            r#"{"apiVersion":"","metadata":{"resourceVersion":""}}"#,
            422,
            &["must be specified for an update"],
        ),
        (
            "merge",
            &path,
            r#"{"apiVersion":"","metadata":{"resourceVersion":"1"}}"#,
            409,
            &["the object has been modified"],
        ),
        (
            "merge",
            &path,
            r#"{"apiVersion":"","metadata":{"name":"b"}}"#,
            400,
            &["does not match the name on the URL"],
        ),
    ])
    .await;
}

#[tokio::test]
async fn an_apply_without_changes_adds_no_defaults_of_its_version() {
    let version = |name: &str, storage: bool, size: &str| {
        format!(
            r#"{{"name":"{name}","served":true,"storage":{storage},"schema":{{"openAPIV3Schema":{{"type":"object","properties":
            {{"spec":{{"type":"object","properties":{{"size":{{"type":"integer"{size}}},"note":{{"type":"string"}}}}}}}}}}}}}}"#
        )
    };
    let versions = [version("v1", true, ""), version("v2", false, r#","default":7"#)].join(",");
    let definition = format!(
        r#"{{"metadata":{{"name":"things.example.com"}},"spec":{{"group":"example.com","scope":"Namespaced",
        "names":{{"plural":"things","kind":"Thing"}},"versions":[{versions}]}}}}"#
    );
    let path = format!("{THINGS}/a");
    let applied = |note: &str| {
        format!(
            r#"{{"apiVersion":"example.com/v2","kind":"Thing","metadata":{{"name":"a"}},"spec":{{{note}}}}}"#
        )
    };
    let thing =
        r#"{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a"},"spec":{"note":"b"}}"#;
    let newer = format!("{}?fieldManager=m", path.replace("/v1/", "/v2/"));
    check(&[
        ("POST", DEFINITIONS, &definition, 201, &[]),
        ("POST", THINGS, thing, 201, &[r#""generation":1"#]),
        ("apply", &newer, &applied(r#""note":"b""#), 200, &[r#""generation":1"#]),
        ("GET", &path, "", 200, &["!\"size\":7"]),
        ("apply", &newer, &applied(r#""note":"b","size":8"#), 200, &[r#""generation":2"#, r#""size":8"#]),
    ])
    .await;
}
