//! `/openapi/v3`: the index, and documents that clients may keep for as long as their hash holds.

use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};

use super::body::ResponseBody;
use super::dispatch::text;
use crate::discovery;
use crate::openapi::{self, Published};
use crate::registry::Registry;
use crate::request::accept::Encoding;
use crate::request::query::Query;
use crate::verbs::reply::Reply;

/// Answers `/openapi/v3` (`path` is empty) and what lies below it.
pub(super) fn answer(registry: &Registry, path: &str, head: &Parts) -> Response<ResponseBody> {
    let published: Vec<Published<'_>> = registry
        .all()
        .map(|served| Published {
            resource: &served.resource,
            schema: served.custom.as_ref().map(|custom| &custom.schema),
        })
        .collect();
    if path.is_empty() {
        let index = openapi::index(&published);
        let tag = discovery::etag(index.to_string().as_bytes());
        return tagged(Reply::value(200, Encoding::Json, &index).into_response(), &tag, head);
    }
    let Some(hash) = openapi::hash(&published, path) else {
        let mut response = Reply::text(404, "").into_response();
        response.headers_mut().remove(header::CONTENT_TYPE);
        return response;
    };
    let wanted = Query::parse(head.uri.query().unwrap_or_default()).get("hash").map(ToString::to_string);
    if wanted.as_ref().is_some_and(|wanted| *wanted != hash) {
        let mut response = Reply::bytes(301, "application/json", "").into_response();
        let location = format!("/openapi/v3/{path}?hash={hash}");
        set(response.headers_mut(), header::LOCATION, &location);
        return response;
    }
    let Some(document) = openapi::document(&published, path) else {
        return Reply::text(404, "").into_response();
    };
    let response = Reply::value(200, Encoding::Json, &document).into_response();
    let mut response = tagged(response, &hash, head);
    if wanted.is_some() {
        set(response.headers_mut(), header::CACHE_CONTROL, "public, immutable, max-age=31536000");
    }
    response
}

/// The answer with its tag, or 304 without a body if the client has it already.
fn tagged(mut response: Response<ResponseBody>, tag: &str, head: &Parts) -> Response<ResponseBody> {
    let tag = format!("\"{tag}\"");
    if text(&head.headers, header::IF_NONE_MATCH).is_some_and(|known| known.contains(&tag)) {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        *response.body_mut() = ResponseBody::full("");
    }
    let headers = response.headers_mut();
    set(headers, header::ETAG, &tag);
    set(headers, header::VARY, "Accept");
    response
}

fn set(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}
