//! Reviews of conversion webhooks: their text, and the checks of the response. Messages are those of kube-apiserver.
//!
//! Objects are written to the body and read from the response one at a time, so that the caller can yield in between. Of each sent object,
//! the review keeps type and metadata, or the range of its text in the body.

use std::ops::Range;

use bytes::Bytes;
use kube_apimachinery::decode;
use kube_apimachinery::decode::normalize_numbers;
use kube_apimachinery::go;
use kube_apimachinery::metadata;
use serde::Deserialize;
use serde_json::Value;

use super::converted_text::ConvertedText;
use super::response_text;
use super::restored_metadata::restore_metadata;
use crate::kind::webhook_conversion::ConversionReviewVersion;
use crate::state::Turns;
use crate::store::{Document, TypeMeta};
use crate::webhook_client::decode_review;

const KIND: &str = "ConversionReview";
/// Text of a review after its objects.
const END: &[u8] = br#"]},"response":{"uid":"","convertedObjects":null,"result":{"metadata":{}}}}"#;

/// A review, and the data with which its response is compared.
pub(super) struct Review<'a> {
    version: ConversionReviewVersion,
    uid: String,
    /// apiVersion of the converted objects.
    desired: &'a str,
    /// Body of the request, until it is complete.
    body: Vec<u8>,
    /// Body of the request, when it is complete.
    sent: Bytes,
    /// The sent objects, in order.
    originals: Vec<SentObject<'a>>,
    /// Name of the webhook in errors about the whole review.
    subject: String,
}

/// A sent object, with which its converted form is compared.
#[derive(Debug)]
pub(super) enum SentObject<'a> {
    /// Type and metadata.
    Parsed(Value),
    /// A stored object, by its range in the body.
    Text { object: Range<usize>, metadata: usize, kind: &'a str },
}

/// A converted object that [`Review::check`] must compare with its original.
pub(super) struct Unchecked<'a, 'b> {
    original: SentObject<'a>,
    converted: Converted<'b>,
}

/// An object of a response.
enum Converted<'b> {
    Text(&'b str),
    Parsed(Value),
}

impl<'a> Review<'a> {
    /// Begins a review without objects. `size` is the estimated size of the objects, in bytes.
    pub(super) fn new(version: ConversionReviewVersion, uid: String, desired: &'a str, size: usize) -> Self {
        let text = |text: &str| Value::from(text).to_string();
        let head = format!(
            "{{\"kind\":\"{KIND}\",\"apiVersion\":\"{}\",\"request\":{{\"uid\":{},\"desiredAPIVersion\":{},\"objects\":[",
            version.api_version(),
            text(&uid),
            text(desired),
        );
        let mut body = Vec::with_capacity(head.len() + size + END.len());
        body.extend_from_slice(head.as_bytes());
        let (originals, subject) = (Vec::new(), String::new());
        Self { version, uid, desired, body, sent: Bytes::new(), originals, subject }
    }

    /// Begins an object of this type.
    fn begin(&mut self, api_version: &str, kind: &str) {
        if self.originals.is_empty() {
            self.subject = subject_of(api_version, kind);
        } else {
            self.body.push(b',');
        }
    }

    /// Appends an object.
    pub(super) fn push(&mut self, mut object: Value) {
        self.begin(text(&object, "apiVersion"), text(&object, "kind"));
        go::write_json(&mut self.body, &object);
        if let Some(fields) = object.as_object_mut() {
            fields.retain(|field, _| matches!(field.as_str(), "apiVersion" | "kind" | "metadata"));
        }
        self.originals.push(SentObject::Parsed(object));
    }

    /// Appends a stored object, which is not parsed.
    pub(super) fn push_stored(&mut self, document: &Document, kind: &'a TypeMeta) {
        self.begin(&kind.api_version, &kind.kind);
        let begin = self.body.len();
        let metadata = begin + document.write_without_revision(&mut self.body, kind);
        self.originals.push(SentObject::Text { object: begin..self.body.len(), metadata, kind: &kind.kind });
    }

    /// Completes the review and returns the body of the request. It contains an empty response, like the body of a Go client.
    pub(super) fn body(&mut self) -> Bytes {
        let mut body = std::mem::take(&mut self.body);
        body.extend_from_slice(END);
        self.sent = Bytes::from(body);
        self.sent.clone()
    }

    /// Returns the objects of a response in the order of the request. Yields between them. `read` receives the position and the fields of
    /// each object. If it returns `None`, the caller must [check](Self::check) the object.
    ///
    /// # Errors
    /// The reason why the webhook failed, or that objects are missing or were added.
    pub(super) async fn objects<'b, T>(
        &mut self,
        answer: &'b [u8],
        turns: &mut Turns,
        read: impl Fn(&Self, usize, ConvertedText<'_>) -> Option<T>,
    ) -> Result<Vec<Result<T, Unchecked<'a, 'b>>>, String> {
        let objects = self.converted(answer, turns, read).await.map_err(|why| self.failed(&why))?;
        if objects.len() != self.originals.len() {
            let (got, wanted) = (objects.len(), self.originals.len());
            return Err(format!("{} returned {got} objects, expected {wanted}", self.subject));
        }
        let originals = std::mem::take(&mut self.originals).into_iter();
        let with_original = |(original, object): (_, Result<T, _>)| {
            object.map_err(|converted| Unchecked { original, converted })
        };
        Ok(originals.zip(objects).map(with_original).collect())
    }

    /// Returns the message of a call that failed.
    pub(super) fn failed(&self, why: &str) -> String {
        format!("{} failed: {why}", self.subject)
    }

    /// Returns the objects of a response.
    async fn converted<'b, T>(
        &self,
        answer: &'b [u8],
        turns: &mut Turns,
        read: impl Fn(&Self, usize, ConvertedText<'_>) -> Option<T>,
    ) -> Result<Vec<Result<T, Converted<'b>>>, String> {
        let api_version = self.version.api_version();
        let read = |at, text, fields: Option<ConvertedText<'_>>| {
            fields.and_then(|fields| read(self, at, fields)).ok_or(Converted::Text(text))
        };
        // A response in YAML, or with a syntax error, is parsed as a whole, which gives the text of the error.
        let Some((review, objects)) = response_text::read(answer, turns, read).await else {
            let mut review = decode_review(answer, api_version, KIND)?;
            self.check_result(&review)?;
            let objects = review["response"].get_mut("convertedObjects").map(Value::take);
            let Some(Value::Array(objects)) = objects else { return Ok(Vec::new()) };
            return Ok(objects.into_iter().map(|object| Err(Converted::Parsed(object))).collect());
        };
        let review = decode_review(&review, api_version, KIND)?;
        self.check_result(&review)?;
        Ok(objects)
    }

    /// Checks that the response belongs to this review, and is a success.
    fn check_result(&self, review: &Value) -> Result<(), String> {
        let response = &review["response"];
        let json_type = match response {
            Value::Null | Value::Object(_) => "",
            Value::Bool(_) => "bool",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
        };
        if !json_type.is_empty() {
            let version = match self.version {
                ConversionReviewVersion::V1 => "v1",
                ConversionReviewVersion::V1Beta1 => "v1beta1",
            };
            return Err(format!(
                "json: cannot unmarshal {json_type} into Go struct field ConversionReview.response of type \
                 {version}.ConversionResponse"
            ));
        }
        let expected = self.version.api_version();
        let [api_version, kind] =
            ["apiVersion", "kind"].map(|field| review[field].as_str().unwrap_or_default());
        if (api_version, kind) != (expected, KIND) {
            let slash = if api_version.contains('/') { "" } else { "/" };
            return Err(format!(
                "expected webhook response of {expected}, Kind={KIND}, got {slash}{api_version}, Kind={kind}"
            ));
        }
        if response.is_null() {
            return Err("no response provided".to_owned());
        }
        let uid = response["uid"].as_str().unwrap_or_default();
        // kube-apiserver does not check the UID in v1beta1.
        if self.version == ConversionReviewVersion::V1 && uid != self.uid {
            return Err(format!("expected response.uid={}, got {}", go::quote(&self.uid), go::quote(uid)));
        }
        let result = &response["result"];
        let [status, message] = ["status", "message"].map(|field| result[field].as_str().unwrap_or_default());
        if status == "Success" {
            return Ok(());
        }
        Err(if message.is_empty() {
            format!("response.result.status was '{status}', not 'Success'")
        } else {
            message.to_owned()
        })
    }

    /// Returns the stored form of the converted object at a position, with the metadata of the stored `original`. `keep` completes its
    /// other fields.
    ///
    /// Returns `None` if the original was not sent as text, or if the metadata differ. The caller then uses [`check`](Self::check).
    pub(super) fn restored(
        &self,
        at: usize,
        converted: ConvertedText<'_>,
        original: &Document,
        keep: impl FnOnce(&mut Value),
        written_as: u64,
        stored_in: u64,
    ) -> Option<Document> {
        let SentObject::Text { metadata, kind, .. } = self.originals.get(at)? else { return None };
        // Without metadata, the text of the document has no comma in front of them.
        if !original.text().starts_with(b",") {
            return None;
        }
        let (content, length) = converted.content(self.desired, kind, &self.sent[*metadata..])?;
        let mut content = Value::Object(content);
        keep(&mut content);
        Some(original.with_content(length, content.as_object()?, written_as, stored_in))
    }

    /// Parses and checks a converted object. Restores its metadata except for labels and annotations.
    ///
    /// # Errors
    /// The reason why the object differs from the original or has invalid metadata.
    pub(super) fn check(&self, object: Unchecked<'_, '_>) -> Result<Value, String> {
        let original = match object.original {
            SentObject::Parsed(original) => original,
            SentObject::Text { object, .. } => parsed(&self.sent[object]),
        };
        match object.converted {
            Converted::Parsed(converted) => self.check_value(original, converted),
            Converted::Text(sent) => {
                let decoded = decode::json(sent.as_bytes()).map_err(|why| {
                    self.failed(&format!("couldn't get version/kind; json parse error: {why}"))
                })?;
                if !decoded.value.is_null() && text(&decoded.value, "kind").is_empty() {
                    // Go quotes the object as the webhook wrote it.
                    return Err(format!("Object 'Kind' is missing in '{sent}'"));
                }
                self.check_value(original, decoded.value)
            }
        }
    }

    fn check_value(&self, original: Value, mut converted: Value) -> Result<Value, String> {
        let invalid = |why: &str| format!("{} returned invalid object{why}", subject(&original));
        if converted.is_null() {
            // Go decodes null as an extension without bytes.
            return Err("unexpected end of JSON input".to_owned());
        }
        if text(&converted, "kind").is_empty() {
            return Err(format!("Object 'Kind' is missing in '{}'", go::json(&converted)));
        }
        let (kind, version) = (text(&converted, "kind"), text(&converted, "apiVersion"));
        if version != self.desired {
            let (wanted, got) = (self.desired, version);
            return Err(invalid(&format!(
                " at index 0: invalid groupVersion (expected {wanted}, received {got})"
            )));
        }
        if kind != text(&original, "kind") {
            let (wanted, got) = (text(&original, "kind"), kind);
            return Err(invalid(&format!(" at index 0: invalid kind (expected {wanted}, received {got})")));
        }
        for (field, shown) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
            let (was, is) = (metadata::text(&original, field), metadata::text(&converted, field));
            if was != is {
                return Err(invalid(&format!(": must have the same {shown}: {was} != {is}")));
            }
        }
        let of = subject(&original);
        restore_metadata(original, &mut converted)
            .map_err(|why| format!("{of} returned invalid metadata: {why}"))?;
        normalize_numbers(&mut converted);
        Ok(converted)
    }
}

/// Parses a sent object, which may be nested deeper than the parser's default limit.
fn parsed(text: &[u8]) -> Value {
    let mut reader = serde_json::Deserializer::from_slice(text);
    reader.disable_recursion_limit();
    Value::deserialize(&mut reader).expect("a sent object is JSON, because it is a document")
}

/// Names the webhook by the type of the object to convert.
fn subject(object: &Value) -> String {
    subject_of(text(object, "apiVersion"), text(object, "kind"))
}

fn subject_of(api_version: &str, kind: &str) -> String {
    format!("conversion webhook for {api_version}, Kind={kind}")
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests;
