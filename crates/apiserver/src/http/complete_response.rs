//! Final steps of every response: audit id, indentation, and compression.

use bytes::Bytes;
use http::header::{self, HeaderMap};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Response, StatusCode};
use kube_apimachinery::go;
use serde_json::Value;

use super::Server;
use super::dispatch::text;
use super::gzip;
use crate::request::accept::{self, Accept};
use crate::request::query::Query;
use crate::response::ResponseBody;

/// Header that identifies a request in the logs of client and server.
const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
/// Size above which bodies are compressed, in bytes, as in kube-apiserver.
const COMPRESSED_ABOVE: usize = 128 << 10;
/// Prefixes of user agents that receive indented JSON, because people read their output.
const INDENTED_AGENTS: [&str; 3] = ["curl", "Wget", "Mozilla/5.0"];

/// Completes the response to the request with this head.
pub(crate) fn complete_response(server: &Server, head: &Parts, response: &mut Response<ResponseBody>) {
    let id = head.headers.get(AUDIT_ID).filter(|id| !id.is_empty()).cloned();
    let id = id.or_else(|| HeaderValue::try_from(server.cluster.audit_id()).ok());
    response.headers_mut().extend(id.map(|id| (AUDIT_ID, id)));
    if head.method == Method::HEAD {
        *response.body_mut() = ResponseBody::full(Bytes::new());
        return;
    }
    let is_indented = wants_indentation(head) || (is_error(response) && accepts_no_status(&head.headers));
    if is_json(response.headers()) && is_indented {
        let mut indenter = Indenter::default();
        if let Some(body) = response.body().as_full() {
            let pretty = indenter.indent(body);
            *response.body_mut() = ResponseBody::full(pretty);
        } else if let Some(body) = response.body_mut().take_chunks() {
            let pretty = body.map(move |chunk| Bytes::from(indenter.indent(&chunk)));
            *response.body_mut() = ResponseBody::chunks(pretty);
        }
    }
    if gzip::AVAILABLE
        && is_large(response.body())
        && response.status() != StatusCode::NOT_MODIFIED
        && accepts_gzip(&head.headers)
        && let Some(body) = response.body_mut().take_chunks()
    {
        *response.body_mut() = ResponseBody::chunks(gzip::compress(body));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    }
}

fn is_large(body: &ResponseBody) -> bool {
    body.is_in_chunks() || body.as_full().is_some_and(|body| body.len() > COMPRESSED_ABOVE)
}

fn is_error(response: &Response<ResponseBody>) -> bool {
    response.status().is_client_error() || response.status().is_server_error()
}

/// Whether the client accepts no form of a `Status`. Then errors are indented JSON.
fn accepts_no_status(headers: &HeaderMap) -> bool {
    Accept::of_error(text(headers, header::ACCEPT).as_deref()).is_none()
}

fn is_json(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"))
}

/// Whether to indent JSON: as the parameter `pretty` of `Accept` or of the query requests, or by the user agent if both are absent.
fn wants_indentation(head: &Parts) -> bool {
    // The parameter of the chosen range, which is the first one in almost every request, comes before the query.
    let accepted = text(&head.headers, header::ACCEPT).filter(|accept| accept.contains("pretty"));
    let ranges = accepted.as_deref().map(accept::ranges).unwrap_or_default();
    if ranges.first().and_then(|range| range.parameter("pretty")) == Some("1") {
        return true;
    }
    let query = head.uri.query().unwrap_or_default();
    // This test avoids parsing the query of most requests.
    if query.contains("pretty") {
        let query = Query::parse(query);
        let value = query.text("pretty");
        if !value.is_empty() {
            // Values that Go parses as true.
            return ["1", "t", "T", "TRUE", "true", "True"].contains(&value);
        }
    }
    let agent = head.headers.get(header::USER_AGENT).map(HeaderValue::as_bytes).unwrap_or_default();
    INDENTED_AGENTS.iter().any(|prefix| agent.starts_with(prefix.as_bytes()))
}

/// Whether the client accepts `gzip`. As in kube-apiserver, an entry with a weight is ignored.
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).any(|encoding| encoding.trim() == "gzip")
}

/// Returns the indented JSON of a document that is indented for every client.
pub(super) fn indented(document: &Value) -> Vec<u8> {
    Indenter::default().indent(go::json(document).as_bytes())
}

/// Indents JSON by two spaces per level, like Go's `json.MarshalIndent`. Members keep their order.
#[derive(Default)]
struct Indenter {
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// Whether the last byte opened a list or an object, which may be empty.
    just_began: bool,
}

impl Indenter {
    /// Indents the next chunk of a text. A chunk may end at any byte.
    fn indent(&mut self, compact: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(compact.len() * 2);
        for &byte in compact {
            if self.in_string {
                out.push(byte);
                self.in_string = self.escaped || byte != b'"';
                self.escaped = !self.escaped && byte == b'\\';
                continue;
            }
            if matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                continue;
            }
            let ends = matches!(byte, b'}' | b']');
            if ends {
                self.depth = self.depth.saturating_sub(1);
            }
            // Empty lists and objects stay on one line.
            if std::mem::take(&mut self.just_began) != ends {
                self.new_line(&mut out);
            }
            out.push(byte);
            match byte {
                b'{' | b'[' => {
                    self.depth += 1;
                    self.just_began = true;
                }
                b',' => self.new_line(&mut out),
                b':' => out.push(b' '),
                _ => self.in_string = byte == b'"',
            }
        }
        out
    }

    fn new_line(&self, out: &mut Vec<u8>) {
        out.push(b'\n');
        out.resize(out.len() + 2 * self.depth, b' ');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn indented_json_is_laid_out_as_go_does_it() {
        let compact =
            json!({"a": {}, "b": [], "c": [1, {"d": "x\\\"{,:[", "e": null}], "f": "\\"}).to_string();
        expect![[r#"
            {
              "a": {},
              "b": [],
              "c": [
                1,
                {
                  "d": "x\\\"{,:[",
                  "e": null
                }
              ],
              "f": "\\"
            }"#]]
        .assert_eq(&String::from_utf8(Indenter::default().indent(compact.as_bytes())).unwrap());
    }

    #[test]
    fn json_is_indented_for_browsers_and_on_request() {
        let wants = |query: &str, agent: &str| {
            let request = http::Request::get(format!("/api{query}")).header(header::USER_AGENT, agent);
            wants_indentation(&request.body(()).unwrap().into_parts().0)
        };
        for agent in ["curl/8.5.0", "Wget/1.21", "Mozilla/5.0 (X11)"] {
            assert!(
                wants("", agent) && wants("?pretty=", agent) && !wants("?pretty=false", agent),
                "{agent}"
            );
        }
        assert!(!wants("", "kubectl/v1.36.3") && !wants("?pretty=maybe", "kubectl/v1.36.3"));
        assert!(wants("?limit=1&pretty=true", "kubectl/v1.36.3") && wants("?pretty=1", "a curl"));
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[ -~\n\u{e9}]{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[ -~]{0,6}", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_json_is_indented_as_the_library_does_it_wherever_it_is_cut(
            value in value(), cut in any::<prop::sample::Index>(),
        ) {
            let expected = serde_json::to_string_pretty(&value).unwrap();
            let text = value.to_string();
            let (first, second) = text.as_bytes().split_at(cut.index(text.len() + 1));
            let mut indenter = Indenter::default();
            let pretty = [indenter.indent(first), indenter.indent(second)].concat();
            prop_assert_eq!(String::from_utf8(pretty).unwrap(), expected);
        }
    }
}
