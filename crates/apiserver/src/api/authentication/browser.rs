//! Refusal of requests from websites to a server that needs no credentials.
//!
//! A website can make its visitor's browser send requests to a server on the visitor's machine, where every client is admin. Such a request
//! names the website in `Origin`, or in `Host` if the website's domain name resolves to this machine (DNS rebinding). A request is refused
//! if its `Host` is a name other than those of this machine and of the Service `kubernetes`, or if its `Origin` is not the server itself.
//! Every IP address is accepted in `Host`, because a request that was redirected by DNS rebinding has a domain name there.

use std::net::{IpAddr, SocketAddr};

use http::header::{self, HeaderMap};
use http::request::Parts;
use http::uri::Authority;
use kube_apimachinery::status::ApiError;

/// Names of the Service `kubernetes`.
const SERVICE: [&str; 4] =
    ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"];

/// Refuses requests that a website may have sent.
///
/// # Errors
/// 403 with the header.
pub(crate) fn refuse_foreign(head: &Parts) -> Result<(), ApiError> {
    let refuse = |header: &str, value: &str| {
        let why = format!(
            "requests with {header} {value:?} are refused, because this server needs no credentials and the request may come \
             from a website: use the server's address, or start it with tokens"
        );
        Err(ApiError::new(403, "Forbidden", why).with_details("", "", ""))
    };
    let host = text(&head.headers, header::HOST)
        .or_else(|| head.uri.authority().map(Authority::as_str))
        .unwrap_or_default();
    // HTTP/1.0 needs no `Host`; browsers always send it.
    if !host.is_empty() && !is_local(host) {
        return refuse("Host", host);
    }
    match text(&head.headers, header::ORIGIN) {
        // Clients of WebSockets may send the address of the server as the origin.
        Some(origin) if origin.split_once("://").is_none_or(|(_, origin)| origin != host) => {
            refuse("Origin", origin)
        }
        _ => Ok(()),
    }
}

/// Whether a host with an optional port is an address, or a name of this machine or of the Service `kubernetes`.
fn is_local(host: &str) -> bool {
    // The usual case, and cheaper than the syntax of authorities.
    if host.parse::<SocketAddr>().is_ok() {
        return true;
    }
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host().to_ascii_lowercase();
    let name = name.trim_end_matches('.');
    let address = name.trim_start_matches('[').trim_end_matches(']');
    name == "localhost"
        || name.ends_with(".localhost")
        || SERVICE.contains(&name)
        || address.parse::<IpAddr>().is_ok()
}

/// Returns the text of a header. A value that is not text counts as foreign.
fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    headers.get(name).map(|value| value.to_str().unwrap_or("?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(headers: &[(&str, &str)], allowed: bool) {
        let mut request = http::Request::get("/api/v1/pods");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = refuse_foreign(&request.body(()).unwrap().into_parts().0);
        assert_eq!(answer.is_ok(), allowed, "{headers:?}: {answer:?}");
    }

    #[test]
    fn hosts_are_addresses_and_names_of_this_machine() {
        for host in [
            "localhost:6443",
            "LOCALHOST",
            "127.0.0.1:80",
            "[::1]:80",
            "10.0.0.1",
            "kubernetes.default.svc:443",
        ] {
            check(&[("host", host)], true);
        }
        for host in ["evil.example.com", "localhost.example.com:80", "127.0.0.1.example.com", "a b", ""] {
            check(&[("host", host)], host.is_empty());
        }
        check(&[], true);
    }

    #[test]
    fn an_origin_is_the_server_itself() {
        let host = ("host", "127.0.0.1:80");
        check(&[host, ("origin", "http://127.0.0.1:80")], true);
        for origin in ["http://127.0.0.1:81", "http://localhost:80", "https://example.com", "null", ""] {
            check(&[host, ("origin", origin)], false);
        }
        check(&[("host", "example.com"), ("origin", "http://example.com")], false);
    }
}
