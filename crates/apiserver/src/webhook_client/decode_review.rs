//! Decoding of reviews from webhooks, with the errors of kube-apiserver's decoder.

use kube_apimachinery::decode;
use kube_apimachinery::go::{json_type, quote};
use kube_apimachinery::yaml;
use serde_json::Value;

/// Maximum size of a review in YAML, equal to that of a request body.
const YAML_LIMIT: usize = 3 << 20;
/// Versions of a review that the decoder knows.
const VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// Decodes a review of `api_version` and `kind`, in JSON or YAML. A body without a type is accepted, and its type stays empty.
///
/// # Errors
/// The text of the decoder's error.
pub(crate) fn decode(body: &[u8], api_version: &str, kind: &str) -> Result<Value, String> {
    let interpret = |why: String| format!("couldn't get version/kind; json parse error: {why}");
    let is_json = body.trim_ascii_start().starts_with(b"{");
    let review = if is_json { decode::json(body).map_err(interpret)? } else { read_yaml(body)? }.value;
    if !review.is_object() && !review.is_null() {
        return Err(interpret(wrong_type(
            &review,
            "value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \
             \"json:\\\"kind,omitempty\\\"\" }",
        )));
    }
    let [found_version, found_kind] = ["apiVersion", "kind"].map(|field| &review[field]);
    for (value, field) in [(found_version, "apiVersion"), (found_kind, "kind")] {
        if !value.is_null() && !value.is_string() {
            return Err(interpret(wrong_type(value, &format!("struct field .{field} of type string"))));
        }
    }
    // As in Go's decoder, the expected type completes a missing one.
    let found_version = found_version.as_str().filter(|text| !text.is_empty()).unwrap_or(api_version);
    let found_kind = found_kind.as_str().filter(|text| !text.is_empty()).unwrap_or(kind);
    if found_kind == kind && found_version == api_version {
        return Ok(review);
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let (found_group, found) = found_version.split_once('/').unwrap_or(("", found_version));
    if found_kind == kind && found_group == group && VERSIONS.contains(&found) {
        return Err(format!("converting ({found}.{kind}) to ({version}.{kind}): unknown conversion"));
    }
    Err(format!(
        "no kind {} is registered for version {} in scheme \"pkg/runtime/scheme.go:111\"",
        quote(found_kind),
        quote(found_version)
    ))
}

/// Parses a body that is not a JSON object.
fn read_yaml(body: &[u8]) -> Result<decode::Decoded, String> {
    if body.len() > YAML_LIMIT {
        return Err(format!("a review of {} bytes must be JSON", body.len()));
    }
    yaml::read(body)
}

/// Returns Go's text for a JSON value of the wrong type: `json: cannot unmarshal string into Go <place>`.
pub(crate) fn wrong_type(value: &Value, place: &str) -> String {
    format!("json: cannot unmarshal {} into Go {place}", json_type(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &str, expected: &str) {
        let decoded = decode(body.as_bytes(), "admission.k8s.io/v1", "AdmissionReview");
        assert_eq!(decoded.map_or_else(|why| why, |review| review.to_string()), expected, "{body}");
    }

    #[test]
    fn a_review_must_have_the_version_that_was_sent() {
        check("{}", "{}");
        check("kind: AdmissionReview", r#"{"kind":"AdmissionReview"}"#);
        check(
            "hello",
            "couldn't get version/kind; json parse error: json: cannot unmarshal string into Go value of type struct { \
             APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }",
        );
        check(
            r#"{"apiVersion":"v1","kind":"ConfigMap"}"#,
            "no kind \"ConfigMap\" is registered for version \"v1\" in scheme \"pkg/runtime/scheme.go:111\"",
        );
        check(
            r#"{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview"}"#,
            "converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion",
        );
        check("{", "couldn't get version/kind; json parse error: unexpected end of JSON input");
    }
}
