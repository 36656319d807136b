//! Texts of scalars in a YAML text: plain, quoted and block scalars.

use super::text_cursor::{TextCursor, is_blank, is_blank_or_end, is_break, is_break_or_end};

/// White space between the words of a scalar that may continue on the next line.
#[derive(Debug, Default)]
struct Gap {
    /// Blanks in a line.
    blanks: String,
    /// The first line break.
    first: String,
    /// The other line breaks.
    others: String,
    /// Whether the gap contains a line break.
    is_broken: bool,
}

impl Gap {
    /// Reads a blank or a line break.
    fn read(&mut self, cursor: &mut TextCursor<'_>) {
        if is_blank(cursor.peek()) {
            if self.is_broken {
                cursor.skip();
            } else {
                cursor.read(&mut self.blanks);
            }
        } else if self.is_broken {
            cursor.read_line_break(&mut self.others);
        } else {
            self.blanks.clear();
            cursor.read_line_break(&mut self.first);
            self.is_broken = true;
        }
    }

    /// Appends the folded gap to a text: one line break becomes a space, several lose the first one.
    fn fold(&mut self, text: &mut String) {
        if !self.is_broken {
            text.push_str(&self.blanks);
        } else if !self.first.starts_with('\n') {
            text.push_str(&self.first);
            text.push_str(&self.others);
        } else if self.others.is_empty() {
            text.push(' ');
        } else {
            text.push_str(&self.others);
        }
        *self = Self::default();
    }
}

/// Reads a plain scalar. Returns its text, and whether line breaks follow it.
///
/// # Errors
/// Go's message for a tab in the indentation.
pub(super) fn plain(
    cursor: &mut TextCursor<'_>,
    indent: usize,
    is_in_flow: bool,
) -> Result<(String, bool), String> {
    let mut text = String::new();
    let mut gap = Gap::default();
    // Each round reads a word and the gap after it. A `#` starts a comment only here, after a gap; inside of a word, it is part of the text.
    while !cursor.is_at_mark("---") && !cursor.is_at_mark("...") && cursor.peek() != '#' {
        while !is_blank_or_end(cursor.peek()) {
            let next = cursor.peek();
            let is_end = match next {
                ':' => is_blank_or_end(cursor.peek_after(1)),
                ',' | '?' | '[' | ']' | '{' | '}' => is_in_flow,
                _ => false,
            };
            if is_end {
                break;
            }
            gap.fold(&mut text);
            cursor.read(&mut text);
        }
        if !is_blank(cursor.peek()) && !is_break(cursor.peek()) {
            break;
        }
        while is_blank(cursor.peek()) || is_break(cursor.peek()) {
            if gap.is_broken && cursor.column < indent && cursor.peek() == '\t' {
                return Err(cursor.error("found a tab character that violates indentation"));
            }
            gap.read(cursor);
        }
        // A line that is not deeper than the block belongs to the next node.
        if !is_in_flow && cursor.column < indent {
            break;
        }
    }
    Ok((text, gap.is_broken))
}

/// Reads a scalar in single or double quotes, of which the first one is next.
///
/// # Errors
/// Go's message for a scalar that does not end, and for unknown escapes.
pub(super) fn quoted(cursor: &mut TextCursor<'_>) -> Result<String, String> {
    let quote = cursor.peek();
    let mut text = String::new();
    cursor.skip();
    loop {
        if cursor.is_at_mark("---") || cursor.is_at_mark("...") {
            return Err(cursor.error("found unexpected document indicator"));
        }
        if cursor.peek() == '\0' {
            return Err(cursor.error("found unexpected end of stream"));
        }
        let mut gap = Gap::default();
        while !is_blank_or_end(cursor.peek()) {
            let (next, following) = (cursor.peek(), cursor.peek_after(1));
            if next == '\'' && quote == '\'' && following == '\'' {
                cursor.skip();
                cursor.read(&mut text);
            } else if next == quote {
                break;
            } else if next == '\\' && quote == '"' {
                escape(cursor, following, &mut text, &mut gap)?;
                if gap.is_broken {
                    break;
                }
            } else {
                cursor.read(&mut text);
            }
        }
        if cursor.peek() == quote {
            cursor.skip();
            return Ok(text);
        }
        while is_blank(cursor.peek()) || is_break(cursor.peek()) {
            gap.read(cursor);
        }
        gap.fold(&mut text);
    }
}

/// Reads an escape, of which the backslash is next. An escaped line break starts a gap without a space.
fn escape(
    cursor: &mut TextCursor<'_>,
    escaped: char,
    text: &mut String,
    gap: &mut Gap,
) -> Result<(), String> {
    if is_break(escaped) {
        cursor.skip();
        cursor.skip_line_break();
        gap.is_broken = true;
        return Ok(());
    }
    let (digits, plain) = match escaped {
        '0' => (0, '\0'),
        'a' => (0, '\x07'),
        'b' => (0, '\x08'),
        't' | '\t' => (0, '\t'),
        'n' => (0, '\n'),
        'v' => (0, '\x0b'),
        'f' => (0, '\x0c'),
        'r' => (0, '\r'),
        'e' => (0, '\x1b'),
        ' ' | '"' | '\'' | '\\' => (0, escaped),
        'N' => (0, '\u{85}'),
        '_' => (0, '\u{a0}'),
        'L' => (0, '\u{2028}'),
        'P' => (0, '\u{2029}'),
        'x' => (2, '\0'),
        'u' => (4, '\0'),
        'U' => (8, '\0'),
        _ => return Err(cursor.error("found unknown escape character")),
    };
    cursor.skip();
    cursor.skip();
    if digits == 0 {
        text.push(plain);
        return Ok(());
    }
    let mut code = 0;
    for place in 0..digits {
        let Some(digit) = cursor.peek_after(place).to_digit(16) else {
            return Err(cursor.error("did not find expected hexdecimal number"));
        };
        code = code << 4 | digit;
    }
    let Some(character) = char::from_u32(code) else {
        return Err(cursor.error("found invalid Unicode character escape code"));
    };
    text.push(character);
    (0..digits).for_each(|_| cursor.skip());
    Ok(())
}

/// Treatment of the line breaks at the end of a block scalar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Chomping {
    /// `-`: the text has none of them.
    Strip,
    /// The text has the first one.
    Clip,
    /// `+`: the text has all of them.
    Keep,
}

/// Reads a block scalar, of which the `|` or `>` is next. `parent_indent` is the column of the surrounding block, if there is one.
///
/// # Errors
/// Go's message for a wrong header, and for tabs as indentation.
pub(super) fn block(cursor: &mut TextCursor<'_>, parent_indent: Option<usize>) -> Result<String, String> {
    let is_literal = cursor.peek() == '|';
    cursor.skip();
    let (chomping, increment) = block_header(cursor)?;
    cursor.skip_blanks();
    cursor.skip_comment();
    if !is_break_or_end(cursor.peek()) {
        return Err(cursor.error("did not find expected comment or line break"));
    }
    cursor.skip_line_break();

    let least = parent_indent.map_or(0, |indent| indent + 1);
    let mut indent = increment.map(|increment| parent_indent.unwrap_or(0) + increment);
    let mut text = String::new();
    // The break at the end of the last line, and those of the empty lines after it. The next line decides whether they are folded.
    let mut first_break = String::new();
    let mut breaks = String::new();
    let mut was_blank = false;
    let mut column = block_breaks(cursor, &mut indent, least, &mut breaks)?;
    while cursor.column == column && cursor.peek() != '\0' {
        // `>` folds the break between two lines. A line that begins with a blank keeps the breaks on both of its sides.
        let is_blank_now = is_blank(cursor.peek());
        if !is_literal && !was_blank && !is_blank_now && first_break.starts_with('\n') {
            if breaks.is_empty() {
                text.push(' ');
            }
        } else {
            text.push_str(&first_break);
        }
        first_break.clear();
        text.push_str(&breaks);
        breaks.clear();
        was_blank = is_blank_now;
        while !is_break_or_end(cursor.peek()) {
            cursor.read(&mut text);
        }
        cursor.read_line_break(&mut first_break);
        column = block_breaks(cursor, &mut indent, least, &mut breaks)?;
    }
    if chomping != Chomping::Strip {
        text.push_str(&first_break);
    }
    if chomping == Chomping::Keep {
        text.push_str(&breaks);
    }
    Ok(text)
}

/// Reads the indicators of a block scalar, in any order: chomping, and the indentation relative to the surrounding block.
fn block_header(cursor: &mut TextCursor<'_>) -> Result<(Chomping, Option<usize>), String> {
    let mut chomping = None;
    let mut increment = None;
    for _ in 0..2 {
        match cursor.peek() {
            '+' if chomping.is_none() => chomping = Some(Chomping::Keep),
            '-' if chomping.is_none() => chomping = Some(Chomping::Strip),
            '0' if increment.is_none() => {
                return Err(cursor.error("found an indentation indicator equal to 0"));
            }
            digit if digit.is_ascii_digit() && increment.is_none() => {
                increment = digit.to_digit(10).and_then(|digit| usize::try_from(digit).ok());
            }
            _ => break,
        }
        cursor.skip();
    }
    Ok((chomping.unwrap_or(Chomping::Clip), increment))
}

/// Reads the empty lines and the indentation before a line of a block scalar. Returns the indentation of the scalar. Without a number in its
/// header, its first line determines it, or a deeper empty line before that.
fn block_breaks(
    cursor: &mut TextCursor<'_>,
    indent: &mut Option<usize>,
    least: usize,
    breaks: &mut String,
) -> Result<usize, String> {
    let mut widest = 0;
    loop {
        let is_inside = |column: usize| indent.is_none_or(|indent| column < indent);
        while is_inside(cursor.column) && cursor.peek() == ' ' {
            cursor.skip();
        }
        widest = widest.max(cursor.column);
        if is_inside(cursor.column) && cursor.peek() == '\t' {
            return Err(cursor.error("found a tab character where an indentation space is expected"));
        }
        if !is_break(cursor.peek()) {
            break;
        }
        cursor.read_line_break(breaks);
    }
    Ok(*indent.get_or_insert(widest.max(least).max(1)))
}
