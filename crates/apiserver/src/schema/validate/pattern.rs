//! Patterns as Go's `regexp` reads them.
//!
//! The `regex` crate knows the same language but for a few things: to Go `\d`, `\w`, `\s` and `\b` are about ASCII, a
//! brace that starts no repetition is itself, and so are `[`, `&` and `~` inside brackets.

use regex::Regex;

/// A pattern of a schema.
#[derive(Debug)]
pub(in super::super) struct Pattern {
    source: String,
    regex: Regex,
}

impl Pattern {
    /// # Errors
    /// Where `source` is no regular expression.
    pub(in super::super) fn parse(source: &str) -> Result<Self, regex::Error> {
        Ok(Self { source: source.to_owned(), regex: Regex::new(&translate(source))? })
    }

    pub(super) fn source(&self) -> &str {
        &self.source
    }

    /// Whether the pattern occurs in `text`.
    pub(super) fn matches(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}

fn translate(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    let mut in_class = false;
    while let Some(next) = rest.chars().next() {
        let (piece, length): (&str, usize) = match next {
            '\\' => {
                let escaped = rest[1..].chars().next();
                let length = 1 + escaped.map_or(0, char::len_utf8);
                (escape(&rest[..length], in_class), length)
            }
            '[' if !in_class => {
                in_class = true;
                // A bracket that comes first is itself.
                let length = match rest.as_bytes() {
                    [_, b'^', b']', ..] => 3,
                    [_, b'^' | b']', ..] => 2,
                    _ => 1,
                };
                let opening = match &rest[..length] {
                    "[]" => "[\\]",
                    "[^]" => "[^\\]",
                    plain => plain,
                };
                (opening, length)
            }
            ']' => {
                in_class = false;
                ("]", 1)
            }
            '[' => match rest.find(":]").filter(|_| rest.starts_with("[:")) {
                Some(end) => (&rest[..end + 2], end + 2),
                None => ("\\[", 1),
            },
            '&' if in_class => ("\\&", 1),
            '~' if in_class => ("\\~", 1),
            '{' if !in_class && !starts_repetition(rest) => ("\\{", 1),
            other => (&rest[..other.len_utf8()], other.len_utf8()),
        };
        out.push_str(piece);
        rest = &rest[length..];
    }
    out
}

fn escape(escape: &str, in_class: bool) -> &str {
    match (escape, in_class) {
        ("\\d", false) => "[0-9]",
        ("\\d", true) => "0-9",
        ("\\D", _) => "[^0-9]",
        ("\\w", false) => "[0-9A-Za-z_]",
        ("\\w", true) => "0-9A-Za-z_",
        ("\\W", _) => "[^0-9A-Za-z_]",
        ("\\s", false) => "[\\t\\n\\f\\r ]",
        ("\\s", true) => "\\t\\n\\f\\r ",
        ("\\S", _) => "[^\\t\\n\\f\\r ]",
        ("\\b", false) => "(?-u:\\b)",
        ("\\B", false) => "(?-u:\\B)",
        (other, _) => other,
    }
}

/// `{2}`, `{2,}` or `{2,3}`
fn starts_repetition(text: &str) -> bool {
    let Some(inner) = text[1..].split('}').next().filter(|inner| inner.len() + 1 < text.len()) else {
        return false;
    };
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match inner.split_once(',') {
        None => number(inner),
        Some((least, most)) => number(least) && (most.is_empty() || number(most)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(pattern: &str, good: &[&str], bad: &[&str]) {
        let pattern = Pattern::parse(pattern).unwrap();
        for text in good {
            assert!(pattern.matches(text), "{} should match {text}", pattern.source());
        }
        for text in bad {
            assert!(!pattern.matches(text), "{} should not match {text}", pattern.source());
        }
    }

    #[test]
    fn classes_are_about_ascii() {
        check(r"^\d+$", &["12"], &["١٢", ""]);
        check(r"^[\w.-]+$", &["a_b.c-d"], &["ä"]);
        check(r"^\S+$", &["ä"], &["a b"]);
        check(r"^[^\s]+$", &["ä"], &["a b"]);
        check(r"\bx\b", &["a x b", "äxä"], &["axb"]);
    }

    #[test]
    fn what_is_special_to_one_library_alone_is_itself() {
        check(r"^a{,5}$", &["a{,5}"], &["aaa"]);
        check(r"^a{2,3}$", &["aa"], &["a"]);
        check(r"^\{a}$", &["{a}"], &["a"]);
        check(r"^[[&&~]+$", &["[&~"], &["a"]);
        check(r"^[]a]+$", &["]a"], &["b"]);
        check(r"^[^]a]+$", &["b"], &["]"]);
        check(r"^[[:alpha:]_]+$", &["ab_"], &["1"]);
        check(r"^(?i)abc$", &["ABC"], &["abd"]);
    }

    proptest! {
        #[test]
        fn no_pattern_makes_it_panic(pattern in r"[\\\[\]{}()^$a-c\-&~:,0-9wdsä.*+?|]{0,12}", text in "[a-cä{}]{0,4}") {
            if let Ok(pattern) = Pattern::parse(&pattern) {
                pattern.matches(&text);
            }
        }
    }
}
