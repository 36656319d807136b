//! Reads doc comments and messages from Rust sources, for the rules about language. It is not a full parser: it recognises
//! comments, string literals and parentheses.

/// Macros and attributes with string literals for operators.
const MESSAGES: [&str; 6] = [
    "tracing::trace!(",
    "tracing::debug!(",
    "tracing::info!(",
    "tracing::warn!(",
    "tracing::error!(",
    "#[error(",
];

/// A text and the line on which it begins, counted from 1.
#[derive(Debug, PartialEq)]
pub(crate) struct Text {
    pub(crate) line: usize,
    pub(crate) text: String,
}

/// First lines of all doc comments (`///` and `//!`) of a source. A comment that begins with a code block has none.
pub(crate) fn openers(source: &str) -> Vec<Text> {
    let mut found = Vec::new();
    // State of the current comment: its first line was seen; the line is inside of a code block.
    let (mut begun, mut code) = (false, false);
    for (index, line) in source.lines().enumerate() {
        let line = line.trim_start();
        let Some(text) = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) else {
            (begun, code) = (false, false);
            continue;
        };
        let text = text.trim();
        if text.starts_with("```") {
            (begun, code) = (true, !code);
        } else if !begun && !code && !text.is_empty() {
            begun = true;
            found.push(Text { line: index + 1, text: text.to_owned() });
        }
    }
    found
}

/// String literals in log macros and `#[error(…)]` attributes of a source, without their `{placeholders}`.
pub(crate) fn messages(source: &str) -> Vec<Text> {
    let mut found = Vec::new();
    for (start, name) in MESSAGES.iter().flat_map(|name| source.match_indices(name)) {
        let mut at = start + name.len();
        let mut depth = 1;
        while depth > 0 {
            match source.as_bytes().get(at) {
                Some(b'(') => depth += 1,
                Some(b')') => depth -= 1,
                Some(b'"') => {
                    let length = literal_length(&source[at + 1..]);
                    let line = source[..at].matches('\n').count() + 1;
                    let text = without_placeholders(&source[at + 1..at + 1 + length]);
                    found.push(Text { line, text });
                    at += 1 + length;
                }
                Some(_) => {}
                None => break,
            }
            at += 1;
        }
    }
    found
}

/// Bytes up to the quote that ends a string literal.
fn literal_length(rest: &str) -> usize {
    let mut escaped = false;
    let end = rest.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    });
    end.unwrap_or(rest.len())
}

fn without_placeholders(text: &str) -> String {
    let mut parts = text.split('{');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push_str(part.split_once('}').map_or(part, |(_, after)| after));
    }
    plain
}

#[test]
fn openers_are_the_first_lines_of_doc_comments() {
    let source = "//! A crate.\n//! Not this.\n\n// Nor this.\n    /// A function.\n    fn f() {}\n/// ```\n/// f();\n/// ```\nstruct S;\n";
    let openers: Vec<_> = openers(source).into_iter().map(|Text { line, text }| (line, text)).collect();
    assert_eq!(openers, [(1, "A crate.".to_owned()), (5, "A function.".to_owned())]);
}

#[test]
fn messages_are_the_literals_of_log_lines_and_errors() {
    let source = "tracing::info!(x = f(1), \"started {name} \\\"now\\\"\");\n#[error(\n    \"not found: {}\", g(\"a\")\n)]\nlet s = \"other\";\n";
    let texts: Vec<_> = messages(source).into_iter().map(|Text { line, text }| (line, text)).collect();
    let expected = [(1, "started  \\\"now\\\""), (3, "not found: "), (3, "a")];
    assert_eq!(texts, expected.map(|(line, text)| (line, text.to_owned())));
}
