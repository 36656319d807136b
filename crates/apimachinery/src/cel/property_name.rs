//! Names of properties as identifiers of expressions: `a.b` is written `a__dot__b`.

use std::borrow::Cow;

use super::identifier::is_grammar_word;

/// Words of the grammar that are not escaped as properties.
const UNESCAPED: [&str; 3] = ["var", "void", "while"];
/// Characters and their escape sequences. A double underscore comes first, because the others begin with it.
const SEQUENCES: [(&str, &str); 4] =
    [("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__")];

/// Returns the identifier of a property; `None` if the name has characters that cannot be escaped.
#[must_use]
pub fn escape(name: &str) -> Option<Cow<'_, str>> {
    if name.is_empty() || name.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    if let Some(escaped) = escaped_word(name) {
        return Some(Cow::Owned(escaped));
    }
    if name.contains(|c: char| !c.is_ascii_alphanumeric() && !"_.-/".contains(c)) {
        return None;
    }
    if !SEQUENCES.iter().any(|(plain, _)| name.contains(plain)) {
        return Some(Cow::Borrowed(name));
    }
    let mut escaped = String::with_capacity(name.len() + 16);
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        match SEQUENCES.iter().find(|(plain, _)| rest.starts_with(plain)) {
            Some((plain, sequence)) => {
                escaped.push_str(sequence);
                rest = &rest[plain.len()..];
            }
            None => {
                escaped.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    Some(Cow::Owned(escaped))
}

/// Whether a word is escaped as a property.
fn is_escaped(word: &str) -> bool {
    is_grammar_word(word) && !UNESCAPED.contains(&word)
}

/// Returns the escaped form of a word that expressions reserve; `None` for other names.
pub(super) fn escaped_word(name: &str) -> Option<String> {
    is_escaped(name).then(|| format!("__{name}__"))
}

/// Returns the name of the property that an identifier stands for; `None` if the identifier has an unknown escape sequence.
#[must_use]
pub fn unescape(identifier: &str) -> Option<Cow<'_, str>> {
    if !identifier.contains("__") {
        return Some(Cow::Borrowed(identifier));
    }
    let mut name = String::with_capacity(identifier.len());
    let mut rest = identifier;
    while let Some(at) = rest.find("__") {
        // A sequence has at least one character other than an underscore between two double underscores.
        let Some((word, after)) = word(&rest[at + 2..]) else {
            name.push_str(&rest[..=at]);
            rest = &rest[at + 1..];
            continue;
        };
        name.push_str(&rest[..at]);
        match SEQUENCES.iter().find(|(_, sequence)| sequence.trim_matches('_') == word) {
            Some((plain, _)) => name.push_str(plain),
            None if is_escaped(word) && identifier.len() == word.len() + 4 => name.push_str(word),
            None => return None,
        }
        rest = after;
    }
    name.push_str(rest);
    Some(Cow::Owned(name))
}

/// Splits the rest of an escape sequence from the text after it.
fn word(text: &str) -> Option<(&str, &str)> {
    let end = text.find('_').filter(|end| *end > 0)?;
    Some((&text[..end], text[end..].strip_prefix("__")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_and_unescaped() {
        for (name, identifier) in [
            ("a", "a"),
            ("a_b", "a_b"),
            ("a.b", "a__dot__b"),
            ("a-b/c", "a__dash__b__slash__c"),
            ("a__b", "a__underscores__b"),
            ("a___b", "a__underscores___b"),
            ("namespace", "__namespace__"),
            ("in", "__in__"),
            ("while", "while"),
            ("_", "_"),
            (".a", "__dot__a"),
        ] {
            assert_eq!(escape(name).as_deref(), Some(identifier), "{name}");
            assert_eq!(unescape(identifier).as_deref(), Some(name), "{identifier}");
        }
        for name in ["", "1a", "a b", "é", "a$"] {
            assert_eq!(escape(name), None, "{name}");
        }
        for identifier in ["__other__", "a__namespace__"] {
            assert_eq!(unescape(identifier), None, "{identifier}");
        }
    }
}
