//! Syntax of names, label keys and label values, with the messages of `k8s.io/apimachinery/pkg/util/validation`.
//!
//! Each function returns the reasons why a text is invalid; the list is empty for a valid text.

use std::net::IpAddr;

use crate::go::quote;

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
    and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const UNDERSCORED: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', \
    and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
    and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
    alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
    validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
    alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const ADDRESS: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
    start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation \
    is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// Syntax of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameRule {
    /// RFC 1123 subdomain, up to 253 characters.
    Subdomain,
    /// RFC 1123 label, up to 63 characters.
    Label,
    /// RFC 1035 label (starts with a letter).
    Label1035,
    /// Any segment of a URL path.
    PathSegment,
    /// Any segment of a URL path. A prefix is such a name too.
    WholePathSegment,
    /// Any text: only the rules for all kinds check it.
    Any,
    /// IP address in its canonical form. A prefix is such a name too.
    Address,
}

/// Validates the name of an object.
#[must_use]
pub fn name(rule: NameRule, name: &str) -> Vec<String> {
    match rule {
        NameRule::Subdomain => subdomain(name),
        NameRule::Label => label(name),
        NameRule::Label1035 => checked(name, 63, LABEL_1035, |name| {
            is_label(name) && name.starts_with(|c: char| c.is_ascii_lowercase())
        }),
        NameRule::PathSegment | NameRule::WholePathSegment if name == "." || name == ".." => {
            vec![format!("may not be '{name}'")]
        }
        NameRule::PathSegment | NameRule::WholePathSegment => path_segment(name),
        NameRule::Any => Vec::new(),
        NameRule::Address => canonical_address(name).into_iter().collect(),
    }
}

/// Validates the prefix of a generated name (`generateName`). Unlike a name, it may end with a dash.
#[must_use]
pub fn name_prefix(rule: NameRule, prefix: &str) -> Vec<String> {
    match (rule, prefix.strip_suffix('-')) {
        (NameRule::PathSegment, _) => path_segment(prefix),
        (NameRule::Address | NameRule::WholePathSegment | NameRule::Any, _) => name(rule, prefix),
        (rule, Some(start)) if !start.is_empty() => name(rule, &format!("{start}a")),
        _ => name(rule, prefix),
    }
}

fn checked(name: &str, max: usize, message: &str, valid: impl Fn(&str) -> bool) -> Vec<String> {
    let mut errors = Vec::new();
    if name.len() > max {
        errors.push(format!("must be no more than {max} characters"));
    }
    if !valid(name) {
        errors.push(message.to_owned());
    }
    errors
}

/// Validates an RFC 1123 subdomain, such as `example.com`.
#[must_use]
pub fn subdomain(name: &str) -> Vec<String> {
    checked(name, 253, SUBDOMAIN, |name| name.split('.').all(is_label))
}

/// Validates an RFC 1123 subdomain. Its parts may contain underscores, except at the end.
#[must_use]
pub fn underscored_subdomain(name: &str) -> Vec<String> {
    let is_part = |part: &str| {
        let part = part.strip_prefix('_').unwrap_or(part);
        let is_edge = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let bytes = part.as_bytes();
        bytes.first().is_some_and(is_edge)
            && bytes.last().is_some_and(is_edge)
            && bytes.iter().all(|byte| is_edge(byte) || b"-_".contains(byte))
    };
    checked(name, 253, UNDERSCORED, |name| name.split('.').all(is_part))
}

/// Validates an RFC 1123 label.
#[must_use]
pub fn label(name: &str) -> Vec<String> {
    // If all parts between the dots are labels, only the dots are wrong.
    let message = if name.split('.').all(is_label) { "must not contain dots" } else { LABEL };
    checked(name, 63, message, is_label)
}

fn path_segment(name: &str) -> Vec<String> {
    let mut errors = Vec::new();
    for forbidden in ["/", "%"] {
        if name.contains(forbidden) {
            errors.push(format!("may not contain '{forbidden}'"));
        }
    }
    errors
}

fn is_label(name: &str) -> bool {
    let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    let bytes = name.as_bytes();
    bytes.first().is_some_and(|c| inner(*c))
        && bytes.last().is_some_and(|c| inner(*c))
        && bytes.iter().all(|c| inner(*c) || *c == b'-')
}

/// Validates a label key, an annotation key (in lower case) or a finalizer.
#[must_use]
pub fn qualified(name: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let mut parts = name.split('/');
    let (prefix, part) = match (parts.next(), parts.next(), parts.next()) {
        (Some(part), None, _) => (None, part),
        (Some(prefix), Some(part), None) => (Some(prefix), part),
        _ => {
            let message = format!(
                "a valid label key {QUALIFIED} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            );
            return vec![message];
        }
    };
    match prefix {
        Some("") => errors.push("prefix part must be non-empty".to_owned()),
        Some(prefix) => {
            errors.extend(subdomain(prefix).into_iter().map(|error| format!("prefix part {error}")));
        }
        None => {}
    }
    if part.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if part.len() > 63 {
        errors.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_name(part) {
        errors.push(format!("name part {QUALIFIED}"));
    }
    errors
}

/// Validates the value of a label.
#[must_use]
pub fn label_value(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > 63 {
        errors.push("must be no more than 63 bytes".to_owned());
    }
    if !value.is_empty() && !is_name(value) {
        errors.push(VALUE.to_owned());
    }
    errors
}

/// Validates an IP address. Returns the reason why the text is not one.
#[must_use]
pub fn address(given: &str) -> Option<&'static str> {
    match given.parse::<IpAddr>() {
        Ok(IpAddr::V6(v6)) if v6.to_ipv4_mapped().is_some() => {
            Some("must not be an IPv4-mapped IPv6 address")
        }
        Ok(_) => None,
        Err(_) if lenient_address(given).is_some() => Some("must not have leading 0s"),
        Err(_) => Some(ADDRESS),
    }
}

/// Validates an IP address that must be in its canonical form. Returns the reason why the text is not one.
#[must_use]
pub fn canonical_address(given: &str) -> Option<String> {
    if let Some(why) = address(given) {
        return Some(why.to_owned());
    }
    let canonical = lenient_address(given)?.to_string();
    (canonical != given).then(|| format!("must be in canonical form ({})", quote(&canonical)))
}

/// Reads an IP address, in which numbers of IPv4 may start with zeros, as old versions of Go do.
#[must_use]
pub fn lenient_address(given: &str) -> Option<IpAddr> {
    if let Ok(address) = given.parse() {
        return Some(address);
    }
    if given.contains(':') {
        return None;
    }
    let without_zeros = |part: &str| {
        let digits = part.trim_start_matches('0');
        if digits.is_empty() && !part.is_empty() { "0".to_owned() } else { digits.to_owned() }
    };
    given.split('.').map(without_zeros).collect::<Vec<_>>().join(".").parse().ok()
}

fn is_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_by_their_rule() {
        assert!(name(NameRule::Subdomain, "a.b-c.0").is_empty());
        assert_eq!(name(NameRule::Subdomain, "a..b").len(), 1);
        assert_eq!(name(NameRule::Label, "a.b").len(), 1);
        assert_eq!(name(NameRule::Label1035, "0a").len(), 1);
        assert_eq!(name(NameRule::PathSegment, "a%/").len(), 2);
        assert!(name(NameRule::PathSegment, "system:x").is_empty());
        assert!(name_prefix(NameRule::Subdomain, "web-").is_empty());
        assert!(name(NameRule::Address, "10.0.0.1").is_empty());
        assert_eq!(name(NameRule::Address, "FE80::1"), ["must be in canonical form (\"fe80::1\")"]);
        // A generated name is its prefix.
        assert_eq!(name_prefix(NameRule::Address, "10.0.0.1-"), [ADDRESS]);
        assert!(name_prefix(NameRule::Address, "10.0.0.1").is_empty());
        assert!(name_prefix(NameRule::PathSegment, "..").is_empty());
        assert_eq!(name_prefix(NameRule::WholePathSegment, ".."), ["may not be '..'"]);
        assert!(underscored_subdomain("_srv.a_b.example").is_empty());
        assert_eq!(underscored_subdomain("a_.example").len(), 1);
    }

    #[test]
    fn keys_and_values_are_checked() {
        for good in ["a", "example.com/A_b.c"] {
            assert!(qualified(good).is_empty(), "{good}");
        }
        for bad in ["", "/a", "a/", "a/b/c", "x y", "Up/a"] {
            assert!(!qualified(bad).is_empty(), "{bad}");
        }
        assert!(label_value("").is_empty());
        assert_eq!(label_value(&"é".repeat(40)).len(), 2);
    }
}
