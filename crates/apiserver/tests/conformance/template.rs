//! Texts with placeholders: `pods "{{name:1}}" not found`.

/// A placeholder: `{{kind}}` or `{{kind:id}}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Placeholder<'a> {
    pub(crate) kind: &'a str,
    /// Text between the braces. Equal labels have equal values.
    pub(crate) label: &'a str,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    Literal(&'a str),
    Placeholder(Placeholder<'a>),
}

/// Splits a text into parts. Braces without a placeholder are literal.
pub(crate) fn parts(text: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut rest = text;
    let mut searched = 0;
    while let Some(open) = rest[searched..].find("{{").map(|at| at + searched) {
        let Some((placeholder, length)) = placeholder(&rest[open..]) else {
            searched = open + 1;
            continue;
        };
        if open > 0 {
            parts.push(Part::Literal(&rest[..open]));
        }
        parts.push(Part::Placeholder(placeholder));
        rest = &rest[open + length..];
        searched = 0;
    }
    if !rest.is_empty() {
        parts.push(Part::Literal(rest));
    }
    parts
}

/// Returns the placeholder at the beginning of `text`, and its length with braces.
fn placeholder(text: &str) -> Option<(Placeholder<'_>, usize)> {
    let inner = text.strip_prefix("{{")?;
    let label = &inner[..inner.find("}}")?];
    let (kind, id) = label.split_once(':').unwrap_or((label, "-"));
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let well_formed = !kind.is_empty() && kind.chars().all(is_word) && !id.is_empty();
    (well_formed && !label.contains('{')).then_some((Placeholder { kind, label }, label.len() + 4))
}

/// Whether a value is valid for a placeholder of this kind; `None` for an unknown kind.
pub(crate) fn fits(kind: &str, value: &str) -> Option<bool> {
    let all = |allowed: fn(char) -> bool| !value.is_empty() && value.chars().all(allowed);
    Some(match kind {
        "uid" => all(|c| !c.is_whitespace() && c != '"'),
        "rv" | "listrv" => all(|c| c.is_ascii_digit()) && !value.starts_with('0'),
        "time" | "created" => has_shape(value, "0000-00-00T00:00:00Z"),
        "microTime" => has_shape(value, "0000-00-00T00:00:00.000000Z"),
        "name" => {
            let ends = [value.chars().next(), value.chars().next_back()];
            all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-".contains(c))
                && ends.iter().flatten().all(char::is_ascii_alphanumeric)
        }
        "ip" => all(|c| c.is_ascii_hexdigit() && !c.is_ascii_uppercase() || ".:".contains(c)),
        "nodePort" => all(|c| c.is_ascii_digit()),
        "token" | "continue" | "cert" | "age" => all(|c| !c.is_whitespace()),
        _ => return None,
    })
}

/// Compares character by character; `0` matches any digit.
fn has_shape(value: &str, shape: &str) -> bool {
    value.len() == shape.len()
        && value.bytes().zip(shape.bytes()).all(|(byte, wanted)| match wanted {
            b'0' => byte.is_ascii_digit(),
            _ => byte == wanted,
        })
}
