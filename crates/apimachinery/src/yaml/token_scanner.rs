//! Division of a YAML text into tokens, as in libyaml, of which Go's library is a translation.
//!
//! The indentation of blocks becomes tokens for their starts and ends. A key is known only at its colon: until then, the position of each
//! possible key is remembered, and the tokens for the key are inserted there later. A key must be on one line, and its colon follows within
//! 1024 characters.

use std::collections::{BTreeMap, VecDeque};

use super::text_cursor::{TextCursor, is_blank, is_blank_or_end, is_break_or_end};
use super::{scalar_scanner, tag_scanner};

/// Characters between the start of a key and its colon.
const KEY_LENGTH: usize = 1024;

/// A token with the line where it starts.
#[derive(Debug)]
pub(super) struct YamlToken {
    pub(super) kind: TokenKind,
    pub(super) line: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TokenKind {
    StreamEnd,
    VersionDirective { major: u32, minor: u32 },
    TagDirective { handle: String, prefix: String },
    DocumentStart,
    DocumentEnd,
    BlockListStart,
    BlockMapStart,
    BlockEnd,
    FlowListStart,
    FlowListEnd,
    FlowMapStart,
    FlowMapEnd,
    BlockEntry,
    FlowEntry,
    Key,
    Value,
    Alias(String),
    Anchor(String),
    Tag { handle: String, suffix: String },
    Scalar { text: String, is_plain: bool },
}

/// A place where a key may start.
#[derive(Debug, Default)]
struct PossibleKey {
    is_possible: bool,
    /// Whether the token must be a key, because it stands in the column of the innermost block.
    is_required: bool,
    /// Number of the token among all.
    token: usize,
    line: usize,
    column: usize,
    index: usize,
}

/// Divides a text into tokens.
#[derive(Debug)]
pub(super) struct TokenScanner<'a> {
    cursor: TextCursor<'a>,
    /// Tokens that were read ahead.
    tokens: VecDeque<YamlToken>,
    /// Number of tokens that were taken.
    taken: usize,
    /// Number of open brackets.
    flow_level: usize,
    /// Column of the innermost block, if there is one.
    indent: Option<usize>,
    outer_indents: Vec<Option<usize>>,
    /// Whether a key may start at the cursor.
    is_key_allowed: bool,
    /// One place for the blocks, and one for each open bracket.
    keys: Vec<PossibleKey>,
    /// Places in `keys` by the number of their token.
    keys_by_token: BTreeMap<usize, usize>,
}

impl<'a> TokenScanner<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            cursor: TextCursor::new(text),
            tokens: VecDeque::new(),
            taken: 0,
            flow_level: 0,
            indent: None,
            outer_indents: Vec::new(),
            is_key_allowed: true,
            keys: vec![PossibleKey::default()],
            keys_by_token: BTreeMap::new(),
        }
    }

    /// Returns the next token. At the end of the text, it is [`TokenKind::StreamEnd`] however often it is taken.
    ///
    /// # Errors
    /// Go's message.
    pub(super) fn peek(&mut self) -> Result<&YamlToken, String> {
        while self.needs_more()? {
            self.fetch()?;
        }
        Ok(self.tokens.front().expect("a token was fetched"))
    }

    /// Takes the token that [`peek`](Self::peek) returned last.
    pub(super) fn take(&mut self) -> YamlToken {
        self.taken += 1;
        self.tokens.pop_front().expect("the token was peeked at")
    }

    /// Whether there is no token yet, or the next one may become a key.
    fn needs_more(&mut self) -> Result<bool, String> {
        if self.tokens.is_empty() {
            return Ok(true);
        }
        match self.keys_by_token.get(&self.taken) {
            Some(place) => self.is_key_valid(*place),
            None => Ok(false),
        }
    }

    fn is_key_valid(&mut self, place: usize) -> Result<bool, String> {
        let Some(key) = self.keys.get_mut(place).filter(|key| key.is_possible) else {
            return Ok(false);
        };
        if key.line == self.cursor.line && self.cursor.index <= key.index + KEY_LENGTH {
            return Ok(true);
        }
        if key.is_required {
            return Err(self.cursor.error("could not find expected ':'"));
        }
        key.is_possible = false;
        Ok(false)
    }

    /// Remembers that a key may start here.
    fn save_key(&mut self) -> Result<(), String> {
        if !self.is_key_allowed {
            return Ok(());
        }
        self.remove_key()?;
        let token = self.taken + self.tokens.len();
        let cursor = &self.cursor;
        let key = PossibleKey {
            is_possible: true,
            is_required: self.flow_level == 0 && self.indent == Some(cursor.column),
            token,
            line: cursor.line,
            column: cursor.column,
            index: cursor.index,
        };
        *self.keys.last_mut().expect("the place of the blocks stays") = key;
        self.keys_by_token.insert(token, self.keys.len() - 1);
        Ok(())
    }

    /// Forgets the possible key of the innermost bracket or of the blocks.
    fn remove_key(&mut self) -> Result<(), String> {
        let key = self.keys.last_mut().expect("the place of the blocks stays");
        if key.is_possible {
            if key.is_required {
                return Err(self.cursor.error("could not find expected ':'"));
            }
            key.is_possible = false;
            self.keys_by_token.remove(&key.token);
        }
        Ok(())
    }

    fn push(&mut self, kind: TokenKind, line: usize) {
        self.tokens.push_back(YamlToken { kind, line });
    }

    /// Pushes a token of `length` characters, and moves over them.
    fn push_indicator(&mut self, kind: TokenKind, length: usize) {
        self.push(kind, self.cursor.line);
        (0..length).for_each(|_| self.cursor.skip());
    }

    /// Starts a block if `column` is deeper than the innermost one. The token is inserted before the token `before`, or at the end.
    fn start_block(&mut self, column: usize, before: Option<usize>, kind: TokenKind, line: usize) {
        if self.flow_level > 0 || self.indent.is_some_and(|indent| indent >= column) {
            return;
        }
        self.outer_indents.push(self.indent.replace(column));
        self.insert(before, kind, line);
    }

    /// Inserts a token before another one; at the end if there is none, or if that was taken.
    fn insert(&mut self, before: Option<usize>, kind: TokenKind, line: usize) {
        let place = before.and_then(|token| token.checked_sub(self.taken)).unwrap_or(self.tokens.len());
        self.tokens.insert(place, YamlToken { kind, line });
    }

    /// Ends the blocks that are deeper than `column`; all of them if it is `None`.
    fn end_blocks(&mut self, column: Option<usize>) {
        if self.flow_level > 0 {
            return;
        }
        while self.indent > column {
            self.push(TokenKind::BlockEnd, self.cursor.line);
            self.indent = self.outer_indents.pop().flatten();
        }
    }

    /// Reads the next token, and those that come with it.
    fn fetch(&mut self) -> Result<(), String> {
        self.skip_to_token();
        self.end_blocks(Some(self.cursor.column));
        let (next, following) = (self.cursor.peek(), self.cursor.peek_after(1));
        let is_in_flow = self.flow_level > 0;
        // `-`, `?` and `:` are indicators before a blank, and the last two always in brackets. Elsewhere they begin a plain scalar.
        let is_separated = is_blank_or_end(following);
        match next {
            '\0' => self.stream_end(),
            '%' if self.cursor.column == 0 => self.directive(),
            '-' if self.cursor.is_at_mark("---") => self.document_mark(TokenKind::DocumentStart),
            '.' if self.cursor.is_at_mark("...") => self.document_mark(TokenKind::DocumentEnd),
            '[' => self.bracket(TokenKind::FlowListStart),
            '{' => self.bracket(TokenKind::FlowMapStart),
            ']' => self.closing_bracket(TokenKind::FlowListEnd),
            '}' => self.closing_bracket(TokenKind::FlowMapEnd),
            ',' => {
                self.remove_key()?;
                self.is_key_allowed = true;
                self.push_indicator(TokenKind::FlowEntry, 1);
                Ok(())
            }
            '-' if is_separated => self.block_entry(),
            '?' if is_in_flow || is_separated => self.key(),
            ':' if is_in_flow || is_separated => self.value(),
            '*' | '&' => self.anchor(next == '*'),
            '!' => self.tag(),
            '|' | '>' if !is_in_flow => {
                self.remove_key()?;
                self.is_key_allowed = true;
                let line = self.cursor.line;
                let text = scalar_scanner::block(&mut self.cursor, self.indent)?;
                self.push(TokenKind::Scalar { text, is_plain: false }, line);
                Ok(())
            }
            '\'' | '"' => {
                self.save_key()?;
                self.is_key_allowed = false;
                let line = self.cursor.line;
                let text = scalar_scanner::quoted(&mut self.cursor)?;
                self.push(TokenKind::Scalar { text, is_plain: false }, line);
                Ok(())
            }
            '-' if !is_blank(following) => self.plain_scalar(),
            '?' | ':' if !is_in_flow && !is_separated => self.plain_scalar(),
            '-' | '?' | ':' | '#' | '|' | '>' | '%' | '@' | '`' => Err(self.no_token()),
            next if is_blank_or_end(next) => Err(self.no_token()),
            _ => self.plain_scalar(),
        }
    }

    fn no_token(&self) -> String {
        self.cursor.error("found character that cannot start any token")
    }

    /// Moves over white space and comments. Tabs count as white space where no key can start.
    fn skip_to_token(&mut self) {
        loop {
            while self.cursor.peek() == ' '
                || (self.cursor.peek() == '\t' && (self.flow_level > 0 || !self.is_key_allowed))
            {
                self.cursor.skip();
            }
            self.cursor.skip_comment();
            let line = self.cursor.line;
            self.cursor.skip_line_break();
            if self.cursor.line == line {
                return;
            }
            if self.flow_level == 0 {
                self.is_key_allowed = true;
            }
        }
    }

    fn stream_end(&mut self) -> Result<(), String> {
        self.cursor.end_line();
        self.end_blocks(None);
        self.remove_key()?;
        self.is_key_allowed = false;
        self.push(TokenKind::StreamEnd, self.cursor.line);
        Ok(())
    }

    fn document_mark(&mut self, kind: TokenKind) -> Result<(), String> {
        // Blocks and keys do not continue in the next document.
        self.end_blocks(None);
        self.remove_key()?;
        self.is_key_allowed = false;
        self.push_indicator(kind, 3);
        Ok(())
    }

    fn bracket(&mut self, kind: TokenKind) -> Result<(), String> {
        // The whole list or map in brackets may be a key.
        self.save_key()?;
        let token = self.taken + self.tokens.len();
        self.keys.push(PossibleKey { token, ..PossibleKey::default() });
        self.flow_level += 1;
        self.is_key_allowed = true;
        self.push_indicator(kind, 1);
        Ok(())
    }

    fn closing_bracket(&mut self, kind: TokenKind) -> Result<(), String> {
        self.remove_key()?;
        if self.flow_level > 0 {
            self.flow_level -= 1;
            if let Some(key) = self.keys.pop() {
                self.keys_by_token.remove(&key.token);
            }
        }
        self.is_key_allowed = false;
        self.push_indicator(kind, 1);
        Ok(())
    }

    /// Starts a block for an entry or key, unless it stands in brackets.
    fn start_block_here(&mut self, kind: TokenKind, refusal: &str) -> Result<(), String> {
        if self.flow_level > 0 {
            return Ok(());
        }
        if !self.is_key_allowed {
            return Err(self.cursor.error(refusal));
        }
        self.start_block(self.cursor.column, None, kind, self.cursor.line);
        Ok(())
    }

    fn block_entry(&mut self) -> Result<(), String> {
        let refusal = "block sequence entries are not allowed in this context";
        self.start_block_here(TokenKind::BlockListStart, refusal)?;
        self.remove_key()?;
        self.is_key_allowed = true;
        self.push_indicator(TokenKind::BlockEntry, 1);
        Ok(())
    }

    fn key(&mut self) -> Result<(), String> {
        let refusal = "mapping keys are not allowed in this context";
        self.start_block_here(TokenKind::BlockMapStart, refusal)?;
        self.remove_key()?;
        self.is_key_allowed = self.flow_level == 0;
        self.push_indicator(TokenKind::Key, 1);
        Ok(())
    }

    fn value(&mut self) -> Result<(), String> {
        let place = self.keys.len() - 1;
        if self.is_key_valid(place)? {
            let key = &mut self.keys[place];
            key.is_possible = false;
            let (token, line, column) = (key.token, key.line, key.column);
            self.keys_by_token.remove(&token);
            // The second token is inserted at the same place, and so comes before the first one.
            self.insert(Some(token), TokenKind::Key, line);
            self.start_block(column, Some(token), TokenKind::BlockMapStart, line);
            // `a: b: c` is an error.
            self.is_key_allowed = false;
        } else {
            // The key began with `?`, or is missing. Its value may be a map in the same line.
            let refusal = "mapping values are not allowed in this context";
            self.start_block_here(TokenKind::BlockMapStart, refusal)?;
            self.is_key_allowed = self.flow_level == 0;
        }
        self.push_indicator(TokenKind::Value, 1);
        Ok(())
    }

    fn plain_scalar(&mut self) -> Result<(), String> {
        self.save_key()?;
        self.is_key_allowed = false;
        let line = self.cursor.line;
        let indent = self.indent.map_or(0, |indent| indent + 1);
        let (text, is_broken) = scalar_scanner::plain(&mut self.cursor, indent, self.flow_level > 0)?;
        // A key may start on the line after the scalar.
        if is_broken {
            self.is_key_allowed = true;
        }
        self.push(TokenKind::Scalar { text, is_plain: true }, line);
        Ok(())
    }

    fn anchor(&mut self, is_alias: bool) -> Result<(), String> {
        self.save_key()?;
        self.is_key_allowed = false;
        let line = self.cursor.line;
        self.cursor.skip();
        let name = tag_scanner::word(&mut self.cursor);
        let next = self.cursor.peek();
        if name.is_empty() || !(is_blank_or_end(next) || "?:,]}%@`".contains(next)) {
            return Err(self.cursor.error("did not find expected alphabetic or numeric character"));
        }
        self.push(if is_alias { TokenKind::Alias(name) } else { TokenKind::Anchor(name) }, line);
        Ok(())
    }

    fn tag(&mut self) -> Result<(), String> {
        self.save_key()?;
        self.is_key_allowed = false;
        let line = self.cursor.line;
        let (handle, suffix) = tag_scanner::tag(&mut self.cursor)?;
        self.push(TokenKind::Tag { handle, suffix }, line);
        Ok(())
    }

    fn directive(&mut self) -> Result<(), String> {
        self.end_blocks(None);
        self.remove_key()?;
        self.is_key_allowed = false;
        let line = self.cursor.line;
        self.cursor.skip();
        let name = tag_scanner::word(&mut self.cursor);
        if name.is_empty() {
            return Err(self.cursor.error("could not find expected directive name"));
        }
        if !is_blank_or_end(self.cursor.peek()) {
            return Err(self.cursor.error("found unexpected non-alphabetical character"));
        }
        let kind = match name.as_str() {
            "YAML" => {
                let (major, minor) = tag_scanner::version(&mut self.cursor)?;
                TokenKind::VersionDirective { major, minor }
            }
            "TAG" => {
                let (handle, prefix) = tag_scanner::tag_prefix(&mut self.cursor)?;
                TokenKind::TagDirective { handle, prefix }
            }
            _ => return Err(self.cursor.error("found unknown directive name")),
        };
        self.cursor.skip_blanks();
        self.cursor.skip_comment();
        if !is_break_or_end(self.cursor.peek()) {
            return Err(self.cursor.error("did not find expected comment or line break"));
        }
        self.cursor.skip_line_break();
        self.push(kind, line);
        Ok(())
    }
}
