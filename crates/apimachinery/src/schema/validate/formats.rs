//! String formats of `k8s.io/kube-openapi/pkg/validation/strfmt`. Unknown formats admit any string.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use regex::Regex;

use super::super::node::{JsonType, SchemaNode, ValueKind};

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
        "uri" => is_uri(text),
        "email" => is_email(text),
        "hostname" => is_hostname(text),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
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
        "ssn" => SSN.is_match(text),
        "hexcolor" => HEX_COLOR.is_match(text),
        "rgbcolor" => RGB_COLOR.is_match(text),
        "byte" => BASE64.is_match(text),
        "date" => text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok(),
        "datetime" => DATE_TIME.is_match(text),
        "duration" => DURATION.is_match(text),
        "k8sshortname" => is_dns_label(text),
        "k8slongname" => text.len() <= 253 && text.split('.').all(is_dns_label_of_any_length),
        _ => true,
    }
}

/// Compiles a pattern of this file.
fn pattern(source: &str) -> Regex {
    Regex::new(source).expect("patterns of this file compile: a test uses each")
}

/// Base64 with padding; the empty text is none.
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
static DATE_TIME: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])[Tt]([01]\d|2[0-3]):[0-5]\d(:([0-5]\d|60)(\.\d+)?)?([Zz]|[+-]\d{2}:?\d{2})?$",
    )
});
/// Durations of Go, and additional names of units and days that the library accepts.
static DURATION: LazyLock<Regex> = LazyLock::new(|| {
    let unit = "(ns|nano|us|µs|μs|micro|ms|milli|s|sec|m|min|h|hr|hour|d|day|w|wk|week)s?";
    pattern(&format!(r"^(0|[+-]?(\d+(\.\d*)?|\.\d+)\s*{unit}(\s*(\d+(\.\d*)?|\.\d+)\s*{unit})*)$"))
});

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else {
        // An absolute path is a valid request URI too.
        return text.starts_with('/') && !text.contains(|c: char| c.is_control());
    };
    let mut letters = scheme.bytes();
    letters.next().is_some_and(|first| first.is_ascii_alphabetic())
        && letters.all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
        && !rest.contains(|c: char| c.is_control() || c == ' ')
}

fn is_email(text: &str) -> bool {
    let address = match (text.find('<'), text.strip_suffix('>')) {
        (Some(at), Some(inner)) => &inner[at + 1..],
        _ => text,
    };
    address.rsplit_once('@').is_some_and(|(local, host)| {
        let plain = |c: char| c.is_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c);
        !local.is_empty()
            && local.split('.').all(|atom| !atom.is_empty() && atom.chars().all(plain))
            && !host.is_empty()
            && host.split('.').all(|atom| !atom.is_empty() && atom.chars().all(plain))
    })
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

fn is_cidr(text: &str) -> bool {
    text.split_once('/').is_some_and(|(address, prefix)| {
        let longest = match address.parse() {
            Ok(IpAddr::V4(_)) => 32,
            Ok(IpAddr::V6(_)) => 128,
            Err(_) => return false,
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
    octets(':', 2) || octets('-', 2) || octets('.', 4)
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
    text.chars().filter(|c| !matches!(c, '-' | ' ')).collect()
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

/// Checks the number of digits and the Luhn checksum.
fn is_credit_card(text: &str) -> bool {
    let text = digits(text);
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
    (13..=19).contains(&text.len()) && sum.is_some_and(|sum| sum % 10 == 0)
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
mod tests {
    use super::*;

    #[test]
    fn dashes_of_a_uuid_stand_between_its_groups() {
        for (text, is_valid) in [
            ("6ba7b8109dad11d180b400c04fd430c8", true),
            ("6ba7b810-9dad11d180b4-00c04fd430c8", true),
            ("6ba7b810-9dad-11d1-80b4-00c04fd430c", false),
            ("6ba7b-8109dad11d180b400c04fd430c8", false),
            ("-6ba7b8109dad11d180b400c04fd430c8", false),
            ("6ba7b810--9dad11d180b400c04fd430c8", false),
            ("6ba7b8109dad11d180b400c04fd430c8-", false),
            ("6ba7b8109dad11d180b400c04fd430cé", false),
        ] {
            assert_eq!(is_uuid(text, None), is_valid, "{text}");
        }
        assert!(is_uuid("6ba7b8109dad41d1A0b400c04fd430c8", Some('4')));
        assert!(!is_uuid("6ba7b8109dad41d1c0b400c04fd430c8", Some('4')));
        assert!(is_uuid("6ba7b8109dad31d1c0b400c04fd430c8", Some('3')));
    }

    #[test]
    fn formats_admit_their_own_and_refuse_others() {
        for (format, good, bad) in [
            ("bsonobjectid", "507f1f77bcf86cd799439011", "x"),
            ("uri", "https://example.com/a?b=c", "not a uri"),
            ("email", "a.b@example.com", "a@"),
            ("hostname", "db-1.example.com", "-db"),
            ("ipv4", "10.0.0.1", "10.0.0.256"),
            ("ipv6", "fe80::1", "10.0.0.1"),
            ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
            ("mac", "00:1a:2b:3c:4d:5e", "00:1a"),
            ("uuid", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "6ba7b810"),
            ("uuid3", "6ba7b810-9dad-31d1-80b4-00c04fd430c8", "6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
            ("uuid4", "6ba7b810-9dad-41d1-80b4-00c04fd430c8", "6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
            ("uuid5", "6ba7b810-9dad-51d1-80b4-00c04fd430c8", "6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
            ("isbn", "0321751043", "0321751042"),
            ("isbn13", "9780321751041", "9780321751042"),
            ("creditcard", "4111-1111-1111-1111", "1234"),
            ("ssn", "111-22-3333", "1112"),
            ("hexcolor", "#FFF", "red"),
            ("rgbcolor", "rgb(1,2,3)", "rgb(1,2,256)"),
            ("byte", "YQ==", "Y!"),
            ("date", "2024-02-29", "2024-02-30x"),
            ("date-time", "2024-02-29T10:00:00Z", "yesterday"),
            ("duration", "1h30m", "soon"),
            ("k8s-short-name", "abc", "A_b"),
            ("k8s-long-name", "abc.def", "A_b"),
        ] {
            assert!(matches(format, good), "{format} {good}");
            assert!(!matches(format, bad), "{format} {bad}");
        }
        assert!(matches("password", "anything"));
        assert!(matches("nobody-knows", "anything"));
    }
}
