//! Differences that are known and accepted, with their reasons. `docs/book/src/reference/api-server-differences.md` explains them to users.

use super::comparison::Difference;

/// A known difference.
struct Known {
    reason: &'static str,
    /// Whether it covers a difference in the response to a request, given by verb and resource (`create pods`).
    is: fn(&str, &Difference) -> bool,
}

const KNOWN: [Known; 15] = [
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
        reason: "a wrong kind of a custom object is reported before its absence",
        is: is_early_kind_error,
    },
    Known {
        reason: "an update of a PersistentVolumeClaim without changes is not written",
        is: is_claim_write,
    },
    Known { reason: "an update that starts from a stale cache calls webhooks twice", is: is_retried },
    Known { reason: "a field of a builtin object that becomes null has no owner", is: is_null_field },
    Known { reason: "versions of builtin kinds share the ownership of fields", is: is_builtin_version },
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
    let is_about_content = !difference.genuine.contains("metadata.") && difference.ours != "(absent)";
    let is_missing = difference.path == "status"
        && difference.genuine.starts_with("422")
        && (difference.ours.starts_with("20") || difference.ours.ends_with("already exists"))
        && is_about_content;
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

fn is_early_kind_error(subject: &str, difference: &Difference) -> bool {
    is_custom(subject)
        && difference.path == "status"
        && difference.genuine.starts_with("404")
        && difference.ours.contains("is invalid: kind: Invalid value")
}

fn is_claim_write(subject: &str, difference: &Difference) -> bool {
    subject.ends_with(" persistentvolumeclaims") && difference.path == "$.metadata.resourceVersion"
}

/// kube-apiserver begins with the object in its watch cache, and starts again if a newer one is stored.
fn is_retried(_: &str, difference: &Difference) -> bool {
    let calls = |text: &str| text.split(", ").map(str::to_owned).collect::<std::collections::BTreeSet<_>>();
    difference.path == "webhook calls" && calls(&difference.genuine) == calls(&difference.ours)
}

/// Fields that Go writes even if they are null.
fn is_null_field(subject: &str, difference: &Difference) -> bool {
    !is_custom(subject)
        && [".fieldsV1.f:rules", ".fieldsV1.f:ports"].iter().any(|field| difference.path.ends_with(field))
        && difference.ours == "(absent)"
}
