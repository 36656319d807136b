//! Finds where the values of a JSON text start and end, in one pass and without decoding them.
//!
//! Skipped values are not validated: braces and brackets are not distinguished, and a word may be anything. The decoder
//! reports such errors later. So a scan takes a fraction of the time of a parser.

use std::borrow::Cow;

use memchr::memchr2;

/// Scan state of a value that is skipped, possibly while it arrives. Each byte is scanned once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Skip {
    /// Number of open objects and arrays.
    depth: usize,
    within: Within,
}

/// Position at the end of the scanned bytes. Transitions at depth 0: `Nothing` → `Text` at a quote, → `Word` at any
/// other byte of a value; `Text` → `Escape` at a backslash, `Escape` → `Text` after one byte. Within objects and arrays
/// only `Nothing`, `Text` and `Escape` occur.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Within {
    #[default]
    Nothing,
    /// Inside a number, `true`, `false` or `null`.
    Word,
    Text,
    /// Inside a string, directly after a backslash.
    Escape,
}

impl Skip {
    /// Returns the number of open objects and arrays.
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    /// Scans the following bytes. Returns the offset of the end of the value, if it ends in them. The first call starts
    /// with the value's first byte.
    ///
    /// A number or word ends before the first byte that cannot belong to it. If it extends to the end of `bytes`, it may
    /// continue in the following bytes.
    pub(crate) fn advance(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            if self.depth > 0 {
                let rest = &bytes[at..];
                // The last block of a text is padded with zeros.
                let (block, length) = match rest.first_chunk() {
                    Some(block) => (*block, Block::LENGTH),
                    None => {
                        let mut block = [0; Block::LENGTH];
                        block[..rest.len()].copy_from_slice(rest);
                        (block, rest.len())
                    }
                };
                match self.pass(&Block::new(&block), length) {
                    Some(end) => return Some(at + end),
                    None => at += length,
                }
                continue;
            }
            match (self.within, byte) {
                (Within::Text, _) => {
                    at += memchr2(b'"', b'\\', &bytes[at..])?;
                    if bytes[at] == b'"' {
                        return Some(at + 1);
                    }
                    self.within = Within::Escape;
                }
                (Within::Escape, _) | (Within::Nothing, b'"') => self.within = Within::Text,
                (Within::Nothing, b'{' | b'[') => self.depth = 1,
                (_, b',' | b':' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t') => return Some(at),
                _ => self.within = Within::Word,
            }
            at += 1;
        }
        None
    }

    /// Advances over one 64-byte block of an object or array, of which the first `length` bytes are valid. Returns the
    /// offset after the closing bracket if the value ends in it.
    fn pass(&mut self, block: &Block, length: usize) -> Option<usize> {
        let Block { quotes, backslashes, begins, ends } = *block;
        // A byte after a backslash is escaped, unless the backslash is escaped itself.
        let mut escaped = u64::from(self.within == Within::Escape);
        let mut left = backslashes & !escaped;
        // Whether the last byte escapes the first byte of the next block.
        let mut escapes_next = false;
        while left != 0 {
            let at = left.trailing_zeros() as usize;
            escapes_next = at + 1 == length;
            let next = 1_u64.checked_shl(at as u32 + 1).unwrap_or_default();
            escaped |= next;
            left &= (left - 1) & !next;
        }
        let quotes = quotes & !escaped;
        // Bits from each opening quote to the byte before the closing one.
        let was_text = self.within != Within::Nothing;
        let texts = prefix_xor(quotes) ^ if was_text { u64::MAX } else { 0 };
        let (begins, mut ends) = (begins & !texts, ends & !texts);
        let is_text = was_text ^ (quotes.count_ones() % 2 == 1);
        self.within = match (is_text, escapes_next) {
            (false, _) => Within::Nothing,
            (true, false) => Within::Text,
            (true, true) => Within::Escape,
        };
        // The closing brackets cannot end the value: count them all at once.
        if self.depth > ends.count_ones() as usize {
            self.depth = self.depth + begins.count_ones() as usize - ends.count_ones() as usize;
            return None;
        }
        let mut ended = 0;
        // Find the first closing bracket at which as many are closed as were opened.
        while ends != 0 {
            let at = ends.trailing_zeros();
            ended += 1;
            if self.depth + (begins & ((1 << at) - 1)).count_ones() as usize == ended {
                *self = Self::default();
                return Some(at as usize + 1);
            }
            ends &= ends - 1;
        }
        self.depth = self.depth + begins.count_ones() as usize - ended;
        None
    }
}

/// Classification of 64 bytes, one bit per byte.
struct Block {
    quotes: u64,
    backslashes: u64,
    /// Opening braces and brackets.
    begins: u64,
    /// Closing braces and brackets.
    ends: u64,
}

impl Block {
    const LENGTH: usize = 64;

    fn new(bytes: &[u8; Self::LENGTH]) -> Self {
        // Braces and brackets of the same side differ only in this bit, and no other byte becomes a brace by setting
        // it.
        const SIDES: u8 = b'{' ^ b'[';
        Self {
            quotes: bits(bytes, |byte| byte == b'"'),
            backslashes: bits(bytes, |byte| byte == b'\\'),
            begins: bits(bytes, |byte| byte | SIDES == b'{'),
            ends: bits(bytes, |byte| byte | SIDES == b'}'),
        }
    }
}

/// Returns a bit for each byte. The compiler vectorizes the comparisons; the multiplication gathers the bits of eight
/// bytes.
fn bits(bytes: &[u8; Block::LENGTH], is: impl Fn(u8) -> bool) -> u64 {
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let flags = bytes.map(|byte| u8::from(is(byte)));
    let eights = flags.as_chunks::<8>().0;
    eights
        .iter()
        .rev()
        .fold(0, |bits, eight| (bits << 8) | (u64::from_le_bytes(*eight).wrapping_mul(GATHER) >> 56))
}

/// Replaces each bit by the parity of all bits up to it.
fn prefix_xor(bits: u64) -> u64 {
    [1, 2, 4, 8, 16, 32].iter().fold(bits, |bits, distance| bits ^ (bits << distance))
}

/// Cursor over a JSON text.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

/// Error: the text is not JSON, or not the expected value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no {expected} at byte {at}")]
pub(crate) struct Malformed {
    expected: &'static str,
    at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    /// Returns the current offset.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Returns the text since `begin`.
    pub(crate) fn since(&self, begin: usize) -> &'a [u8] {
        self.text.get(begin..self.at).unwrap_or_default()
    }

    /// Returns the next byte that is not white space.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        while matches!(self.text.get(self.at), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    /// Advances over an object. Calls `member` with each key; `member` must advance over the value.
    pub(crate) fn object(
        &mut self,
        mut member: impl FnMut(Cow<'a, str>, &mut Self) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        self.pass(b'{', "object")?;
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        loop {
            let key = self.string()?;
            self.pass(b':', "colon")?;
            member(key, self)?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return Err(self.missing("comma or end of an object")),
            }
        }
    }

    /// Advances over a string, and returns it decoded.
    pub(crate) fn string(&mut self) -> Result<Cow<'a, str>, Malformed> {
        if self.peek() != Some(b'"') {
            return Err(self.missing("string"));
        }
        let begin = self.at;
        let rest = self.text.get(begin + 1..).unwrap_or_default();
        let read = match memchr2(b'"', b'\\', rest) {
            Some(end) if rest[end] == b'"' => {
                self.at = begin + end + 2;
                std::str::from_utf8(&rest[..end]).map(Cow::Borrowed).ok()
            }
            // Few strings contain escapes.
            _ => serde_json::from_slice(self.value()?).map(Cow::Owned).ok(),
        };
        read.ok_or(Malformed { expected: "string", at: begin })
    }

    /// Advances over a string or `null`, and returns the string decoded.
    pub(crate) fn optional_string(&mut self) -> Result<Option<Cow<'a, str>>, Malformed> {
        match self.peek() {
            Some(b'n') => self.value().map(|_| None),
            _ => self.string().map(Some),
        }
    }

    /// Advances over any value, and returns its text.
    pub(crate) fn value(&mut self) -> Result<&'a [u8], Malformed> {
        let first = self.peek();
        let rest = &self.text[self.at..];
        let length = match first {
            None | Some(b',' | b':' | b'}' | b']') => 0,
            // The most frequent value.
            Some(b'"') => string_end(rest).unwrap_or(0),
            // A number or word may extend to the end of the text.
            Some(byte) => Skip::default().advance(rest).unwrap_or(match byte {
                b'{' | b'[' => 0,
                _ => rest.len(),
            }),
        };
        if length == 0 {
            return Err(self.missing("value"));
        }
        self.at += length;
        Ok(&rest[..length])
    }

    /// Checks that nothing but white space follows.
    pub(crate) fn end(&mut self) -> Result<(), Malformed> {
        self.peek().map_or(Ok(()), |_| Err(self.missing("end of the text")))
    }

    fn pass(&mut self, byte: u8, expected: &'static str) -> Result<(), Malformed> {
        if self.peek() == Some(byte) {
            self.at += 1;
            return Ok(());
        }
        Err(self.missing(expected))
    }

    fn missing(&self, expected: &'static str) -> Malformed {
        Malformed { expected, at: self.at }
    }
}

/// Returns the length of the string, quotes included, with which `text` begins; `None` if it does not end in `text`.
fn string_end(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        at += memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            return Some(at + 1);
        }
        at += 2; // the escaped byte may be a quote
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value};

    use super::*;

    /// Returns the end of the value at the start of the text, which arrives in pieces of these lengths.
    fn end(text: &[u8], pieces: &[usize]) -> Option<usize> {
        let (mut skip, mut at, mut pieces) = (Skip::default(), 0, pieces.iter());
        while at < text.len() {
            let piece = pieces.next().copied().unwrap_or(usize::MAX).min(text.len() - at);
            if let Some(end) = skip.advance(&text[at..at + piece]) {
                return Some(at + end);
            }
            at += piece;
        }
        None
    }

    #[test]
    fn backslashes_count_wherever_blocks_end() {
        for before in 0..130 {
            for backslashes in 0..5 {
                let text = format!(r#"{{"{}{}"}}"#, "x".repeat(before), r"\\".repeat(backslashes));
                assert_eq!(end(format!("{text}}}").as_bytes(), &[]), Some(text.len()), "{text}");
                let open = format!(r#"{{"{}{}\""}}"#, "x".repeat(before), r"\\".repeat(backslashes));
                assert_eq!(end(format!("{open}}}").as_bytes(), &[]), Some(open.len()), "{open}");
                let unclosed = format!(r#"{{"{}{}\"}}"#, "x".repeat(before), r"\\".repeat(backslashes));
                assert_eq!(end(unclosed.as_bytes(), &[]), None, "{unclosed}");
            }
        }
    }

    #[test]
    fn strings_end_at_the_first_quote_that_is_not_escaped() {
        for (text, expected) in [
            (r#""a" "#, Some(("a", 3))),
            (r#""", "#, Some(("", 2))),
            (r#""a\"b\\"c"#, Some((r#"a"b\"#, 8))),
            (r#""\u00e4ä""#, Some(("ää", 10))),
            (r#""a\"#, None),
            (r#""a\""#, None),
            (r#""a"#, None),
            (r#"""#, None),
            (r#""\x""#, None),
            ("7", None),
        ] {
            let mut reader = Reader::new(text.as_bytes());
            let string = reader.string().ok().map(|string| (string.into_owned(), reader.at()));
            assert_eq!(string, expected.map(|(string, end)| (string.to_owned(), end)), "{text}");
            // A value is not decoded.
            let mut reader = Reader::new(text.as_bytes());
            let end = reader.value().ok().map(|_| reader.at());
            assert!(expected.is_none() || end == expected.map(|(_, end)| end), "{text}");
        }
        assert!(Reader::new(b"\"\xff\"").string().is_err(), "not UTF-8");
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::from),
            "[\"{}\\[\\],:\\\\ax]{0,90}".prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map("[\"{}\\\\a]{0,9}", inner, 0..5)
                    .prop_map(|map| Value::from(Map::from_iter(map))),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_end_of_any_value_is_found_however_it_is_split(
            value in value(),
            pieces in prop::collection::vec(1..150_usize, 0..20),
            after in "[]},\" 1]{0,80}",
        ) {
            let text = value.to_string();
            prop_assert_eq!(end(format!("{text},{after}").as_bytes(), &pieces), Some(text.len()));
            let begun = &text.as_bytes()[..text.len() - 1];
            prop_assert!(value.is_number() || value.is_null() || end(begun, &pieces).is_none());
        }
    }
}
