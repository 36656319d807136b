//! Answers: objects in the encoding and the view that were asked for. Lists are in [`list`](super::list).

use bytes::Bytes;
use http::{HeaderValue, Response, header};
use serde_json::{Value, json};

use super::{Call, yaml};
use crate::go;
use crate::protobuf;
use crate::registry::Served;
use crate::request::accept::{Accept, Encoding, View};
use crate::server::ResponseBody;
use crate::status::ApiError;
use crate::store::Stored;
use crate::table;

/// Bytes up to which an answer is made at once: as much as is not compressed.
pub(super) const AT_ONCE: usize = 128 << 10;

/// An answer before its headers.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) code: u16,
    pub(crate) content_type: &'static str,
    pub(crate) body: ResponseBody,
    /// Seconds of the `Retry-After` header.
    pub(crate) retry_after: Option<u64>,
}

impl Reply {
    pub(crate) fn bytes(code: u16, content_type: &'static str, bytes: impl Into<Bytes>) -> Self {
        Self { code, content_type, body: ResponseBody::full(bytes), retry_after: None }
    }

    pub(crate) fn text(code: u16, text: &str) -> Self {
        Self::bytes(code, "text/plain; charset=utf-8", text.to_owned())
    }

    /// A value as it is, in the encoding asked for; in JSON if protobuf was asked for and has no message for it.
    pub(crate) fn value(code: u16, encoding: Encoding, value: &Value) -> Self {
        let bytes = match encoding {
            Encoding::Json => None,
            Encoding::Yaml => Some(yaml::write(value).into_bytes()),
            Encoding::Protobuf => protobuf::encode(value),
        };
        match bytes {
            Some(bytes) => Self::bytes(code, encoding.content_type(), bytes),
            None => Self::bytes(code, Encoding::Json.content_type(), go::json(value)),
        }
    }

    /// The `Status` of an error.
    pub(crate) fn error(encoding: Encoding, error: &ApiError) -> Self {
        Self::value(error.code(), encoding, &error.to_json())
    }

    pub(crate) fn into_response(self) -> Response<ResponseBody> {
        let mut response = Response::new(self.body);
        *response.status_mut() =
            http::StatusCode::from_u16(self.code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// An object of the call's resource.
pub(crate) fn stored(call: &Call, code: u16, stored: &Stored) -> Result<Reply, ApiError> {
    let accept = call.accept;
    if (accept.encoding, accept.view) == (Encoding::Json, View::Object)
        && stored.document.len() > AT_ONCE
        && call.served.reads_as_stored(stored)
    {
        // Large ones are not copied for each who reads them.
        let body =
            ResponseBody::pieces(stored.document.parts(&call.served.kind, stored.revision).into_iter());
        return Ok(Reply { code, content_type: accept.encoding.content_type(), body, retry_after: None });
    }
    let bytes = match (accept.encoding, accept.view) {
        (Encoding::Json, View::Object) => Some(call.served.text(stored, stored.revision)),
        (Encoding::Protobuf, View::Object | View::Metadata) => in_protobuf(call, stored, stored.revision),
        _ => None,
    };
    match bytes {
        Some(bytes) => Ok(Reply::bytes(code, accept.encoding.content_type(), bytes)),
        None => object(call, code, call.served.value(stored)),
    }
}

/// An object, or its metadata if the view is one of metadata, in protobuf; `None` if it has no message.
pub(crate) fn in_protobuf(call: &Call, stored: &Stored, revision: u64) -> Option<Vec<u8>> {
    let kind = &call.served.kind;
    let (api_version, kind) = match call.accept.view {
        View::Object => (kind.api_version.as_str(), kind.kind.as_str()),
        View::Metadata | View::MetadataList => (call.accept.meta_api_version(), "PartialObjectMetadata"),
        View::Table => return None,
    };
    // What surrounds the metadata is not in the message of a view, and so is skipped.
    protobuf::encode_text(api_version, kind, &call.served.text(stored, revision))
}

/// An object that is not stored as it is shown.
pub(crate) fn object(call: &Call, code: u16, object: Value) -> Result<Reply, ApiError> {
    let accept = call.accept;
    let shown = match accept.view {
        View::Object => object,
        View::Metadata => partial_metadata(accept, &object),
        View::MetadataList => return Err(ApiError::internal("content is not a list")),
        View::Table => {
            let objects = [object];
            call.table(&objects, &objects[0]["metadata"], true)?
        }
    };
    Ok(Reply::value(code, accept.encoding, &shown))
}

/// `PartialObjectMetadata` of an object.
pub(crate) fn partial_metadata(accept: Accept, object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": accept.meta_api_version(),
        "metadata": object.get("metadata").cloned().unwrap_or_else(|| json!({})),
    })
}

/// `Status` of a delete that is done.
pub(crate) fn deleted(call: &Call, name: &str, uid: &str) -> Reply {
    let resource = &call.served.resource;
    let mut details = json!({"name": name, "kind": resource.plural, "uid": uid});
    if !resource.group.is_empty() {
        details["group"] = json!(resource.group);
    }
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details});
    Reply::value(200, call.accept.encoding, &status)
}

/// What a list says about itself.
pub(crate) struct ListMeta {
    pub(crate) revision: u64,
    pub(crate) continue_token: Option<String>,
    pub(crate) remaining: Option<usize>,
}

impl ListMeta {
    pub(super) fn to_json(&self, served: &Served) -> Value {
        let mut metadata = json!({"resourceVersion": self.revision.to_string()});
        match &self.continue_token {
            Some(token) => metadata["continue"] = json!(token),
            // Custom lists are written from an untyped value, which has the field even where it is empty.
            None if served.is_custom() => metadata["continue"] = json!(""),
            None => {}
        }
        if let Some(remaining) = self.remaining {
            metadata["remainingItemCount"] = json!(remaining);
        }
        metadata
    }
}

/// The Go package of a builtin group.
pub(super) fn go_package(group: &str) -> &str {
    if group.is_empty() { "core" } else { group.split('.').next().unwrap_or_default() }
}

impl Call {
    /// A `Table` of objects whose list, or which themselves, have this `metadata`.
    pub(crate) fn table(
        &self,
        objects: &[Value],
        metadata: &Value,
        with_columns: bool,
    ) -> Result<Value, ApiError> {
        let options = self.table_options(with_columns)?;
        let mut table = table::table(&self.served.resource, objects, metadata, options);
        if self.accept.view_version != "v1" {
            table["apiVersion"] = json!(self.accept.meta_api_version());
        }
        Ok(table)
    }

    /// How a `Table` is wanted.
    ///
    /// # Errors
    /// 400 for a query that says something else of the objects in it than what is possible.
    pub(super) fn table_options(&self, with_columns: bool) -> Result<table::Options, ApiError> {
        let include = table::IncludeObject::parse(self.query.text("includeObject"))?;
        Ok(table::Options { include, now: self.server.clock.now(), with_columns })
    }
}
