//! Styles of YAML scalars: plain, quoted or block, as the emitter of Go's YAML library chooses and writes them.

use std::fmt::Write;

use super::plain_type;
use super::text_cursor::{is_blank, is_break};

/// Column after which a space becomes a line break.
const WIDTH: usize = 80;
/// Longest text in bytes that is a simple key (`key: value`). Longer keys are written as `? key`.
const SIMPLE_KEY: usize = 128;

/// Rules for the choice of a style.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rules {
    /// Rules of Go's library: long lines are folded, and characters above U+FFFF are escaped.
    Go,
    /// Rules of files that people read: lines are never folded, and a text of several lines keeps them if possible.
    Handwritten,
}

/// Position of a scalar in the document.
#[derive(Debug, Clone, Copy)]
pub(super) struct ScalarPlace {
    /// Indentation of further lines of the scalar.
    pub(super) indent: usize,
    /// Whether the scalar is a key before `: `, which stands on one line.
    pub(super) is_simple_key: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    Plain,
    SingleQuoted,
    DoubleQuoted,
    Literal,
}

/// Whether a key is written as `key:`; other keys are written as `? key`.
pub(super) fn is_simple_key(key: &str) -> bool {
    key.len() <= SIMPLE_KEY && !key.contains(is_break)
}

/// Whether a text is written without quotes.
pub(super) fn is_plain(text: &str, rules: Rules) -> bool {
    let place = ScalarPlace { indent: 0, is_simple_key: true };
    style(text, place, rules) == Style::Plain
}

/// Writes a string.
pub(super) fn write(out: &mut String, text: &str, place: ScalarPlace, rules: Rules) {
    let style = style(text, place, rules);
    let line = out.rfind('\n').map_or(0, |at| at + 1);
    let column = out[line..].chars().count();
    let may_fold = !place.is_simple_key && rules == Rules::Go;
    let mut lines = Lines { out, column, indent: place.indent, may_fold };
    match style {
        Style::Plain => lines.plain(text),
        Style::SingleQuoted => lines.single_quoted(text),
        Style::DoubleQuoted => lines.double_quoted(text, rules),
        Style::Literal => lines.literal(text),
    }
}

fn style(text: &str, place: ScalarPlace, rules: Rules) -> Style {
    let allowed = Analysis::of(text, rules);
    let wanted = if text.contains('\n') {
        Style::Literal
    } else if plain_type::is_string(text) && !(rules == Rules::Handwritten && matches!(text, "<<" | "=")) {
        Style::Plain
    } else {
        Style::DoubleQuoted
    };
    match wanted {
        _ if place.is_simple_key && text.contains(is_break) => Style::DoubleQuoted,
        Style::Literal if allowed.literal => Style::Literal,
        Style::Plain if allowed.plain => Style::Plain,
        Style::Plain if allowed.single_quoted => Style::SingleQuoted,
        _ => Style::DoubleQuoted,
    }
}

/// Styles that can represent a text.
#[derive(Debug)]
struct Analysis {
    plain: bool,
    single_quoted: bool,
    literal: bool,
}

impl Analysis {
    fn of(text: &str, rules: Rules) -> Self {
        let mut has_indicator = text.starts_with("---") || text.starts_with("...");
        let (mut is_special, mut has_break) = (false, false);
        let (mut breaks_before_space, mut spaces_before_break) = (false, false);
        let mut before = None;
        let mut rest = text.chars().peekable();
        while let Some(c) = rest.next() {
            let ends_word = rest.peek().is_none_or(|next| is_blank(*next));
            has_indicator |= match (before, c) {
                (
                    None,
                    '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@'
                    | '`',
                ) => true,
                (None, '?' | '-') | (_, ':') => ends_word,
                (Some(before), '#') => is_blank(before) || is_break(before) || before == '\0',
                _ => false,
            };
            is_special |= !is_printable(c, rules);
            has_break |= is_break(c);
            breaks_before_space |= c == ' ' && before.is_some_and(is_break);
            spaces_before_break |= is_break(c) && before == Some(' ');
            before = Some(c);
        }
        let is_outer = |c: char| c == ' ' || is_break(c);
        // Go's emitter never writes a block with a space before a line break, although YAML allows it.
        let keeps_lines = rules == Rules::Handwritten || !spaces_before_break;
        Self {
            plain: !(has_indicator
                || is_special
                || has_break
                || text.starts_with(is_outer)
                || text.ends_with(is_outer)),
            single_quoted: !(is_special || breaks_before_space || spaces_before_break),
            literal: !(is_special || text.ends_with(' ')) && keeps_lines,
        }
    }
}

/// Whether a character is written unescaped.
fn is_printable(c: char, rules: Rules) -> bool {
    match c {
        '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}' => {
            rules == Rules::Go || !matches!(c, '\u{2028}' | '\u{2029}')
        }
        '\u{10000}'.. => rules == Rules::Handwritten,
        _ => false,
    }
}

/// Output with the column of the next character.
struct Lines<'a> {
    out: &'a mut String,
    column: usize,
    indent: usize,
    may_fold: bool,
}

impl Lines<'_> {
    fn put(&mut self, c: char) {
        self.out.push(c);
        self.column += 1;
    }

    fn break_line(&mut self, c: char) {
        self.out.push(c);
        self.column = 0;
    }

    fn pad(&mut self) {
        while self.column < self.indent {
            self.put(' ');
        }
    }

    /// Replaces a space by a line break.
    fn fold(&mut self) {
        self.break_line('\n');
        self.pad();
    }

    fn plain(&mut self, text: &str) {
        let mut after_space = false;
        let mut rest = text.chars().peekable();
        while let Some(c) = rest.next() {
            let is_last_space = c == ' ' && rest.peek() != Some(&' ');
            if is_last_space && !after_space && self.may_fold && self.column > WIDTH {
                self.fold();
            } else {
                self.put(c);
            }
            after_space = c == ' ';
        }
    }

    fn single_quoted(&mut self, text: &str) {
        self.put('\'');
        let (mut after_space, mut after_break) = (false, false);
        let mut rest = text.char_indices().peekable();
        while let Some((at, c)) = rest.next() {
            if c == ' ' {
                let is_inner = at > 0 && rest.peek().is_some_and(|(_, next)| *next != ' ');
                if is_inner && !after_space && self.may_fold && self.column > WIDTH {
                    self.fold();
                } else {
                    self.put(c);
                }
                after_space = true;
            } else if is_break(c) {
                self.break_line(c);
                after_break = true;
            } else {
                if after_break {
                    self.pad();
                }
                if c == '\'' {
                    self.put(c);
                }
                self.put(c);
                (after_space, after_break) = (false, false);
            }
        }
        self.put('\'');
    }

    fn double_quoted(&mut self, text: &str, rules: Rules) {
        self.put('"');
        // A quirk of Go: if a text begins with a byte-order mark, every character is escaped.
        let escapes_all = text.starts_with('\u{feff}');
        let mut after_space = false;
        let mut rest = text.char_indices().peekable();
        while let Some((at, c)) = rest.next() {
            let next = rest.peek().map(|(_, next)| *next);
            if escapes_all || !is_printable(c, rules) || is_break(c) || matches!(c, '"' | '\\') {
                self.escape(c);
            } else if c == ' '
                && at > 0
                && next.is_some()
                && !after_space
                && self.may_fold
                && self.column > WIDTH
            {
                self.fold();
                if next == Some(' ') {
                    // Without it, the next space would belong to the indentation.
                    self.put('\\');
                }
                after_space = true;
                continue;
            } else {
                self.put(c);
            }
            after_space = c == ' ' && !escapes_all;
        }
        self.put('"');
    }

    fn escape(&mut self, c: char) {
        let name = match c {
            '\0' => '0',
            '\u{7}' => 'a',
            '\u{8}' => 'b',
            '\t' => 't',
            '\n' => 'n',
            '\u{b}' => 'v',
            '\u{c}' => 'f',
            '\r' => 'r',
            '\u{1b}' => 'e',
            '"' | '\\' => c,
            '\u{85}' => 'N',
            '\u{a0}' => '_',
            '\u{2028}' => 'L',
            '\u{2029}' => 'P',
            _ => return self.escape_by_number(u32::from(c)),
        };
        self.put('\\');
        self.put(name);
    }

    fn escape_by_number(&mut self, code: u32) {
        let before = self.out.len();
        // Writing into a String cannot fail.
        let _ = match code {
            ..=0xff => write!(self.out, "\\x{code:02X}"),
            0x100..=0xffff => write!(self.out, "\\u{code:04X}"),
            _ => write!(self.out, "\\U{code:08X}"),
        };
        self.column += self.out.len() - before;
    }

    /// Writes a block that keeps the lines of the text.
    fn literal(&mut self, text: &str) {
        self.put('|');
        if text.starts_with(|c| c == ' ' || is_break(c)) {
            // Readers cannot detect the indentation from such a first line, so the header contains it.
            self.put('2');
        }
        // `-` stands for no line break at the end, and `+` for several. Without a sign, the text ends with one.
        let mut ends = text.chars().rev();
        match (ends.next().is_some_and(is_break), ends.next().is_none_or(is_break)) {
            (false, _) => self.put('-'),
            (true, true) => self.put('+'),
            (true, false) => {}
        }
        self.break_line('\n');
        let mut begins_line = true;
        for c in text.chars() {
            if is_break(c) {
                self.break_line(c);
            } else {
                if begins_line {
                    self.pad();
                }
                self.put(c);
            }
            begins_line = is_break(c);
        }
    }
}
