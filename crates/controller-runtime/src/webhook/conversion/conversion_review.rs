//! ConversionReviews: from the bytes of a request to those of a response.

use std::{collections::BTreeMap, sync::Arc};

use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::AnyConverter;
use crate::{
    pace::Pace,
    webhook::{admission_review::ReviewReply, envelope},
};

const GROUP: &str = "apiextensions.k8s.io";

#[derive(Deserialize)]
struct ReviewRequest {
    uid: String,
    #[serde(rename = "desiredAPIVersion")]
    desired: String,
    #[serde(default)]
    objects: Vec<Value>,
}

/// A request that was read.
pub(in crate::webhook) struct ConversionRequest {
    api_version: String,
    request: ReviewRequest,
}

/// Reads a ConversionReview of version v1 or v1beta1.
pub(in crate::webhook) fn read(body: &[u8]) -> Result<ConversionRequest, ReviewReply> {
    let (api_version, request) =
        envelope::read(body, GROUP, "ConversionReview").map_err(|why| plain(StatusCode::BAD_REQUEST, why))?;
    Ok(ConversionRequest { api_version, request })
}

/// A response to a request that was not understood.
pub(in crate::webhook) fn plain(status: StatusCode, message: impl Into<String>) -> ReviewReply {
    ReviewReply { status, body: message.into().into_bytes() }
}

impl ConversionRequest {
    pub(in crate::webhook) fn uid(&self) -> &str {
        &self.request.uid
    }

    /// Encodes the response: all objects in the order of the request, or the reason why one of them cannot be
    /// converted.
    pub(in crate::webhook) fn respond(&self, converted: Result<Vec<Value>, String>) -> ReviewReply {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Review<'a> {
            kind: &'a str,
            api_version: &'a str,
            response: Response<'a>,
        }
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Response<'a> {
            uid: &'a str,
            converted_objects: Vec<Value>,
            result: Value,
        }
        let (converted_objects, result) = match converted {
            Ok(objects) => (objects, json!({ "status": "Success" })),
            Err(message) => (Vec::new(), json!({ "status": "Failure", "message": message })),
        };
        let response = Response { uid: &self.request.uid, converted_objects, result };
        let review = Review { kind: "ConversionReview", api_version: &self.api_version, response };
        match serde_json::to_vec(&review) {
            Ok(body) => ReviewReply { status: StatusCode::OK, body },
            Err(error) => plain(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        }
    }
}

/// Converts the objects of a request, which are moved out of it. Yields between objects, so that other requests are
/// answered meanwhile.
pub(in crate::webhook) async fn convert(
    converters: &BTreeMap<(String, String), Arc<AnyConverter>>,
    request: &mut ConversionRequest,
) -> Result<Vec<Value>, String> {
    let objects = std::mem::take(&mut request.request.objects);
    let desired = &request.request.desired;
    let (group, to) = desired.split_once('/').unwrap_or(("", desired));
    let mut converted = Vec::with_capacity(objects.len());
    let mut pace = Pace::begin();
    for object in objects {
        let text = |field| object.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let fails = |reason: &dyn std::fmt::Display| {
            format!("{kind} {name:?} cannot be converted from {api_version:?} to {desired:?}: {reason}")
        };
        let (own_group, from) = api_version.split_once('/').unwrap_or(("", &api_version));
        if own_group != group {
            return Err(fails(&"the groups differ"));
        }
        let converter = converters
            .get(&(group.to_owned(), kind.clone()))
            .ok_or_else(|| fails(&"no converter is registered for the kind"))?;
        converted.push(converter.convert(object, from, to).map_err(|error| fails(&error))?);
        pace.step().await;
    }
    Ok(converted)
}
