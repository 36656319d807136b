//! Differences that are known and accepted, with their reasons. `docs/book/src/reference/api-server-differences.md` explains them to users.

use super::comparison::Difference;

/// A known difference.
struct Known {
    reason: &'static str,
    /// Whether it covers a difference in the response to a request, given by verb and resource (`create pods`).
    is: fn(&str, &Difference) -> bool,
}

const KNOWN: [Known; 4] = [
    Known { reason: "the data of a ControllerRevision are compared with its revision", is: is_revision },
    Known { reason: "content of builtin kinds is not validated", is: is_validation },
    Known { reason: "decoding errors name fewer types of Go", is: is_go_type },
    Known { reason: "messages about immutable specs have no diff of Go structs", is: is_go_diff },
];

/// Returns the reason of a known difference.
pub(crate) fn reason(subject: &str, difference: &Difference) -> Option<&'static str> {
    KNOWN.iter().find(|known| (known.is)(subject, difference)).map(|known| known.reason)
}

fn is_custom(subject: &str) -> bool {
    ["widgets", "gadgets", "customresourcedefinitions"].iter().any(|plural| subject.ends_with(plural))
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
    difference.path == "causes" && difference.genuine.contains("\u{a0}")
}
