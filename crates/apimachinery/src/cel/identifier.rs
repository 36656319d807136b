//! Words and names of the grammar.

/// Words that the grammar keeps for later. cel-go calls them reserved identifiers.
const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Words with a meaning in the grammar.
const KEYWORDS: [&str; 4] = ["true", "false", "null", "in"];

/// Whether a text can be the name of a variable.
#[must_use]
pub fn is_identifier(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let starts = text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    starts && text.bytes().all(is_word) && !is_grammar_word(text)
}

/// Whether a word is reserved or a keyword, so that it cannot be the name of a variable.
pub(super) fn is_grammar_word(word: &str) -> bool {
    is_reserved(word) || KEYWORDS.contains(&word)
}

/// Whether the grammar keeps a word for later.
pub(super) fn is_reserved(word: &str) -> bool {
    RESERVED.contains(&word)
}

/// Returns a name without the dot that it may begin with. The dot says that the name is not relative to a container, and expressions here have
/// no container.
pub(super) fn without_dot(name: &str) -> &str {
    name.strip_prefix('.').unwrap_or(name)
}
