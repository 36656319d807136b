//! Query strings, and the API options in them.

mod list_options;
mod write_options;

use kube_apimachinery::go::quote;
use kube_apimachinery::status::{ApiError, FieldError};
use percent_encoding::percent_decode_str;

pub(crate) use self::list_options::{ListOptions, RevisionMatch};
pub(crate) use self::write_options::{DeleteOptions, FieldValidation, Propagation, WriteKind, WriteOptions};

/// Maximum number of parameters. Like Go's `net/url`, a query with more counts as empty.
const MAX_PARAMETERS: usize = 10_000;

/// A parsed query string. A parameter may occur more than once. As in Go, parameters with a malformed escape or a semicolon are ignored.
#[derive(Debug, Clone, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(query: &str) -> Self {
        let decode = |text: &str| {
            // Form encoding writes a space as `+`. It is replaced before decoding, so that `%2B` stays a plus.
            let spaced = text.replace('+', " ");
            percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
        };
        if query.split('&').count() > MAX_PARAMETERS {
            return Self::default();
        }
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        Self(
            pairs
                .filter(|pair| is_readable(pair))
                .map(|pair| {
                    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                    (decode(name), decode(value))
                })
                .collect(),
        )
    }

    /// Returns the first value of a parameter.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the first value, or the empty string.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    pub(crate) fn all(&self, name: &str) -> Vec<String> {
        self.0.iter().filter(|(known, _)| known == name).map(|(_, value)| value.clone()).collect()
    }

    /// Parses a boolean parameter as Go does: present means true, unless the value is `false` or `0`.
    pub(crate) fn flag(&self, name: &str) -> Option<bool> {
        self.get(name).map(|value| !(value.eq_ignore_ascii_case("false") || value == "0"))
    }

    /// Parses an integer parameter; an empty one counts as absent.
    pub(crate) fn integer(&self, name: &str) -> Result<Option<i64>, ApiError> {
        match self.get(name) {
            None | Some("") => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|error: std::num::ParseIntError| {
                let why = match error.kind() {
                    std::num::IntErrorKind::PosOverflow | std::num::IntErrorKind::NegOverflow => {
                        "value out of range"
                    }
                    _ => "invalid syntax",
                };
                ApiError::bad_request(format!("strconv.ParseInt: parsing {}: {why}", quote(text)))
            }),
        }
    }
}

/// Whether Go accepts a parameter: it has no semicolon, and its escapes are well-formed.
fn is_readable(pair: &str) -> bool {
    let is_escape = |rest: &str| {
        let digits = rest.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    !pair.contains(';') && pair.split('%').skip(1).all(is_escape)
}

/// Builds a 422 about the options of a request, not about its object.
fn invalid_options(kind: &str, errors: Vec<FieldError>) -> ApiError {
    ApiError::invalid("meta.k8s.io", kind, "", errors)
}

fn unsupported(field: &str, shown: &str, supported: &str) -> FieldError {
    FieldError {
        reason: "FieldValueNotSupported",
        field: field.to_owned(),
        message: format!("Unsupported value: {shown}: supported values: {supported}"),
    }
}

/// Parses a resource version; `None` if it is empty. The error is the message for a read.
pub(crate) fn revision(text: &str) -> Result<Option<u64>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    parse_uint(text)
        .map(Some)
        .map_err(|why| format!("resourceVersion: Invalid value: {}: {why}", quote(text)))
}

/// Parses a number as Go's `strconv.ParseUint`. The error is Go's text.
pub(crate) fn parse_uint(text: &str) -> Result<u64, String> {
    // Checked first, because `parse` also accepts a plus sign, which `ParseUint` refuses.
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let why = if digits { "value out of range" } else { "invalid syntax" };
    let number = if digits { text.parse().ok() } else { None };
    number.ok_or_else(|| format!("strconv.ParseUint: parsing {}: {why}", quote(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_are_read_as_go_reads_them() {
        assert_eq!(revision(""), Ok(None));
        assert_eq!(revision("18446744073709551615"), Ok(Some(u64::MAX)));
        for (text, why) in [
            ("abc", "invalid syntax"),
            ("+1", "invalid syntax"),
            ("99999999999999999999", "value out of range"),
        ] {
            assert_eq!(parse_uint(text), Err(format!("strconv.ParseUint: parsing \"{text}\": {why}")));
        }
    }

    #[test]
    fn booleans_are_read_as_go_reads_them() {
        let query = Query::parse("watch&a=false&b=0&c=maybe&d=FALSE");
        assert_eq!(query.flag("watch"), Some(true));
        assert_eq!(query.flag("a"), Some(false));
        assert_eq!(query.flag("b"), Some(false));
        assert_eq!(query.flag("c"), Some(true));
        assert_eq!(query.flag("d"), Some(false));
        assert_eq!(query.flag("absent"), None);
    }

    #[test]
    fn a_query_with_too_many_parameters_counts_as_empty() {
        let query = |more: usize| Query::parse(&format!("dryRun=All{}", "&a".repeat(more)));
        assert_eq!(query(MAX_PARAMETERS - 1).text("dryRun"), "All");
        assert_eq!(query(MAX_PARAMETERS).text("dryRun"), "");
    }

    #[test]
    fn escapes_and_plus_signs_are_decoded() {
        let query = Query::parse("labelSelector=a+in+%28b%2Cc%29&&x=%zz&y=1%&a;b=1&z=%2");
        assert_eq!(query.text("labelSelector"), "a in (b,c)");
        for name in ["x", "y", "a;b", "b", "z"] {
            assert_eq!(query.get(name), None, "{name}");
        }
    }

    #[test]
    fn texts_are_quoted_as_go_quotes_them() {
        assert_eq!(quote("a\"b\\\t\u{7}\u{1}é"), r#""a\"b\\\t\a\x01é""#);
    }
}
