//! Differences that are known and accepted, with their reasons. `docs/book/src/reference/api-server-differences.md` explains them to users.

use super::comparison::Difference;

/// A known difference.
struct Known {
    reason: &'static str,
    /// Whether it covers a difference in the response to a request, given by verb and resource (`create pods`).
    is: fn(&str, &Difference) -> bool,
}

const KNOWN: [Known; 18] = [
    Known { reason: "the data of a ControllerRevision are compared with its revision", is: is_revision },
    Known { reason: "content of builtin kinds is not validated", is: is_validation },
    Known { reason: "decoding errors name fewer types of Go", is: is_go_type },
    Known { reason: "messages about immutable specs have no diff of Go structs", is: is_go_diff },
    Known { reason: "messages about immutable templates show the fields of the API", is: is_go_struct },
    Known { reason: "syntax errors of YAML have the text of another parser", is: is_yaml_error },
    Known { reason: "a list ends without a token if no further object matches", is: is_continue_token },
    Known { reason: "several objects are converted by one call of a webhook", is: is_conversion_batch },
    Known { reason: "errors of strategic merge patches name fewer types of Go", is: is_strategic_error },
    Known { reason: "errors about undeclared fields are complete", is: is_partial_schema_error },
    Known {
        reason: "an update of a PersistentVolumeClaim without changes is not written",
        is: is_claim_write,
    },
    Known { reason: "an update that starts from a stale cache calls webhooks twice", is: is_retried },
    Known { reason: "versions of builtin kinds share the ownership of fields", is: is_builtin_version },
    Known { reason: "syntax errors of CEL have the text of another parser", is: is_cel_error },
    Known { reason: "empty labels of a template count as absent", is: is_empty_labels },
    Known { reason: "empty lists and maps of a builtin object count as absent", is: is_empty_collection },
    Known { reason: "empty lists and maps of a schema count as absent", is: is_empty_schema },
    Known { reason: "unknown fields of a patched object are sorted", is: is_field_order },
];

/// Returns the reason of a known difference.
pub(crate) fn reason(subject: &str, difference: &Difference) -> Option<&'static str> {
    KNOWN.iter().find(|known| (known.is)(subject, difference)).map(|known| known.reason)
}

fn is_custom(subject: &str) -> bool {
    ["widgets", "gadgets", "sprockets", "customresourcedefinitions"]
        .iter()
        .any(|plural| subject.ends_with(plural))
}

/// Whether a builtin kind lacks a validation. Errors in `metadata` come from rules that all kinds share: they are not accepted.
fn is_validation(subject: &str, difference: &Difference) -> bool {
    // The stages after validation: validating webhooks, and the storage.
    const LATER: [&str; 5] = [
        "already exists",
        "admission webhook ",
        "failed calling webhook ",
        "resulted in error: ",
        "resourceVersion should not be set on objects to be created",
    ];
    let is_later = LATER.iter().any(|stage| difference.ours.contains(stage));
    let is_missing = difference.path == "status"
        && difference.genuine.starts_with("422")
        && !difference.genuine.contains("metadata.")
        && (difference.ours.starts_with("20") || is_later);
    let is_incomplete = difference.path == "causes"
        && difference.ours == "(absent)"
        && !difference.genuine.contains("metadata.");
    !is_custom(subject) && (is_missing || is_incomplete)
}

/// kube-apiserver compares the text of the data as it was sent, with its spaces, which the embedded server does not keep.
fn is_revision(subject: &str, difference: &Difference) -> bool {
    subject.ends_with(" controllerrevisions") && difference.ours.contains("data: Invalid value")
}

/// The OpenAPI documents have neither the names of text types, such as `v1.RestartPolicy`, nor those of embedded structs.
fn is_go_type(_: &str, difference: &Difference) -> bool {
    let decodes = |text: &str| text.contains("cannot unmarshal");
    decodes(&difference.genuine) && decodes(&difference.ours)
}

fn is_go_diff(_: &str, difference: &Difference) -> bool {
    difference.path == "causes"
        && (difference.genuine.contains("\u{a0}") || difference.genuine.contains("@@"))
}

/// A template that may not change is shown as Go's internal struct, with all of its fields.
fn is_go_struct(subject: &str, difference: &Difference) -> bool {
    difference.path == "causes"
        && subject.ends_with(" jobs")
        && difference.genuine.contains("field is immutable")
        && difference.ours.contains("field is immutable")
}

fn is_yaml_error(_: &str, difference: &Difference) -> bool {
    let is_error = |text: &str| text.contains("error converting YAML to JSON: yaml: ");
    is_error(&difference.genuine) && is_error(&difference.ours)
}

fn is_continue_token(subject: &str, difference: &Difference) -> bool {
    subject.starts_with("list ") && difference.path == "$.metadata.continue" && difference.genuine != "\"\""
}

/// The error of a review counts its objects, and names the step that needed them.
fn is_conversion_batch(_: &str, difference: &Difference) -> bool {
    let is_error = |text: &str| text.contains("conversion webhook for ");
    is_error(&difference.genuine) && is_error(&difference.ours)
}

fn is_strategic_error(_: &str, difference: &Difference) -> bool {
    const FORMS: [&str; 5] = [
        "unrecognized type: ",
        "cannot convert ",
        "cannot restore ",
        "parsing time ",
        "but data type is not struct",
    ];
    let is_error =
        |text: &str| FORMS.iter().any(|form| text.contains(form)) || text.contains("illegal base64");
    is_error(&difference.genuine) && is_error(&difference.ours)
}

/// kube-apiserver stops at some point, which depends on the order of a map.
fn is_partial_schema_error(_: &str, difference: &Difference) -> bool {
    let is_error = |text: &str| text.contains("failed to create typed patch object");
    is_error(&difference.genuine) && is_error(&difference.ours)
}

/// The two versions of HorizontalPodAutoscaler have different fields, which each manager owns in its own version.
fn is_builtin_version(subject: &str, difference: &Difference) -> bool {
    subject.ends_with(" horizontalpodautoscalers") && difference.path.contains("managedFields")
}

fn is_claim_write(subject: &str, difference: &Difference) -> bool {
    subject.ends_with(" persistentvolumeclaims") && difference.path == "$.metadata.resourceVersion"
}

/// kube-apiserver begins with the object in its watch cache, and starts again if a newer one is stored.
fn is_retried(_: &str, difference: &Difference) -> bool {
    let calls = |text: &str| text.split(", ").map(str::to_owned).collect::<std::collections::BTreeSet<_>>();
    difference.path == "webhook calls" && calls(&difference.genuine) == calls(&difference.ours)
}

fn is_cel_error(subject: &str, difference: &Difference) -> bool {
    let is_error = |text: &str| text.contains("compilation failed: ERROR: <input>:");
    subject.ends_with("webhookconfigurations")
        && difference.path == "causes"
        && is_error(&difference.genuine)
        && is_error(&difference.ours)
}

/// Go's message shows `{}` for empty labels, and `null` for absent ones.
fn is_empty_labels(_: &str, difference: &Difference) -> bool {
    let why = "`selector` does not match template `labels`";
    let lines = |text: &str| text.lines().filter(|line| !line.contains(why)).count();
    difference.path == "causes"
        && difference.genuine.contains(why)
        && difference.ours.contains(&format!("null: {why}"))
        && lines(&difference.genuine) == lines(&difference.ours)
}

/// kube-apiserver compares NetworkPolicies and webhook configurations with `reflect.DeepEqual` to set their generation. An empty list and
/// a missing list differ in that comparison.
fn is_empty_collection(subject: &str, difference: &Difference) -> bool {
    let compares = subject.ends_with(" networkpolicies") || subject.ends_with("webhookconfigurations");
    compares
        && (difference.path.ends_with(".metadata.generation")
            || difference.path.ends_with(".metadata.resourceVersion"))
}

/// A schema that a message quotes has `null` for its empty lists and maps.
fn is_empty_schema(subject: &str, difference: &Difference) -> bool {
    subject.ends_with(" customresourcedefinitions")
        && difference.path == "causes"
        && difference.genuine.contains("\"AdditionalItems\":null")
}

/// The text of a patched object has the order of Go's fields, and its unknown fields are reported in that order.
fn is_field_order(subject: &str, difference: &Difference) -> bool {
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    subject.starts_with("json-patch ")
        && difference.path == "warnings"
        && difference.genuine.lines().all(|line| line.contains("unknown field "))
        && sorted(&difference.genuine) == sorted(&difference.ours)
}
