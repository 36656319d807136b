//! Messages of Go's `regexp/syntax` for invalid patterns.

use regex_syntax::ast::{Ast, Error, ErrorKind, RepetitionKind, RepetitionRange, Span};

use super::translate::Translation;

/// Go's limit of repetitions; the counts of nested repetitions multiply.
const REPETITIONS: u32 = 1000;

/// Returns the message for a syntax error.
pub(super) fn of_syntax(error: &Error, source: &str, translation: &Translation) -> String {
    let start = translation.source_at(error.span().start.offset);
    let rest = source.get(start..).unwrap_or_default();
    match error.kind() {
        ErrorKind::GroupNameUnexpectedEof | ErrorKind::GroupNameEmpty | ErrorKind::GroupNameInvalid => {
            refusal("invalid named capture", named_group(source, start))
        }
        // Go has no look-behind, and takes `(?<` for the start of a named group.
        ErrorKind::UnsupportedLookAround if rest.starts_with("(?<") => {
            refusal("invalid named capture", named_group(source, start))
        }
        ErrorKind::GroupUnclosed | ErrorKind::FlagUnexpectedEof => refusal("missing closing )", source),
        ErrorKind::GroupUnopened => refusal("unexpected )", source),
        ErrorKind::ClassUnclosed => refusal("missing closing ]", rest),
        ErrorKind::ClassRangeInvalid => {
            refusal("invalid character class range", within(error.span(), source, translation))
        }
        ErrorKind::RepetitionMissing => refusal("missing argument to repetition operator", operator(rest)),
        ErrorKind::RepetitionCountInvalid | ErrorKind::DecimalInvalid => {
            // The error may be at a count inside the braces, but Go shows the whole operator.
            let brace = source
                .get(..source.len().min(start + 1))
                .and_then(|before| before.rfind('{'))
                .unwrap_or(start);
            refusal("invalid repeat count", operator(source.get(brace..).unwrap_or_default()))
        }
        ErrorKind::EscapeUnexpectedEof => refusal("trailing backslash at end of expression", ""),
        ErrorKind::EscapeUnrecognized
        | ErrorKind::ClassEscapeInvalid
        | ErrorKind::UnsupportedBackreference => {
            refusal("invalid escape sequence", within(error.span(), source, translation))
        }
        ErrorKind::UnsupportedLookAround | ErrorKind::FlagUnrecognized => {
            let group = source
                .get(..source.len().min(start + 1))
                .and_then(|before| before.rfind("(?"))
                .unwrap_or(start);
            let end = translation.source_at(error.span().end.offset).max(group);
            refusal("invalid or unsupported Perl syntax", source.get(group..end).unwrap_or_default())
        }
        _ => refusal("invalid regular expression", source),
    }
}

/// Returns the message for an unknown Unicode class.
pub(super) fn of_meaning(
    error: &regex_syntax::hir::Error,
    source: &str,
    translation: &Translation,
) -> String {
    refusal("invalid character class range", within(error.span(), source, translation))
}

/// Checks Go's rules for repetitions: no repetition of a repetition, and at most [`REPETITIONS`].
///
/// # Errors
/// The message for the first violation.
pub(super) fn of_repetition(ast: &Ast, source: &str, translation: &Translation) -> Result<(), String> {
    repetitions(ast, source, translation).map(drop)
}

/// Returns how often the innermost part is repeated.
fn repetitions(ast: &Ast, source: &str, translation: &Translation) -> Result<u32, String> {
    let most = |parts: &[Ast]| {
        parts.iter().try_fold(1, |most, part| Ok(repetitions(part, source, translation)?.max(most)))
    };
    match ast {
        Ast::Group(group) => repetitions(&group.ast, source, translation),
        Ast::Alternation(alternation) => most(&alternation.asts),
        Ast::Concat(concat) => most(&concat.asts),
        Ast::Repetition(repetition) => {
            let own = within(&repetition.op.span, source, translation);
            // Go refuses only operators that follow each other, as in `a**`. A group between them is legal.
            if let Ast::Repetition(inner) = &*repetition.ast {
                let from = translation.source_at(inner.op.span.start.offset);
                let to = translation.source_at(repetition.op.span.end.offset);
                let both = source.get(from..to).unwrap_or(own);
                return Err(refusal("invalid nested repetition operator", both));
            }
            // `*`, `+` and `?` do not count as repetitions.
            let RepetitionKind::Range(range) = &repetition.op.kind else {
                return repetitions(&repetition.ast, source, translation);
            };
            let times = match range {
                RepetitionRange::Exactly(times) | RepetitionRange::AtLeast(times) => *times,
                RepetitionRange::Bounded(_, most) => *most,
            };
            let inner = repetitions(&repetition.ast, source, translation)?;
            // Go's `repeatIsValid` does not look into a part that never occurs. With `{0,}` it may occur.
            if matches!(range, RepetitionRange::Exactly(0) | RepetitionRange::Bounded(_, 0)) {
                return Ok(1);
            }
            let all = inner.saturating_mul(times.max(1));
            if times > REPETITIONS || all > REPETITIONS {
                return Err(refusal("invalid repeat count", own));
            }
            Ok(all)
        }
        _ => Ok(1),
    }
}

fn refusal(why: &str, part: &str) -> String {
    format!("error parsing regexp: {why}: `{part}`")
}

/// Returns the source of a span of the translation.
fn within<'a>(span: &Span, source: &'a str, translation: &Translation) -> &'a str {
    let (from, to) = (translation.source_at(span.start.offset), translation.source_at(span.end.offset));
    source.get(from..to.max(from)).unwrap_or(source)
}

/// Returns the beginning of the named group at `at`, through the end of its name.
fn named_group(source: &str, at: usize) -> &str {
    let from = source.get(..source.len().min(at + 1)).and_then(|before| before.rfind("(?")).unwrap_or(at);
    let rest = source.get(from..).unwrap_or_default();
    rest.find('>').map_or(rest, |end| &rest[..=end])
}

/// Returns the repetition operator at the start of a text, including the `?` of a lazy one.
fn operator(text: &str) -> &str {
    let length = match text.as_bytes().first() {
        Some(b'{') => text.find('}').map_or(text.len(), |end| end + 1),
        Some(b'*' | b'+' | b'?') => 1,
        _ => 0,
    };
    let length = if text[length..].starts_with('?') { length + 1 } else { length };
    &text[..length]
}
