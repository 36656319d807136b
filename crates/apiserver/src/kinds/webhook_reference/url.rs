//! URLs of webhooks, with the errors of Go's `net/url`.

use kube_apimachinery::go::quote;

/// Parts of a URL that the URL of a webhook must or must not have.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Url<'a> {
    pub(super) scheme: String,
    pub(super) host: &'a str,
    pub(super) user: Option<&'a str>,
    pub(super) query: &'a str,
    pub(super) fragment: &'a str,
}

/// Parses a URL.
///
/// # Errors
/// Go's message for an invalid URL. Of the rules for hosts only the most frequent ones are checked.
pub(super) fn parse(text: &str) -> Result<Url<'_>, String> {
    split(text).map_err(|why| format!("parse {}: {why}", quote(text)))
}

fn split(text: &str) -> Result<Url<'_>, String> {
    let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
    if rest.chars().any(|c| c.is_ascii_control()) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    let (scheme, rest) = scheme(rest)?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let mut url = Url { scheme: scheme.to_lowercase(), host: "", user: None, query, fragment };
    if !rest.starts_with('/') {
        // An opaque URL such as `mailto:a@example.com`, which has no host.
        if !scheme.is_empty() {
            return Ok(url);
        }
        if rest.split('/').next().unwrap_or_default().contains(':') {
            return Err("first path segment in URL cannot contain colon".to_owned());
        }
    }
    let mut path = rest;
    if let Some(authority) =
        rest.strip_prefix("//").filter(|_| !scheme.is_empty() || !rest.starts_with("///"))
    {
        let end = authority.find('/').unwrap_or(authority.len());
        path = &authority[end..];
        let authority = &authority[..end];
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        check_host(host)?;
        (url.user, url.host) = (user, host);
    }
    check_escapes(path)?;
    check_escapes(fragment)?;
    Ok(url)
}

fn scheme(text: &str) -> Result<(&str, &str), String> {
    for (at, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            ':' if at == 0 => return Err("missing protocol scheme".to_owned()),
            ':' => return Ok((&text[..at], &text[at + 1..])),
            _ => break,
        }
    }
    Ok(("", text))
}

fn check_host(host: &str) -> Result<(), String> {
    let (name, port) = match host.rfind(']') {
        Some(end) if host.starts_with('[') => (&host[1..end], &host[end + 1..]),
        None if host.starts_with('[') => return Err("missing ']' in host".to_owned()),
        _ => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let is_port =
        |port: &str| port.strip_prefix(':').is_some_and(|port| port.bytes().all(|c| c.is_ascii_digit()));
    if !port.is_empty() && !is_port(port) {
        return Err(format!("invalid port {} after host", quote(port)));
    }
    let allowed =
        |c: char| !c.is_ascii() || c.is_ascii_alphanumeric() || "-_.~!$&'()*+,;=:[]<>\"%".contains(c);
    match name.chars().find(|c| !allowed(*c)) {
        Some(c) => Err(format!("invalid character {} in host name", quote(&c.to_string()))),
        None => check_escapes(name),
    }
}

fn check_escapes(text: &str) -> Result<(), String> {
    let bytes = text.as_bytes();
    for at in (0..bytes.len()).filter(|at| bytes[*at] == b'%') {
        let digits = bytes.get(at + 1..at + 3);
        if !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
            let shown: String = text[at..].chars().take(3).collect();
            return Err(format!("invalid URL escape {}", quote(&shown)));
        }
    }
    Ok(())
}
