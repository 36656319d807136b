//! ConversionReviews: from the bytes of a request to those of a response.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use http::StatusCode;
use serde::Deserialize;
use serde_json::json;

use super::{
    AnyConverter,
    object_text::{ObjectText, write_text},
};
use crate::{
    pace::Pace,
    webhook::{admission_review::ReviewReply, envelope},
};

const GROUP: &str = "apiextensions.k8s.io";

#[derive(Deserialize)]
struct ReviewRequest<'a> {
    uid: String,
    #[serde(rename = "desiredAPIVersion")]
    desired: String,
    /// Texts of the objects, which are decoded one at a time.
    #[serde(borrow, default)]
    objects: Vec<ObjectText<'a>>,
}

/// A request that was read.
pub(in crate::webhook) struct ConversionRequest<'a> {
    /// Size of its text, in bytes.
    size: usize,
    api_version: String,
    request: ReviewRequest<'a>,
}

/// JSON of a list of converted objects.
pub(in crate::webhook) struct ConvertedObjects(String);

/// Reads a ConversionReview of version v1 or v1beta1.
pub(in crate::webhook) fn read(body: &[u8]) -> Result<ConversionRequest<'_>, ReviewReply> {
    let (api_version, request) =
        envelope::read(body, GROUP, "ConversionReview").map_err(|why| plain(StatusCode::BAD_REQUEST, why))?;
    Ok(ConversionRequest { size: body.len(), api_version, request })
}

/// A response to a request that was not understood.
pub(in crate::webhook) fn plain(status: StatusCode, message: impl Into<String>) -> ReviewReply {
    ReviewReply { status, body: message.into().into_bytes() }
}

impl ConversionRequest<'_> {
    pub(in crate::webhook) fn uid(&self) -> &str {
        &self.request.uid
    }

    /// Returns the number of objects.
    pub(in crate::webhook) fn objects(&self) -> usize {
        self.request.objects.len()
    }

    /// Encodes the response: all objects in the order of the request, or the reason why one of them cannot be
    /// converted.
    pub(in crate::webhook) fn respond(&self, converted: Result<ConvertedObjects, String>) -> ReviewReply {
        let (objects, result) = match converted {
            Ok(ConvertedObjects(objects)) => (objects, json!({ "status": "Success" })),
            Err(message) => ("[]".to_owned(), json!({ "status": "Failure", "message": message })),
        };
        let mut body = String::with_capacity(objects.len() + 512);
        body.push_str(r#"{"kind":"ConversionReview","apiVersion":"#);
        write_text(&mut body, &self.api_version);
        body.push_str(r#","response":{"uid":"#);
        write_text(&mut body, &self.request.uid);
        body.push_str(r#","convertedObjects":"#);
        body.push_str(&objects);
        body.push_str(&format!(r#","result":{result}}}}}"#));
        ReviewReply { status: StatusCode::OK, body: body.into_bytes() }
    }
}

/// Converts the objects of a request. Yields between objects, so that other requests are answered meanwhile.
pub(in crate::webhook) async fn convert(
    converters: &BTreeMap<(String, String), Arc<AnyConverter>>,
    request: &ConversionRequest<'_>,
) -> Result<ConvertedObjects, String> {
    let ReviewRequest { desired, objects, .. } = &request.request;
    let (group, to) = desired.split_once('/').unwrap_or(("", desired));
    // Most conversions change little of the size.
    let mut converted = String::with_capacity(request.size + request.size / 16);
    converted.push('[');
    let mut pace = Pace::begin();
    // The converter of the previous object: nearly all reviews have objects of one kind, and the lookup allocates.
    let mut last = None::<(Cow<'_, str>, &Arc<AnyConverter>)>;
    for (number, object) in objects.iter().enumerate() {
        if number > 0 {
            converted.push(',');
        }
        let (api_version, kind) = (object.text("apiVersion"), object.text("kind"));
        let fails = |reason: &dyn std::fmt::Display| {
            let name = object.metadata_text("name");
            format!("{kind} {name:?} cannot be converted from {api_version:?} to {desired:?}: {reason}")
        };
        let (own_group, from) = api_version.split_once('/').unwrap_or(("", &api_version));
        if own_group != group {
            return Err(fails(&"the groups differ"));
        }
        let known = last.filter(|(known, _)| *known == kind).map(|(_, converter)| converter);
        let converter = known
            .or_else(|| converters.get(&(group.to_owned(), kind.clone().into_owned())))
            .ok_or_else(|| fails(&"no converter is registered for the kind"))?;
        converter.convert(object, from, to, &mut converted).map_err(|error| fails(&error))?;
        last = Some((kind, converter));
        pace.step().await;
    }
    converted.push(']');
    Ok(ConvertedObjects(converted))
}
