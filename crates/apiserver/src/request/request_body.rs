//! Request bodies: their media types and limits.
//!
//! JSON and YAML are decoded by [`kube_apimachinery`]; protobuf is accepted for builtin kinds.

use kube_apimachinery::status::ApiError;

/// Maximum size of a body in bytes.
pub(crate) const LIMIT: usize = 3 << 20;

/// Builds the 413 for a body above [`LIMIT`].
pub(crate) fn too_large() -> ApiError {
    let message = format!("Request entity too large: limit is {LIMIT}");
    ApiError::new(413, "RequestEntityTooLarge", message)
}

/// Builds the 415 with the accepted media types.
pub(crate) fn unsupported(accepted: &[&str]) -> ApiError {
    let message = format!(
        "the body of the request was in an unknown format - accepted media types include: {}",
        accepted.join(", ")
    );
    ApiError::new(415, "UnsupportedMediaType", message)
}

/// Media types of whole objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    Yaml,
    Protobuf,
}

impl Format {
    /// Returns the format of a `Content-Type`; JSON if there is none.
    ///
    /// # Errors
    /// 415 for any other type.
    pub(crate) fn of(content_type: Option<&str>) -> Result<Self, ApiError> {
        let Some(content_type) = content_type.filter(|text| !text.is_empty()) else {
            return Ok(Self::Json);
        };
        match parse_media_type(content_type).as_deref() {
            Some("application/json") => Ok(Self::Json),
            Some("application/yaml") => Ok(Self::Yaml),
            Some("application/vnd.kubernetes.protobuf") => Ok(Self::Protobuf),
            _ => Err(unsupported(&[
                "application/json",
                "application/yaml",
                "application/vnd.kubernetes.protobuf",
            ])),
        }
    }
}

/// Returns the media type in lower case, if it and its parameters are well-formed as in Go's `mime.ParseMediaType`.
fn parse_media_type(content_type: &str) -> Option<String> {
    let (media_type, mut rest) = match content_type.find(';') {
        Some(at) => content_type.split_at(at),
        None => (content_type, ""),
    };
    let media_type = media_type.trim().to_ascii_lowercase();
    // For Go a type without a subtype is well-formed too.
    let (kind, subtype) = media_type.split_once('/').unwrap_or((media_type.as_str(), "x"));
    if !is_token(kind) || !is_token(subtype) {
        return None;
    }
    let mut known: Vec<(String, String)> = Vec::new();
    while !rest.trim_start().is_empty() {
        let Some((name, value, after)) = parameter(rest) else {
            // A semicolon at the end is ignored.
            return (rest.trim() == ";").then_some(media_type);
        };
        if known.iter().any(|(other, before)| *other == name && *before != value) {
            return None;
        }
        known.push((name, value));
        rest = after;
    }
    Some(media_type)
}

/// Reads `; name=value`, where the value may be in quotes. Returns name, value and the rest.
fn parameter(text: &str) -> Option<(String, String, &str)> {
    let text = text.trim_start().strip_prefix(';')?.trim_start();
    let (name, text) = token(text)?;
    let text = text.trim_start().strip_prefix('=')?.trim_start();
    let (value, rest) = match text.strip_prefix('"') {
        Some(quoted) => quoted_value(quoted)?,
        None => token(text).map(|(value, rest)| (value.to_owned(), rest))?,
    };
    Some((name.to_ascii_lowercase(), value, rest))
}

/// Reads up to the closing quote. A backslash escapes only characters that separate tokens.
fn quoted_value(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut rest = text.chars();
    loop {
        match rest.next()? {
            '"' => return Some((value, rest.as_str())),
            '\r' | '\n' => return None,
            '\\' if rest.as_str().starts_with(is_separator) => value.extend(rest.next()),
            c => value.push(c),
        }
    }
}

/// Splits a text after its first token; `None` if it begins with none.
fn token(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c| !is_token_character(c)).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.chars().all(is_token_character)
}

fn is_token_character(c: char) -> bool {
    c.is_ascii_graphic() && !is_separator(c)
}

fn is_separator(c: char) -> bool {
    r#"()<>@,;:\"/[]?="#.contains(c)
}

/// Returns a `Content-Type` up to its parameters, as the handlers of patches compare it. They keep a space before the semicolon.
pub(crate) fn media_type(content_type: Option<&str>) -> &str {
    content_type.unwrap_or_default().split(';').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn well_formed_content_types_are_recognized() {
        for text in [
            "",
            "application/json",
            "APPLICATION/JSON",
            "application/json;",
            "application/json ; charset=utf-8",
            "application/json; foo=bar",
            "application/json; charset=utf-8; charset=utf-8",
            r#"application/json; a="b\"c""#,
            "application/json; a*=utf-8''x",
        ] {
            assert_eq!(Format::of(Some(text)), Ok(Format::Json), "{text}");
        }
        assert_eq!(Format::of(None), Ok(Format::Json));
        assert_eq!(Format::of(Some("application/yaml; x=y")), Ok(Format::Yaml));
    }

    #[test]
    fn malformed_content_types_are_refused() {
        for text in [
            "application/json; foo=\"bar",
            "application/json; ;",
            "application/json; foo",
            "application/json; charset=utf-8; charset=utf-16",
            "text/plain",
            "application",
            "application/",
            "/json",
            "application/json/x",
            "application/json,application/yaml",
            "application/json; =x",
            "application/json; a=b c",
            "application/json foo",
            "application/json; foo=\"a\" bar",
            "application/json; föö=x",
        ] {
            assert_eq!(Format::of(Some(text)).unwrap_err().code(), 415, "{text}");
        }
    }
}
