//! The page for browsers: one file without data. Its script sends requests to the API with the token that its user enters.

use bytes::Bytes;
use http::{
    HeaderValue, Method, StatusCode,
    header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, REFERRER_POLICY},
};

use crate::serving::{HttpRequest, HttpResponse, text};

/// Path of the page.
pub(in crate::manager) const PAGE: &str = "/explain/";

const HTML: &str = include_str!("page.html");
/// SHA-256 of the page, of its style and of its script, in base64; checked by a test.
const SHA: &str = "FEOMJKb7paWNKqq1F79xvxFLkGilYDqOIEnD1T5Deck=";
const STYLE_SHA: &str = "dZJ7G1LWHGLeSz2oTLJU8vYLMq2WLIPhVOl1i9PirJw=";
const SCRIPT_SHA: &str = "hjxnWfMveVmQtcGlfHsjkaj5kLazRWFvGp0TnvclS0I=";

pub(in crate::manager) fn answer(request: &HttpRequest) -> HttpResponse {
    if request.method() != Method::GET {
        return text(StatusCode::METHOD_NOT_ALLOWED, "only GET is allowed\n");
    }
    let tag = format!("\"{SHA}\"");
    let known = request.headers().get(IF_NONE_MATCH).and_then(|tags| tags.to_str().ok());
    let is_known = known.is_some_and(|tags| tags.split(',').any(|known| known.trim() == tag));
    let mut response = match is_known {
        true => text(StatusCode::NOT_MODIFIED, Bytes::new()),
        false => text(StatusCode::OK, HTML),
    };
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{STYLE_SHA}'; script-src 'sha256-{SCRIPT_SHA}'; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    for (name, value) in [(CONTENT_SECURITY_POLICY, policy), (ETAG, tag)] {
        headers.insert(name, HeaderValue::from_str(&value).expect("hashes are ASCII"));
    }
    response
}

#[cfg(test)]
mod tests {
    use base64::{Engine, prelude::BASE64_STANDARD};
    use ring::digest::{SHA256, digest};

    use super::*;

    fn sha(text: &str) -> String {
        BASE64_STANDARD.encode(digest(&SHA256, text.as_bytes()))
    }

    fn between(open: &str, close: &str) -> &'static str {
        let (_, rest) = HTML.split_once(open).expect("it opens");
        rest.split_once(close).expect("it closes").0
    }

    #[test]
    fn the_hashes_match_the_page() {
        let hashes = [sha(HTML), sha(between("<style>", "</style>")), sha(between("<script>", "</script>"))];
        assert_eq!(
            hashes.each_ref().map(String::as_str),
            [SHA, STYLE_SHA, SCRIPT_SHA],
            "write these into page.rs"
        );
    }

    #[test]
    fn the_page_is_small_and_asks_no_other_site() {
        assert!(HTML.len() <= 60_000, "{} bytes", HTML.len());
        for forbidden in [
            "http://",
            "https://",
            "innerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            " style=",
            "onclick=\"",
        ] {
            let svg = "http://www.w3.org/2000/svg";
            assert!(!HTML.replace(svg, "").contains(forbidden), "{forbidden}");
        }
        assert_eq!((HTML.matches("<script").count(), HTML.matches("<style").count()), (1, 1));
    }

    #[test]
    fn a_known_page_is_not_sent_again() {
        let mut request = HttpRequest::new(());
        let first = answer(&request);
        assert_eq!((first.status(), first.body().len()), (StatusCode::OK, HTML.len()));
        request.headers_mut().insert(IF_NONE_MATCH, first.headers()[ETAG].clone());
        let again = answer(&request);
        assert_eq!((again.status(), again.body().len()), (StatusCode::NOT_MODIFIED, 0));
        request.headers_mut().insert(IF_NONE_MATCH, HeaderValue::from_static("\"other\""));
        assert_eq!(answer(&request).status(), StatusCode::OK);
        *request.method_mut() = Method::POST;
        assert_eq!(answer(&request).status(), StatusCode::METHOD_NOT_ALLOWED);
    }
}
