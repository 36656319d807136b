//! Planted and harmless changes of one definition; generated schemas are in `generated`.

#[cfg(feature = "schema")]
mod generated;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;

/// A definition with each keyword at least once; the schema of `spec` is in `guestbook.json`.
fn base() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "guestbooks.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {
                "kind": "Guestbook", "plural": "guestbooks", "singular": "guestbook",
                "shortNames": ["gb"], "categories": ["all"],
            },
            "versions": [version("v1", true), version("v1alpha1", false), version("v1beta1", false)],
        },
        "status": {"storedVersions": ["v1beta1", "v1"]},
    })
}

fn version(name: &str, storage: bool) -> Value {
    let spec: Value = serde_json::from_str(include_str!("guestbook.json")).expect("JSON");
    json!({
        "name": name, "served": true, "storage": storage,
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
        },
        "selectableFields": [{"jsonPath": ".spec.theme"}],
        "additionalPrinterColumns": [{"name": "Theme", "type": "string", "jsonPath": ".spec.theme"}],
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
    })
}

/// An edit of [`base`]: the place, and the new value; `-` removes it. A place that begins with `/` is in the definition, another one in
/// the fields of `spec` of `v1`, where `theme pattern` is a keyword of `theme`.
struct Edit<'e>(&'e str, &'e str);

fn edited(Edit(place, value): &Edit<'_>) -> Value {
    let mut definition = base();
    let pointer = if place.starts_with('/') {
        (*place).to_owned()
    } else {
        format!(
            "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/{}",
            place.replace(' ', "/")
        )
    };
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer has a slash");
    let parent = definition.pointer_mut(parent).unwrap_or_else(|| panic!("{place} is in the definition"));
    let value: Option<Value> = (*value != "-").then(|| serde_json::from_str(value).expect("JSON"));
    match (parent, value) {
        (Value::Array(items), None) => drop(items.remove(key.parse::<usize>().expect("an index"))),
        (Value::Array(items), Some(value)) => items[key.parse::<usize>().expect("an index")] = value,
        (Value::Object(fields), None) => {
            fields.remove(key).unwrap_or_else(|| panic!("{place} was there"));
        }
        (Value::Object(fields), Some(value)) => drop(fields.insert(key.to_owned(), value)),
        (other, _) => panic!("{place}: {other} has no fields"),
    }
    definition
}

const PROPERTIES: &str = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";

/// Edits that break objects or clients, with rule and path of the expected error.
const BREAKING: [(&str, &str, &str); 70] = [
    ("/spec/scope", r#""Cluster""#, "scope-changed spec.scope"),
    ("/spec/group", r#""example.org""#, "kind-changed spec.group"),
    ("/spec/names/kind", r#""Book""#, "kind-changed spec.names.kind"),
    ("/spec/names/plural", r#""books""#, "kind-changed spec.names.plural"),
    ("/spec/versions/0", "-", "stored-version-removed the version"),
    ("/spec/versions/1", "-", "version-removed the version"),
    ("/spec/versions/2", "-", "stored-version-removed the version"),
    ("/spec/versions/1/served", "false", "version-removed the version"),
    ("/spec/versions/0/served", "false", "version-removed the version"),
    ("/spec/versions/0/name", r#""v2""#, "stored-version-removed the version"),
    ("/spec/versions/0/subresources/status", "-", "subresource-removed subresources.status"),
    ("/spec/versions/0/subresources/scale", "-", "subresource-removed subresources.scale"),
    ("/spec/versions/0/subresources", "-", "subresource-removed subresources.status"),
    (
        "/spec/versions/0/subresources/scale/specReplicasPath",
        r#"".spec.size""#,
        "subresource-changed subresources.scale.specReplicasPath",
    ),
    ("/spec/versions/0/selectableFields", "-", "selectable-field-removed selectableFields"),
    (
        "/spec/versions/0/selectableFields",
        r#"[{"jsonPath": ".spec.color"}]"#,
        "selectable-field-removed selectableFields",
    ),
    ("theme", "-", "field-removed .spec.theme"),
    ("place properties street", "-", "field-removed .spec.place.street"),
    ("place properties", "-", "field-removed .spec.place.city"),
    ("members items properties role", "-", "field-removed .spec.members[*].role"),
    ("labels additionalProperties", "-", "field-removed .spec.labels.*"),
    ("extra x-kubernetes-preserve-unknown-fields", "-", "field-removed .spec.extra"),
    ("/spec/versions/0/schema/openAPIV3Schema/properties/spec", "-", "field-removed .spec"),
    ("extra properties", r#"{"a": {"type": "string"}}"#, "open-field-restricted .spec.extra.a"),
    ("extra additionalProperties", r#"{"type": "string"}"#, "open-field-restricted .spec.extra.*"),
    ("theme type", r#""integer""#, "type-changed .spec.theme"),
    ("size type", r#""number""#, "type-changed .spec.size"),
    ("size type", r#""string""#, "type-changed .spec.size"),
    ("ratio type", r#""integer""#, "type-changed .spec.ratio"),
    ("port", r#"{"type": "integer"}"#, "type-changed .spec.port"),
    ("replicas", r#"{"x-kubernetes-int-or-string": true, "default": 1}"#, "type-changed .spec.replicas"),
    ("lines", r#"{"type": "string"}"#, "type-changed .spec.lines"),
    ("lines items type", r#""integer""#, "type-changed .spec.lines[*]"),
    ("labels additionalProperties type", r#""integer""#, "type-changed .spec.labels.*"),
    ("pod x-kubernetes-embedded-resource", "-", "type-changed .spec.pod"),
    ("extra x-kubernetes-embedded-resource", "true", "type-changed .spec.extra"),
    ("open", r#"{"type": "string"}"#, "type-changed .spec.open"),
    ("theme format", r#""email""#, "format-changed .spec.theme"),
    ("since format", r#""date""#, "format-changed .spec.since"),
    ("place required", r#"["street"]"#, "required-added .spec.place.street"),
    ("members items required", r#"["name", "role"]"#, "required-added .spec.members[*].role"),
    (
        "/spec/versions/0/schema/openAPIV3Schema/properties/spec/required",
        r#"["theme", "color"]"#,
        "required-added .spec.color",
    ),
    ("/spec/versions/0/schema/openAPIV3Schema/required", r#"["spec"]"#, "required-added .spec"),
    ("note enum", r#"["a", "b"]"#, "enum-added .spec.note"),
    ("members items properties role enum", r#"["host"]"#, "enum-added .spec.members[*].role"),
    ("color enum", r#"["red", "green"]"#, "enum-value-removed .spec.color"),
    ("color enum", r#"["red", "green", "cyan"]"#, "enum-value-removed .spec.color"),
    ("note maxLength", "10", "maximum-added .spec.note"),
    ("replicas maximum", "100", "maximum-added .spec.replicas"),
    ("lines maxItems", "100", "maximum-added .spec.lines"),
    ("extra maxProperties", "100", "maximum-added .spec.extra"),
    ("theme maxLength", "19", "maximum-lowered .spec.theme"),
    ("size maximum", "9", "maximum-lowered .spec.size"),
    ("size exclusiveMaximum", "true", "maximum-lowered .spec.size"),
    ("members maxItems", "4", "maximum-lowered .spec.members"),
    ("labels maxProperties", "9", "maximum-lowered .spec.labels"),
    ("labels additionalProperties maxLength", "62", "maximum-lowered .spec.labels.*"),
    ("note minLength", "1", "minimum-added .spec.note"),
    ("replicas minimum", "0", "minimum-added .spec.replicas"),
    ("theme minLength", "3", "minimum-raised .spec.theme"),
    ("size minimum", "2", "minimum-raised .spec.size"),
    ("members minItems", "2", "minimum-raised .spec.members"),
    ("labels minProperties", "2", "minimum-raised .spec.labels"),
    ("size multipleOf", "2", "multiple-of-changed .spec.size"),
    ("step multipleOf", "8", "multiple-of-changed .spec.step"),
    ("note pattern", r#""^x""#, "pattern-added .spec.note"),
    ("theme pattern", r#""^[a-y]+$""#, "pattern-changed .spec.theme"),
    ("note nullable", "-", "nullable-removed .spec.note"),
    ("replicas default", "2", "default-changed .spec.replicas"),
    ("replicas default", "-", "default-removed .spec.replicas"),
];

/// More edits that break objects or clients: merging, compositions, and defaults that count.
const BREAKING_MERGES: [(&str, &str, &str); 19] = [
    ("lines x-kubernetes-list-type", r#""set""#, "list-type-changed .spec.lines"),
    ("tags x-kubernetes-list-type", "-", "list-type-changed .spec.tags"),
    ("tags x-kubernetes-list-type", r#""atomic""#, "list-type-changed .spec.tags"),
    ("members x-kubernetes-list-type", r#""atomic""#, "list-type-changed .spec.members"),
    ("members x-kubernetes-list-map-keys", r#"["name", "role"]"#, "list-type-changed .spec.members"),
    ("place x-kubernetes-map-type", "-", "list-type-changed .spec.place"),
    ("labels x-kubernetes-map-type", r#""atomic""#, "list-type-changed .spec.labels"),
    ("note anyOf", r#"[{"maxLength": 3}, {"minLength": 9}]"#, "composition-changed .spec.note"),
    ("note not", r#"{"enum": ["x"]}"#, "composition-changed .spec.note"),
    ("either anyOf/0", "-", "composition-changed .spec.either"),
    ("either oneOf/0", "-", "composition-changed .spec.either"),
    ("either oneOf/1", r#"{"required": ["z"]}"#, "composition-changed .spec.either"),
    ("either allOf/1", r#"{"required": ["z"]}"#, "composition-changed .spec.either"),
    ("either not", r#"{"required": ["y"]}"#, "composition-changed .spec.either"),
    ("either properties x default", r#""a""#, "default-added .spec.either.x"),
    ("place properties street default", r#""a""#, "default-added .spec.place.street"),
    ("pairs items properties a default", r#""a""#, "default-added .spec.pairs[*].a"),
    (
        "labels",
        r#"{"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {"type": "string", "maxLength": 5}}}"#,
        "maximum-lowered .spec.labels.a",
    ),
    ("place properties zip", r#"{"type": "string", "default": "a"}"#, "default-added .spec.place.zip"),
];

/// Edits that break nothing, with rule and path of the expected warning, if there is one.
const HARMLESS: [(&str, &str, &str); 67] = [
    ("/spec/names/shortNames", "[]", "short-name-removed spec.names.shortNames"),
    ("/spec/names/shortNames", r#"["gb", "book"]"#, ""),
    ("/spec/names/categories", "[]", "category-removed spec.names.categories"),
    ("/spec/names/categories", r#"["all", "books"]"#, ""),
    ("/spec/names/singular", r#""book""#, ""),
    ("/spec/names/listKind", r#""GuestbookList""#, ""),
    ("/metadata/labels", r#"{"a": "b"}"#, ""),
    ("/metadata/annotations", r#"{"a": "b"}"#, ""),
    ("/status", "-", ""),
    ("/spec/conversion", r#"{"strategy": "None"}"#, ""),
    ("/spec/versions/0/deprecated", "true", ""),
    ("/spec/versions/1/deprecated", "true", ""),
    ("/spec/versions/0/deprecationWarning", r#""use v2""#, ""),
    ("/spec/versions/0/storage", "false", ""),
    ("/spec/versions/0/additionalPrinterColumns", "[]", "printer-column-removed additionalPrinterColumns"),
    ("/spec/versions/0/additionalPrinterColumns/0/priority", "1", ""),
    ("/spec/versions/0/additionalPrinterColumns/0/jsonPath", r#"".spec.color""#, ""),
    (
        "/spec/versions/0/selectableFields",
        r#"[{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.theme"}]"#,
        "",
    ),
    ("/spec/versions/0/subresources/scale/labelSelectorPath", r#"".status.selector""#, ""),
    ("/spec/versions/0/schema/openAPIV3Schema/description", r#""A book of guests""#, ""),
    ("/spec/versions/0/schema/openAPIV3Schema/properties/spec/required", "-", ""),
    ("/spec/versions/0/schema/openAPIV3Schema/properties/spec/required", r#"["theme", "replicas"]"#, ""),
    ("/spec/versions/0/schema/openAPIV3Schema/properties/spec/x-kubernetes-validations", "-", ""),
    (
        "/spec/versions/0/schema/openAPIV3Schema/properties/spec/x-kubernetes-validations/0/message",
        r#""too large""#,
        "",
    ),
    (
        "/spec/versions/0/schema/openAPIV3Schema/properties/spec/x-kubernetes-validations/0/rule",
        r#""self.size <= 9""#,
        "cel-added .spec",
    ),
    ("/spec/versions/0/schema/openAPIV3Schema/properties/status", r#"{"type": "object"}"#, ""),
    ("theme description", r#""The theme""#, ""),
    ("theme title", r#""Theme""#, ""),
    ("theme example", r#""roses""#, ""),
    ("theme minLength", "1", ""),
    ("theme minLength", "-", ""),
    ("theme maxLength", "21", ""),
    ("theme maxLength", "-", ""),
    ("theme pattern", "-", "pattern-removed .spec.theme"),
    ("theme default", r#""roses""#, "default-added .spec.theme"),
    ("theme nullable", "true", "nullable-added .spec.theme"),
    ("color enum", r#"["blue", "red", "green"]"#, ""),
    ("color enum", r#"["red", "green", "blue", "cyan"]"#, "enum-value-added .spec.color"),
    ("color enum", "-", "enum-removed .spec.color"),
    ("note minLength", "0", ""),
    ("size minimum", "0", ""),
    ("size minimum", "-", ""),
    ("size maximum", "11", ""),
    ("size format", r#""int64""#, ""),
    ("size format", "-", ""),
    ("ratio exclusiveMinimum", "-", ""),
    ("ratio format", r#""double""#, ""),
    ("since format", "-", ""),
    ("step multipleOf", "2", ""),
    ("step multipleOf", "-", ""),
    ("members minItems", "0", ""),
    ("members maxItems", "-", ""),
    ("members items required", "-", ""),
    ("members items properties email", r#"{"type": "string", "default": "none"}"#, ""),
    ("lines x-kubernetes-list-type", r#""atomic""#, ""),
    ("labels x-kubernetes-map-type", r#""granular""#, ""),
    ("labels maxProperties", "11", ""),
    ("labels additionalProperties maxLength", "-", ""),
    ("extra properties", r#"{"any": {"nullable": true, "x-kubernetes-preserve-unknown-fields": true}}"#, ""),
    ("place properties zip", r#"{"type": "string", "maxLength": 5}"#, ""),
    ("place x-kubernetes-preserve-unknown-fields", "true", ""),
    (
        "place",
        r#"{"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}}"#,
        "",
    ),
    ("either anyOf", "-", ""),
    ("either allOf/0", "-", ""),
    ("either not", "-", ""),
    (
        "garden",
        r#"{"type": "object", "required": ["a"], "properties": {"a": {"type": "string", "enum": ["x"]}}}"#,
        "",
    ),
    ("seats", r#"{"type": "integer", "minimum": 1, "default": 4}"#, ""),
];

/// Returns rule and path of the changes of a level.
fn found(changes: &[Change], level: Level) -> Vec<String> {
    let found = changes.iter().filter(|change| change.level == level);
    found.map(|change| format!("{} {}", change.rule, change.path)).collect()
}

#[test]
fn planted_changes_are_errors() {
    let rows = BREAKING.iter().chain(&BREAKING_MERGES);
    for (place, value, expected) in rows {
        let errors = found(&compare(&base(), &edited(&Edit(place, value))), Level::Error);
        assert!(errors.contains(&(*expected).to_owned()), "{place} = {value}: {errors:?}");
    }
}

#[test]
fn harmless_changes_cause_no_errors() {
    for (place, value, expected) in HARMLESS {
        let changes = compare(&base(), &edited(&Edit(place, value)));
        let (errors, warnings) = (found(&changes, Level::Error), found(&changes, Level::Warning));
        assert_eq!(
            (errors.as_slice(), warnings.join(", ").as_str()),
            ([].as_slice(), expected),
            "{place} = {value}"
        );
    }
}

#[test]
fn each_rule_about_changes_is_in_a_table() {
    let rows = BREAKING.iter().chain(&BREAKING_MERGES).chain(&HARMLESS);
    let named: BTreeSet<&str> = rows.filter_map(|(_, _, expected)| expected.split(' ').next()).collect();
    // Other tests cover removed definitions, a new status, and style.
    let others = [Rule::DefinitionRemoved, Rule::SubresourceAdded];
    for rule in Rule::ALL.iter().filter(|rule| rule.level() != Level::Style && !others.contains(rule)) {
        assert!(named.contains(rule.as_str()), "{rule} is in no row");
    }
}

#[test]
fn a_definition_equals_itself() {
    assert_eq!(compare(&base(), &base()), []);
}

#[test]
fn a_status_that_becomes_a_subresource_is_a_warning() {
    let old = edited(&Edit("/spec/versions/0/subresources/status", "-"));
    let changes = compare(&old, &base());
    assert_eq!(found(&changes, Level::Warning), ["subresource-added subresources.status"]);
    assert_eq!(found(&changes, Level::Error), [""; 0]);
}

#[test]
fn a_definition_that_is_gone_is_an_error_and_a_new_one_is_not() {
    let other = edited(&Edit("/metadata/name", r#""photos.example.com""#));
    let deployment = json!({"kind": "Deployment", "metadata": {"name": "guestbooks.example.com"}});
    let changes = compare_all([&base(), &deployment], [&other]);
    assert_eq!(found(&changes, Level::Error), ["definition-removed the definition"]);
    assert_eq!(compare_all([&base()], [&deployment, &base()]), []);
}

#[test]
fn new_fields_have_style_and_old_ones_are_exempt() {
    let old = edited(&Edit(PROPERTIES, "{}"));
    let style = found(&compare(&old, &base()), Level::Style);
    assert_eq!(style, ["lists-have-type .spec.lines", "no-bools .spec.open", "no-floats .spec.ratio"]);
    let fields = r#"{
        "conditions": {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "atomic"},
        "count": {"type": "integer", "format": "uint32"},
        "rooms": {"type": "object", "additionalProperties": {"type": "object"}}
    }"#;
    let style = found(&compare(&old, &edited(&Edit(PROPERTIES, fields))), Level::Style);
    let expected =
        ["conditions-have-map-key .spec.conditions", "no-unsigned .spec.count", "no-maps .spec.rooms"];
    assert_eq!(style, expected);
    let without_status = edited(&Edit("/spec/versions/0/subresources", "-"));
    let style = found(&compare_all([], [&without_status]), Level::Style);
    assert!(style.contains(&"must-have-status the version".to_owned()), "{style:?}");
}

#[test]
fn paths_quote_names_with_other_characters() {
    let edit = |value| edited(&Edit("place properties", value));
    let changes = compare(&edit(r#"{"a.b/c": {"type": "string"}}"#), &edit("{}"));
    assert_eq!(found(&changes, Level::Error), [r#"field-removed .spec.place["a.b/c"]"#]);
}

#[test]
fn exceptions_allow_a_change_with_a_reason_until_a_version() {
    let changes = || compare(&base(), &edited(&Edit("theme", "-")));
    let exceptions = |at: &str, rule: &str, until: Value| {
        let list = json!([{"at": at, "rule": rule, "reason": "never released", "until": until}]);
        Exceptions::parse(&list).expect("an exception")
    };
    let judge = |exceptions: Exceptions, version: &str| {
        let judgement = exceptions.judge(changes(), version);
        let errors = judgement.changes.iter().filter(|change| change.rule == Rule::FieldRemoved).count();
        (errors, judgement.allowed.len(), judgement.unused.len())
    };
    let place = "guestbooks/v1 .spec.theme";
    assert_eq!(judge(exceptions(place, "field-removed", Value::Null), "0.3.1"), (0, 1, 0));
    assert_eq!(
        judge(exceptions("guestbooks.example.com/v1 .spec.theme", "field-removed", Value::Null), "1"),
        (0, 1, 0)
    );
    assert_eq!(judge(exceptions(place, "field-removed", json!("0.4")), "0.3.99"), (0, 1, 0));
    assert_eq!(judge(exceptions(place, "field-removed", json!("0.4")), "0.4.0"), (1, 0, 0));
    assert_eq!(judge(exceptions(place, "type-changed", Value::Null), "0.3.1"), (1, 0, 1));
    assert_eq!(
        judge(exceptions("guestbooks/v2 .spec.theme", "field-removed", Value::Null), "0.3.1"),
        (1, 0, 1)
    );
    let expired = exceptions(place, "field-removed", json!("0.4")).judge(changes(), "0.4.0").changes;
    let text = expired.iter().map(ToString::to_string).find(|text| text.contains("field-removed"));
    assert!(text.expect("an error").ends_with("Keep it. It was allowed until 0.4 (never released)"));
}

#[test]
fn exceptions_without_a_reason_or_a_known_rule_are_refused() {
    for (exception, expected) in [
        (json!({"at": "a/v1 .b", "rule": "field-gone", "reason": "x"}), "there is no rule \"field-gone\""),
        (json!({"at": "a/v1 .b", "rule": "field-removed", "reason": " "}), "give a reason"),
        (json!({"at": "a/v1 .b", "rule": "field-removed"}), "missing field `reason`"),
        (json!({"at": "a", "rule": "field-removed", "reason": "x"}), "give definition and path"),
        (json!({"at": "a b", "rule": "field-removed", "reason": "x", "until": "soon"}), "such as 0.4"),
        (json!({"at": "a b", "rule": "field-removed", "reason": "x", "since": "1"}), "unknown field `since`"),
    ] {
        let error = Exceptions::parse(&json!([exception])).expect_err("a faulty exception").to_string();
        assert!(error.contains(expected), "{error}");
    }
}
