//! Handlers of `/openapi/v2` and `/openapi/v3`. Clients may cache a document for as long as its entity tag, or the hash
//! in its URL, is current. Responses follow the handlers of kube-openapi.

use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, header};
use jiff::{Span, Timestamp};
use serde_json::Value;

use super::Server;
use super::dispatch::text;
use crate::api::verbs::reply::Reply;
use crate::http::discovery;
use crate::http::openapi::{self, Published, Swagger, gnostic};
use crate::kind::registry::Registry;
use crate::request::accept::ranges;
use crate::request::query::Query;
use crate::response::ResponseBody;

/// Encoding of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DocumentEncoding {
    Json,
    Protobuf,
}

impl DocumentEncoding {
    /// Returns the encoding of the first known media type; `None` means 406. `names` are the two names of protobuf: the
    /// first is not a valid Content-Type, so responses always use the second.
    fn negotiate(head: &Parts, names: [&str; 2]) -> Option<Self> {
        let accept = text(&head.headers, header::ACCEPT).filter(|accept| !accept.trim().is_empty());
        ranges(accept.as_deref().unwrap_or("*/*")).iter().find_map(|range| match range.media_type {
            "application/json" | "application/*" | "*/*" => Some(Self::Json),
            name if names.contains(&name) => Some(Self::Protobuf),
            _ => None,
        })
    }
}

const V2: [&str; 2] = [
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
];
const V3: [&str; 2] = [
    "application/com.github.proto-openapi.spec.v3@v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v3.v1.0+protobuf",
];

fn published(registry: &Registry) -> Vec<Published<'_>> {
    let described = registry.all().map(|served| Published {
        resource: &served.resource,
        schema: served.custom.as_ref().map(|custom| &custom.schema),
    });
    described.collect()
}

/// Answers `/openapi/v2`.
pub(crate) async fn all_in_one(server: &Server, registry: &Registry, head: &Parts) -> Response<ResponseBody> {
    let Some(form) = DocumentEncoding::negotiate(head, V2) else {
        return not_acceptable();
    };
    let published = published(registry);
    let validators =
        DocumentValidators { tag: openapi::hash_of_all(&published), since: server.cluster.registry_since() };
    let content_type = if form == DocumentEncoding::Json { "application/json" } else { V2[1] };
    // Compared before the document is built, which is expensive.
    if let Some(response) = validators.unchanged(head) {
        return response;
    }
    let mut swagger = Swagger::default();
    for path in openapi::paths(&published) {
        swagger.add(&published, &path);
        // Building the document takes a while, so other tasks of this thread run in between.
        tokio::task::yield_now().await;
    }
    let document = swagger.finish();
    tokio::task::yield_now().await;
    let bytes = if form == DocumentEncoding::Json {
        document.to_string().into_bytes()
    } else {
        gnostic::of_swagger(&document)
    };
    validators.answer(content_type, bytes)
}

/// Answers `/openapi/v3` (empty `path`) and the documents below it.
pub(crate) fn answer(
    server: &Server,
    registry: &Registry,
    path: &str,
    head: &Parts,
) -> Response<ResponseBody> {
    let published = published(registry);
    let since = server.cluster.registry_since();
    if path.is_empty() {
        let index = openapi::index(&published).to_string();
        let validators = DocumentValidators { tag: discovery::etag(index.as_bytes()), since };
        let unchanged = validators.unchanged(head);
        // The genuine handler sets no type, so Go's HTTP server guesses it from the text.
        return unchanged
            .unwrap_or_else(|| validators.answer("text/plain; charset=utf-8", index.into_bytes()));
    }
    let Some(tag) = openapi::hash(&published, path) else {
        return empty(404);
    };
    let Some(form) = DocumentEncoding::negotiate(head, V3) else {
        return not_acceptable();
    };
    let content_type = if form == DocumentEncoding::Json { "application/json" } else { V3[1] };
    let wanted = Query::parse(head.uri.query().unwrap_or_default()).get("hash").map(ToString::to_string);
    let wanted = wanted.filter(|wanted| !wanted.is_empty());
    // The client read the hash from an older index: it is redirected to the current document.
    if wanted.as_ref().is_some_and(|wanted| *wanted != tag) {
        let mut response = Reply::bytes(301, content_type, "").into_response();
        set(response.headers_mut(), header::LOCATION, &format!("/openapi/v3/{path}?hash={tag}"));
        set(response.headers_mut(), header::ETAG, &format!("\"{tag}\""));
        set(response.headers_mut(), header::VARY, "Accept");
        return response;
    }
    let validators = DocumentValidators { tag, since };
    let mut response = match validators.unchanged(head) {
        Some(response) => response,
        None => match openapi::document(&published, path) {
            Some(document) => validators.answer(content_type, written(&document, form)),
            None => return empty(404),
        },
    };
    if wanted.is_some() {
        // A document with its hash in the URL never changes.
        set(response.headers_mut(), header::CACHE_CONTROL, "public, immutable");
        if let Some(expires) = in_a_year(server.cluster.clock.now()) {
            set(response.headers_mut(), header::EXPIRES, &http_date(expires));
        }
    }
    response
}

fn written(document: &Value, form: DocumentEncoding) -> Vec<u8> {
    match form {
        DocumentEncoding::Json => document.to_string().into_bytes(),
        DocumentEncoding::Protobuf => gnostic::of_document(document),
    }
}

/// Entity tag and `Last-Modified` of a document, for conditional requests.
struct DocumentValidators {
    tag: String,
    since: Timestamp,
}

impl DocumentValidators {
    /// Returns the 304 if the client has the document. An entity tag takes precedence over a time.
    fn unchanged(&self, head: &Parts) -> Option<Response<ResponseBody>> {
        let quoted = format!("\"{}\"", self.tag);
        let is_known = match text(&head.headers, header::IF_NONE_MATCH) {
            Some(known) => {
                known.split(',').any(|known| [&quoted, "*"].contains(&known.trim().trim_start_matches("W/")))
            }
            None => {
                let known = text(&head.headers, header::IF_MODIFIED_SINCE);
                let is_read = [Method::GET, Method::HEAD].contains(&head.method);
                is_read && known.and_then(|known| read_http_date(&known)) >= Some(self.since.as_second())
            }
        };
        is_known.then(|| {
            let mut response = empty(304);
            set(response.headers_mut(), header::ETAG, &quoted);
            set(response.headers_mut(), header::VARY, "Accept");
            response
        })
    }

    fn answer(&self, content_type: &'static str, bytes: Vec<u8>) -> Response<ResponseBody> {
        let mut response = Reply::bytes(200, content_type, bytes).into_response();
        let headers = response.headers_mut();
        set(headers, header::ETAG, &format!("\"{}\"", self.tag));
        set(headers, header::VARY, "Accept");
        set(headers, header::LAST_MODIFIED, &http_date(self.since));
        response
    }
}

fn not_acceptable() -> Response<ResponseBody> {
    let mut response = empty(406);
    set(response.headers_mut(), header::VARY, "Accept");
    response
}

/// Builds a response without body and Content-Type.
fn empty(code: u16) -> Response<ResponseBody> {
    let mut response = Reply::text(code, "").into_response();
    response.headers_mut().remove(header::CONTENT_TYPE);
    response
}

fn in_a_year(now: Timestamp) -> Option<Timestamp> {
    now.checked_add(Span::new().hours(365 * 24)).ok()
}

const HTTP_DATE: &str = "%a, %d %b %Y %H:%M:%S GMT";

fn http_date(time: Timestamp) -> String {
    time.strftime(HTTP_DATE).to_string()
}

/// Parses a date header in its current standard format to seconds since the epoch.
fn read_http_date(text: &str) -> Option<i64> {
    let time = jiff::civil::DateTime::strptime(HTTP_DATE, text).ok()?;
    Some(time.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_second())
}

fn set(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}
