//! AdmissionReviews: from the bytes of a request to those of a response. Pure but for the handlers, which it awaits.

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use http::StatusCode;
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    admission::{Admission, AdmissionRequest},
    envelope,
    registration::Hook,
    rejection::Rejection,
    rule::AdmissionPhase,
};

const GROUP: &str = "admission.k8s.io";
/// Version of responses to requests of an unknown version.
const V1: &str = "admission.k8s.io/v1";

/// A request that was read.
pub(super) struct ReadReview {
    api_version: String,
    pub(super) admission: Admission,
}

/// Response of a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReviewReply {
    /// HTTP status. It is 200 for every request that was understood, also if the operation is refused.
    pub(super) status: StatusCode,
    pub(super) body: Vec<u8>,
}

/// Reads an AdmissionReview of version v1 or v1beta1.
pub(super) fn read(body: &[u8]) -> Result<ReadReview, ReviewReply> {
    let (api_version, request) = envelope::read::<AdmissionRequest>(body, GROUP, "AdmissionReview")
        .map_err(|why| refusal(StatusCode::BAD_REQUEST, &why))?;
    Ok(ReadReview { api_version, admission: Admission::new(request) })
}

/// The response to a request that was not understood.
pub(super) fn refusal(status: StatusCode, message: &str) -> ReviewReply {
    let code = status.as_u16();
    let response = json!({ "uid": "", "allowed": false, "status": { "code": code, "message": message } });
    let body = json!({ "kind": "AdmissionReview", "apiVersion": V1, "response": response });
    ReviewReply { status, body: body.to_string().into_bytes() }
}

/// What the handlers decided: the changes of the admitted object, if there are any, or the reason why it is refused.
pub(super) type Admitted = Result<Option<json_patch::Patch>, Rejection>;

/// Runs the handlers: mutating ones in order, each on the object that the one before returned; all validating ones, whose
/// rejections are joined.
pub(super) async fn admit(phase: AdmissionPhase, hooks: &[Arc<Hook>], admission: &Admission) -> Admitted {
    let mut current = admission.clone();
    let mut rejected: Option<Rejection> = None;
    for hook in hooks.iter().filter(|hook| hook.rule.operations.contains(&admission.operation())) {
        match ((hook.admit)(current.clone()).await, phase) {
            (Ok(None), _) => {}
            (Ok(Some(object)), AdmissionPhase::Mutating) => current = current.with_object(object),
            (Ok(Some(_)), AdmissionPhase::Validating) => {
                return Err(Rejection::internal("a validating webhook returned a changed object"));
            }
            // Later handlers must not run on an object that is refused.
            (Err(rejection), AdmissionPhase::Mutating) => return Err(rejection),
            (Err(rejection), AdmissionPhase::Validating) => {
                rejected = Some(match rejected {
                    Some(first) => first.and(rejection),
                    None => rejection,
                });
            }
        }
    }
    if let Some(rejection) = rejected {
        return Err(rejection);
    }
    let (Some(before), Some(after)) = (admission.raw_object(), current.raw_object()) else { return Ok(None) };
    let patch = json_patch::diff(before, after);
    Ok((!patch.0.is_empty()).then_some(patch))
}

/// Encodes the response.
pub(super) fn respond(review: &ReadReview, admitted: Admitted) -> ReviewReply {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct ReviewResponse<'a> {
        uid: &'a str,
        allowed: bool,
        status: Value,
        #[serde(skip_serializing_if = "Option::is_none")]
        patch: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        patch_type: Option<&'static str>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        warnings: Vec<String>,
        #[serde(skip_serializing_if = "std::collections::BTreeMap::is_empty")]
        audit_annotations: std::collections::BTreeMap<String, String>,
    }
    // Encoded first, so that a patch that cannot be encoded becomes a rejection.
    let encoded = admitted.and_then(|patch| Ok(patch.map(|patch| serde_json::to_vec(&patch)).transpose()?));
    let notes = std::mem::take(&mut *review.admission.notes.lock());
    let (allowed, status, patch) = match encoded {
        Ok(patch) => (true, json!({ "code": 200 }), patch),
        Err(rejection) => {
            let status = serde_json::to_value(rejection.to_status(Some(&review.admission)));
            (false, status.unwrap_or_default(), None)
        }
    };
    let response = ReviewResponse {
        uid: review.admission.uid(),
        allowed,
        status,
        patch_type: patch.as_ref().map(|_| "JSONPatch"),
        patch: patch.map(|patch| BASE64.encode(patch)),
        warnings: notes.warnings,
        audit_annotations: notes.audit_annotations,
    };
    let body = json!({ "kind": "AdmissionReview", "apiVersion": review.api_version, "response": response });
    ReviewReply { status: StatusCode::OK, body: body.to_string().into_bytes() }
}
