//! Position in a YAML text, and the classes of its characters.

/// Position in a text. The end of the text reads as `\0`, which no valid text contains.
#[derive(Debug)]
pub(super) struct TextCursor<'a> {
    text: &'a str,
    /// Bytes before the position.
    at: usize,
    /// Characters before the position.
    pub(super) index: usize,
    /// Number of the line, from 0.
    pub(super) line: usize,
    /// Number of the character in its line, from 0.
    pub(super) column: usize,
}

impl<'a> TextCursor<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0, index: 0, line: 0, column: 0 }
    }

    /// Returns the next character.
    pub(super) fn peek(&self) -> char {
        self.text[self.at..].chars().next().unwrap_or('\0')
    }

    /// Returns the character after `skipped` others.
    pub(super) fn peek_after(&self, skipped: usize) -> char {
        self.text[self.at..].chars().nth(skipped).unwrap_or('\0')
    }

    /// Moves over a character other than a line break.
    pub(super) fn skip(&mut self) {
        self.at += self.text[self.at..].chars().next().map_or(0, char::len_utf8);
        self.index += 1;
        self.column += 1;
    }

    /// Moves over spaces and tabs.
    pub(super) fn skip_blanks(&mut self) {
        while is_blank(self.peek()) {
            self.skip();
        }
    }

    /// Moves over a comment, up to the end of its line.
    pub(super) fn skip_comment(&mut self) {
        if self.peek() == '#' {
            while !is_break_or_end(self.peek()) {
                self.skip();
            }
        }
    }

    /// Moves over a line break, if there is one.
    pub(super) fn skip_line_break(&mut self) {
        self.line_break();
    }

    /// Appends a character other than a line break to `out`.
    pub(super) fn read(&mut self, out: &mut String) {
        out.push(self.peek());
        self.skip();
    }

    /// Appends a line break to `out`, as `\n` unless it is one of the separators of Unicode.
    pub(super) fn read_line_break(&mut self, out: &mut String) {
        out.extend(self.line_break());
    }

    fn line_break(&mut self) -> Option<char> {
        let first = self.peek();
        if !is_break(first) {
            return None;
        }
        let is_pair = first == '\r' && self.peek_after(1) == '\n';
        self.at += first.len_utf8() + usize::from(is_pair);
        self.index += 1 + usize::from(is_pair);
        self.line += 1;
        self.column = 0;
        Some(if matches!(first, '\u{2028}' | '\u{2029}') { first } else { '\n' })
    }

    /// Whether a line with this mark alone, or followed by a blank, starts here. The marks `---` and `...` separate documents.
    pub(super) fn is_at_mark(&self, mark: &str) -> bool {
        self.column == 0
            && self.text[self.at..].starts_with(mark)
            && is_blank_or_end(self.peek_after(mark.len()))
    }

    /// Starts a new line at the end of the text, unless the position is at the start of one.
    pub(super) fn end_line(&mut self) {
        if self.column != 0 {
            self.column = 0;
            self.line += 1;
        }
    }

    /// Builds the message of an error at this position. Go names no line in errors on the first one.
    pub(super) fn error(&self, problem: &str) -> String {
        match self.line {
            0 => problem.to_owned(),
            line => format!("line {}: {problem}", line + 1),
        }
    }
}

pub(super) fn is_blank(c: char) -> bool {
    c == ' ' || c == '\t'
}

/// Whether a character breaks a line in YAML 1.1.
pub(super) fn is_break(c: char) -> bool {
    matches!(c, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

pub(super) fn is_break_or_end(c: char) -> bool {
    is_break(c) || c == '\0'
}

pub(super) fn is_blank_or_end(c: char) -> bool {
    is_blank(c) || is_break_or_end(c)
}

/// Whether a character can be part of an anchor or of the handle of a tag.
pub(super) fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// Decodes a YAML text, and removes a byte order mark.
///
/// # Errors
/// The message of Go's reader for bytes that are not UTF-8, and for control characters.
pub(super) fn decode(bytes: &[u8]) -> Result<&str, String> {
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let invalid = &bytes[error.valid_up_to()..];
        let follow = invalid.iter().skip(1).take_while(|byte| **byte & 0xc0 == 0x80).count();
        let expected = match invalid.first().copied().unwrap_or_default() {
            0xc0..=0xdf => 1,
            0xe0..=0xef => 2,
            0xf0..=0xf7 => 3,
            _ => return "invalid leading UTF-8 octet".to_owned(),
        };
        let problem = if follow >= expected {
            // A longer form than needed, or half of a surrogate pair.
            if matches!(invalid[0], 0xed | 0xf4..) {
                "invalid Unicode character"
            } else {
                "invalid length of a UTF-8 sequence"
            }
        } else if invalid.len() <= expected {
            "incomplete UTF-8 octet sequence"
        } else {
            "invalid trailing UTF-8 octet"
        };
        problem.to_owned()
    })?;
    let is_allowed = |c: char| match c {
        '\t' | '\n' | '\r' | '\u{85}' => true,
        '\u{fffe}' | '\u{ffff}' => false,
        c => !c.is_control(),
    };
    if text.chars().all(is_allowed) { Ok(text) } else { Err("control characters are not allowed".to_owned()) }
}
