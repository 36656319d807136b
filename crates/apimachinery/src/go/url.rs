//! URLs as Go's `net/url` parses them, with its error messages.

use std::borrow::Cow;
use std::fmt::Write;

use super::{netip, quote};

/// A parsed URL. Two URLs are equal if Go prints them the same.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Url {
    scheme: String,
    /// Text after the scheme, if it does not begin with a slash.
    opaque: String,
    /// User and password, with Go's escape sequences.
    user: Option<String>,
    host: String,
    path: String,
    has_query: bool,
    query: String,
    fragment: Vec<u8>,
}

/// Form of a URL, which decides about relative ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UrlForm {
    /// Absolute, or an absolute path, as in a request.
    Request,
    /// Any, such as that of a link.
    Reference,
}

/// Part of a URL, which decides about the characters that need no escape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UrlPart {
    Path,
    User,
    Host,
    Zone,
    Query,
    Fragment,
}

impl Url {
    /// Parses an absolute URL or an absolute path, as `url.ParseRequestURI` does.
    ///
    /// # Errors
    /// Go's message.
    pub fn parse_request(text: &str) -> Result<Self, String> {
        parse(text, UrlForm::Request).map_err(|why| refusal(text, &why))
    }

    /// Parses a URL, which may be relative and have a fragment.
    ///
    /// # Errors
    /// Go's message.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (head, fragment) = text.split_once('#').unwrap_or((text, ""));
        let mut url = parse(head, UrlForm::Reference).map_err(|why| refusal(head, &why))?;
        url.fragment = unescape(fragment, UrlPart::Fragment).map_err(|why| refusal(text, &why))?;
        Ok(url)
    }

    /// Returns the scheme in lower case; empty for a path.
    #[must_use]
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// Returns user and password with escape sequences: `user:password`.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Returns the host with its port.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the host without port and brackets, and the port.
    #[must_use]
    pub fn host_and_port(&self) -> (&str, &str) {
        let (host, port) = match self.host.rfind(':') {
            Some(colon) if is_port(&self.host[colon..]) => (&self.host[..colon], &self.host[colon + 1..]),
            _ => (&*self.host, ""),
        };
        (host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host), port)
    }

    /// Returns the path with its escape sequences.
    #[must_use]
    pub fn escaped_path(&self) -> &str {
        &self.path
    }

    /// Returns the query as it is written in the URL; empty if there is none.
    #[must_use]
    pub fn written_query(&self) -> &str {
        &self.query
    }

    /// Returns the decoded fragment; empty if there is none.
    #[must_use]
    pub fn fragment(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.fragment)
    }

    /// Returns the parameters of the query, those of a name together, in the order of their first occurrence. Malformed ones are skipped.
    #[must_use]
    pub fn query(&self) -> Vec<(String, Vec<String>)> {
        let mut found: Vec<(String, Vec<String>)> = Vec::new();
        for parameter in self.query.split('&').filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let decoded = |text: &str| {
                let bytes = unescape(text, UrlPart::Query).ok()?;
                Some(String::from_utf8_lossy(&bytes).into_owned())
            };
            let Some((name, value)) = decoded(name).zip(decoded(value)).filter(|_| !parameter.contains(';'))
            else {
                continue;
            };
            match found.iter_mut().find(|(known, _)| *known == name) {
                Some((_, values)) => values.push(value),
                None => found.push((name, vec![value])),
            }
        }
        found
    }
}

fn refusal(text: &str, why: &str) -> String {
    format!("parse {}: {why}", quote(text))
}

/// Parses a URL without a fragment.
fn parse(text: &str, form: UrlForm) -> Result<Url, String> {
    if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    if text.is_empty() && form == UrlForm::Request {
        return Err("empty url".to_owned());
    }
    let mut url = Url::default();
    if text == "*" {
        url.path = text.to_owned();
        return Ok(url);
    }
    let (scheme, rest) = split_scheme(text)?;
    url.scheme = scheme.to_ascii_lowercase();
    let (mut rest, query) = match rest.split_once('?') {
        Some((rest, query)) => (rest, Some(query)),
        None => (rest, None),
    };
    url.has_query = query.is_some();
    url.query = query.unwrap_or_default().to_owned();
    if !rest.starts_with('/') {
        if !url.scheme.is_empty() {
            url.opaque = rest.to_owned();
            return Ok(url);
        }
        if form == UrlForm::Request {
            return Err("invalid URI for request".to_owned());
        }
        if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
            return Err("first path segment in URL cannot contain colon".to_owned());
        }
    }
    // The path of a request may begin with two slashes. In a reference, three slashes are a path, too.
    let may_have_host = !url.scheme.is_empty() || form == UrlForm::Reference && !rest.starts_with("///");
    if let Some(authority) = rest.strip_prefix("//").filter(|_| may_have_host) {
        let end = authority.find('/').unwrap_or(authority.len());
        rest = &authority[end..];
        url.set_authority(&authority[..end])?;
    }
    let decoded = unescape(rest, UrlPart::Path)?;
    url.path = if is_encoded(rest) { rest.to_owned() } else { escape(&decoded, UrlPart::Path) };
    Ok(url)
}

impl Url {
    /// Sets user and host from the text between `//` and the path.
    fn set_authority(&mut self, authority: &str) -> Result<(), String> {
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        self.host = parse_host(&self.scheme, host)?;
        if let Some(user) = user {
            let is_valid = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
            if !user.chars().all(is_valid) {
                return Err("net/url: invalid userinfo".to_owned());
            }
            let escaped =
                |text: &str| unescape(text, UrlPart::User).map(|bytes| escape(&bytes, UrlPart::User));
            self.user = Some(match user.split_once(':') {
                Some((name, password)) => format!("{}:{}", escaped(name)?, escaped(password)?),
                None => escaped(user)?,
            });
        }
        Ok(())
    }
}

/// Splits the scheme from the rest; it is empty if the text has none.
fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return Err("missing protocol scheme".to_owned()),
            b':' => return Ok((&text[..at], &text[at + 1..])),
            _ => break,
        }
    }
    Ok(("", text))
}

fn parse_host(scheme: &str, host: &str) -> Result<String, String> {
    let decoded = |text: &str, part: UrlPart| {
        unescape(text, part).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    };
    let invalid_port = |port: &str| Err(format!("invalid port {} after host", quote(port)));
    match host.rfind('[') {
        Some(1..) => return Err("invalid IP-literal".to_owned()),
        Some(_) => {
            let Some((name, port)) = host[1..].rsplit_once(']') else {
                return Err("missing ']' in host".to_owned());
            };
            if !is_port(port) {
                return invalid_port(port);
            }
            let name = match name.find("%25") {
                Some(zone) => {
                    decoded(&name[..zone], UrlPart::Host)? + &decoded(&name[zone..], UrlPart::Zone)?
                }
                None => decoded(name, UrlPart::Host)?,
            };
            let address = netip::address(&name).map_err(|why| format!("invalid host: {why}"))?;
            if address.address.is_ipv4() {
                return Err("invalid IP-literal".to_owned());
            }
            return Ok(format!("[{name}]{port}"));
        }
        None => {}
    }
    // URLs of databases may name several hosts: `mongodb://a:1,b:2`. So for other schemes Go checks only what follows the last colon.
    let is_strict = matches!(scheme, "http" | "https");
    let colon = if is_strict { host.find(':') } else { host.rfind(':') };
    if let Some(port) = colon.map(|colon| &host[colon..]).filter(|port| !is_port(port)) {
        return invalid_port(port);
    }
    decoded(host, UrlPart::Host)
}

/// Whether this is empty, or a colon and digits.
fn is_port(text: &str) -> bool {
    text.strip_prefix(':').map_or(text.is_empty(), |port| port.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether a byte stands for itself in a part.
fn is_plain(byte: u8, part: UrlPart) -> bool {
    byte.is_ascii_alphanumeric()
        || b"-_.~".contains(&byte)
        || match part {
            UrlPart::Host | UrlPart::Zone => b"!$&'()*+,;=:[]<>\"".contains(&byte),
            UrlPart::User => b"$&+,;=".contains(&byte),
            _ => b"$&+,/:;=@".contains(&byte),
        }
}

/// Decodes escape sequences.
fn unescape(text: &str, part: UrlPart) -> Result<Vec<u8>, String> {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let is_host = matches!(part, UrlPart::Host | UrlPart::Zone);
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'%' => {
                let shown = String::from_utf8_lossy(&bytes[at..bytes.len().min(at + 3)]).into_owned();
                let refused = || format!("invalid URL escape {}", quote(&shown));
                let (high, low) = digit(at + 1).zip(digit(at + 2)).ok_or_else(refused)?;
                let value = u8::try_from(16 * high + low).unwrap_or_default();
                let is_refused = match part {
                    // In a host only bytes outside of ASCII may be escaped.
                    UrlPart::Host => high < 8 && shown != "%25",
                    UrlPart::Zone => shown != "%25" && value != b' ' && !is_plain(value, UrlPart::Host),
                    _ => false,
                };
                if is_refused {
                    return Err(refused());
                }
                decoded.push(value);
                at += 3;
                continue;
            }
            b'+' if part == UrlPart::Query => decoded.push(b' '),
            byte if is_host && byte.is_ascii() && !is_plain(*byte, part) => {
                let shown = quote(char::from(*byte).encode_utf8(&mut [0; 4]));
                return Err(format!("invalid character {shown} in host name"));
            }
            byte => decoded.push(*byte),
        }
        at += 1;
    }
    Ok(decoded)
}

/// Whether a path is a valid encoding of itself.
fn is_encoded(path: &str) -> bool {
    path.bytes().all(|byte| b"!'()*[]%".contains(&byte) || is_plain(byte, UrlPart::Path))
}

fn escape(text: &[u8], part: UrlPart) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text {
        if is_plain(*byte, part) {
            escaped.push(char::from(*byte));
        } else {
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of kube-apiserver v1.36.3.
    #[test]
    fn parts_are_those_of_go() {
        let url =
            Url::parse("https://user:pw@Example.com:80/p/%2f?k1=a&k2=b&k2=c&k+3=%7e&x=%zz&y=1;z=2#frag")
                .unwrap();
        assert_eq!((url.scheme(), url.host()), ("https", "Example.com:80"));
        assert_eq!(url.host_and_port(), ("Example.com", "80"));
        assert_eq!(url.escaped_path(), "/p/%2f");
        let values = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>();
        let expected = [("k1", values(&["a"])), ("k2", values(&["b", "c"])), ("k 3", values(&["~"]))];
        assert_eq!(url.query(), expected.map(|(name, values)| (name.to_owned(), values)));
        let url = Url::parse("https://[::1]:80/path with spaces/%2f").unwrap();
        assert_eq!((url.host(), url.host_and_port()), ("[::1]:80", ("::1", "80")));
        assert_eq!(url.escaped_path(), "/path%20with%20spaces//");
        assert_eq!(Url::parse("//host/p").unwrap().host(), "host");
        assert_eq!(Url::parse("/abs?x").unwrap().query(), [("x".to_owned(), values(&[""]))]);
        let url = Url::parse("https://a%3Ab:c%20d!@host?q=%41#x%20y").unwrap();
        assert_eq!(url.user(), Some("a%3Ab:c%20d%21"));
        assert_eq!((url.written_query(), &*url.fragment()), ("q=%41", "x y"));
        let opaque = Url::parse("mailto:x@y").unwrap();
        assert_eq!((opaque.host(), opaque.escaped_path()), ("", ""));
        for text in ["mailto:x@y", "http:opaque", "http://x/#a", "*", "//host/p", "/"] {
            assert_eq!(Url::parse_request(text).err(), None, "{text}");
        }
    }

    /// Messages of kube-apiserver v1.36.3.
    #[test]
    fn other_texts_are_refused_with_gos_messages() {
        for (text, why) in [
            ("foo", "invalid URI for request"),
            ("a/b", "invalid URI for request"),
            ("", "empty url"),
            ("https://a b/", "invalid character \" \" in host name"),
            ("https://a:x/", "invalid port \":x\" after host"),
            ("https://a/%zz", "invalid URL escape \"%zz\""),
            (":foo", "missing protocol scheme"),
            ("1http://a", "invalid URI for request"),
            ("https://[::1/", "missing ']' in host"),
            ("https://a\u{7f}/", "net/url: invalid control character in URL"),
        ] {
            assert_eq!(
                Url::parse_request(text).err(),
                Some(format!("parse {}: {why}", quote(text))),
                "{text}"
            );
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[a-z]{0,3}:?/{0,2}[a-zé0-9@:%\\[\\]?#&;=. ]{0,24}") {
            let _ = Url::parse_request(&text);
            if let Ok(url) = Url::parse(&text) {
                let _ = (url.query(), url.host_and_port());
            }
        }
    }
}
