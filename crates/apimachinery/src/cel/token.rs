//! Tokens of an expression.

use super::issue::Issue;
use super::value::Literal;

/// Beginning of the message about text that is not a token. The text and a quote follow.
pub(super) const UNRECOGNIZED: &str = "Syntax error: token recognition error at: '";

/// A token.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    Ident(String),
    /// A name in backquotes. The grammar allows it for fields only, and Kubernetes nowhere.
    EscapedIdent,
    Literal(Literal),
    /// An operator, a bracket or another sign, and the keyword `in`.
    Sign(&'static str),
    End,
}

/// A token and its place in the text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Spanned {
    pub(super) token: Token,
    /// Offset of the first byte.
    pub(super) at: usize,
    /// Offset after the last byte.
    pub(super) end: usize,
}

/// Operators and brackets. Longer ones come first, so that `<=` is not read as `<`.
const SIGNS: [&str; 24] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", ",", ".", "(", ")",
    "[", "]", "{", "}",
];

/// Splits a text into tokens; the last one is [`Token::End`].
pub(super) fn tokens(text: &str) -> Result<Vec<Spanned>, Vec<Issue>> {
    let mut found = Vec::new();
    let mut issues = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let Some(first) = rest.chars().next() else { break };
        if first.is_ascii_whitespace() {
            at += first.len_utf8();
            continue;
        }
        if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
            continue;
        }
        match token(rest) {
            Ok((token, length)) => {
                found.push(Spanned { token, at, end: at + length });
                at += length;
            }
            Err((message, length)) => {
                issues.push(Issue::new(at, message));
                at += length.max(first.len_utf8());
            }
        }
    }
    found.push(Spanned { token: Token::End, at: text.len(), end: text.len() });
    if issues.is_empty() { Ok(found) } else { Err(issues) }
}

/// A token or the message of an issue, and the length in bytes of its text.
type Scanned = Result<(Token, usize), (String, usize)>;

/// Reads the first token.
fn token(rest: &str) -> Scanned {
    let bytes = rest.as_bytes();
    // Before names, because a prefix such as `r` could also begin a name.
    if let Some(quoted) = quoted(rest) {
        return quoted;
    }
    if let Some(name) = rest.strip_prefix('`') {
        return escaped_name(rest, name);
    }
    if bytes[0].is_ascii_digit() || bytes[0] == b'.' && bytes.get(1).is_some_and(u8::is_ascii_digit) {
        return number(rest);
    }
    if bytes[0].is_ascii_alphabetic() || bytes[0] == b'_' {
        let length = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let token = match &rest[..length] {
            "in" => Token::Sign("in"),
            "true" => Token::Literal(Literal::Bool(true)),
            "false" => Token::Literal(Literal::Bool(false)),
            "null" => Token::Literal(Literal::Null),
            name => Token::Ident(name.to_owned()),
        };
        return Ok((token, length));
    }
    if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
        return Ok((Token::Sign(sign), sign.len()));
    }
    // These characters begin an operator of two signs and are no tokens alone. ANTLR's message then contains the next character too.
    let count = if matches!(bytes[0], b'&' | b'|' | b'=') { 2 } else { 1 };
    let wrong: String = rest.chars().take(count).collect();
    Err(unrecognized(&wrong))
}

/// Returns the error for text that is not a token. The text ends with the first character with which no token can continue.
fn unrecognized(text: &str) -> (String, usize) {
    (format!("{UNRECOGNIZED}{text}'"), text.len())
}

/// Reads a name in backquotes; `name` is the text behind the first one.
fn escaped_name(rest: &str, name: &str) -> Scanned {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/' | ' ');
    let length = name.find(|c: char| !is_part(c)).unwrap_or(name.len());
    let next = name[length..].chars().next();
    if length > 0 && next == Some('`') {
        return Ok((Token::EscapedIdent, length + 2));
    }
    Err(unrecognized(&rest[..1 + length + next.map_or(0, char::len_utf8)]))
}

fn number(rest: &str) -> Scanned {
    let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let unsigned = |length: usize| rest[length..].starts_with(['u', 'U']);
    // `0x` without a digit is the number 0 and a name.
    if let Some(hex) = rest.strip_prefix("0x") {
        let length = hex.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(hex.len());
        if length > 0 {
            let value = u64::from_str_radix(&hex[..length], 16);
            return integer(value.ok().map(i128::from), unsigned(length + 2), length + 2);
        }
    }
    let whole = digits(rest);
    let mut length = whole;
    let mut is_float = false;
    if rest[length..].starts_with('.') && digits(&rest[length + 1..]) > 0 {
        is_float = true;
        length += 1 + digits(&rest[length + 1..]);
    }
    if let Some(exponent) = rest[length..].strip_prefix(['e', 'E']) {
        let sign = usize::from(exponent.starts_with(['+', '-']));
        let count = digits(&exponent[sign..]);
        if count > 0 {
            is_float = true;
            length += 1 + sign + count;
        }
    }
    if is_float {
        let value = rest[..length].parse().ok().filter(|value: &f64| value.is_finite());
        let value = value.ok_or_else(|| ("invalid double literal".to_owned(), length))?;
        return Ok((Token::Literal(Literal::Double(value)), length));
    }
    integer(rest[..length].parse().ok(), unsigned(length), length)
}

/// Builds the token of an integer. The smallest `int` is written as a minus sign before 2⁶³, which is not an `int` itself, so 2⁶³ is allowed
/// here.
fn integer(value: Option<i128>, is_unsigned: bool, length: usize) -> Scanned {
    if is_unsigned {
        let value = value.and_then(|value| u64::try_from(value).ok());
        let value = value.ok_or(("invalid uint literal".to_owned(), length + 1))?;
        return Ok((Token::Literal(Literal::Uint(value)), length + 1));
    }
    let value = value.filter(|value| *value <= i128::from(i64::MAX) + 1);
    let value = value.ok_or(("invalid int literal".to_owned(), length))?;
    let literal = i64::try_from(value).map_or(Literal::IntMinimum, Literal::Int);
    Ok((Token::Literal(literal), length))
}

/// Kind of a literal in quotes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quoted {
    String,
    Bytes,
}

/// Meaning of backslashes in a literal.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Escapes {
    /// They begin escape sequences.
    Replaced,
    /// They stand for themselves.
    Raw,
}

/// Reads a string or bytes; `None` if the text begins with something else.
fn quoted(rest: &str) -> Option<Scanned> {
    // The quote follows a prefix of at most two letters. A longer search would be repeated for each token.
    let prefix = rest.bytes().take(3).position(|byte| matches!(byte, b'"' | b'\''))?;
    let (kind, escapes) = match rest.get(..prefix)?.to_ascii_lowercase().as_str() {
        "" => (Quoted::String, Escapes::Replaced),
        "r" => (Quoted::String, Escapes::Raw),
        "b" => (Quoted::Bytes, Escapes::Replaced),
        "rb" | "br" => (Quoted::Bytes, Escapes::Raw),
        _ => return None,
    };
    let body = &rest[prefix..];
    let quote = &body[..1];
    let triple = quote.repeat(3);
    let open = if body.starts_with(&triple) { &*triple } else { quote };
    let is_multiline = open.len() > 1;
    let inner = &body[open.len()..];
    let end = match closing(inner, open, escapes) {
        Ok(end) => end,
        // As in ANTLR, a literal without an end falls back to the longest token at its place: the first two of three quotes are an empty
        // literal, and a prefix alone is a name.
        Err(_) if is_multiline => {
            let empty = match kind {
                Quoted::Bytes => Literal::Bytes(Vec::new()),
                Quoted::String => Literal::String(String::new()),
            };
            return Some(Ok((Token::Literal(empty), prefix + 2)));
        }
        Err(_) if prefix > 0 => return Some(Ok((Token::Ident(rest[..prefix].to_owned()), prefix))),
        Err(wrong) => {
            let last = inner[wrong..].chars().next().map_or(0, char::len_utf8);
            return Some(Err(unrecognized(&rest[..open.len() + wrong + last])));
        }
    };
    let length = prefix + open.len() + end + open.len();
    let text = &inner[..end].replace("\r\n", "\n").replace('\r', "\n");
    let decoded = match escapes {
        Escapes::Raw => Ok(text.as_bytes().to_vec()),
        Escapes::Replaced => unescape(text, kind),
    };
    let literal = decoded.and_then(|decoded| match kind {
        Quoted::Bytes => Ok(Literal::Bytes(decoded)),
        Quoted::String => {
            String::from_utf8(decoded).map(Literal::String).map_err(|_| "invalid string literal".to_owned())
        }
    });
    Some(literal.map(|literal| (Token::Literal(literal), length)).map_err(|why| (why, length)))
}

/// Returns the offset of the quotes `open` that end a text, or that of the first character that cannot stand there. Three quotes may surround
/// several lines.
fn closing(inner: &str, open: &str, escapes: Escapes) -> Result<usize, usize> {
    let mut at = 0;
    while let Some(c) = inner[at..].chars().next() {
        if inner[at..].starts_with(open) {
            return Ok(at);
        }
        at += match c {
            '\\' if escapes == Escapes::Replaced => {
                1 + escape(&inner[at + 1..]).map_err(|wrong| at + 1 + wrong)?
            }
            '\n' | '\r' if open.len() == 1 => return Err(at),
            c => c.len_utf8(),
        };
    }
    Err(at)
}

/// Returns the length of an escape sequence after the backslash, or the offset of the first character that does not belong there.
fn escape(text: &str) -> Result<usize, usize> {
    let (count, radix) = match text.chars().next() {
        Some('a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '"' | '\'' | '\\' | '?' | '`') => return Ok(1),
        Some('x' | 'X') => (2, 16),
        Some('u') => (4, 16),
        Some('U') => (8, 16),
        Some('0'..='3') => (2, 8),
        _ => return Err(0),
    };
    let digits = text[1..].chars().take(count).take_while(|c| c.is_digit(radix)).count();
    if digits == count { Ok(1 + count) } else { Err(1 + digits) }
}

/// Replaces the escape sequences of a string or of bytes.
fn unescape(text: &str, kind: Quoted) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(text.len());
    let mut characters = text.chars();
    let mut buffer = [0; 4];
    while let Some(c) = characters.next() {
        if c != '\\' {
            out.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes());
            continue;
        }
        let escape = characters.next().ok_or("unable to unescape string")?;
        let simple = match escape {
            'a' => 7,
            'b' => 8,
            'f' => 12,
            'n' => 10,
            'r' => 13,
            't' => 9,
            'v' => 11,
            '\\' | '\'' | '"' | '`' | '?' => u8::try_from(escape).unwrap_or_default(),
            _ => 0,
        };
        if simple != 0 {
            out.push(simple);
            continue;
        }
        let (count, radix, first) = match escape {
            'x' | 'X' => (2, 16, None),
            'u' if kind == Quoted::String => (4, 16, None),
            'U' if kind == Quoted::String => (8, 16, None),
            '0'..='3' => (2, 8, Some(escape)),
            _ => return Err("unable to unescape string".to_owned()),
        };
        let digits: String = first.into_iter().chain(characters.by_ref().take(count)).collect();
        let code = u32::from_str_radix(&digits, radix).map_err(|_| "unable to unescape string")?;
        match kind {
            Quoted::Bytes => out.push(u8::try_from(code).map_err(|_| "unable to unescape string")?),
            Quoted::String => {
                let c = char::from_u32(code).ok_or("invalid unicode code point")?;
                out.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes());
            }
        }
    }
    Ok(out)
}
