//! AdmissionReviews: the request that a webhook receives, and its response.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use kube_apimachinery::go::quote;
use kube_apimachinery::status::ApiError;
use serde_json::{Value, json};

use super::webhook::Webhook;
use crate::api::admission::{Attributes, request_fields};
use crate::kind::registry::ServedKind;
use crate::webhook_client::{decode_review, wrong_type};

/// Decoder that accepts unused bits in the last symbol, like Go's.
const GO_BASE64: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

/// The only type of patches that Kubernetes defines.
pub(super) const JSON_PATCH: &str = "JSONPatch";

/// Version of AdmissionReviews.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AdmissionReviewVersion {
    V1,
    V1beta1,
}

impl AdmissionReviewVersion {
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "v1" => Some(Self::V1),
            "v1beta1" => Some(Self::V1beta1),
            _ => None,
        }
    }

    fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "admission.k8s.io/v1",
            Self::V1beta1 => "admission.k8s.io/v1beta1",
        }
    }
}

/// Kind of a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WebhookKind {
    Mutating,
    Validating,
}

/// Builds a review. `served` is the resource as which the webhook receives the request; `object` and `old` are in its version.
pub(super) fn request(
    attributes: &Attributes<'_>,
    served: &ServedKind,
    version: AdmissionReviewVersion,
    uid: &str,
    object: Option<&Value>,
    old: Option<&Value>,
) -> Value {
    let mut request = request_fields::of(attributes, served, served, object);
    request["uid"] = json!(uid);
    request["object"] = json!(object);
    request["oldObject"] = json!(old);
    request["options"] = json!(attributes.options());
    json!({"kind": "AdmissionReview", "apiVersion": version.api_version(), "request": request})
}

/// Response of a webhook.
#[derive(Debug, Default, PartialEq)]
pub(super) struct AdmissionResponse {
    pub(super) allowed: bool,
    /// JSON patch; empty without a patch.
    pub(super) patch: Vec<u8>,
    /// Type of the patch; empty without a patch.
    pub(super) patch_type: String,
    /// Reason of a denial: a `Status`, or null.
    pub(super) status: Value,
    pub(super) warnings: Vec<String>,
}

/// Reads the review with which a webhook answered.
///
/// # Errors
/// The reason why the call failed, with the step that failed.
pub(super) fn response(
    body: &[u8],
    version: AdmissionReviewVersion,
    kind: WebhookKind,
    uid: &str,
) -> Result<AdmissionResponse, String> {
    // Go's decoder checks types and base64 while it reads the review. Therefore their errors precede those of
    // `verify`, and count as a failed call.
    let review = decode_review(body, version.api_version(), "AdmissionReview")
        .and_then(|review| check_types(&review, version).map(|()| review))
        .map_err(|why| format!("failed to call webhook: {why}"))?;
    let patch = review["response"]["patch"].as_str().unwrap_or_default();
    let patch = decode_patch(patch).map_err(|why| format!("failed to call webhook: {why}"))?;
    verify(&review, version, kind, uid, &patch)
        .map_err(|why| format!("received invalid webhook response: {why}"))?;
    let response = &review["response"];
    let warnings = response["warnings"].as_array().into_iter().flatten();
    Ok(AdmissionResponse {
        allowed: response["allowed"] == true,
        // The type of the patch is not read from reviews of v1beta1.
        patch_type: match (patch.is_empty(), version) {
            (true, _) => String::new(),
            (false, AdmissionReviewVersion::V1) => {
                response["patchType"].as_str().unwrap_or_default().to_owned()
            }
            (false, AdmissionReviewVersion::V1beta1) => JSON_PATCH.to_owned(),
        },
        patch,
        status: response["status"].clone(),
        warnings: warnings.filter_map(|text| Some(text.as_str()?.to_owned())).collect(),
    })
}

/// Checks the types of the fields, as Go's decoder does. Null counts as absent.
fn check_types(review: &Value, version: AdmissionReviewVersion) -> Result<(), String> {
    let response = &review["response"];
    let package = match version {
        AdmissionReviewVersion::V1 => "v1",
        AdmissionReviewVersion::V1beta1 => "v1beta1",
    };
    let must_be = |value: &Value, is: fn(&Value) -> bool, place: &str, go: &str| {
        if value.is_null() || is(value) {
            return Ok(());
        }
        Err(wrong_type(value, &format!("struct field {place} of type {go}")))
    };
    must_be(response, Value::is_object, "AdmissionReview.response", &format!("{package}.AdmissionResponse"))?;
    for (field, is, go) in [
        ("uid", Value::is_string as fn(&Value) -> bool, "types.UID".to_owned()),
        ("allowed", Value::is_boolean, "bool".to_owned()),
        ("status", Value::is_object, "v1.Status".to_owned()),
        ("patch", Value::is_string, "[]uint8".to_owned()),
        ("patchType", Value::is_string, format!("{package}.PatchType")),
        ("auditAnnotations", Value::is_object, "map[string]string".to_owned()),
        ("warnings", Value::is_array, "[]string".to_owned()),
    ] {
        must_be(&response[field], is, &format!("AdmissionResponse.response.{field}"), &go)?;
    }
    let annotations = response["auditAnnotations"].as_object().into_iter().flat_map(|map| map.values());
    let texts = annotations.map(|value| ("auditAnnotations", value));
    let warnings = response["warnings"].as_array().into_iter().flatten();
    for (field, value) in texts.chain(warnings.map(|value| ("warnings", value))) {
        must_be(value, Value::is_string, &format!("AdmissionResponse.response.{field}"), "string")?;
    }
    let status = &response["status"];
    for (field, is, go) in [
        ("code", (|value: &Value| value.is_i64()) as fn(&Value) -> bool, "int32"),
        ("message", Value::is_string, "string"),
        ("reason", Value::is_string, "v1.StatusReason"),
        ("status", Value::is_string, "string"),
        ("details", Value::is_object, "v1.StatusDetails"),
    ] {
        must_be(&status[field], is, &format!("Status.response.status.{field}"), go)?;
    }
    Ok(())
}

/// Decodes base64 as Go does. The error names the first byte outside the alphabet.
fn decode_patch(text: &str) -> Result<Vec<u8>, String> {
    let text: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    GO_BASE64.decode(&text).map_err(|error| {
        let at = match error {
            base64::DecodeError::InvalidByte(at, _) => at,
            _ => text.len(),
        };
        format!("illegal base64 data at input byte {at}")
    })
}

/// Checks that the response belongs to the request, and that its patch fits the kind of the webhook. Few rules apply to reviews of v1beta1.
fn verify(
    review: &Value,
    version: AdmissionReviewVersion,
    kind: WebhookKind,
    uid: &str,
    patch: &[u8],
) -> Result<(), String> {
    let response = &review["response"];
    if response.is_null() {
        return Err("webhook response was absent".to_owned());
    }
    if version == AdmissionReviewVersion::V1beta1 {
        return Ok(());
    }
    let actual = response["uid"].as_str().unwrap_or_default();
    if actual != uid {
        return Err(format!("expected response.uid={}, got {}", quote(uid), quote(actual)));
    }
    let [api_version, review_kind] =
        ["apiVersion", "kind"].map(|field| review[field].as_str().unwrap_or_default());
    if (api_version, review_kind) != (version.api_version(), "AdmissionReview") {
        let (group, found) = api_version.split_once('/').unwrap_or(("", api_version));
        return Err(format!(
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {group}/{found}, \
             Kind={review_kind}"
        ));
    }
    let patch_type = response["patchType"].as_str();
    match (kind, patch.is_empty(), patch_type) {
        (WebhookKind::Validating, false, _) => {
            Err("validating webhook may not return response.patch".to_owned())
        }
        (WebhookKind::Validating, true, Some(_)) => {
            Err("validating webhook may not return response.patchType".to_owned())
        }
        (WebhookKind::Mutating, false, None) => {
            Err("webhook returned response.patch but not response.patchType".to_owned())
        }
        (WebhookKind::Mutating, true, Some(_)) => {
            Err("webhook returned response.patchType but not response.patch".to_owned())
        }
        (WebhookKind::Mutating, false, Some("")) => {
            Err("webhook returned invalid response.patchType of \"\"".to_owned())
        }
        _ => Ok(()),
    }
}

/// Returns the error for a request that a webhook denies.
pub(super) fn denial(webhook: &Webhook, status: &Value) -> ApiError {
    let denied = format!("admission webhook {} denied the request", quote(&webhook.name));
    let text = |field: &str| status[field].as_str().unwrap_or_default();
    let message = match (text("message"), text("reason")) {
        ("", "") => format!("{denied} without explanation"),
        ("", why) | (why, _) => format!("{denied}: {why}"),
    };
    let code = status["code"].as_u64().and_then(|code| u16::try_from(code).ok());
    // Codes above 999 are not valid in HTTP.
    let code = code.filter(|code| (400..1000).contains(code)).unwrap_or(400);
    ApiError::from_status(status, code, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: WebhookKind, response_field: &Value, expected: &str) {
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response_field});
        let read = response(review.to_string().as_bytes(), AdmissionReviewVersion::V1, kind, "u");
        let shown = match read {
            Ok(response) => {
                format!("allowed: {}, {}", response.allowed, String::from_utf8_lossy(&response.patch))
            }
            Err(why) => why,
        };
        assert_eq!(shown, expected, "{response_field}");
    }

    #[test]
    fn a_response_is_refused_unless_its_fields_fit_the_kind_of_webhook() {
        use WebhookKind::{Mutating, Validating};
        let patch = json!({"uid": "u", "allowed": true, "patch": "W10=", "patchType": "JSONPatch"});
        let invalid = |why: &str| format!("received invalid webhook response: {why}");
        check(Mutating, &patch, "allowed: true, []");
        check(Validating, &patch, &invalid("validating webhook may not return response.patch"));
        check(Validating, &json!({"uid": "u"}), "allowed: false, ");
        check(Mutating, &Value::Null, &invalid("webhook response was absent"));
        check(Mutating, &json!({"uid": "v"}), &invalid("expected response.uid=\"u\", got \"v\""));
        check(
            Mutating,
            &json!({"uid": "u", "patch": "W10="}),
            &invalid("webhook returned response.patch but not response.patchType"),
        );
        check(
            Mutating,
            &json!({"uid": "u", "patchType": "JSONPatch"}),
            &invalid("webhook returned response.patchType but not response.patch"),
        );
        check(
            Mutating,
            &json!({"uid": "u", "patch": "???"}),
            "failed to call webhook: illegal base64 data at input byte 0",
        );
        check(
            Mutating,
            &json!({"uid": "u", "allowed": "yes"}),
            "failed to call webhook: json: cannot unmarshal string into Go struct field \
             AdmissionResponse.response.allowed of type bool",
        );
        check(
            Mutating,
            &json!([]),
            "failed to call webhook: json: cannot unmarshal array into Go struct field AdmissionReview.response of type \
             v1.AdmissionResponse",
        );
    }

    #[test]
    fn a_review_without_a_type_is_refused_in_v1() {
        let read = |version| response(br#"{"response":{"uid":"u"}}"#, version, WebhookKind::Mutating, "u");
        assert_eq!(
            read(AdmissionReviewVersion::V1).unwrap_err(),
            "received invalid webhook response: expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got \
             /, Kind="
        );
        assert!(read(AdmissionReviewVersion::V1beta1).is_ok());
    }
}
