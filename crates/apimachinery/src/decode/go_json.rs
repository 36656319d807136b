//! Explains why a text is not JSON, with the messages of Go's `encoding/json`.
//!
//! Clients show these messages to users, and tests compare them. The scanner only runs on texts that were already
//! refused, so it favors exact messages over speed.

/// Maximum depth. Go's limit is 10000; this server's parser stops at 128.
const MAX_DEPTH: usize = 128;

/// Returns the message for a refused text, which has a character for each byte. If its syntax is valid, the reason is a number too large for a float, or the depth.
pub(super) fn explain(text: &str) -> String {
    match scan(text) {
        // Go's scanner continues with a space at the end of the text, which cuts literals, numbers and escapes short.
        message if message == END => scan(&format!("{text} ")),
        message => message,
    }
}

const END: &str = "unexpected end of JSON input";

fn scan(text: &str) -> String {
    let mut scanner = Scanner { text, rest: text.chars(), depth: 0, too_large: None };
    match scanner.document() {
        Err(message) => message,
        Ok(()) => match scanner.too_large {
            Some(number) => format!("json: cannot unmarshal number {number} into Go value of type float64"),
            None => "exceeded max depth".to_owned(),
        },
    }
}

/// Replaces each lone surrogate escape by U+FFFD, as Go does; `None` if there is none.
pub(super) fn without_lone_surrogates(text: &str) -> Option<String> {
    let unit = |at: usize| {
        let digits = text.get(at..)?.strip_prefix("\\u")?.get(..4)?;
        digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(())?;
        u32::from_str_radix(digits, 16).ok()
    };
    let mut mended = String::new();
    let (mut copied, mut at) = (0, 0);
    while let Some(found) = text[at..].find('\\') {
        at += found;
        match unit(at) {
            // A pair of surrogates is one character and stays.
            Some(0xd800..=0xdbff) if matches!(unit(at + 6), Some(0xdc00..=0xdfff)) => at += 12,
            Some(0xd800..=0xdfff) => {
                mended += &text[copied..at];
                mended += "\\ufffd";
                at += 6;
                copied = at;
            }
            Some(_) => at += 6,
            // Skip the escaped character, even if it is a backslash.
            None => at += 1 + text[at + 1..].chars().next().map_or(0, char::len_utf8),
        }
    }
    (copied > 0).then(|| mended + &text[copied..])
}

struct Scanner<'a> {
    text: &'a str,
    rest: std::str::Chars<'a>,
    depth: usize,
    /// First number that is too large for a float.
    too_large: Option<&'a str>,
}

type Scan = Result<(), String>;

impl<'a> Scanner<'a> {
    fn document(&mut self) -> Scan {
        self.value()?;
        match self.next_visible() {
            None => Ok(()),
            Some(c) => Err(invalid(c, "after top-level value")),
        }
    }

    fn peek(&self) -> Option<char> {
        self.rest.clone().next()
    }

    fn next(&mut self) -> Result<char, String> {
        self.rest.next().ok_or_else(end)
    }

    fn next_visible(&mut self) -> Option<char> {
        self.rest.by_ref().find(|c| !matches!(c, ' ' | '\t' | '\r' | '\n'))
    }

    fn value(&mut self) -> Scan {
        let first = self.next_visible().ok_or_else(end)?;
        self.value_from(first)
    }

    fn value_from(&mut self, first: char) -> Scan {
        match first {
            '{' => self.nested('{', Self::object),
            '[' => self.nested('[', Self::array),
            '"' => self.string(),
            't' => self.literal("true"),
            'f' => self.literal("false"),
            'n' => self.literal("null"),
            '-' => match self.next()? {
                c @ '0'..='9' => self.number(c, 2),
                c => Err(invalid(c, "in numeric literal")),
            },
            c @ '0'..='9' => self.number(c, 1),
            c => Err(invalid(c, "looking for beginning of value")),
        }
    }

    fn nested(&mut self, opening: char, read: fn(&mut Self) -> Scan) -> Scan {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(invalid(opening, "exceeded max depth"));
        }
        read(self)?;
        self.depth -= 1;
        Ok(())
    }

    fn object(&mut self) -> Scan {
        let mut first = true;
        loop {
            match self.next_visible().ok_or_else(end)? {
                '}' if first => return Ok(()),
                '"' => self.string()?,
                c => return Err(invalid(c, "looking for beginning of object key string")),
            }
            first = false;
            match self.next_visible().ok_or_else(end)? {
                ':' => self.value()?,
                c => return Err(invalid(c, "after object key")),
            }
            match self.next_visible().ok_or_else(end)? {
                '}' => return Ok(()),
                ',' => {}
                c => return Err(invalid(c, "after object key:value pair")),
            }
        }
    }

    fn array(&mut self) -> Scan {
        let mut first = true;
        loop {
            match self.next_visible().ok_or_else(end)? {
                ']' if first => return Ok(()),
                c => self.value_from(c)?,
            }
            first = false;
            match self.next_visible().ok_or_else(end)? {
                ']' => return Ok(()),
                ',' => {}
                c => return Err(invalid(c, "after array element")),
            }
        }
    }

    fn string(&mut self) -> Scan {
        loop {
            match self.next()? {
                '"' => return Ok(()),
                '\\' => match self.next()? {
                    'b' | 'f' | 'n' | 'r' | 't' | '\\' | '/' | '"' => {}
                    'u' => {
                        for _ in 0..4 {
                            let c = self.next()?;
                            if !c.is_ascii_hexdigit() {
                                return Err(invalid(c, "in \\u hexadecimal character escape"));
                            }
                        }
                    }
                    c => return Err(invalid(c, "in string escape code")),
                },
                c if c < ' ' => return Err(invalid(c, "in string literal")),
                _ => {}
            }
        }
    }

    fn literal(&mut self, word: &str) -> Scan {
        for expected in word.chars().skip(1) {
            let c = self.next()?;
            if c != expected {
                return Err(invalid(c, &format!("in literal {word} (expecting '{expected}')")));
            }
        }
        Ok(())
    }

    /// Returns the offset of the next character in the text.
    fn offset(&self) -> usize {
        self.text.len() - self.rest.as_str().len()
    }

    /// Scans the rest of a number. Its first `read` characters were consumed; `first` is the last of them.
    fn number(&mut self, first: char, read: usize) -> Scan {
        let start = self.offset() - read;
        // After a leading zero only a fraction or an exponent may follow.
        if first != '0' {
            self.digits();
        }
        if self.peek() == Some('.') {
            self.next()?;
            match self.next()? {
                '0'..='9' => self.digits(),
                c => return Err(invalid(c, "after decimal point in numeric literal")),
            }
        }
        if matches!(self.peek(), Some('e' | 'E')) {
            self.next()?;
            if matches!(self.peek(), Some('+' | '-')) {
                self.next()?;
            }
            match self.next()? {
                '0'..='9' => self.digits(),
                c => return Err(invalid(c, "in exponent of numeric literal")),
            }
        }
        let number = &self.text[start..self.offset()];
        // Rust parses a number beyond the range as infinity. Go refuses it after the syntax of the whole text was checked.
        if self.too_large.is_none() && number.parse::<f64>().is_ok_and(f64::is_infinite) {
            self.too_large = Some(number);
        }
        Ok(())
    }

    fn digits(&mut self) {
        while self.peek().is_some_and(|c| c.is_ascii_digit()) {
            self.rest.next();
        }
    }
}

fn end() -> String {
    "unexpected end of JSON input".to_owned()
}

fn invalid(c: char, place: &str) -> String {
    let shown = match c {
        '\'' => r"'\''".to_owned(),
        '"' => "'\"'".to_owned(),
        '\n' => r"'\n'".to_owned(),
        '\r' => r"'\r'".to_owned(),
        '\t' => r"'\t'".to_owned(),
        '\\' => r"'\\'".to_owned(),
        '\u{7}' => r"'\a'".to_owned(),
        '\u{8}' => r"'\b'".to_owned(),
        '\u{b}' => r"'\v'".to_owned(),
        '\u{c}' => r"'\f'".to_owned(),
        // Go escapes characters that are not printable.
        c if c < ' ' || c == '\u{7f}' => format!(r"'\x{:02x}'", u32::from(c)),
        '\u{80}'..='\u{a0}' | '\u{ad}' => format!(r"'\u{:04x}'", u32::from(c)),
        c => format!("'{c}'"),
    };
    format!("invalid character {shown} {place}")
}

#[cfg(test)]
mod tests {
    use super::explain;

    #[test]
    fn messages_are_those_of_go() {
        for (text, message) in [
            ("", "unexpected end of JSON input"),
            ("{not", "invalid character 'n' looking for beginning of object key string"),
            ("{\"a\" 1}", "invalid character '1' after object key"),
            ("{\"a\":1,}", "invalid character '}' looking for beginning of object key string"),
            ("{\"a\":1 \"b\"", "invalid character '\"' after object key:value pair"),
            ("[1 2]", "invalid character '2' after array element"),
            ("[1,]", "invalid character ']' looking for beginning of value"),
            ("nul1", "invalid character '1' in literal null (expecting 'l')"),
            ("{} x", "invalid character 'x' after top-level value"),
            ("01", "invalid character '1' after top-level value"),
            ("-x", "invalid character 'x' in numeric literal"),
            ("1.x", "invalid character 'x' after decimal point in numeric literal"),
            ("\"\\q\"", "invalid character 'q' in string escape code"),
            ("\"\n\"", r"invalid character '\n' in string literal"),
            ("\u{ef}\u{bb}\u{bf}{}", "invalid character 'ï' looking for beginning of value"),
            ("{\"a\":\u{ff}}", "invalid character 'ÿ' looking for beginning of value"),
            ("\u{80}", r"invalid character '\u0080' looking for beginning of value"),
            ("\u{7f}", r"invalid character '\x7f' looking for beginning of value"),
            ("\u{8}", r"invalid character '\b' looking for beginning of value"),
            ("[-1e400,1e401]", "json: cannot unmarshal number -1e400 into Go value of type float64"),
        ] {
            assert_eq!(explain(text), message, "{text}");
        }
        assert_eq!(explain(&"[".repeat(1000)), "invalid character '[' exceeded max depth");
        assert_eq!(explain(&"{\"a\":".repeat(1000)), "invalid character '{' exceeded max depth");
    }
}
