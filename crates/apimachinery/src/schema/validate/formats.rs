//! String formats of `k8s.io/kube-openapi/pkg/validation/strfmt`. Unknown formats admit any string.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::LazyLock;

use regex::Regex;

use super::super::node::{JsonType, SchemaNode, ValueKind};
use crate::go;

/// Formats of strings, without dashes.
const FORMATS: [&str; 26] = [
    "bsonobjectid",
    "byte",
    "cidr",
    "creditcard",
    "date",
    "datetime",
    "duration",
    "email",
    "hexcolor",
    "hostname",
    "ipv4",
    "ipv6",
    "isbn",
    "isbn10",
    "isbn13",
    "k8slongname",
    "k8sshortname",
    "mac",
    "password",
    "rgbcolor",
    "ssn",
    "uri",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
];

/// Whether this is a format of strings.
pub(in super::super) fn is_known(format: &str) -> bool {
    FORMATS.contains(&format.replace('-', "").as_str())
}

/// Returns the format of a schema, if its type has this format.
pub(super) fn of(node: &SchemaNode) -> Option<&str> {
    let format = node.format.as_deref()?;
    let known = match node.kind {
        ValueKind::Of(JsonType::Integer) => matches!(format, "int32" | "int64"),
        ValueKind::Of(JsonType::Number) => matches!(format, "float" | "double"),
        ValueKind::Of(JsonType::String) => is_known(format),
        _ => false,
    };
    known.then_some(format)
}

/// Whether `text` has this format. Dashes in the format's name are ignored.
pub(in super::super) fn matches(format: &str, text: &str) -> bool {
    match format.replace('-', "").as_str() {
        "bsonobjectid" => text.len() == 24 && is_hex(text),
        "uri" => go::Url::parse_request(text).is_ok(),
        "email" => go::is_mail_address(text),
        "hostname" => is_hostname(text),
        "ipv4" => text.contains('.') && sloppy_address(text).is_some(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "mac" => is_mac(text),
        "uuid" => is_uuid(text, None),
        "uuid3" => is_uuid(text, Some('3')),
        "uuid4" => is_uuid(text, Some('4')),
        "uuid5" => is_uuid(text, Some('5')),
        "isbn" => is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10(text),
        "isbn13" => is_isbn13(text),
        "creditcard" => is_credit_card(text),
        "ssn" => text.len() == 11 && SSN.is_match(text),
        "hexcolor" => HEX_COLOR.is_match(text),
        "rgbcolor" => RGB_COLOR.is_match(text),
        "byte" => BASE64.is_match(text),
        "date" => is_date(text),
        "datetime" => is_date_time(text),
        "duration" => go::loose_duration(text).is_ok(),
        "k8sshortname" => is_dns_label(text),
        "k8slongname" => text.len() <= 253 && text.split('.').all(is_dns_label_of_any_length),
        _ => true,
    }
}

/// Compiles a pattern of this file.
fn pattern(source: &str) -> Regex {
    Regex::new(source).expect("patterns of this file compile: a test uses each")
}

/// Base64 with padding. The empty text does not match.
static BASE64: LazyLock<Regex> = LazyLock::new(|| {
    let last = "[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4}";
    pattern(&format!("^([A-Za-z0-9+/]{{4}})*({last})$"))
});
static SSN: LazyLock<Regex> = LazyLock::new(|| pattern(r"^\d{3}[- ]?\d{2}[- ]?\d{4}$"));
static HEX_COLOR: LazyLock<Regex> = LazyLock::new(|| pattern("^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$"));
static RGB_COLOR: LazyLock<Regex> = LazyLock::new(|| {
    let part = r"\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*";
    pattern(&format!(r"^rgb\({part},{part},{part}\)$"))
});
/// Time of day with a zone, in lower case. Go compares hours, minutes and seconds with their maxima as texts.
static TIME: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"^([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})$")
});
/// Numbers of credit cards by their issuers.
static CREDIT_CARD: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"^(4[0-9]{12}([0-9]{3})?|5[1-5][0-9]{14}|6(011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(0[0-5]|[68][0-9])[0-9]{11}|(2131|1800|35[0-9]{3})[0-9]{11})$",
    )
});

fn is_date(text: &str) -> bool {
    text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok()
}

/// Whether this is a date, `T` and a time. As in Go, another `T` and the text after it are not checked.
fn is_date_time(text: &str) -> bool {
    let text = text.to_lowercase();
    let mut parts = text.split('t');
    parts.next().is_some_and(is_date) && parts.next().is_some_and(|time| TIME.is_match(time))
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Letters, digits and symbols.
static WORD: LazyLock<Regex> = LazyLock::new(|| pattern(r"^[a-zA-Z0-9\p{S}\p{L}]*$"));
static LETTERS: LazyLock<Regex> = LazyLock::new(|| pattern(r"^[a-zA-Z\p{L}]*$"));

/// Whether the text is a single label, in which only the second character may be a dash, or several labels before a top-level domain of
/// letters.
fn is_hostname(text: &str) -> bool {
    let count = |text: &str| text.chars().count();
    let is_word = |text: &str| WORD.is_match(text);
    let single = || {
        let first = text.chars().next().map_or(0, char::len_utf8);
        let rest = &text[first..];
        let rest = rest.strip_prefix('-').unwrap_or(rest);
        first > 0 && is_word(&text[..first]) && is_word(rest) && count(rest) <= 62
    };
    let label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && count(label) <= 63
            && is_word(&label.replace('-', ""))
    };
    let domain = || {
        text.rsplit_once('.').is_some_and(|(labels, top)| {
            labels.split('.').all(label) && LETTERS.is_match(top) && (2..=63).contains(&count(top))
        })
    };
    text.len() <= 255 && text.split('.').all(|part| part.len() <= 63) && (single() || domain())
}

/// Parses an address like Go before 1.17: parts of an IPv4 address may have leading zeros.
fn sloppy_address(text: &str) -> Option<IpAddr> {
    let (head, four) = match text.rsplit_once(':') {
        Some((_, four)) if four.contains('.') => text.split_at(text.len() - four.len()),
        Some(_) => (text, ""),
        None => ("", text),
    };
    let stripped: Vec<&str> = four
        .split('.')
        .map(|part| match part.trim_start_matches('0') {
            "" if !part.is_empty() => "0",
            rest => rest,
        })
        .collect();
    format!("{head}{}", stripped.join(".")).parse().ok()
}

fn is_cidr(text: &str) -> bool {
    text.split_once('/').is_some_and(|(address, prefix)| {
        let longest = match sloppy_address(address) {
            Some(IpAddr::V4(_)) => 32,
            Some(IpAddr::V6(_)) => 128,
            None => return false,
        };
        !prefix.starts_with('+') && prefix.parse::<u8>().is_ok_and(|prefix| prefix <= longest)
    })
}

fn is_mac(text: &str) -> bool {
    let octets = |separator: char, digits: usize| {
        let parts: Vec<_> = text.split(separator).collect();
        let bytes = parts.len() * digits / 2;
        matches!(bytes, 6 | 8 | 20) && parts.iter().all(|part| part.len() == digits && is_hex(part))
    };
    let is_plain = matches!(text.len(), 12 | 16 | 40) && is_hex(text);
    is_plain || octets(':', 2) || octets('-', 2) || octets('.', 4)
}

fn is_uuid(text: &str, version: Option<char>) -> bool {
    // In the library's pattern, each of the dashes between the groups is optional.
    let mut rest = text;
    for (index, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        rest = if index == 0 { rest } else { rest.strip_prefix('-').unwrap_or(rest) };
        let Some((group, after)) = rest.split_at_checked(length) else { return false };
        let has_version = match (index, version) {
            (2, Some(version)) => group.starts_with(version),
            (3, Some('4' | '5')) => group.starts_with(['8', '9', 'a', 'b', 'A', 'B']),
            _ => true,
        };
        if !is_hex(group) || !has_version {
            return false;
        }
        rest = after;
    }
    rest.is_empty()
}

/// Removes separators between digits.
fn digits(text: &str) -> String {
    text.chars().filter(|c| !matches!(c, '-' | ' ' | '\t' | '\n' | '\x0c' | '\r')).collect()
}

fn is_isbn10(text: &str) -> bool {
    let text = digits(text);
    let Some((body, check)) = text.split_at_checked(9) else {
        return false;
    };
    let check = match check {
        "X" => 10,
        _ => match check.parse::<u32>() {
            Ok(check) if check < 10 => check,
            _ => return false,
        },
    };
    let sum: Option<u32> = body.chars().zip(1..).map(|(c, weight)| Some(c.to_digit(10)? * weight)).sum();
    sum.is_some_and(|sum| (sum + 10 * check) % 11 == 0)
}

fn is_isbn13(text: &str) -> bool {
    let text = digits(text);
    let weights = [1, 3].into_iter().cycle();
    let sum: Option<u32> = text.chars().zip(weights).map(|(c, weight)| Some(c.to_digit(10)? * weight)).sum();
    text.len() == 13 && sum.is_some_and(|sum| sum % 10 == 0)
}

/// Checks the issuer and the Luhn checksum of the digits in a text.
fn is_credit_card(text: &str) -> bool {
    let text: String = text.chars().filter(char::is_ascii_digit).collect();
    let sum: Option<u32> = text
        .chars()
        .rev()
        .enumerate()
        .map(|(place, c)| {
            let digit = c.to_digit(10)?;
            Some(match place % 2 {
                0 => digit,
                _ if digit > 4 => 2 * digit - 9,
                _ => 2 * digit,
            })
        })
        .sum();
    CREDIT_CARD.is_match(&text) && sum.is_some_and(|sum| sum % 10 == 0)
}

fn is_dns_label(text: &str) -> bool {
    text.len() <= 63 && is_dns_label_of_any_length(text)
}

fn is_dns_label_of_any_length(text: &str) -> bool {
    let edge = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().is_some_and(edge)
        && bytes.last().is_some_and(edge)
        && bytes.iter().all(|byte| edge(byte) || *byte == b'-')
}

#[cfg(test)]
mod tests;
