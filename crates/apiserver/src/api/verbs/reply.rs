//! Responses with single objects, in the requested encoding and view. Lists are in [`list_reply`](super::list_reply).

use bytes::Bytes;
use http::{HeaderValue, Response, header};
use kube_apimachinery::go;
use kube_apimachinery::metadata;
use kube_apimachinery::protobuf;
use kube_apimachinery::status::ApiError;
use kube_apimachinery::table::{self, ColumnDefinitions};
use kube_apimachinery::yaml;
use serde_json::{Value, json};

use super::Call;
use crate::kind::registry::ServedKind;
use crate::kind::resource::Resource;
use crate::request::accept::{Accept, Encoding, View};
use crate::response::ResponseBody;
use crate::store::Stored;

/// Maximum size in bytes of a response that is built at once. Larger responses may be compressed.
pub(super) const AT_ONCE: usize = 128 << 10;

/// A response without its headers.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) code: u16,
    /// Content type; empty for a response without body.
    pub(crate) content_type: &'static str,
    pub(crate) body: ResponseBody,
    /// Seconds for the `Retry-After` header.
    pub(crate) retry_after: Option<u64>,
}

/// Content type of plain text, such as `404 page not found`.
const TEXT: &str = "text/plain; charset=utf-8";
/// Value of the header `X-Content-Type-Options`.
pub(crate) const NO_SNIFF: HeaderValue = HeaderValue::from_static("nosniff");

impl Reply {
    pub(crate) fn bytes(code: u16, content_type: &'static str, bytes: impl Into<Bytes>) -> Self {
        Self { code, content_type, body: ResponseBody::full(bytes), retry_after: None }
    }

    pub(crate) fn text(code: u16, text: &str) -> Self {
        Self::bytes(code, TEXT, text.to_owned())
    }

    /// Responds with 204 and no body.
    pub(crate) fn nothing() -> Self {
        Self::bytes(204, "", Bytes::new())
    }

    /// Responds with a value in the requested encoding, or in JSON if the value has no protobuf message.
    pub(crate) fn value(code: u16, encoding: Encoding, value: &Value) -> Self {
        let bytes = match encoding {
            Encoding::Json => None,
            Encoding::Yaml => match yaml::check_writable(value) {
                Ok(()) => Some(yaml::write(value).into_bytes()),
                Err(why) => return Self::not_encoded(code, why),
            },
            Encoding::Protobuf => protobuf::encode(value),
        };
        match bytes {
            Some(bytes) => Self::bytes(code, encoding.content_type(), bytes),
            None => Self::bytes(code, Encoding::Json.content_type(), go::json(value) + "\n"),
        }
    }

    /// Responds to a request if its result cannot be written as YAML. An error keeps its code.
    pub(super) fn not_encoded(code: u16, why: &str) -> Self {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": why, "code": 500,
        });
        let code = if code < 400 { 500 } else { code };
        Self::bytes(code, Encoding::Yaml.content_type(), yaml::write(&status).into_bytes())
    }

    /// Responds with the `Status` of an error.
    pub(crate) fn error(encoding: Encoding, error: &ApiError) -> Self {
        Self::value(error.code(), encoding, &error.to_json())
    }

    pub(crate) fn into_response(self) -> Response<ResponseBody> {
        let mut response = Response::new(self.body);
        *response.status_mut() =
            http::StatusCode::from_u16(self.code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        if !self.content_type.is_empty() {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        }
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        if self.content_type == TEXT {
            // Go's `http.Error` sets this header, so that a browser does not interpret the text as a page.
            headers.insert(header::X_CONTENT_TYPE_OPTIONS, NO_SNIFF);
        }
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// Responds with an object of the call's resource.
pub(crate) fn stored(call: &Call, code: u16, stored: &Stored) -> Result<Reply, ApiError> {
    let accept = call.accept;
    if (accept.encoding, accept.view) == (Encoding::Json, View::Object)
        && stored.document.len() > AT_ONCE
        && call.served.reads_as_stored(stored)
    {
        // A large document is shared between readers instead of copied.
        let parts = stored.document.parts(&call.served.kind, stored.revision);
        let body = ResponseBody::chunks(parts.into_iter().chain([Bytes::from_static(b"\n")]));
        return Ok(Reply { code, content_type: accept.encoding.content_type(), body, retry_after: None });
    }
    let bytes = match (accept.encoding, accept.view) {
        (Encoding::Json, View::Object) => {
            let mut text = call.served.text(stored, stored.revision);
            text.push(b'\n');
            Some(text)
        }
        (Encoding::Protobuf, View::Object | View::Metadata) => in_protobuf(call, stored, stored.revision),
        _ => None,
    };
    match bytes {
        Some(bytes) => Ok(Reply::bytes(code, accept.encoding.content_type(), bytes)),
        None if accept.view == View::Table => {
            let mut object = call.served.value(stored);
            hide_version_annotations(call, &mut object);
            let objects = [object];
            let mut table = call.table(&objects, &objects[0]["metadata"], ColumnDefinitions::Included)?;
            call.served.print_stored(&mut table["rows"][0], stored, call.cluster.clock.now());
            Ok(Reply::value(code, accept.encoding, &table))
        }
        None => object(call, code, call.served.value(stored)),
    }
}

/// Encodes an object as protobuf, or only its metadata for a metadata view. Returns `None` if it has no message.
pub(crate) fn in_protobuf(call: &Call, stored: &Stored, revision: u64) -> Option<Vec<u8>> {
    let kind = &call.served.kind;
    let (api_version, kind) = match call.accept.view {
        View::Object => (kind.api_version.as_str(), kind.kind.as_str()),
        View::Metadata | View::MetadataList => (call.accept.meta_api_version(), "PartialObjectMetadata"),
        View::Table => return None,
    };
    if call.accept.view != View::Object && call.served.has_version_annotations() {
        let mut object = call.served.value(stored);
        call.served.hide_version_annotations(&mut object);
        metadata::of(&mut object).insert("resourceVersion".to_owned(), json!(revision.to_string()));
        return protobuf::encode_text(api_version, kind, object.to_string().as_bytes());
    }
    // The message of a metadata view has no fields for the rest of the object, which is skipped.
    protobuf::encode_text(api_version, kind, &call.served.text(stored, revision))
}

/// Responds with an object that differs from its stored form, or is not stored.
pub(crate) fn object(call: &Call, code: u16, mut object: Value) -> Result<Reply, ApiError> {
    let accept = call.accept;
    hide_version_annotations(call, &mut object);
    let shown = match accept.view {
        View::Object => object,
        View::Metadata => partial_metadata(accept, &object),
        View::MetadataList => return Err(is_no_list(call, &object)),
        View::Table => {
            let objects = [object];
            call.table(&objects, &objects[0]["metadata"], ColumnDefinitions::Included)?
        }
    };
    Ok(Reply::value(code, accept.encoding, &shown))
}

/// Builds the error for a single object that is requested as a list of metadata.
fn is_no_list(call: &Call, object: &Value) -> ApiError {
    if call.served.is_custom() && call.path.subresource != "scale" {
        return ApiError::internal("content is not a list");
    }
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
    // The scale of a custom object has the type of the API.
    let package = if call.served.is_custom() { "v1" } else { go_package(group) };
    let why = format!(
        "you requested PartialObjectMetadataList, but the requested object is not a list (*{package}.{})",
        text("kind")
    );
    ApiError::new(406, "NotAcceptable", why)
}

/// Removes the annotations that responses with only the metadata of objects do not have.
pub(crate) fn hide_version_annotations(call: &Call, object: &mut Value) {
    let is_whole = match call.accept.view {
        View::Object => true,
        View::Table => call.query.text("includeObject") == "Object",
        View::Metadata | View::MetadataList => false,
    };
    if is_whole {
        return;
    }
    call.served.hide_version_annotations(object);
}

/// Responds with a `Table` of one object with the columns of `resource`.
pub(crate) fn table(call: &Call, resource: &Resource, object: &Value) -> Result<Reply, ApiError> {
    let options = call.table_options()?;
    let mut table = table::table(&resource.columns, [object], &object["metadata"], options);
    table["apiVersion"] = json!(call.accept.meta_api_version());
    Ok(Reply::value(200, call.accept.encoding, &table))
}

/// Reduces an object to `PartialObjectMetadata`.
pub(crate) fn partial_metadata(accept: Accept, object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": accept.meta_api_version(),
        "metadata": object.get("metadata").cloned().unwrap_or_else(|| json!({})),
    })
}

/// Responds with the `Status` of a completed delete.
pub(crate) fn deleted(call: &Call, name: &str, uid: &str) -> Reply {
    let resource = &call.served.resource;
    let mut details = json!({"name": name, "kind": resource.plural, "uid": uid});
    if !resource.group.is_empty() {
        details["group"] = json!(resource.group);
    }
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details});
    Reply::value(200, call.accept.encoding, &status)
}

/// Metadata of a list.
pub(crate) struct ListMeta {
    pub(crate) revision: u64,
    pub(crate) continue_token: Option<String>,
    pub(crate) remaining: Option<usize>,
}

impl ListMeta {
    pub(super) fn to_json(&self, served: &ServedKind) -> Value {
        let mut metadata = json!({"resourceVersion": self.revision.to_string()});
        match &self.continue_token {
            Some(token) => metadata["continue"] = json!(token),
            // In lists of custom kinds, Go writes the field even if it is empty.
            None if served.is_custom() => metadata["continue"] = json!(""),
            None => {}
        }
        if let Some(remaining) = self.remaining {
            metadata["remainingItemCount"] = json!(remaining);
        }
        metadata
    }
}

/// Returns the Go package with the internal types of a builtin group.
pub(super) fn go_package(group: &str) -> &str {
    match group {
        // Events have one internal type in both groups.
        "" | "events.k8s.io" => "core",
        "internal.apiserver.k8s.io" => "apiserverinternal",
        group => group.split('.').next().unwrap_or_default(),
    }
}

impl Call {
    /// Builds the `Table` of objects; `metadata` is that of their list, or of a single object.
    pub(crate) fn table(
        &self,
        objects: &[Value],
        metadata: &Value,
        column_definitions: ColumnDefinitions,
    ) -> Result<Value, ApiError> {
        let options = table::Options { column_definitions, ..self.table_options()? };
        let mut table = table::table(&self.served.resource.columns, objects, metadata, options);
        if self.accept.view_version != "v1" {
            table["apiVersion"] = json!(self.accept.meta_api_version());
        }
        Ok(table)
    }

    /// Returns the table options of the query, for a table with column definitions.
    ///
    /// # Errors
    /// 400 for an invalid `includeObject` of a table.
    pub(super) fn table_options(&self) -> Result<table::Options, ApiError> {
        let include = if self.accept.view == View::Table { self.query.text("includeObject") } else { "" };
        let include = table::IncludeObject::parse(include)?;
        let api_version = self.accept.meta_api_version();
        let column_definitions = ColumnDefinitions::Included;
        Ok(table::Options { include, now: self.cluster.clock.now(), column_definitions, api_version })
    }
}
