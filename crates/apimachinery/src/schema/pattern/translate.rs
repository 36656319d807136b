//! Translation of Go's syntax of regular expressions to that of the `regex` crate.
//!
//! The syntaxes differ in few points. In Go, `\d`, `\w`, `\s` and `\b` match only ASCII; a brace that begins no repetition is a literal, as
//! are `[`, `&` and `~` inside brackets; `\Q…\E` quotes text.

/// A pattern in the syntax of the `regex` crate.
pub(super) struct Translation {
    pub(super) text: String,
    /// Start of each piece in the translation and in the source.
    pieces: Vec<(usize, usize)>,
}

impl Translation {
    /// Returns the position in the source of a position in the translation.
    pub(super) fn source_at(&self, at: usize) -> usize {
        let piece = self.pieces.partition_point(|(start, _)| *start <= at);
        self.pieces.get(piece.wrapping_sub(1)).map_or(0, |(_, source)| *source)
    }
}

/// Translates a pattern in Go's syntax.
pub(super) fn translate(source: &str) -> Translation {
    let mut out = String::with_capacity(source.len());
    let mut pieces = Vec::new();
    let mut rest = source;
    let mut in_class = false;
    while let Some(next) = rest.chars().next() {
        // Quoted text is literal.
        if let Some(quoted) = rest.strip_prefix("\\Q").filter(|_| !in_class) {
            let end = quoted.find("\\E").unwrap_or(quoted.len());
            pieces.push((out.len(), source.len() - rest.len()));
            out.push_str(&regex_syntax::escape(&quoted[..end]));
            rest = quoted.get(end + 2..).unwrap_or_default();
            continue;
        }
        if let Some((octal, length)) = octal(rest) {
            pieces.push((out.len(), source.len() - rest.len()));
            out.push_str(&format!("\\x{{{octal:x}}}"));
            rest = &rest[length..];
            continue;
        }
        let (piece, length): (&str, usize) = match next {
            // Go allows several groups of one name. Names do not matter here, so groups lose them.
            '(' if !in_class && named_group(rest).is_some() => ("(", named_group(rest).unwrap_or(1)),
            // In Go, two dashes are not an operator: the second one is a literal, as is a dash in the first place.
            '-' if in_class && (out.ends_with('[') || out.ends_with("[^")) && !out.ends_with("\\[") => {
                ("\\-", 1)
            }
            '-' if in_class && out.ends_with('-') && !out.ends_with("\\-") => ("\\-", 1),
            '\\' => {
                let escaped = rest[1..].chars().next();
                let length = match escaped {
                    // A class name or a number in braces.
                    Some('p' | 'P' | 'x') if rest[2..].starts_with('{') => {
                        rest.find('}').map_or(rest.len(), |end| end + 1)
                    }
                    _ => 1 + escaped.map_or(0, char::len_utf8),
                };
                (escape(&rest[..length], in_class), length)
            }
            '[' if !in_class => {
                in_class = true;
                // A closing bracket in the first place is a literal.
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
            // A named class such as `[:alpha:]`. Any other opening bracket inside brackets is a literal.
            '[' => match class_name(rest) {
                Some(end) => (&rest[..end], end),
                None => ("\\[", 1),
            },
            '&' if in_class => ("\\&", 1),
            '~' if in_class => ("\\~", 1),
            '{' if !in_class && !starts_repetition(rest) => ("\\{", 1),
            other => (&rest[..other.len_utf8()], other.len_utf8()),
        };
        pieces.push((out.len(), source.len() - rest.len()));
        out.push_str(piece);
        rest = &rest[length..];
    }
    pieces.push((out.len(), source.len()));
    Translation { text: out, pieces }
}

/// Returns the value and the length of an octal escape at the start of a text: `\0`, `\07`, `\101`.
fn octal(text: &str) -> Option<(u32, usize)> {
    let digits = text.strip_prefix('\\')?.bytes().take(3).take_while(|byte| (b'0'..=b'7').contains(byte));
    let digits: Vec<u8> = digits.collect();
    // A single digit other than 0 is a reference to a group.
    if digits.is_empty() || digits.len() == 1 && digits[0] != b'0' {
        return None;
    }
    let value = digits.iter().fold(0, |value, digit| value * 8 + u32::from(digit - b'0'));
    Some((value, digits.len() + 1))
}

/// Returns the length of `(?P<name>` or `(?<name>` at the start of a text.
fn named_group(text: &str) -> Option<usize> {
    let start = text.as_bytes().get(..text.len().min(SHORT))?;
    let from = [&b"(?P<"[..], b"(?<"].into_iter().find(|prefix| start.starts_with(prefix))?.len();
    let end = start.iter().position(|byte| *byte == b'>').filter(|end| *end > from)?;
    start[from..end].iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').then_some(end + 1)
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

/// Maximum length of a class name or a repetition, in bytes. Without a maximum the translation would take quadratic time.
const SHORT: usize = 64;

/// Returns the length of a class name such as `[:alpha:]` at the start of a text.
fn class_name(text: &str) -> Option<usize> {
    let start = text.as_bytes().get(..text.len().min(SHORT))?;
    let end = start.starts_with(b"[:").then(|| start.windows(2).position(|end| end == b":]"))??;
    Some(end + 2)
}

/// Whether the text begins with `{2}`, `{2,}` or `{2,3}`.
fn starts_repetition(text: &str) -> bool {
    let start = &text.as_bytes()[..text.len().min(SHORT)];
    let Some(end) = start.iter().position(|byte| *byte == b'}') else {
        return false;
    };
    let number = |digits: &[u8]| !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let mut bounds = start[1..end].splitn(2, |byte| *byte == b',');
    let (least, most) = (bounds.next().unwrap_or_default(), bounds.next());
    number(least) && most.is_none_or(|most| most.is_empty() || number(most))
}
