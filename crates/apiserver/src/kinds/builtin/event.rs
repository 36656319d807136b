//! Events. Two API groups serve them with different field names; they are stored as Events of `v1`.

use kube_apimachinery::go::quote;
use kube_apimachinery::go_struct::internal_text;
use kube_apimachinery::metadata;
use kube_apimachinery::names;
use kube_apimachinery::status::FieldError;
use serde_json::{Map, Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::immutable_fields::IMMUTABLE;
use crate::kind::resource::Resource;

/// Group with the newer field names.
const NEW_GROUP: &str = "events.k8s.io";

/// Fields with different names in the two versions: the name in `v1`, the name in `events.k8s.io/v1`.
const RENAMED: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

#[derive(Debug)]
pub(super) struct Event;

impl BuiltinKind for Event {
    fn convert_to_storage(&self, resource: &Resource, event: &mut Value) {
        if resource.group == NEW_GROUP {
            to_storage(event);
        }
    }

    fn convert_from_storage(&self, resource: &Resource, event: &mut Value) {
        if resource.group == NEW_GROUP {
            from_storage(event);
        }
    }

    fn validate_before_metadata(&self, resource: &Resource, event: &Value) -> Vec<FieldError> {
        if resource.group == NEW_GROUP { validate_any(resource, event) } else { Vec::new() }
    }

    fn validates_metadata_last(&self, resource: &Resource) -> bool {
        resource.group != NEW_GROUP
    }

    fn validate(&self, resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        match old {
            None if resource.group == NEW_GROUP => of_new_version(new),
            Some(old) if resource.group == NEW_GROUP => {
                let mut errors = validate_any(resource, new);
                // kube-apiserver compares the metadata here, between the rules of both versions and those of the newer one.
                errors.extend(metadata::compare(old, new));
                errors.extend(validate_update(old, new));
                errors
            }
            _ => validate_any(resource, new),
        }
    }

    fn has_dependents(&self) -> bool {
        false
    }
}

/// Converts a stored Event to `events.k8s.io/v1`.
fn from_storage(event: &mut Value) {
    if let Value::Object(fields) = event {
        rename(fields, RENAMED.iter().copied());
        // `v1` always writes these fields. The newer version omits empty ones.
        for key in ["reportingController", "reportingInstance"] {
            if fields.get(key).is_some_and(|value| value == "") {
                fields.remove(key);
            }
        }
    }
}

/// Converts an Event of `events.k8s.io/v1` to the stored version.
fn to_storage(event: &mut Value) {
    if let Value::Object(fields) = event {
        rename(fields, RENAMED.iter().map(|(old, new)| (*new, *old)));
        for key in ["reportingComponent", "reportingInstance"] {
            fields.entry(key).or_insert_with(|| json!(""));
        }
    }
}

fn rename<'a>(fields: &mut Map<String, Value>, names: impl Iterator<Item = (&'a str, &'a str)>) {
    for (from, to) in names {
        if let Some(value) = fields.remove(from) {
            fields.insert(to.to_owned(), value);
        }
    }
}

/// Validates an Event of either version. An `eventTime` marks Events of the newer API, in which more fields are required.
fn validate_any(resource: &Resource, event: &Value) -> Vec<FieldError> {
    let new_api = resource.group == NEW_GROUP;
    let regarding = if new_api { "regarding" } else { "involvedObject" };
    let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (namespace, about) = (text("/metadata/namespace"), text(&format!("/{regarding}/namespace")));
    let mut errors = Vec::new();
    let has_time = has_time(event);
    let fits = match (about, namespace) {
        // An Event about a cluster-scoped object is in the namespace "default"; one with an `eventTime` may also be in "kube-system".
        ("", "" | "default") => true,
        ("", namespace) => has_time && namespace == "kube-system",
        // With an `eventTime`, an Event about a namespaced object may be in any namespace.
        (about, namespace) => has_time || about == namespace,
    };
    if !fits {
        errors.push(FieldError::invalid(
            "involvedObject.namespace",
            &quote(about),
            "does not match event.namespace",
        ));
    }
    if has_time {
        let reporter = if new_api { "reportingController" } else { "reportingComponent" };
        errors.extend(described(event, reporter, if new_api { "note" } else { "message" }));
    }
    errors
}

fn has_time(event: &Value) -> bool {
    event.get("eventTime").is_some_and(|time| !time.is_null())
}

/// Checks that an update of an Event of `events.k8s.io/v1` changes only metadata and series. Errors name the fields as kube-apiserver's
/// internal type does, which mostly follows `v1`.
fn validate_update(old: &Value, new: &Value) -> Vec<FieldError> {
    const OBJECT: &str = "core.ObjectReference";
    let mut errors = Vec::new();
    if old["series"] != new["series"] {
        errors.extend(validate_series(new));
    }
    for (shown, field, kind) in [
        ("involvedObject", "regarding", OBJECT),
        ("reason", "reason", "string"),
        ("message", "note", "string"),
        ("source", "deprecatedSource", "core.EventSource"),
        ("firstTimestamp", "deprecatedFirstTimestamp", "time"),
        ("lastTimestamp", "deprecatedLastTimestamp", "time"),
        ("count", "deprecatedCount", "int"),
        // kube-apiserver compares the reason twice, so a change is reported twice.
        ("reason", "reason", "string"),
        ("type", "type", "string"),
        ("eventTime", "eventTime", "time"),
        ("action", "action", "string"),
        ("related", "related", "*core.ObjectReference"),
        ("reportingController", "reportingController", "string"),
        ("reportingInstance", "reportingInstance", "string"),
    ] {
        let now = internal_text(kind, &new[field]);
        if now != internal_text(kind, &old[field]) {
            errors.push(FieldError::invalid(shown, &now, IMMUTABLE));
        }
    }
    errors
}

fn validate_series(event: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(series) = event.get("series").filter(|series| series.is_object()) {
        if series["count"].as_i64().unwrap_or(0) < 2 {
            errors.push(FieldError::invalid("series.count", "\"\"", "should be at least 2"));
        }
        if series["lastObservedTime"].is_null() {
            errors.push(FieldError::required("series.lastObservedTime", ""));
        }
    }
    errors
}

/// Validates a new Event of `events.k8s.io/v1`: series, time and type. Fields of the older version must be unset.
fn of_new_version(event: &Value) -> Vec<FieldError> {
    let mut errors = validate_series(event);
    if !has_time(event) {
        errors.push(FieldError::required("eventTime", ""));
    }
    let kind = event["type"].as_str().unwrap_or_default();
    if kind != "Normal" && kind != "Warning" {
        // kube-apiserver's errors of this validation show an empty text instead of the value.
        errors.push(FieldError::invalid("type", "\"\"", &format!("has invalid value: {kind}")));
    }
    let source = &event["deprecatedSource"];
    for (field, is_set) in [
        ("firstTimestamp", !event["deprecatedFirstTimestamp"].is_null()),
        ("lastTimestamp", !event["deprecatedLastTimestamp"].is_null()),
        ("count", event["deprecatedCount"].as_i64().unwrap_or(0) != 0),
        (
            "source",
            ["component", "host"]
                .iter()
                .any(|part| source[*part].as_str().is_some_and(|text| !text.is_empty())),
        ),
    ] {
        if is_set {
            errors.push(FieldError::invalid(field, "\"\"", "needs to be unset"));
        }
    }
    errors
}

/// Validates the required reporter, action and reason, and the length of the note.
fn described(event: &Value, reporter: &str, note: &str) -> Vec<FieldError> {
    let text = |field: &str| event.get(field).and_then(Value::as_str).unwrap_or_default();
    let mut errors = Vec::new();
    // The reporter is a qualified name, which has a limit of its own.
    for (field, limit) in
        [(reporter, usize::MAX), ("reportingInstance", 128), ("action", 128), ("reason", 128), (note, 1024)]
    {
        let text = text(field);
        if text.is_empty() && field != note {
            errors.push(FieldError::required(field, ""));
        }
        if text.len() > limit {
            let why = format!("can have at most {limit} characters");
            // Errors use the note's name in `v1`.
            let field = if field == note { "message" } else { field };
            errors.push(FieldError::invalid(field, "\"\"", &why));
        } else if field == reporter {
            let wrong = names::qualified(text).into_iter();
            errors.extend(wrong.map(|why| FieldError::invalid(field, &quote(text), &why)));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn resource(group: &str) -> Arc<Resource> {
        let served = crate::kinds::builtin::served();
        let found =
            served.into_iter().find(|(resource, _)| resource.kind == "Event" && resource.group == group);
        found.unwrap().0
    }

    /// Returns the errors of a new Event in kube-apiserver's order, without those of its metadata.
    fn validate(resource: &Resource, event: &Value) -> Vec<FieldError> {
        let mut errors = BuiltinKind::validate_before_metadata(&Event, resource, event);
        errors.extend(BuiltinKind::validate(&Event, resource, event, None));
        errors
    }

    #[test]
    fn an_event_reads_the_same_after_it_was_stored() {
        let new = json!({
            "metadata": {"name": "e", "namespace": "d"}, "regarding": {"kind": "Pod", "namespace": "d"}, "note": "text",
            "reason": "r", "action": "a", "type": "Normal", "eventTime": "2026-01-01T00:00:00.000000Z",
            "reportingController": "c", "reportingInstance": "i", "deprecatedCount": 2,
        });
        let mut event = new.clone();
        to_storage(&mut event);
        assert_eq!(
            event,
            json!({
                "metadata": {"name": "e", "namespace": "d"}, "involvedObject": {"kind": "Pod", "namespace": "d"},
                "message": "text", "reason": "r", "action": "a", "type": "Normal",
                "eventTime": "2026-01-01T00:00:00.000000Z", "reportingComponent": "c", "reportingInstance": "i",
                "count": 2,
            })
        );
        from_storage(&mut event);
        assert_eq!(event, new);
    }

    #[test]
    fn an_event_is_in_the_namespace_of_its_object() {
        for (namespace, about, fits) in
            [("a", "a", true), ("a", "b", false), ("default", "", true), ("a", "", false)]
        {
            let event = json!({"metadata": {"namespace": namespace}, "involvedObject": {"namespace": about}});
            assert_eq!(validate(&resource(""), &event).is_empty(), fits, "{namespace} {about}");
        }
    }

    /// Recorded from kube-apiserver v1.36.3.
    #[test]
    fn only_the_series_of_an_event_changes() {
        let old = json!({
            "metadata": {"namespace": "d"}, "regarding": {"kind": "Pod", "namespace": "d", "name": "p"}, "note": "text", "reason": "r",
            "action": "a", "type": "Normal", "eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "c", "reportingInstance": "i",
        });
        let check = |changes: Value, expected: &[&str]| {
            let mut new = old.clone();
            for (field, value) in changes.as_object().unwrap() {
                new[field] = value.clone();
            }
            let errors = validate_update(&old, &new);
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            assert_eq!(errors, expected, "{changes}");
        };
        check(json!({"metadata": {"labels": {"a": "b"}}}), &[]);
        check(json!({"series": {"count": 3, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}}), &[]);
        check(
            json!({"series": {"count": 1}}),
            &[
                "series.count: Invalid value: \"\": should be at least 2",
                "series.lastObservedTime: Required value",
            ],
        );
        check(
            json!({"note": null, "reason": "q", "type": "Warning"}),
            &[
                "reason: Invalid value: \"q\": field is immutable",
                "message: Invalid value: \"\": field is immutable",
                "reason: Invalid value: \"q\": field is immutable",
                "type: Invalid value: \"Warning\": field is immutable",
            ],
        );
        check(
            json!({
                "regarding": {"kind": "Pod", "namespace": "d", "name": "q"}, "related": {"kind": "X", "name": "y"},
                "deprecatedSource": {"host": "h"}, "deprecatedCount": 5, "deprecatedLastTimestamp": "2026-01-01T00:00:00Z",
            }),
            &[
                r#"involvedObject: Invalid value: {"Kind":"Pod","Namespace":"d","Name":"q","UID":"","APIVersion":"","ResourceVersion":"","FieldPath":""}: field is immutable"#,
                r#"source: Invalid value: {"Component":"","Host":"h"}: field is immutable"#,
                "lastTimestamp: Invalid value: \"2026-01-01T00:00:00Z\": field is immutable",
                "count: Invalid value: 5: field is immutable",
                r#"related: Invalid value: {"Kind":"X","Namespace":"","Name":"y","UID":"","APIVersion":"","ResourceVersion":"","FieldPath":""}: field is immutable"#,
            ],
        );
    }

    #[test]
    fn a_new_event_must_have_a_time() {
        let mut event = json!({
            "metadata": {"namespace": "d"}, "regarding": {"namespace": "d"}, "type": "Odd", "reason": "r".repeat(129),
            "deprecatedCount": 1,
        });
        let errors = validate(&resource("events.k8s.io"), &event);
        let shown: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            [
                "eventTime: Required value",
                "type: Invalid value: \"\": has invalid value: Odd",
                "count: Invalid value: \"\": needs to be unset",
            ]
        );
        to_storage(&mut event);
        assert!(validate(&resource(""), &event).is_empty());
    }

    #[test]
    fn an_event_with_a_time_must_have_reporter_action_and_reason() {
        let event = json!({
            "metadata": {"namespace": "kube-system"}, "reason": "r".repeat(129), "type": "Normal",
            "eventTime": "2026-01-01T00:00:00.000000Z", "series": {"count": 1}, "deprecatedSource": {"host": "h"},
        });
        let errors = validate(&resource("events.k8s.io"), &event);
        let shown: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            [
                "reportingController: Required value",
                "reportingController: Invalid value: \"\": name part must be non-empty",
                "reportingController: Invalid value: \"\": name part must consist of alphanumeric characters, '-', '_' or '.', \
                 and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex \
                 used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
                "reportingInstance: Required value",
                "action: Required value",
                "reason: Invalid value: \"\": can have at most 128 characters",
                "series.count: Invalid value: \"\": should be at least 2",
                "series.lastObservedTime: Required value",
                "source: Invalid value: \"\": needs to be unset",
            ]
        );
    }

    #[test]
    fn the_reporter_has_a_qualified_name_and_the_note_is_short() {
        let event = json!({
            "metadata": {"namespace": "d"}, "regarding": {"namespace": "d"}, "type": "Normal", "reason": "r",
            "action": "a", "eventTime": "2026-01-01T00:00:00.000000Z", "reportingInstance": "i",
            "reportingController": format!("example.com/{}", "c".repeat(64)), "note": "n".repeat(1025),
        });
        let shown = |event: &Value| -> Vec<String> {
            validate(&resource("events.k8s.io"), event).iter().map(ToString::to_string).collect()
        };
        let reporter = format!("reportingController: Invalid value: \"example.com/{}\"", "c".repeat(64));
        assert_eq!(
            shown(&event),
            [
                format!("{reporter}: name part must be no more than 63 bytes"),
                "message: Invalid value: \"\": can have at most 1024 characters".to_owned(),
            ]
        );
        let mut fits = event;
        fits["note"] = json!("n".repeat(1024));
        fits["reportingController"] = json!(format!("example.com/{}", "c".repeat(63)));
        assert_eq!(shown(&fits), [""; 0]);
    }
}
