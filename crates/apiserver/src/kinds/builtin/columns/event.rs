//! Columns of Events. Two API groups serve Events with different field names, so cells look at both names.

use jiff::Timestamp;
use kube_apimachinery::table::Column;
use kube_apimachinery::table::age::since_text;
use kube_apimachinery::table::name_column;
use serde_json::{Value, json};

use super::{first_text, number, string, text, text_at, wide};

/// Returns the columns of Events. Unlike for other kinds, the name is the last column, and only shown in wide tables.
pub(super) fn event() -> Vec<Column> {
    vec![
        string(
            "Last Seen",
            "The time at which the most recent occurrence of this event was recorded.",
            |event, now| json!(last_seen(event, now)),
        ),
        string(
            "Type",
            "Type of this event (Normal, Warning), new types could be added in the future",
            |event, _| text(event, "/type"),
        ),
        string(
            "Reason",
            "This should be a short, machine understandable string that gives the reason for the transition into the \
             object's current status.",
            |event, _| text(event, "/reason"),
        ),
        string("Object", "The object that this event is about.", |event, _| {
            // `v1` always has `involvedObject`, even if it is empty, and the newer version always has `regarding`.
            let regarding =
                &event[if event.get("regarding").is_some() { "regarding" } else { "involvedObject" }];
            let kind = regarding["kind"].as_str().unwrap_or_default().to_lowercase();
            json!(match regarding["name"].as_str().unwrap_or_default() {
                "" => kind,
                name => format!("{kind}/{name}"),
            })
        }),
        wide(
            "Subobject",
            "If referring to a piece of an object instead of an entire object, this string should contain a valid \
             JSON/Go field access statement, such as desiredState.manifest.containers[2]. For example, if the object \
             reference is to a container within a pod, this would take on a value like: \"spec.containers{name}\" \
             (where \"name\" refers to the name of the container that triggered the event) or if no container name is \
             specified \"spec.containers[2]\" (container with index 2 in this pod). This syntax is chosen only to have \
             some well-defined way of referencing a part of an object.",
            |event, _| first_text(event, &["/involvedObject/fieldPath", "/regarding/fieldPath"]),
        ),
        wide(
            "Source",
            "The component reporting this event. Should be a short machine understandable string.",
            |event, _| {
                let component = [
                    "/source/component",
                    "/deprecatedSource/component",
                    "/reportingComponent",
                    "/reportingController",
                ];
                let host = ["/source/host", "/deprecatedSource/host", "/reportingInstance"];
                let (component, host) = (first_text(event, &component), first_text(event, &host));
                let (component, host) =
                    (component.as_str().unwrap_or_default(), host.as_str().unwrap_or_default());
                json!(if host.is_empty() { component.to_owned() } else { format!("{component}, {host}") })
            },
        ),
        string("Message", "A human-readable description of the status of this operation.", |event, _| {
            let message = first_text(event, &["/message", "/note"]);
            json!(message.as_str().unwrap_or_default().trim())
        }),
        wide(
            "First Seen",
            "The time at which the event was first recorded. (Time of server receipt is in TypeMeta.)",
            |event, now| json!(first_seen(event, now)),
        ),
        wide("Count", "The number of times this event has occurred.", |event, _| {
            let count = if event["series"].is_object() {
                number(event, "/series/count")
            } else {
                // An Event of `events.k8s.io` without a series has no count, but has occurred once.
                number(event, "/count").max(number(event, "/deprecatedCount")).max(1)
            };
            json!(count)
        }),
        Column { priority: 1, ..name_column() },
    ]
}

fn first_seen(event: &Value, now: Timestamp) -> String {
    // Events that were created through the newer version have only `eventTime`.
    let time = first_text(event, &["/firstTimestamp", "/deprecatedFirstTimestamp", "/eventTime"]);
    since_text(time.as_str(), now)
}

fn last_seen(event: &Value, now: Timestamp) -> String {
    if event["series"].is_object() {
        // A repetition updates only the series. The other times remain those of the first occurrence.
        return since_text(text_at(event, "/series/lastObservedTime"), now);
    }
    match first_text(event, &["/lastTimestamp", "/deprecatedLastTimestamp"]).as_str() {
        None | Some("") => first_seen(event, now),
        time => since_text(time, now),
    }
}
